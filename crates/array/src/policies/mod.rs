// SPDX-License-Identifier: MIT OR Apache-2.0
//! The policies by name.

mod c3;
mod core;
mod expected;
mod hedging;
mod heuristic;
mod mirror;
mod multipath;
mod oracle;
mod plain;
mod sampled;
mod snitch;
mod table;

use self::table::{Entry, Given, TABLE};
use crate::{Config, Error, Policy};
use linnet_core::{HEDGE_START_NS, Hedging, Network, Predictions, Settings, Trees};
use linnet_types::Thresholds;

/// Every name that [`policy`] knows.
pub const POLICIES: &[&str] = &{
    let mut names = [""; TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        names[at] = TABLE[at].name;
        at += 1;
    }
    names
};

/// Models and thresholds of one device.
#[derive(Clone, Debug, Default)]
pub struct DeviceModel {
    /// Thresholds.
    pub thresholds: Thresholds,
    /// The network of LinnOS; without one, its reads are submitted.
    pub network: Option<Network>,
    /// The trees of linnet; without them, its reads follow EWMA latency x in flight.
    pub trees: Option<Trees>,
    /// Predictions by the score of the trees; without latencies, `linnet+hl` hedges by its thresholds.
    pub predictions: Predictions,
}

/// The hedging of linnet-best. Its delay starts at the lowest 95th percentile known of any device, or as in the kernel.
pub fn hedging_of(learned: &[DeviceModel], settings: &Settings) -> Hedging {
    let delay_ns = learned.iter().map(|device| device.thresholds.latency_ns_p95).filter(|&ns| ns > 0).min();
    Hedging::new(settings, Some(delay_ns.unwrap_or(HEDGE_START_NS)))
}

/// The policy of this name for an array whose devices are described by `learned`, one entry each. A threshold of 0 is
/// unknown, and a rule that needs it is not applied.
///
/// # Errors
/// An unknown name (the error lists the known ones), or a network that does not take 31 digits and give 2 outputs.
pub fn policy(name: &str, learned: &[DeviceModel], config: &Config) -> Result<Box<dyn Policy>, Error> {
    config.validate(learned.len())?;
    let entry = entry(name).ok_or_else(|| unknown(name))?;
    (entry.make)(&Given { learned, settings: &config.settings })
}

fn entry(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == name)
}

/// Whether the policy of this name asks a model of each device; the others decide by rules.
pub fn asks_model(name: &str) -> bool {
    entry(name).is_some_and(|entry| entry.need.is_model())
}

/// Whether the policy of this name is what another system ships.
pub fn is_deployed(name: &str) -> bool {
    entry(name).is_some_and(|entry| entry.deployed)
}

/// What the policy of this name decides by and a device's model does not have, with the number of the device. [`policy`]
/// makes a policy all the same, in which a rule that lacks something is not applied.
pub fn missing(name: &str, learned: &[DeviceModel]) -> Option<(usize, &'static str)> {
    let need = entry(name)?.need;
    let device = learned.iter().position(|device| !need.is_known_of(device))?;
    Some((device, need.name()))
}

fn unknown(name: &str) -> Error {
    let nearest = POLICIES.iter().map(|known| (distance(name, known), known)).min();
    let hint = match nearest {
        Some((steps, known)) if steps <= 2.max(known.len() / 3) => format!(" (did you mean `{known}`?)"),
        _ => String::new(),
    };
    Error::UnknownPolicy { name: name.to_owned(), hint, known: POLICIES.join(", ") }
}

