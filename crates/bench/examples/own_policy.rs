// SPDX-License-Identifier: MIT OR Apache-2.0
//! A policy of one's own beside known ones: same drives, same requests, same random numbers.
//!
//!     cargo run --release -p linnet-bench --example own_policy -- TRACE
//!     cargo run --release -p linnet-bench --example own_policy -- --workload az-c
//!
//! The policy here avoids a drive for 5 ms after a read there took longer than a millisecond. To have it in `linnet compare`,
//! with models, budgets and a report, move it to `crates/array/src/policies` (CONTRIBUTING.md, "To add a policy").

use std::path::Path;
use std::process::ExitCode;

use linnet_array::{Ask, Choice, Completion, Config, DeviceModel, Playback, Policy, RunOptions, Submit, policy, run};
use linnet_core::Budget;
use linnet_measure::Summary;
use linnet_sim::{Chance, Modelled};
use linnet_ssd::{Params, Ssd};
use linnet_types::{IoRecord, Nanos, Thresholds};

const REPLICAS: usize = 3;
const PRESET: &str = "enterprise-wide";
const RIVALS: [&str; 4] = ["baseline", "shortest-queue", "ewma-inflight", "ewma-hedged"];
const SLOW_NS: Nanos = 1_000_000;
const REST_NS: Nanos = 5_000_000;

/// Among the drives that were not slow lately, the one with the fewest I/Os in flight; if all were, the same of all.
struct Resting {
    until_ns: [Nanos; REPLICAS],
}

impl Policy for Resting {
    fn name(&self) -> &str {
        "resting"
    }

    /// What is known when a read arrives: the candidates, and the state of each drive. There is no view of the future.
    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let best = ask.least(|drive| (ask.now_ns < self.until_ns[drive], ask.devices[drive].in_flight()));
        Choice::Submit(Submit::to(best))
    }

    fn completed(&mut self, done: &Completion) {
        if done.op.is_read() && done.latency_ns > SLOW_NS {
            self.until_ns[done.device] = done.now_ns + REST_NS;
        }
    }
}

/// One stream of requests for each drive: a trace, whose requests go to the drives in turn, or a synthetic workload.
fn streams(arguments: &[String]) -> Result<Vec<Vec<IoRecord>>, String> {
    match arguments {
        [option, name] if option == "--workload" => {
            linnet_trace::synth(name, 30.0, REPLICAS, 1).map_err(|error| error.to_string())
        }
        [path] => {
            let trace = linnet_trace::read_all(Path::new(path), linnet_trace::Options::default());
            let records = trace.map_err(|error| error.to_string())?.records;
            let every = |k: usize| records.iter().skip(k).step_by(REPLICAS).copied().collect();
            Ok((0..REPLICAS).map(every).collect())
        }
        _ => Err("give the path of a trace, or --workload and a name".to_owned()),
    }
}

fn compare(arguments: &[String]) -> Result<(), String> {
    let streams = streams(arguments)?;
    let slices: Vec<&[IoRecord]> = streams.iter().map(Vec::as_slice).collect();
    let params = Params::preset(PRESET).map_err(|error| error.to_string())?;
    let used = |seed| -> Result<Modelled<Ssd>, String> {
        let mut drive = Ssd::new(&params, seed).map_err(|error| error.to_string())?;
        drive.precondition();
        Ok(Modelled::new(drive))
    };
    let drives = (0..REPLICAS as u64).map(used).collect::<Result<Vec<_>, _>>()?;
    let options =
        RunOptions { array: Config { replicas: REPLICAS, ..Config::default() }, playback: Playback::default() };
    let known = vec![DeviceModel::default(); REPLICAS];
    println!("{:16} {:>9} {:>9} {:>9} {:>9}", "policy", "mean us", "p99 us", "p99.9 us", "extra %");
    for name in RIVALS.into_iter().map(Some).chain([None]) {
        let chosen = match name {
            Some(name) => policy(name, &known, &options.array).map_err(|error| error.to_string())?,
            None => Box::new(Resting { until_ns: [0; REPLICAS] }),
        };
        let label = chosen.name().to_owned();
        let thresholds = [Thresholds::default(); REPLICAS];
        let result = run(&mut drives.clone(), &slices, &thresholds, chosen, &options, &mut ());
        let mut result = result.map_err(|error| error.to_string())?;
        let extra = 100.0 * result.counters.extra_io as f64 / result.counters.reads.max(1) as f64;
        let latency = Summary::of(&mut result.reads.latency_ns);
        let us = |ns: u64| ns as f64 / 1000.0;
        let (p99, p999) = (us(latency.p99), us(latency.p999));
        println!("{label:16} {:9.1} {p99:9.1} {p999:9.1} {extra:9.2}", latency.mean / 1000.0);
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match compare(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("own_policy: {error}");
            ExitCode::FAILURE
        }
    }
}
