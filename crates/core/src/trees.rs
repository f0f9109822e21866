// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small trees on the features of an [`InflightTracker`](crate::InflightTracker) (`core/trees.c`).

use crate::{BUCKET_MAX, Error, INFLIGHT_FEATURES, Schema, ffi};

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
    /// The feature that level k tests, 0..=15.
    pub feature: [u8; TREE_LEVELS],
    /// Level k adds 2^k to the number of the leaf if the feature is greater than this, 0..=63.
    pub threshold: [u8; TREE_LEVELS],
    /// Values in units of 1 / [`TREE_ONE`].
    pub leaf: [i16; TREE_LEAVES],
}

/// A sum of trees in the core's layout: 1,416 bytes (`struct linnet_trees`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Trees {
    feature: [[u8; TREES]; TREE_LEVELS],
    threshold: [[u8; TREES]; TREE_LEVELS],
    leaf: [[i16; TREE_LEAVES]; TREES],
    base: i32,
    schema: u16,
    slow_score: i16,
}

impl Trees {
    /// A sum of these trees, on features of `linnet-1`, and `base`, the score that the leaves are added to.
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
            schema: Schema::Linnet1 as u16,
            slow_score: 0,
        };
        for (number, tree) in trees.iter().enumerate() {
            for level in 0..TREE_LEVELS {
                made.feature[level][number] = tree.feature[level];
                made.threshold[level][number] = tree.threshold[level];
            }
            made.leaf[number] = tree.leaf;
        }
        // SAFETY: `Trees` has the layout of `struct linnet_trees`; so below.
        if unsafe { ffi::linnet_trees_check(&made) } < 0 {
            return Err(Error::Shape(format!(
                "a tree asks for a feature above {} or a threshold above {BUCKET_MAX}, or the base {base} leaves 2^30",
                INFLIGHT_FEATURES - 1
            )));
        }
        Ok(made)
    }

    /// The same trees on features of this schema.
    #[must_use]
    pub fn on(self, schema: Schema) -> Trees {
        Trees { schema: schema as u16, ..self }
    }

    /// The same trees, to which a read is slow above this score, limited to 16 bits: it may then be revoked. The choice
    /// among replicas does not depend on it.
    #[must_use]
    pub fn with_slow_score(self, above: i32) -> Trees {
        Trees { slow_score: above.clamp(i16::MIN.into(), i16::MAX.into()) as i16, ..self }
    }

    /// The score above which a read is slow, 0 for even odds.
    pub fn slow_score(&self) -> i32 {
        self.slow_score.into()
    }

    /// The schema of the features that they compare.
    pub fn schema(&self) -> Schema {
        if self.schema == Schema::Linnet2 as u16 { Schema::Linnet2 } else { Schema::Linnet1 }
    }

    /// One tree; `None` for a number of [`TREES`] or more.
    pub fn tree(&self, number: usize) -> Option<Tree> {
        Some(Tree {
            leaf: *self.leaf.get(number)?,
            feature: self.feature.map(|level| level[number]),
            threshold: self.threshold.map(|level| level[number]),
        })
    }

    /// Writes the block of a model file (`spec/model-file.md`).
    pub(crate) fn write(&self, file: &mut Vec<u8>) {
        file.extend(self.schema.to_le_bytes());
        file.extend(self.slow_score.to_le_bytes());
        file.extend(self.base.to_le_bytes());
        file.extend(self.feature.as_flattened());
        file.extend(self.threshold.as_flattened());
        self.leaf.as_flattened().iter().for_each(|leaf| file.extend(leaf.to_le_bytes()));
    }

    /// The score that the leaves are added to.
    pub fn base(&self) -> i32 {
        self.base
    }

    /// The logarithm of the odds that a read will be slow, in units of 1 / [`TREE_ONE`]. Above 0 slow is more likely
    /// than fast. Features are those of an in-flight tracker: 0..=63. Larger ones give an unspecified score.
    pub fn score(&self, features: &[u8; INFLIGHT_FEATURES]) -> i32 {
        // SAFETY: `new` checked that every tested feature exists, and the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instructions, as was just seen; `new` checked every tested feature.
            return unsafe { ffi::linnet_trees_score_avx2(self, features.as_ptr()) };
        }
        // SAFETY: as above.
        unsafe { ffi::linnet_trees_score(self, features.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_build_gives_the_same_score() {
        let mut state = 1u64;
        let mut draw = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for _ in 0..200 {
            let trees: Vec<Tree> = (0..TREES)
                .map(|_| Tree {
                    feature: std::array::from_fn(|_| draw(16) as u8),
                    threshold: std::array::from_fn(|_| draw(64) as u8),
                    leaf: std::array::from_fn(|_| draw(65_536) as u16 as i16),
                })
                .collect();
            let trees = Trees::new(&trees, draw(1 << 30) as i32).expect("in range");
            let features = std::array::from_fn(|_| draw(64) as u8);
            // SAFETY: checked trees.
            let portable = unsafe { ffi::linnet_trees_score(&trees, features.as_ptr()) };
            assert_eq!(trees.score(&features), portable);
        }
    }
}
