// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares training with losses in doubles and their finite differences, and tests that it learns known rules.

use linnet_core::{
    Activation, DIGITS, Error, FloatLayer, FloatNetwork, Loss, Optimiser, TrainOptions, train, train_f32,
};
use linnet_sim::Chance;

fn network(chance: &mut Chance, shape: &[usize], hidden: Activation, output: Activation) -> Vec<FloatLayer> {
    let count = shape.len() - 1;
    (0..count)
        .map(|k| FloatLayer {
            inputs: shape[k],
            outputs: shape[k + 1],
            activation: if k + 1 == count { output } else { hidden },
            weights: (0..shape[k] * shape[k + 1]).map(|_| chance.normal() as f32 * 0.4).collect(),
            biases: (0..shape[k + 1]).map(|_| chance.normal() as f32 * 0.3).collect(),
        })
        .collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Nearly all that these tests compute, without optimisation: an iterator would take five times as long.
fn dot(weights: &[f32], x: &[f64]) -> f64 {
    let (mut sum, mut i) = (0.0, 0);
    while i < weights.len() {
        sum += weights[i] as f64 * x[i];
        i += 1;
    }
    sum
}

/// Mean weighted loss of the rows, in doubles.
fn loss(layers: &[FloatLayer], options: &TrainOptions, rows: &[f32], targets: &[f32]) -> f64 {
    let (inputs, outputs) = (layers[0].inputs, layers.last().unwrap().outputs);
    let mut total = 0.0;
    for (row, y) in rows.chunks(inputs).zip(targets.chunks(outputs)) {
        let mut x: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        let mut z: Vec<f64> = Vec::new();
        for layer in layers {
            z = layer.biases.iter().map(|&bias| f64::from(bias)).collect();
            for (z, w) in z.iter_mut().zip(layer.weights.chunks(layer.inputs)) {
                *z += dot(w, &x);
            }
            x = z
                .iter()
                .map(|&z| match layer.activation {
                    Activation::Linear => z,
                    Activation::Relu => z.max(0.0),
                    Activation::Sigmoid => sigmoid(z),
                    Activation::Softmax => unreachable!("no large network has it"),
                })
                .collect();
        }
        let y: Vec<f64> = y.iter().map(|&y| f64::from(y)).collect();
        let pairs = || y.iter().zip(&x);
        let missed = if outputs == 1 { y[0] == 1.0 && z[0] <= 0.0 } else { y[1] == 1.0 && z[1] <= z[0] };
        let weight = if missed { f64::from(options.false_submit_weight) } else { 1.0 };
        total += weight
            * match options.loss {
                Loss::CategoricalHinge => {
                    let own: f64 = pairs().map(|(y, p)| y * p).sum();
                    let other = pairs().map(|(y, p)| (1.0 - y) * p).fold(f64::MIN, f64::max);
                    (1.0 + other - own).max(0.0)
                }
                Loss::SoftmaxCrossEntropy => {
                    let sum: f64 = x.iter().map(|p| p.exp()).sum();
                    pairs().map(|(y, p)| -y * (p.exp() / sum).ln()).sum()
                }
                Loss::BinaryCrossEntropy => {
                    pairs().map(|(y, p)| -(y * p.ln() + (1.0 - y) * (1.0 - p).ln())).sum::<f64>() / outputs as f64
                }
                Loss::Square => pairs().map(|(y, p)| (y - p) * (y - p)).sum::<f64>() / outputs as f64,
            };
    }
    total / (rows.len() / inputs) as f64
}

/// One step of plain gradient descent at rate 1 over one batch gives the gradient.
fn check_gradient(case: u64, shape: &[usize], hidden: Activation, output: Activation, kind: Loss, weight: f32) {
    let mut chance = Chance::new(case);
    let layers = network(&mut chance, shape, hidden, output);
    let (inputs, outputs, n) = (shape[0], *shape.last().unwrap(), 7);
    let rows: Vec<f32> =
        (0..n * inputs).map(|_| if chance.happens(0.3) { 0.0 } else { chance.normal() as f32 }).collect();
    let mut targets = Vec::new();
    for _ in 0..n {
        match kind {
            Loss::Square => targets.extend((0..outputs).map(|_| chance.unit() as f32)),
            Loss::BinaryCrossEntropy => targets.extend((0..outputs).map(|_| chance.below(2) as f32)),
            _ => {
                let class = chance.below(outputs as u64) as usize;
                targets.extend((0..outputs).map(|o| f32::from(u8::from(o == class))));
            }
        }
    }
    let options = TrainOptions {
        hidden: shape[1..shape.len() - 1].to_vec(),
        hidden_activation: hidden,
        output_activation: Some(output),
        loss: kind,
        false_submit_weight: weight,
        optimiser: Optimiser::Sgd { learning_rate: 1.0, momentum: 0.0 },
        batch: n,
        epochs: 1,
        start: Some(FloatNetwork::from_layers(&layers).unwrap()),
        ..Default::default()
    };
    let mut told = 0.0;
    let stepped = train_f32(&options, inputs, &rows, outputs, &targets, &mut |_, loss| {
        told = f64::from(loss);
        true
    })
    .unwrap()
    .layers();
    let expected = loss(&layers, &options, &rows, &targets);
    assert!((told - expected).abs() < 1e-5 * (1.0 + expected), "{kind:?}: loss {told}, not {expected}");

    for k in 0..layers.len() {
        for at in 0..layers[k].weights.len() + layers[k].biases.len() {
            let value = |layers: &[FloatLayer]| match at.checked_sub(layers[k].weights.len()) {
                Some(bias) => layers[k].biases[bias],
                None => layers[k].weights[at],
            };
            let moved = |by: f32| {
                let mut layers = layers.clone();
                match at.checked_sub(layers[k].weights.len()) {
                    Some(bias) => layers[k].biases[bias] += by,
                    None => layers[k].weights[at] += by,
                }
                (f64::from(value(&layers)), loss(&layers, &options, &rows, &targets))
            };
            let ((low, below), (high, above)) = (moved(-1e-4), moved(1e-4));
            let slope = (above - below) / (high - low);
            let gradient = f64::from(value(&layers) - value(&stepped));
            let error = (gradient - slope).abs();
            assert!(error < 2e-4 * (1.0 + slope.abs()), "{kind:?} layer {k} number {at}: {gradient}, not {slope}");
        }
    }
}

#[test]
fn gradients_are_those_of_the_losses() {
    use Activation::{Linear, Relu, Sigmoid};
    for case in 0..6 {
        check_gradient(case, &[5, 20, 2], Relu, Linear, Loss::CategoricalHinge, 1.0);
        check_gradient(case, &[5, 20, 2], Relu, Linear, Loss::CategoricalHinge, 5.0);
        check_gradient(case, &[4, 6, 18, 3], Relu, Linear, Loss::CategoricalHinge, 1.0);
        check_gradient(case, &[5, 130, 6, 2], Relu, Linear, Loss::SoftmaxCrossEntropy, 5.0);
        check_gradient(case, &[3, 4, 17], Sigmoid, Linear, Loss::SoftmaxCrossEntropy, 1.0);
        check_gradient(case, &[5, 17, 3, 1], Relu, Sigmoid, Loss::BinaryCrossEntropy, 3.0);
        check_gradient(case, &[5, 9, 3], Sigmoid, Sigmoid, Loss::BinaryCrossEntropy, 1.0);
        check_gradient(case, &[5, 9, 18, 3], Linear, Sigmoid, Loss::Square, 1.0);
        check_gradient(case, &[5, 33, 2], Relu, Relu, Loss::Square, 1.0);
        check_gradient(case, &[5, 2], Relu, Linear, Loss::Square, 1.0);
    }
}

/// Digits with labels that depend on them: slow if the tens of the last latency and of the pages now are high.
fn labelled(n: usize, seed: u64) -> (Vec<u8>, Vec<bool>) {
    let mut chance = Chance::new(seed);
    let rows: Vec<u8> = (0..n * DIGITS).map(|_| if chance.happens(0.4) { 0 } else { chance.below(10) as u8 }).collect();
    let slow = rows.chunks(DIGITS).map(|row| 2 * row[13] + row[28] > 16).collect();
    (rows, slow)
}

fn accuracy(decide: impl Fn(&[u8]) -> bool, rows: &[u8], slow: &[bool]) -> f64 {
    let right = rows.chunks(DIGITS).zip(slow).filter(|(row, slow)| decide(row) == **slow).count();
    right as f64 / slow.len() as f64
}

#[test]
fn every_loss_and_optimiser_learns_a_rule() {
    let (rows, slow) = labelled(12_000, 1);
    let (test_rows, test_slow) = labelled(2_000, 2);
    let base = 1.0 - test_slow.iter().filter(|&&slow| slow).count() as f64 / 2_000.0;
    assert!((0.8..0.9).contains(&base), "{base}");
    for (loss, optimiser) in [
        (Loss::CategoricalHinge, Optimiser::Adam { learning_rate: 3e-3 }),
        (Loss::SoftmaxCrossEntropy, Optimiser::Adam { learning_rate: 3e-3 }),
        (Loss::BinaryCrossEntropy, Optimiser::Adam { learning_rate: 3e-3 }),
        (Loss::Square, Optimiser::Adam { learning_rate: 3e-3 }),
        (Loss::SoftmaxCrossEntropy, Optimiser::Sgd { learning_rate: 3e-3, momentum: 0.9 }),
    ] {
        let options = TrainOptions {
            hidden: vec![32],
            loss,
            optimiser,
            epochs: 15,
            false_submit_weight: 1.0,
            seed: 3,
            ..Default::default()
        };
        let float = train(&options, &rows, &slow, &mut |_, _| true).unwrap();
        let learned = accuracy(|row| float.decide(row), &test_rows, &test_slow);
        assert!(learned > 0.94, "{loss:?} {optimiser:?}: {learned} on a base of {base}");
        let network = float.quantise(3).unwrap();
        let kept = accuracy(|row| network.decide(row), &test_rows, &test_slow);
        assert!((kept - learned).abs() < 2e-3, "{loss:?}: {learned} as floats, {kept} as integers");
        assert_eq!(network.scales(), [1_000, 1_000_000]);
    }
}

#[test]
fn the_bias_trades_false_submits_for_false_revokes() {
    let mut chance = Chance::new(9);
    let (rows, mut slow) = labelled(6_000, 4);
    slow.iter_mut().for_each(|slow| *slow ^= chance.happens(0.1));
    let errors = |weight: f32| {
        let options = TrainOptions { hidden: vec![16], false_submit_weight: weight, epochs: 10, ..Default::default() };
        let network = train(&options, &rows, &slow, &mut |_, _| true).unwrap();
        let count = |truth: bool| {
            rows.chunks(DIGITS).zip(&slow).filter(|(row, s)| **s == truth && network.decide(row) != truth).count()
        };
        (count(true), count(false))
    };
    let (plain, biased) = (errors(1.0), errors(5.0));
    assert!(biased.0 < plain.0 && biased.1 > plain.1, "{plain:?} {biased:?}");
}

#[test]
fn a_seed_names_its_network() {
    let (rows, slow) = labelled(500, 5);
    let fit = |seed| {
        let options = TrainOptions { hidden: vec![20], epochs: 2, seed, ..Default::default() };
        train(&options, &rows, &slow, &mut |_, _| true).unwrap()
    };
    assert_eq!(fit(1), fit(1));
    assert_ne!(fit(1), fit(2));
}

#[test]
fn a_start_goes_on_and_a_false_stops() {
    let (rows, slow) = labelled(2_000, 6);
    let first = TrainOptions { hidden: vec![20], epochs: 100, ..Default::default() };
    let mut losses = Vec::new();
    let network = train(&first, &rows, &slow, &mut |epoch, loss| {
        losses.push(loss);
        epoch < 4
    })
    .unwrap();
    assert_eq!(losses.len(), 5);
    let again = TrainOptions { epochs: 1, start: Some(network), ..first.clone() };
    train(&again, &rows, &slow, &mut |_, loss| {
        assert!(loss < losses[0] * 0.8, "{loss} after {losses:?}");
        true
    })
    .unwrap();
    let other = TrainOptions { hidden: vec![21], ..again };
    assert!(matches!(train(&other, &rows, &slow, &mut |_, _| true), Err(Error::Training(_))));
}

#[test]
fn the_first_weights_are_glorot_uniform() {
    let (rows, slow) = labelled(1, 7);
    let options = TrainOptions { epochs: 0, ..Default::default() };
    let layers = train(&options, &rows, &slow, &mut |_, _| true).unwrap().layers();
    for layer in &layers {
        let limit = (6.0 / (layer.inputs + layer.outputs) as f32).sqrt();
        let mean = layer.weights.iter().sum::<f32>() / layer.weights.len() as f32;
        let largest = layer.weights.iter().fold(0f32, |max, w| max.max(w.abs()));
        assert!(mean.abs() < limit * 0.1 && (limit * 0.97..=limit).contains(&largest), "{mean} {largest} {limit}");
        assert!(layer.biases.iter().all(|&b| b == 0.0));
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    let options = TrainOptions { loss: Loss::Square, false_submit_weight: 1.0, hidden: vec![20], ..Default::default() };
    let (rows, targets) = (vec![0.5; 3 * 100], vec![0.25; 100]);
    let told = |rows: &[f32], targets: &[f32]| {
        train_f32(&options, 3, rows, 1, targets, &mut |_, _| true).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(told(&rows, &targets), Ok(()));
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let refused = Err("training refused: a number of a row or a target is not finite".to_string());
        let with = |numbers: &[f32], at: usize| {
            let mut numbers = numbers.to_vec();
            numbers[at] = wrong;
            numbers
        };
        assert_eq!(told(&with(&rows, 299), &targets), refused);
        assert_eq!(told(&rows, &with(&targets, 0)), refused);
    }
    // Finite, but a hidden sum is infinity less infinity: a ReLU does not hide it.
    let large: Vec<f32> = rows.iter().map(|_| f32::MAX).collect();
    let layers = |n| FloatLayer {
        inputs: 3,
        outputs: n,
        activation: Activation::Relu,
        weights: vec![0.0; 3 * n],
        biases: vec![0.0; n],
    };
    for hidden in [5, 20] {
        let mut first = layers(hidden);
        first.weights[..2].copy_from_slice(&[9.0, -9.0]);
        let last =
            FloatLayer { inputs: hidden, activation: Activation::Linear, weights: vec![1.0; hidden], ..layers(1) };
        let start = Some(FloatNetwork::from_layers(&[first, last]).unwrap());
        let options = TrainOptions { hidden: vec![hidden], start, ..options.clone() };
        let told = train_f32(&options, 3, &large, 1, &targets, &mut |_, _| true);
        assert_eq!(told.err(), Some(Error::Diverged { epoch: 0 }));
    }
    // Gradients whose squares are infinite: Adam would not move those weights any more.
    let bias = TrainOptions { false_submit_weight: 1e25, ..TrainOptions::default() };
    let (digits, slow) = labelled(10, 8);
    assert_eq!(train(&bias, &digits, &slow, &mut |_, _| true).err(), Some(Error::Diverged { epoch: 0 }));
}

#[test]
fn invalid_options_are_refused() {
    let (rows, slow) = labelled(10, 8);
    let fails = |options: TrainOptions| match train(&options, &rows, &slow, &mut |_, _| true) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{options:?}"),
    };
    let default = TrainOptions::default;
    assert!(fails(TrainOptions { batch: 0, ..default() }).contains("a batch of 0"));
    assert!(fails(TrainOptions { hidden: vec![1; 8], ..default() }).contains("9 layers"));
    assert!(fails(TrainOptions { hidden: vec![5000], ..default() }).contains("5000"));
    assert!(fails(TrainOptions { output_activation: Some(Activation::Sigmoid), ..default() }).contains("Sigmoid"));
    assert!(
        fails(TrainOptions { optimiser: Optimiser::Adam { learning_rate: f32::NAN }, ..default() }).contains("NaN")
    );
    let sgd = Optimiser::Sgd { learning_rate: 0.1, momentum: 1.0 };
    assert!(fails(TrainOptions { optimiser: sgd, ..default() }).contains("the momentum is 1; give a number below 1"));
    assert!(train(&default(), &rows[1..], &slow, &mut |_, _| true).is_err());
    assert!(train(&default(), &[], &[], &mut |_, _| true).is_err());
    let rate = TrainOptions { optimiser: Optimiser::Sgd { learning_rate: 1e30, momentum: 0.0 }, batch: 1, ..default() };
    assert!(fails(rate).contains("diverged"));
}
