// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeats `tests/vm/effect.sh` in virtual time: the same drives, load and model file, with the array in place of the
//! kernel's target. Prints a line of JSON for each policy, as linnet-load does.
//!
//!     cargo run --release -p linnet-study --example effect -- consumer-deep 10 3000 160 10000 build/vm/effect/m.linnet
//!
//! Arguments: preset, time scale, reads per second, writes of 64 KiB per second to each drive (both in the drives' own
//! time), reads, model file. Optional: `beside`, for writes that the array does not see, as in the machine; the age in
//! ms at which the state of a drive expires (10); the reads of a chunk whose p99 is reported separately (6,700: a GC
//! cycle, and one measurement of the machine); and the us that each answer takes longer (0; the machine itself adds 6).
//! Every drive gets writes at random offsets, and one stream reads, with the first drive as its primary. Times are
//! those of the slowed world, like those of the model file. The target is set to send no hedges, so `linnet-best` is
//! shown both without them and with those of the array. A revoke costs 15 us, as in `linnet compare`.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;

use linnet_array::{Config, DeviceModel, Playback, RunOptions, policy, run};
use linnet_core::{Model, Rate, Settings};
use linnet_measure::quantile;
use linnet_sim::{Chance, Modelled};
use linnet_ssd::{Params, Ssd};
use linnet_types::{Foresight, IoRecord, LatencyModel, Nanos, Op, Outcome, Request};

const DRIVES: u64 = 3;
/// Range that linnet-load reads, and fio writes.
const READ_SPAN_BYTES: u64 = 96 << 20;
const WRITTEN: std::ops::Range<u64> = (2 << 30)..(3 << 30);
const WRITE_BYTES: u32 = 64 << 10;
/// Drive time before the measured reads, as long as the machine takes to record, learn and settle.
const BEFORE: f64 = 1.0;

/// Name in linnet-load and the kernel, the array's policy, whether it hedges, and whether a revoke costs a failover.
const POLICIES: [(&str, &str, bool, bool); 10] = [
    ("primary", "baseline", false, false),
    ("shortest-queue", "shortest-queue", false, false),
    ("ewma-inflight", "ewma-inflight", false, false),
    ("linnos", "linnos", false, false),
    ("linnet-best", "linnet-best", false, false),
    ("hedge-p95", "hedge-p95", true, false),
    ("revoke-linnos", "linnos", false, true),
    ("revoke-linnet-best", "linnet+hl", false, true),
    ("linnet-best, hedged", "linnet-best", true, false),
    ("oracle", "oracle", false, false),
];

/// A drive in a world where everything takes `scale` times as long, with the writes that the array does not see.
#[derive(Clone)]
struct Slowed {
    drive: RefCell<Ssd>,
    scale: Nanos,
    /// Additional time of every answer, in the slowed world.
    work_ns: Nanos,
    beside: RefCell<VecDeque<IoRecord>>,
}

impl Slowed {
    /// The drive in its own time, after all unseen writes up to now.
    fn drive_at(&self, now: Nanos) -> (RefMut<'_, Ssd>, Nanos) {
        let (mut drive, mut beside) = (self.drive.borrow_mut(), self.beside.borrow_mut());
        while beside.front().is_some_and(|write| write.arrive_ns <= now)
            && let Some(write) = beside.pop_front()
        {
            drive.submit(write.arrive_ns.div_ceil(self.scale), &write.request());
        }
        // Rounded up: an answer is never before its request.
        (drive, now.div_ceil(self.scale))
    }

    fn outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Done(at) => Outcome::Done(at * self.scale + self.work_ns),
            Outcome::Error(at) => Outcome::Error(at * self.scale),
            Outcome::Lost => Outcome::Lost,
        }
    }
}

impl LatencyModel for Slowed {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        let (mut drive, at) = self.drive_at(now);
        self.outcome(drive.submit(at, request))
    }

    fn foresight(&self) -> Option<&dyn Foresight> {
        Some(self)
    }
}

impl Foresight for Slowed {
    fn peek(&self, now: Nanos, request: &Request) -> Outcome {
        let (drive, at) = self.drive_at(now);
        self.outcome(drive.peek(at, request))
    }
}

