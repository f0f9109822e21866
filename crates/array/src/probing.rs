// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often is a revoke wrong? A live device never shows it, for the read went elsewhere.
//!
//! So a random draw is made for every read that is about to be revoked, or sent elsewhere than to its primary: with the chance
//! [`Config::probe_share`](crate::Config::probe_share) it is submitted there all the same. Each event has the same known chance
//! to be seen and the draw does not depend on it, so what becomes of the submitted ones, each weighed by the inverse of that
//! chance (Horvitz and Thompson, JASA 47, 1952), is an unbiased estimate of what would have become of all. The interval is
//! Wilson's for the share among the events. Neighbouring reads may be as alike as they like: the chance in it is that of
//! the draw, and draws are independent.
//!
//! The price is measured the same way. The draw splits reads into two groups that differ in nothing else, so the difference of
//! their mean latencies is what a sampled probe costs. A probe takes the place of the copy that would have gone elsewhere
//! and adds none.
//!
//! Unlike the probes of [`Counters::probes`](crate::Counters::probes), which go where knowledge has expired and serve
//! that device, these go wherever the policy says no, and only they may be counted on.

use linnet_measure::{Z_95, wilson};
use linnet_sim::Chance;
use linnet_types::{Nanos, is_slow};

use crate::Counters;

/// What the first draw about a read said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Draw {
    /// No draw.
    #[default]
    None,
    /// To the device.
    Probe,
    /// Elsewhere, as the policy wanted.
    Elsewhere,
}

/// Name of the draws' stream: they shift no other chance.
const COIN: u64 = 0x636f_696e;

/// The draws of an array with this seed.
pub(crate) fn coin(seed: u64) -> Chance {
    Chance::new(seed).fork(COIN)
}

/// Counts of draws and of what followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probing {
    /// Draws: reads about to be revoked, or to be sent elsewhere than to their primary.
    pub draws: u64,
    /// Sampled probes: submitted there by the draw.
    pub probes: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, within the device's inflection point: the policy was wrong.
    pub fast: u64,
    /// Of those that went elsewhere, within it as well by a peek; where devices can be peeked at. The truth, for checks.
    pub fast_elsewhere: u64,
    /// Reads whose first draw said probe, and those whose first draw said elsewhere.
    pub reads: [u64; 2],
    /// Sum of their latencies.
    pub latency_ns: [u128; 2],
    /// Sum of their squares.
    pub latency_squares: [u128; 2],
}

/// A share or a mean, and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Probing {
    /// Share of the draws in which the device would have been fast: of revokes that are false.
    pub fn false_share(&self) -> Estimate {
        let (low, high) = wilson(self.fast, self.answered, Z_95);
        let value = if self.answered == 0 { 0.0 } else { self.fast as f64 / self.answered as f64 };
        Estimate { value, low, high }
    }

    /// The same as a share of this many reads.
    pub fn false_share_of(&self, reads: u64) -> Estimate {
        let (share, scale) = (self.false_share(), self.draws as f64 / reads.max(1) as f64);
        Estimate { value: scale * share.value, low: scale * share.low, high: scale * share.high }
    }

    /// Share of the draws in which the device would have been fast, peeks counted: what the estimate estimates. Only where
    /// devices can be peeked at.
    pub fn truth(&self) -> f64 {
        (self.fast + self.fast_elsewhere) as f64 / self.draws.max(1) as f64
    }

    /// Mean latency that a read whose draw says probe has above one whose draw says elsewhere, in nanoseconds. Nothing
    /// without two reads of either kind.
    pub fn cost_ns(&self) -> Option<Estimate> {
        if self.reads.iter().any(|&reads| reads < 2) {
            return None;
        }
        let count = self.reads.map(|reads| reads as f64);
        let mean = [0, 1].map(|k| self.latency_ns[k] as f64 / count[k]);
        let variance =
            [0, 1].map(|k| (self.latency_squares[k] as f64 - count[k] * mean[k] * mean[k]).max(0.0) / (count[k] - 1.0));
        let (value, reach) = (mean[0] - mean[1], Z_95 * (variance[0] / count[0] + variance[1] / count[1]).sqrt());
        Some(Estimate { value, low: value - reach, high: value + reach })
    }

    /// A read whose first draw is known was answered.
    pub(crate) fn answered_read(&mut self, draw: Draw, latency_ns: Nanos) {
        let group = match draw {
            Draw::None => return,
            Draw::Probe => 0,
            Draw::Elsewhere => 1,
        };
        self.reads[group] += 1;
        self.latency_ns[group] += u128::from(latency_ns);
        self.latency_squares[group] += u128::from(latency_ns) * u128::from(latency_ns);
    }

    /// The device answered a probe.
    pub(crate) fn answered_probe(&mut self, latency_ns: Nanos, inflection_ns: Nanos) {
        self.answered += 1;
        self.fast += u64::from(!is_slow(latency_ns, inflection_ns));
    }
}

impl Counters {
    /// Share of reads that the coin sent where the policy did not want them.
    pub fn probe_share(&self) -> f64 {
        self.probing.probes as f64 / self.reads.max(1) as f64
    }
}
