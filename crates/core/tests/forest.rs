// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forests: the golden files, every truncation and flipped bit, trees from scikit-learn's arrays, and the writer.

use crate::common;

use linnet_core::{Error, Forest, ForestOutput, ModelFault, RegressionTree, SCHEMA_PLACE1};

/// Lines of every file of a folder of `spec/vectors/place`, with its name.
fn files(folder: &str) -> Vec<(String, Vec<String>)> {
    let folder = common::root().join("spec/vectors/place").join(folder);
    let mut found: Vec<(String, Vec<String>)> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            (
                path.display().to_string(),
                text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect(),
            )
        })
        .collect();
    found.sort();
    found
}

fn is_hex(line: &str) -> bool {
    line.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn bytes(lines: &[String]) -> Vec<u8> {
    let hex: String = lines.iter().filter(|line| is_hex(line)).map(String::as_str).collect();
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn words(text: &str) -> Vec<u64> {
    text.split_whitespace().map(|word| u64::from_str_radix(word, 16).unwrap()).collect()
}

#[test]
fn golden_files_predict_the_bits_of_the_reference() {
    let mut cases = 0;
    for (name, lines) in files("models") {
        let forest = Forest::from_bytes(&bytes(&lines)).unwrap();
        assert_eq!(forest.to_bytes(), bytes(&lines));
        let (mut rows, mut expected) = (Vec::new(), Vec::new());
        for line in lines.iter().filter_map(|line| line.strip_prefix("forest ")) {
            let (row, out) = line.split_once('=').unwrap();
            rows.extend(words(row).into_iter().map(|word| f32::from_bits(word as u32)));
            expected.extend(words(out));
            cases += 1;
        }
        let mut out = vec![0.0; expected.len()];
        forest.predict(&rows, &mut out).unwrap();
        assert_eq!(out.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected, "{name}");
    }
    assert_eq!(cases, 4 * 37);
}

#[test]
fn damaged_files_are_refused_as_the_reference_refuses_them() {
    let rejects = files("reject");
    assert!(rejects.len() > 30);
    for (name, lines) in rejects {
        let mut parts = lines[0].split(' ').skip(1);
        let (fault, at) = (parts.next().unwrap(), usize::from_str_radix(parts.next().unwrap(), 16).unwrap());
        match Forest::from_bytes(&bytes(&lines[1..])) {
            Err(Error::Model { fault: found, offset }) => assert_eq!((found.name(), offset), (fault, at), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn no_truncation_and_no_flipped_bit_is_read() {
    let (_, lines) = files("models").remove(1);
    let good = bytes(&lines);
    for end in 0..good.len() {
        assert!(Forest::from_bytes(&good[..end]).is_err(), "{end} bytes");
    }
    for bit in 0..8 * good.len() {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Forest::from_bytes(&bad).is_err(), "bit {bit}");
    }
}

/// x0 <= 0.1, then x1 <= 2: values 1, 2, 4, in scikit-learn's layout.
fn tree() -> RegressionTree {
    let children = ([1, -1, 3, -1, -1], [2, -1, 4, -1, -1]);
    RegressionTree::from_children(
        (&children.0, &children.1),
        &[0, -2, 1, -2, -2],
        &[0.1, -2.0, 2.0, -2.0, -2.0],
        &[9.0, 1.0, 9.0, 2.0, 4.0],
    )
    .unwrap()
}

fn output(name: &str, trees: usize) -> ForestOutput {
    ForestOutput { name: name.into(), trees: vec![tree(); trees] }
}

#[test]
fn trees_of_scikit_learn_keep_their_paths() {
    let forest = Forest::new(SCHEMA_PLACE1, 2, &[output("a", 1), output("b", 3)], 5, 42).unwrap();
    assert_eq!((forest.tree_count(), forest.node_count(), forest.origin()), (4, 20, (5, 42)));
    // The 32-bit number next to 0.1 lies above it.
    let mut out = [0.0; 8];
    forest.predict(&[0.1, 0.0, 0.1f32.next_down(), 0.0, 1.0, 2.0, 1.0, 2.1], &mut out).unwrap();
    assert_eq!(out, [2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]);
}

#[test]
fn the_ends_of_each_range_are_read() {
    let leaf = RegressionTree::from_children((&[-1], &[-1]), &[-2], &[-2.0], &[1.5]).unwrap();
    let of = |schema, inputs, trees| {
        let output = ForestOutput { name: "a".into(), trees: vec![leaf.clone(); trees] };
        Forest::new(schema, inputs, &[output], u64::MAX, 0)
    };
    for (schema, inputs) in [(SCHEMA_PLACE1, 1), (SCHEMA_PLACE1, 254), (0x8000, 1), (u16::MAX, 1)] {
        assert_eq!(of(schema, inputs, 1).unwrap().origin(), (u64::MAX, 0));
    }
    assert!(of(0x7fff, 1, 1).is_err() && of(SCHEMA_PLACE1, 0, 1).is_err());
    let mut out = [0.0];
    of(SCHEMA_PLACE1, 1, 65_536).unwrap().predict(&[0.0], &mut out).unwrap();
    assert_eq!(out, [1.5]);
    assert!(of(SCHEMA_PLACE1, 1, 65_537).is_err());
    // Version 1 of the files had no forests.
    let old = common::forged(of(SCHEMA_PLACE1, 1, 1).unwrap().to_bytes(), 8, &[1]);
    assert_eq!(Forest::from_bytes(&old).unwrap_err(), Error::Model { fault: ModelFault::Kind, offset: 10 });
}

#[test]
fn names_are_letters_digits_and_two_signs() {
    let named = |name: &str| Forest::new(SCHEMA_PLACE1, 2, &[output(name, 1)], 0, 0);
    for name in ["a", "z", "A", "Z", "0", "9", "_", "-", "azAZ09_-", &"x".repeat(40)] {
        assert!(named(name).is_ok(), "{name}");
    }
    // The neighbours of each of them.
    for sign in "`{@[/:^,.".chars() {
        assert!(named(&format!("a{sign}")).is_err(), "{sign}");
    }
}

/// A table that the file has room for is looked at before what is missing behind it.
#[test]
fn tables_at_the_end_of_the_file_are_read() {
    let forest = Forest::new(SCHEMA_PLACE1, 2, &[output("a", 1), output("b", 1)], 0, 0).unwrap();
    let good = forest.to_bytes();
    let cut = |end: usize, at: usize, bytes: &[u8]| {
        let mut file = common::forged(&good[..end + 4], 16, &(end as u32 + 4).to_le_bytes());
        file = common::forged(&file, at, bytes);
        match Forest::from_bytes(&file) {
            Err(Error::Model { fault, offset }) => (fault.name(), offset),
            other => panic!("{other:?}"),
        }
    };
    let (outputs, trees) = (64 + 2 * 48, 64 + 2 * 48 + 2 * 4);
    assert_eq!(cut(outputs - 1, 64, b" "), ("shape", 16));
    assert_eq!(cut(outputs, 64, b" "), ("field", 64));
    assert_eq!(cut(outputs, 64, b"a"), ("shape", 16));
    assert_eq!(cut(trees - 1, outputs, &[2]), ("shape", 16));
    assert_eq!(cut(trees, outputs, &[2]), ("field", outputs));
    assert_eq!(cut(trees, outputs, &[5]), ("shape", 16));
}

#[test]
fn rows_that_are_not_finite_are_refused_with_their_place() {
    let forest = Forest::new(SCHEMA_PLACE1, 2, &[output("a", 1)], 0, 0).unwrap();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let text = forest.predict(&[0.0, 0.0, 0.0, bad], &mut [0.0; 2]).unwrap_err().to_string();
        assert!(text.contains("feature 1 of row 1"), "{text}");
    }
    // Rows are taken in parts.
    let mut rows = vec![0.0; 2 * 70_000];
    rows[2 * 65_537] = f32::NAN;
    let text = forest.predict(&rows, &mut [0.0; 70_000]).unwrap_err().to_string();
    assert!(text.contains("feature 0 of row 65537"), "{text}");
}

#[test]
fn children_that_make_no_tree_are_refused() {
    for (left, right) in [([1, -1, -1], [1, -1, -1]), ([0, -1, -1], [2, -1, -1]), ([1, -1, -1], [7, -1, -1])] {
        let made = RegressionTree::from_children((&left, &right), &[0; 3], &[0.0; 3], &[0.0; 3]);
        let refused = match made {
            Err(_) => true,
            // Node 1 twice is a tree, of which one node is a copy.
            Ok(tree) => tree.node_count() != 3 || left[0] == right[0],
        };
        assert!(refused, "{left:?} {right:?}");
    }
}

#[test]
fn what_a_file_cannot_hold_is_not_written() {
    for (outputs, inputs, word) in [
        (vec![], 2, "no output"),
        (vec![output("", 1)], 2, "range"),
        (vec![output("a b", 1)], 2, "range"),
        (vec![output(&"x".repeat(41), 1)], 2, "more than 40"),
        (vec![output("a", 0)], 2, "no tree"),
        (vec![output("a", 1)], 1, "range"),
        (vec![output("a", 1)], 255, "range"),
    ] {
        let error = Forest::new(SCHEMA_PLACE1, inputs, &outputs, 0, 0).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
