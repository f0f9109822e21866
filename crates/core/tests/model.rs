// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests model files: a written file can be read back, and all damage is detected.

use crate::common::forged;
use crate::common::predictions::{EXAMPLES, block, legal_parts};
use linnet_core::{Error, Layer, Model, ModelFault, Network, Predictions, TREES, Tree, Trees};
use linnet_types::Thresholds;
use proptest::prelude::*;

fn model(hidden: usize, largest: i64, seed: u64) -> Model {
    let mut state = seed;
    let mut next = |largest: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 20) as i64 % (2 * largest + 1) - largest
    };
    let mut layer = |inputs: usize, outputs: usize| Layer {
        inputs,
        outputs,
        weights: (0..inputs * outputs).map(|_| next(largest)).collect(),
        biases: (0..outputs).map(|_| next(largest * 100)).collect(),
    };
    let layers = vec![layer(31, hidden), layer(hidden, 2)];
    Model {
        network: Some(Network::from_integers(layers, vec![1_000, 1_000_000]).unwrap()),
        trees: None,
        predictions: Predictions::default(),
        thresholds: Thresholds {
            inflection_ns: 1_234_567,
            latency_ns_p95: 2_345_678,
            latency_ns_p99: u64::MAX,
            hedge_ns: 3_456_789,
            queue_inflection: 7,
            queue_median: 3,
            queue_lower_quartile: u32::MAX,
        },
        inflection_percentile: 93.2,
        false_submit: 0.0125,
        rows: 1_000_000,
        seed,
    }
}

fn trees(seed: u64) -> Trees {
    let mut chance = linnet_sim::Chance::new(seed);
    let mut draw = |bound: u64| chance.below(bound);
    let trees: Vec<Tree> = (0..TREES)
        .map(|_| Tree {
            feature: std::array::from_fn(|_| draw(16) as u8),
            threshold: std::array::from_fn(|_| draw(64) as u8),
            leaf: std::array::from_fn(|_| draw(1 << 16) as u16 as i16),
        })
        .collect();
    let made = Trees::new(&trees, draw(1 << 31) as i32 - (1 << 30)).unwrap();
    made.with_slow_score(draw(1 << 16) as i32 - (1 << 15))
}

/// A model with a network (bit 0), trees (bit 1) and the predictions of these bits.
fn with_parts(parts: u8, hidden: usize, largest: i64, seed: u64) -> Model {
    let mut whole = model(hidden, largest, seed);
    whole.network = whole.network.filter(|_| parts & 1 != 0);
    whole.trees = (parts & 2 != 0).then(|| trees(seed));
    let mut chance = linnet_sim::Chance::new(seed ^ 1);
    for example in EXAMPLES.iter().filter(|example| parts & example.part != 0) {
        (example.give)(&mut whole.predictions, &mut chance, true);
    }
    whole
}

fn parts() -> impl Strategy<Value = u8> {
    prop::sample::select(legal_parts())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_is_written_is_read(parts in parts(), hidden in 1..40usize, largest in prop_oneof![Just(9i64), Just(1_000), Just(1_000_000), Just(1i64 << 40)], seed in any::<u64>()) {
        let model = with_parts(parts, hidden, largest, seed);
        let bytes = model.to_bytes().unwrap();
        let read = Model::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&read, &model);
        prop_assert_eq!(read.to_bytes().unwrap(), bytes);
    }

    #[test]
    fn garbage_is_refused(parts in parts(), bytes in prop::collection::vec(any::<u8>(), 0..400), keep in 0..96usize) {
        let good = with_parts(parts, 3, 100, 1).to_bytes().unwrap();
        let mut file = good[..keep].to_vec();
        file.extend(bytes);
        if file != good {
            prop_assert!(Model::from_bytes(&file).is_err());
        }
    }

    /// Arbitrary bytes with a valid checksum are refused, or give a model that is rewritten identically and can decide.
    #[test]
    fn forgeries_are_refused_or_sound(parts in parts(), seed in any::<u64>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), early in any::<bool>()) {
        let good = with_parts(parts, 3, 100, seed).to_bytes().unwrap();
        let mut file = good.clone();
        for (at, byte) in changes {
            let end = if early { 160 } else { good.len() - 4 };
            file = forged(&file, at.index(end), &[byte]);
        }
        if let Ok(model) = Model::from_bytes(&file) {
            prop_assert_eq!(model.to_bytes().unwrap(), file);
            let slow = model.network.map(|network| network.decide(&[9; linnet_core::DIGITS]));
            let score = model.trees.map(|trees| trees.score(&[63; linnet_core::INFLIGHT_FEATURES]));
            prop_assert!(slow.is_some() || score.is_some());
        }
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let good = with_parts(7, 3, 1_000, 5).to_bytes().unwrap();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let Err(Error::Model { fault, offset }) = Model::from_bytes(&bad) else { panic!("byte {at} bit {bit}") };
            let expected = match at {
                0..8 => (ModelFault::Magic, at),
                8..10 => (ModelFault::Version, 8),
                16..20 if fault == ModelFault::Truncated => (fault, good.len()),
                16..20 => (ModelFault::Length, 16),
                _ => (ModelFault::Checksum, good.len() - 4),
            };
            assert_eq!((fault, offset), expected, "byte {at} bit {bit}");
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let good = with_parts(7, 3, 1_000, 5).to_bytes().unwrap();
    for len in 0..good.len() {
        let error = Model::from_bytes(&good[..len]).unwrap_err();
        assert_eq!(error, Error::Model { fault: ModelFault::Truncated, offset: len });
    }
    // What the bytes that are there say comes first, as soon as all of it is there.
    assert_eq!(Model::from_bytes(b"no model"), Err(Error::Model { fault: ModelFault::Magic, offset: 0 }));
    let mut newer = good[..24].to_vec();
    newer[8] = 3;
    assert_eq!(Model::from_bytes(&newer), Err(Error::Model { fault: ModelFault::Version, offset: 8 }));
    let mut long = good.clone();
    long.push(0);
    assert_eq!(Model::from_bytes(&long), Err(Error::Model { fault: ModelFault::Length, offset: 16 }));
}

