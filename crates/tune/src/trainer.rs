// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that trains a knob's network while other threads observe and decide.
//!
//! Observers put labelled rows into a ring, without waiting or allocating; a full ring drops the newest row and counts
//! it. The thread learns each row (normaliser first, then one step of gradient descent). It publishes a copy of the
//! model after `publish_rows` more rows, or when no rows are left. Without rows it sleeps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use linnet_core::{Consumer, KNOB_INPUTS_MAX, Normaliser, Producer, Sampler, SmallNetwork, StepOptions, ring};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Reasons why a trainer does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainerError {
    /// An error of the network, its training or the ring.
    #[error(transparent)]
    Core(#[from] linnet_core::Error),
    /// An error of the thread.
    #[error("trainer: cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// Invalid options.
    #[error("trainer: {0}")]
    Options(String),
}

/// Maximum sleep. A producer wakes the thread; this limits the cost of a missed wake.
const NAP: Duration = Duration::from_secs(1);

/// Options of a trainer.
#[derive(Clone, Debug)]
pub struct TrainerOptions {
    /// Maximum number of waiting rows: a power of two.
    pub capacity: usize,
    /// Share of the offered rows that are learned, in millionths; the others are counted and left out.
    pub share_ppm: u32,
    /// Seed of that choice.
    pub seed: u64,
    /// Options of each step.
    pub step: StepOptions,
    /// Publish a copy of the model after this many rows, and whenever none wait.
    pub publish_rows: u64,
    /// Run on this CPU only.
    pub cpu: Option<usize>,
}

/// A network and the normaliser of its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Learns each row before the network does.
    pub normaliser: Normaliser,
    /// Works on z-scores.
    pub network: SmallNetwork,
    /// Rows learned by this trainer.
    pub rows: u64,
}

/// Counts of the rows that were offered, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken by the sampler and put into the ring.
    pub accepted: u64,
    /// Left out by the sampler.
    pub left_out: u64,
    /// Lost because the ring was full.
    pub lost: u64,
    /// Learned.
    pub learned: u64,
    /// Not learned by the network: a number was not finite, or the step was refused; in the second case the normaliser has
    /// learned the row.
    pub refused: u64,
}

struct Shared {
    model: Mutex<Arc<Learned>>,
    learned: AtomicU64,
    refused: AtomicU64,
    asleep: AtomicBool,
    stop: AtomicBool,
}

/// The side that offers rows, used by one thread.
pub struct Offer {
    producer: Producer,
    sampler: Sampler,
    shared: Arc<Shared>,
    thread: Thread,
    inputs: usize,
    outputs: usize,
}

/// A running trainer. It stops when dropped.
pub struct Trainer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a thread that continues from this model.
pub fn start(options: &TrainerOptions, model: Learned) -> Result<(Trainer, Offer), TrainerError> {
    let (inputs, outputs) = (model.network.inputs(), model.network.outputs());
    if model.normaliser.inputs() != inputs {
        return Err(TrainerError::Options(format!(
            "a normaliser of {} features before a network of {inputs}",
            model.normaliser.inputs()
        )));
    }
    // An invalid step is refused here, and not at each row.
    model.network.clone().train(&options.step, &[0.0; KNOB_INPUTS_MAX][..inputs], &vec![0.0; outputs])?;
    let (producer, consumer) = ring(options.capacity, words(inputs))?;
    let sampler = Sampler::new(options.share_ppm, options.seed)?;
    let shared = Arc::new(Shared {
        model: Mutex::new(Arc::new(model.clone())),
        learned: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        asleep: AtomicBool::new(false),
        stop: AtomicBool::new(false),
    });
    let (theirs, options) = (shared.clone(), options.clone());
    let (told, pinned) = std::sync::mpsc::channel();
    let run = move || {
        let done = options.cpu.map_or(Ok(()), pin);
        let failed = done.is_err();
        if told.send(done).is_err() || failed {
            return;
        }
        Worker { shared: theirs, consumer, options, model, unpublished: 0 }.run();
    };
    let thread = thread::Builder::new().name("linnet-trainer".into()).spawn(run)?;
    match pinned.recv() {
        Ok(done) => done?,
        Err(_) => return Err(TrainerError::Options("the thread ended before it began".into())),
    }
    let offer = Offer { producer, sampler, shared: shared.clone(), thread: thread.thread().clone(), inputs, outputs };
    Ok((Trainer { shared, thread: Some(thread) }, offer))
}

