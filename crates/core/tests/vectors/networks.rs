// SPDX-License-Identifier: MIT OR Apache-2.0
//! `network.txt`: exact sums of networks.

use std::fmt::Write as _;

use linnet_core::{Layer, Network, Width};
use linnet_sim::Chance;

use super::text::{row, unhex};
use crate::common::{SPDX, keep, lines, logits};

pub fn layer(chance: &mut Chance, inputs: usize, outputs: usize, largest: i64, bias: i64) -> Layer {
    let mut next = |largest: i64| chance.below(2 * largest as u64 + 1) as i64 - largest;
    Layer {
        inputs,
        outputs,
        weights: (0..inputs * outputs).map(|_| next(largest)).collect(),
        biases: (0..outputs).map(|_| next(bias)).collect(),
    }
}

pub fn input(chance: &mut Chance, count: usize, largest: u8) -> Vec<u8> {
    (0..count).map(|_| if chance.happens(0.4) { 0 } else { chance.below(u64::from(largest) + 1) as u8 }).collect()
}

#[test]
fn networks() {
    let mut text = format!(
        "{SPDX}# Networks, then inputs with the exact logits and the decision; numbers in hex, - for negative.\n\
         # network INPUT_MAX WIDTH (0: 16-bit weights and 32-bit sums, 1: 64-bit, 2: 128-bit sums) / layer INPUTS OUTPUTS\n\
         # weights W... (by output, then input) / biases B... / vector INPUT... = LOGIT... VERDICT (1: revoke)\n\
         # For other than two outputs the verdict is 2, forced submit.\n"
    );
    let mut chance = Chance::new(256);
    for (shape, largest, bias, input_max, width) in [
        (vec![31, 8, 2], 150, 20_000, 9u8, 0),
        (vec![31, 20, 2], 150, 20_000, 9, 0),
        (vec![4, 3, 2], 32_767, 1_000, 9, 1),
        (vec![7, 18, 17, 2], 90, 900, 9, 0),
        (vec![5, 17, 2], 1_000_000, 1_000_000_000, 9, 1),
        (vec![6, 16, 16, 16, 2], 1_000_000, 1_000_000, 9, 2),
        (vec![3, 20, 5], 120, 500, 255, 0),
        (vec![2, 2, 2, 2, 2, 2, 2, 2, 2], 2_000, 9, 255, 2),
        (vec![1, 1], 5, 5, 1, 0),
    ] {
        let layers: Vec<Layer> =
            shape.windows(2).map(|pair| layer(&mut chance, pair[0], pair[1], largest, bias)).collect();
        writeln!(text, "\nnetwork {input_max:x} {width}").unwrap();
        for layer in &layers {
            writeln!(text, "layer {:x} {:x}", layer.inputs, layer.outputs).unwrap();
            writeln!(text, "weights {}\nbiases {}", row(&layer.weights), row(&layer.biases)).unwrap();
        }
        let mut inputs: Vec<Vec<u8>> = vec![vec![0; shape[0]], vec![input_max; shape[0]]];
        inputs.extend((0..14).map(|_| input(&mut chance, shape[0], input_max)));
        for input in inputs {
            let out = logits(&layers, &input).unwrap();
            let verdict = if out.len() == 2 { u8::from(out[1] > out[0]) } else { 2 };
            writeln!(text, "vector {} = {} {verdict}", row(&input), row(&out)).unwrap();
        }
    }
    // A tie submits.
    writeln!(text, "\nnetwork 9 0\nlayer 1 2\nweights 7 7\nbiases 0 0\nvector 5 = 23 23 0").unwrap();
    keep("network.txt", &text);

    let (mut layers, mut input_max, mut width, mut revokes) = (Vec::<Layer>::new(), 0, 0, 0);
    for line in lines(&text) {
        let numbers = |from: usize| line[from..].iter().map(|text| unhex(text) as i64).collect::<Vec<_>>();
        match line[0] {
            "network" => (layers, input_max, width) = (Vec::new(), unhex(line[1]) as u8, unhex(line[2])),
            "layer" => {
                let [inputs, outputs] = [1, 2].map(|at| unhex(line[at]) as usize);
                layers.push(Layer { inputs, outputs, weights: Vec::new(), biases: Vec::new() });
            }
            "weights" => layers.last_mut().unwrap().weights = numbers(1),
            "biases" => layers.last_mut().unwrap().biases = numbers(1),
            "vector" => {
                let network = Network::with_input_max(layers.clone(), vec![1; layers.len()], input_max).unwrap();
                assert_eq!(network.width(), [Width::I16, Width::I64, Width::I128][width as usize]);
                let (input, rest) = line[1..].split_at(network.inputs());
                let input: Vec<u8> = input.iter().map(|text| unhex(text) as u8).collect();
                let out: Vec<i128> = rest[1..=network.outputs()].iter().map(|text| unhex(text)).collect();
                let mut told = vec![0; network.outputs()];
                network.logits(&input, &mut told).unwrap();
                assert_eq!(told, out);
                let verdict = unhex(rest[rest.len() - 1]);
                assert_eq!(network.decide(&input), verdict == 1);
                revokes += u32::from(verdict == 1);
            }
            other => panic!("{other}"),
        }
    }
    assert!(revokes > 10);
}
