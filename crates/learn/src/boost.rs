// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the trees of the schemas `linnet-1` and `linnet-2` by gradient boosting on the logistic loss.
//!
//! Each tree is grown level by level. All nodes of a level ask one question: the one of a random half of the features
//! that reduces the total loss most. The random halves make the trees differ, which improves the ranking of later
//! reads. A leaf moves the score of its reads by a fraction of the Newton step.
//!
//! Sums and steps use only operations that give the same result on every machine, so the same rows and seed give the
//! same trees.

use linnet_core::{BUCKET_MAX, INFLIGHT_FEATURES, Schema, TREE_LEAVES, TREE_LEVELS, TREE_ONE, TREES, Tree, Trees};
use linnet_measure::roc_auc_integers;
use linnet_sim::Chance;

use crate::error::{Error, require};
use crate::evaluate::{Evaluation, figures};
use crate::inflight_set::InflightSet;

const BUCKETS: usize = BUCKET_MAX as usize + 1;
/// Maximum change of the score by one leaf; as an integer it is well within 16 bits.
const LEAF_MAX: f64 = 4.0;

/// Options of the fit. The defaults serve every device.
#[derive(Clone, Debug, PartialEq)]
pub struct BoostOptions {
    /// Trees, 1..=[`TREES`].
    pub trees: usize,
    /// Fraction of the Newton step that a leaf takes, above 0 and at most 1.
    pub rate: f64,
    /// Added to the curvature of each leaf, so that small leaves move less. At least 0.
    pub ridge: f64,
    /// Lowest curvature on either side of a question; a read with even odds contributes 0.25. At least 0.
    pub curvature_min: f64,
    /// Probability that a feature is tried at a level, above 0 and at most 1.
    pub feature_share: f64,
    /// At most this many rows, taken evenly over time; at least 1.
    pub rows_max: usize,
    /// Seed of the features of each level.
    pub seed: u64,
    /// Schema of the features.
    pub schema: Schema,
    /// The share of reads that are fast and called slow: [`linnet_core::Trees::slow_score`] is the lowest score that keeps
    /// it on reads that were not used to choose it. `None`: even odds.
    pub false_revoke: Option<f64>,
}

impl Default for BoostOptions {
    fn default() -> Self {
        BoostOptions {
            trees: TREES,
            rate: 0.15,
            ridge: 3.0,
            curvature_min: 4.0,
            feature_share: 0.5,
            rows_max: 50_000,
            seed: 0,
            schema: Schema::default(),
            false_revoke: None,
        }
    }
}

impl BoostOptions {
    fn check(&self) -> Result<(), Error> {
        let part = |x: f64| x > 0.0 && x <= 1.0;
        let least = |x: f64| x >= 0.0 && x.is_finite();
        require((1..=TREES).contains(&self.trees), "trees", self.trees, "1 to 64")?;
        require(part(self.rate), "rate", self.rate, "above 0 and at most 1")?;
        require(least(self.ridge), "ridge", self.ridge, "0 or more")?;
        require(least(self.curvature_min), "curvature_min", self.curvature_min, "0 or more")?;
        require(part(self.feature_share), "feature_share", self.feature_share, "above 0 and at most 1")?;
        require(self.rows_max > 0, "rows_max", self.rows_max, "1 or more")?;
        let asked = self.false_revoke.unwrap_or(0.5);
        require(asked > 0.0 && asked < 1.0, "false_revoke", asked, "above 0 and below 1")
    }
}

/// Fits trees to the rows.
///
/// # Errors
/// [`Error::Setting`]; [`Error::TooFewRows`] for an empty set.
pub fn fit_trees(set: &InflightSet, options: &BoostOptions) -> Result<Trees, Error> {
    options.check()?;
    if set.is_empty() {
        return Err(Error::TooFewRows { purpose: "training", rows: 0, least: 1 });
    }
    let mut boost = Boost::new(set, options);
    let base = boost.score[0];
    let trees: Vec<Tree> = (0..options.trees).map(|number| boost.grow(number as u64)).collect();
    Ok(Trees::new(&trees, integer(base))?.on(set.schema))
}

