// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the whole array, and their common helpers.

mod behaviour;
mod best;
mod driving;
mod equality;
mod expected;
mod inputs;
mod probing;
mod rivals;
mod sim;

use crate::{Config, DeviceModel, RunOptions, RunResult, policy, run};
use linnet_core::{DIGITS, Layer, Network};
use linnet_sim::{Modelled, TestDevice};
use linnet_types::{Device, IoRecord, Nanos, Op, Thresholds};

/// A network of one layer with this last row; the first output is always 0.
fn network(slow: [i64; DIGITS], bias: i64) -> Network {
    let mut weights = vec![0; DIGITS];
    weights.extend(slow);
    let layer = Layer { inputs: DIGITS, outputs: 2, weights, biases: vec![0, bias] };
    Network::from_integers(vec![layer], vec![1]).expect("within bounds")
}

/// A network that revokes if the last completed read took more than `limit_us` (its digits are the last four).
fn revokes_above(limit_us: i64) -> Network {
    let mut slow = [0; DIGITS];
    slow[DIGITS - 4..].copy_from_slice(&[1000, 100, 10, 1]);
    network(slow, -limit_us)
}

/// A network that always revokes.
fn revokes_always() -> Network {
    network([0; DIGITS], 1)
}

/// Thresholds for the test device: reads of 80 us are fast.
fn test_thresholds() -> Thresholds {
    Thresholds {
        inflection_ns: 200_000,
        latency_ns_p95: 300_000,
        latency_ns_p99: 900_000,
        hedge_ns: 250_000,
        queue_inflection: 4,
        queue_median: 1,
        queue_lower_quartile: 0,
    }
}

fn learned(networks: &[Option<Network>]) -> Vec<DeviceModel> {
    networks
        .iter()
        .map(|network| DeviceModel {
            thresholds: test_thresholds(),
            network: network.clone(),
            ..DeviceModel::default()
        })
        .collect()
}

fn thresholds(learned: &[DeviceModel]) -> Vec<Thresholds> {
    learned.iter().map(|device| device.thresholds).collect()
}

fn record(arrive_ns: Nanos, op: Op) -> IoRecord {
    IoRecord::new(arrive_ns, op, 0, 4096)
}

/// A test device that is never busy.
fn steady(read_ns: Nanos, write_ns: Nanos) -> Modelled<TestDevice> {
    Modelled::new(TestDevice::steady(read_ns, write_ns))
}

fn two_replicas() -> Config {
    Config { replicas: 2, ..Config::default() }
}

/// Every device holds every replica, and the I/Os of each device are recorded.
fn run_named<D: Device>(name: &str, devices: &mut [D], records: &[IoRecord], learned: &[DeviceModel]) -> RunResult {
    let config = Config { replicas: devices.len(), ..Config::default() };
    let policy = policy(name, learned, &config).expect("a known name");
    let options = RunOptions { array: config, log: true };
    run(devices, &[records], &thresholds(learned), policy, &options, &mut ()).expect("the run succeeds")
}

/// How many I/Os each device had.
fn counts(result: &RunResult) -> Vec<usize> {
    result.log.iter().map(Vec::len).collect()
}
