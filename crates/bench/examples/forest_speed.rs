// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the time of a prediction of ten metrics by 100 trees each, of one candidate and of batches. Trees are grown
//! on random rows of 54 features as a forest's are: bootstrap samples, split until a leaf has one row. Prints JSON
//! lines with `forest_ns` for each candidate, the least and the median over many candidates. The rows differ, so that
//! branches and caches are as in use.
//!
//! `cargo run --release -p linnet-bench --example forest_speed [ROWS]`

use std::hint::black_box;
use std::time::Instant;

use linnet_core::{Forest, ForestOutput, RegressionTree, SCHEMA_PLACE1};
use linnet_sim::Chance;

const INPUTS: usize = 54;
const METRICS: usize = 10;
const TREES: usize = 100;
/// Candidates that are asked about in turn.
const CANDIDATES: usize = 1024;

/// A tree in scikit-learn's layout.
#[derive(Default)]
struct Grown {
    left: Vec<i64>,
    right: Vec<i64>,
    feature: Vec<i64>,
    threshold: Vec<f64>,
    value: Vec<f64>,
}

impl Grown {
    /// Splits at the middle of two random rows of a random feature: about as deep as trees of real data.
    fn grow(&mut self, rows: &[Vec<f32>], own: &mut [usize], chance: &mut Chance) -> i64 {
        let at = self.left.len();
        self.left.push(-1);
        self.right.push(-1);
        self.feature.push(-2);
        self.threshold.push(-2.0);
        self.value.push(chance.unit());
        for _ in 0..8 {
            let feature = chance.below(INPUTS as u64) as usize;
            let mut pick = || rows[own[chance.below(own.len() as u64) as usize]][feature];
            let (a, b) = (pick(), pick());
            let threshold = (f64::from(a) + f64::from(b)) / 2.0;
            let middle = {
                own.sort_unstable_by(|x, y| rows[*x][feature].total_cmp(&rows[*y][feature]));
                own.partition_point(|&row| f64::from(rows[row][feature]) <= threshold)
            };
            if middle > 0 && middle < own.len() {
                let (low, high) = own.split_at_mut(middle);
                (self.feature[at], self.threshold[at]) = (feature as i64, threshold);
                self.left[at] = self.grow(rows, low, chance);
                self.right[at] = self.grow(rows, high, chance);
                break;
            }
        }
        at as i64
    }
}

fn forest(training_rows: usize, chance: &mut Chance) -> Forest {
    let rows: Vec<Vec<f32>> = (0..training_rows).map(|_| (0..INPUTS).map(|_| chance.unit() as f32).collect()).collect();
    let mut tree = || {
        let mut own: Vec<usize> = (0..training_rows).map(|_| chance.below(training_rows as u64) as usize).collect();
        let mut grown = Grown::default();
        grown.grow(&rows, &mut own, chance);
        let Grown { left, right, feature, threshold, value } = grown;
        RegressionTree::from_children((&left, &right), &feature, &threshold, &value).expect("a tree")
    };
    let outputs: Vec<ForestOutput> = (0..METRICS)
        .map(|n| ForestOutput { name: format!("metric-{n}"), trees: (0..TREES).map(|_| tree()).collect() })
        .collect();
    Forest::new(SCHEMA_PLACE1, INPUTS, &outputs, training_rows as u64, 1).expect("in range")
}

fn main() {
    let training_rows = std::env::args().nth(1).map_or(2000, |text| text.parse().expect("a number of rows"));
    let mut chance = Chance::new(1);
    let forest = forest(training_rows, &mut chance);
    let rows: Vec<f32> = (0..CANDIDATES * INPUTS).map(|_| chance.unit() as f32).collect();
    let mut out = vec![0.0; CANDIDATES * METRICS];
    for batch in [1, 16, 1024] {
        let mut ns: Vec<f64> = Vec::new();
        for _ in 0..5 {
            for (rows, out) in rows.chunks(batch * INPUTS).zip(out.chunks_mut(batch * METRICS)) {
                let start = Instant::now();
                forest.predict(rows, out).expect("finite");
                ns.push(start.elapsed().as_nanos() as f64 / batch as f64);
            }
        }
        black_box(&out);
        ns.sort_by(f64::total_cmp);
        println!(
            "{{\"bench\": \"forest\", \"batch\": {batch}, \"trees\": {}, \"nodes\": {}, \"forest_ns_least\": {:.0}, \
             \"forest_ns_median\": {:.0}}}",
            forest.tree_count(),
            forest.node_count(),
            ns[0],
            ns[ns.len() / 2]
        );
    }
}