/// The lowest score above which at most the share `asked` of these rows is fast.
///
/// # Errors
/// [`Error::TooFewRows`] if that share is not one row.
pub(crate) fn slow_score(trees: &Trees, held: &InflightSet, asked: f64) -> Result<i32, Error> {
    let most = (asked * held.len() as f64) as usize;
    if most == 0 {
        let least = (1.0 / asked).ceil() as usize;
        return Err(Error::TooFewRows { purpose: "choosing a rate of false revokes", rows: held.len(), least });
    }
    let mut fast: Vec<i32> =
        held.features.iter().zip(&held.slow).filter(|(_, slow)| !**slow).map(|(row, _)| trees.score(row)).collect();
    fast.sort_unstable_by(|a, b| b.cmp(a));
    // Above the score of the fast read that comes next there are at most as many as allowed.
    Ok(fast.get(most).copied().unwrap_or(i32::from(i16::MIN)))
}

/// Scores every row with the integer trees that serve.
///
/// # Errors
/// [`Error::TooFewRows`] for an empty set.
pub fn evaluate_trees(trees: &Trees, set: &InflightSet) -> Result<Evaluation, Error> {
    if set.is_empty() {
        return Err(Error::TooFewRows { purpose: "testing", rows: 0, least: 1 });
    }
    let scores: Vec<i64> = set.features.iter().map(|row| i64::from(trees.score(row))).collect();
    let revoked: Vec<bool> = scores.iter().map(|&score| score > i64::from(trees.slow_score())).collect();
    Ok(figures(&set.slow, &revoked, roc_auc_integers(&scores, &set.slow)))
}

fn integer(score: f64) -> i32 {
    (score * f64::from(TREE_ONE)).round() as i32
}

struct Boost<'a> {
    options: &'a BoostOptions,
    chance: Chance,
    /// By feature, then row, because a histogram reads one feature.
    columns: Vec<Vec<u8>>,
    slow: Vec<bool>,
    score: Vec<f64>,
    leaf: Vec<u8>,
    /// Gradient and curvature of the loss at each row's score.
    slope: Vec<[f64; 2]>,
}

/// The question of one level.
#[derive(Clone, Copy, Default)]
struct Question {
    gain: f64,
    feature: u8,
    threshold: u8,
}

impl<'a> Boost<'a> {
    fn new(set: &InflightSet, options: &'a BoostOptions) -> Self {
        let rows = set.len().min(options.rows_max);
        let pick: Vec<usize> = (0..rows).map(|i| (i as u128 * set.len() as u128 / rows as u128) as usize).collect();
        let column = |k: usize| pick.iter().map(|&row| set.features[row][k].min(BUCKET_MAX)).collect();
        let slow: Vec<bool> = pick.iter().map(|&row| set.slow[row]).collect();
        let share = slow.iter().filter(|&&slow| slow).count() as f64 / rows as f64;
        Boost {
            options,
            chance: Chance::new(options.seed),
            columns: (0..INFLIGHT_FEATURES).map(column).collect(),
            score: vec![log_odds(share); rows],
            leaf: vec![0; rows],
            slope: vec![[0.0; 2]; rows],
            slow,
        }
    }

