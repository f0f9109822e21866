// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records, for each read, what a host knows of every replica and the latency that each replica would give. This shows
//! how much of the oracle's gain any model could reach.
//!
//! [`CounterfactualPolicy`] wraps a policy, whose decisions do not change. At the first decision on each read it peeks
//! at every device, so all replicas are compared in the same state: the one that the wrapped policy has caused.

use std::sync::{Arc, Mutex, PoisonError};

use linnet_array::{Ask, Choice, Completion, Hedge, Policy};
use linnet_core::{Budget, INFLIGHT_FEATURES, Network, Schema, Settings};
use linnet_sim::Chance;
use linnet_types::{Nanos, Outcome};

/// Numbers recorded of each replica: the features of its in-flight tracker, then I/Os in flight, moving average of
/// latency, time since a completion (both in us) and pages pending.
pub const COUNTERFACTUAL_FEATURES: usize = INFLIGHT_FEATURES + 4;

/// The recorded numbers, read after read; replicas in order from the primary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counterfactual {
    /// [`COUNTERFACTUAL_FEATURES`] numbers for each replica of each read.
    pub features: Vec<f32>,
    /// Latency that each replica would have had for each read; [`Nanos::MAX`] if it would never answer.
    pub latency_ns: Vec<Nanos>,
    /// The replica that the policy submitted to, counted from the primary; the primary if the policy revoked there.
    pub chosen: Vec<u8>,
}

/// Wraps a policy and records counterfactuals.
pub struct CounterfactualPolicy {
    policy: Box<dyn Policy>,
    counterfactual: Arc<Mutex<Counterfactual>>,
    /// Time of the last completion of a read or write, by device.
    completed_ns: Vec<Nanos>,
}

impl CounterfactualPolicy {
    /// Wraps a policy; the second value gives access to the records at any time.
    pub fn new(policy: Box<dyn Policy>) -> (CounterfactualPolicy, Arc<Mutex<Counterfactual>>) {
        let counterfactual = Arc::new(Mutex::new(Counterfactual::default()));
        (
            CounterfactualPolicy { policy, counterfactual: counterfactual.clone(), completed_ns: Vec::new() },
            counterfactual,
        )
    }
}

fn note(counterfactual: &mut Counterfactual, completed_ns: &[Nanos], ask: &Ask<'_>, choice: &Choice) {
    let chosen = match choice {
        Choice::Submit(submit) | Choice::Declined(submit) => submit.replica,
        Choice::Revoke { .. } => ask.next,
    };
    let place = ask.replicas.iter().position(|&device| device as usize == chosen);
    counterfactual.chosen.push(place.expect("a policy chooses a replica") as u8);
    for device in ask.replicas.iter().map(|&device| device as usize) {
        let view = &ask.devices[device];
        let request = ask.request;
        counterfactual
            .features
            .extend(view.features(Schema::Linnet1, ask.now_ns, request).unwrap_or_default().map(f32::from));
        let since_ns = ask.now_ns.saturating_sub(completed_ns.get(device).copied().unwrap_or(0));
        counterfactual.features.extend([
            view.in_flight() as f32,
            view.ewma_ns() as f32 / 1000.0,
            since_ns as f32 / 1000.0,
            view.pending_pages() as f32,
        ]);
        counterfactual.latency_ns.push(match ask.outlook.peek(device, ask.now_ns, request) {
            Some(Outcome::Done(at)) => at.saturating_sub(ask.now_ns),
            _ => Nanos::MAX,
        });
    }
}

impl Policy for CounterfactualPolicy {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn predicts(&self) -> bool {
        self.policy.predicts()
    }

    fn tracks_inflight(&self) -> bool {
        true
    }

    fn network(&self, device: usize) -> Option<&Network> {
        self.policy.network(device)
    }

    fn settings(&self, given: Settings) -> Settings {
        self.policy.settings(given)
    }

    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance, revokes: &mut Budget) -> Choice {
        let choice = self.policy.choose(ask, chance, revokes);
        if ask.first {
            let mut counterfactual = self.counterfactual.lock().unwrap_or_else(PoisonError::into_inner);
            note(&mut counterfactual, &self.completed_ns, ask, &choice);
        }
        choice
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        self.policy.hedge(ask)
    }

    fn completed(&mut self, done: &Completion) {
        if done.device >= self.completed_ns.len() {
            self.completed_ns.resize(done.device + 1, 0);
        }
        self.completed_ns[done.device] = done.now_ns;
        self.policy.completed(done);
    }
}
