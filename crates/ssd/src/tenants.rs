// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants that share a drive, each a thread with a rate and a limit of requests in flight.
//!
//! A thread at its limit submits nothing until a request of its own completes, and then catches up. Latency runs from
//! submission, so beyond saturation the figures are those of a closed loop, as in SSD-iq (Haas et al., PVLDB 18(11)).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linnet_sim::Chance;
use linnet_types::{LatencyModel, Nanos, Op, Outcome, Request};

use crate::ASKED_EVERY;
use crate::timeline::Ssd;

/// One thread of 4 KiB requests at uniformly random offsets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tenant {
    /// Requests per second that it offers, above 0.
    pub iops: f64,
    /// Share of writes, 0 to 1.
    pub write_share: f64,
    /// Exponential intervals instead of equal ones.
    pub poisson: bool,
    /// Most requests in flight, at least 1.
    pub depth: usize,
}

/// What a tenant saw after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantLatencies {
    /// Latencies of its reads in the order of submission, ns.
    pub reads_ns: Vec<Nanos>,
    /// Latencies of its writes in the order of submission, ns.
    pub writes_ns: Vec<Nanos>,
}

const BYTES: u32 = 4096;

struct Thread {
    of: Tenant,
    chance: Chance,
    /// When its next request is due.
    due: f64,
    in_flight: BinaryHeap<Reverse<Nanos>>,
}

impl Thread {
    /// When the next request is submitted.
    fn next(&self) -> Nanos {
        let free = if self.in_flight.len() < self.of.depth { 0 } else { self.in_flight.peek().map_or(0, |at| at.0) };
        (self.due as Nanos).max(free)
    }
}

/// Runs the tenants for `warm_up_ns`, which is not counted, and `span_ns`. The seed determines intervals and offsets.
/// `go_on` is asked every 65,536 requests; `None` if it said no.
pub fn run_tenants(
    ssd: &mut Ssd,
    tenants: &[Tenant],
    warm_up_ns: Nanos,
    span_ns: Nanos,
    seed: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<TenantLatencies>> {
    let pages = ssd.capacity_bytes() / u64::from(BYTES);
    let begin = Chance::new(seed);
    let mut threads: Vec<Thread> = (0..)
        .zip(tenants)
        .map(|(n, &of)| {
            let mut chance = begin.fork(n);
            let due = chance.unit() * 1e9 / of.iops;
            Thread { of, chance, due, in_flight: BinaryHeap::new() }
        })
        .collect();
    let mut found = vec![TenantLatencies::default(); tenants.len()];
    let mut order: BinaryHeap<Reverse<(Nanos, usize)>> =
        threads.iter().enumerate().map(|(n, thread)| Reverse((thread.next(), n))).collect();
    let mut requests = 0u64;
    while let Some(Reverse((now, n))) = order.pop() {
        if now >= warm_up_ns + span_ns {
            break;
        }
        if requests.is_multiple_of(ASKED_EVERY) && !go_on() {
            return None;
        }
        requests += 1;
        let thread = &mut threads[n];
        while thread.in_flight.peek().is_some_and(|at| at.0 <= now) {
            thread.in_flight.pop();
        }
        let op = if thread.chance.happens(thread.of.write_share) { Op::Write } else { Op::Read };
        let request = Request::new(op, thread.chance.below(pages) * u64::from(BYTES), BYTES);
        let Outcome::Done(done) = ssd.submit(now, &request) else { continue };
        thread.in_flight.push(Reverse(done));
        let mean = 1e9 / thread.of.iops;
        thread.due += if thread.of.poisson { thread.chance.exponential(mean) } else { mean };
        if now >= warm_up_ns {
            match op {
                Op::Read => found[n].reads_ns.push(done - now),
                Op::Write => found[n].writes_ns.push(done - now),
            }
        }
        // A thread that catches up submits at once.
        order.push(Reverse((thread.next().max(now), n)));
    }
    Some(found)
}
