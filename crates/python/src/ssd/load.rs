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

/// Memory for each I/O of a closed loop: its latency, with the growth of their list, and its time in flight.
pub(super) const BYTES_AN_IO: u64 = 4 * size_of::<Nanos>() as u64;
/// I/Os from one question whether to go on to the next.
const ASKED_EVERY: usize = 1 << 16;

/// Keeps `depth` requests in flight until `ios` are served; returns the virtual time taken and the latencies, ns, or
/// `None` where `go_on` said no.
pub(super) fn closed_loop(
    device: &mut Ssd,
    depth: usize,
    ios: usize,
    load: &mut Load,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<(Nanos, Vec<Nanos>)> {
    let capacity = device.capacity_bytes();
    // Those beyond the last I/O would never be served.
    let mut due = BinaryHeap::from(vec![Reverse(0); depth.min(ios)]);
    let mut latencies = Vec::new();
    let mut end = 0;
    for done in 0..ios {
        if done.is_multiple_of(ASKED_EVERY) && !go_on() {
            return None;
        }
        let Some(Reverse(now)) = due.pop() else { break };
        let (done, _) = device.submit_explained(now, &load.next(capacity));
        latencies.push(done - now);
        end = end.max(done);
        due.push(Reverse(done));
    }
    Some((end, latencies))
}
