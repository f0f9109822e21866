// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares an incremental network with the tracker and the plain network that it replaces.

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering};

use linnet_core::raw::{network_with_set, simd};
use linnet_core::{DIGITS, IncrementalNetwork, Layer, Model, Network, Precompute, Tracker};
use linnet_sim::Chance;
use linnet_types::Op;
use proptest::prelude::*;

fn layer(chance: &mut Chance, inputs: usize, outputs: usize, largest: i64) -> Layer {
    let mut number = |largest: i64| chance.below(2 * largest as u64 + 1) as i64 - largest;
    let weights = (0..inputs * outputs).map(|_| number(largest)).collect();
    Layer { inputs, outputs, weights, biases: (0..outputs).map(|_| number(largest * 30)).collect() }
}

/// Random layers; weights of the first and of the other layers up to these magnitudes.
fn network(chance: &mut Chance, hidden: &[usize], first: i64, others: i64) -> Network {
    let shape = [&[DIGITS], hidden, &[2]].concat();
    let mut layers: Vec<Layer> = Vec::new();
    for (k, pair) in shape.windows(2).enumerate() {
        layers.push(layer(chance, pair[0], pair[1], if k == 0 { first } else { others }));
    }
    // Balance the logits, so that decisions differ.
    if let Ok(network) = Network::from_integers(layers.clone(), vec![1; layers.len()]) {
        let mut gaps: Vec<i128> = (0..31)
            .map(|_| {
                let digits: Vec<u8> = (0..DIGITS).map(|_| chance.below(10) as u8).collect();
                let mut out = [0; 2];
                network.logits(&digits, &mut out).unwrap();
                out[1] - out[0]
            })
            .collect();
        gaps.sort_unstable();
        let last = layers.last_mut().unwrap();
        last.biases[1] = (i128::from(last.biases[1]) - gaps[15]).clamp(-(1 << 60), 1 << 60) as i64;
    }
    Network::from_integers(layers, vec![1; shape.len() - 1]).unwrap()
}

/// An I/O completes. A read is processed at once, for an arrival with the same pages.
fn complete(net: &IncrementalNetwork, op: Op, size_bytes: u32, latency_ns: u64, snapshot: u32) {
    if op == Op::Write {
        return net.withdraw(size_bytes);
    }
    let expected = net.pending_pages();
    net.note_read(size_bytes, latency_ns, snapshot);
    net.catch_up(expected);
}

/// An incremental network and a snapshot that give these digits.
fn reach(network: &Network, digits: &[u8; DIGITS]) -> (IncrementalNetwork, u32) {
    let net = IncrementalNetwork::new(network).unwrap();
    let number = |digits: &[u8]| digits.iter().fold(0u32, |n, &d| 10 * n + u32::from(d));
    for entry in 0..4 {
        let pages = number(&digits[3 * entry..3 * entry + 3]);
        let us = number(&digits[15 + 4 * entry..19 + 4 * entry]);
        complete(&net, Op::Read, 0, u64::from(us) * 1_000, pages);
    }
    let now = number(&digits[12..15]);
    assert_eq!(net.tracker().digits(now), *digits);
    (net, now)
}

/// Compares all functions of an incremental network for one I/O with the plain network. Returns the decision.
fn check(net: &IncrementalNetwork, network: &Network, tracker: &Tracker, snapshot: u32) -> bool {
    let digits = tracker.digits(snapshot);
    let score = network.score(&digits);
    assert_eq!(net.tracker().digits(snapshot), digits);
    assert_eq!(net.score(snapshot), score, "{network:?} {digits:?}");
    for _ in 0..2 {
        assert_eq!(net.decide(snapshot), score > 0, "{network:?} {digits:?} scores {score}");
    }
    score > 0
}

/// Runs a sequence of arrivals and departures; returns how many of its decisions revoke.
fn live(network: &Network, seed: u64, events: usize, size_max: u32) -> usize {
    let mut chance = Chance::new(seed);
    let (net, mut tracker) = (IncrementalNetwork::new(network).unwrap(), Tracker::new());
    let (mut live, mut revokes) = (Vec::new(), 0);
    for _ in 0..events {
        if live.is_empty() || chance.happens(0.5) {
            let op = if chance.happens(0.8) { Op::Read } else { Op::Write };
            let size = 1 + chance.below(u64::from(size_max)) as u32;
            assert_eq!(net.snapshot(size), tracker.pending_pages() + size.div_ceil(4096));
            let snapshot = tracker.arrive(size);
            assert_eq!(net.arrive(size), snapshot);
            revokes += usize::from(check(&net, network, &tracker, snapshot));
            live.push((op, size, snapshot));
        } else {
            let (op, size, snapshot) = live.swap_remove(chance.below(live.len() as u64) as usize);
            if chance.happens(0.1) {
                tracker.withdraw(size);
                net.withdraw(size);
            } else {
                let us = if chance.happens(0.1) { 1_000 + chance.below(11_000) } else { 50 + chance.below(400) };
                tracker.complete(op, size, us * 1_000, snapshot);
                complete(&net, op, size, us * 1_000, snapshot);
            }
        }
        // Decisions cached for another history must not be used again.
        let other = chance.below(1_200) as u32;
        check(&net, network, &tracker, other);
        assert_eq!(net.tracker(), tracker);
        assert_eq!((net.pending_pages(), net.history_len()), (tracker.pending_pages(), tracker.history_len()));
    }
    revokes
}

