// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one list of the policies: their names, what each needs to know of a device, and how each is made.

use linnet_core::{DIGITS, Network, Settings};
use linnet_types::{Nanos, Thresholds};

use super::core::Core;
use super::{DeviceModel, c3, expected, hedging, heuristic, mirror, multipath, oracle, plain, sampled, snitch};
use crate::{Error, Policy};

/// What a policy decides by and must be known of each device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    P95,
    P99,
    Inflection,
    Network,
    NetworkAndP99,
    Trees,
}

/// What policies are made of.
pub(super) struct Given<'a> {
    /// One entry for each device.
    pub(super) learned: &'a [DeviceModel],
    pub(super) settings: &'a Settings,
}

pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) need: Need,
    /// Another system ships it.
    pub(super) deployed: bool,
    pub(super) make: fn(&Given<'_>) -> Result<Box<dyn Policy>, Error>,
}

impl Need {
    /// In words; what of it this device lacks is not told apart.
    pub(super) fn name(self) -> &'static str {
        match self {
            Need::Nothing => "nothing",
            Need::P95 => "95th percentile",
            Need::P99 => "99th percentile",
            Need::Inflection => "inflection point",
            Need::Network => "network",
            Need::NetworkAndP99 => "network and 99th percentile",
            Need::Trees => "trees",
        }
    }

    pub(super) fn is_known_of(self, device: &DeviceModel) -> bool {
        let thresholds = &device.thresholds;
        match self {
            Need::Nothing => true,
            Need::P95 => thresholds.latency_ns_p95 > 0,
            Need::P99 => thresholds.latency_ns_p99 > 0,
            Need::Inflection => thresholds.inflection_ns > 0,
            Need::Network => device.network.is_some(),
            Need::NetworkAndP99 => device.network.is_some() && thresholds.latency_ns_p99 > 0,
            Need::Trees => device.trees.is_some(),
        }
    }

    /// A model that was fitted, and not a number that anybody can measure.
    pub(super) fn is_model(self) -> bool {
        matches!(self, Need::Network | Need::NetworkAndP99 | Need::Trees)
    }
}

impl Given<'_> {
    fn count(&self) -> usize {
        self.learned.len()
    }

    /// A threshold of each device; 0 is unknown.
    fn each(&self, pick: fn(&Thresholds) -> Nanos) -> Vec<Option<Nanos>> {
        self.learned.iter().map(|device| Some(pick(&device.thresholds)).filter(|&ns| ns > 0)).collect()
    }

    fn hedge_ns(&self) -> Vec<Option<Nanos>> {
        self.each(|thresholds| thresholds.hedge_ns)
    }

    fn linnos(&self, name: &'static str, hedge_ns: Vec<Option<Nanos>>) -> Result<Box<dyn Policy>, Error> {
        let check = |(device, learned): (usize, &DeviceModel)| match &learned.network {
            Some(network) if network.inputs() != DIGITS || network.outputs() != 2 => {
                Err(Error::NetworkShape { device, inputs: network.inputs(), outputs: network.outputs() })
            }
            network => Ok(network.clone()),
        };
        let networks: Result<Vec<Option<Network>>, Error> = self.learned.iter().enumerate().map(check).collect();
        made(Core::linnos(name, networks?, hedge_ns))
    }
}

fn made(policy: impl Policy + 'static) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(policy))
}

type Make = fn(&Given<'_>) -> Result<Box<dyn Policy>, Error>;

const fn rule(name: &'static str, make: Make) -> Entry {
    needing(name, Need::Nothing, make)
}

const fn needing(name: &'static str, need: Need, make: Make) -> Entry {
    Entry { name, need, deployed: false, make }
}

const fn deployed(name: &'static str, need: Need, make: Make) -> Entry {
    Entry { deployed: true, ..needing(name, need, make) }
}

/// Every policy, in the order in which tables show them.
pub(super) const TABLE: &[Entry] = &[
    rule("baseline", |_| made(Core::averages("baseline", linnet_core::Policy::Baseline))),
    rule("clone", |_| made(plain::Cloning)),
    rule("random", |_| made(plain::Random)),
    rule("shortest-queue", |_| made(Core::averages("shortest-queue", linnet_core::Policy::ShortestQueue))),
    rule("ewma-inflight", |_| made(Core::averages("ewma-inflight", linnet_core::Policy::EwmaInflight))),
    rule("ewma-hedged", |given| made(Core::ewma_hedged(given.learned, given.settings))),
    deployed("power-of-two", Need::Nothing, |_| made(sampled::PowerOfTwo)),
    deployed("prequal", Need::Nothing, |given| made(sampled::Prequal::new(given.count()))),
    rule("c3", |given| made(c3::C3::new(given.count()))),
    deployed("dynamic-snitch", Need::P99, |given| {
        made(snitch::DynamicSnitch::new(given.each(|thresholds| thresholds.latency_ns_p99)))
    }),
    deployed("md-raid1", Need::Nothing, |given| made(mirror::MdRaid1::new(given.count()))),
    deployed("spdk-raid1", Need::Nothing, |given| made(mirror::SpdkRaid1::new(given.count()))),
    deployed("dm-hst", Need::Nothing, |given| made(multipath::DmHst::new(given.count()))),
    deployed("nvme-queue-depth", Need::Nothing, |_| made(multipath::NvmeQueueDepth)),
    deployed("nvme-latency", Need::Nothing, |given| made(multipath::NvmeLatency::new(given.count()))),
    needing("hedge-p95", Need::P95, |given| {
        made(hedging::Hedging::new("hedge-p95", given.each(|thresholds| thresholds.latency_ns_p95)))
    }),
    needing("hedge-ip", Need::Inflection, |given| {
        made(hedging::Hedging::new("hedge-ip", given.each(|thresholds| thresholds.inflection_ns)))
    }),
    needing("heur-sim", Need::Inflection, |given| made(heuristic::HeurSim::new(given.learned))),
    needing("heur-adv", Need::Inflection, |given| made(heuristic::HeurAdv::new(given.learned))),
    needing("linnos", Need::Network, |given| given.linnos("linnos", vec![None; given.count()])),
    needing("linnos+hl", Need::Network, |given| given.linnos("linnos+hl", given.hedge_ns())),
    needing("linnos+h99", Need::NetworkAndP99, |given| {
        given.linnos("linnos+h99", given.each(|thresholds| thresholds.latency_ns_p99))
    }),
    needing("trees-only", Need::Trees, |given| made(Core::trees_only(given.learned, given.settings))),
    needing("linnet-best", Need::Trees, |given| made(Core::best(given.learned, given.settings))),
    needing("linnet-expected", Need::Trees, |given| made(expected::Expected::new(given.learned, given.settings))),
    needing("linnet+hl", Need::Trees, |given| made(Core::trees(given.learned, given.hedge_ns(), given.settings))),
    rule("oracle", |_| made(oracle::Oracle)),
];
