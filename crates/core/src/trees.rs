// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small trees on the features of a [`Watch`](crate::Watch) (`core/trees.c`).

use crate::{BUCKET_MAX, Error, WATCH_FEATURES};

/// Trees of a model; unused ones hold zeros.
pub const TREES: usize = 64;
/// Questions of a tree.
pub const TREE_LEVELS: usize = 3;
/// Leaves of a tree.
pub const TREE_LEAVES: usize = 1 << TREE_LEVELS;
/// A score of 1.0, as an integer.
pub const TREE_ONE: i32 = 1024;

/// One tree: every node of a level asks the same question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The feature that level k asks for, 0..=15.
    pub feature: [u8; TREE_LEVELS],
    /// Level k adds 2^k to the number of the leaf when the feature is greater than this, 0..=63.
    pub threshold: [u8; TREE_LEVELS],
    /// In units of 1 / [`TREE_ONE`].
    pub leaf: [i16; TREE_LEAVES],
}

/// A sum of trees, ready to ask: 1,412 bytes (`struct linnet_trees`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Trees {
    feature: [[u8; TREES]; TREE_LEVELS],
    threshold: [[u8; TREES]; TREE_LEVELS],
    leaf: [[i16; TREE_LEAVES]; TREES],
    base: i32,
}

unsafe extern "C" {
    fn linnet_trees_check(trees: *const Trees) -> i32;
    fn linnet_trees_score(trees: *const Trees, features: *const u8) -> i32;
}

impl Trees {
    /// Trees and the score of a read before any tree has spoken.
    ///
    /// # Errors
    /// [`Error::Shape`] for more than [`TREES`] trees, or a feature, threshold or base out of its range.
    pub fn new(trees: &[Tree], base: i32) -> Result<Trees, Error> {
        if trees.len() > TREES {
            return Err(Error::Shape(format!("{} trees; at most {TREES} fit", trees.len())));
        }
        let mut made = Trees {
            feature: [[0; TREES]; TREE_LEVELS],
            threshold: [[0; TREES]; TREE_LEVELS],
            leaf: [[0; TREE_LEAVES]; TREES],
            base,
        };
        for (number, tree) in trees.iter().enumerate() {
            for level in 0..TREE_LEVELS {
                made.feature[level][number] = tree.feature[level];
                made.threshold[level][number] = tree.threshold[level];
            }
            made.leaf[number] = tree.leaf;
        }
        // SAFETY: `Trees` has the layout of `struct linnet_trees`; so below.
        if unsafe { linnet_trees_check(&made) } < 0 {
            return Err(Error::Shape(format!(
                "a tree asks for a feature above {} or a threshold above {BUCKET_MAX}, or the base {base} leaves 2^30",
                WATCH_FEATURES - 1
            )));
        }
        Ok(made)
    }

    /// One tree; none beyond [`TREES`].
    pub fn tree(&self, number: usize) -> Option<Tree> {
        Some(Tree {
            leaf: *self.leaf.get(number)?,
            feature: self.feature.map(|level| level[number]),
            threshold: self.threshold.map(|level| level[number]),
        })
    }

    /// The score before any tree has spoken.
    pub fn base(&self) -> i32 {
        self.base
    }

    /// The logarithm of the odds that a read will be slow, in units of 1 / [`TREE_ONE`]. Above 0: rather slow than fast.
    pub fn score(&self, features: &[u8; WATCH_FEATURES]) -> i32 {
        // SAFETY: checked by `new`: every feature that is asked for exists.
        unsafe { linnet_trees_score(self, features.as_ptr()) }
    }
}
