// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of a decision and compares it with the plain int64 loop, measured in the same run.
//!
//! Times are nanoseconds of wall clock. Hot: the mean of 64 calls, of which the median over 4,001 blocks is taken, so
//! that a few pre-emptions do not matter. Cold: the median of 4,001 single calls, including the clock reading; weights,
//! tables and the device's state are flushed from all caches before each call.

mod count;
mod others;
mod stream;
mod subject;
#[cfg(test)]
mod tests;
mod threads;

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use linnet_core::{Error, Network, Tracker};
use linnet_types::Op;

pub use count::{count, linnet_bench_counted};
pub use others::{one_network, trees};
pub use subject::Build;
pub use threads::{ThreadRow, two_threads};

use stream::{Chance, Event, Stream};
use subject::{Device, Plain, Subject};

/// Calls in a block.
const CALLS: usize = 64;
/// Distinct inputs of the plain loop.
const RING: usize = 4_096;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of blocks, and of single calls; 4,001 for published figures.
    pub blocks: usize,
    /// Seed of the inputs and of the networks' training.
    pub seed: u64,
    /// Networks besides those trained here, each with its name.
    pub networks: Vec<(String, Network)>,
    /// A program that passes its arguments after `count` to [`count`]; run under valgrind to count instructions.
    pub counter: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options { blocks: 4_001, seed: 1, networks: Vec::new(), counter: None }
    }
}

/// One measured row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the network.
    pub network: String,
    /// `uniform` digits; `realistic`: 1 to 64 pages, 8 % slow reads; `stream`: events of 64 devices under load.
    pub inputs: &'static str,
    /// `plain`: the int64 loop. `network`: the core's whole network, without precomputation. `submit`: the decision on
    /// an arriving read, features included. `complete`: of a read. `arrive`: the bookkeeping of an arrival.
    pub path: &'static str,
    /// Flags and loops.
    pub build: &'static str,
    /// `hot` or `cold`.
    pub state: &'static str,
    /// Whether decisions may be remembered from before; `no` is the worst case.
    pub remembered: bool,
    /// Median.
    pub ns_median: f64,
    /// Least.
    pub ns_min: f64,
    /// Of one call, by callgrind.
    pub instructions: Option<f64>,
    /// Median of the fastest plain build with the same inputs and state, over this median. None where that has not run.
    pub ratio_to_plain: Option<f64>,
    /// Share of decisions that were remembered or foreseen.
    pub hit_share: Option<f64>,
}

impl Row {
    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        let number = |n: Option<f64>| n.map_or("null".into(), |n| format!("{n:.3}"));
        let mut text = String::new();
        for (name, value) in [
            ("network", self.network.as_str()),
            ("inputs", self.inputs),
            ("path", self.path),
            ("build", self.build),
            ("state", self.state),
        ] {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            write!(text, "\"{name}\": \"{value}\", ").expect("a string takes it");
        }
        format!(
            "{{{text}\"remembered\": {}, \"ns_median\": {:.2}, \"ns_min\": {:.2}, \"instructions\": {}, \
             \"ratio_to_plain\": {}, \"hit_share\": {}}}",
            self.remembered,
            self.ns_median,
            self.ns_min,
            number(self.instructions),
            number(self.ratio_to_plain),
            number(self.hit_share)
        )
    }
}

/// Median and least.
fn middle(mut ns: Vec<f64>) -> (f64, f64) {
    ns.sort_by(f64::total_cmp);
    (ns[ns.len() / 2], ns[0])
}

/// Blocks of calls, each after an untimed `prepare`.
fn hot(blocks: usize, mut prepare: impl FnMut(usize), mut call: impl FnMut(usize)) -> (f64, f64) {
    middle(
        (0..blocks)
            .map(|block| {
                prepare(block);
                let start = Instant::now();
                for i in 0..CALLS {
                    call(block * CALLS + i);
                }
                start.elapsed().as_nanos() as f64 / CALLS as f64
            })
            .collect(),
    )
}

/// Single calls, each after an untimed `prepare` that flushes.
fn cold(blocks: usize, mut prepare: impl FnMut(usize), mut call: impl FnMut(usize)) -> (f64, f64) {
    middle(
        (0..blocks)
            .map(|i| {
                prepare(i);
                let start = Instant::now();
                call(i);
                start.elapsed().as_nanos() as f64
            })
            .collect(),
    )
}

/// One history entry, and the pages that a read finds.
fn entry(inputs: &str, chance: &mut Chance) -> (u64, u32) {
    if inputs == "uniform" {
        return (1_000 * chance.below(10_000), chance.below(1_000) as u32);
    }
    let us = if chance.below(100) < 8 { 1_000 + chance.below(9_000) } else { 60 + chance.below(340) };
    (1_000 * us, 1 + chance.below(64) as u32)
}

