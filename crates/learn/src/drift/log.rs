// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log of a device's recent events, sufficient to replay them to the tracker of another model.

use std::collections::{HashMap, VecDeque};

use linnet_types::{Nanos, Request, is_slow};

use super::scheme::Scheme;
use crate::error::Error;
use crate::inflection::{Inflection, InflectionOptions, inflection_point, slow_of};

/// Events kept for each read of a window: if nearly all I/Os are writes, a window holds fewer reads.
const EVENTS_PER_READ: usize = 64;

#[derive(Clone, Copy, Debug)]
enum What {
    Arrive(Request),
    Complete,
    Leave,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    now_ns: Nanos,
    id: u64,
    what: What,
}

/// The last events of a device, in order.
#[derive(Clone, Debug)]
pub struct Log {
    window: usize,
    /// Reads that arrived within the log.
    reads: usize,
    events: VecDeque<Event>,
}

impl Log {
    /// A log of the last `window` reads and of the events between them.
    pub fn new(window: usize) -> Log {
        Log { window, reads: 0, events: VecDeque::new() }
    }

    /// An I/O is submitted to the device.
    pub fn arrive(&mut self, id: u64, now_ns: Nanos, request: &Request) {
        self.reads += usize::from(request.op.is_read());
        self.push(Event { now_ns, id, what: What::Arrive(*request) });
    }

    /// It completed, or left without completing.
    pub fn end(&mut self, id: u64, now_ns: Nanos, completed: bool) {
        self.push(Event { now_ns, id, what: if completed { What::Complete } else { What::Leave } });
    }

    fn push(&mut self, event: Event) {
        self.events.push_back(event);
        while self.reads > self.window || self.events.len() > EVENTS_PER_READ * self.window {
            if let Some(Event { what: What::Arrive(request), .. }) = self.events.pop_front() {
                self.reads -= usize::from(request.op.is_read());
            }
        }
    }

    /// Replays the log to a tracker that starts idle. `read` is called for each read that completed, with its features,
    /// arrival time and latency. Returns the tracker, and the I/Os in flight with their ids and the features of reads.
    pub(super) fn replay<S: Scheme>(&self, scheme: &S, inflection_ns: Nanos) -> Seen<S> {
        let mut seen = Seen { tracker: scheme.tracker(inflection_ns), open: HashMap::new(), rows: Vec::new() };
        for event in &self.events {
            match event.what {
                What::Arrive(request) => {
                    let (handle, row) = scheme.arrive(&mut seen.tracker, event.now_ns, &request);
                    let place = row.map(|row| {
                        seen.rows.push((event.now_ns, None, row));
                        seen.rows.len() - 1
                    });
                    seen.open.insert(event.id, (handle, event.now_ns, place));
                }
                What::Complete | What::Leave => {
                    // The arrival of this I/O was before the log began.
                    let Some((handle, arrived_ns, place)) = seen.open.remove(&event.id) else { continue };
                    let latency_ns = event.now_ns.saturating_sub(arrived_ns);
                    let completed = matches!(event.what, What::Complete);
                    scheme.leave(&mut seen.tracker, handle, event.now_ns, completed.then_some(latency_ns));
                    if let Some(place) = place.filter(|_| completed) {
                        seen.rows[place].1 = Some(latency_ns);
                    }
                }
            }
        }
        seen
    }

    /// Latencies of the reads that arrived at or after `from_ns` and completed, in the order of completion.
    fn latencies(&self, from_ns: Nanos) -> Vec<Nanos> {
        let mut open = HashMap::new();
        let mut latencies = Vec::new();
        for event in &self.events {
            match event.what {
                What::Arrive(request) if request.op.is_read() && event.now_ns >= from_ns => {
                    open.insert(event.id, event.now_ns);
                }
                What::Complete => {
                    latencies.extend(open.remove(&event.id).map(|arrived_ns| event.now_ns.saturating_sub(arrived_ns)));
                }
                What::Arrive(_) | What::Leave => {}
            }
        }
        latencies
    }
}

/// State of a tracker after a replay of the log.
pub(super) struct Seen<S: Scheme> {
    pub tracker: S::Tracker,
    /// I/Os in flight at the end: handle, arrival time, index of the row.
    pub open: HashMap<u64, (S::Handle, Nanos, Option<usize>)>,
    /// Reads in the order of arrival: arrival time, latency if completed, features.
    pub rows: Vec<(Nanos, Option<Nanos>, S::Row)>,
}

/// A fit to be run: takes about a second, is self-contained, and can run on another thread.
pub struct Job<S: Scheme> {
    /// The kind of model.
    pub scheme: S,
    /// The window.
    pub log: Log,
    /// Reads that arrived before this time are not used.
    pub from_ns: Nanos,
    /// Minimum number of reads for a fit: if most are still in flight, the completed ones do not represent the window.
    pub least: usize,
    /// The search for the inflection point.
    pub inflection: InflectionOptions,
}

/// Result of a [`Job`].
#[derive(Clone, Debug)]
pub struct Candidate<M> {
    /// The model.
    pub model: M,
    /// The inflection point of its window.
    pub inflection: Inflection,
    /// The reads that it was fitted to, in the order of arrival: arrival time, and whether slow.
    pub trained: Vec<(Nanos, bool)>,
}

impl<S: Scheme> Job<S> {
    /// Finds the inflection point of the window and fits a model to it.
    ///
    /// # Errors
    /// [`Error::NoLatency`] or [`Error::TooFewRows`] for a window in which too few reads completed, and errors of the
    /// fit.
    pub fn run(self) -> Result<Candidate<S::Model>, Error> {
        let inflection = inflection_point(&[&self.log.latencies(self.from_ns)], 0, &self.inflection)?;
        let seen = self.log.replay(&self.scheme, inflection.latency_ns);
        let (mut rows, mut latency_ns, mut trained) = (Vec::new(), Vec::new(), Vec::new());
        for (arrived_ns, took_ns, row) in seen.rows {
            if let Some(took_ns) = took_ns.filter(|_| arrived_ns >= self.from_ns) {
                rows.push(row);
                latency_ns.push(took_ns);
                trained.push((arrived_ns, is_slow(took_ns, inflection.latency_ns)));
            }
        }
        if rows.len() < self.least {
            return Err(Error::TooFewRows { purpose: "a new model", rows: rows.len(), least: self.least });
        }
        let model = self.scheme.fit(&rows, &latency_ns, inflection.latency_ns)?;
        Ok(Candidate { model, inflection, trained })
    }
}

/// The inflection point of these reads, and which of them are slow.
///
/// # Errors
/// Those of the search for an inflection point.
pub fn labels(latency_ns: &[Nanos], options: &InflectionOptions) -> Result<(Nanos, Vec<bool>), Error> {
    let inflection_ns = inflection_point(&[latency_ns], 0, options)?.latency_ns;
    Ok((inflection_ns, slow_of(latency_ns, inflection_ns)))
}
