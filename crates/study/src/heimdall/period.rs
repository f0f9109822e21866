// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heimdall's labels: periods in which a device is slow, and a filter of rows that contradict them.
//!
//! A slow period begins at a read whose latency is above a threshold, whose throughput (size over latency) is below
//! another, and whose throughput has fallen from that of the read before it by a factor, 1.7 in the published code. It
//! ends when three successive reads reach the median throughput; these three are fast again. The noise filter then
//! removes fast reads from slow periods, slow reads from fast ones, and slow periods of three reads or fewer.
//!
//! Where the sources are silent:
//! - The latency threshold is where the distribution, cut at its 97th percentile, is farthest above the diagonal, as in
//!   Heimdall's port of LinnOS. The throughput threshold mirrors it: as many reads are below it as are above the
//!   latency threshold.
//! - A fast read in a slow period has at least the median throughput and at most the median latency; a slow read in a fast
//!   period is on the wrong side of both points.

use linnet_core::throughput;
use linnet_learn::{Error, require, slope_one};
use linnet_measure::rank;
use linnet_types::Nanos;

/// Options of the search for slow periods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodOptions {
    /// Throughput of the preceding read over that of the read that begins a period; at least 1.
    pub drop: f64,
    /// Successive reads of at least median throughput that end one; at least 1.
    pub calm_reads: usize,
    /// A period of at most this many reads is noise.
    pub burst_max: usize,
    /// Percentile at which latencies are cut when the threshold is searched, above 50 and up to 100.
    pub axis_percentile: f64,
}

impl Default for PeriodOptions {
    fn default() -> Self {
        PeriodOptions { drop: 1.7, calm_reads: 3, burst_max: 3, axis_percentile: 97.0 }
    }
}

/// The thresholds that separate slow from fast on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodPoints {
    /// Latency above which a period may begin.
    pub latency_ns: Nanos,
    /// Throughput below which a period may begin, in bytes per millisecond.
    pub throughput: u32,
    /// Median latency.
    pub latency_ns_p50: Nanos,
    /// Median throughput.
    pub throughput_p50: u32,
}

/// One read as input of the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paced {
    /// Its latency.
    pub latency_ns: Nanos,
    /// Bytes per millisecond.
    pub throughput: u32,
}

impl Paced {
    /// A read of this size and latency.
    pub fn new(size_bytes: u32, latency_ns: Nanos) -> Paced {
        Paced { latency_ns, throughput: throughput(size_bytes, latency_ns) }
    }
}

impl PeriodPoints {
    /// The thresholds of these reads, in any order.
    ///
    /// # Errors
    /// [`Error::Setting`]; [`Error::TooFewRows`] without a read.
    pub fn of(reads: &[Paced], options: &PeriodOptions) -> Result<PeriodPoints, Error> {
        require(options.drop >= 1.0, "drop", options.drop, "1 or more")?;
        require(options.calm_reads >= 1, "calm_reads", options.calm_reads, "1 or more")?;
        let axis = options.axis_percentile;
        require(axis > 50.0 && axis <= 100.0, "axis_percentile", axis, "above 50 and up to 100")?;
        if reads.is_empty() {
            return Err(Error::TooFewRows { purpose: "labels", rows: 0, least: 1 });
        }
        let mut latencies: Vec<Nanos> = reads.iter().map(|read| read.latency_ns).collect();
        let mut rates: Vec<u32> = reads.iter().map(|read| read.throughput).collect();
        latencies.sort_unstable();
        rates.sort_unstable();
        let point = rank(reads.len(), slope_one(&latencies, axis));
        let median = rank(reads.len(), 0.5);
        Ok(PeriodPoints {
            latency_ns: latencies[point],
            throughput: rates[reads.len() - 1 - point],
            latency_ns_p50: latencies[median],
            throughput_p50: rates[median],
        })
    }

    fn is_slow(&self, read: Paced) -> bool {
        read.latency_ns > self.latency_ns && read.throughput < self.throughput
    }

    fn is_fast(&self, read: Paced) -> bool {
        read.latency_ns <= self.latency_ns_p50 && read.throughput >= self.throughput_p50
    }
}

