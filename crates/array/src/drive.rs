// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives an array over virtual-time devices.
//!
//! Arrivals come from the streams and everything else from the event queue. At equal times what the devices and timers have
//! to say comes first, so that an arriving read sees every completion of its own nanosecond. The run ends when all arrived
//! and all is answered, losers of races included. The same devices, streams, settings and policy give the same run; its hash tells.

use linnet_sim::EventQueue;
use linnet_types::{Device, IoRecord, Nanos, Op, Outcome, Request, Thresholds};

use crate::{Array, Config, CopyId, Counters, Error, Output, Policy, TimerId};

/// I/Os between two calls of [`Observer::progress`].
const PROGRESS_EVERY: u64 = 8192;

/// How to run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunOptions {
    /// The array.
    pub array: Config,
    /// Keep a record of every I/O as its device saw it.
    pub log: bool,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// I/Os that arrived.
    pub done: u64,
    /// I/Os of the whole run.
    pub total: u64,
    /// Virtual time.
    pub now_ns: Nanos,
}

/// What is fed to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request arrives.
    Arrive {
        /// Its name.
        tag: u64,
        /// Its stream.
        stream: usize,
        /// What it asks for.
        request: Request,
    },
    /// A copy completed.
    Completed(CopyId),
    /// A copy failed.
    Failed(CopyId),
    /// A device refused a copy. Virtual-time devices do not.
    Revoked(CopyId),
    /// A device cancelled a copy. Virtual-time devices do not.
    Cancelled(CopyId),
    /// A timer rings.
    Timer(TimerId),
}

/// Watches a run. The default of each call does nothing.
pub trait Observer {
    /// Called every few thousand I/Os. False stops the run with [`Error::Interrupted`].
    fn progress(&mut self, _progress: Progress) -> bool {
        true
    }

    /// The array is about to be fed this.
    fn input(&mut self, _now: Nanos, _input: &Input) {}

    /// The array asked for this.
    fn output(&mut self, _now: Nanos, _output: &Output) {}

    /// One input has been dealt with.
    fn step(&mut self, _now: Nanos, _array: &Array) {}
}

/// Watches nothing.
impl Observer for () {}

/// Answered reads, in the order of their answers; one entry in each list per read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadLatencies {
    /// From arrival at the array to the answer: revokes, failovers and hedges included.
    pub latency_ns: Vec<Nanos>,
    /// When the read arrived.
    pub arrive_ns: Vec<Nanos>,
    /// The stream it belongs to.
    pub stream: Vec<u16>,
    /// The tenant that asked.
    pub tenant: Vec<u32>,
}

/// What a run gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunResult {
    /// What users of reads saw.
    pub reads: ReadLatencies,
    /// Counts.
    pub counters: Counters,
    /// One number for everything that went in and out of the array, in order and with times.
    pub event_hash: u64,
    /// Virtual time of the last event.
    pub end_ns: Nanos,
    /// Every I/O as its device saw it, by device, in the order of submission; empty unless asked for. `arrive_ns` is the time of
    /// the submit; the latency is missing where the device failed or never answered. Training data for `linnet-learn`.
    pub log: Vec<Vec<IoRecord>>,
}

#[derive(Clone, Copy)]
enum Event {
    Completed(CopyId),
    Failed(CopyId),
    Timer(TimerId),
}

/// Runs `streams` (one list of records per stream, each in the order of arrival; stream i has device i mod n as its primary)
/// through an array of `devices`.
///
/// # Errors
/// Wrong settings, a number of thresholds other than the number of devices, records out of order or empty, and a stop asked for
/// by the observer.
pub fn run<D: Device, O: Observer>(
    devices: &mut [D],
    streams: &[&[IoRecord]],
    thresholds: &[Thresholds],
    policy: Box<dyn Policy>,
    options: &RunOptions,
    observer: &mut O,
) -> Result<RunResult, Error> {
    if thresholds.len() != devices.len() {
        return Err(Error::Count { what: "thresholds", got: thresholds.len(), devices: devices.len() });
    }
    let array = Array::new(options.array, thresholds, policy)?;
    drive(array, devices, streams, options.log, observer)
}

/// [`run`] with an array that is ready.
pub(crate) fn drive<D: Device, O: Observer>(
    array: Array,
    devices: &mut [D],
    streams: &[&[IoRecord]],
    log: bool,
    observer: &mut O,
) -> Result<RunResult, Error> {
    if streams.len() > usize::from(u16::MAX) {
        let expected = format!("give at most {} streams", u16::MAX);
        return Err(Error::Setting { field: "streams", value: streams.len().to_string(), expected });
    }
    let total = streams.iter().map(|stream| stream.len() as u64).sum();
    let reads = streams.iter().flat_map(|stream| stream.iter()).filter(|record| record.op.is_read()).count();
    let mut driver = Driver {
        array,
        devices,
        queue: EventQueue::new(),
        out: Vec::with_capacity(64),
        result: RunResult::default(),
        log,
        observer,
    };
    if log {
        driver.result.log = vec![Vec::new(); driver.devices.len()];
    }
    driver.result.reads.latency_ns.reserve(reads);
    driver.result.reads.arrive_ns.reserve(reads);
    driver.result.reads.stream.reserve(reads);
    driver.result.reads.tenant.reserve(reads);

    let mut arrivals = Arrivals::new(streams);
    let mut done = 0;
    loop {
        let event_ns = driver.queue.next_ns();
        match arrivals.next_ns() {
            Some(at) if event_ns.is_none_or(|due| at < due) => {
                let (stream, record) = arrivals.take()?;
                driver.arrive(done, stream, record);
                done += 1;
                if done % PROGRESS_EVERY == 0
                    && !driver.observer.progress(Progress { done, total, now_ns: driver.queue.now_ns() })
                {
                    return Err(Error::Interrupted { done, total });
                }
            }
            None if driver.array.live() == 0 => break,
            _ => {
                let Some((now, event)) = driver.queue.pop() else {
                    return Err(Error::Stuck { live: driver.array.live() });
                };
                driver.happen(now, event);
            }
        }
    }
    driver.result.counters = *driver.array.counters();
    driver.result.end_ns = driver.queue.now_ns();
    Ok(driver.result)
}

