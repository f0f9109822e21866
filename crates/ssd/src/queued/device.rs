// SPDX-License-Identifier: MIT OR Apache-2.0
//! The public interface of the queued model: requests in, ends out.

use std::cmp::Reverse;

use linnet_types::{Device, End, Ended, Nanos, Request};

use super::engine::QueuedSsd;
use crate::cause::Cause;

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The name under which it was submitted.
    pub token: u64,
    /// When it arrived.
    pub arrive_ns: Nanos,
    /// From arrival to completion at the host.
    pub latency_ns: Nanos,
    /// What the request waited for: a read, the waits of the page that came last; a write, the wait for space in the
    /// buffer.
    pub cause: Cause,
}

/// How many ends [`QueuedSsd::serve`] collects before it polls them.
const UNPOLLED_MAX: usize = 4096;

impl QueuedSsd {
    /// [`Device::poll`] that also reports what each request waited for.
    pub fn poll_served(&mut self, now: Nanos, mut each: impl FnMut(Served)) {
        while let Some(&Reverse((time, _, event))) = self.events.peek()
            && self.earliest_end(time) <= now
        {
            self.step(time, event);
        }
        while self.ended.next_ns().is_some_and(|at| at <= now)
            && let Some(served) = self.hand_over()
        {
            each(served);
        }
    }

    /// Removes the earliest end, and frees the resources of the request.
    fn hand_over(&mut self) -> Option<Served> {
        let (at_ns, number) = self.ended.pop()?;
        let request = &self.requests[number as usize];
        let (token, arrive_ns, cause) = (request.token, request.arrival, self.causes[number as usize]);
        self.free_requests.push(number);
        Some(Served { token, arrive_ns, latency_ns: at_ns - arrive_ns, cause })
    }

    /// The earliest time at which an event of this time can end a request: every completion adds `complete_ns`.
    fn earliest_end(&self, event_ns: Nanos) -> Nanos {
        event_ns.saturating_add(self.params.complete_ns)
    }

    /// Serves requests that arrive at these times, which must not decrease, and runs until all work is done. The
    /// answers have the order of the requests; a token is the index of a request.
    pub fn serve(&mut self, requests: impl IntoIterator<Item = (Nanos, Request)>) -> Vec<Served> {
        let mut all = Vec::new();
        for (token, (now, request)) in (0..).zip(requests) {
            if self.ended.len() >= UNPOLLED_MAX {
                self.poll_served(now, |served| all.push(served));
            }
            self.submit(now, token, &request);
        }
        self.poll_served(Nanos::MAX, |served| all.push(served));
        all.sort_unstable_by_key(|served| served.token);
        all
    }

    /// Serves requests in a closed loop, with `depth` of them in flight, until the last has ended. The answers have the
    /// order of the ends; a token is the index of a request.
    pub fn serve_closed(&mut self, depth: u32, requests: impl IntoIterator<Item = Request>) -> Vec<Served> {
        let mut all: Vec<Served> = Vec::new();
        let (mut now, mut in_flight) = (self.now, 0);
        for (token, request) in (0..).zip(requests) {
            if in_flight == depth.max(1) {
                all.extend(self.next_end());
                now = all.last().map_or(now, |served| (served.arrive_ns + served.latency_ns).max(now));
                in_flight -= 1;
            }
            self.submit(now, token, &request);
            in_flight += 1;
        }
        while let Some(served) = self.next_end() {
            all.push(served);
        }
        all
    }

    /// Runs until one more request has ended.
    fn next_end(&mut self) -> Option<Served> {
        while let Some(&Reverse((time, _, event))) = self.events.peek()
            && self.ended.next_ns().is_none_or(|at| self.earliest_end(time) <= at)
        {
            self.step(time, event);
        }
        self.hand_over()
    }
}

impl Device for QueuedSsd {
    fn submit(&mut self, now: Nanos, token: u64, request: &Request) {
        self.take(now, token, request);
    }

    fn next_due(&mut self) -> Option<Nanos> {
        let event = self.events.peek().map(|&Reverse((time, ..))| self.earliest_end(time));
        self.ended.next_ns().into_iter().chain(event).min()
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
        self.poll_served(now, |served| {
            out.push(Ended { token: served.token, at_ns: served.arrive_ns + served.latency_ns, end: End::Done });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queued::QueuedParams;
    use linnet_sim::Chance;
    use linnet_types::Op;

    /// The largest number of requests, jobs and events for which the device has allocated memory.
    fn room(ssd: &QueuedSsd) -> usize {
        ssd.requests.len() + ssd.jobs.len() + ssd.events.len() + ssd.ended.len() + ssd.free_jobs.len()
    }

    #[test]
    fn memory_grows_with_requests_in_flight_only() {
        let params = QueuedParams {
            channels: 2,
            blocks_per_plane: 64,
            gc_stop_writes_below_blocks: 3,
            ..QueuedParams::default()
        };
        let mut ssd = QueuedSsd::new(&params).unwrap();
        ssd.precondition(1);
        let (mut chance, mut out, mut now, mut early) = (Chance::new(2), Vec::new(), 0, 0);
        for token in 0..40_000 {
            now += chance.exponential(600_000.0) as Nanos;
            let op = if chance.happens(0.9) { Op::Read } else { Op::Write };
            while let Some(due) = ssd.next_due().filter(|&due| due <= now) {
                ssd.poll(due, &mut out);
            }
            out.clear();
            let offset_bytes = chance.below(params.capacity_bytes() / 4096) * 4096;
            ssd.submit(now, token, &Request::new(op, offset_bytes, 4096));
            if token == 10_000 {
                early = room(&ssd);
            }
        }
        assert!(ssd.stats().gc_runs > 100);
        assert!(room(&ssd) < 2 * early, "{} after 40,000 requests, {early} after 10,000", room(&ssd));
    }
}
