// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the I/Os per second that one core profiles: random offsets (each is compared with all latest I/Os) and
//! sequential ones, of one tenant and of 64 that interleave. Prints the best and the median of nine passes over
//! 2^20 I/Os, as JSON lines.
//!
//! `cargo run --release -p linnet-bench --example profile_speed`

use std::hint::black_box;
use std::time::Instant;

use linnet_sim::Chance;
use linnet_tenant::{Options, Tenants};
use linnet_types::{IoRecord, Op};

const IOS: u64 = 1 << 20;
const PASSES: usize = 9;

fn records(random: bool, tenants: u64) -> Vec<IoRecord> {
    let mut chance = Chance::new(1);
    let sizes = [4096, 8192, 512, 65_536];
    let mut next = 0;
    (0..IOS)
        .map(|n| {
            let size = sizes[chance.below(4) as usize];
            let offset = if random { 512 * chance.below(1 << 30) } else { next };
            next = offset + u64::from(size);
            let op = if chance.happens(0.7) { Op::Read } else { Op::Write };
            let latency_ns = Some(50_000 + chance.below(100_000));
            // 500,000 I/Os per second: about 21 windows of the default width.
            let io = IoRecord::new(n * 2_000, op, offset, size);
            IoRecord { latency_ns, tenant: chance.below(tenants) as u32, ..io }
        })
        .collect()
}

fn main() {
    for (name, random, tenants) in [("random", true, 1), ("sequential", false, 1), ("random-64-tenants", true, 64)] {
        let records = records(random, tenants);
        let mut seconds: Vec<f64> = (0..PASSES)
            .map(|_| {
                let start = Instant::now();
                let mut profiles = Tenants::new(Options::default()).expect("defaults are in range");
                records.iter().for_each(|io| profiles.note(io));
                black_box(profiles.finish(None));
                start.elapsed().as_secs_f64()
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        let rate = |s: f64| IOS as f64 / s / 1e6;
        println!(
            "{{\"bench\": \"profile\", \"case\": \"{name}\", \"million_ios_per_s_best\": {:.1}, \"median\": {:.1}}}",
            rate(seconds[0]),
            rate(seconds[PASSES / 2])
        );
    }
}
