// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests per second of wall time, on one core, per preset.
//!
//! `cargo run --release -p linnet-ssd --example speed [REQUESTS] [RUNS]`

use std::time::Instant;

use linnet_sim::Chance;
use linnet_ssd::{PRESETS, Params, Ssd};
use linnet_types::{Device, Nanos, Op, Outcome, Request};

/// Runs `requests` random 4 KiB requests at fixed gaps; returns requests per second and the sum of latencies, so that no work is optimised away.
fn rate(ssd: &mut Ssd, requests: u64, reads_percent: u64, gap_ns: Nanos) -> (f64, Nanos) {
    let pages = ssd.capacity_bytes() / 4096;
    let mut chance = Chance::new(11);
    let began = Instant::now();
    let mut sum = 0;
    for n in 0..requests {
        let op = if chance.below(100) < reads_percent { Op::Read } else { Op::Write };
        let request = Request { offset_bytes: chance.below(pages) * 4096, size_bytes: 4096, op };
        let now = n * gap_ns;
        if let Outcome::Done(at) = ssd.submit(now, &request) {
            sum += at - now;
        }
    }
    (requests as f64 / began.elapsed().as_secs_f64(), sum)
}

/// Peeks per second at a device with reads in flight on most dies.
fn peek_rate(ssd: &mut Ssd, peeks: u64) -> (f64, Nanos) {
    let pages = ssd.capacity_bytes() / 4096;
    let mut chance = Chance::new(12);
    let mut ask = || Request { offset_bytes: chance.below(pages) * 4096, size_bytes: 4096, op: Op::Read };
    for _ in 0..64 {
        ssd.submit(1, &ask());
    }
    let began = Instant::now();
    let mut sum = 0;
    for _ in 0..peeks {
        if let Outcome::Done(at) = ssd.peek(1, &ask()) {
            sum += at;
        }
    }
    (peeks as f64 / began.elapsed().as_secs_f64(), sum)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let requests: u64 = args.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let runs: u32 = args.next().map_or(Ok(3), |text| text.parse())?;
    println!("best of {runs} runs of {requests} requests, 4 KiB random");
    println!(
        "{:<16} {:>14} {:>12} {:>12} {:>12} {:>9}",
        "preset", "precondition s", "reads M/s", "70/30 M/s", "writes M/s", "peek ns"
    );
    for name in PRESETS {
        let params = Params::preset(name)?;
        let mut ssd = Ssd::new(&params, 1)?;
        let began = Instant::now();
        ssd.precondition();
        let precondition = began.elapsed().as_secs_f64();
        let mut best = [0f64; 4];
        let mut checksum = 0u64;
        for _ in 0..runs {
            // Gaps that each preset sustains on the whole, so that queues neither vanish nor grow for ever.
            for (at, (reads, gap)) in [(100, 5_000), (70, 50_000), (0, 200_000)].into_iter().enumerate() {
                let (rate, sum) = rate(&mut ssd.clone(), requests, reads, gap);
                best[at] = best[at].max(rate);
                checksum = checksum.wrapping_add(sum);
            }
            let (rate, sum) = peek_rate(&mut ssd.clone(), requests);
            best[3] = best[3].max(rate);
            checksum = checksum.wrapping_add(sum);
        }
        let peek_ns = 1e9 / best[3];
        println!(
            "{name:<16} {precondition:>14.2} {:>12.2} {:>12.2} {:>12.2} {peek_ns:>9.0}  (latency checksum {checksum:x})",
            best[0] / 1e6,
            best[1] / 1e6,
            best[2] / 1e6
        );
    }
    Ok(())
}