/// The streams, merged by time; of equals, the lower stream first.
struct Arrivals<'a> {
    streams: &'a [&'a [IoRecord]],
    taken: Vec<usize>,
    next: Option<(Nanos, usize)>,
}

impl<'a> Arrivals<'a> {
    fn new(streams: &'a [&'a [IoRecord]]) -> Self {
        let mut arrivals = Arrivals { streams, taken: vec![0; streams.len()], next: None };
        arrivals.find();
        arrivals
    }

    fn find(&mut self) {
        let heads = self.streams.iter().zip(&self.taken).enumerate();
        self.next = heads.filter_map(|(i, (stream, &n))| stream.get(n).map(|record| (record.arrive_ns, i))).min();
    }

    fn next_ns(&self) -> Option<Nanos> {
        self.next.map(|(at, _)| at)
    }

    fn take(&mut self) -> Result<(usize, &'a IoRecord), Error> {
        let (_, stream) = self.next.expect("asked for after next_ns");
        let n = self.taken[stream];
        let record = &self.streams[stream][n];
        if record.size_bytes == 0 {
            return Err(Error::EmptyRecord { stream, record: n });
        }
        self.taken[stream] += 1;
        if let Some(after) = self.streams[stream].get(n + 1)
            && after.arrive_ns < record.arrive_ns
        {
            let (arrive_ns, previous_ns) = (after.arrive_ns, record.arrive_ns);
            return Err(Error::Unordered { stream, record: n + 1, arrive_ns, previous_ns });
        }
        self.find();
        Ok((stream, record))
    }
}

struct Driver<'a, D, O> {
    array: Array,
    devices: &'a mut [D],
    queue: EventQueue<Event>,
    out: Vec<Output>,
    result: RunResult,
    log: bool,
    observer: &'a mut O,
}

impl<D: Device, O: Observer> Driver<'_, D, O> {
    fn arrive(&mut self, tag: u64, stream: usize, record: &IoRecord) {
        let now = record.arrive_ns;
        let request = record.request();
        self.queue.advance(now);
        self.note(now, 1, tag);
        self.observer.input(now, &Input::Arrive { tag, stream, request });
        self.array.arrive(now, tag, stream, &request, &Peek(self.devices), &mut self.out);
        self.carry_out(now);
    }

    fn happen(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Completed(copy) => {
                self.note(now, 2, copy.0);
                self.observer.input(now, &Input::Completed(copy));
                self.array.completed(now, copy, &mut self.out);
            }
            Event::Failed(copy) => {
                self.note(now, 3, copy.0);
                self.observer.input(now, &Input::Failed(copy));
                self.array.failed(now, copy, &mut self.out);
            }
            Event::Timer(timer) => {
                self.note(now, 4, timer.0);
                self.observer.input(now, &Input::Timer(timer));
                self.array.timer(now, timer, &Peek(self.devices), &mut self.out);
            }
        }
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Nanos) {
        for i in 0..self.out.len() {
            let output = self.out[i];
            self.observer.output(now, &output);
            match output {
                Output::Submit { device, copy, request, .. } => {
                    self.note(now, 5 + device as u64, copy.0);
                    let outcome = self.devices[device].submit(now, &request);
                    match outcome {
                        Outcome::Done(at) => self.queue.push(at, Event::Completed(copy)),
                        Outcome::Error(at) => self.queue.push(at, Event::Failed(copy)),
                        Outcome::Lost => {}
                    }
                    if self.log {
                        self.keep(now, device, &request, outcome);
                    }
                }
                Output::Complete { stream, tenant, op: Op::Read, arrive_ns, latency_ns, .. } => {
                    let reads = &mut self.result.reads;
                    reads.latency_ns.push(latency_ns);
                    reads.arrive_ns.push(arrive_ns);
                    reads.stream.push(stream as u16);
                    reads.tenant.push(tenant);
                }
                Output::SetTimer { at_ns, timer } => self.queue.push(at_ns, Event::Timer(timer)),
                // Virtual devices cannot cancel; answers to writes and failures are counted by the array.
                Output::Cancel { .. } | Output::Complete { .. } | Output::Fail { .. } => {}
            }
        }
        self.out.clear();
        self.observer.step(now, &self.array);
    }

    fn keep(&mut self, now: Nanos, device: usize, request: &Request, outcome: Outcome) {
        let latency_ns = match outcome {
            Outcome::Done(at) => Some(at.saturating_sub(now)),
            Outcome::Error(_) | Outcome::Lost => None,
        };
        self.result.log[device].push(IoRecord {
            arrive_ns: now,
            latency_ns,
            offset_bytes: request.offset_bytes,
            size_bytes: request.size_bytes,
            device: device as u32,
            tenant: request.tenant,
            op: request.op,
        });
    }

    fn note(&mut self, now: Nanos, kind: u64, name: u64) {
        let word = now ^ name.rotate_left(32) ^ (kind << 56);
        self.result.event_hash = (self.result.event_hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Virtual-time devices as an outlook.
struct Peek<'a, D>(&'a [D]);

impl<D: Device> crate::Outlook for Peek<'_, D> {
    fn peek(&self, device: usize, now: Nanos, request: &Request) -> Option<Outcome> {
        self.0.get(device).map(|device| device.peek(now, request))
    }
}
