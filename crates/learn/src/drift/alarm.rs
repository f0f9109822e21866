// SPDX-License-Identifier: MIT OR Apache-2.0
//! Three alarms: does a device still behave as its model learned?
//!
//! Reads come in blocks, and every 8 blocks are compared once with a reference of 24. Latencies of neighbouring reads are
//! alike, so reads are no independent sample and a test that takes them for one rings all the time. What is tested are
//! the means of whole blocks (batch means), by Student's t of two samples with their variance pooled, 30 degrees of freedom.
//! A block must be longer than what makes its reads alike, or blocks are no sample either: it has a least number of reads and
//! a least length in time, a quarter of a second unless set otherwise (flushes come every 8 ms to 1 s; LinnOS, section 6).
//!
//! - **inflection moved**: the share of reads up to the model's inflection point is five percentiles or more from where it was
//!   in the reference, and t says so at the level 0.01.
//! - **base rate changed**: the odds of a slow read changed by half or more either way, at the level 0.01. Where few reads
//!   are slow this sees what five percentiles miss.
//! - **calibration lost**: the scores of the reference are cut at their median, upper quartile and 90th percentile. In one of
//!   the four bins the share of slow reads moved by 10 points or more, and t says so of the residuals against the
//!   reference's share, at the level 0.01 over 4. Scores need no meaning of their own for that, so it serves the trees'
//!   log-odds and a network's margin alike.
//!
//! The reference of the first two is the window that the model was trained on, as far as it goes, and what followed; that of
//! the third only what followed, so that a model which was too sure of itself from the start does not ring.
//!
//! At these levels one check in a hundred rings falsely for each alarm when blocks are independent and normal; the sizes
//! that are asked for besides make it rarer. A false alarm costs a fit and a comparison, not a wrong model.

use linnet_measure::quantile;
use linnet_types::Nanos;

/// Blocks of the reference.
pub const REFERENCE_BLOCKS: usize = 24;
/// Blocks of a check.
pub const CHECK_BLOCKS: usize = 8;
/// Percentiles that the inflection point moves before it is said to have moved.
pub const INFLECTION_POINTS: f64 = 5.0;
/// Factor of the odds of a slow read.
pub const ODDS: f64 = 1.5;
/// Share of slow reads in a bin.
pub const CALIBRATION: f64 = 0.10;

/// Two-sided critical values of Student's t with 30 degrees of freedom: 0.01, and 0.01 over 4.
const T_LEVEL: f64 = 2.750;
const T_LEVEL_BINS: f64 = 3.300;

const BINS: usize = 4;
const CUTS: [f64; BINS - 1] = [0.5, 0.75, 0.9];

/// Which alarms ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    /// The inflection point lies at another percentile.
    pub inflection: bool,
    /// Scores no longer say how many reads are slow.
    pub calibration: bool,
    /// More or fewer reads are slow.
    pub base_rate: bool,
}

impl Alarms {
    /// True when one rings.
    pub fn any(self) -> bool {
        self.inflection || self.calibration || self.base_rate
    }
}

/// One check against the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// What rings.
    pub alarms: Alarms,
    /// Percentile of the model's inflection point in the reference, and now.
    pub percentile: (f64, f64),
    /// t of the share of slow reads; infinite when it moved between blocks that are all alike.
    pub t: f64,
    /// How far the share of slow reads is from the reference's in the bin that moved most.
    pub calibration_error: f64,
}

/// Reads and slow reads of a block, by bin.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    reads: [f64; BINS],
    slow: [f64; BINS],
}

/// How scores tell slow reads from fast ones.
#[derive(Clone, Debug)]
struct Calibration {
    /// The first score of every bin but the first.
    cuts: [i64; BINS - 1],
    blocks: Vec<Block>,
    /// Share of slow reads by bin.
    shares: [f64; BINS],
}

/// Reads in a row: score, slow or not.
type Reads = Vec<(i64, bool)>;

/// Monitors one model. Told of each read that it scored and of how the read turned out.
#[derive(Clone, Debug)]
pub struct Monitor {
    block_reads: usize,
    block_ns: Nanos,
    /// The block that is being filled, and when it began.
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
    /// A monitor of a model that was trained on these reads, given by time and outcome, the last of which begin its reference.
    /// A block has at least this many reads, and at least one, and lasts at least this long.
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

    /// A read that scored this much was slow, or not. Every [`CHECK_BLOCKS`] blocks a check is made, of what there is a
    /// reference for.
    pub fn push(&mut self, now: Nanos, score: i64, slow: bool) -> Option<Check> {
        let block = self.fill(now, score, slow)?;
        if self.calibration.is_none() {
            self.referred.push(block.clone());
            if self.referred.len() == REFERENCE_BLOCKS {
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
            (check.alarms.calibration, check.calibration_error) = calibration.check(&now);
        }
        Some(check)
    }

    /// Adds a read to the block; gives the block when it is full.
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
        calibration_error: 0.0,
    }
}

impl Calibration {
    fn new(reads: &[Reads]) -> Calibration {
        // Signed order as unsigned, for the project's quantile.
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

    /// Whether it is lost, and how far the share of slow reads is from where it was in the bin that moved most.
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

/// Student's t of two samples with pooled variance; positive when the second is greater.
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