    fn grow(&mut self, number: u64) -> Tree {
        for (slope, (&score, &slow)) in self.slope.iter_mut().zip(self.score.iter().zip(&self.slow)) {
            let odds = logistic(score);
            *slope = [f64::from(u8::from(slow)) - odds, odds * (1.0 - odds)];
        }
        self.leaf.fill(0);
        let mut chance = self.chance.fork(number);
        let mut tree = Tree::default();
        for level in 0..TREE_LEVELS {
            let mut best = Question { threshold: BUCKET_MAX, ..Question::default() };
            for feature in 0..INFLIGHT_FEATURES {
                if chance.happens(self.options.feature_share) {
                    let question = self.ask(feature, 1 << level);
                    best = if question.gain > best.gain { question } else { best };
                }
            }
            (tree.feature[level], tree.threshold[level]) = (best.feature, best.threshold);
            for (leaf, &value) in self.leaf.iter_mut().zip(&self.columns[usize::from(best.feature)]) {
                *leaf |= u8::from(value > best.threshold) << level;
            }
        }
        let mut sums = [[0.0; 2]; TREE_LEAVES];
        for (&leaf, slope) in self.leaf.iter().zip(&self.slope) {
            add(&mut sums[usize::from(leaf)], *slope);
        }
        for (leaf, [gradient, curvature]) in tree.leaf.iter_mut().zip(sums) {
            let below = curvature + self.options.ridge;
            let step = if below > 0.0 { self.options.rate * gradient / below } else { 0.0 };
            *leaf = integer(step.clamp(-LEAF_MAX, LEAF_MAX)) as i16;
        }
        // Later trees see the rounded leaves, so they correct the rounding.
        for (score, &leaf) in self.score.iter_mut().zip(&self.leaf) {
            *score += f64::from(tree.leaf[usize::from(leaf)]) / f64::from(TREE_ONE);
        }
        tree
    }

    /// The threshold on this feature with the highest gain over all nodes of the level.
    fn ask(&self, feature: usize, nodes: usize) -> Question {
        let mut sums = [[[0.0; 2]; BUCKETS]; TREE_LEAVES / 2];
        for ((&value, &leaf), slope) in self.columns[feature].iter().zip(&self.leaf).zip(&self.slope) {
            add(&mut sums[usize::from(leaf)][usize::from(value)], *slope);
        }
        let mut gains = [0.0; BUCKETS - 1];
        for node in &sums[..nodes] {
            let mut whole = [0.0; 2];
            node.iter().for_each(|sum| add(&mut whole, *sum));
            let mut left = [0.0; 2];
            for (gain, sum) in gains.iter_mut().zip(node) {
                add(&mut left, *sum);
                let right = [whole[0] - left[0], whole[1] - left[1]];
                if left[1].min(right[1]) >= self.options.curvature_min {
                    *gain += self.worth(left) + self.worth(right) - self.worth(whole);
                }
            }
        }
        let mut best = Question { feature: feature as u8, ..Question::default() };
        for (threshold, &gain) in gains.iter().enumerate() {
            if gain > best.gain {
                (best.gain, best.threshold) = (gain, threshold as u8);
            }
        }
        best
    }

    fn worth(&self, [gradient, curvature]: [f64; 2]) -> f64 {
        let below = curvature + self.options.ridge;
        if below > 0.0 { gradient * gradient / below } else { 0.0 }
    }
}

fn add(sum: &mut [f64; 2], more: [f64; 2]) {
    sum[0] += more[0];
    sum[1] += more[1];
}

/// e^x for -40..=40 from basic operations alone, so that it is the same everywhere: the series of e^(x/64), to the 64th
/// power.
fn exp(x: f64) -> f64 {
    let x = x.clamp(-40.0, 40.0) / 64.0;
    let mut power = 1.0;
    for term in (1..=14).rev() {
        power = 1.0 + power * x / f64::from(term);
    }
    for _ in 0..6 {
        power *= power;
    }
    power
}

fn logistic(score: f64) -> f64 {
    1.0 / (1.0 + exp(-score))
}

/// The score whose odds are this share, found by Newton's steps, which starting from 0 never overshoot.
fn log_odds(share: f64) -> f64 {
    let share = share.clamp(0.001, 0.999);
    let mut score = 0.0;
    for _ in 0..60 {
        let odds = logistic(score);
        score += (share - odds) / (odds * (1.0 - odds));
    }
    score
}

#[cfg(test)]
#[path = "boost_tests.rs"]
mod tests;
