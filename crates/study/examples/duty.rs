// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows how often reads wait for internal work, for how long, and how predictable that is: one preset, one load,
//! several device-wide shares.
//!
//! `cargo run --release -p linnet-study --example duty -- PRESET IOPS READ% WRITE_KIB [SECONDS [SHARES [BURST
//! [HOT]]]]`, for example `... duty -- consumer-deep 400 25 64 600 0,0.5,0.85,1`.
//!
//! The load is bursty at two scales: over 10 s windows the rate varies 1 : BURST (6) with the mean kept, and inside
//! them requests come in groups within milliseconds. Write sizes are log-normal, reads 4-64 KiB. Nine of ten offsets
//! are in the first HOT (1: all) share of the device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linnet_sim::Chance;
use linnet_ssd::{Mechanism, Params, Ssd};
use linnet_types::{Nanos, Op, Request};

struct Load {
    iops: f64,
    read_share: f64,
    write_kib: f64,
    seconds: f64,
    burst: f64,
    hot: f64,
}

/// Mean number of requests in a group, and the mean gap inside one.
const CLUMP: f64 = 8.0;
const CLUMP_GAP_NS: f64 = 200_000.0;
/// One window in eight is a burst.
const BURST_SHARE: f64 = 0.125;

fn generate(load: &Load, capacity: u64, seed: u64) -> Vec<(Nanos, Request)> {
    let mut chance = Chance::new(seed);
    let mut requests = Vec::new();
    let mut now = 0.0;
    let base = load.iops / (1.0 + BURST_SHARE * (load.burst - 1.0));
    let mut window = u64::MAX;
    let mut rate = base;
    while now < load.seconds * 1e9 {
        let here = (now / 10e9) as u64;
        if here != window {
            window = here;
            rate = base * if chance.happens(BURST_SHARE) { load.burst } else { 1.0 };
        }
        let clump = 1 + chance.exponential(CLUMP - 1.0) as u64;
        let mut at = now;
        for _ in 0..clump {
            let op = if chance.happens(load.read_share) { Op::Read } else { Op::Write };
            let size_bytes = match op {
                Op::Read => 4096 << chance.below(5),
                // Sigma 1: the mean is e^0.5 times the median.
                Op::Write => {
                    let kib = load.write_kib * (chance.normal() - 0.5).exp();
                    ((kib * 1024.0 / 4096.0).round().clamp(1.0, 8192.0) as u32) * 4096
                }
            };
            let span = if chance.happens(0.9) { load.hot } else { 1.0 };
            let offset_bytes = chance.below((capacity as f64 * span) as u64 / 4096) * 4096;
            requests.push((at as Nanos, Request::new(op, offset_bytes, size_bytes)));
            at += chance.exponential(CLUMP_GAP_NS.min(0.2e9 / rate));
        }
        now = at.max(now + chance.exponential(clump as f64 * 1e9 / rate));
    }
    requests
}

struct Read {
    arrive: Nanos,
    latency: Nanos,
    slow: bool,
}

/// Recall and false positives of the simplest predictor: the read that completed last was slow.
fn last_read_predicts(reads: &[Read]) -> (f64, f64) {
    let mut flying: BinaryHeap<Reverse<(Nanos, bool)>> = BinaryHeap::new();
    let mut last = false;
    let mut count = [[0f64; 2]; 2];
    for read in reads {
        while let Some(&Reverse((at, slow))) = flying.peek() {
            if at > read.arrive {
                break;
            }
            last = slow;
            flying.pop();
        }
        count[usize::from(read.slow)][usize::from(last)] += 1.0;
        flying.push(Reverse((read.arrive + read.latency, read.slow)));
    }
    let rate = |row: [f64; 2]| row[1] / (row[0] + row[1]).max(1.0);
    (rate(count[1]), rate(count[0]))
}

