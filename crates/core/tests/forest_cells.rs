// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forests against a slow model: drawn trees of every shape in memory of exactly the size that a file asks for, every
//! short list of nodes, and numbers that are not finite in every place.

use crate::common;

use linnet_core::raw::ffi;
use linnet_core::{Error, Forest, ForestOutput, RegressionTree, SCHEMA_PLACE1};
use linnet_sim::Chance;

const LEAF: u8 = 0xff;
/// Fills memory that the core is to write, or to leave alone.
const GUARD: u32 = 0xa5a5_a5a5;
const GUARD_F64: f64 = f64::from_bits(0xa5a5_a5a5_a5a5_a5a5);

enum Node {
    Leaf(f64),
    Split(u8, f32, Box<[Node; 2]>),
}
use Node::{Leaf, Split};

/// How trees are drawn.
#[derive(Clone, Copy)]
struct Shape {
    inputs: u64,
    /// Of a split, where there may be one.
    probability: f64,
    /// Of the smaller subtree of each split.
    side_depth: u32,
}

/// A tree of at most this depth.
fn draw(chance: &mut Chance, shape: Shape, depth: u32) -> Node {
    if depth == 0 || !chance.happens(shape.probability) {
        return Leaf(chance.normal() * 10f64.powi(chance.below(12) as i32 - 3));
    }
    let threshold = match chance.below(8) {
        0 => [0.0, -0.0, f32::MAX, f32::MIN, f32::from_bits(1), -f32::from_bits(1)][chance.below(6) as usize],
        _ => chance.normal() as f32,
    };
    let mut children = [depth - 1, shape.side_depth.min(depth - 1)].map(|depth| draw(chance, shape, depth));
    if chance.happens(0.5) {
        children.swap(0, 1);
    }
    Split(chance.below(shape.inputs) as u8, threshold, Box::new(children))
}

/// Children, feature, threshold and value of each node, in scikit-learn's layout.
#[derive(Default)]
struct Arrays {
    children: [Vec<i64>; 2],
    feature: Vec<i64>,
    threshold: Vec<f64>,
    value: Vec<f64>,
}

impl Node {
    fn predict(&self, row: &[f32]) -> f64 {
        match self {
            Leaf(value) => *value,
            Split(feature, threshold, children) => {
                children[usize::from(row[usize::from(*feature)] > *threshold)].predict(row)
            }
        }
    }

    fn leaves(&self) -> usize {
        match self {
            Leaf(_) => 1,
            Split(.., children) => children.iter().map(Node::leaves).sum(),
        }
    }

    /// Cells of a node at this level: one below each split of every third.
    fn cells(&self, level: usize) -> usize {
        match self {
            Leaf(_) => usize::from(level == 0),
            Split(.., children) => {
                usize::from(level.is_multiple_of(3))
                    + children.iter().map(|child| child.cells(level + 1)).sum::<usize>()
            }
        }
    }

    fn append(&self, to: &mut Arrays) -> i64 {
        let at = to.feature.len();
        to.children.iter_mut().for_each(|children| children.push(-1));
        let (feature, threshold, value) = match self {
            Leaf(value) => (-2, -2.0, *value),
            Split(feature, threshold, _) => (i64::from(*feature), f64::from(*threshold), 0.0),
        };
        to.feature.push(feature);
        to.threshold.push(threshold);
        to.value.push(value);
        if let Split(.., children) = self {
            for (side, child) in children.iter().enumerate() {
                to.children[side][at] = child.append(to);
            }
        }
        at as i64
    }

    fn tree(&self) -> RegressionTree {
        let mut to = Arrays::default();
        self.append(&mut to);
        let [left, right] = &to.children;
        RegressionTree::from_children((left, right), &to.feature, &to.threshold, &to.value).unwrap()
    }

