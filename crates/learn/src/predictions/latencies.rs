// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency quantiles by the score of the trees and one feature: their fit and evaluation.
//!
//! Trees rank reads by their probability of being slow. The table maps that to the latencies seen in training: reads
//! are divided into bins of equal count by score, and by the most useful feature; each bin holds order statistics of
//! the latencies of its reads. High quantiles need more reads than a bin has, so a bin includes its neighbours until it
//! has enough. `docs/design/quantiles.md` compares this with the alternatives that were tried.

use linnet_core::{BUCKET_MAX, FEATURE_BINS, LATENCY_SHARES, Latencies, LatencyBins, SCORE_BINS, Trees};
use linnet_measure::quantile;
use linnet_types::Nanos;

use crate::error::Error;
use crate::inflight_set::InflightSet;

const QUANTILES: usize = LATENCY_SHARES.len();
/// Reads that each quantile is computed from, if there are as many.
const POOL: [usize; QUANTILES] = [40, 60, 100, 300, 2_000];
/// The last quantile varies too much to choose a feature by.
const CHOSEN_BY: usize = 4;
/// With fewer rows no choice is possible, and the feature is [`USUAL`].
const CHOICE_ROWS_MIN: usize = 200;
/// More rows, taken evenly over all of them, would not choose better.
const CHOICE_ROWS_MAX: usize = 20_000;
/// Feature: time that the work ahead of the read would take at the recent rate.
const USUAL: usize = 13;

/// Accuracy of one predicted quantile on rows that were not used for learning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedQuantile {
    /// The quantile, 0..=1.
    pub share: f64,
    /// Share of reads within the prediction; equal to `share` if the quantile is calibrated.
    pub covered: f64,
    /// Mean pinball loss: latency above the prediction counts `share`, latency below it 1 - `share`.
    pub loss_ns: f64,
    /// Pinball loss if the rows' own quantile is predicted for all of them: the best constant prediction, in hindsight.
    pub one_number_loss_ns: f64,
}

impl PredictedQuantile {
    /// Its figures for reports, latencies in microseconds.
    pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("share", self.share),
            ("covered", self.covered),
            ("loss_us", self.loss_ns / 1000.0),
            ("one_number_loss_us", self.one_number_loss_ns / 1000.0),
        ]
    }
}

/// Fits the latency quantiles of these trees to the rows that the trees were fitted to.
///
/// # Errors
/// [`Error::TooFewRows`] for an empty set.
pub fn fit_latencies(trees: &Trees, set: &InflightSet) -> Result<Latencies, Error> {
    if set.is_empty() {
        return Err(Error::TooFewRows { purpose: "latencies", rows: 0, least: 1 });
    }
    let scores: Vec<i32> = set.features.iter().map(|row| trees.score(row)).collect();
    let feature = choose(&scores, set);
    let all: Vec<usize> = (0..set.len()).collect();
    table(&scores, set, &all, feature)
}

/// Evaluates the predicted latencies on these rows, one entry for each of [`LATENCY_SHARES`].
///
/// # Errors
/// [`Error::TooFewRows`] for an empty set.
pub fn evaluate_latencies(
    trees: &Trees,
    latencies: &Latencies,
    set: &InflightSet,
) -> Result<[PredictedQuantile; QUANTILES], Error> {
    if set.is_empty() {
        return Err(Error::TooFewRows { purpose: "testing", rows: 0, least: 1 });
    }
    let told: Vec<&[u32; QUANTILES]> =
        set.features.iter().map(|row| latencies.predict(trees.score(row), row)).collect();
    let mut sorted = set.latency_ns.clone();
    sorted.sort_unstable();
    Ok(std::array::from_fn(|k| {
        let share = LATENCY_SHARES[k];
        let one = quantile(&sorted, share);
        let mean = |loss: &dyn Fn(usize) -> f64| (0..set.len()).map(loss).sum::<f64>() / set.len() as f64;
        PredictedQuantile {
            share,
            covered: mean(&|row| f64::from(u8::from(within(set.latency_ns[row], told[row][k])))),
            loss_ns: mean(&|row| pinball(set.latency_ns[row], told[row][k].into(), share)),
            one_number_loss_ns: mean(&|row| pinball(set.latency_ns[row], one, share)),
        }
    }))
}

/// A predicted latency of `u32::MAX` means that or more.
fn within(latency_ns: Nanos, told_ns: u32) -> bool {
    told_ns == u32::MAX || latency_ns <= Nanos::from(told_ns)
}

fn pinball(latency_ns: Nanos, told_ns: Nanos, share: f64) -> f64 {
    let missed = latency_ns as f64 - told_ns as f64;
    missed.abs() * if missed > 0.0 { share } else { 1.0 - share }
}

/// The feature whose table, fitted to the first half of the rows, has the lowest loss on the second. With one device the
/// halves follow in time; rows of several devices follow each other device by device, so it is chosen between devices.
fn choose(scores: &[i32], set: &InflightSet) -> usize {
    if set.len() < CHOICE_ROWS_MIN {
        return USUAL;
    }
    let rows = set.len().min(CHOICE_ROWS_MAX);
    let picked: Vec<usize> = (0..rows).map(|i| (i as u128 * set.len() as u128 / rows as u128) as usize).collect();
    let (first, second) = picked.split_at(rows / 2);
    let mut best = (f64::INFINITY, USUAL);
    for feature in 0..set.features[0].len() {
        let Ok(table) = table(scores, set, first, feature) else { continue };
        let mut losses = [0.0; CHOSEN_BY];
        for &row in second {
            let told = table.predict(scores[row], &set.features[row]);
            for (k, loss) in losses.iter_mut().enumerate() {
                *loss += pinball(set.latency_ns[row], told[k].into(), LATENCY_SHARES[k]);
            }
        }
        // A product, so that each quantile has the same weight however large its loss is.
        let product = losses.iter().map(|loss| loss / second.len() as f64).product();
        if product < best.0 {
            best = (product, feature);
        }
    }
    best.1
}

