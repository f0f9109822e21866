// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares networks with a reference that computes every sum in 128 bits with overflow checks.

use crate::common;

use crate::common::logits as reference;
use linnet_core::{Error, Layer, Network, Width};
use proptest::prelude::*;

fn layer(inputs: usize, outputs: usize, largest: i64) -> impl Strategy<Value = Layer> {
    let weights = prop::collection::vec(-largest..=largest, inputs * outputs);
    let biases = prop::collection::vec(-largest * 50..=largest * 50, outputs);
    (weights, biases).prop_map(move |(weights, biases)| Layer { inputs, outputs, weights, biases })
}

fn layers() -> impl Strategy<Value = Vec<Layer>> {
    let shape = prop::collection::vec(prop_oneof![1..6usize, 14..18usize, 30..70usize], 2..6);
    let largest = prop_oneof![Just(3i64), Just(200), Just(32_767), Just(1_000_000), Just(1i64 << 40)];
    (shape, largest).prop_flat_map(|(shape, largest)| {
        shape.windows(2).map(|pair| layer(pair[0], pair[1], largest)).collect::<Vec<_>>()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn agrees_with_the_reference(layers in layers(), seed in any::<u64>(), input_max in prop_oneof![Just(9u8), Just(255)]) {
        let scales = vec![1; layers.len()];
        let network = match Network::with_input_max(layers.clone(), scales, input_max) {
            Ok(network) => network,
            // A network of five small layers of small weights must not be refused.
            Err(Error::Range { .. }) => {
                prop_assert!(layers.iter().any(|l| l.weights.iter().any(|w| w.abs() > 32_767)));
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        let mut state = seed;
        for _ in 0..20 {
            let digits: Vec<u8> = (0..network.inputs()).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Half of the inputs are zeros, as in real features.
                if state >> 63 == 0 { 0 } else { ((state >> 33) % (u64::from(input_max) + 1)) as u8 }
            }).collect();
            let expected = reference(&layers, &digits).expect("was proven");
            let mut logits = vec![0; network.outputs()];
            network.logits(&digits, &mut logits).unwrap();
            prop_assert_eq!(&logits, &expected, "{:?}", network);
            if network.outputs() == 2 {
                prop_assert_eq!(network.decide(&digits), expected[1] > expected[0]);
                let gap = (expected[1] - expected[0]).clamp(i64::MIN.into(), i64::MAX.into());
                prop_assert_eq!(i128::from(network.score(&digits)), gap);
            }
        }
    }
}

fn constant(inputs: usize, outputs: usize, weight: i64) -> Layer {
    Layer { inputs, outputs, weights: vec![weight; inputs * outputs], biases: vec![0; outputs] }
}

#[test]
fn the_width_is_the_narrowest_that_is_proven() {
    let width = |layers: Vec<Layer>| {
        let scales = vec![1; layers.len()];
        Network::from_integers(layers, scales).map(|network| network.width())
    };
    // 31 * 9 * 32767 * 1 fits 32 bits.
    assert_eq!(width(vec![constant(31, 1, 32_767)]), Ok(Width::I16));
    assert_eq!(width(vec![constant(31, 1, 32_768)]), Ok(Width::I64));
    assert_eq!(width(vec![constant(1, 1, 30_000), constant(1, 1, 7_953)]), Ok(Width::I16));
    assert_eq!(width(vec![constant(1, 1, 30_000), constant(1, 1, 7_954)]), Ok(Width::I64));
    assert_eq!(width(vec![constant(31, 256, 1_000_000), constant(256, 2, 1_000_000)]), Ok(Width::I64));
    let deep = vec![constant(31, 256, 1_000_000), constant(256, 256, 1_000_000), constant(256, 256, 1_000_000)];
    assert_eq!(width(deep), Ok(Width::I128));
    // With only negative weights every layer outputs zeros, at any depth.
    let dead = (0..8).map(|k| constant(if k == 0 { 31 } else { 64 }, 64, -1_000_000)).collect();
    assert_eq!(width(dead), Ok(Width::I64));
    let huge = (0..8).map(|_| constant(64, 64, 1_000_000)).collect();
    assert_eq!(width(huge), Err(Error::Range { input_max: 9 }));
}

#[test]
fn extremes_are_exact() {
    for weight in [1_000_000, -1_000_000, i64::MAX, i64::MIN] {
        let layers = vec![constant(31, 40, weight), constant(40, 2, if weight > 0 { 3 } else { -3 })];
        let network = Network::from_integers(layers.clone(), vec![1, 1]).unwrap();
        let mut logits = [0; 2];
        network.logits(&[9; 31], &mut logits).unwrap();
        assert_eq!(logits.to_vec(), reference(&layers, &[9; 31]).unwrap());
    }
}

#[test]
fn invalid_shapes_are_refused() {
    let shape = |layers: Vec<Layer>, scales: Vec<i64>| match Network::from_integers(layers, scales) {
        Err(Error::Shape(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(shape(vec![], vec![]).contains("0 layers"));
    assert!(shape(vec![constant(1, 1, 1); 9], vec![1; 9]).contains("9 layers"));
    assert!(shape(vec![constant(1, 1, 1)], vec![]).contains("0 scales"));
    assert!(shape(vec![constant(1, 1, 1)], vec![0]).contains("below 1"));
    assert!(shape(vec![constant(4097, 1, 1)], vec![1]).contains("4097 to 1"));
    assert!(shape(vec![constant(2, 3, 1), constant(2, 2, 1)], vec![1, 1]).contains("takes 2 inputs from 3"));
    let mut short = constant(2, 2, 1);
    short.weights.pop();
    assert!(shape(vec![short], vec![1]).contains("3 weights"));
}

#[test]
fn a_bad_input_is_an_error_and_submits() {
    let network = Network::from_integers(vec![constant(31, 2, 1)], vec![1]).unwrap();
    let mut digits = [0; 31];
    digits[7] = 10;
    let error = network.logits(&digits, &mut [0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "input 7 is 10, above the bound 9");
    assert!(!network.decide(&digits));
    assert!(!network.decide(&digits[..30]));
    assert!(network.logits(&[0; 31], &mut [0; 3]).is_err());
}

/// Networks whose hidden rows are too large for the stack, in every width.
#[test]
fn wide_networks_are_exact() {
    let mut chance = linnet_sim::Chance::new(4);
    for (largest, width) in [(9, Width::I16), (20, Width::I64), (1_000_000, Width::I128)] {
        let layers: Vec<Layer> = [31, 1_500, 300, 200, 2]
            .windows(2)
            .map(|pair| {
                let mut number = || chance.below(2 * largest + 1) as i64 - largest as i64;
                Layer {
                    inputs: pair[0],
                    outputs: pair[1],
                    weights: (0..pair[0] * pair[1]).map(|_| number()).collect(),
                    biases: (0..pair[1]).map(|_| number()).collect(),
                }
            })
            .take(if width == Width::I16 { 2 } else { 4 })
            .collect();
        let network = Network::from_integers(layers.clone(), vec![1; layers.len()]).unwrap();
        assert_eq!(network.width(), width);
        for _ in 0..3 {
            let digits: Vec<u8> = (0..31).map(|_| chance.below(10) as u8).collect();
            let mut told = vec![0; network.outputs()];
            network.logits(&digits, &mut told).unwrap();
            assert_eq!(told, reference(&layers, &digits).unwrap());
        }
    }
}

/// Published weights with 2,000 inputs and their exact outputs, where the shared data is present.
#[test]
fn agrees_with_published_outputs() {
    let Some((network, cases)) = common::published_linnos() else { return };
    assert_eq!(network.width(), Width::I16);
    let (mut agree, mut revokes) = (0, 0);
    for published in &cases {
        let mut logits = [0; 2];
        network.logits(&published.digits, &mut logits).unwrap();
        let same = logits == published.logits.map(i128::from);
        agree += usize::from(same && network.decide(&published.digits) == published.revokes);
        revokes += usize::from(published.revokes);
    }
    assert_eq!((agree, revokes), (2_000, 193));
}
