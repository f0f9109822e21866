// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures requests per second of wall time on one core: the presets, a device of 64 GiB raw, and the queued model.
//!
//! `cargo run --release -p linnet-bench --example ssd_speed [REQUESTS] [RUNS] [KIND]`; KIND is presets, large,
//! wholesale or queued (default: all).
//!
//! Instructions per request: run `valgrind --tool=callgrind target/release/examples/ssd_speed N 1 large-reads` for two
//! values of N (also large-mixed, large-writes) and divide the difference of the totals by twice that of N, since each
//! mix is run twice. The generation of requests is included. Measured: 1,120 instructions per read, 870 per request of
//! the mix, 700 per overwrite with its share of garbage collection.

use std::time::Instant;

use linnet_sim::Chance;
use linnet_ssd::queued::{QueuedParams, QueuedSsd};
use linnet_ssd::{PRESETS, Params, Ssd};
use linnet_types::{Foresight, LatencyModel, Nanos, Op, Outcome, Request};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn requests(capacity: u64, count: u64, reads_percent: u64, gap_ns: Nanos, size_bytes: u32) -> Vec<(Nanos, Request)> {
    let mut chance = Chance::new(11);
    let pages = capacity / 4096;
    (0..count)
        .map(|n| {
            let op = if chance.below(100) < reads_percent { Op::Read } else { Op::Write };
            (n * gap_ns, Request::new(op, chance.below(pages) * 4096, size_bytes))
        })
        .collect()
}

/// Millions of requests per second; the sum of latencies goes to `checksum`, so that no work is optimised away.
fn rate(ssd: &mut Ssd, requests: &[(Nanos, Request)], checksum: &mut u64) -> f64 {
    let mut done = Vec::with_capacity(requests.len());
    let began = Instant::now();
    ssd.submit_many(requests, &mut done);
    let rate = requests.len() as f64 / began.elapsed().as_secs_f64() / 1e6;
    for (at, (now, _)) in done.iter().zip(requests) {
        *checksum = checksum.wrapping_add(at - now);
    }
    rate
}

/// Nanoseconds of a peek at a device with reads in flight on most dies.
fn peek_ns(ssd: &mut Ssd, peeks: u64, checksum: &mut u64) -> f64 {
    let asked = requests(ssd.capacity_bytes(), 64 + peeks, 100, 0, 4096);
    for (_, request) in &asked[..64] {
        ssd.submit(1, request);
    }
    let began = Instant::now();
    for (_, request) in &asked[64..] {
        if let Outcome::Done(at) = ssd.peek(1, request) {
            *checksum = checksum.wrapping_add(at);
        }
    }
    began.elapsed().as_nanos() as f64 / peeks as f64
}

fn presets(count: u64, runs: u32, checksum: &mut u64) -> Result<()> {
    println!("presets, best of {runs} runs of {count} requests, 4 KiB random; large: 256 KiB, 70/30, us each");
    println!(
        "{:<16} {:>14} {:>9} {:>9} {:>9} {:>8} {:>8}",
        "preset", "precondition s", "reads M/s", "70/30", "writes", "peek ns", "large us"
    );
    for name in PRESETS {
        let mut ssd = Ssd::new(&Params::preset(name)?, 1)?;
        let began = Instant::now();
        ssd.precondition();
        let precondition = began.elapsed().as_secs_f64();
        let mut best = [0f64; 3];
        let (mut peek, mut large) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..runs {
            // Gaps that each preset sustains on average, so that queues neither vanish nor grow without bound.
            for (best, (reads, gap)) in best.iter_mut().zip([(100, 5_000), (70, 50_000), (0, 200_000)]) {
                let asked = requests(ssd.capacity_bytes(), count, reads, gap, 4096);
                *best = best.max(rate(&mut ssd.clone(), &asked, checksum));
            }
            peek = peek.min(peek_ns(&mut ssd.clone(), count, checksum));
            let asked = requests(ssd.capacity_bytes(), count / 20, 70, 10_000_000, 256 << 10);
            large = large.min(1.0 / rate(&mut ssd.clone(), &asked, checksum));
        }
        let [reads, mixed, writes] = best;
        println!("{name:<16} {precondition:>14.2} {reads:>9.2} {mixed:>9.2} {writes:>9.2} {peek:>8.0} {large:>8.2}");
    }
    Ok(())
}