/// The table of these rows by score and by `feature`.
fn table(scores: &[i32], set: &InflightSet, rows: &[usize], feature: usize) -> Result<Latencies, Error> {
    let value = |row: usize| set.features[row][feature].min(BUCKET_MAX);
    let mut rows = rows.to_vec();
    rows.sort_by_key(|&row| scores[row]);
    let sorted: Vec<i32> = rows.iter().map(|&row| scores[row]).collect();
    let mut values: Vec<u8> = rows.iter().map(|&row| value(row)).collect();
    values.sort_unstable();
    let score_edges: [i32; SCORE_BINS - 1] = edges(&sorted, i32::MAX);
    let feature_edges: [u8; FEATURE_BINS - 1] = edges(&values, BUCKET_MAX);

    let mut bins: Box<[[[f64; QUANTILES]; FEATURE_BINS]; SCORE_BINS]> = Box::default();
    let mut counts = [[0.0; FEATURE_BINS]; SCORE_BINS];
    for s in 0..SCORE_BINS {
        let own = bounds(&sorted, &score_edges, s);
        for (k, &pool) in POOL.iter().enumerate() {
            let mut near: Vec<(u8, Nanos)> =
                rows[widen(own, pool, rows.len())].iter().map(|&row| (value(row), set.latency_ns[row])).collect();
            near.sort_by_key(|&(value, _)| value);
            let values: Vec<u8> = near.iter().map(|&(value, _)| value).collect();
            for f in 0..FEATURE_BINS {
                let own = bounds(&values, &feature_edges, f);
                counts[s][f] = (own.1 - own.0) as f64;
                let mut latencies: Vec<Nanos> =
                    near[widen(own, pool, near.len())].iter().map(|&(_, latency_ns)| latency_ns).collect();
                bins[s][f][k] = order_statistic(&mut latencies, LATENCY_SHARES[k]) as f64;
            }
        }
    }
    let mut whole: Box<LatencyBins> = Box::default();
    for f in 0..FEATURE_BINS {
        for k in 0..QUANTILES {
            let column: [f64; SCORE_BINS] = std::array::from_fn(|s| bins[s][f][k]);
            let risen = rise(&column, &counts.map(|row: [f64; FEATURE_BINS]| row[f].max(1.0)));
            for (s, &ns) in risen.iter().enumerate() {
                let least = if k > 0 { whole[s][f][k - 1] } else { 0 };
                // Casts of floats saturate, as the format requires.
                whole[s][f][k] = (ns.round() as u32).max(least);
            }
        }
    }
    Ok(Latencies::new(score_edges, feature as u8, feature_edges, *whole)?)
}

/// Values that cut `sorted` into `N + 1` parts of equal count; each occurs once, followed by `unused`.
fn edges<T: Copy + Ord, const N: usize>(sorted: &[T], unused: T) -> [T; N] {
    let mut cuts: Vec<T> = (1..=N).map(|i| sorted[(sorted.len() * i).div_ceil(N + 1) - 1]).collect();
    cuts.dedup();
    std::array::from_fn(|i| cuts.get(i).copied().unwrap_or(unused))
}

/// The range of a bin in `sorted`: above the edge below it, up to and including its own.
fn bounds<T: Copy + Ord>(sorted: &[T], edges: &[T], bin: usize) -> (usize, usize) {
    let behind = |edge: T| sorted.partition_point(|&value| value <= edge);
    let from = if bin > 0 { behind(edges[bin - 1]) } else { 0 };
    (from, edges.get(bin).map_or(sorted.len(), |&edge| behind(edge)))
}

/// The same range if it has at least `least` members, otherwise that many around its middle, or all `len`.
fn widen((from, to): (usize, usize), least: usize, len: usize) -> std::ops::Range<usize> {
    let least = least.min(len);
    if to - from >= least {
        return from..to;
    }
    let start = ((from + to) / 2).saturating_sub(least / 2).min(len - least);
    start..start + least
}

/// The lowest latency that a further read from the same distribution stays within with at least this probability: one
/// rank above the plain quantile. The maximum, if there are too few reads.
fn order_statistic(latencies: &mut [Nanos], share: f64) -> Nanos {
    // Slightly less, so that 0.9 of 10 is 9 and not 10.
    let rank = (share * (latencies.len() + 1) as f64 * (1.0 - 1e-12)).ceil() as usize;
    let at = rank.clamp(1, latencies.len()) - 1;
    *latencies.select_nth_unstable(at).1
}

/// The nearest non-decreasing sequence by weighted least squares: neighbours that descend are averaged.
fn rise(values: &[f64; SCORE_BINS], weights: &[f64; SCORE_BINS]) -> Vec<f64> {
    // Mean, weight and length of each run.
    let mut runs: Vec<(f64, f64, usize)> = Vec::new();
    for (&value, &weight) in values.iter().zip(weights) {
        let mut run = (value, weight, 1);
        while let Some(&(mean, heft, length)) = runs.last().filter(|last| last.0 > run.0) {
            runs.pop();
            let both = heft + run.1;
            run = ((mean * heft + run.0 * run.1) / both, both, length + run.2);
        }
        runs.push(run);
    }
    runs.iter().flat_map(|&(mean, _, length)| std::iter::repeat_n(mean, length)).collect()
}

#[cfg(test)]
#[path = "latencies_tests.rs"]
mod tests;
