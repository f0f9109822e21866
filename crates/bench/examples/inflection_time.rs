// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the search for one inflection point: a million latencies of each of three devices, a million simulated
//! reads.
//!
//! `cargo run --release -p linnet-bench --example inflection_time`

use std::time::Instant;

use linnet_learn::{InflectionOptions, inflection_point};
use linnet_sim::Chance;

fn main() {
    let count = 1_000_000;
    let latencies = |seed: u64, slow_share: f64| -> Vec<u64> {
        let mut chance = Chance::new(seed);
        (0..count)
            .map(|_| {
                let flash_ns = 70_000.0 + chance.exponential(20_000.0);
                let behind_ns = if chance.happens(slow_share) { chance.pareto(500_000.0, 1.5) } else { 0.0 };
                (flash_ns + behind_ns) as u64
            })
            .collect()
    };
    let devices = [latencies(1, 0.05), latencies(2, 0.12), latencies(3, 0.25)];
    let devices: Vec<&[u64]> = devices.iter().map(Vec::as_slice).collect();
    let options = InflectionOptions::default();
    for device in 0..devices.len() {
        let start = Instant::now();
        let found = inflection_point(&devices, device, &options).expect("the input is sound");
        println!(
            "device {device}: {:.3} s, p{} = {} us (start p{}), boost {:.1} us",
            start.elapsed().as_secs_f64(),
            found.percentile,
            found.latency_ns / 1000,
            found.start_percentile,
            found.boost_ns / 1000.0
        );
    }
}