#[test]
fn every_field_is_checked() {
    let good = model(3, 1_000, 5).to_bytes().unwrap();
    assert_eq!(forged(&good, 0, &[]), good);
    let big = 1_000_001u32.to_le_bytes();
    for (at, bytes, fault, offset) in [
        (10, &[2, 0][..], ModelFault::Kind, 10),
        (12, &[0, 1], ModelFault::Schema, 12),
        (14, &[10, 0], ModelFault::Field, 14),
        (20, &[0, 0, 0, 0], ModelFault::Field, 20),
        (20, &[9, 0, 0, 0], ModelFault::Field, 20),
        (20, &[8, 0, 0, 0], ModelFault::Shape, 16),
        (68, &big, ModelFault::Field, 68),
        (72, &big, ModelFault::Field, 72),
        (76, &[0], ModelFault::Field, 76),
        (76, &[2], ModelFault::Schema, 12),
        (76, &[3], ModelFault::Shape, 16),
        (76, &[0x81], ModelFault::Field, 76),
        (76, &[4], ModelFault::Field, 76),
        (76, &[5], ModelFault::Field, 76),
        (76, &[7], ModelFault::Shape, 16),
        (76, &[8], ModelFault::Field, 76),
        (79, &[0x80], ModelFault::Field, 76),
        (96, &[30], ModelFault::Shape, 96),
        (100, &[0], ModelFault::Shape, 100),
        (100, &[1, 16], ModelFault::Shape, 100),
        (100, &[0, 16], ModelFault::Shape, 16),
        (104, &[3], ModelFault::Field, 104),
        (104, &[4], ModelFault::Shape, 16),
        (108, &[1], ModelFault::Field, 108),
        (112, &[0, 0], ModelFault::Field, 112),
        (112 + 7, &[0x80], ModelFault::Field, 112),
        (120, &[4], ModelFault::Shape, 120),
        (124, &[1], ModelFault::Shape, 124),
    ] {
        let bad = forged(&good, at, bytes);
        assert_eq!(Model::from_bytes(&bad), Err(Error::Model { fault, offset }), "byte {at}");
    }
    // A table of eight layers in a file that has no room for it.
    let short = forged(&forged(&good[..128], 16, &[128, 0, 0, 0]), 20, &[8, 0, 0, 0]);
    assert_eq!(Model::from_bytes(&short), Err(Error::Model { fault: ModelFault::Shape, offset: 16 }));
    // Valid numbers elsewhere do not matter, and no forged byte causes a crash.
    for at in 8..good.len() - 4 {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let _ = Model::from_bytes(&forged(&good, at, &[byte]));
        }
    }
}

