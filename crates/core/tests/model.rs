// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model files: what is written is read back, and no damage passes.

mod common;

use common::forged;
use linnet_core::{Error, Layer, Model, ModelFault, Network};
use linnet_types::DeviceProfile;
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
        network: Network::from_integers(layers, vec![1_000, 1_000_000]).unwrap(),
        profile: DeviceProfile {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_written_is_read(hidden in 1..40usize, largest in prop_oneof![Just(9i64), Just(1_000), Just(1_000_000), Just(1i64 << 40)], seed in any::<u64>()) {
        let model = model(hidden, largest, seed);
        let bytes = model.to_bytes().unwrap();
        let read = Model::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&read, &model);
        prop_assert_eq!(read.to_bytes().unwrap(), bytes);
    }

    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), keep in 0..96usize) {
        let good = model(3, 100, 1).to_bytes().unwrap();
        let mut file = good[..keep].to_vec();
        file.extend(bytes);
        if file != good {
            prop_assert!(Model::from_bytes(&file).is_err());
        }
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let good = model(3, 1_000, 5).to_bytes().unwrap();
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
    let good = model(3, 1_000, 5).to_bytes().unwrap();
    for len in 0..good.len() {
        let error = Model::from_bytes(&good[..len]).unwrap_err();
        assert_eq!(error, Error::Model { fault: ModelFault::Truncated, offset: len });
    }
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
        (76, &[1], ModelFault::Field, 76),
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
    // Sound numbers elsewhere do not disturb, and every forged byte is survived.
    for at in 8..good.len() - 4 {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let _ = Model::from_bytes(&forged(&good, at, &[byte]));
        }
    }
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
    for (percentile, share) in [(100.1, 0.0), (-0.1, 0.0), (f64::NAN, 0.0), (0.0, 1.1), (0.0, f64::NAN)] {
        let mut model = model(3, 9, 1);
        (model.inflection_percentile, model.false_submit) = (percentile, share);
        assert!(matches!(model.to_bytes(), Err(Error::Unwritable(_))));
    }
}