/// 32 x 4 dies of 4 planes, superblocks of 256 MiB: `enterprise-wide` with the blocks of a real drive.
fn large(count: u64, runs: u32, kinds: &[(&str, u64, Nanos)], checksum: &mut u64) -> Result<()> {
    let params = Params {
        pages_per_block: 32,
        blocks_per_plane: 256,
        superblocks_per_erase: 8,
        ..Params::preset("enterprise-wide")?
    };
    let mut ssd = Ssd::new(&params, 1)?;
    let began = Instant::now();
    ssd.precondition();
    let made = began.elapsed().as_secs_f64();
    println!(
        "{} GiB raw, map {:.1} bytes per page, preconditioned in {made:.2} s",
        params.raw_bytes() >> 30,
        ssd.map_bytes_per_page()
    );
    if kinds.len() > 1 {
        let path = std::env::temp_dir().join(format!("linnet-ssd-speed-{}", std::process::id()));
        ssd.save(&path)?;
        let began = Instant::now();
        let loaded = Ssd::load(&path)?;
        println!(
            "snapshot of {} MB loads in {:.2} s",
            std::fs::metadata(&path)?.len() >> 20,
            began.elapsed().as_secs_f64()
        );
        std::fs::remove_file(&path)?;
        drop(loaded);
    }
    for &(name, reads, gap) in kinds {
        let asked = requests(ssd.capacity_bytes(), count, reads, gap, 4096);
        let mut best = 0f64;
        for _ in 0..runs {
            best = best.max(rate(&mut ssd.clone(), &asked, checksum));
        }
        let mut once = ssd.clone();
        rate(&mut once, &asked, checksum);
        let stats = once.stats();
        let waf =
            stats.waf().map_or(String::new(), |waf| format!(", WAF {waf:.2}, {} superblocks erased", stats.erases));
        println!("{name:<14} {best:>6.2} M/s{waf}");
    }
    Ok(())
}

/// Requests of 100 to 500 KiB, 70/30, as in storage services.
fn wholesale(count: u64, runs: u32, checksum: &mut u64) -> Result<()> {
    for name in PRESETS {
        let mut ssd = Ssd::new(&Params::preset(name)?, 1)?;
        ssd.precondition();
        let mut asked = requests(ssd.capacity_bytes(), count, 70, 20_000_000, 4096);
        let mut chance = Chance::new(5);
        asked.iter_mut().for_each(|(_, request)| request.size_bytes = 4096 * (25 + chance.below(100) as u32));
        let best = (0..runs).map(|_| rate(&mut ssd.clone(), &asked, checksum)).fold(0f64, f64::max);
        println!("{name:<16} 100-500 KiB {:.2} us each", 1.0 / best);
    }
    Ok(())
}

fn queued(count: u64, checksum: &mut u64) -> Result<()> {
    let params = QueuedParams::default();
    for (name, reads, gap) in [("reads", 100, 5_000), ("70/30", 70, 20_000), ("writes", 0, 60_000)] {
        let mut ssd = QueuedSsd::new(&params)?;
        let asked = requests(params.capacity_bytes(), count, reads, gap, 4096);
        let began = Instant::now();
        let answers = ssd.serve(asked);
        let rate = count as f64 / began.elapsed().as_secs_f64() / 1e6;
        *checksum = answers.iter().fold(*checksum, |sum, served| sum.wrapping_add(served.latency_ns));
        println!(
            "queued {name:<8} {rate:>6.2} M/s, {:.1} events per request",
            ssd.stats().events as f64 / count as f64
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let count: u64 = args.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let runs: u32 = args.next().map_or(Ok(3), |text| text.parse())?;
    let kind = args.next().unwrap_or_default();
    let mut checksum = 0;
    if kind.is_empty() || kind == "presets" {
        presets(count, runs, &mut checksum)?;
    }
    // Gaps: overwrites at 200 MB/s and mixes at 480 MB/s, which the device sustains including its garbage collection.
    let mixes = [("large-reads", 100, 2_000), ("large-mixed", 70, 10_000), ("large-writes", 0, 20_000)];
    let chosen: Vec<_> = mixes.into_iter().filter(|mix| kind.is_empty() || kind == "large" || kind == mix.0).collect();
    if !chosen.is_empty() {
        large(count, runs, &chosen, &mut checksum)?;
    }
    if kind.is_empty() || kind == "wholesale" {
        wholesale(count / 20, runs, &mut checksum)?;
    }
    if kind.is_empty() || kind == "queued" {
        queued(count, &mut checksum)?;
    }
    println!("latency checksum {checksum:x}");
    Ok(())
}
