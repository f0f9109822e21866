// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver: one thread feeds the array with arrivals, answers and timers in the order in which they happen; one thread for each
//! device waits for its answers.
//!
//! Arrivals keep their absolute times. When the driver is late, the wait counts into the latency that users see, and the lateness is
//! reported: a replay that waits for answers before it sends more would hide the tail.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::mpsc::{Receiver as Inbox, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use linnet_array::{Array, Config, CopyId, Counters, Output, Policy, TimerId};
use linnet_types::{IoRecord, Nanos, Op, Request, Thresholds};

use crate::Error;
use crate::nbd::{Answer, Sender, connect};

/// I/Os between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The array.
    pub array: Config,
    /// Wall time for each trace time: 2 replays half as fast.
    pub time_scale: f64,
}

/// What a replay gave. Times are trace time: wall time over the time scale.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Latency of every answered read, from its arrival in the trace to its answer.
    pub latency_ns: Vec<Nanos>,
    /// The tenant of each of these reads.
    pub tenant: Vec<u32>,
    /// Counts of the array.
    pub counters: Counters,
    /// Every I/O as its device answered it, by device, in the order of submission.
    pub log: Vec<Vec<IoRecord>>,
    /// How late each I/O was sent, sorted.
    pub lateness_ns: Vec<Nanos>,
}

struct Flight {
    device: usize,
    place: usize,
}

struct Driver<'a> {
    array: Array,
    senders: Vec<Sender>,
    begun: Instant,
    options: &'a Options,
    timers: BinaryHeap<Reverse<(Nanos, TimerId)>>,
    flights: HashMap<u64, Flight>,
    out: Vec<Output>,
    outcome: Outcome,
}

type Event = (usize, io::Result<Option<Answer>>);

/// Replays `streams` (stream i has export i as its primary) through an array of NBD exports.
///
/// # Errors
/// An export that cannot be reached or is lost, lists of different lengths, settings that the array refuses, and a stop asked for by
/// `progress` (told of the I/Os sent).
pub fn replay(
    uris: &[String],
    streams: &[&[IoRecord]],
    thresholds: &[Thresholds],
    policy: Box<dyn Policy>,
    options: &Options,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    if uris.len() != streams.len() || uris.len() != thresholds.len() {
        return Err(Error::Count { exports: uris.len(), streams: streams.len(), thresholds: thresholds.len() });
    }
    let (post, inbox) = channel::<Event>();
    let mut senders = Vec::with_capacity(uris.len());
    let mut receivers = Vec::with_capacity(uris.len());
    for uri in uris {
        let (sender, receiver) = connect(uri)?;
        senders.push(sender);
        receivers.push(receiver);
    }
    let array = Array::new(options.array, thresholds, policy)?;
    thread::scope(|scope| {
        for (device, mut receiver) in receivers.into_iter().enumerate() {
            let post = post.clone();
            scope.spawn(move || {
                loop {
                    let answer = receiver.next();
                    let last = !matches!(answer, Ok(Some(_)));
                    if post.send((device, answer)).is_err() || last {
                        return;
                    }
                }
            });
        }
        let mut driver = Driver {
            array,
            senders,
            begun: Instant::now(),
            options,
            timers: BinaryHeap::new(),
            flights: HashMap::new(),
            out: Vec::new(),
            outcome: Outcome { log: vec![Vec::new(); uris.len()], ..Outcome::default() },
        };
        let result = driver.run(streams, &inbox, progress);
        // Servers close when told, which ends the receiving threads.
        for sender in &mut driver.senders {
            let _ = sender.disconnect();
        }
        result?;
        let mut outcome = driver.outcome;
        outcome.counters = *driver.array.counters();
        outcome.lateness_ns.sort_unstable();
        Ok(outcome)
    })
}

/// Arrivals of all streams in order of time.
fn merged(streams: &[&[IoRecord]]) -> Vec<(usize, IoRecord)> {
    let mut all: Vec<(usize, IoRecord)> =
        streams.iter().enumerate().flat_map(|(i, records)| records.iter().map(move |record| (i, *record))).collect();
    all.sort_by_key(|(_, record)| record.arrive_ns);
    all
}

