// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures nanoseconds of a score by 64 trees, and of a look-up of the latency quantiles of that score, with warm
//! caches: minimum and median of blocks of 64 over a ring of 4,096 random rows, whose branches cannot be predicted.
//!
//! `cargo run --release -p linnet-bench --example latency_speed`

use std::hint::black_box;
use std::time::Instant;

use linnet_core::{INFLIGHT_FEATURES, Latencies, TREES, Tree, Trees};
use linnet_sim::Chance;

fn ns(mut call: impl FnMut(usize)) -> (f64, f64) {
    let mut blocks: Vec<u128> = (0..4_001)
        .map(|block| {
            let start = Instant::now();
            (0..64).for_each(|i| call((block * 64 + i) % 4_096));
            start.elapsed().as_nanos()
        })
        .collect();
    blocks.sort_unstable();
    (blocks[0] as f64 / 64.0, blocks[blocks.len() / 2] as f64 / 64.0)
}

fn main() {
    let mut chance = Chance::new(1);
    let trees: Vec<Tree> = (0..TREES)
        .map(|_| Tree {
            feature: std::array::from_fn(|_| chance.below(16) as u8),
            threshold: std::array::from_fn(|_| chance.below(64) as u8),
            leaf: std::array::from_fn(|_| chance.below(200) as i16 - 100),
        })
        .collect();
    let trees = Trees::new(&trees, 0).expect("in range");
    let rows: Vec<[u8; INFLIGHT_FEATURES]> =
        (0..4_096).map(|_| std::array::from_fn(|_| chance.below(64) as u8)).collect();
    let mut scores: Vec<i32> = rows.iter().map(|row| trees.score(row)).collect();
    let unsorted = scores.clone();
    scores.sort_unstable();
    let bins = std::array::from_fn(|s| std::array::from_fn(|f| std::array::from_fn(|k| (100 * s + 10 * f + k) as u32)));
    let score_edges = std::array::from_fn(|i| scores[256 * (i + 1)]);
    let latencies = Latencies::new(score_edges, 13, std::array::from_fn(|i| 8 * (i as u8 + 1)), bins).expect("ascends");
    let told = |score: i32, row| black_box(*latencies.predict(score, row))[0];
    let mut sum = 0u64;
    for (name, (least, median)) in [
        ("score", ns(|i| sum += u64::from(trees.score(&rows[i]).unsigned_abs()))),
        ("quantiles of a score", ns(|i| sum += u64::from(told(unsorted[i], &rows[i])))),
        ("score and quantiles", ns(|i| sum += u64::from(told(trees.score(&rows[i]), &rows[i])))),
    ] {
        println!("{name}: {least:.1} ns, median {median:.1} ns");
    }
    black_box(sum);
}
