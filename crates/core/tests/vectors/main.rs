// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the golden vectors of `spec/vectors`: the slow references here write them, and the core is checked against
//! them.
//!
//! `LINNET_WRITE_VECTORS=1 cargo test -p linnet-core --test vectors` writes them again; otherwise the files must equal
//! the output of these references.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{SPDX, Slow, forged, keep, lines, logits, rising, root};
use linnet_core::{
    Asked, Budget, Candidate, Decision, Error, Hedging, INFLIGHT_FEATURES, Latencies, Layer, Model, Network, Policy,
    Question, Rate, Schema, Settings, TREE_LEVELS, TREES, Tracker, Tree, Trees, Width,
};
use linnet_sim::Chance;
use linnet_types::{Op, Thresholds};

fn hex(number: i128) -> String {
    if number < 0 { format!("-{:x}", number.unsigned_abs()) } else { format!("{number:x}") }
}

fn unhex(text: &str) -> i128 {
    match text.strip_prefix('-') {
        Some(text) => -i128::from_str_radix(text, 16).unwrap(),
        None => i128::from_str_radix(text, 16).unwrap(),
    }
}

fn row<N: Copy + Into<i128>>(numbers: &[N]) -> String {
    numbers.iter().map(|&n| hex(n.into())).collect::<Vec<_>>().join(" ")
}

fn digits_text(digits: &[u8]) -> String {
    digits.iter().map(|d| char::from(b'0' + d)).collect()
}

#[test]
fn features() {
    let mut text = format!(
        "{SPDX}# Events on one tracker, in order; numbers in hex. `start` begins again.\n\
         # arrive SIZE SNAPSHOT / read SIZE LATENCY_NS SNAPSHOT / write SIZE / withdraw SIZE / digits SNAPSHOT DIGITS\n"
    );
    let mut chance = Chance::new(31);
    for case in 0..6u64 {
        writeln!(text, "\nstart").unwrap();
        let (mut slow, mut live) = (Slow::default(), Vec::new());
        for _ in 0..40 {
            if live.is_empty() || chance.happens(0.55) {
                let op = if chance.happens(0.7) { Op::Read } else { Op::Write };
                let size = match case {
                    0 => 4096,
                    1 => [1, 511, 512, 4095, 4096, 4097, 8192][chance.below(7) as usize],
                    2 => 1 << 20,
                    3 => 512 * (1 + chance.below(256) as u32),
                    4 => 32 << 20,
                    _ => 1 + chance.below(70_000) as u32,
                };
                slow.pending.push(size);
                let snapshot = slow.pages();
                writeln!(text, "arrive {size:x} {snapshot:x}").unwrap();
                writeln!(text, "digits {snapshot:x} {}", digits_text(&slow.digits(snapshot))).unwrap();
                live.push((op, size, snapshot));
                continue;
            }
            let (op, size, snapshot) = live.swap_remove(chance.below(live.len() as u64) as usize);
            slow.leave(size);
            if chance.happens(0.15) {
                writeln!(text, "withdraw {size:x}").unwrap();
            } else if op == Op::Write {
                writeln!(text, "write {size:x}").unwrap();
            } else {
                let latency_ns = match chance.below(8) {
                    0 => 999,
                    1 => 9_999_999,
                    2 => 10_000_000,
                    3 => u64::MAX,
                    _ => chance.below(3_000_000),
                };
                writeln!(text, "read {size:x} {latency_ns:x} {snapshot:x}").unwrap();
                slow.reads.push((snapshot, latency_ns));
            }
        }
    }
    keep("features.txt", &text);

    let (mut tracker, mut checked) = (Tracker::new(), 0);
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    for line in lines(&text) {
        match line[..] {
            ["start"] => tracker = Tracker::new(),
            ["arrive", size, snapshot] => {
                assert_eq!(u64::from(tracker.arrive(number(size) as u32)), number(snapshot));
            }
            ["read", size, latency_ns, snapshot] => {
                tracker.complete(Op::Read, number(size) as u32, number(latency_ns), number(snapshot) as u32);
            }
            ["write", size] => tracker.complete(Op::Write, number(size) as u32, 0, 0),
            ["withdraw", size] => tracker.withdraw(number(size) as u32),
            ["digits", snapshot, digits] => {
                assert_eq!(digits_text(&tracker.digits(number(snapshot) as u32)), digits);
                checked += 1;
            }
            _ => panic!("{line:?}"),
        }
    }
    assert!(checked > 100);
}

