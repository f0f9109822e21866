// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model at work: serving, or in the shadow.

use std::collections::HashMap;

use linnet_types::{Nanos, Request, is_slow};

use super::alarm::Monitor;
use super::log::{Candidate, Log};
use super::scheme::Scheme;

/// A model, what it sees of the device, and what it said of the reads under way.
pub struct Seat<S: Scheme> {
    /// What scores.
    pub model: S::Model,
    /// What it calls fast lies at or below.
    pub inflection_ns: Nanos,
    /// Compares what it says with what it learned.
    pub monitor: Monitor,
    eye: S::Eye,
    open: HashMap<u64, (S::Mark, Option<i64>)>,
}

impl<S: Scheme> Seat<S> {
    /// A model that has seen the log. It has no say on reads that arrived before. `block` is its monitor's.
    pub fn new(scheme: &S, candidate: Candidate<S::Model>, log: &Log, block: (usize, Nanos)) -> Seat<S> {
        let inflection_ns = candidate.inflection.latency_ns;
        let seen = log.replay(scheme, inflection_ns);
        let open = seen.open.into_iter().map(|(id, (mark, ..))| (id, (mark, None))).collect();
        let monitor = Monitor::new(block.0, block.1, &candidate.trained);
        Seat { model: candidate.model, inflection_ns, monitor, eye: seen.eye, open }
    }

    /// What the model says of a read; nothing of a write, or without history.
    pub fn arrive(&mut self, scheme: &S, id: u64, now: Nanos, request: &Request) -> Option<i64> {
        let (mark, row) = scheme.arrive(&mut self.eye, now, request);
        let score = row.map(|row| S::score(&self.model, &row));
        self.open.insert(id, (mark, score));
        score
    }

    /// What it had said of the I/O that ends now.
    pub fn end(&mut self, scheme: &S, id: u64, now: Nanos, latency_ns: Option<Nanos>) -> Option<i64> {
        let (mark, score) = self.open.remove(&id)?;
        scheme.leave(&mut self.eye, mark, now, latency_ns);
        score.filter(|_| latency_ns.is_some())
    }

    /// Whether this model calls such a read slow.
    pub fn is_slow(&self, latency_ns: Nanos) -> bool {
        is_slow(latency_ns, self.inflection_ns)
    }
}
