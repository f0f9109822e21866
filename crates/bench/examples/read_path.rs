// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of three modelled drives under `linnet-best`, for `bench/micro/read_path.py`, which lists the files that they pass:
//! nothing is hedged or probed, and no drive collects garbage.

use linnet_array::{Config, DeviceModel, Playback, RunOptions, policy, run};
use linnet_core::{Tree, Trees};
use linnet_sim::Modelled;
use linnet_ssd::{Params, Ssd};
use linnet_types::{IoRecord, Op, Thresholds};

const READS: u64 = 300;
const DRIVES: u64 = 3;

#[inline(never)]
fn measured(drives: &mut [Modelled<Ssd>], reads: &[IoRecord], learned: &[DeviceModel]) -> u64 {
    let thresholds: Vec<Thresholds> = learned.iter().map(|one| one.thresholds).collect();
    let options = RunOptions { array: Config::default(), playback: Playback::default() };
    let policy = policy("linnet-best", learned, &options.array).expect("drives with models");
    run(drives, &[reads], &thresholds, policy, &options, &mut ()).expect("a run").event_hash
}

fn main() {
    let mut params = Params::preset("consumer-deep").expect("a preset");
    params.blocks_per_plane = 128;
    let drive = |seed| {
        let mut drive = Ssd::new(&params, seed).expect("a drive");
        drive.write_once(64 << 20);
        Modelled::new(drive)
    };
    // The hedge delay is longer than any read takes.
    let thresholds = Thresholds {
        inflection_ns: 10_000_000,
        latency_ns_p95: 500_000_000,
        latency_ns_p99: 900_000_000,
        ..Default::default()
    };
    let tree = Tree { feature: [1, 2, 3], threshold: [3, 4, 5], leaf: [10, 20, 30, 40, 50, 60, 70, 80] };
    let trees = Some(Trees::new(&[tree], -5000).expect("a tree"));
    let learned: Vec<_> = (0..DRIVES).map(|_| DeviceModel { thresholds, trees, ..Default::default() }).collect();
    let read = |k: u64| IoRecord::new(1_000_000 + k * 20_000, Op::Read, k * 7919 % 8000 * 4096, 4096);
    let reads: Vec<_> = (0..READS).map(read).collect();
    let mut drives: Vec<_> = (0..DRIVES).map(drive).collect();
    println!("{READS} {}", measured(&mut drives, &reads, &learned));
}
