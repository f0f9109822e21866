// SPDX-License-Identifier: MIT OR Apache-2.0
//! **c3**: cubic replica selection (Suresh, Canini, Schmid, Feldmann: "C3: Cutting Tail Latency in Cloud Data Stores
//! via Adaptive Replica Selection", NSDI 2015, section 3.1).
//!
//! For each replica, keep the moving averages of its response time R and of its service time s = 1/mu. Estimate its
//! queue as q = 1 + requests outstanding. Submit to the replica with the lowest
//!
//! > R - s + q^3 * s
//!
//! The cube makes long queues expensive, so that a fast replica is not overloaded by all clients that have noticed it.
//!
//! Where we differ: C3's servers report their queue and service time, and drives report nothing. The array is the only
//! client, so the requests outstanding are the queue; the service time is estimated as the response time divided by one
//! more than the queue at submit, the share of one request if the device served them one by one. C3's rate control is
//! for many clients that do not know of each other, and is left out. C3 has no probe. Here a replica is probed as in
//! linnet-best: when it is idle and was unread for a second.

use crate::{Ask, Choice, Completion, Policy, Submit};
use linnet_core::Budget;
use linnet_sim::Chance;

/// Weight of a new sample: C3's simulations give the old average 0.9, and so does this.
const NEW_SHARE: f64 = 0.1;

pub(crate) struct C3 {
    averages: Vec<Averages>,
}

#[derive(Clone, Copy, Default)]
struct Averages {
    response_ns: f64,
    service_ns: f64,
}

impl C3 {
    pub(crate) fn new(devices: usize) -> Self {
        C3 { averages: vec![Averages::default(); devices] }
    }

    fn cost(&self, ask: &Ask<'_>, device: usize) -> f64 {
        let Averages { response_ns, service_ns } = self.averages[device];
        let queue = 1.0 + f64::from(ask.devices[device].in_flight());
        response_ns - service_ns + queue * queue * queue * service_ns
    }
}

impl Policy for C3 {
    fn name(&self) -> &str {
        "c3"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let chosen = ask.least(|device| self.cost(ask, device));
        Choice::Submit(match ask.forgotten().find(|&device| device != chosen) {
            Some(device) => Submit { probe: true, ..Submit::to(device) },
            None => Submit::to(chosen),
        })
    }

    fn completed(&mut self, done: &Completion) {
        if !done.op.is_read() {
            return;
        }
        let response_ns = done.latency_ns as f64;
        let service_ns = response_ns / (f64::from(done.in_flight) + 1.0);
        let averages = &mut self.averages[done.device];
        if averages.response_ns == 0.0 {
            *averages = Averages { response_ns, service_ns };
        }
        averages.response_ns += NEW_SHARE * (response_ns - averages.response_ns);
        averages.service_ns += NEW_SHARE * (service_ns - averages.service_ns);
    }
}
