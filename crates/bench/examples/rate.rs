// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of the array and the event queue per I/O, by policy, on a device with negligible cost.
//! `cargo run --release -p linnet-bench --example rate [I/Os, default 2,000,000] [policy,policy...]`
//!
//! Three streams of Poisson arrivals, 90 % reads, on three test devices that are busy at times. The network of LinnOS
//! has its real shape, 31-256-2, with weights that depend on the pages pending.

use linnet_array::{Config, DeviceModel, POLICIES, Playback, RunOptions, policy, run};
use linnet_core::{DIGITS, Layer, Network};
use linnet_sim::{Chance, Modelled, TestDevice};
use linnet_types::{IoRecord, Nanos, Op, Thresholds};
use std::time::Instant;

const DEVICES: usize = 3;
const HIDDEN: usize = 256;

/// Revokes if more than twelve pages are pending; the other hidden units are computed and have no effect.
fn network() -> Result<Network, linnet_core::Error> {
    let mut chance = Chance::new(4);
    let mut first = vec![0i64; HIDDEN * DIGITS];
    first.iter_mut().for_each(|weight| *weight = chance.below(3) as i64 - 1);
    first[..DIGITS].fill(0);
    first[12..15].copy_from_slice(&[100, 10, 1]);
    let mut second = vec![0i64; 2 * HIDDEN];
    second[HIDDEN] = 1000;
    let layers = vec![
        Layer { inputs: DIGITS, outputs: HIDDEN, weights: first, biases: vec![0; HIDDEN] },
        Layer { inputs: HIDDEN, outputs: 2, weights: second, biases: vec![0, -12_000] },
    ];
    Network::from_integers(layers, vec![1000, 1_000_000])
}

fn streams(ios: usize) -> Vec<Vec<IoRecord>> {
    let stream = |i: u64| {
        let mut chance = Chance::new(1).fork(i);
        let mut at = 0;
        let record = |_| {
            at += chance.exponential(12_000.0) as Nanos;
            let offset_bytes = chance.below(1 << 24) * 4096;
            let op = if chance.happens(0.9) { Op::Read } else { Op::Write };
            IoRecord { device: i as u32, ..IoRecord::new(at, op, offset_bytes, 4096) }
        };
        (0..ios / DEVICES).map(record).collect()
    };
    (0..DEVICES as u64).map(stream).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ios = std::env::args().nth(1).map_or(Ok(2_000_000), |text| text.parse())?;
    let names = std::env::args().nth(2).unwrap_or_else(|| POLICIES.join(","));
    let thresholds = Thresholds {
        inflection_ns: 200_000,
        latency_ns_p95: 400_000,
        latency_ns_p99: 2_000_000,
        hedge_ns: 400_000,
        queue_inflection: 12,
        queue_median: 6,
        queue_lower_quartile: 4,
    };
    let learned = vec![DeviceModel { thresholds, network: Some(network()?), ..DeviceModel::default() }; DEVICES];
    let streams = streams(ios);
    let streams: Vec<&[IoRecord]> = streams.iter().map(Vec::as_slice).collect();
    println!(
        "{:<16}{:>10}{:>12}{:>12}{:>12}{:>12}{:>10}{:>10}{:>10}",
        "policy", "ns/IO", "I/Os per s", "mean us", "p99 us", "p99.9 us", "extra", "revokes", "denied"
    );
    for name in names.split(',') {
        let array = Config::default();
        let policy = policy(name, &learned, &array)?;
        let mut devices: Vec<_> =
            (0..DEVICES as u64).map(|seed| Modelled::new(TestDevice::busy(50_000_000, 0.1, seed))).collect();
        let options = RunOptions { array, playback: Playback::default() };
        let start = Instant::now();
        let result = run(&mut devices, &streams, &[thresholds; DEVICES], policy, &options, &mut ())?;
        let taken = start.elapsed().as_secs_f64();
        let mut sorted = result.reads.latency_ns;
        sorted.sort_unstable();
        let mean_us = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64 / 1e3;
        let quantile_us = |q| linnet_measure::quantile(&sorted, q) as f64 / 1e3;
        println!(
            "{name:<16}{:>10.0}{:>12.0}{mean_us:>12.1}{:>12.1}{:>12.1}{:>10}{:>10}{:>10}",
            taken * 1e9 / ios as f64,
            ios as f64 / taken,
            quantile_us(0.99),
            quantile_us(0.999),
            result.counters.extra_io,
            result.counters.revokes,
            result.counters.budget_denied
        );
    }
    Ok(())
}