/// Shapes and weights for every degree of precomputation.
fn kinds() -> [(&'static [usize], i64, i64, Precompute); 14] {
    [
        (&[256], 100, 100, Precompute::Pruned),
        (&[256], 1_000, 1_000, Precompute::Pruned),
        (&[16], 30_000, 30_000, Precompute::Pruned),
        (&[33], 3, 1_000_000, Precompute::Pruned),
        (&[47], 2_000, 1 << 30, Precompute::Pruned),
        (&[300], 500, 500, Precompute::Pruned),
        (&[1_000], 50, 5, Precompute::Pruned),
        (&[40], 100, 1 << 40, Precompute::First),
        (&[64, 16], 100, 100, Precompute::First),
        (&[128, 16], 10_000, 1_000_000, Precompute::First),
        (&[17, 5, 40, 3], 1_000, 1_000, Precompute::First),
        (&[], 1_000, 0, Precompute::Plain),
        (&[15], 1_000, 1_000, Precompute::Plain),
        (&[40], 1_000_000, 1_000, Precompute::Plain),
    ]
}

#[test]
fn every_kind_of_network_decides_as_the_plain_one() {
    let mut chance = Chance::new(5);
    for (hidden, first, others, precompute) in kinds() {
        for (size_max, events) in [(16_000, 150), (400_000, 100)] {
            let network = network(&mut chance, hidden, first, others);
            assert_eq!(IncrementalNetwork::new(&network).unwrap().precompute(), precompute, "{network:?}");
            live(&network, chance.below(1 << 40), events, size_max);
        }
    }
}

/// A caller that finds the network caught up gets decisions from all reads noted before.
#[test]
fn a_network_that_has_caught_up_knows_what_was_noted() {
    let network = network(&mut Chance::new(11), &[256], 50, 50);
    let (net, noted, read) = (IncrementalNetwork::new(&network).unwrap(), AtomicU64::new(0), AtomicU64::new(0));
    let (rounds, mut late) = (3_000, Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                net.note_read(0, 1_000 * round, 1);
                noted.store(round, Ordering::Release);
                net.catch_up(1);
                while read.load(Ordering::Acquire) != round {
                    std::thread::yield_now();
                }
            }
        });
        for round in 1..=rounds {
            while noted.load(Ordering::Acquire) != round {
                std::thread::yield_now();
            }
            while net.is_behind() {}
            let digits = net.tracker().digits(7);
            read.store(round, Ordering::Release);
            let newest = digits[15..].chunks(4).map(|us| us.iter().fold(0, |n, &d| 10 * n + u64::from(d))).max();
            late.extend((newest != Some(round)).then_some(round));
        }
    });
    assert!(late.is_empty(), "answered by the history before: {late:?}");
}

