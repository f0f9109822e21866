// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common parts of this crate's tests: recorded and synthetic devices.

#![allow(dead_code)]

use std::path::PathBuf;

use linnet_sim::Chance;
use linnet_types::{IoRecord, Nanos, Op};

/// Recordings of real SSDs, each with the latency of its I/Os: FlashNet's (Tencent's block store replayed on an NVMe
/// drive) and one of a SATA drive under Hadoop.
pub const FLASHNET: [&str; 3] = [
    "flashnet-nvme/tencent.cut.per_50k.rw_75_25.379.trace.zst",
    "flashnet-nvme/tencent.cut.per_50k.most_rand_iops.537.trace.zst",
    "flashnet-nvme/tencent.cut.per_50k.rw_60_40.490.trace.zst",
];
pub const HADOOP: &str = "blktrace-satassd-hadoop/eternity9.sdb.DC.blkparse.txt.zst";

/// One recording, or `None` (and a message) if the recordings are not present.
pub fn recording(name: &str) -> Option<Vec<IoRecord>> {
    let shared = std::env::var_os("LINNET_SHARED")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = shared.join("traces").join(name);
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    let trace = linnet_trace::read_all(&path, linnet_trace::Options::default()).expect("the recording is sound");
    Some(trace.records)
}

/// A device that is busy in episodes: reads arrive at random, 5,000 per second, and take 80..120 us, or 2..4 ms during
/// an episode (40..80 ms, every 600 ms on average). One I/O in five is a write of up to 16 pages.
pub fn busy_episodes(count: usize, seed: u64) -> Vec<IoRecord> {
    let mut chance = Chance::new(seed);
    let (mut now, mut busy, mut turns) = (0.0, true, 0.0);
    (0..count)
        .map(|_| {
            now += chance.exponential(160_000.0);
            while now >= turns {
                busy = !busy;
                turns += (if busy { 40e6 } else { 360e6 }) * (1.0 + chance.unit());
            }
            let is_write = chance.happens(0.2);
            let slow = busy && !is_write;
            let latency_ns = if slow { 2_000_000 + chance.below(2_000_000) } else { 80_000 + chance.below(40_000) };
            record(now as Nanos, latency_ns, is_write, 4096 * (1 + chance.below(if is_write { 16 } else { 2 })))
        })
        .collect()
}

/// The same share of slow reads as [`busy_episodes`], but each independently, so that nothing predicts them.
pub fn no_pattern(count: usize, seed: u64) -> Vec<IoRecord> {
    let mut chance = Chance::new(seed);
    let mut now = 0.0;
    (0..count)
        .map(|_| {
            now += chance.exponential(5_000_000.0);
            let slow = chance.happens(0.1);
            let latency_ns = if slow { 2_000_000 + chance.below(2_000_000) } else { 80_000 + chance.below(40_000) };
            record(now as Nanos, latency_ns, false, 4096)
        })
        .collect()
}

fn record(arrive_ns: Nanos, latency_ns: Nanos, is_write: bool, size_bytes: u64) -> IoRecord {
    let op = if is_write { Op::Write } else { Op::Read };
    IoRecord { latency_ns: Some(latency_ns), ..IoRecord::new(arrive_ns, op, 0, size_bytes as u32) }
}
