// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a read is overdue, and what may be spent on hedging it: one read in fifty, both.
//!
//! The delay is where the array's own reads stand at their 98th percentile, so that the reads that ask for a hedge are as many
//! as can be paid for: each that asks lengthens it by 4.9 %, each that answers in time shortens it by 0.1 %. Nothing else moves
//! it. A copy that is cancelled because its hedge won has asked and so has counted; a delay that followed the latencies of
//! completed copies would not see it, and would feed back on itself.
//!
//! One delay serves all devices: what counts is which reads of the array are late.

use crate::{Completion, Learned};
use linnet_types::Nanos;

/// Reads that pay for one hedge: extra reads stay at 2 %.
const READS_PER_HEDGE: u32 = 50;
/// Most that can be saved up: the price of 256 hedges.
const SAVINGS_MAX: u32 = 256 * READS_PER_HEDGE;
/// Thousandths of the delay by which a read that asks lengthens it, and one in time shortens it: at 49 to 1, one in fifty asks.
const LONGER: Nanos = 49;
const SHORTER: Nanos = 1;

/// Pays for hedges. Nothing is saved up at the start.
#[derive(Default)]
pub(super) struct Savings {
    reads: u32,
}

impl Savings {
    /// A read arrived.
    pub(super) fn earn(&mut self) {
        self.reads = (self.reads + 1).min(SAVINGS_MAX);
    }

    /// Pays for one hedge, if there is enough.
    pub(super) fn take(&mut self) -> bool {
        let left = self.reads.checked_sub(READS_PER_HEDGE);
        self.reads = left.unwrap_or(self.reads);
        left.is_some()
    }
}

/// The delay.
pub(super) struct Overdue {
    delay_ns: Option<Nanos>,
}

impl Overdue {
    /// Starts at the least 95th percentile that is known of a device; without one there is no hedging.
    pub(super) fn new(learned: &[Learned]) -> Overdue {
        Overdue { delay_ns: learned.iter().map(|device| device.thresholds.latency_ns_p95).filter(|&ns| ns > 0).min() }
    }

    pub(super) fn delay_ns(&self) -> Option<Nanos> {
        self.delay_ns
    }

    /// A read has waited for the delay.
    pub(super) fn asked(&mut self) {
        self.delay_ns = self.delay_ns.map(|ns| ns.saturating_add(ns.saturating_mul(LONGER).div_ceil(1000)));
    }

    /// A copy completed.
    pub(super) fn completed(&mut self, done: &Completion) {
        if done.op.is_read() {
            self.delay_ns =
                self.delay_ns.map(|ns| if done.latency_ns <= ns { ns - ns.saturating_mul(SHORTER) / 1000 } else { ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_sim::Chance;
    use linnet_types::{Op, Thresholds};

    #[test]
    fn one_read_in_fifty_is_overdue() {
        for start_ns in [1_000, 100_000, 100_000_000] {
            let thresholds = Thresholds { latency_ns_p95: start_ns, ..Thresholds::default() };
            let mut overdue = Overdue::new(&[Learned::default(), Learned { thresholds, ..Learned::default() }]);
            let mut chance = Chance::new(start_ns);
            let mut asked = 0;
            for read in 0..60_000 {
                let latency_ns = chance.exponential(200_000.0) as Nanos;
                if latency_ns > overdue.delay_ns().expect("a start") {
                    overdue.asked();
                    asked += u64::from(read >= 10_000);
                }
                let done =
                    Completion { now_ns: 0, device: 0, op: Op::Read, size_bytes: 4096, latency_ns, in_flight: 0 };
                overdue.completed(&done);
            }
            assert!((900..1_100).contains(&asked), "{asked} of 50,000 from {start_ns} ns on");
        }
        assert_eq!(Overdue::new(&[Learned::default()]).delay_ns(), None);
    }

    #[test]
    fn savings_pay_for_one_read_in_fifty_and_end() {
        let mut savings = Savings::default();
        let paid = (0..10_000).filter(|_| {
            savings.earn();
            savings.take()
        });
        assert_eq!(paid.count(), 200);
        (0..1_000_000).for_each(|_| savings.earn());
        assert_eq!((0..1_000).filter(|_| savings.take()).count(), 256);
    }
}