fn layer(chance: &mut Chance, inputs: usize, outputs: usize, largest: i64, bias: i64) -> Layer {
    let mut next = |largest: i64| chance.below(2 * largest as u64 + 1) as i64 - largest;
    Layer {
        inputs,
        outputs,
        weights: (0..inputs * outputs).map(|_| next(largest)).collect(),
        biases: (0..outputs).map(|_| next(bias)).collect(),
    }
}

fn input(chance: &mut Chance, count: usize, largest: u8) -> Vec<u8> {
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

/// The choices of `choose.txt` as whole decisions, with both kinds of model at every replica.
#[test]
fn choices() {
    let text = std::fs::read_to_string(root().join("spec/vectors/choose.txt")).unwrap();
    let policies = [Policy::Baseline, Policy::ShortestQueue, Policy::EwmaInflight, Policy::Linnos, Policy::Best];
    let (mut decision, mut revokes) = (Decision::new(), Budget::default());
    let (mut chosen, mut probes, mut scored, mut candidates_scored) = (0, 0, 0, 0);
    for line in lines(&text) {
        let number = |at: usize| unhex(line[at]);
        let candidates: Vec<Candidate> = line[7..]
            .chunks(8)
            .map(|words| {
                let bit = |at: usize| unhex(words[at]) == 1;
                Candidate {
                    eligible: bit(0),
                    known: bit(1),
                    slow: bit(2),
                    probing: bit(3),
                    score: unhex(words[4]) as i32,
                    in_flight: unhex(words[5]) as u32,
                    ewma_ns: unhex(words[6]) as u64,
                    learnt_ns: unhex(words[7]) as u64,
                    revokes_in_row: 0,
                }
            })
            .collect();
        // Without an eligible replica a decision uses any usable one; there is no choice to compare.
        if number(4) == i128::from(u32::MAX) {
            assert!(candidates.iter().all(|candidate| !candidate.eligible));
            continue;
        }
        let settings =
            Settings { policy: policies[number(1) as usize], age_ns: number(3) as u64, ..Settings::default() };
        let all = u8::MAX >> (8 - candidates.len());
        let question = Question {
            now_ns: number(2) as u64,
            replicas: candidates.len(),
            usable: all,
            trees: all,
            networks: all,
            may_revoke: false,
        };
        decision.begin(&settings, &question);
        for (k, candidate) in candidates.iter().enumerate() {
            *decision.describe(k) = *candidate;
        }
        // A prediction is available only for a replica that is asked.
        if matches!(settings.policy, Policy::Linnos | Policy::Best) {
            (0..candidates.len()).for_each(|k| {
                let Candidate { known, slow, score, .. } = decision.describe(k);
                (*known, *slow, *score) = (false, false, 0);
            });
        }
        while let Some(asked) = decision.next_to_ask(&settings, &mut revokes) {
            let (Asked::Trees(k) | Asked::Network(k)) = asked;
            let (own, now) = (&candidates[k], decision.describe(k));
            now.known = own.known;
            match asked {
                Asked::Trees(_) => now.score = own.score,
                Asked::Network(_) => now.slow = own.slow,
            }
            scored += u32::from(asked == Asked::Trees(k));
        }
        candidates_scored += if settings.policy == Policy::Best { candidates.len() as u32 } else { 0 };
        let answer = decision.answer();
        let told = (answer.replica as i128, i128::from(answer.probe), i128::from(answer.predicted_fast));
        assert_eq!(told, (number(4), number(5), number(6)), "{line:?}");
        chosen += u32::from(answer.replica > 0);
        probes += u32::from(answer.probe);
    }
    assert!(chosen > 100 && probes > 20, "{chosen} chosen elsewhere, {probes} probes prove little");
    assert!(scored > 100 && scored < candidates_scored, "{scored} of {candidates_scored} were asked for a score");
}

/// Second copies of `hedge.txt`.
#[test]
fn hedges() {
    let text = std::fs::read_to_string(root().join("spec/vectors/hedge.txt")).unwrap();
    let mut held_back = 0;
    for line in lines(&text) {
        let number = |at: usize| unhex(line[at]);
        let candidates: Vec<Candidate> = line[9..]
            .chunks(3)
            .map(|words| Candidate {
                eligible: unhex(words[0]) == 1,
                in_flight: unhex(words[1]) as u32,
                ewma_ns: unhex(words[2]) as u64,
                ..Candidate::default()
            })
            .collect();
        let rate = Rate { per_million: number(2) as u32, burst: number(3) as u32 };
        let settings = Settings { hedges: rate, ..Settings::default() };
        let mut hedging = Hedging::new(&settings, Some(number(1) as u64));
        (0..number(4)).for_each(|_| hedging.earn(&settings));
        let sent = hedging.ask(&settings, &candidates);
        let again = hedging.ask(&settings, &[]);
        assert_eq!((i128::from(sent), i128::from(again)), (number(6), number(7)), "{line:?}");
        assert_eq!(i128::from(hedging.delay_ns().unwrap_or(0)), number(8), "{line:?}");
        held_back += usize::from(again && !sent);
    }
    assert!(held_back > 20, "{held_back} copies held back by overload prove little");
}

fn random_trees(chance: &mut Chance) -> Trees {
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

/// Latencies whose bins all differ; the last of them are the maximum of the format.
fn random_latencies(chance: &mut Chance) -> Latencies {
    let mut score_edges = std::array::from_fn(|_| chance.below(12_000) as i32 - 6_000);
    let mut feature_edges = std::array::from_fn(|_| chance.below(64) as u8);
    score_edges.sort_unstable();
    feature_edges.sort_unstable();
    let bins = rising(chance, 1_000_000);
    Latencies::new(score_edges, 3, feature_edges, bins).unwrap()
}

/// The quantiles of `random_latencies`, found in the bytes of its file by counting edges.
fn slow_latencies(file: &[u8], score: i128, features: &[u8]) -> Vec<u32> {
    let block = &file[file.len() - 4 - 2628..];
    let number = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    let s = (0..15).filter(|i| i128::from(number(4 * i) as i32) < score).count();
    let f = block[61..68].iter().filter(|&&edge| edge < features[usize::from(block[60])]).count();
    (0..5).map(|k| number(68 + 4 * (5 * (8 * s + f) + k))).collect()
}

fn small_model(chance: &mut Chance, hidden: &[usize], largest: i64) -> Model {
    let mut shape = vec![31];
    shape.extend(hidden);
    shape.push(2);
    let layers: Vec<Layer> =
        shape.windows(2).map(|pair| layer(chance, pair[0], pair[1], largest, 100 * largest)).collect();
    let scales = (0..layers.len()).map(|k| 1_000i64.pow(k as u32 + 1)).collect();
    Model {
        network: Some(Network::from_integers(layers, scales).unwrap()),
        trees: None,
        latencies: None,
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

fn hex_lines(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    bytes.chunks(32).map(|bytes| line(bytes) + "\n").collect()
}

fn bytes_of(text: &str) -> Vec<u8> {
    lines(text)
        .filter(|line| line.len() == 1)
        .flat_map(|line| {
            (0..line[0].len() / 2)
                .map(|i| u8::from_str_radix(&line[0][2 * i..2 * i + 2], 16).unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A file of version 2 with a network only, in the form of version 1.
fn as_version_1(bytes: &[u8]) -> Vec<u8> {
    forged(&forged(bytes, 8, &[1]), 76, &[0])
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
            if model.latencies.is_some() {
                write!(text, " {}", row(&slow_latencies(bytes, score, &features))).unwrap();
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
                let told = read.latencies.as_ref().map(|latencies| row(latencies.predict(score, &features)));
                assert_eq!(told.unwrap_or_default(), line[3 + INFLIGHT_FEATURES..].join(" "));
            }
            _ => assert_eq!(line.len(), 1),
        }
    }
}

#[test]
fn model_files() {
    let mut chance = Chance::new(96);
    for (name, hidden, largest) in
        [("v1-small.txt", &[3][..], 200), ("v1-wide-weights.txt", &[2, 2], 1_000_000), ("v1-linear.txt", &[], 1 << 40)]
    {
        let model = small_model(&mut chance, hidden, largest);
        let bytes = as_version_1(&model.to_bytes().unwrap());
        keep_model(name, &model, &bytes, &mut chance);
    }
    let mut chance = Chance::new(98);
    for (name, parts) in [
        ("v2-network.txt", 1),
        ("v2-trees.txt", 2),
        ("v2-both.txt", 3),
        ("v2-trees-latencies.txt", 6),
        ("v2-all.txt", 7),
        ("v2-trees-linnet2.txt", 2),
    ] {
        let mut model = small_model(&mut chance, &[3], 200);
        model.network = model.network.filter(|_| parts & 1 != 0);
        model.trees = (parts & 2 != 0).then(|| random_trees(&mut chance));
        model.latencies = (parts & 4 != 0).then(|| random_latencies(&mut chance));
        if name.contains("linnet2") {
            model.trees = model.trees.map(|trees| trees.on(Schema::Linnet2));
        }
        let bytes = model.to_bytes().unwrap();
        assert_eq!(model.to_bytes().unwrap(), bytes);
        keep_model(name, &model, &bytes, &mut chance);
    }
}

#[test]
fn damaged_model_files() {
    let second = small_model(&mut Chance::new(97), &[3], 200).to_bytes().unwrap();
    let good = as_version_1(&second);
    let mut chance = Chance::new(99);
    let both = Model { trees: Some(random_trees(&mut chance)), ..small_model(&mut chance, &[3], 200) };
    let trees = Model { network: None, ..both.clone() }.to_bytes().unwrap();
    let both = both.to_bytes().unwrap();
    let (block, both_block) = (96, both.len() - 4 - 1416);
    let latencies = Model { latencies: Some(random_latencies(&mut chance)), ..Model::from_bytes(&both).unwrap() }
        .to_bytes()
        .unwrap();
    let told = latencies.len() - 4 - 2628;
    let end = good.len() - 4;
    let flipped = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        bad
    };
    let longer = [&good[..], &[0]].concat();
    let cases: Vec<(&str, &str, usize, Vec<u8>)> = vec![
        ("empty", "truncated", 0, Vec::new()),
        ("one-byte", "truncated", 1, good[..1].to_vec()),
        ("half", "truncated", 200, good[..200].to_vec()),
        ("no-checksum", "truncated", end, good[..end].to_vec()),
        ("text", "magic", 0, b"not a model file\n".to_vec()),
        ("line-ends", "magic", 4, [&good[..4], &good[5..]].concat()),
        ("version-0", "version", 8, forged(&good, 8, &[0])),
        ("version-3", "version", 8, forged(&good, 8, &[3])),
        ("one-more", "length", 16, longer),
        ("too-small", "length", 16, [&good[..16], &123u32.to_le_bytes()[..], &good[20..123]].concat()),
        ("flip-weight", "checksum", end, flipped(150)),
        ("flip-checksum", "checksum", end, flipped(end + 2)),
        ("kind-7", "kind", 10, forged(&good, 10, &[7])),
        ("schema-2", "schema", 12, forged(&good, 12, &[2])),
        ("input-max", "field", 14, forged(&good, 14, &[255])),
        ("no-layers", "field", 20, forged(&good, 20, &[0])),
        ("many-layers", "field", 20, forged(&good, 20, &[255, 255, 255, 255])),
        ("percentile", "field", 68, forged(&good, 68, &1_000_001u32.to_le_bytes())),
        ("false-submit", "field", 72, forged(&good, 72, &1_000_001u32.to_le_bytes())),
        ("reserved", "field", 76, forged(&good, 76, &[1])),
        ("inputs-30", "shape", 96, forged(&good, 96, &[30])),
        ("outputs-huge", "shape", 100, forged(&good, 100, &u32::MAX.to_le_bytes())),
        ("outputs-none", "shape", 100, forged(&good, 100, &[0])),
        ("weight-bytes-3", "field", 104, forged(&good, 104, &[3])),
        ("weight-bytes-8", "shape", 16, forged(&good, 104, &[8])),
        ("scale-0", "field", 112, forged(&good, 112, &[0; 8])),
        ("link", "shape", 120, forged(&good, 120, &[4])),
        ("three-outputs", "shape", 124, forged(&good, 124, &[3])),
        ("parts-none", "field", 76, forged(&second, 76, &[0])),
        ("parts-unknown", "field", 76, forged(&second, 76, &[0x81])),
        ("latencies-alone", "field", 76, forged(&latencies, 76, &[5])),
        ("latencies-missing", "shape", 16, forged(&both, 76, &[7])),
        ("latencies-unnamed", "shape", 16, forged(&latencies, 76, &[3])),
        ("latencies-half", "truncated", told + 999, latencies[..told + 999].to_vec()),
        ("latencies-edges", "field", told + 4, forged(&latencies, told + 4, &i32::MIN.to_le_bytes())),
        ("latencies-feature", "field", told + 60, forged(&latencies, told + 60, &[16])),
        ("latencies-feature-edge", "field", told + 67, forged(&latencies, told + 67, &[64])),
        ("latencies-feature-edges", "field", told + 62, forged(&latencies, told + 61, &[63, 0])),
        ("latencies-quantiles", "field", told + 72, forged(&latencies, told + 68, &u32::MAX.to_le_bytes())),
        ("latencies-bins", "field", told + 2624, forged(&latencies, told + 2624, &[0; 4])),
        ("trees-missing", "shape", 16, forged(&second, 76, &[3])),
        ("trees-half", "truncated", both_block + 700, both[..both_block + 700].to_vec()),
        ("trees-unnamed", "shape", 16, forged(&both, 76, &[1])),
        ("network-unnamed", "schema", 12, forged(&both, 76, &[2])),
        ("network-missing", "schema", 12, forged(&trees, 76, &[3])),
        ("no-network-schema", "schema", 12, forged(&trees, 12, &[1])),
        ("no-network-input-max", "field", 14, forged(&trees, 14, &[9])),
        ("no-network-layers", "field", 20, forged(&trees, 20, &[1])),
        ("trees-schema", "schema", block, forged(&trees, block, &[1])),
        ("trees-reserved", "field", block + 2, forged(&trees, block + 2, &[1])),
        ("trees-base", "field", block + 4, forged(&trees, block + 4, &[1, 0, 0, 0x40])),
        ("trees-feature", "field", block + 8, forged(&trees, block + 8, &[16])),
        ("trees-threshold", "field", both_block + 391, forged(&both, both_block + 391, &[64])),
    ];
    for (name, fault, offset, bytes) in cases {
        let text = format!(
            "{SPDX}# A model file that is refused, in hex; the first line has the error and its offset in hex.\n\
             error {fault} {offset:x}\n{}",
            hex_lines(&bytes)
        );
        keep(&format!("reject/{name}.txt"), &text);
        let bytes = bytes_of(&text);
        match Model::from_bytes(&bytes) {
            Err(Error::Model { fault: told, offset: at }) => assert_eq!((told.name(), at), (fault, offset), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn no_vector_is_left_over() {
    let count = |folder: &str| std::fs::read_dir(root().join(Path::new("spec/vectors")).join(folder)).unwrap().count();
    assert_eq!((count("models"), count("reject")), (9, 53));
}
