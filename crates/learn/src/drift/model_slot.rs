// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model at work: serving, or in the shadow.

use std::collections::HashMap;

use linnet_types::{Nanos, Request, is_slow};

use super::alarm::Monitor;
use super::log::{Candidate, Log};
use super::scheme::Scheme;

/// A model, what it sees of the device, and what it said of the reads in flight.
pub struct ModelSlot<S: Scheme> {
    /// What scores.
    pub model: S::Model,
    /// What it calls fast lies at or below.
    pub inflection_ns: Nanos,
    /// Compares what it says with what it learned.
    pub monitor: Monitor,
    tracker: S::Tracker,
    open: HashMap<u64, (S::Handle, Option<i64>)>,
}

impl<S: Scheme> ModelSlot<S> {
    /// A model that has seen the log. It has no say on reads that arrived before. `block` is its monitor's.
    pub fn new(scheme: &S, candidate: Candidate<S::Model>, log: &Log, block: (usize, Nanos)) -> ModelSlot<S> {
        let inflection_ns = candidate.inflection.latency_ns;
        let seen = log.replay(scheme, inflection_ns);
        let open = seen.open.into_iter().map(|(id, (handle, ..))| (id, (handle, None))).collect();
        let monitor = Monitor::new(block.0, block.1, &candidate.trained);
        ModelSlot { model: candidate.model, inflection_ns, monitor, tracker: seen.tracker, open }
    }

    /// What the model says of a read; nothing of a write, or without history.
    pub fn arrive(&mut self, scheme: &S, id: u64, now: Nanos, request: &Request) -> Option<i64> {
        let (handle, row) = scheme.arrive(&mut self.tracker, now, request);
        let score = row.map(|row| S::score(&self.model, &row));
        self.open.insert(id, (handle, score));
        score
    }

    /// What it had said of the I/O that ends now.
    pub fn end(&mut self, scheme: &S, id: u64, now: Nanos, latency_ns: Option<Nanos>) -> Option<i64> {
        let (handle, score) = self.open.remove(&id)?;
        scheme.leave(&mut self.tracker, handle, now, latency_ns);
        score.filter(|_| latency_ns.is_some())
    }

    /// Whether this model calls such a read slow.
    pub fn is_slow(&self, latency_ns: Nanos) -> bool {
        is_slow(latency_ns, self.inflection_ns)
    }
}
