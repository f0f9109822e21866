// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of this crate share: recorded and made-up devices.

#![allow(dead_code)]

use std::path::PathBuf;

use linnet_sim::Chance;
use linnet_types::{IoRecord, Nanos, Op};

/// The three FlashNet traces: Tencent's block store replayed on one NVMe SSD.
pub const FLASHNET: [&str; 3] = ["rw_75_25.379", "most_rand_iops.537", "rw_60_40.490"];

/// One FlashNet trace, or nothing (and a line that says so) when the recorded traces are not here.
pub fn flashnet(name: &str) -> Option<Vec<IoRecord>> {
    let shared = std::env::var_os("LINNET_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = shared.join(format!("traces/flashnet-nvme/tencent.cut.per_50k.{name}.trace.zst"));
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    let file = std::fs::File::open(&path).expect("the trace can be opened");
    let text = zstd::decode_all(file).expect("the trace can be decompressed");
    let text = String::from_utf8(text).expect("the trace is text");
    Some(text.lines().map(flashnet_record).collect())
}

/// `ts_record_ms, latency_us, op (1 = read), size_bytes, offset_bytes, ts_submit_ms, size_done_bytes`.
fn flashnet_record(line: &str) -> IoRecord {
    let columns: Vec<&str> = line.split(',').collect();
    let number = |column: usize| columns[column].parse::<f64>().expect("a number");
    IoRecord {
        arrive_ns: (number(5) * 1e6).round() as Nanos,
        latency_ns: Some((number(1) * 1e3).round() as Nanos),
        offset_bytes: number(4) as u64,
        size_bytes: number(3) as u32,
        device: 0,
        op: if columns[2] == "1" { Op::Read } else { Op::Write },
    }
}

/// A device that is busy in episodes: reads arrive at random, 5,000 a second, and take 80..120 us, but 2..4 ms while an
/// episode lasts (40..80 ms, every 600 ms on average). One I/O in five is a write of up to 16 pages.
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

/// As slow as [`busy_episodes`], but each read by itself: nothing tells which.
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
    IoRecord {
        arrive_ns,
        latency_ns: Some(latency_ns),
        offset_bytes: 0,
        size_bytes: size_bytes as u32,
        device: 0,
        op: if is_write { Op::Write } else { Op::Read },
    }
}