const INPUTS: [&str; 2] = ["uniform", "realistic"];

/// The features of a ring of such reads.
fn ring(inputs: &'static str, seed: u64) -> Vec<Vec<i64>> {
    let mut chance = Chance(seed);
    (0..RING)
        .map(|_| {
            let mut tracker = Tracker::new();
            for _ in 0..4 {
                let (latency_ns, pages) = entry(inputs, &mut chance);
                tracker.complete(Op::Read, 0, latency_ns, pages);
            }
            tracker.digits(entry(inputs, &mut chance).1).map(i64::from).to_vec()
        })
        .collect()
}

fn row(network: &str, inputs: &'static str, path: &'static str, build: Build, state: &'static str) -> Row {
    Row {
        network: network.into(),
        inputs,
        path,
        build: build.name(),
        state,
        remembered: false,
        ns_median: 0.0,
        ns_min: 0.0,
        instructions: None,
        ratio_to_plain: None,
        hit_share: None,
    }
}

fn timed(row: Row, (ns_median, ns_min): (f64, f64)) -> Row {
    Row { ns_median, ns_min, ..row }
}

fn plain_rows(name: &str, network: &Network, build: Build, options: &Options, rows: &mut Vec<Row>) {
    let plain = Plain::new(network, build);
    for inputs in INPUTS {
        let ring = ring(inputs, options.seed);
        let call = |i: usize| {
            black_box(plain.decide(black_box(&ring[i % RING])));
        };
        rows.push(timed(row(name, inputs, "plain", build, "hot"), hot(options.blocks, |_| {}, call)));
        rows.push(timed(row(name, inputs, "plain", build, "cold"), cold(options.blocks, |_| plain.flush(), call)));
    }
}

/// Brings a new read into the history, at a pending count of its own.
fn advance(device: &Device<'_>, inputs: &str, chance: &mut Chance) {
    let (latency_ns, snapshot) = entry(inputs, chance);
    let (_, pending) = entry(inputs, chance);
    device.withdraw(u32::MAX);
    device.arrive(pending * 4_096);
    device.complete_read(0, latency_ns, snapshot);
}

/// Brings a new read into the history, decides on a read of these pages if there are any, so that the decision is
/// remembered, and flushes everything from the caches.
fn chill(device: &Device<'_>, inputs: &str, chance: &mut Chance, remembered: Option<u32>) {
    advance(device, inputs, chance);
    if let Some(pages) = remembered {
        device.decide(pages);
    }
    device.flush();
}

fn incremental_rows(
    name: &str,
    network: &Network,
    build: Build,
    options: &Options,
    rows: &mut Vec<Row>,
) -> Result<(), Error> {
    let blocks = options.blocks;
    for inputs in INPUTS {
        let subject = Subject::new(network, build)?;
        let found: Vec<(u64, u32)> = {
            let mut chance = Chance(options.seed);
            (0..RING).map(|_| entry(inputs, &mut chance)).collect()
        };
        let mut push = |path, state, remembered, result| {
            rows.push(timed(Row { remembered, ..row(name, inputs, path, build, state) }, result));
        };
        {
            let device = subject.device();
            let mut chance = Chance(options.seed);
            let score = |i: usize| {
                black_box(device.score(black_box(found[i % RING].1)));
            };
            let mut next = |_| {
                advance(&device, inputs, &mut chance);
            };
            push("submit", "hot", false, hot(blocks, &mut next, score));
            let again = |block: usize| {
                next(block);
                device.decide(found[block % RING].1);
            };
            let decide = |i: usize| {
                black_box(device.decide(black_box(found[i / CALLS % RING].1)));
            };
            push("submit", "hot", true, hot(blocks, again, decide));
            let complete = |i: usize| {
                let (latency_ns, snapshot) = found[i % RING];
                device.complete_read(0, black_box(latency_ns), snapshot);
            };
            push("complete", "hot", false, hot(blocks, |_| {}, complete));
            let arrive = |_| {
                black_box(device.arrive(black_box(4_096)));
            };
            push("arrive", "hot", false, hot(blocks, |_| device.withdraw(64 * 4_096), arrive));
        }
        let device = subject.device();
        let mut chance = Chance(options.seed);
        let pages = |i: usize| found[i % RING].1;
        let score = |i: usize| {
            black_box(device.score(black_box(pages(i))));
        };
        push("submit", "cold", false, cold(blocks, |_| chill(&device, inputs, &mut chance, None), score));
        let decide = |i: usize| {
            black_box(device.decide(black_box(pages(i))));
        };
        let remembered = |i: usize| chill(&device, inputs, &mut chance, Some(pages(i)));
        push("submit", "cold", true, cold(blocks, remembered, decide));
        let complete = |i: usize| {
            let (latency_ns, snapshot) = found[i % RING];
            device.complete_read(0, black_box(latency_ns), snapshot);
        };
        push("complete", "cold", false, cold(blocks, |_| device.flush(), complete));
    }
    Ok(())
}

