// SPDX-License-Identifier: MIT OR Apache-2.0
//! `models/`: model files of every set of parts, with what they answer.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use linnet_core::{INFLIGHT_FEATURES, Layer, Model, Network, Predictions, Schema, TREE_LEVELS, TREES, Tree, Trees};
use linnet_sim::Chance;
use linnet_types::Thresholds;

use super::networks::{input, layer};
use super::text::{as_version_1, bytes_of, digits_text, hex, hex_lines, row, unhex};
use crate::common::predictions::{EXAMPLES, block};
use crate::common::{SPDX, keep, lines, logits};

pub fn random_trees(chance: &mut Chance) -> Trees {
    let mut draw = |bound: u64| chance.below(bound);
    let trees: Vec<Tree> = (0..TREES)
        .map(|_| Tree {
            feature: std::array::from_fn(|_| draw(16) as u8),
            threshold: std::array::from_fn(|_| draw(64) as u8),
            leaf: std::array::from_fn(|_| draw(600) as i16 - 300),
        })
        .collect();
    Trees::new(&trees, draw(10_000) as i32 - 5_000).unwrap()
}

/// A score as `spec/features-linnet.md` defines it, one tree after the other.
fn slow_score(trees: &Trees, features: &[u8]) -> i128 {
    let leaf = |number| {
        let tree = trees.tree(number).unwrap();
        let bit =
            |level: usize| usize::from(features[usize::from(tree.feature[level])] > tree.threshold[level]) << level;
        i128::from(tree.leaf[(0..TREE_LEVELS).map(bit).sum::<usize>()])
    };
    i128::from(trees.base()) + (0..TREES).map(leaf).sum::<i128>()
}

pub fn small_model(chance: &mut Chance, hidden: &[usize], largest: i64) -> Model {
    let mut shape = vec![31];
    shape.extend(hidden);
    shape.push(2);
    let layers: Vec<Layer> =
        shape.windows(2).map(|pair| layer(chance, pair[0], pair[1], largest, 100 * largest)).collect();
    let scales = (0..layers.len()).map(|k| 1_000i64.pow(k as u32 + 1)).collect();
    Model {
        network: Some(Network::from_integers(layers, scales).unwrap()),
        trees: None,
        predictions: Predictions::default(),
        thresholds: Thresholds {
            inflection_ns: 1_200_000,
            latency_ns_p95: 1_500_000,
            latency_ns_p99: 4_000_000,
            hedge_ns: 1_500_000,
            queue_inflection: 9,
            queue_median: 3,
            queue_lower_quartile: 1,
        },
        inflection_percentile: 93.7,
        false_submit: 0.0125,
        rows: 800_000,
        seed: 42,
    }
}

/// Stores a model file with its outputs for some inputs, and reads it back.
fn keep_model(name: &str, model: &Model, bytes: &[u8], chance: &mut Chance) {
    let mut text = format!(
        "{SPDX}# A model file in hex, then inputs as digits with the logits in hex and the verdict (1: revoke).\n"
    );
    if model.trees.is_some() {
        text += "# score: features, the score of the trees and the latencies it predicts, if any, in hex.\n";
    }
    text += &hex_lines(bytes);
    if let Some(network) = &model.network {
        for _ in 0..8 {
            let input = input(chance, 31, 9);
            let out = logits(&network.layers(), &input).unwrap();
            writeln!(text, "vector {} = {} {}", digits_text(&input), row(&out), u8::from(out[1] > out[0])).unwrap();
        }
    }
    if let Some(trees) = &model.trees {
        for _ in 0..16 {
            let features = input(chance, INFLIGHT_FEATURES, 63);
            let score = slow_score(trees, &features);
            write!(text, "score {} = {}", row(&features), hex(score)).unwrap();
            for example in EXAMPLES.iter().filter(|example| bytes[76] & example.part != 0) {
                let block = &bytes[block(example, bytes[76], bytes)..];
                write!(text, " {}", row(&(example.slow)(block, score, &features))).unwrap();
            }
            writeln!(text).unwrap();
        }
    }
    keep(&format!("models/{name}"), &text);
    assert_eq!(bytes_of(&text), bytes);
    let read = Model::from_bytes(bytes).unwrap();
    assert_eq!(&read, model);
    for line in lines(&text) {
        match line[0] {
            "vector" => {
                let input: Vec<u8> = line[1].bytes().map(|c| c - b'0').collect();
                assert_eq!(u8::from(read.network.as_ref().unwrap().decide(&input)).to_string(), line[5]);
            }
            "score" => {
                let features = std::array::from_fn(|k| unhex(line[1 + k]) as u8);
                let score = read.trees.as_ref().unwrap().score(&features);
                assert_eq!(i128::from(score), unhex(line[2 + INFLIGHT_FEATURES]));
                let told = read.predictions.each().map(|prediction| row(prediction.numbers(score, &features)));
                assert_eq!(told.collect::<Vec<_>>().join(" "), line[3 + INFLIGHT_FEATURES..].join(" "));
            }
            _ => assert_eq!(line.len(), 1),
        }
    }
}

/// A model with these parts; each prediction's bit is in its example.
fn with_parts(parts: u8, schema: Schema, chance: &mut Chance) -> Model {
    let mut model = small_model(chance, &[3], 200);
    model.network = model.network.filter(|_| parts & 1 != 0);
    model.trees = (parts & 2 != 0).then(|| random_trees(chance).on(schema));
    for example in EXAMPLES.iter().filter(|example| parts & example.part != 0) {
        (example.give)(&mut model.predictions, chance, false);
    }
    model
}

/// The files of version 1: name, hidden layers, largest weight.
const VERSION_1: [(&str, &[usize], i64); 3] =
    [("v1-small.txt", &[3], 200), ("v1-wide-weights.txt", &[2, 2], 1_000_000), ("v1-linear.txt", &[], 1 << 40)];
/// Those of version 2 when it was released: name and parts.
const VERSION_2: [(&str, u8); 6] = [
    ("v2-network.txt", 1),
    ("v2-trees.txt", 2),
    ("v2-both.txt", 3),
    ("v2-trees-latencies.txt", 6),
    ("v2-all.txt", 7),
    ("v2-trees-linnet2.txt", 2),
];

/// Predictions that came later have a file each.
fn later() -> impl Iterator<Item = (String, u8)> {
    EXAMPLES.iter().filter(|example| example.part > 4).map(|own| (format!("v2-trees-{}.txt", own.name), 2 | own.part))
}

/// The names of all files.
pub fn names() -> BTreeSet<String> {
    let released = VERSION_1.iter().map(|own| own.0).chain(VERSION_2.iter().map(|own| own.0)).map(String::from);
    released.chain(later().map(|(name, _)| name)).collect()
}

#[test]
fn model_files() {
    let mut chance = Chance::new(96);
    for (name, hidden, largest) in VERSION_1 {
        let model = small_model(&mut chance, hidden, largest);
        let bytes = as_version_1(&model.to_bytes().unwrap());
        keep_model(name, &model, &bytes, &mut chance);
    }
    let mut chance = Chance::new(98);
    let released = VERSION_2.into_iter().map(|(name, parts)| (name.to_string(), parts));
    for (name, parts) in released.chain(later()) {
        let schema = if name.contains("linnet2") { Schema::Linnet2 } else { Schema::Linnet1 };
        let model = with_parts(parts, schema, &mut chance);
        let bytes = model.to_bytes().unwrap();
        assert_eq!(model.to_bytes().unwrap(), bytes);
        keep_model(&name, &model, &bytes, &mut chance);
    }
}
