// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the library of knobs through its safe wrappers: golden files, the writer, a ring between two threads, and
//! agreement of small networks with the trainer of large ones. Results that must agree to the bit are checked in C
//! (`tests/conformance/tune.c`).

use crate::common::{lines, root};
use linnet_core::{
    Activation, CartOptions, DecisionTree, Error, FloatNetwork, Knob, Loss, Moments, Normaliser, Optimiser, Sampler,
    SmallNetwork, StepOptions, TrainOptions, TreeNode, Unit, ring, train_f32,
};
use linnet_sim::Chance;
use proptest::prelude::*;

fn f32s(words: &[&str]) -> Vec<f32> {
    words.iter().map(|word| f32::from_bits(u32::from_str_radix(word, 16).unwrap())).collect()
}

fn files(folder: &str) -> Vec<(String, String)> {
    let folder = root().join("spec/vectors/knobs").join(folder);
    let mut found: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found.into_iter().map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect()
}

fn bytes_of<'a>(lines: impl Iterator<Item = &'a Vec<&'a str>>) -> Vec<u8> {
    let hex: String = lines.map(|line| line[0]).collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn golden_files() {
    let mut cases = 0;
    for (path, text) in files("models") {
        let lines: Vec<_> = lines(&text).collect();
        let bytes = bytes_of(lines.iter().filter(|line| line.len() == 1));
        let knob = Knob::from_bytes(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(knob.to_bytes().unwrap(), bytes, "{path}: the writer");
        for line in lines.iter().filter(|line| line.len() > 1) {
            let parts: Vec<&[&str]> = line[1..].split(|word| *word == "=" || *word == "/").collect();
            let row = f32s(parts[0]);
            let mut z = vec![0.0; row.len()];
            knob.normaliser.apply(&row, &mut z).unwrap();
            assert_eq!(z, f32s(parts[1]), "{path}");
            let last: Vec<u64> =
                parts.last().unwrap().iter().map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
            let (class, share) = if line[0] == "network" {
                let network = knob.network.as_ref().unwrap();
                let mut out = vec![0.0; network.outputs()];
                network.forward(&z, &mut out).unwrap();
                assert_eq!(out, f32s(parts[2]), "{path}");
                let (class, value, share) = knob.decide(&row).unwrap();
                assert_eq!(u64::from(value), last[2]);
                (class, share)
            } else {
                knob.tree.as_ref().unwrap().classify(&row)
            };
            assert_eq!((class as u64, (share * 1e6).round() as u64), (last[0], last[1]), "{path}");
            cases += 1;
        }
    }
    assert!(cases > 80);
}

#[test]
fn refused_files() {
    let files = files("reject");
    assert!(files.len() > 40);
    for (path, text) in files {
        let lines: Vec<_> = lines(&text).collect();
        let bytes = bytes_of(lines[1..].iter());
        match Knob::from_bytes(&bytes) {
            Err(Error::Model { fault, offset }) => {
                assert_eq!(["error", fault.name(), &format!("{offset:x}")], lines[0][..], "{path}");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

fn knob() -> Knob {
    let moments = vec![Moments { mean: 1.0, variance: 4.0 }; 2];
    let layers = [(3, Activation::Relu), (2, Activation::Linear)];
    let nodes = vec![TreeNode::split(1, 0.5, 2), TreeNode::leaf(0, 900_000), TreeNode::leaf(1, 1_000_000)];
    Knob {
        schema: 0x8000,
        unit: Unit::Kib,
        values: vec![8, 480],
        normaliser: Normaliser::from_moments(moments, 10, 0).unwrap(),
        network: Some(SmallNetwork::new(2, &layers, 1).unwrap()),
        tree: Some(DecisionTree::from_nodes(nodes, 2, 2).unwrap()),
        confidence: 0.5,
        accuracy: 0.0,
        rows: 0,
        seed: 0,
    }
}

#[test]
fn what_no_file_can_hold_is_not_written() {
    let text = |change: fn(&mut Knob)| {
        let mut knob = knob();
        change(&mut knob);
        knob.to_bytes().unwrap_err().to_string()
    };
    assert!(knob().to_bytes().is_ok());
    assert!(text(|k| (k.network, k.tree) = (None, None)).contains("neither"));
    assert!(text(|k| k.values.push(9)).contains("SmallNetwork"));
    assert!(text(|k| k.confidence = 1.1).contains("confidence"));
    assert!(text(|k| k.schema = 1).contains("schema"));
    assert!(text(|k| (k.network, k.values) = (None, vec![1, 2, 3])).contains("DecisionTree"));
}

#[test]
fn moments_are_those_of_floats() {
    let taken = |mean, variance| Normaliser::from_moments(vec![Moments { mean, variance }], 1, 0).is_ok();
    assert!(taken(f64::from(f32::MAX), f64::from(f32::MAX).powi(2)) && taken(-f64::from(f32::MAX), 0.0));
    for (mean, variance) in [(1e200, 0.0), (-1e39, 0.0), (0.0, 1e80), (0.0, -1.0), (f64::NAN, 0.0), (0.0, f64::NAN)] {
        assert!(!taken(mean, variance), "{mean} {variance}");
    }
}

/// A tree in which every path has this many splits.
fn complete(nodes: &mut Vec<TreeNode>, depth: u32) {
    if depth == 0 {
        nodes.push(TreeNode::leaf(0, 1_000_000));
        return;
    }
    nodes.push(TreeNode::split(0, 0.5, (nodes.len() + (1 << depth)) as u16));
    complete(nodes, depth - 1);
    complete(nodes, depth - 1);
}

/// A tree in which every left child is a split, of this many in all.
fn left(splits: u16) -> Result<DecisionTree, Error> {
    let mut nodes: Vec<TreeNode> = (0..splits).map(|k| TreeNode::split(0, 0.5, 2 * splits - k)).collect();
    nodes.extend((0..=splits).map(|_| TreeNode::leaf(1, 0)));
    DecisionTree::from_nodes(nodes, 2, 2)
}

/// scikit-learn's layout: the class of a leaf and its share are refused where they are none, not cut to size.
#[test]
fn leaves_of_children_are_checked() {
    let made = |leaf| {
        let leaves = [(0, 0.0), (0, 0.25), leaf];
        DecisionTree::from_children((&[1, -1, -1], &[2, -1, -1]), &[0; 3], &[0.5; 3], &leaves, 1, 2)
    };
    assert_eq!(made((1, 0.75)).unwrap().nodes()[2], TreeNode::leaf(1, 750_000));
    assert_eq!(made((1, 1.5)).unwrap().nodes()[2], TreeNode::leaf(1, 1_000_000));
    for wrong in [(2, 1.0), (1 << 16, 1.0), (usize::MAX, 1.0), (1, f64::NAN)] {
        assert!(matches!(made(wrong), Err(Error::Shape(_))), "{wrong:?}");
    }
}

#[test]
fn the_ends_of_each_range_are_read() {
    let read = |change: &dyn Fn(&mut Knob)| {
        let mut knob = knob();
        change(&mut knob);
        assert_eq!(Knob::from_bytes(&knob.to_bytes().unwrap()).unwrap(), knob);
    };
    read(&|knob| (knob.confidence, knob.accuracy) = (1.0, 1.0));
    read(&|knob| knob.schema = u16::MAX);
    for layers in [1, 8] {
        let mut shape = vec![(1, Activation::Relu); layers];
        shape[layers - 1] = (2, Activation::Softmax);
        read(&|knob| knob.network = Some(SmallNetwork::new(2, &shape, 1).unwrap()));
    }
    let shape = [(256, Activation::Sigmoid), (2, Activation::Linear)];
    read(&|knob| knob.network = Some(SmallNetwork::new(2, &shape, 1).unwrap()));
    for depth in [0, 11] {
        let mut nodes = Vec::new();
        complete(&mut nodes, depth);
        read(&|knob| knob.tree = Some(DecisionTree::from_nodes(nodes.clone(), 2, 2).unwrap()));
    }
    read(&|knob| knob.tree = Some(left(64).unwrap()));
    assert!(left(65).is_err());
}

#[test]
fn a_tree_decides_where_there_is_no_network() {
    let mut knob = knob();
    knob.network = None;
    assert_eq!(knob.decide(&[0.0, 0.5]).unwrap(), (0, 8, 0.9));
    assert_eq!(knob.decide(&[0.0, 0.6]).unwrap(), (1, 480, 1.0));
    assert!(knob.decide(&[0.0]).is_err());
}

/// Every accepted record arrives once and in order, for any interleaving of the two threads.
#[test]
fn two_threads() {
    let (mut producer, mut consumer) = ring(64, 3).unwrap();
    const RECORDS: u64 = 200_000;
    let put = std::thread::spawn(move || {
        let mut accepted = 0u64;
        for number in 0..RECORDS {
            accepted += u64::from(producer.put(&[number, number.wrapping_mul(0x9e37_79b9), !number]));
            if number % 1_000 == 0 {
                std::thread::yield_now();
            }
        }
        (accepted, producer.lost())
    });
    let (mut record, mut taken, mut next) = ([0; 3], 0u64, 0);
    loop {
        let ended = put.is_finished();
        while consumer.take(&mut record) {
            assert!(record[0] >= next, "record {} after {next}", record[0]);
            assert_eq!(record, [record[0], record[0].wrapping_mul(0x9e37_79b9), !record[0]]);
            next = record[0] + 1;
            taken += 1;
        }
        if ended {
            break;
        }
    }
    let (accepted, lost) = put.join().unwrap();
    assert_eq!((taken, taken + lost), (accepted, RECORDS));
    assert_eq!((consumer.lost(), consumer.waiting()), (lost, 0));
    assert!(ring(3, 1).is_err() && ring(4, 0).is_err() && ring(1 << 30, 1 << 20).is_err());
}

#[test]
fn a_sampler_keeps_its_share() {
    let mut sampler = Sampler::new(250_000, 7).unwrap();
    let kept = (0..40_000).filter(|_| sampler.keep()).count() as u64;
    assert_eq!(sampler.counts(), (40_000, kept));
    assert!((9_600..10_400).contains(&kept), "{kept}");
    assert!(Sampler::new(1_000_001, 7).is_err());
}

/// Trains on the same rows in the same order, one per step, with the trainer of large networks. It sums in another
/// order, so only the last bits differ.
#[test]
fn agrees_with_the_large_trainer() {
    let mut chance = Chance::new(5);
    let mut unit = || chance.below(2_000_001) as f32 / 1e6 - 1.0;
    let layers = [(15, Activation::Sigmoid), (5, Activation::Sigmoid), (4, Activation::Linear)];
    let mut small = SmallNetwork::new(5, &layers, 3).unwrap();
    let mut large: Option<FloatNetwork> = None;
    let step = StepOptions { loss: Loss::SoftmaxCrossEntropy, learning_rate: 0.05, momentum: 0.0 };
    for _ in 0..200 {
        let row: Vec<f32> = (0..5).map(|_| unit()).collect();
        let class = usize::from(row[0] > 0.0) + 2 * usize::from(row[1] > row[2]);
        let targets: Vec<f32> = (0..4).map(|k| f32::from(u8::from(k == class))).collect();
        let options = TrainOptions {
            hidden: vec![15, 5],
            hidden_activation: Activation::Sigmoid,
            loss: Loss::SoftmaxCrossEntropy,
            false_submit_weight: 1.0,
            optimiser: Optimiser::Sgd { learning_rate: 0.05, momentum: 0.0 },
            batch: 1,
            epochs: 1,
            seed: 3,
            start: large.clone(),
            ..Default::default()
        };
        let mut loss = 0.0;
        large = Some(
            train_f32(&options, 5, &row, 4, &targets, &mut |_, mean| {
                loss = mean;
                true
            })
            .unwrap(),
        );
        let own = small.train_class(&step, &row, class).unwrap();
        assert!((own - loss).abs() < 1e-5, "{own} {loss}");
    }
    for (one, other) in small.layers().iter().zip(large.unwrap().layers()) {
        for (a, b) in one.weights.iter().chain(&one.biases).zip(other.weights.iter().chain(&other.biases)) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }
}

#[test]
fn the_readahead_network_fits_two_kib() {
    let layers = [(15, Activation::Sigmoid), (5, Activation::Sigmoid), (4, Activation::Linear)];
    let mut network = SmallNetwork::new(5, &layers, 1).unwrap();
    let normaliser = Normaliser::new(5, 0).unwrap();
    // Add the 32 bytes of the core's struct, which the wrapper does not keep.
    assert!(network.bytes() + size_of_val(normaliser.moments()) + 32 <= 2048, "{}", network.bytes());
    let step = StepOptions { loss: Loss::CategoricalHinge, learning_rate: 0.1, momentum: 0.0 };
    assert!(network.train_class(&step, &[0.0; 5], 1).unwrap_err().to_string().contains("does not fit"));
    let step = StepOptions { loss: Loss::SoftmaxCrossEntropy, ..step };
    assert!(network.train_class(&step, &[0.0; 5], 4).is_err());
    assert!(network.train_class(&step, &[0.0; 4], 1).is_err());
    let copy = network.clone();
    network.train_class(&step, &[0.5; 5], 1).unwrap();
    assert_ne!(copy, network);
    assert_eq!(SmallNetwork::from_layers(&network.layers()).unwrap(), network);
}

#[test]
fn a_tree_refuses_limits_and_rows_out_of_range() {
    let fit = |leaves_max| {
        DecisionTree::fit(
            &CartOptions { leaves_max, ..CartOptions::default() },
            1,
            &[0.0, 1.0],
            &[0, 1],
            2,
            &mut || true,
        )
    };
    for leaves_max in [0, 1, 2049, usize::MAX / 2 + 1, usize::MAX / 2 + 3, usize::MAX] {
        assert!(fit(leaves_max).unwrap_err().to_string().contains("out of bounds"), "{leaves_max}");
    }
    let tree = fit(2048).unwrap();
    assert_eq!(tree.predict_rows(&[0.0, 1.0, 0.5, 0.6]).unwrap(), [0, 1, 0, 1]);
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = tree.predict_rows(&[0.0, odd]).unwrap_err();
        assert!(error.to_string().starts_with("feature 0 of row 1 is"), "{error}");
    }
}

#[test]
fn a_tree_that_is_stopped_is_the_tree_so_far() {
    let (rows, classes): (Vec<f32>, Vec<u8>) = (0..64u8).map(|n| (f32::from(n), n % 2)).unzip();
    let fit = |leaves_max, splits: usize| {
        let (options, mut asked) = (CartOptions { leaves_max, ..CartOptions::default() }, 0);
        let tree = DecisionTree::fit(&options, 1, &rows, &classes, 2, &mut || {
            asked += 1;
            asked <= splits
        });
        tree.unwrap()
    };
    assert_eq!(fit(32, 0).nodes().len(), 1);
    for splits in 1..31 {
        assert_eq!(fit(32, splits), fit(splits + 1, usize::MAX));
    }
}

proptest! {
    /// Mean and variance of all rows equal those of a two-pass computation in doubles; z-scores are finite for any row.
    #[test]
    fn normaliser(rows in prop::collection::vec(prop::collection::vec(any::<f32>(), 3), 1..60)) {
        let mut normaliser = Normaliser::new(3, 0).unwrap();
        let mut good: Vec<&Vec<f32>> = Vec::new();
        for row in &rows {
            let finite = row.iter().all(|x| x.is_finite());
            prop_assert_eq!(normaliser.learn(row).is_ok(), finite);
            good.extend(finite.then_some(row));
            let mut z = [0.0; 3];
            normaliser.apply(row, &mut z).unwrap();
            prop_assert!(z.iter().all(|z| z.is_finite() && z.abs() <= linnet_core::Z_MAX));
        }
        prop_assert_eq!(normaliser.rows(), good.len() as u64);
        prop_assert_eq!(normaliser.refused(), (rows.len() - good.len()) as u64);
        for (i, moments) in normaliser.moments().iter().enumerate().filter(|_| !good.is_empty()) {
            let column: Vec<f64> = good.iter().map(|row| f64::from(row[i])).collect();
            let most = column.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            let mean = column.iter().sum::<f64>() / column.len() as f64;
            let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / column.len() as f64;
            prop_assert!((moments.mean - mean).abs() <= 1e-12 * most);
            prop_assert!((moments.variance - variance).abs() <= 1e-11 * most * most);
        }
    }

    /// A tree predicts the class of each row that it was fitted to, if no two equal rows differ in class.
    #[test]
    fn induction(rows in prop::collection::btree_map((-40i8..40, -40i8..40), 0u8..3, 1..80)) {
        let values: Vec<f32> = rows.keys().flat_map(|&(a, b)| [f32::from(a), f32::from(b)]).collect();
        let classes: Vec<u8> = rows.values().copied().collect();
        let options = CartOptions { depth_max: 64, leaf_rows: 1, leaves_max: 2048 };
        let tree = DecisionTree::fit(&options, 2, &values, &classes, 3, &mut || true).unwrap();
        for (row, class) in values.chunks(2).zip(&classes) {
            prop_assert_eq!(tree.classify(row), (usize::from(*class), 1.0));
        }
    }
}
