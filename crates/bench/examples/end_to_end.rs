// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures I/Os per second of a whole run in virtual time: workload, SSD model, array, and LinnOS with fitted models.
//!
//!     cargo run --release -p linnet-bench --example end_to_end -- az-e enterprise-wide linnos 20
//!
//! Arguments: workload, preset, policy, seconds of virtual time for each period. Under
//! `valgrind --tool=callgrind --toggle-collect='*measured*'` only the measured run is counted.

use std::hint::black_box;
use std::time::Instant;

use linnet_array::{Config, DeviceModel, Playback, RunOptions, RunResult, policy, run};
use linnet_learn::{LearnOptions, fit_periods};
use linnet_sim::Modelled;
use linnet_ssd::{Params, Ssd};
use linnet_types::{IoRecord, Thresholds};

fn slices(streams: &[Vec<IoRecord>]) -> Vec<&[IoRecord]> {
    streams.iter().map(Vec::as_slice).collect()
}

fn run_once(
    devices: &mut [Modelled<Ssd>],
    streams: &[&[IoRecord]],
    name: &str,
    learned: &[DeviceModel],
    log: bool,
) -> RunResult {
    let thresholds: Vec<Thresholds> = learned.iter().map(|one| one.thresholds).collect();
    let options = RunOptions { array: Config::default(), playback: Playback { log, ..Playback::default() } };
    let chosen = policy(name, learned, &options.array).expect("a policy of this name");
    run(devices, streams, &thresholds, chosen, &options, &mut ()).expect("a run")
}

#[inline(never)]
fn measured(devices: &mut [Modelled<Ssd>], streams: &[&[IoRecord]], name: &str, learned: &[DeviceModel]) -> RunResult {
    run_once(devices, streams, name, learned, false)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, default: &str| arguments.get(i).cloned().unwrap_or_else(|| default.to_owned());
    let (workload, preset, name) = (argument(0, "az-e"), argument(1, "enterprise-wide"), argument(2, "linnos"));
    let seconds: f64 = argument(3, "20").parse().expect("seconds");

    let params = Params::preset(&preset).expect("a preset of this name");
    let devices: Vec<Modelled<Ssd>> = (0..3)
        .map(|seed| {
            let mut device = Ssd::new(&params, seed).expect("a valid preset");
            device.precondition();
            Modelled::new(device)
        })
        .collect();
    let period = |seed| linnet_trace::synth(&workload, seconds, 3, seed).expect("a workload of this name");
    let (train, test) = (period(0), period(1));

    let fresh = vec![DeviceModel::default(); 3];
    let log = |streams| run_once(&mut devices.clone(), &slices(streams), "baseline", &fresh, true).log;
    let (past, later) = (log(&train), log(&test));
    let fitted = fit_periods(&slices(&past), &slices(&later), &LearnOptions::default(), &mut |_| true).expect("a fit");
    let learned: Vec<DeviceModel> = fitted
        .iter()
        .map(|one| DeviceModel {
            thresholds: one.model.thresholds,
            network: one.model.network.clone(),
            ..DeviceModel::default()
        })
        .collect();

    let ios: usize = test.iter().map(Vec::len).sum();
    let mut best = f64::INFINITY;
    let rounds = if std::env::var_os("LINNET_ONCE").is_some() { 1 } else { 5 };
    for _ in 0..rounds {
        let mut copies = devices.clone();
        let start = Instant::now();
        let result = measured(&mut copies, &slices(&test), &name, &learned);
        best = best.min(start.elapsed().as_secs_f64());
        black_box(result.event_hash);
    }
    println!("{workload} on 3 x {preset}, {name}: {ios} I/Os, {:.0} thousand I/Os per second", ios as f64 / best / 1e3);
}