    /// Finds both children of each split, and each leaf, in cells: from split `n` of a cell on. From 7 on, `n - 7` is
    /// an exit.
    fn is_in(&self, forest: &Loaded, cell: usize, n: usize) {
        let own = forest.cells[cell].0;
        if n < 7 {
            let Split(feature, threshold, children) = self else {
                assert_eq!(u32::from(own.feature[n]), forest.raw.inputs, "a leaf lies to the left of what is missing");
                return self.is_in(forest, cell, 2 * n + 1);
            };
            let magnitude = threshold.abs().to_bits() as i32;
            let key = if *threshold < 0.0 { -magnitude } else { magnitude };
            assert_eq!((own.feature[n], own.key[n]), (*feature, key));
            return (0..2).for_each(|side| children[side].is_in(forest, cell, 2 * n + 1 + side));
        }
        let exit = own.exits >> (4 * (n - 7)) & 15;
        match self {
            Leaf(value) => {
                assert!(exit >= 8);
                assert_eq!(forest.values[(own.value + exit - 8) as usize], *value);
            }
            Split(..) => {
                assert!(exit < 8);
                self.is_in(forest, (own.cell + exit) as usize, 0);
            }
        }
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Cell(ffi::ForestCell);

/// A file that the core has loaded, with a guard behind each part of the memory.
struct Loaded {
    raw: ffi::Forest,
    roots: Vec<u32>,
    cells: Vec<Cell>,
    values: Vec<f64>,
}

impl Loaded {
    fn new(bytes: &[u8], trees: &[&Node]) -> (Loaded, ffi::ForestFile) {
        // Behind the file is what no number of it may be.
        let behind = [bytes, &[LEAF; 8]].concat();
        let mut offset = 0;
        // SAFETY: zeros are valid; the core reads the bytes of the file.
        let (file, code) = unsafe {
            let mut file: ffi::ForestFile = std::mem::zeroed();
            let code = ffi::linnet_forest_read(behind.as_ptr(), bytes.len(), &mut file, &mut offset);
            (file, code)
        };
        assert_eq!(code, 0, "at {offset}");
        let leaves = trees.iter().map(|tree| tree.leaves()).sum();
        assert_eq!((file.tree_count as usize, file.value_count as usize), (trees.len(), leaves));
        assert_eq!(file.cell_count as usize, trees.iter().map(|tree| tree.cells(0)).sum::<usize>());
        let cell = ffi::ForestCell {
            key: [GUARD as i32; 7],
            exits: GUARD,
            feature: [GUARD as u8; 8],
            cell: GUARD,
            value: GUARD,
            spare: [GUARD; 4],
        };
        let (roots, cells, values) = (std::ptr::null(), std::ptr::null(), std::ptr::null());
        let mut loaded = Loaded {
            raw: ffi::Forest { inputs: GUARD, outputs: GUARD, roots, cells, values, first: [GUARD; _] },
            roots: vec![GUARD; trees.len() + 1],
            cells: vec![Cell(cell); file.cell_count as usize + 1],
            values: vec![GUARD_F64; leaves + 1],
        };
        let (roots, values) = (loaded.roots.as_mut_ptr(), loaded.values.as_mut_ptr());
        // SAFETY: the memory has what the file asks for and more.
        unsafe {
            ffi::linnet_forest_load(&file, roots, loaded.cells.as_mut_ptr().cast(), values, &mut loaded.raw);
        }
        assert_eq!((loaded.roots.pop(), loaded.values.pop()), (Some(GUARD), Some(GUARD_F64)));
        let Cell(last) = loaded.cells.pop().unwrap();
        assert_eq!((last.key, last.exits, last.feature), (cell.key, cell.exits, cell.feature));
        assert_eq!((last.cell, last.value, last.spare), (cell.cell, cell.value, cell.spare));
        (loaded, file)
    }

    /// Predicts the rows at once. Behind them is what no row may have.
    fn predict(&self, rows: &[f32]) -> Vec<f64> {
        let (inputs, outputs) = (self.raw.inputs as usize, self.raw.outputs as usize);
        let (count, rows) = (rows.len() / inputs, [rows, &[f32::NAN]].concat());
        let mut scratch = vec![GUARD as i32; 16 * (inputs + 1) + 1];
        let mut out = vec![GUARD_F64; count * outputs + 1];
        // SAFETY: the memory has the size of the header and more.
        let code = unsafe {
            let (scratch, out) = (scratch.as_mut_ptr(), out.as_mut_ptr());
            ffi::linnet_forest_predict(&self.raw, rows.as_ptr(), count as u32, scratch, out)
        };
        assert_eq!((code, scratch.pop(), out.pop()), (0, Some(GUARD as i32), Some(GUARD_F64)));
        out
    }
}

/// Trees, or rows, of which sixteen are evaluated together.
fn together(chance: &mut Chance) -> usize {
    [1, 2, 15, 16, 17, 31, 32, 33][chance.below(8) as usize]
}

/// Forests of one output and of many, with trees from one leaf to chains of 40 levels.
#[test]
fn drawn_forests_are_loaded_and_predict_as_their_trees() {
    for case in 0..40 {
        let mut chance = Chance::new(case);
        let inputs = [1, 2, 7, 254][case as usize % 4];
        let counts: Vec<usize> = match case {
            0 => vec![1; 64],
            _ => (0..1 + chance.below(4)).map(|_| together(&mut chance)).collect(),
        };
        let outputs: Vec<Vec<Node>> = counts
            .iter()
            .map(|&count| {
                let tree = |_| {
                    let (probability, side_depth, depth) =
                        [(1.0, 5, 5), (1.0, 1, 40), (0.9, 3, 9), (0.6, 12, 12)][chance.below(4) as usize];
                    let depth = chance.below(depth + 1) as u32;
                    draw(&mut chance, Shape { inputs, probability, side_depth }, depth)
                };
                (0..count).map(tree).collect()
            })
            .collect();
        let written =
            |trees: &Vec<Node>| ForestOutput { name: "a".into(), trees: trees.iter().map(Node::tree).collect() };
        let schema = [SCHEMA_PLACE1, 0x8123][case as usize % 2];
        let whole: Vec<ForestOutput> = outputs.iter().map(written).collect();
        let made = Forest::new(schema, inputs as usize, &whole, 5 << 32 | case, 6 << 32 | case).unwrap();
        let trees: Vec<&Node> = outputs.iter().flatten().collect();
        let (loaded, file) = Loaded::new(made.to_bytes(), &trees);

        assert_eq!((file.schema, u64::from(file.inputs), file.outputs as usize), (schema, inputs, outputs.len()));
        assert_eq!(
            (file.rows, file.seed, file.node_count as usize),
            (5 << 32 | case, 6 << 32 | case, made.node_count())
        );
        assert_eq!((u64::from(loaded.raw.inputs), loaded.raw.outputs as usize), (inputs, outputs.len()));
        let mut first = [0; 65];
        for (output, count) in counts.iter().enumerate() {
            first[output + 1] = first[output] + *count as u32;
        }
        assert_eq!(loaded.raw.first, first);
        for (tree, root) in trees.iter().zip(&loaded.roots) {
            tree.is_in(&loaded, *root as usize, 0);
        }
        for Cell(cell) in &loaded.cells {
            assert_eq!((cell.feature[7], cell.spare), (0, [0; 4]), "what a cell does not use");
        }

        let count = together(&mut chance);
        let rows: Vec<f32> = (0..count * inputs as usize).map(|_| chance.normal() as f32).collect();
        let expected = rows.chunks(inputs as usize).flat_map(|row| {
            let mean = |trees: &Vec<Node>| trees.iter().map(|tree| tree.predict(row)).sum::<f64>() / trees.len() as f64;
            outputs.iter().map(mean).collect::<Vec<_>>()
        });
        assert_eq!(loaded.predict(&rows), expected.collect::<Vec<_>>());
    }
}

/// The fault of a file, and where it is.
fn fault(bytes: &[u8]) -> Option<(&'static str, usize)> {
    match Forest::from_bytes(bytes) {
        Ok(_) => None,
        Err(Error::Model { fault, offset }) => Some((fault.name(), offset)),
        Err(other) => panic!("{other:?}"),
    }
}

/// A tree that goes right at every split.
fn chain(splits: usize) -> RegressionTree {
    let tree = (0..splits).fold(Leaf(1.5), |tree, _| Split(1, 0.25, Box::new([Leaf(0.5), tree])));
    tree.tree()
}

fn file(trees: Vec<RegressionTree>) -> Vec<u8> {
    let output = ForestOutput { name: "a".into(), trees };
    Forest::new(SCHEMA_PLACE1, 2, &[output], 0, 0).unwrap().to_bytes().to_vec()
}

/// Bytes before the nodes of a file of two trees.
const NODES: usize = 64 + 48 + 2 * 4;

#[test]
fn every_short_list_of_nodes_is_a_tree_or_is_refused_where_it_is_none() {
    for count in [1, 3, 5, 7] {
        let good = file(vec![chain(2), chain(count / 2)]);
        for mut number in 0..3usize.pow(count as u32) {
            let mut nodes = vec![LEAF; count];
            for node in &mut nodes {
                // Feature 2 of two is out of range.
                *node = [LEAF, 1, 2][number % 3];
                number /= 3;
            }
            let (mut waiting, mut expected) = (1, None);
            for (at, &node) in nodes.iter().enumerate() {
                match (waiting, node) {
                    (0, _) => expected = expected.or(Some(("shape", at))),
                    (_, LEAF) => waiting -= 1,
                    (_, 1) => waiting += 1,
                    _ => expected = expected.or(Some(("field", at))),
                }
            }
            if waiting > 0 {
                expected = expected.or(Some(("shape", count - 1)));
            }
            let place = NODES + 5;
            let expected = expected.map(|(fault, at)| (fault, place + at));
            assert_eq!(fault(&common::forged(&good, place, &nodes)), expected, "{nodes:x?}");
        }
    }
}

#[test]
fn numbers_that_are_not_finite_are_found_in_every_place() {
    let good = file(vec![chain(2), chain(3)]);
    let thresholds = NODES + 5 + 7;
    let values = thresholds + 4 * 5;
    for at in (thresholds..values).step_by(4) {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(0xff80_0001)] {
            assert_eq!(fault(&common::forged(&good, at, &bad.to_le_bytes())), Some(("field", at)));
        }
        for fine in [f32::MAX, f32::MIN, -0.0, f32::from_bits(1)] {
            assert_eq!(fault(&common::forged(&good, at, &fine.to_le_bytes())), None);
        }
    }
    for at in (values..values + 8 * 7).step_by(8) {
        for bad in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::from_bits(0xfff0_0000_0000_0001)] {
            assert_eq!(fault(&common::forged(&good, at, &bad.to_le_bytes())), Some(("field", at)));
        }
        // The last two would be infinite if their halves were thresholds.
        for fine in [f64::MAX, f64::MIN, -0.0, f64::from_bits(0x7f80_0000_0000_0000), f64::from_bits(0x7f80_0000)] {
            assert_eq!(fault(&common::forged(&good, at, &fine.to_le_bytes())), None);
        }
    }
}

/// A tree of the most nodes is refused for what is missing of it, and not for their number.
#[test]
fn a_tree_may_have_as_many_nodes_as_the_specification_says() {
    let good = file(vec![chain(2), chain(3)]);
    for (nodes, expected) in [((1u32 << 24) - 1, ("shape", 16)), ((1 << 24) + 1, ("field", NODES - 4))] {
        assert_eq!(fault(&common::forged(&good, NODES - 4, &nodes.to_le_bytes())), Some(expected));
    }
}
