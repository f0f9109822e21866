// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares policies by their share of the gap between the baseline and the oracle.
//!
//!     cargo run --release -p linnet-study --example replicas -- enterprise-wide 0.75 20 1 az-e bi-e co-e
//!
//! Arguments: preset, device-wide share, seconds of each period, seed, workloads. Prints one row per policy: mean, p99
//! and p99.9 in us, the share of the possible gain (from baseline to oracle) for each, and I/O beyond one copy per
//! read.

use linnet_array::{Config, DeviceModel, Playback, RunOptions, RunResult, policy, run};
use linnet_learn::{Devices, LearnOptions, fit_periods};
use linnet_measure::Summary;
use linnet_sim::Modelled;
use linnet_ssd::{Params, Ssd};
use linnet_types::{IoRecord, Thresholds};

const POLICIES: &[&str] =
    &["baseline", "shortest-queue", "ewma-inflight", "c3", "hedge-p95", "linnos", "linnos+hl", "linnet-best", "oracle"];

fn slices(streams: &[Vec<IoRecord>]) -> Vec<&[IoRecord]> {
    streams.iter().map(Vec::as_slice).collect()
}

fn serve(
    devices: &[Modelled<Ssd>],
    streams: &[Vec<IoRecord>],
    name: &str,
    learned: &[DeviceModel],
    log: bool,
) -> RunResult {
    let thresholds: Vec<Thresholds> = learned.iter().map(|one| one.thresholds).collect();
    let options = RunOptions { array: Config::default(), playback: Playback { log, ..Playback::default() } };
    let chosen = policy(name, learned, &options.array).expect("a policy of this name");
    run(&mut devices.to_vec(), &slices(streams), &thresholds, chosen, &options, &mut ()).expect("a run")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, default: &str| arguments.get(i).cloned().unwrap_or_else(|| default.to_owned());
    let mut params = Params::preset(&argument(0, "enterprise-wide")).expect("a preset of this name");
    params.device_wide_share = argument(1, "0.75").parse().expect("a share");
    let seconds: f64 = argument(2, "20").parse().expect("seconds");
    let seed: u64 = argument(3, "0").parse().expect("a seed");
    let workloads = if arguments.len() > 4 { &arguments[4..] } else { &["az-e".to_owned()] };
    let devices: Vec<Modelled<Ssd>> = (0..3)
        .map(|device| {
            let mut device = Ssd::new(&params, 3 * seed + device).expect("a valid preset");
            device.precondition();
            Modelled::new(device)
        })
        .collect();
    for workload in workloads {
        let period = |seed| linnet_trace::synth(workload, seconds, 3, seed).expect("a workload of this name");
        let (train, test) = (period(2 * seed), period(2 * seed + 1));
        let fresh = vec![DeviceModel::default(); 3];
        let log = |streams| serve(&devices, streams, "baseline", &fresh, true).log;
        let (past, later) = (log(&train), log(&test));
        let options = LearnOptions { devices: Devices::SharedTrees, ..LearnOptions::default() };
        let fitted = fit_periods(&slices(&past), &slices(&later), &options, &mut |_| true).expect("a fit");
        let mut learned = Vec::new();
        for one in fitted {
            println!("{workload}: ROC-AUC {:.3?}, LinnOS {:.3?}", one.trees.roc_auc, one.biased.test.roc_auc);
            learned.push(DeviceModel {
                thresholds: one.model.thresholds,
                network: one.model.network,
                trees: one.model.trees,
                predictions: one.model.predictions,
            });
        }
        let rows: Vec<(Summary, u64)> = POLICIES
            .iter()
            .map(|name| {
                let mut result = serve(&devices, &test, name, &learned, false);
                (Summary::of(&mut result.reads.latency_ns), result.counters.extra_io)
            })
            .collect();
        let figures = |row: &Summary| [row.mean, row.p99 as f64, row.p999 as f64];
        let (from, to) = (figures(&rows[0].0), figures(&rows[rows.len() - 1].0));
        for (name, (row, extra_io)) in POLICIES.iter().zip(&rows) {
            let own = figures(row);
            let way: Vec<String> =
                (0..3).map(|i| format!("{:4.0} %", 100.0 * (from[i] - own[i]) / (from[i] - to[i]))).collect();
            let [mean, p99, p999] = own.map(|ns| ns / 1000.0);
            println!("{workload:5} {name:15} {mean:9.0} {p99:9.0} {p999:9.0}   {}   {extra_io}", way.join(" "));
        }
    }
}
