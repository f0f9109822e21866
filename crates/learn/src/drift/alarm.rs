// SPDX-License-Identifier: MIT OR Apache-2.0
//! Three alarms that detect whether a device still behaves as its model learned.
//!
//! Reads are grouped in blocks, and every 8 blocks are compared once with a reference of 24. Latencies of neighbouring
//! reads are correlated, so a test that treats reads as independent raises constant false alarms. The test is therefore
//! on the means of blocks (batch means): Student's t of two samples with pooled variance, 30 degrees of freedom. A
//! block must be longer than the correlation of its reads, or blocks are correlated too: it has a minimum number of
//! reads and a minimum length in time, a quarter of a second unless set otherwise (flushes come every 8 ms to 1 s;
//! LinnOS, section 6).
//!
//! - **inflection moved**: the share of reads up to the model's inflection point differs by five percentiles or more
//!   from the reference, and t is significant at the level 0.01.
//! - **base rate changed**: the odds of a slow read changed by half or more in either direction, at the level 0.01. If
//!   few reads are slow, this detects changes of less than five percentiles.
//! - **calibration lost**: the scores of the reference are cut at their median, upper quartile and 90th percentile. In
//!   one of the four bins the share of slow reads moved by 10 points or more, and t of the residuals against the
//!   reference's share is significant at the level 0.01 over 4. This requires no scale of the scores, so it works for
//!   the trees' log-odds and a network's margin alike.
//!
//! The reference of the first two starts with the window that the model was trained on, followed by later reads. The
//! reference of the third has only later reads, so that a model which was overconfident from the start raises no alarm.
//! It ends with a check, and only later checks are of calibration: no block is compared with itself.
//!
//! At these levels one check in a hundred raises a false alarm of each kind if blocks are independent and normal; the
//! required sizes of the changes make it rarer. A false alarm costs a fit and a comparison, not a wrong model.

use linnet_measure::quantile;
use linnet_types::Nanos;

/// Blocks of the reference.
pub const REFERENCE_BLOCKS: usize = 24;
/// Blocks of a check.
pub const CHECK_BLOCKS: usize = 8;
/// Change of the inflection point, in percentiles, that raises an alarm.
pub const INFLECTION_POINTS: f64 = 5.0;
/// Factor by which the odds of a slow read must change.
pub const ODDS: f64 = 1.5;
/// Change of the share of slow reads in a bin.
pub const CALIBRATION: f64 = 0.10;

/// Two-sided critical values of Student's t with 30 degrees of freedom: 0.01, and 0.01 over 4.
const T_LEVEL: f64 = 2.750;
const T_LEVEL_BINS: f64 = 3.300;

const BINS: usize = 4;
const CUTS: [f64; BINS - 1] = [0.5, 0.75, 0.9];

/// The alarms that are raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    /// The inflection point is at another percentile.
    pub inflection: bool,
    /// Scores no longer predict the share of slow reads.
    pub calibration: bool,
    /// The share of slow reads changed.
    pub base_rate: bool,
}

impl Alarms {
    /// True if any alarm is raised.
    pub fn any(self) -> bool {
        self.inflection || self.calibration || self.base_rate
    }
}

/// One check against the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// The alarms.
    pub alarms: Alarms,
    /// Percentile of the model's inflection point in the reference, and in this check.
    pub percentile: (f64, f64),
    /// t of the share of slow reads; infinite if it changed between blocks without variance.
    pub t: f64,
    /// Difference of the share of slow reads from the reference, in the bin with the largest difference; `None` before
    /// calibration has a reference.
    pub calibration_error: Option<f64>,
}

/// Numbers of reads and slow reads of a block, by bin.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    reads: [f64; BINS],
    slow: [f64; BINS],
}

/// Calibration: how scores separate slow reads from fast ones.
#[derive(Clone, Debug)]
struct Calibration {
    /// The first score of every bin but the first.
    cuts: [i64; BINS - 1],
    blocks: Vec<Block>,
    /// Share of slow reads by bin.
    shares: [f64; BINS],
}

/// Successive reads: score, and whether slow.
type Reads = Vec<(i64, bool)>;

/// Monitors one model. It receives each read's score and outcome.
#[derive(Clone, Debug)]
pub struct Monitor {
    block_reads: usize,
    block_ns: Nanos,
    /// The block that is being filled, and its start time.
    open: Reads,
    begun_ns: Nanos,
    /// Share of slow reads in each block of the reference.
    shares: Vec<f64>,
    /// Blocks of the reference of calibration, until there are enough.
    referred: Vec<Reads>,
    calibration: Option<Calibration>,
    /// Blocks since the last check.
    recent: Vec<Reads>,
}

impl Monitor {
    /// A monitor of a model that was trained on these reads, given by time and outcome; the last of them begin its
    /// reference. A block has at least this many reads (at least one), and lasts at least this long.
    pub fn new(block_reads: usize, block_ns: Nanos, trained: &[(Nanos, bool)]) -> Monitor {
        let mut monitor = Monitor {
            block_reads: block_reads.max(1),
            block_ns,
            open: Vec::new(),
            begun_ns: 0,
            shares: Vec::new(),
            referred: Vec::new(),
            calibration: None,
            recent: Vec::new(),
        };
        for &(now, slow) in trained {
            if let Some(block) = monitor.fill(now, 0, slow) {
                monitor.shares.push(share(&block));
            }
        }
        monitor.open.clear();
        monitor.shares.drain(..monitor.shares.len().saturating_sub(REFERENCE_BLOCKS));
        monitor
    }