fn report(params: &Params, load: &Load) -> Result<(), linnet_ssd::Error> {
    let mut ssd = Ssd::new(params, 1)?;
    ssd.precondition();
    let requests = generate(load, ssd.capacity_bytes(), 5);
    let mut reads = Vec::new();
    let mut causes = [0u64; Mechanism::ALL.len()];
    let mut full = 0.0;
    for (now, request) in &requests {
        let (at, cause) = ssd.submit_explained(*now, request);
        if request.op.is_read() {
            let latency = at - now;
            reads.push(Read { arrive: *now, latency, slow: false });
            if latency > 2 * ssd.unloaded_read_ns(request.size_bytes)
                && let Some(main) = cause.main_mechanism()
            {
                causes[main as usize] += 1;
            }
        } else {
            full += request.size_bytes as f64;
        }
    }
    let mut sorted: Vec<Nanos> = reads.iter().map(|read| read.latency).collect();
    sorted.sort_unstable();
    let at = |q: f64| sorted[((sorted.len() as f64 * q).ceil() as usize).clamp(1, sorted.len()) - 1];
    let median = at(0.5);
    let over = [2, 3, 10].map(|factor| {
        100.0 * reads.iter().filter(|read| read.latency > factor * median).count() as f64 / reads.len() as f64
    });
    for read in &mut reads {
        read.slow = read.latency > 2 * median;
    }
    let stats = ssd.stats();
    let us = |ns: Nanos| ns as f64 / 1000.0;
    println!(
        "share {:.2}: {} reads, {:.1} MB/s written | us p50 {:.0} p75 {:.0} p90 {:.0} p95 {:.0} p99 {:.0} p99.9 {:.0} p99.99 {:.0} max {:.0}",
        params.device_wide_share,
        reads.len(),
        full / load.seconds / 1e6,
        us(median),
        us(at(0.75)),
        us(at(0.9)),
        us(at(0.95)),
        us(at(0.99)),
        us(at(0.999)),
        us(at(0.9999)),
        us(at(1.0))
    );
    let slow = stats.slow_reads;
    let (recall, false_positives) = last_read_predicts(&reads);
    println!(
        "  > 2x median {:.2} %, > 3x {:.2} %, > 10x {:.2} % | realised share {:.2} (wide {}, single {}, queueing {}, retry {}) | WAF {:.2}, utilisation {:.1} %",
        over[0],
        over[1],
        over[2],
        slow.device_wide_share().unwrap_or(f64::NAN),
        slow.device_wide,
        slow.single_die,
        slow.queueing,
        slow.retry,
        stats.waf().unwrap_or(f64::NAN),
        100.0 * stats.utilisation()
    );
    let mut episodes: Vec<(usize, Nanos)> = Vec::new();
    for run in reads.chunk_by(|a, b| a.slow == b.slow).filter(|run| run[0].slow) {
        episodes.push((run.len(), run[run.len() - 1].arrive - run[0].arrive));
    }
    let inside = |least: usize| episodes.iter().filter(|e| e.0 >= least).map(|e| e.0).sum::<usize>() as f64;
    let all = inside(1).max(1.0);
    let mut lengths: Vec<Nanos> = episodes.iter().filter(|e| e.0 > 1).map(|e| e.1).collect();
    lengths.sort_unstable();
    let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    println!(
        "  episodes {}: reads in each {:.1} mean, slow reads in runs of >= 2 {:.0} %, >= 4 {:.0} %, >= 10 {:.0} %, median length of runs >= 2 {:.1} ms | last read slow: recall {:.2} at {:.3} false",
        episodes.len(),
        all / episodes.len().max(1) as f64,
        100.0 * inside(2) / all,
        100.0 * inside(4) / all,
        100.0 * inside(10) / all,
        middle as f64 / 1e6,
        recall,
        false_positives
    );
    print!("  main mechanism:");
    for mechanism in Mechanism::ALL {
        if causes[mechanism as usize] > 0 {
            print!(" {} {}", mechanism.name(), causes[mechanism as usize]);
        }
    }
    println!(
        " | gc rounds {}+{}, flushes {}+{}, eager {}, checkpoints {}, stalls {}",
        stats.gc_rounds_wide,
        stats.gc_rounds_single,
        stats.flushes_timer,
        stats.flushes_watermark,
        stats.eager_units,
        stats.checkpoints,
        stats.buffer_full_writes
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.len() < 4 {
        return Err("usage: duty PRESET IOPS READ% WRITE_KIB [SECONDS [SHARE,SHARE... [BURST [HOT]]]]".into());
    }
    let preset = Params::preset(&args[0])?;
    let load = Load {
        iops: args[1].parse()?,
        read_share: args[2].parse::<f64>()? / 100.0,
        write_kib: args[3].parse()?,
        seconds: args.get(4).map_or(Ok(300.0), |text| text.parse())?,
        burst: args.get(6).map_or(Ok(6.0), |text| text.parse())?,
        hot: args.get(7).map_or(Ok(1.0), |text| text.parse())?,
    };
    println!(
        "{} {} IOPS, {} % reads, writes of {} KiB, {} s, bursts of {}, hot share {}, device seed 1, load seed 5",
        args[0], args[1], args[2], args[3], load.seconds, load.burst, load.hot
    );
    let shares = match args.get(5) {
        Some(list) => list.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>()?,
        None => vec![preset.device_wide_share],
    };
    for device_wide_share in shares {
        report(&Params { device_wide_share, ..preset.clone() }, &load)?;
    }
    Ok(())
}