/// The next arrival of a device's stream: its snapshot, after all events before it.
fn next_read(device: &Device<'_>, stream: &mut Stream, snapshots: &mut Vec<u32>) -> u32 {
    loop {
        match stream.next() {
            Event::Arrive { op, size_bytes, .. } => {
                let snapshot = device.arrive(size_bytes);
                snapshots.push(snapshot);
                if op == Op::Read {
                    return snapshot;
                }
            }
            Event::Complete { id, op, size_bytes, latency_ns } => match op {
                Op::Read => device.complete_read(size_bytes, latency_ns, snapshots[id]),
                Op::Write => device.withdraw(size_bytes),
            },
        }
    }
}

/// One decision on each of 64 devices per block, each after what happened on it since its last one.
fn stream_row(name: &str, network: &Network, build: Build, options: &Options) -> Result<Row, Error> {
    let subject = Subject::new(network, build)?;
    let devices: Vec<Device<'_>> = (0..CALLS).map(|_| subject.device()).collect();
    let mut streams: Vec<(Stream, Vec<u32>)> =
        (0..CALLS).map(|k| (Stream::new(options.seed + k as u64), Vec::new())).collect();
    let mut found = vec![0; CALLS];
    let (mut hits, mut asked) = (0, 0);
    let found_at = found.as_mut_ptr();
    let result = hot(
        options.blocks,
        |_| {
            for (k, (stream, snapshots)) in streams.iter_mut().enumerate() {
                let snapshot = next_read(&devices[k], stream, snapshots);
                // SAFETY: one of 64, without concurrent access.
                unsafe { *found_at.add(k) = snapshot };
                hits += usize::from(devices[k].remembers(snapshot));
                asked += 1;
            }
        },
        |i| {
            // SAFETY: as above.
            let snapshot = unsafe { *found_at.add(i % CALLS) };
            black_box(devices[i % CALLS].decide(black_box(snapshot)));
        },
    );
    let hit_share = Some(f64::from(hits as u32) / f64::from(asked as u32));
    Ok(timed(Row { remembered: true, hit_share, ..row(name, "stream", "submit", build, "hot") }, result))
}

/// The networks that are always measured.
fn networks(options: &Options) -> Result<Vec<(String, Network)>, Error> {
    let mut all = vec![
        ("linnos".to_string(), stream::trained(&[256], options.seed)?),
        ("linnos-untrained".to_string(), stream::untrained(256, options.seed)?),
        ("31-128-16-2".to_string(), stream::trained(&[128, 16], options.seed)?),
    ];
    all.extend(options.networks.iter().cloned());
    Ok(all)
}

/// Measures every network in every build that runs here, and what is decided without an incremental network. Takes some
/// seconds for each network.
pub fn decide(options: &Options) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let networks = networks(options)?;
    for (name, network) in &networks {
        for build in Build::available() {
            plain_rows(name, network, build, options, &mut rows);
            incremental_rows(name, network, build, options, &mut rows)?;
            others::network_rows(name, network, build, options, &mut rows)?;
            rows.push(stream_row(name, network, build, options)?);
        }
    }
    for build in Build::available() {
        others::trees_rows(build, options, &mut rows)?;
        others::heimdall_rows(build, options, &mut rows)?;
    }
    let plain: Vec<Row> = rows.iter().filter(|row| row.path == "plain").cloned().collect();
    for row in &mut rows {
        compare(row, &plain);
        if let (Some(counter), "hot") = (&options.counter, row.state) {
            let network = networks.iter().find(|(name, _)| *name == row.network).map(|(_, network)| network);
            if row.path != "network" && (network.is_some() || row.network == others::TREES_NAME) {
                row.instructions = count::instructions(counter, network, row, options.seed);
            }
        }
    }
    Ok(rows)
}

/// Ratio to the fastest plain loop of the same network, inputs and state. Trees have no such loop of their own: they
/// are held against that of the network which they stand in for.
fn compare(row: &mut Row, plain: &[Row]) {
    let inputs = if row.inputs == "stream" { "realistic" } else { row.inputs };
    let network = if row.network == others::TREES_NAME { "linnos" } else { &row.network };
    row.ratio_to_plain = plain
        .iter()
        .filter(|p| p.network == network && p.inputs == inputs && p.state == row.state)
        .map(|p| p.ns_median / row.ns_median)
        .min_by(f64::total_cmp);
}
