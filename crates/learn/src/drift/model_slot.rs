// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model that runs: serving, or in the shadow.

use std::collections::HashMap;

use linnet_types::{Nanos, Request, is_slow};

use super::alarm::Monitor;
use super::log::{Candidate, Log};
use super::scheme::Scheme;

/// A model, its tracker of the device, and its scores of the reads in flight.
pub struct ModelSlot<S: Scheme> {
    /// The model.
    pub model: S::Model,
    /// Its inflection point: reads at or below it are fast.
    pub inflection_ns: Nanos,
    /// Compares its scores with what it learned.
    pub monitor: Monitor,
    tracker: S::Tracker,
    open: HashMap<u64, (S::Handle, Option<i64>)>,
}

impl<S: Scheme> ModelSlot<S> {
    /// A model whose tracker has replayed the log. It does not score reads that arrived before. `block` is for its
    /// monitor.
    pub fn new(scheme: &S, candidate: Candidate<S::Model>, log: &Log, block: (usize, Nanos)) -> ModelSlot<S> {
        let inflection_ns = candidate.inflection.latency_ns;
        let seen = log.replay(scheme, inflection_ns);
        let open = seen.open.into_iter().map(|(id, (handle, ..))| (id, (handle, None))).collect();
        let monitor = Monitor::new(block.0, block.1, &candidate.trained);
        ModelSlot { model: candidate.model, inflection_ns, monitor, tracker: seen.tracker, open }
    }

    /// The model's score of a read; `None` for a write, or without history.
    pub fn arrive(&mut self, scheme: &S, id: u64, now: Nanos, request: &Request) -> Option<i64> {
        let (handle, row) = scheme.arrive(&mut self.tracker, now, request);
        let score = row.map(|row| S::score(&self.model, &row));
        self.open.insert(id, (handle, score));
        score
    }

    /// Its score of the I/O that ends now.
    pub fn end(&mut self, scheme: &S, id: u64, now: Nanos, latency_ns: Option<Nanos>) -> Option<i64> {
        let (handle, score) = self.open.remove(&id)?;
        scheme.leave(&mut self.tracker, handle, now, latency_ns);
        score.filter(|_| latency_ns.is_some())
    }

    /// Whether this latency is slow by the model's inflection point.
    pub fn is_slow(&self, latency_ns: Nanos) -> bool {
        is_slow(latency_ns, self.inflection_ns)
    }
}