#[test]
fn the_ends_of_each_range_are_read() {
    for hidden in [1, 4_096] {
        let model = model(hidden, 9, 5);
        assert_eq!(Model::from_bytes(&model.to_bytes().unwrap()), Ok(model));
    }
    let (good, million) = (model(3, 1_000, 5).to_bytes().unwrap(), 1_000_000u32.to_le_bytes());
    for (at, bytes) in [(68, &million[..]), (72, &million), (112, &[1, 0, 0, 0, 0, 0, 0, 0]), (112 + 7, &[0x7f])] {
        assert!(Model::from_bytes(&forged(&good, at, bytes)).is_ok(), "byte {at}");
    }
}

#[test]
fn every_field_of_trees_is_checked() {
    for parts in [2, 3] {
        let good = with_parts(parts, 3, 1_000, 5).to_bytes().unwrap();
        let block = good.len() - 4 - 1416;
        assert!(parts == 3 || block == 96);
        for (at, bytes, fault, offset) in [
            (block, &[1, 0][..], ModelFault::Schema, block),
            (block, &[2, 1], ModelFault::Schema, block),
            (block + 4, &[1, 0, 0, 0x40], ModelFault::Field, block + 4),
            (block + 4, &[0xff, 0xff, 0xff, 0xbf], ModelFault::Field, block + 4),
            (block + 8, &[16], ModelFault::Field, block + 8),
            (block + 199, &[255], ModelFault::Field, block + 199),
            (block + 200, &[64], ModelFault::Field, block + 200),
            (block + 391, &[255], ModelFault::Field, block + 391),
        ] {
            let bad = forged(&good, at, bytes);
            assert_eq!(Model::from_bytes(&bad), Err(Error::Model { fault, offset }), "byte {at}");
        }
        for (at, bytes) in [
            (2, &[0xff, 0x7f][..]),
            (4, &[0, 0, 0, 0x40]),
            (4, &[0, 0, 0, 0xc0]),
            (8, &[15]),
            (391, &[63]),
            (1415, &[0x80]),
        ] {
            assert!(Model::from_bytes(&forged(&good, block + at, bytes)).is_ok(), "byte {at}");
        }
        for at in 8..good.len() - 4 {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let _ = Model::from_bytes(&forged(&good, at, &[byte]));
            }
        }
    }
    // Without a network, the fields of a network must be zero.
    let good = with_parts(2, 3, 1_000, 5).to_bytes().unwrap();
    for (at, byte, fault) in [(12, 1, ModelFault::Schema), (14, 9, ModelFault::Field), (20, 1, ModelFault::Field)] {
        assert_eq!(Model::from_bytes(&forged(&good, at, &[byte])), Err(Error::Model { fault, offset: at }));
    }
}

#[test]
fn every_field_of_predictions_is_checked() {
    for example in EXAMPLES {
        for parts in legal_parts().into_iter().filter(|parts| parts & example.part != 0) {
            let good = with_parts(parts, 3, 1_000, 5).to_bytes().unwrap();
            let block = block(example, parts, &good);
            let named = example.refused.iter().map(|(_, damage)| damage);
            for &(at, bytes, told) in named.chain(example.damage) {
                let bad = forged(&good, block + at, bytes);
                let expected = Error::Model { fault: ModelFault::Field, offset: block + told };
                assert_eq!(Model::from_bytes(&bad), Err(expected), "{}, byte {at}", example.name);
            }
            for at in (8..good.len() - 4).step_by(3) {
                for byte in [0, 0x7f, 0xff] {
                    let _ = Model::from_bytes(&forged(&good, at, &[byte]));
                }
            }
        }
    }
}

