// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that every instruction set gives the same bits, in training and in decisions.

use crate::network::{Layer, Network};
use crate::train::{Loss, Optimiser, TrainOptions, run_set};
use crate::{DIGITS, IncrementalNetwork, simd};

/// Bits of splitmix64.
pub(crate) fn chance(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[test]
fn training() {
    let mut next = chance(1);
    let rows: Vec<u8> = (0..3_000 * DIGITS).map(|_| if next() & 1 == 0 { 0 } else { (next() % 10) as u8 }).collect();
    let slow: Vec<bool> = rows.chunks(DIGITS).map(|row| row[12] + row[15] > row[3] + 4).collect();
    for (hidden, loss, optimiser) in [
        (vec![256], Loss::CategoricalHinge, Optimiser::Adam { learning_rate: 1e-3 }),
        (vec![70, 5, 17], Loss::SoftmaxCrossEntropy, Optimiser::Sgd { learning_rate: 1e-3, momentum: 0.9 }),
        (vec![128, 16], Loss::BinaryCrossEntropy, Optimiser::Adam { learning_rate: 1e-3 }),
        (vec![], Loss::Square, Optimiser::Sgd { learning_rate: 1e-3, momentum: 0.0 }),
    ] {
        let weight = if loss == Loss::Square { 1.0 } else { 5.0 };
        let options =
            TrainOptions { hidden, loss, optimiser, epochs: 2, false_submit_weight: weight, ..Default::default() };
        let run = |set| {
            let mut losses = Vec::new();
            let network = run_set(&options, &rows, &slow, set, &mut |_, loss| {
                losses.push(loss.to_bits());
                true
            });
            let bits = network
                .unwrap()
                .layers()
                .iter()
                .flat_map(|l| [&l.weights[..], &l.biases].concat())
                .map(f32::to_bits)
                .collect::<Vec<_>>();
            (losses, bits)
        };
        let first = run(simd::Set::Portable);
        for set in simd::available() {
            assert!(run(set) == first, "{set:?} {options:?}");
        }
    }
}

#[test]
fn deciding() {
    let mut next = chance(2);
    for shape in [vec![31, 256, 2], vec![31, 40, 17, 2], vec![5, 300, 100, 3], vec![64, 16, 2], vec![1, 33, 15, 2]] {
        let layers: Vec<Layer> = shape
            .windows(2)
            .map(|pair| Layer {
                inputs: pair[0],
                outputs: pair[1],
                weights: (0..pair[0] * pair[1]).map(|_| (next() % 201) as i64 - 100).collect(),
                biases: (0..pair[1]).map(|_| (next() % 2_001) as i64 - 1_000).collect(),
            })
            .collect();
        let scales = vec![1; layers.len()];
        let networks: Vec<Network> = simd::available()
            .into_iter()
            .map(|set| Network::with_set(layers.clone(), scales.clone(), 9, set).unwrap())
            .collect();
        for _ in 0..200 {
            let digits: Vec<u8> =
                (0..shape[0]).map(|_| if next() & 1 == 0 { 0 } else { (next() % 10) as u8 }).collect();
            let answers: Vec<Vec<i128>> = networks
                .iter()
                .map(|network| {
                    let mut out = vec![0; network.outputs()];
                    network.logits(&digits, &mut out).unwrap();
                    out
                })
                .collect();
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{shape:?} {answers:?}");
        }
    }
}

/// Incremental networks with the loops of each set and the same input, with weights at the limits of 16 and 32 bits.
#[test]
fn incremental() {
    let mut next = chance(3);
    for (shape, first, last) in [
        (vec![31, 256, 2], 200, 200),
        (vec![31, 30, 2], 32_767, 30),
        (vec![31, 49, 2], 900, 1 << 29),
        (vec![31, 700, 2], 30, 90),
        (vec![31, 64, 17, 2], 100, 100),
    ] {
        let layers: Vec<Layer> = shape
            .windows(2)
            .enumerate()
            .map(|(k, pair)| {
                let largest: i64 = if k == 0 { first } else { last };
                let mut number = |largest: i64| (next() % (2 * largest as u64 + 1)) as i64 - largest;
                Layer {
                    inputs: pair[0],
                    outputs: pair[1],
                    weights: (0..pair[0] * pair[1]).map(|_| number(largest)).collect(),
                    biases: (0..pair[1]).map(|_| number(largest)).collect(),
                }
            })
            .collect();
        let networks: Vec<Network> = simd::available()
            .into_iter()
            .map(|set| Network::with_set(layers.clone(), vec![1; layers.len()], 9, set).unwrap())
            .collect();
        let nets: Vec<IncrementalNetwork> =
            networks.iter().map(|network| IncrementalNetwork::new(network).unwrap()).collect();
        for step in 0..200 {
            let pages = (next() % 1_100) as u32 >> (next() % 8);
            let answers: Vec<(i64, bool)> = nets.iter().map(|net| (net.score(pages), net.decide(pages))).collect();
            let score = networks[0].score(&nets[0].tracker().digits(pages));
            assert!(
                answers.iter().all(|&answer| answer == (score, score > 0)),
                "{shape:?} {pages} {score} {answers:?}"
            );
            if step % 3 == 0 {
                let (size, us) = ((next() % (1 << 22)) as u32 >> (next() % 12), (next() % 10_500) >> (next() % 8));
                for net in &nets {
                    net.arrive(size);
                    net.note_read(if step % 2 == 0 { size } else { 0 }, us * 1_000, pages);
                    net.catch_up(net.pending_pages());
                }
            }
        }
    }
}
