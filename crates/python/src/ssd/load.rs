// SPDX-License-Identifier: MIT OR Apache-2.0
//! A closed loop of requests on one drive.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linnet_ssd::Ssd;
use linnet_types::{Nanos, Op, Request};

/// Requests of one size at random or sequential offsets.
pub(super) struct Load {
    chance: linnet_sim::Chance,
    size_bytes: u32,
    write_share: f64,
    sequential: bool,
    at: u64,
}

impl Load {
    pub(super) fn new(size_bytes: u32, write_share: f64, sequential: bool, seed: u64) -> Self {
        Load { chance: linnet_sim::Chance::new(seed), size_bytes, write_share, sequential, at: 0 }
    }

    fn next(&mut self, capacity_bytes: u64) -> Request {
        let size = u64::from(self.size_bytes);
        let places = (capacity_bytes / size).max(1);
        let place = if self.sequential { self.at % places } else { self.chance.below(places) };
        self.at += 1;
        let op = if self.chance.happens(self.write_share) { Op::Write } else { Op::Read };
        Request::new(op, place * size, self.size_bytes)
    }
}

/// Keeps `depth` requests in flight until `ios` are served; returns the virtual time taken and the latencies, ns.
pub(super) fn closed_loop(device: &mut Ssd, depth: usize, ios: usize, load: &mut Load) -> (Nanos, Vec<Nanos>) {
    let capacity = device.capacity_bytes();
    let mut due = BinaryHeap::from(vec![Reverse(0); depth]);
    let mut latencies = Vec::with_capacity(ios);
    let mut end = 0;
    for _ in 0..ios {
        let Some(Reverse(now)) = due.pop() else { break };
        let (done, _) = device.submit_explained(now, &load.next(capacity));
        latencies.push(done - now);
        end = end.max(done);
        due.push(Reverse(done));
    }
    (end, latencies)
}
