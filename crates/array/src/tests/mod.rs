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
mod routing;
mod sim;

use crate::{Ask, Choice, Completion, Config, DeviceModel, Policy, RunOptions, RunResult, policy, run};
use linnet_core::{Budget, DIGITS, Layer, Network, Replica, Settings};
use linnet_sim::{Chance, Modelled, TestDevice};
use linnet_types::{Device, IoRecord, Nanos, Op, Request, Thresholds};

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

/// A policy by itself, on devices that each hold a replica.
struct Alone {
    policy: Box<dyn Policy>,
    settings: Settings,
    replicas: Vec<u32>,
    chance: Chance,
}

impl Alone {
    fn new(name: &str, learned: &[DeviceModel]) -> Alone {
        let config = Config { replicas: learned.len(), ..Config::default() };
        let policy = policy(name, learned, &config).expect("a known name");
        let settings = policy.settings(config.settings());
        Alone { policy, settings, replicas: (0..learned.len() as u32).collect(), chance: Chance::new(3) }
    }

    /// Devices with this many reads in flight.
    fn busy(&self, in_flight: &[u32]) -> Vec<Replica> {
        let busy = |&count: &u32| {
            let mut replica = Replica::new(test_thresholds().inflection_ns, self.policy.tracks_inflight());
            for _ in 0..count {
                replica.arrive(&self.settings, 0, &Request::new(Op::Read, 0, 4096), false);
            }
            replica
        };
        in_flight.iter().map(busy).collect()
    }

    /// What it chooses for a read of 4 KiB at this byte, with these candidates as bits.
    fn choose_of(&mut self, now_ns: Nanos, offset_bytes: u64, devices: &[Replica], candidates: u8) -> Choice {
        let request = Request::new(Op::Read, offset_bytes, 4096);
        let Alone { policy, settings, replicas, chance } = self;
        let ask = Ask {
            now_ns,
            arrive_ns: now_ns,
            request: &request,
            stream: 0,
            replicas,
            next: candidates.trailing_zeros() as usize,
            first: true,
            last: candidates.is_power_of_two(),
            devices,
            outlook: &(),
            settings,
            candidates,
            refused: 0,
        };
        policy.choose(&ask, chance, &mut Budget::default())
    }

    /// The device that it sends a read to, which it may.
    fn sends(&mut self, now_ns: Nanos, in_flight: &[u32]) -> usize {
        let devices = self.busy(in_flight);
        match self.choose_of(now_ns, now_ns << 20, &devices, ((1u32 << devices.len()) - 1) as u8) {
            Choice::Submit(submit) => submit.replica,
            other => panic!("{other:?}"),
        }
    }

    /// A read of 4 KiB completes, which met this many in flight.
    fn completed(&mut self, now_ns: Nanos, device: usize, latency_ns: Nanos, in_flight: u32) {
        self.policy.completed(&Completion { now_ns, device, op: Op::Read, size_bytes: 4096, latency_ns, in_flight });
    }
}
