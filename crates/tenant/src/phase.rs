// SPDX-License-Identifier: MIT OR Apache-2.0
//! The phases of a workload: intervals of its rate history in which the four rates are steady.
//!
//! Optimal partitioning (Jackson et al., IEEE Signal Processing Letters 2005): the split of the history that minimises
//! the squared distance of the slots to the mean of their interval, plus a penalty for each interval. Intervals whose
//! means are close to each other are one phase that returns.

use linnet_types::Nanos;

use crate::history::History;

/// Coordinates of a slot: I/Os and bytes of each group.
const COORDINATES: usize = 8;
/// Intervals are at least so many slots long, so that a burst is no phase.
const SLOTS_MIN: usize = 8;

/// An interval in which a workload is in one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Number of the phase, from 0 in the order of appearance; a phase that returns has the same number.
    pub phase: usize,
    /// Start of the interval since the start of the sample.
    pub from_ns: Nanos,
    /// End of the interval.
    pub to_ns: Nanos,
}

/// The phases of a sample, which together cover its history. A sample of fewer than 16 slots is one phase.
pub fn phases(history: &History) -> Vec<Phase> {
    let rows = coordinates(history);
    if rows.is_empty() {
        return Vec::new();
    }
    let noise = noise(&rows);
    let ends = partition(&rows, noise);
    let mut found: Vec<Phase> = Vec::new();
    let mut centres: Vec<(Vec<f64>, usize)> = Vec::new();
    let mut from = 0;
    for to in ends {
        let mean: Vec<f64> = (0..COORDINATES)
            .map(|c| rows[from..to].iter().map(|row| row[c]).sum::<f64>() / (to - from) as f64)
            .collect();
        let length = to - from;
        let near = centres.iter().position(|(centre, slots)| returns(&mean, length, centre, *slots, noise));
        let phase = near.unwrap_or_else(|| {
            centres.push((mean, length));
            centres.len() - 1
        });
        let slot_ns = history.slot_ns();
        match found.last_mut() {
            Some(last) if last.phase == phase => last.to_ns = to as u64 * slot_ns,
            _ => found.push(Phase { phase, from_ns: from as u64 * slot_ns, to_ns: to as u64 * slot_ns }),
        }
        from = to;
    }
    found
}

/// Square roots of I/Os and of pages: the variance of a Poisson count's root does not depend on its mean (Anscombe,
/// Biometrika 1948).
fn coordinates(history: &History) -> Vec<[f64; COORDINATES]> {
    let of = |slot: &[crate::rates::Sums; 4]| {
        std::array::from_fn(|c| {
            let sums = slot[c / 2];
            if c % 2 == 0 { (sums.ios as f64).sqrt() } else { (sums.bytes as f64 / 4096.0).sqrt() }
        })
    };
    history.slots().iter().map(of).collect()
}

/// Squared noise of a slot, summed over the coordinates: by the median of the squared steps, which changes of phase do
/// not affect. At least that of Poisson counts, 1/4 each.
fn noise(rows: &[[f64; COORDINATES]]) -> f64 {
    let used = (0..COORDINATES).filter(|&c| rows.iter().any(|row| row[c] > 0.0)).count();
    let mut total = 0.0;
    for c in 0..COORDINATES {
        let mut steps: Vec<f64> = rows.windows(2).map(|pair| (pair[1][c] - pair[0][c]).powi(2)).collect();
        if steps.is_empty() {
            continue;
        }
        let middle = steps.len() / 2;
        // The median of a squared normal step of variance 2v is 2v * 0.455.
        total += *steps.select_nth_unstable_by(middle, f64::total_cmp).1 / (2.0 * 0.455);
    }
    total.max(0.25 * used.max(1) as f64)
}

/// Ends of the intervals of the best partition.
fn partition(rows: &[[f64; COORDINATES]], noise: f64) -> Vec<usize> {
    let n = rows.len();
    let mut sums = vec![[0.0; COORDINATES]; n + 1];
    let mut squares = vec![0.0; n + 1];
    for (i, row) in rows.iter().enumerate() {
        sums[i + 1] = std::array::from_fn(|c| sums[i][c] + row[c]);
        squares[i + 1] = squares[i] + row.iter().map(|x| x * x).sum::<f64>();
    }
    let cost = |from: usize, to: usize| {
        let length = (to - from) as f64;
        let mean_part: f64 = (0..COORDINATES).map(|c| (sums[to][c] - sums[from][c]).powi(2)).sum();
        (squares[to] - squares[from] - mean_part / length).max(0.0)
    };
    // Three times the criterion of Schwarz: slots of real workloads are correlated, which it does not expect.
    let penalty = 3.0 * 2.0 * noise * (n as f64).ln().max(1.0);
    let mut best = vec![f64::INFINITY; n + 1];
    let mut start = vec![0; n + 1];
    best[0] = -penalty;
    for to in 1..=n {
        // The first interval may be shorter only if the whole history is.
        let latest = to.saturating_sub(SLOTS_MIN);
        for from in 0..=latest {
            let total = best[from] + cost(from, to) + penalty;
            if total < best[to] {
                (best[to], start[to]) = (total, from);
            }
        }
        if to < SLOTS_MIN && to < n {
            best[to] = f64::INFINITY;
        }
    }
    let mut ends = vec![n];
    while let Some(&to) = ends.last() {
        if start[to] == 0 {
            break;
        }
        ends.push(start[to]);
    }
    ends.reverse();
    ends
}

/// Whether an interval continues a phase: their means differ by no more than the noise of the two means allows, or by
/// less than an eighth of their size.
fn returns(mean: &[f64], length: usize, centre: &[f64], slots: usize, noise: f64) -> bool {
    let distance: f64 = mean.iter().zip(centre).map(|(a, b)| (a - b).powi(2)).sum();
    let size: f64 = mean.iter().zip(centre).map(|(a, b)| a.max(*b).powi(2)).sum();
    distance <= 9.0 * noise * (1.0 / length as f64 + 1.0 / slots as f64) || distance <= size / 64.0
}