    /// Adds a read with its score and outcome. Every [`CHECK_BLOCKS`] blocks a check is made, with those references
    /// that are complete.
    pub fn push(&mut self, now: Nanos, score: i64, slow: bool) -> Option<Check> {
        let block = self.fill(now, score, slow)?;
        if self.calibration.is_none() {
            if self.referred.len() < REFERENCE_BLOCKS {
                self.referred.push(block.clone());
            } else if self.recent.is_empty() {
                self.calibration = Some(Calibration::new(&std::mem::take(&mut self.referred)));
            }
        }
        if self.shares.len() < REFERENCE_BLOCKS {
            self.shares.push(share(&block));
            return None;
        }
        self.recent.push(block);
        if self.recent.len() < CHECK_BLOCKS {
            return None;
        }
        let now = std::mem::take(&mut self.recent);
        let mut check = check_shares(&self.shares, &now.iter().map(share).collect::<Vec<_>>());
        if let Some(calibration) = &self.calibration {
            let (lost, error) = calibration.check(&now);
            (check.alarms.calibration, check.calibration_error) = (lost, Some(error));
        }
        Some(check)
    }

    /// Adds a read to the block. Returns the block if it is full.
    fn fill(&mut self, now: Nanos, score: i64, slow: bool) -> Option<Reads> {
        if self.open.is_empty() {
            self.begun_ns = now;
        }
        self.open.push((score, slow));
        let full = self.open.len() >= self.block_reads && now.saturating_sub(self.begun_ns) >= self.block_ns;
        full.then(|| std::mem::take(&mut self.open))
    }
}

fn share(block: &Reads) -> f64 {
    block.iter().filter(|read| read.1).count() as f64 / block.len() as f64
}

fn check_shares(before: &[f64], after: &[f64]) -> Check {
    let (was, is, t) = (mean(before), mean(after), student(before, after));
    let certain = t.abs() >= T_LEVEL;
    Check {
        alarms: Alarms {
            inflection: certain && 100.0 * (is - was).abs() >= INFLECTION_POINTS,
            base_rate: certain && far_apart(was, is),
            calibration: false,
        },
        percentile: (100.0 * (1.0 - was), 100.0 * (1.0 - is)),
        t,
        calibration_error: None,
    }
}

impl Calibration {
    fn new(reads: &[Reads]) -> Calibration {
        // Maps signed order to unsigned, for the project's quantile function.
        let mut scores: Vec<u64> = reads.iter().flatten().map(|&(score, _)| (score as u64) ^ (1 << 63)).collect();
        scores.sort_unstable();
        let cuts = CUTS.map(|share| ((quantile(&scores, share) ^ (1 << 63)) as i64).saturating_add(1));
        let blocks: Vec<Block> = reads.iter().map(|reads| binned(reads, &cuts)).collect();
        let share = |bin: usize| {
            let slow: f64 = blocks.iter().map(|block| block.slow[bin]).sum();
            slow / blocks.iter().map(|block| block.reads[bin]).sum::<f64>().max(1.0)
        };
        Calibration { cuts, shares: std::array::from_fn(share), blocks }
    }

    /// Whether calibration is lost, and the largest difference of the share of slow reads among the bins.
    fn check(&self, now: &[Reads]) -> (bool, f64) {
        let now: Vec<Block> = now.iter().map(|reads| binned(reads, &self.cuts)).collect();
        let (mut lost, mut error) = (false, 0.0f64);
        for bin in 0..BINS {
            let residuals = |blocks: &[Block]| -> Vec<f64> {
                let one = |block: &Block| {
                    (block.slow[bin] - self.shares[bin] * block.reads[bin]) / block.reads.iter().sum::<f64>()
                };
                blocks.iter().map(one).collect()
            };
            let sum = |part: fn(&Block) -> &[f64; BINS]| now.iter().map(|block| part(block)[bin]).sum::<f64>();
            let reads = sum(|block| &block.reads);
            if reads == 0.0 {
                continue;
            }
            let (after, moved) = (residuals(&now), sum(|block| &block.slow) / reads - self.shares[bin]);
            let certain = student(&residuals(&self.blocks), &after).abs() >= T_LEVEL_BINS;
            lost |= certain && moved.abs() >= CALIBRATION;
            error = if moved.abs() > error.abs() { moved } else { error };
        }
        (lost, error)
    }
}

fn binned(reads: &Reads, cuts: &[i64; BINS - 1]) -> Block {
    let mut block = Block::default();
    for &(score, slow) in reads {
        let bin = cuts.iter().filter(|&&cut| score >= cut).count();
        block.reads[bin] += 1.0;
        block.slow[bin] += f64::from(u8::from(slow));
    }
    block
}

/// Whether the odds differ by the factor [`ODDS`].
fn far_apart(a: f64, b: f64) -> bool {
    let (low, high) = (a.min(b), a.max(b));
    high * (1.0 - low) >= ODDS * low * (1.0 - high) && high > low
}

fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

/// Student's t of two samples with pooled variance; positive if the mean of the second is higher.
fn student(a: &[f64], b: &[f64]) -> f64 {
    let squares = |sample: &[f64]| {
        let middle = mean(sample);
        sample.iter().map(|x| (x - middle) * (x - middle)).sum::<f64>()
    };
    let (n, m) = (a.len() as f64, b.len() as f64);
    let apart = mean(b) - mean(a);
    let error = ((squares(a) + squares(b)) / (n + m - 2.0) * (1.0 / n + 1.0 / m)).sqrt();
    if apart == 0.0 { 0.0 } else { apart / error }
}

#[cfg(test)]
#[path = "alarm_tests.rs"]
mod tests;
