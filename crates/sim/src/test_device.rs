// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simple device model, for tests and for measuring the code around a device.
//!
//! A request waits for its lane (chosen by address, as dies are). Its service time depends on its kind and size. A busy
//! episode delays it. Time is divided into equal periods. Some of them, drawn from the seed, have a busy episode, which
//! lasts from a random moment until the period ends; no service begins during an episode. Nothing here is fitted to a
//! real drive: the SSD model is for that.

use crate::Chance;
use linnet_types::{Foresight, LatencyModel, Nanos, Op, Outcome, Request};

const LANES: usize = 16;
const LANE_BYTES: u64 = 64 * 1024;
const PAGE_BYTES: u32 = 4096;

/// A device with a fixed service time and random busy episodes.
#[derive(Clone, Debug)]
pub struct TestDevice {
    read_ns: Nanos,
    write_ns: Nanos,
    period_ns: Nanos,
    busy_share: f64,
    chance: Chance,
    free_ns: [Nanos; LANES],
}

impl TestDevice {
    /// Without busy episodes: requests wait only for lanes. Times are for the first 4 KiB; each further page adds an
    /// eighth.
    pub fn steady(read_ns: Nanos, write_ns: Nanos) -> Self {
        TestDevice {
            read_ns,
            write_ns,
            period_ns: Nanos::MAX,
            busy_share: 0.0,
            chance: Chance::new(0),
            free_ns: [0; LANES],
        }
    }

    /// Reads of 80 us and writes of 20 us; each period of `period_ns` has a busy episode with probability `busy_share`.
    pub fn busy(period_ns: Nanos, busy_share: f64, seed: u64) -> Self {
        let chance = Chance::new(seed);
        TestDevice { period_ns: period_ns.max(1), busy_share, chance, ..TestDevice::steady(80_000, 20_000) }
    }

    /// When a service begins that could begin at `at` without episodes.
    fn begin(&self, at: Nanos) -> Nanos {
        if self.busy_share <= 0.0 {
            return at;
        }
        let period = at / self.period_ns;
        let drawn = self.chance.at(period);
        let (happens, within) = ((drawn >> 32) as f64 / (1u64 << 32) as f64, drawn & 0xFFFF_FFFF);
        let start = period * self.period_ns + ((u128::from(self.period_ns) * u128::from(within)) >> 32) as Nanos;
        if happens < self.busy_share && at >= start { (period + 1) * self.period_ns } else { at }
    }

    fn answer(&self, now: Nanos, request: &Request) -> (usize, Nanos) {
        let lane = (request.offset_bytes / LANE_BYTES) as usize % LANES;
        let first_ns = match request.op {
            Op::Read => self.read_ns,
            Op::Write => self.write_ns,
        };
        let further = Nanos::from(request.size_bytes.div_ceil(PAGE_BYTES).saturating_sub(1));
        (lane, self.begin(now.max(self.free_ns[lane])) + first_ns + further * (first_ns / 8))
    }
}

impl LatencyModel for TestDevice {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        let (lane, done) = self.answer(now, request);
        self.free_ns[lane] = done;
        Outcome::Done(done)
    }

    fn foresight(&self) -> Option<&dyn Foresight> {
        Some(self)
    }
}

impl Foresight for TestDevice {
    fn peek(&self, now: Nanos, request: &Request) -> Outcome {
        Outcome::Done(self.answer(now, request).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Request = Request::new(Op::Read, 0, 4096);

    #[test]
    fn a_lane_serves_one_request_at_a_time_and_lanes_are_independent() {
        let mut test_device = TestDevice::steady(100, 10);
        assert_eq!(test_device.submit(0, &READ), Outcome::Done(100));
        assert_eq!(test_device.submit(50, &READ), Outcome::Done(200));
        assert_eq!(test_device.submit(50, &Request { offset_bytes: LANE_BYTES, ..READ }), Outcome::Done(150));
        assert_eq!(
            test_device.submit(500, &Request { size_bytes: 3 * 4096, ..READ }),
            Outcome::Done(500 + 100 + 2 * 12)
        );
    }

    #[test]
    fn busy_episodes_delay_about_as_much_as_they_should() {
        let mut test_device = TestDevice::busy(1_000_000, 0.4, 9);
        let gap_ns = 1_037_003;
        let slow = (0..20_000u64)
            .filter(|i| test_device.submit(i * gap_ns, &READ) != Outcome::Done(i * gap_ns + 80_000))
            .count();
        // An episode covers half of its period on average, and two periods of five have one.
        assert!((3_700..4_300).contains(&slow), "{slow}");
    }
}
