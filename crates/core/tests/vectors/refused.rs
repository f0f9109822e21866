// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reject/`: model files that are refused, with the error and its place.

use std::collections::BTreeSet;

use linnet_core::{Error, Model};
use linnet_sim::Chance;

use super::models::{random_trees, small_model};
use super::text::{as_version_1, bytes_of, hex_lines};
use crate::common::predictions::{EXAMPLES, Example};
use crate::common::{SPDX, forged, keep};

type Case = (String, &'static str, usize, Vec<u8>);

/// Files with network, trees and one prediction, whose block or whose bit in `parts` is wrong.
fn damaged_predictions(both: &[u8], chance: &mut Chance) -> Vec<Case> {
    let mut cases = Vec::new();
    for example in EXAMPLES {
        let Example { name, part, bytes, half, .. } = *example;
        let mut model = Model::from_bytes(both).unwrap();
        (example.give)(&mut model.predictions, chance, false);
        let good = model.to_bytes().unwrap();
        let block = good.len() - 4 - bytes;
        cases.extend([
            (format!("{name}-alone"), "field", 76, forged(&good, 76, &[1 | part])),
            (format!("{name}-missing"), "shape", 16, forged(both, 76, &[3 | part])),
            (format!("{name}-unnamed"), "shape", 16, forged(&good, 76, &[3])),
            (format!("{name}-half"), "truncated", block + half, good[..block + half].to_vec()),
        ]);
        cases.extend(example.refused.iter().map(|&(name, (at, bytes, told))| {
            (name.to_string(), "field", block + told, forged(&good, block + at, bytes))
        }));
    }
    cases
}

/// Every file: its name, the error, the offset that it names, the bytes.
fn cases() -> Vec<Case> {
    let second = small_model(&mut Chance::new(97), &[3], 200).to_bytes().unwrap();
    let good = as_version_1(&second);
    let mut chance = Chance::new(99);
    let both = Model { trees: Some(random_trees(&mut chance)), ..small_model(&mut chance, &[3], 200) };
    let trees = Model { network: None, ..both.clone() }.to_bytes().unwrap();
    let both = both.to_bytes().unwrap();
    let (block, both_block) = (96, both.len() - 4 - 1416);
    let end = good.len() - 4;
    let flipped = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        bad
    };
    let longer = [&good[..], &[0]].concat();
    // Its only entry of the layer table ends where the file's numbers would begin, and is wrong.
    let mut table_alone = forged(&good[..124], 20, &[1]);
    table_alone = forged(&table_alone, 16, &124u32.to_le_bytes());
    let cases = vec![
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
        ("table-alone", "shape", 96, forged(&table_alone, 96, &[30])),
        ("outputs-huge", "shape", 100, forged(&good, 100, &u32::MAX.to_le_bytes())),
        ("outputs-none", "shape", 100, forged(&good, 100, &[0])),
        ("weight-bytes-3", "field", 104, forged(&good, 104, &[3])),
        ("weight-bytes-8", "shape", 16, forged(&good, 104, &[8])),
        ("scale-0", "field", 112, forged(&good, 112, &[0; 8])),
        ("link", "shape", 120, forged(&good, 120, &[4])),
        ("three-outputs", "shape", 124, forged(&good, 124, &[3])),
        ("parts-none", "field", 76, forged(&second, 76, &[0])),
        ("parts-unknown", "field", 76, forged(&second, 76, &[0x81])),
        ("trees-missing", "shape", 16, forged(&second, 76, &[3])),
        ("trees-half", "truncated", both_block + 700, both[..both_block + 700].to_vec()),
        ("trees-unnamed", "shape", 16, forged(&both, 76, &[1])),
        ("network-unnamed", "schema", 12, forged(&both, 76, &[2])),
        ("network-missing", "schema", 12, forged(&trees, 76, &[3])),
        ("no-network-schema", "schema", 12, forged(&trees, 12, &[1])),
        ("no-network-input-max", "field", 14, forged(&trees, 14, &[9])),
        ("no-network-layers", "field", 20, forged(&trees, 20, &[1])),
        ("trees-schema", "schema", block, forged(&trees, block, &[1])),
        ("trees-base", "field", block + 4, forged(&trees, block + 4, &[1, 0, 0, 0x40])),
        ("trees-feature", "field", block + 8, forged(&trees, block + 8, &[16])),
        ("trees-threshold", "field", both_block + 391, forged(&both, both_block + 391, &[64])),
    ];
    let mut cases: Vec<Case> =
        cases.into_iter().map(|(name, fault, offset, bytes)| (name.to_string(), fault, offset, bytes)).collect();
    cases.extend(damaged_predictions(&both, &mut chance));
    cases
}

/// The names of all files.
pub fn names() -> BTreeSet<String> {
    cases().into_iter().map(|(name, ..)| format!("{name}.txt")).collect()
}

#[test]
fn damaged_model_files() {
    for (name, fault, offset, bytes) in cases() {
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