/// Whether each read is in a slow period; reads are in the order of arrival.
pub fn slow_periods(reads: &[Paced], points: &PeriodPoints, options: &PeriodOptions) -> Vec<bool> {
    let mut slow = vec![false; reads.len()];
    let (mut inside, mut calm) = (false, 0);
    for (k, &read) in reads.iter().enumerate() {
        if !inside && k > 0 {
            let dropped = f64::from(reads[k - 1].throughput) >= options.drop * f64::from(read.throughput);
            inside = points.is_slow(read) && dropped;
            calm = 0;
        }
        if inside {
            slow[k] = true;
            calm = if read.throughput >= points.throughput_p50 { calm + 1 } else { 0 };
            if calm == options.calm_reads {
                slow[k + 1 - calm..=k].fill(false);
                inside = false;
            }
        }
    }
    slow
}

/// Whether the filter would remove each read; `slow` is the result of [`slow_periods`].
pub fn noise(reads: &[Paced], slow: &[bool], points: &PeriodPoints, options: &PeriodOptions) -> Vec<bool> {
    let mut noise = Vec::with_capacity(reads.len());
    for period in slow.chunk_by(|a, b| a == b) {
        let burst = period[0] && period.len() <= options.burst_max;
        let odd = |read: Paced| if period[0] { points.is_fast(read) } else { points.is_slow(read) };
        let from = noise.len();
        noise.extend(reads[from..from + period.len()].iter().map(|&read| burst || odd(read)));
    }
    noise
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: PeriodPoints =
        PeriodPoints { latency_ns: 1000, throughput: 50, latency_ns_p50: 100, throughput_p50: 100 };

    fn reads(pairs: &[(Nanos, u32)]) -> Vec<Paced> {
        pairs.iter().map(|&(latency_ns, throughput)| Paced { latency_ns, throughput }).collect()
    }

    fn marks(flags: &[bool]) -> String {
        flags.iter().map(|&flag| if flag { 'x' } else { '.' }).collect()
    }

    fn evaluated(pairs: &[(Nanos, u32)]) -> (String, String) {
        let (reads, options) = (reads(pairs), PeriodOptions::default());
        let slow = slow_periods(&reads, &POINTS, &options);
        (marks(&slow), marks(&noise(&reads, &slow, &POINTS, &options)))
    }

    #[test]
    fn a_period_ends_before_three_reads_at_the_median() {
        let (fast, slow, middling) = ((90, 110), (2000, 20), (500, 70));
        let (labels, removed) =
            evaluated(&[fast, fast, slow, middling, fast, fast, slow, slow, fast, fast, fast, fast, fast]);
        assert_eq!(labels, "..xxxxxx.....");
        assert_eq!(removed, "....xx.......");
    }

    #[test]
    fn a_period_needs_a_drop_and_lasts_to_the_end() {
        // From 33 to 20 is less than a factor of 1.7; a slow read without a drop is noise in a fast period.
        assert_eq!(evaluated(&[(2000, 33), (2000, 20), (2000, 20)]), ("...".into(), "xxx".into()));
        assert_eq!(evaluated(&[(2000, 34), (2000, 20), (2000, 20)]).0, ".xx");
        // A small read is slow by throughput alone, a large one by latency alone.
        assert_eq!(evaluated(&[(90, 110), (900, 20), (2000, 60)]).0, "...");
    }

    #[test]
    fn short_bursts_are_noise() {
        let (fast, slow) = ((90, 110), (2000, 20));
        let burst = |length: usize| {
            let mut pairs = vec![fast];
            pairs.extend(vec![slow; length]);
            pairs.extend([fast; 3]);
            evaluated(&pairs)
        };
        assert_eq!(burst(3), (".xxx...".into(), ".xxx...".into()));
        assert_eq!(burst(4), (".xxxx...".into(), "........".into()));
    }

    #[test]
    fn points_of_two_modes() {
        let pairs: Vec<(Nanos, u32)> =
            (0..1000).map(|i| if i % 10 == 0 { (5000 + i, 8) } else { (80 + i % 20, 512) }).collect();
        let points = PeriodPoints::of(&reads(&pairs), &PeriodOptions::default()).unwrap();
        assert!((80..100).contains(&points.latency_ns), "{points:?}");
        assert_eq!((points.throughput, points.throughput_p50), (512, 512));
        assert!(PeriodPoints::of(&[], &PeriodOptions::default()).is_err());
        let bad = PeriodOptions { drop: 0.5, ..PeriodOptions::default() };
        assert!(PeriodPoints::of(&reads(&pairs), &bad).unwrap_err().to_string().contains("drop is 0.5"));
    }
}