/// Reads complete in batches and are noted; the incremental network catches up when it is run.
#[test]
fn noted_reads_count_when_the_network_catches_up() {
    let mut chance = Chance::new(9);
    for (hidden, first, others, _) in kinds() {
        let network = network(&mut chance, hidden, first, others);
        let (net, mut tracker) = (IncrementalNetwork::new(&network).unwrap(), Tracker::new());
        for _ in 0..60 {
            let before = net.tracker();
            let batch: Vec<(u32, u32)> = (0..chance.below(6))
                .map(|_| {
                    let size = 1 + chance.below(200_000) as u32;
                    let snapshot = tracker.arrive(size);
                    assert_eq!(net.arrive(size), snapshot);
                    (size, snapshot)
                })
                .collect();
            for &(size, snapshot) in &batch {
                let latency_ns = 1_000 * (50 + chance.below(5_000));
                tracker.complete(Op::Read, size, latency_ns, snapshot);
                net.note_read(size, latency_ns, snapshot);
            }
            assert_eq!(net.is_behind(), !batch.is_empty());
            assert_eq!(net.pending_pages(), tracker.pending_pages());
            assert_eq!(net.tracker().digits(7), before.digits(7));
            let snapshot = chance.below(1_200) as u32;
            net.catch_up(snapshot);
            assert!(!net.is_behind());
            check(&net, &network, &tracker, snapshot);
            check(&net, &network, &tracker, chance.below(1_200) as u32);
            assert_eq!(net.tracker(), tracker);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn random_networks_decide_as_the_plain_ones(
        hidden in prop::collection::vec(prop_oneof![1..20usize, 16..100usize], 0..3),
        first in prop_oneof![Just(1i64), Just(40), Just(3_000), Just(32_767), Just(40_000)],
        others in prop_oneof![Just(1i64), Just(1_000), Just(1i64 << 31), Just(1i64 << 45)],
        seed in any::<u64>(),
    ) {
        let network = network(&mut Chance::new(seed), &hidden, first, others);
        live(&network, seed, 60, 100_000);
    }
}

#[test]
fn decisions_of_the_test_differ() {
    let mut chance = Chance::new(9);
    let mut revokes = 0;
    for seed in 0..6 {
        revokes += live(&network(&mut chance, &[256], 200, 200), seed, 400, 60_000);
    }
    assert!((200..2_200).contains(&revokes), "{revokes} revokes prove little");
}

/// Weights that make a score exactly zero, and outputs exactly zero, at some pending count.
#[test]
fn ties_submit() {
    let mut weights = vec![0; DIGITS * 16];
    for o in 0..16 {
        weights[o * DIGITS + 13] = if o % 2 == 0 { 1 } else { -1 };
        weights[o * DIGITS + 14] = 1 - (o as i64 % 3);
    }
    let biases = (0..16).map(|o| o - 8).collect();
    let first = Layer { inputs: DIGITS, outputs: 16, weights, biases };
    let gaps: Vec<i64> = (0..32).map(|i| if i < 16 { 0 } else { [1, -1, 2][i % 3] }).collect();
    let last = Layer { inputs: 16, outputs: 2, weights: gaps, biases: vec![3, 0] };
    let network = Network::from_integers(vec![first, last], vec![1, 1]).unwrap();
    let (net, tracker) = (IncrementalNetwork::new(&network).unwrap(), Tracker::new());
    let mut ties = 0;
    for snapshot in 0..1_000 {
        check(&net, &network, &tracker, snapshot);
        ties += u32::from(net.score(snapshot) == 0);
    }
    assert!(ties > 0);
}

/// Scores that are the same for all counts, so that bounds settle all decisions: they must agree at zero.
#[test]
fn what_is_foreseen_cuts_at_zero() {
    for gap in -2..=2 {
        let first = Layer { inputs: DIGITS, outputs: 16, weights: vec![0; 16 * DIGITS], biases: vec![1; 16] };
        let last = Layer { inputs: 16, outputs: 2, weights: vec![0; 32], biases: vec![0, gap] };
        let network = Network::from_integers(vec![first, last], vec![1, 1]).unwrap();
        let net = IncrementalNetwork::new(&network).unwrap();
        for snapshot in 0..1_000 {
            net.arrive(4_096);
            complete(&net, Op::Read, 0, 1_000, 1);
            assert_eq!(net.decide(snapshot + 1), gap > 0, "gap {gap}");
        }
    }
}

/// A network for which a bound of the scores is zero while some of them are not.
#[test]
fn a_bound_of_zero_settles_nothing() {
    let model = Model::from_bytes(include_bytes!("found/judge-edge.linnet")).unwrap();
    let network = model.network.as_ref().unwrap();
    for seed in 0..20 {
        live(network, seed, 2_000, 1 << 20);
    }
    let mut zero = 0;
    for snapshot in 0..1_000 {
        let (net, tracker) = (IncrementalNetwork::new(network).unwrap(), Tracker::new());
        zero += u32::from(!check(&net, network, &tracker, snapshot));
    }
    assert!(zero > 0);
}

/// Sums on both sides of the bounds up to which the portable loops keep three or four of them in a word.
#[test]
fn sums_at_the_bounds_of_packed_words_are_exact() {
    const OUTPUTS: usize = 64;
    let mut chance = Chance::new(11);
    for bound in [1i64 << 15, 1 << 20] {
        for most in [bound - 2, bound - 1, bound, bound + 1, 2 * bound - 1] {
            // If every digit is 9, the outputs of the first layer are `most` or its negative.
            let weight = most / (9 * DIGITS as i64);
            let bias = most - 9 * DIGITS as i64 * weight;
            let sign = |output: usize| if output % 3 == 2 { -1 } else { 1 };
            let first = Layer {
                inputs: DIGITS,
                outputs: OUTPUTS,
                weights: (0..OUTPUTS * DIGITS).map(|at| sign(at / DIGITS) * weight).collect(),
                biases: (0..OUTPUTS).map(|output| sign(output) * bias).collect(),
            };
            let weights = (0..2 * OUTPUTS as i64).map(|at| (at - OUTPUTS as i64 + 1).max(0)).collect();
            let second = Layer { inputs: OUTPUTS, outputs: 2, weights, biases: vec![0, -600 * most] };
            let layers = vec![first, second];
            for set in simd::available() {
                let network = network_with_set(layers.clone(), vec![1; 2], 9, set).unwrap();
                for case in 0..20 {
                    let digits = std::array::from_fn(|_| if case == 0 { 9 } else { chance.below(10) as u8 });
                    let (net, now) = reach(&network, &digits);
                    check(&net, &network, &net.tracker(), now);
                }
            }
        }
    }
}

/// The published weights on their 2,000 inputs, and on every pending count for some of them.
#[test]
fn agrees_with_published_outputs() {
    let Some((network, cases)) = common::published_linnos() else { return };
    for (case, published) in cases.iter().enumerate() {
        let (net, now) = reach(&network, &published.digits);
        let gap = published.logits[1] - published.logits[0];
        assert_eq!((net.score(now), net.decide(now)), (gap, published.revokes), "case {case}");
        if case % 50 == 0 {
            let tracker = net.tracker();
            for snapshot in 0..1_000 {
                check(&net, &network, &tracker, snapshot);
            }
        }
    }
}

/// All golden vectors of 31 inputs and two outputs.
#[test]
fn agrees_with_the_golden_vectors() {
    let text = std::fs::read_to_string(common::root().join("spec/vectors/network.txt")).unwrap();
    let unhex = |text: &str| match text.strip_prefix('-') {
        Some(text) => -i128::from_str_radix(text, 16).unwrap(),
        None => i128::from_str_radix(text, 16).unwrap(),
    };
    let (mut layers, mut checked) = (Vec::<Layer>::new(), 0);
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "network" => layers.clear(),
            "layer" => {
                let [inputs, outputs] = [1, 2].map(|at| unhex(words[at]) as usize);
                layers.push(Layer { inputs, outputs, weights: Vec::new(), biases: Vec::new() });
            }
            "weights" => layers.last_mut().unwrap().weights = words[1..].iter().map(|w| unhex(w) as i64).collect(),
            "biases" => layers.last_mut().unwrap().biases = words[1..].iter().map(|w| unhex(w) as i64).collect(),
            _ if layers[0].inputs == DIGITS && layers.last().unwrap().outputs == 2 => {
                let network = Network::from_integers(layers.clone(), vec![1; layers.len()]).unwrap();
                let digits: Vec<u8> = words[1..=DIGITS].iter().map(|w| unhex(w) as u8).collect();
                let (net, now) = reach(&network, &digits.try_into().unwrap());
                let gap = unhex(words[DIGITS + 3]) - unhex(words[DIGITS + 2]);
                assert_eq!(i128::from(net.score(now)), gap);
                assert_eq!(net.decide(now), words[DIGITS + 4] == "1");
                checked += 1;
            }
            _ => {}
        }
    }
    assert_eq!(checked, 32);
}