/// Poisson arrivals at offsets drawn uniformly from a range, starting at time 0.
fn load(
    chance: &mut Chance,
    op: Op,
    rate: f64,
    seconds: f64,
    places: std::ops::Range<u64>,
    bytes: u32,
) -> Vec<IoRecord> {
    let (mut at, mut records) = (0.0, Vec::new());
    loop {
        at += chance.exponential(1e9 / rate);
        if at > seconds * 1e9 {
            return records;
        }
        let offset_bytes =
            places.start + chance.below((places.end - places.start) / u64::from(bytes)) * u64::from(bytes);
        records.push(IoRecord::new(at as Nanos, op, offset_bytes, bytes));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: effect PRESET TIME_SCALE RATE WRITES READS MODEL [beside [AGE_MS [STRETCH [WORK_US]]]]";
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().ok_or(usage);
    let params = Params::preset(&argument()?)?;
    let scale: Nanos = argument()?.parse()?;
    let reads_per_second: f64 = argument()?.parse()?;
    let writes_per_second: f64 = argument()?.parse()?;
    let reads: usize = argument()?.parse()?;
    let model = Model::from_bytes(&std::fs::read(argument()?)?)?;
    let beside = match arguments.next().as_deref() {
        None => false,
        Some("beside") => true,
        Some(_) => return Err(usage.into()),
    };
    let age_ms: Nanos = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let stretch: usize = arguments.next().map_or(Ok(6700), |text| text.parse())?;
    let work_us: f64 = arguments.next().map_or(Ok(0.0), |text| text.parse())?;
    let work_ns = (work_us * 1e3) as Nanos * scale;

    let mut drives: Vec<Slowed> = (0..DRIVES)
        .map(|seed| {
            let mut drive = Ssd::new(&params, seed)?;
            drive.precondition();
            Ok(Slowed { drive: RefCell::new(drive), scale, work_ns, beside: RefCell::default() })
        })
        .collect::<Result<_, linnet_ssd::Error>>()?;
    let slow = scale as f64;
    let during = reads as f64 / reads_per_second;
    let seconds = (1.0 + BEFORE) * during * slow;
    let begun_ns = (BEFORE * during * slow * 1e9) as Nanos;
    let streams: Vec<Vec<IoRecord>> = (0..DRIVES)
        .map(|k| {
            let mut chance = Chance::new(7).fork(k);
            let mut all = load(&mut chance, Op::Write, writes_per_second / slow, seconds, WRITTEN, WRITE_BYTES);
            if beside {
                drives[k as usize].beside = RefCell::new(std::mem::take(&mut all).into());
            }
            if k == 0 {
                all.extend(load(&mut chance, Op::Read, reads_per_second / slow, seconds, 0..READ_SPAN_BYTES, 4096));
                all.sort_by_key(|record| record.arrive_ns);
            }
            all
        })
        .collect();
    let streams: Vec<&[IoRecord]> = streams.iter().map(Vec::as_slice).collect();
    let learned = vec![
        DeviceModel {
            thresholds: model.thresholds,
            network: model.network.clone(),
            trees: model.trees,
            predictions: model.predictions,
        };
        DRIVES as usize
    ];
    let thresholds: Vec<_> = learned.iter().map(|one| one.thresholds).collect();
    for (label, name, hedges, failover) in POLICIES {
        let default = Config::default();
        let none = Rate::new(0.0, 0);
        let array = Config {
            settings: Settings { age_ns: age_ms * 1_000_000 * scale, ..default.settings },
            failover_ns: if failover { default.failover_ns * scale } else { 0 },
            read_timeout_ns: default.read_timeout_ns * scale,
            hedge_budget: if hedges { default.hedge_budget } else { none },
            ..default
        };
        let mut drives: Vec<_> = drives.iter().cloned().map(Modelled::new).collect();
        let chosen = policy(name, &learned, &array)?;
        let options = RunOptions { array, playback: Playback::default() };
        let result = run(&mut drives, &streams, &thresholds, chosen, &options, &mut ())?;
        let answered = result.reads.latency_ns.iter().zip(&result.reads.arrive_ns);
        let mut latency_ns: Vec<Nanos> = answered.filter(|(_, at)| **at >= begun_ns).map(|(&ns, _)| ns).collect();
        let by_stretch: Vec<String> = latency_ns
            .chunks_exact_mut(stretch.max(1))
            .map(|part| {
                part.sort_unstable();
                format!("{:.0}", quantile(part, 0.99) as f64 / 1e3)
            })
            .collect();
        latency_ns.sort_unstable();
        let us = |q| quantile(&latency_ns, q) as f64 / 1e3;
        let mean_us = latency_ns.iter().sum::<Nanos>() as f64 / latency_ns.len().max(1) as f64 / 1e3;
        let all = result.reads.latency_ns.len().max(1) as f64;
        println!(
            "{{\"where\": \"virtual\", \"policy\": \"{label}\", \"reads\": {}, \"failed\": {}, \"mean_us\": {mean_us:.3}, \
             \"p50_us\": {:.3}, \"p95_us\": {:.3}, \"p99_us\": {:.3}, \"p999_us\": {:.3}, \"hedged\": {:.6}, \
             \"revoked\": {:.6}, \"p99_us_by_stretch\": [{}]}}",
            latency_ns.len(),
            result.counters.reads_failed,
            us(0.5),
            us(0.95),
            us(0.99),
            us(0.999),
            result.counters.hedges as f64 / all,
            result.counters.revokes as f64 / all,
            by_stretch.join(", "),
        );
    }
    Ok(())
}