/// Edit distance (insert, delete, replace), letters compared without case, `_` taken for `-`.
fn distance(asked: &str, known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (i, letter) in asked.chars().take(64).enumerate() {
        let letter = if letter == '_' { '-' } else { letter.to_ascii_lowercase() };
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &other) in known.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[known.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_core::DIGITS;

    fn network(inputs: usize, outputs: usize) -> Network {
        let (weights, biases) = (vec![1; inputs * outputs], vec![0; outputs]);
        let layer = linnet_core::Layer { inputs, outputs, weights, biases };
        Network::from_integers(vec![layer], vec![1]).expect("within bounds")
    }

    #[test]
    fn every_name_makes_the_policy_of_that_name() {
        let learned = vec![DeviceModel::default(); 3];
        for name in POLICIES {
            assert_eq!(policy(name, &learned, &Config::default()).expect("known").name(), *name);
        }
    }

    #[test]
    fn what_the_core_decides_by_is_known_here_by_the_same_names() {
        let named = [
            linnet_core::Policy::Baseline,
            linnet_core::Policy::ShortestQueue,
            linnet_core::Policy::EwmaInflight,
            linnet_core::Policy::Linnos,
            linnet_core::Policy::Best,
        ]
        .map(|policy| linnet_core::policy_names()[policy as usize]);
        assert_eq!(named, linnet_core::policy_names());
        assert_eq!(named, ["baseline", "shortest-queue", "ewma-inflight", "linnos", "linnet-best"]);
        assert!(named.iter().all(|name| POLICIES.contains(name)));
    }

    #[test]
    fn what_a_policy_lacks_is_known_with_the_device() {
        let thresholds =
            Thresholds { inflection_ns: 1, latency_ns_p95: 1, latency_ns_p99: 1, hedge_ns: 1, ..Thresholds::default() };
        let known = DeviceModel { thresholds, ..DeviceModel::default() };
        let lacking = |learned: &[DeviceModel]| -> Vec<(&str, usize)> {
            let lacks = |&name: &&'static str| missing(name, learned).map(|(device, _)| (name, device));
            POLICIES.iter().filter_map(lacks).collect()
        };
        let models = ["linnos", "linnos+hl", "linnos+h99", "trees-only", "linnet-best", "linnet-expected", "linnet+hl"];
        assert_eq!(POLICIES.iter().copied().filter(|&name| asks_model(name)).collect::<Vec<_>>(), models);
        let of_models = |device| models.map(|name| (name, device));
        assert_eq!(lacking(&[known.clone(), known.clone()]), of_models(0));
        let trees = Trees::new(&[], 0).ok();
        assert_eq!(lacking(&[DeviceModel { trees, ..known.clone() }, known.clone()])[3..], of_models(1)[3..]);
        assert_eq!(missing("hedge-p95", &[known, DeviceModel::default()]), Some((1, "95th percentile")));
        let without = lacking(&[DeviceModel::default()]);
        let rules = ["dynamic-snitch", "hedge-p95", "hedge-ip", "heur-sim", "heur-adv"];
        assert!(rules.iter().all(|&rule| without.contains(&(rule, 0))), "{without:?}");
        assert_eq!(without.len(), rules.len() + 7);
        let both = DeviceModel { thresholds, network: Some(network(DIGITS, 2)), ..DeviceModel::default() };
        let only_network = DeviceModel { thresholds: Thresholds::default(), ..both.clone() };
        assert_eq!(missing("linnos+h99", &[both, only_network]), Some((1, "network and 99th percentile")));
    }

    #[test]
    fn a_hedge_delay_starts_at_the_lowest_percentile_known_or_as_in_the_kernel() {
        let with = |latency_ns_p95| DeviceModel {
            thresholds: Thresholds { latency_ns_p95, ..Thresholds::default() },
            ..DeviceModel::default()
        };
        let delay_of = |learned: &[DeviceModel]| hedging_of(learned, &Config::default().settings).delay_ns();
        assert_eq!(delay_of(&[with(0), with(3_000_000), with(2_000_000)]), Some(2_000_000));
        assert_eq!(delay_of(&[with(0), with(0)]), Some(10_000_000));
    }

    #[test]
    fn devices_have_trackers_where_trees_read_them() {
        let tracking = |trees| -> Vec<&str> {
            let learned = vec![DeviceModel { trees, ..DeviceModel::default() }; 2];
            let config = Config { replicas: 2, ..Config::default() };
            let tracks = |name: &&str| policy(name, &learned, &config).expect("known").tracks_inflight();
            POLICIES.iter().copied().filter(tracks).collect()
        };
        let of_trees = ["trees-only", "linnet-best", "linnet-expected", "linnet+hl"];
        assert_eq!(tracking(Trees::new(&[], 0).ok()), of_trees);
        assert!(tracking(None).is_empty());
    }

    #[test]
    fn networks_of_another_shape_are_refused_with_their_device() {
        let shaped = |inputs, outputs| {
            let network = Some(network(inputs, outputs));
            let learned = [DeviceModel::default(), DeviceModel { network, ..DeviceModel::default() }];
            let config = Config { replicas: 2, ..Config::default() };
            policy("linnos", &learned, &config).map(drop)
        };
        assert_eq!(shaped(DIGITS, 2), Ok(()));
        for (inputs, outputs) in [(DIGITS, 3), (DIGITS - 1, 2), (5, 1)] {
            assert_eq!(shaped(inputs, outputs), Err(Error::NetworkShape { device: 1, inputs, outputs }));
        }
    }

    #[test]
    fn policies_that_may_revoke_say_so() {
        let learned = vec![DeviceModel::default(); 3];
        let predicts = |name: &&str| policy(name, &learned, &Config::default()).expect("known").predicts();
        let revoking = ["heur-sim", "heur-adv", "linnos", "linnos+hl", "linnos+h99", "linnet+hl"];
        assert!(POLICIES.iter().copied().filter(predicts).eq(revoking));
    }

    #[test]
    fn a_name_is_near_by_letters_inserted_deleted_and_replaced() {
        for (asked, known, steps) in [
            ("c3", "c3", 0),
            ("C3", "c3", 0),
            ("linnos_hl", "linnos-hl", 0),
            ("", "oracle", 6),
            ("oracle", "", 6),
            ("kitten", "sitting", 3),
            ("sitting", "kitten", 3),
            ("abc", "bcd", 2),
            ("flaw", "lawn", 2),
        ] {
            assert_eq!(distance(asked, known), steps, "{asked} {known}");
        }
        assert_eq!(distance(&"x".repeat(100), ""), 64, "of the rest nothing is looked at");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let learned = vec![DeviceModel::default(); 3];
        let ask = |name| policy(name, &learned, &Config::default()).err().expect("unknown").to_string();
        let text = ask("LinnOS_HL");
        assert!(text.contains("did you mean `linnos+hl`?") && text.contains("shortest-queue, ewma-inflight"), "{text}");
        assert!(!ask("completely different").contains("did you mean"));
        // Two letters may differ, or a third of them.
        assert!(ask("xy").contains("did you mean `c3`?") && !ask("xyz").contains("did you mean"));
        assert!(ask("shortest-xxxxe").contains("did you mean `shortest-queue`?"));
        assert!(!ask("shortest-xxxxx").contains("did you mean"));
        assert!(ask("").contains("unknown policy ``"));
    }
}