#[test]
fn a_network_can_be_replaced_and_a_wrong_one_is_refused() {
    let mut chance = Chance::new(3);
    let [a, b] = [100, 200].map(|largest| network(&mut chance, &[64], largest, 50));
    let (net, mut tracker) = (IncrementalNetwork::new(&a).unwrap(), Tracker::new());
    for us in [90, 2_000, 80] {
        let snapshot = tracker.arrive(20_000);
        net.arrive(20_000);
        tracker.complete(Op::Read, 4_096, us * 1_000, snapshot);
        complete(&net, Op::Read, 4_096, us * 1_000, snapshot);
    }
    let net = IncrementalNetwork::with_tracker(&b, &net.tracker()).unwrap();
    for snapshot in 0..1_000 {
        check(&net, &b, &tracker, snapshot);
    }
    let three = Network::from_integers(vec![layer(&mut chance, DIGITS, 3, 9)], vec![1]).unwrap();
    assert!(IncrementalNetwork::with_tracker(&three, &tracker).unwrap_err().to_string().contains("31 digits"));
    assert!(IncrementalNetwork::new(&three).is_err());
    assert_eq!(net.tracker(), tracker);
}

#[test]
fn counts_stop_at_their_ends() {
    let net = IncrementalNetwork::new(&network(&mut Chance::new(1), &[16], 9, 9)).unwrap();
    net.arrive(4096);
    net.withdraw(8192);
    assert_eq!(net.pending_pages(), 0);
    for _ in 0..5000 {
        net.arrive(u32::MAX);
    }
    assert_eq!(net.pending_pages(), u32::MAX);
    assert_eq!(net.snapshot(8192), u32::MAX);
}
