// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a device of a model that knows its answers at submission: the device keeps each answer until it is due.

use linnet_types::{Device, End, Ended, Foresight, LatencyModel, Nanos, Outcome, Request};

use crate::EventQueue;

/// A device of a [`LatencyModel`]. Requests that end at the same time are returned in order of submission.
#[derive(Clone, Debug)]
pub struct Modelled<M> {
    model: M,
    ends: EventQueue<(u64, End)>,
}

impl<M> Modelled<M> {
    /// A device of this model.
    pub fn new(model: M) -> Self {
        Modelled { model, ends: EventQueue::new() }
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }
}

impl<M: LatencyModel> Device for Modelled<M> {
    fn submit(&mut self, now: Nanos, token: u64, request: &Request) {
        match self.model.submit(now, request) {
            Outcome::Done(at) => self.ends.push(at.max(now), (token, End::Done)),
            Outcome::Error(at) => self.ends.push(at.max(now), (token, End::Failed)),
            Outcome::Lost => {}
        }
    }

    fn next_due(&mut self) -> Option<Nanos> {
        self.ends.next_ns()
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
        while self.ends.next_ns().is_some_and(|at| at <= now)
            && let Some((at_ns, (token, end))) = self.ends.pop()
        {
            out.push(Ended { token, at_ns, end });
        }
    }

    fn foresight(&self) -> Option<&dyn Foresight> {
        self.model.foresight()
    }
}