/// Words of a record: features, two per word, and the class.
fn words(inputs: usize) -> usize {
    inputs.div_ceil(2) + 1
}

fn pin(cpu: usize) -> Result<(), TrainerError> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(TrainerError::Options(format!("CPU {cpu}; at most {}", CpuSet::MAX_CPU - 1)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|error| TrainerError::Options(format!("CPU {cpu}: {error}; name one that this process may use")))
}

impl Offer {
    /// Offers a row of this class. True if it will be learned; false if the sampler leaves it out or the ring is full.
    ///
    /// # Panics
    /// If the row or the class does not fit the model's shape.
    pub fn put(&mut self, row: &[f32], class: usize) -> bool {
        assert_eq!(row.len(), self.inputs, "features of a row");
        assert!(class < self.outputs, "class {class} of {}", self.outputs);
        if !self.sampler.keep() {
            return false;
        }
        let mut record = [0u64; KNOB_INPUTS_MAX / 2 + 1];
        for (i, x) in row.iter().enumerate() {
            record[i / 2] |= u64::from(x.to_bits()) << (32 * (i % 2));
        }
        record[words(self.inputs) - 1] = class as u64;
        let accepted = self.producer.put(&record[..words(self.inputs)]);
        // Either this sees that the thread sleeps, or the thread sees the row before it sleeps: both use a fence in
        // between.
        fence(Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::Relaxed) {
            self.thread.unpark();
        }
        accepted
    }

    /// Counts so far; waiting rows are accepted and not yet learned.
    pub fn counts(&self) -> Counts {
        let (seen, kept) = self.sampler.counts();
        let lost = self.producer.lost();
        Counts {
            accepted: kept - lost,
            left_out: seen - kept,
            lost,
            learned: self.shared.learned.load(Ordering::Acquire),
            refused: self.shared.refused.load(Ordering::Acquire),
        }
    }
}

impl Trainer {
    /// The model as last published.
    pub fn model(&self) -> Arc<Learned> {
        self.shared.model.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Learns the waiting rows, stops the thread, and returns the model.
    pub fn finish(mut self) -> Arc<Learned> {
        self.stop();
        self.model()
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been printed; the model published last remains.
            drop(thread.join());
        }
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Worker {
    shared: Arc<Shared>,
    consumer: Consumer,
    options: TrainerOptions,
    model: Learned,
    unpublished: u64,
}

impl Worker {
    fn run(mut self) {
        let mut record = [0u64; KNOB_INPUTS_MAX / 2 + 1];
        let used = words(self.model.network.inputs());
        loop {
            // Read before the ring is emptied, so that rows put before the stop are still learned.
            let stop = self.shared.stop.load(Ordering::SeqCst);
            while self.consumer.take(&mut record[..used]) {
                self.learn(&record[..used]);
            }
            self.publish();
            if stop {
                return;
            }
            self.shared.asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.consumer.waiting() == 0 && !self.shared.stop.load(Ordering::SeqCst) {
                thread::park_timeout(NAP);
            }
            self.shared.asleep.store(false, Ordering::Relaxed);
        }
    }

    fn learn(&mut self, record: &[u64]) {
        let inputs = self.model.network.inputs();
        let (mut row, mut z) = ([0.0; KNOB_INPUTS_MAX], [0.0; KNOB_INPUTS_MAX]);
        let (row, z) = (&mut row[..inputs], &mut z[..inputs]);
        for (i, x) in row.iter_mut().enumerate() {
            *x = f32::from_bits((record[i / 2] >> (32 * (i % 2))) as u32);
        }
        let class = record[record.len() - 1] as usize;
        let done = self
            .model
            .normaliser
            .learn(row)
            .and_then(|()| self.model.normaliser.apply(row, z))
            .and_then(|()| self.model.network.train_class(&self.options.step, z, class));
        if done.is_err() {
            self.shared.refused.fetch_add(1, Ordering::Release);
            return;
        }
        self.model.rows += 1;
        self.unpublished += 1;
        self.shared.learned.fetch_add(1, Ordering::Release);
        if self.unpublished >= self.options.publish_rows.max(1) {
            self.publish();
        }
    }

    fn publish(&mut self) {
        if self.unpublished == 0 {
            return;
        }
        self.unpublished = 0;
        let copy = Arc::new(self.model.clone());
        *self.shared.model.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = copy;
    }
}
