// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the whole array, and their common helpers.

mod asking;
mod behaviour;
mod best;
mod checker;
mod driving;
mod equality;
mod expected;
mod inputs;
mod late;
mod probing;
mod rivals;
mod routing;
mod sim;

use crate::{Ask, Choice, Completion, Config, DeviceModel, Playback, Policy, RunOptions, RunResult, policy, run};
use linnet_core::{Budget, DIGITS, Layer, Network, Rate, Replica, Settings};
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

/// The array's settings with another unit of age.
fn aged(age_ns: Nanos) -> Settings {
    Settings { age_ns, ..Config::default().settings }
}

/// The array's settings with another limit of errors.
fn limited(errors_max: u32) -> Settings {
    Settings { errors_max, ..Config::default().settings }
}

/// Every device holds every replica, and the I/Os of each device are recorded.
fn run_named<D: Device>(name: &str, devices: &mut [D], records: &[IoRecord], learned: &[DeviceModel]) -> RunResult {
    let config = Config { replicas: devices.len(), ..Config::default() };
    let policy = policy(name, learned, &config).expect("a known name");
    let options = RunOptions { array: config, playback: Playback::LOGGED };
    run(devices, &[records], &thresholds(learned), policy, &options, &mut ()).expect("the run succeeds")
}

/// How many I/Os each device had.
fn counts(result: &RunResult) -> Vec<usize> {
    result.log.iter().map(Vec::len).collect()
}

/// What a policy is asked about a read of 4 KiB, on devices that each hold a replica.
pub(crate) struct Scene {
    pub settings: Settings,
    pub request: Request,
    pub replicas: Vec<u32>,
    pub devices: Vec<Replica>,
}

impl Scene {
    /// Devices with this many reads in flight.
    pub fn new(in_flight: &[u32]) -> Scene {
        let (settings, request) = (Config::default().settings, Request::new(Op::Read, 0, 4096));
        let busy = |&count: &u32| {
            let mut replica = Replica::new(test_thresholds().inflection_ns, true);
            for _ in 0..count {
                replica.arrive(&settings, 0, &request, false);
            }
            replica
        };
        let devices = in_flight.iter().map(busy).collect();
        Scene { settings, request, replicas: (0..in_flight.len() as u32).collect(), devices }
    }

    /// The question where the read goes, with these candidates as bits.
    pub fn ask(&self, now_ns: Nanos, candidates: u8) -> Ask<'_> {
        Ask {
            now_ns,
            arrive_ns: now_ns,
            request: &self.request,
            stream: 0,
            replicas: &self.replicas,
            next: candidates.trailing_zeros() as usize,
            first: true,
            last: candidates.is_power_of_two(),
            devices: &self.devices,
            outlook: &(),
            settings: &self.settings,
            candidates,
            refused: 0,
        }
    }

    /// All of them.
    pub fn all(&self) -> u8 {
        (0..self.devices.len()).map(|k| 1 << k).sum()
    }
}

/// A read of 4 KiB that completes in time, having met this many in flight.
pub(crate) fn answer(now_ns: Nanos, device: usize, latency_ns: Nanos, in_flight: u32) -> Completion {
    Completion { now_ns, device, op: Op::Read, size_bytes: 4096, latency_ns, in_flight, in_time: true }
}

/// A policy by itself.
struct Alone {
    policy: Box<dyn Policy>,
    chance: Chance,
}

impl Alone {
    fn new(name: &str, learned: &[DeviceModel]) -> Alone {
        let config = Config { replicas: learned.len(), ..Config::default() };
        Alone { policy: policy(name, learned, &config).expect("a known name"), chance: Chance::new(3) }
    }

    fn choose(&mut self, now_ns: Nanos, scene: &mut Scene) -> Choice {
        scene.settings = self.policy.settings(scene.settings);
        let choice = self.policy.choose(&scene.ask(now_ns, scene.all()), &mut self.chance, &mut Budget::default());
        self.policy.sent_hedgeable(&scene.settings);
        choice
    }

    /// The device that it sends a read to, where devices have this many in flight.
    fn sends(&mut self, now_ns: Nanos, in_flight: &[u32]) -> usize {
        match self.choose(now_ns, &mut Scene::new(in_flight)) {
            Choice::Submit(submit) => submit.replica,
            other => panic!("{other:?}"),
        }
    }

    /// A read completes, having met this many in flight.
    fn completed(&mut self, now_ns: Nanos, device: usize, latency_ns: Nanos, in_flight: u32) {
        self.policy.completed(&answer(now_ns, device, latency_ns, in_flight));
    }
}
