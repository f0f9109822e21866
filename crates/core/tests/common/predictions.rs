// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests know of each prediction that a model may have: how to make one, what it means, and which of its bytes
//! are checked. The tests of model files and the golden vectors take all of them from [`EXAMPLES`].

use linnet_core::{FEATURE_BINS, LATENCY_SHARES, Latencies, LatencyBins, Predictions, SCORE_BINS};
use linnet_sim::Chance;

/// A change of a block, and the place of the error: the offset of the first changed byte, the bytes, the offset that
/// the error names.
pub type Damage = (usize, &'static [u8], usize);

pub struct Example {
    /// As in `spec/model-file.md` and in the names of the vectors.
    pub name: &'static str,
    /// Its bit in `parts`.
    pub part: u8,
    /// Size of its block.
    pub bytes: usize,
    /// Adds a random one, with numbers of a real model or, if the flag is set, from the whole range of the format.
    pub give: fn(&mut Predictions, &mut Chance, bool),
    /// Its numbers for a read, found in the bytes of its block by the plainest means.
    pub slow: fn(&[u8], i128, &[u8]) -> Vec<u32>,
    /// Where the vector of a truncated block ends.
    pub half: usize,
    /// Named damage, each a vector in `reject/`, and more of it.
    pub refused: &'static [(&'static str, Damage)],
    pub damage: &'static [Damage],
}

/// All of them, in the order of the file.
pub const EXAMPLES: &[Example] = &[Example {
    name: "latencies",
    part: 4,
    bytes: 2628,
    give: |predictions, chance, whole| predictions.latencies = Some(random_latencies(chance, whole)),
    slow: slow_latencies,
    half: 999,
    refused: &[
        ("latencies-edges", (4, &i32::MIN.to_le_bytes(), 4)),
        ("latencies-feature", (60, &[16], 60)),
        ("latencies-feature-edge", (67, &[64], 67)),
        ("latencies-feature-edges", (61, &[63, 0], 62)),
        ("latencies-quantiles", (68, &[255; 4], 72)),
        ("latencies-bins", (2624, &[0; 4], 2624)),
    ],
    damage: &[
        (56, &i32::MIN.to_le_bytes(), 56),
        (61, &[64], 61),
        (67, &[255], 67),
        (66, &[63, 0], 67),
        (68 + 4 * 4 + 4 * 5, &[255; 4], 68 + 4 * 4 + 4 * 5 + 160),
        (68 + 159, &[255], 68 + 159 + 160 - 3),
        (68 + 2559 - 3, &[0; 4], 68 + 2559 - 3),
    ],
}];

/// The sets of parts that a file may hold: a network (bit 0) or trees (bit 1), and predictions only with trees.
pub fn legal_parts() -> Vec<u8> {
    let known = EXAMPLES.iter().fold(3, |known, example| known | example.part);
    (1..=known).filter(|parts| parts & !known == 0 && (*parts < 4 || parts & 2 != 0)).collect()
}

/// The offset of a prediction's block in a file with these parts, which has no byte behind its checksum.
pub fn block(example: &Example, parts: u8, file: &[u8]) -> usize {
    let from = EXAMPLES.iter().skip_while(|own| own.part != example.part);
    file.len() - 4 - from.filter(|own| parts & own.part != 0).map(|own| own.bytes).sum::<usize>()
}

/// Bins that all differ; the last number is the maximum of the format.
fn random_latencies(chance: &mut Chance, whole: bool) -> Latencies {
    let edge = |chance: &mut Chance| match whole {
        true => chance.below(1 << 32) as u32 as i32,
        false => chance.below(12_000) as i32 - 6_000,
    };
    let mut score_edges = std::array::from_fn(|_| edge(chance));
    let mut feature_edges = std::array::from_fn(|_| chance.below(64) as u8);
    score_edges.sort_unstable();
    feature_edges.sort_unstable();
    let feature = if whole { chance.below(16) as u8 } else { 3 };
    let bins = rising(chance, if whole { 1 << 24 } else { 1_000_000 });
    Latencies::new(score_edges, feature, feature_edges, bins).unwrap()
}

/// Latencies that ascend as a table requires, up to the maximum of the file format.
fn rising(chance: &mut Chance, step: u64) -> LatencyBins {
    let mut bins = LatencyBins::default();
    let mut below = [[0u32; LATENCY_SHARES.len()]; FEATURE_BINS];
    for (s, row) in bins.iter_mut().enumerate() {
        for (cell, below) in row.iter_mut().zip(&mut below) {
            let mut before = 0;
            for (k, (ns, below)) in cell.iter_mut().zip(below).enumerate() {
                let most = (s, k) == (SCORE_BINS - 1, LATENCY_SHARES.len() - 1);
                *ns = if most { u32::MAX } else { before.max(*below) + chance.below(step) as u32 };
                (before, *below) = (*ns, *ns);
            }
        }
    }
    bins
}

fn slow_latencies(block: &[u8], score: i128, features: &[u8]) -> Vec<u32> {
    let number = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    let s = (0..15).filter(|i| i128::from(number(4 * i) as i32) < score).count();
    let f = block[61..68].iter().filter(|&&edge| edge < features[usize::from(block[60])]).count();
    (0..5).map(|k| number(68 + 4 * (5 * (8 * s + f) + k))).collect()
}
