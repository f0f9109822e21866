// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the share of revokes that are wrong. A real device never shows it, because the read was sent elsewhere.
//!
//! A random draw is made for every read that is about to be revoked, or sent elsewhere than to its primary: with the
//! probability [`Config::probe_share`](crate::Config::probe_share) it is submitted there nevertheless. Every such read
//! has the same known probability of being observed, and the draw does not depend on its outcome. So the outcomes of
//! the observed reads, each weighted by the inverse of that probability (Horvitz and Thompson, JASA 47, 1952), estimate
//! the outcomes of all without bias. The interval is Wilson's for the share among the draws. Correlation between
//! neighbouring reads does not matter: the only randomness is that of the draws, which are independent.
//!
//! The cost is measured in the same way. The draw splits reads into two groups that differ in nothing else, so the
//! difference of their mean latencies is the cost of a sampled probe. A probe replaces the copy that would have been
//! sent elsewhere, so it adds no I/O.
//!
//! The probes of [`Counters::probes`](crate::Counters::probes) are different: they are sent to devices whose state has
//! expired. Only sampled probes give an unbiased estimate.

use linnet_measure::{Z_95, wilson};
use linnet_sim::Chance;
use linnet_types::{Nanos, is_slow};

use crate::Counters;

/// Result of the first draw for a read.
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

/// Identifies the random stream of these draws, so that they do not change other random numbers.
const COIN: u64 = 0x636f_696e;

/// The draws of an array with this seed.
pub(crate) fn coin(seed: u64) -> Chance {
    Chance::new(seed).fork(COIN)
}

/// Counts of draws and of their outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probing {
    /// Draws: reads about to be revoked, or to be sent elsewhere than to their primary.
    pub draws: u64,
    /// Sampled probes: reads submitted there by the draw.
    pub probes: u64,
    /// Probes that were answered, or had not been after the device's inflection point.
    pub answered: u64,
    /// Answered probes within the device's inflection point: the policy was wrong.
    pub fast: u64,
    /// Reads sent elsewhere that would have been within it, by a peek; only on devices with foresight. The truth, for
    /// checks.
    pub fast_elsewhere: u64,
    /// Reads whose first draw was probe, and reads whose first draw was elsewhere.
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
    /// Share of the draws in which the device would have been fast: the share of false revokes.
    pub fn false_share(&self) -> Estimate {
        let (low, high) = wilson(self.fast, self.answered, Z_95);
        let value = if self.answered == 0 { 0.0 } else { self.fast as f64 / self.answered as f64 };
        Estimate { value, low, high }
    }

    /// The same count as a share of this many reads.
    pub fn false_share_of(&self, reads: u64) -> Estimate {
        let (share, scale) = (self.false_share(), self.draws as f64 / reads.max(1) as f64);
        Estimate { value: scale * share.value, low: scale * share.low, high: scale * share.high }
    }

    /// Share of the draws in which the device would have been fast, including peeks: the true value of the estimate.
    /// Only on devices with foresight.
    pub fn truth(&self) -> f64 {
        (self.fast + self.fast_elsewhere) as f64 / self.draws.max(1) as f64
    }

    /// Mean latency of reads whose draw was probe minus that of reads whose draw was elsewhere, in nanoseconds. `None`
    /// with fewer than two reads in either group.
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

    /// A read with a draw was answered.
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
    /// Share of draws that were probes.
    pub fn probe_share(&self) -> f64 {
        self.probing.probes as f64 / self.reads.max(1) as f64
    }
}