impl Driver<'_> {
    fn now(&self) -> Nanos {
        (self.begun.elapsed().as_nanos() as f64 / self.options.time_scale) as Nanos
    }

    fn run(
        &mut self,
        streams: &[&[IoRecord]],
        inbox: &Inbox<Event>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), Error> {
        let arrivals = merged(streams);
        let total = arrivals.len() as u64;
        let mut next = 0;
        loop {
            let now = self.now();
            self.ring(now)?;
            while let Some((stream, record)) = arrivals.get(next).filter(|(_, record)| record.arrive_ns <= now) {
                self.outcome.lateness_ns.push(now - record.arrive_ns);
                let request = record.request();
                self.array.arrive(record.arrive_ns, next as u64, *stream, &request, &(), &mut self.out);
                self.carry_out(now)?;
                next += 1;
                if (next as u64).is_multiple_of(PROGRESS_EVERY) && !progress(next as u64) {
                    return Err(Error::Interrupted { done: next as u64, total });
                }
            }
            if next == arrivals.len() && self.array.live() == 0 {
                return Ok(());
            }
            let arrival = arrivals.get(next).map(|(_, record)| record.arrive_ns);
            let timer = self.timers.peek().map(|Reverse((at, _))| *at);
            let due = arrival.into_iter().chain(timer).min().unwrap_or(now + 100_000_000);
            let wait = Duration::from_nanos((due.saturating_sub(self.now()) as f64 * self.options.time_scale) as u64);
            match inbox.recv_timeout(wait.min(Duration::from_millis(100))) {
                Ok((device, answer)) => self.answered(device, answer)?,
                Err(RecvTimeoutError::Timeout) => {
                    if !progress(next as u64) {
                        return Err(Error::Interrupted { done: next as u64, total });
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let source = io::Error::new(io::ErrorKind::ConnectionAborted, "every export closed its connection");
                    return Err(Error::Io { device: 0, source });
                }
            }
        }
    }

    fn ring(&mut self, now: Nanos) -> Result<(), Error> {
        while let Some(Reverse((at, timer))) = self.timers.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.timers.pop();
            self.array.timer(at.max(now), timer, &(), &mut self.out);
            self.carry_out(now)?;
        }
        Ok(())
    }

    fn answered(&mut self, device: usize, answer: io::Result<Option<Answer>>) -> Result<(), Error> {
        let closed = || io::Error::new(io::ErrorKind::ConnectionAborted, "the server closed the connection");
        let answer =
            answer.and_then(|answer| answer.ok_or_else(closed)).map_err(|source| Error::Io { device, source })?;
        let now = self.now();
        if let Some(flight) = self.flights.remove(&answer.cookie) {
            let record = &mut self.outcome.log[flight.device][flight.place];
            record.latency_ns = answer.ok.then(|| now.saturating_sub(record.arrive_ns));
        }
        if answer.ok {
            self.array.completed(now, CopyId(answer.cookie), &mut self.out);
        } else {
            self.array.failed(now, CopyId(answer.cookie), &mut self.out);
        }
        self.carry_out(now)
    }

    fn carry_out(&mut self, now: Nanos) -> Result<(), Error> {
        for i in 0..self.out.len() {
            match self.out[i] {
                Output::Submit { device, copy, request, .. } => {
                    self.keep(now, device, copy, &request);
                    self.senders[device].send(copy.0, &request).map_err(|source| Error::Io { device, source })?;
                }
                Output::Complete { tenant, op: Op::Read, latency_ns, .. } => {
                    self.outcome.latency_ns.push(latency_ns);
                    self.outcome.tenant.push(tenant);
                }
                Output::SetTimer { at_ns, timer } => self.timers.push(Reverse((at_ns, timer))),
                // NBD cannot cancel; what else ends is counted by the array.
                Output::Cancel { .. } | Output::Complete { .. } | Output::Fail { .. } => {}
            }
        }
        self.out.clear();
        Ok(())
    }

    fn keep(&mut self, now: Nanos, device: usize, copy: CopyId, request: &Request) {
        let log = &mut self.outcome.log[device];
        self.flights.insert(copy.0, Flight { device, place: log.len() });
        log.push(IoRecord {
            arrive_ns: now,
            latency_ns: None,
            offset_bytes: request.offset_bytes,
            size_bytes: request.size_bytes,
            device: device as u32,
            tenant: request.tenant,
            op: request.op,
        });
    }
}