/// A file with a fault of each kind, repaired one after the other: the reported fault is always the first in the order
/// that the specification gives. Layers are checked one by one, so a field of layer 0 comes before a shape of layer 1.
#[test]
fn faults_are_told_in_the_order_of_the_specification() {
    let good = with_parts(7, 3, 1_000, 5).to_bytes().unwrap();
    let (end, latencies) = (good.len() - 4, good.len() - 4 - 2628);
    let (trees, big) = (latencies - 1416, 1_000_001u32.to_le_bytes());
    let length = (good.len() as u32 - 1).to_le_bytes();
    let faults: Vec<(usize, &[u8], ModelFault, usize)> = vec![
        (3, b"X", ModelFault::Magic, 3),
        (8, &[3], ModelFault::Version, 8),
        (16, &length, ModelFault::Length, 16),
        (end, &[], ModelFault::Checksum, end),
        (10, &[2], ModelFault::Kind, 10),
        (76, &[8], ModelFault::Field, 76),
        (12, &[2], ModelFault::Schema, 12),
        (14, &[8], ModelFault::Field, 14),
        (20, &[9], ModelFault::Field, 20),
        (68, &big, ModelFault::Field, 68),
        (72, &big, ModelFault::Field, 72),
        (96, &[30], ModelFault::Shape, 96),
        (108, &[1], ModelFault::Field, 108),
        (112, &[0, 0], ModelFault::Field, 112),
        (100, &[0, 16], ModelFault::Shape, 16), // its numbers end beyond the file
        (120, &[4], ModelFault::Shape, 120),
        (124, &[3], ModelFault::Shape, 124),
        (132, &[1], ModelFault::Field, 132),
        (128, &[4], ModelFault::Shape, 16), // the parts do not add up
        (trees, &[1], ModelFault::Schema, trees),
        (trees + 4, &[0xff, 0xff, 0xff, 0x7f], ModelFault::Field, trees + 4),
        (trees + 8, &[16], ModelFault::Field, trees + 8),
        (trees + 200, &[64], ModelFault::Field, trees + 200),
        (latencies, &[0xff, 0xff, 0xff, 0x7f], ModelFault::Field, latencies + 4),
        (latencies + 60, &[16], ModelFault::Field, latencies + 60),
        (latencies + 61, &[64], ModelFault::Field, latencies + 61),
    ];
    let mut file = good.clone();
    for (at, bytes, ..) in &faults {
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    for (step, (at, bytes, fault, offset)) in faults.into_iter().enumerate() {
        assert_eq!(Model::from_bytes(&file), Err(Error::Model { fault, offset }), "byte {at}");
        file[at..at + bytes.len()].copy_from_slice(&good[at..at + bytes.len()]);
        // Faults after the checksum are reported only if the checksum is valid.
        if step >= 3 {
            file = forged(&file, 0, &[]);
        }
    }
    assert_eq!(file, good);
}

#[test]
fn a_writer_uses_the_newest_version_and_the_narrowest_weights() {
    for (largest, bytes) in [(32_767, 2), (32_768, 4), (i64::from(i32::MAX), 4), (i64::from(i32::MAX) + 1, 8)] {
        for weight in [largest, -largest - 1] {
            let mut weights = vec![0; 62];
            weights[7] = weight;
            let layer = Layer { inputs: 31, outputs: 2, weights, biases: vec![0; 2] };
            let network = Some(Network::from_integers(vec![layer], vec![1]).unwrap());
            let file = Model { network, ..model(1, 9, 1) }.to_bytes().unwrap();
            assert_eq!((file[8..10].to_vec(), file[104]), (vec![2, 0], bytes), "{weight}");
        }
    }
}

/// The same bytes as version 1, which had only a network, and zeros in place of `parts`.
fn as_version_1(file: &[u8]) -> Vec<u8> {
    forged(&forged(file, 8, &[1]), 76, &[0])
}

#[test]
fn version_1_is_read() {
    let model = with_parts(1, 3, 1_000, 5);
    let old = as_version_1(&model.to_bytes().unwrap());
    assert_eq!(Model::from_bytes(&old), Ok(model));
    for parts in 1..4 {
        let bad = forged(&old, 76, &[parts]);
        assert_eq!(Model::from_bytes(&bad), Err(Error::Model { fault: ModelFault::Field, offset: 76 }));
    }
    let trees = as_version_1(&with_parts(3, 3, 1_000, 5).to_bytes().unwrap());
    assert_eq!(Model::from_bytes(&trees), Err(Error::Model { fault: ModelFault::Shape, offset: 16 }));
}

#[test]
fn a_network_that_cannot_be_proven_is_refused() {
    let mut good = model(3, 1i64 << 40, 5);
    good.seed = 1;
    assert!(Model::from_bytes(&good.to_bytes().unwrap()).is_ok());
    let file = good.to_bytes().unwrap();
    let mut numbers = vec![0xff; 31 * 3 * 8 + 3 * 8 + 3 * 2 * 8];
    numbers.chunks_exact_mut(8).for_each(|n| n[7] = 0x7f);
    assert_eq!(Model::from_bytes(&forged(&file, 144, &numbers)), Err(Error::Range { input_max: 9 }));
}

#[test]
fn a_model_out_of_range_is_not_written() {
    for parts in [0, 4, 5] {
        assert!(matches!(with_parts(parts, 3, 9, 1).to_bytes(), Err(Error::Unwritable(_))));
    }
    for (percentile, share) in [(100.1, 0.0), (-0.1, 0.0), (f64::NAN, 0.0), (0.0, 1.1), (0.0, f64::NAN)] {
        let mut model = model(3, 9, 1);
        (model.inflection_percentile, model.false_submit) = (percentile, share);
        assert!(matches!(model.to_bytes(), Err(Error::Unwritable(_))));
    }
}
