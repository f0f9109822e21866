// SPDX-License-Identifier: MIT OR Apache-2.0
//! One decision tree: its nodes, a table that evaluates all questions at once, and its induction (`core/tree.c`,
//! `core/cart.c`). The sum of small trees of an admission model is [`crate::Trees`].

use crate::memory::Memory;
use crate::normaliser::KNOB_INPUTS_MAX;
use crate::{Error, ffi};

/// A node in pre-order (`struct linnet_tree_node`): the left child follows its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TreeNode {
    pub(crate) word: u32,
    pub(crate) feature: u16,
    pub(crate) right: u16,
}

impl TreeNode {
    /// A row goes left if `feature` is at most `threshold`, otherwise to node `right`.
    pub fn split(feature: u16, threshold: f32, right: u16) -> TreeNode {
        TreeNode { word: threshold.to_bits(), feature, right }
    }

    /// A leaf: a class, and its share of the rows in this leaf, in millionths.
    pub fn leaf(class: u16, share_ppm: u32) -> TreeNode {
        TreeNode { word: share_ppm, feature: ffi::TREE_LEAF, right: class }
    }

    /// The right child of a split, or the class of a leaf.
    pub fn right(&self) -> u16 {
        self.right
    }

    /// The feature and threshold of a split.
    pub fn question(&self) -> Option<(usize, f32)> {
        (self.feature != ffi::TREE_LEAF).then(|| (usize::from(self.feature), f32::from_bits(self.word)))
    }
}

/// Limits of an induction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CartOptions {
    /// Maximum number of splits between the root and a leaf, 1..=64.
    pub depth_max: usize,
    /// Minimum number of rows in a leaf, 1 or more.
    pub leaf_rows: usize,
    /// Maximum number of leaves, 2..=2048; trees of up to 32 have a fast table.
    pub leaves_max: usize,
}

impl Default for CartOptions {
    fn default() -> CartOptions {
        CartOptions { depth_max: 9, leaf_rows: 1, leaves_max: 32 }
    }
}

/// A tree that predicts one of several classes.
#[derive(Clone)]
pub struct DecisionTree {
    nodes: Vec<TreeNode>,
    inputs: usize,
    classes: usize,
    fast: Option<Box<ffi::FastTree>>,
}

impl DecisionTree {
    /// A tree of these nodes, in pre-order.
    pub fn from_nodes(nodes: Vec<TreeNode>, inputs: usize, classes: usize) -> Result<DecisionTree, Error> {
        let (count, mut at) = (nodes.len(), 0);
        if count > ffi::TREE_NODES_MAX || inputs >= usize::from(ffi::TREE_LEAF) || classes > ffi::TREE_CLASSES_MAX {
            return Err(Error::Shape(format!(
                "a tree of {count} nodes on {inputs} features of {classes} classes, where {} nodes, {} features and {} \
                 classes are allowed",
                ffi::TREE_NODES_MAX,
                ffi::TREE_LEAF - 1,
                ffi::TREE_CLASSES_MAX
            )));
        }
        // SAFETY: the count is that of the nodes.
        let code =
            unsafe { ffi::linnet_tree_check(nodes.as_ptr(), count as u32, inputs as u32, classes as u32, &mut at) };
        match code {
            0 => {}
            ffi::E_RANGE => {
                return Err(Error::Shape(format!(
                    "node {at} of a tree: feature, threshold, class or share out of range"
                )));
            }
            _ => {
                return Err(Error::Shape(format!(
                    "node {at} of a tree: not in pre-order, or below more than {} left turns",
                    ffi::TREE_DEPTH_MAX
                )));
            }
        }
        // SAFETY: zeros are a valid `ffi::FastTree`; the nodes passed the check.
        let fast = unsafe {
            let mut fast: Box<ffi::FastTree> = Box::new(std::mem::zeroed());
            let code = ffi::linnet_fast_tree_init(&mut *fast, nodes.as_ptr(), count as u32, inputs as u32);
            (code == 0).then_some(fast)
        };
        Ok(DecisionTree { nodes, inputs, classes, fast })
    }

    /// A tree in scikit-learn's layout: children by number, -1 below a leaf, and for each node its class and the share
    /// of that class, to the nearest of 0 to 1. Thresholds are rounded down to 32 bits, so that 32-bit values take the same
    /// path.
    ///
    /// # Errors
    /// [`Error::Shape`]: arrays of different lengths, children that make no tree, a feature, threshold or class out of range,
    /// or a share that is NaN.
    pub fn from_children(
        children: (&[i64], &[i64]),
        feature: &[i64],
        threshold: &[f64],
        leaves: &[(usize, f64)],
        inputs: usize,
        classes: usize,
    ) -> Result<DecisionTree, Error> {
        let (left, right) = children;
        let count = left.len();
        if [right.len(), feature.len(), threshold.len(), leaves.len()] != [count; 4] {
            return Err(Error::Shape("the arrays of a tree differ in length".into()));
        }
        if count > ffi::TREE_NODES_MAX {
            return Err(Error::Shape(format!("a tree of {count} nodes, where {} are allowed", ffi::TREE_NODES_MAX)));
        }
        let mut nodes: Vec<TreeNode> = Vec::with_capacity(count);
        // Nodes that have not been visited, with the node whose right child each is.
        let mut waiting = vec![(0i64, None::<usize>)];
        while let Some((number, parent)) = waiting.pop() {
            let Some(from) = usize::try_from(number).ok().filter(|&from| from < count && nodes.len() < count) else {
                return Err(Error::Shape(format!("a child of a tree is node {number} of {count}, or has two parents")));
            };
            if let Some(parent) = parent {
                nodes[parent].right = nodes.len() as u16;
            }
            if left[from] < 0 {
                let (class, share) = leaves[from];
                let class = u16::try_from(class).ok().filter(|_| !share.is_nan()).ok_or_else(|| {
                    Error::Shape(format!("node {from} of a tree has a share of {share} of class {class}"))
                })?;
                nodes.push(TreeNode::leaf(class, (share.clamp(0.0, 1.0) * 1e6).round() as u32));
                continue;
            }
            let feature = u16::try_from(feature[from])
                .map_err(|_| Error::Shape(format!("node {from} of a tree asks for feature {}", feature[from])))?;
            waiting.push((right[from], Some(nodes.len())));
            waiting.push((left[from], None));
            nodes.push(TreeNode::split(feature, rounded_down(threshold[from]), 0));
        }
        DecisionTree::from_nodes(nodes, inputs, classes)
    }

    /// Induces a tree: `rows` holds `inputs` numbers for each class in `classes`, of which there are `class_count`.
    /// `go_on` is asked before each split, the best first; the tree is what has grown when it returns false.
    ///
    /// # Errors
    /// [`Error::Training`] for limits or rows out of bounds, and for a number that is not finite.
    pub fn fit(
        options: &CartOptions,
        inputs: usize,
        rows: &[f32],
        classes: &[u8],
        class_count: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<DecisionTree, Error> {
        if inputs == 0 || rows.len() != inputs * classes.len() || classes.is_empty() {
            return Err(Error::Training(format!(
                "{} numbers in rows of {inputs} and {} classes do not pair",
                rows.len(),
                classes.len()
            )));
        }
        if classes.len() > ffi::CART_ROWS_MAX {
            return Err(Error::Training(format!("{} rows, where {} are allowed", classes.len(), ffi::CART_ROWS_MAX)));
        }
        // Each split makes one leaf of two. A limit beyond every number is out of bounds, as is one below 1.
        let nodes_max = options.leaves_max.checked_mul(2).and_then(|twice| twice.checked_sub(1)).unwrap_or(usize::MAX);
        let c_options = ffi::CartOptions {
            depth_max: u32::try_from(options.depth_max).unwrap_or(u32::MAX),
            leaf_rows: u32::try_from(options.leaf_rows).unwrap_or(u32::MAX),
            nodes_max: u32::try_from(nodes_max).unwrap_or(u32::MAX),
            classes: u32::try_from(class_count).unwrap_or(u32::MAX),
        };
        let count = classes.len() as u32;
        let mut nodes = vec![TreeNode::default(); ffi::TREE_NODES_MAX.min(nodes_max)];
        // SAFETY: rows and classes have the same length; nodes hold as many as the options allow; memory has the size
        // that C requires, and the tree grows only once it has begun.
        let made = unsafe {
            let mut memory = Memory::new(ffi::linnet_cart_size(count));
            let begun = ffi::linnet_cart_begin(
                &c_options,
                rows.as_ptr(),
                classes.as_ptr(),
                count,
                u32::try_from(inputs).unwrap_or(u32::MAX),
                memory.as_mut_ptr(),
                memory.size(),
            );
            if begun < 0 {
                begun
            } else {
                while go_on() && ffi::linnet_cart_grow(memory.as_mut_ptr()) > 0 {}
                ffi::linnet_cart_end(memory.as_mut_ptr(), nodes.as_mut_ptr())
            }
        };
        match made {
            ffi::E_INPUT => {
                Err(Error::Training(format!("a number is not finite, or a class is not below {class_count}")))
            }
            made if made < 0 => Err(Error::Training(format!(
                "{options:?} on {inputs} features and {class_count} classes is out of bounds"
            ))),
            made => {
                nodes.truncate(made as usize);
                DecisionTree::from_nodes(nodes, inputs, class_count)
            }
        }
    }

    fn leaf(&self, row: &[f32]) -> &TreeNode {
        assert_eq!(row.len(), self.inputs, "features of a row");
        match &self.fast {
            // SAFETY: the row has all features that the nodes use; the table refers to nodes of this tree.
            Some(fast) => &self.nodes[unsafe { ffi::linnet_fast_tree_leaf(&**fast, row.as_ptr()) } as usize],
            None => self.walk(row),
        }
    }

    /// The leaf of a row, found by walking from the root. The table must give the same leaf.
    pub(crate) fn walk(&self, row: &[f32]) -> &TreeNode {
        assert_eq!(row.len(), self.inputs, "features of a row");
        // SAFETY: as above; the leaf is one of the nodes.
        unsafe { &*ffi::linnet_tree_leaf(self.nodes.as_ptr(), row.as_ptr()) }
    }

    /// The class of a row.
    ///
    /// # Panics
    /// If the row does not have as many numbers as the tree has features; so below.
    pub fn predict(&self, row: &[f32]) -> usize {
        usize::from(self.leaf(row).right)
    }

    /// The class of a row, and the share of that class among the training rows of its leaf.
    pub fn classify(&self, row: &[f32]) -> (usize, f64) {
        let leaf = self.leaf(row);
        (usize::from(leaf.right), f64::from(leaf.word) / 1e6)
    }

    /// The class of each of the rows that follow each other in `rows`.
    ///
    /// # Errors
    /// [`Error::Input`]: a number that is not finite. For single rows NaN is below everything, as in the kernel.
    pub fn predict_rows(&self, rows: &[f32]) -> Result<Vec<usize>, Error> {
        if rows.iter().any(|number| !number.is_finite()) {
            return Err(Error::not_finite(rows, self.inputs, 0));
        }
        Ok(rows.chunks_exact(self.inputs).map(|row| self.predict(row)).collect())
    }

    /// The nodes, in pre-order.
    pub fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }

    /// Features of a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of classes; the tree may predict fewer.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Whether the tree has a table: at most 32 leaves, [`KNOB_INPUTS_MAX`] features and 16 questions.
    pub fn is_fast(&self) -> bool {
        self.fast.is_some() && self.inputs <= KNOB_INPUTS_MAX
    }

    /// Bytes of nodes and table.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.nodes[..]) + self.fast.as_ref().map_or(0, |_| size_of::<ffi::FastTree>())
    }
}

impl PartialEq for DecisionTree {
    fn eq(&self, other: &DecisionTree) -> bool {
        (&self.nodes, self.inputs, self.classes) == (&other.nodes, other.inputs, other.classes)
    }
}

impl std::fmt::Debug for DecisionTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (nodes, inputs, classes) = (self.nodes.len(), self.inputs, self.classes);
        write!(f, "DecisionTree {{ nodes: {nodes}, inputs: {inputs}, classes: {classes} }}")
    }
}

/// The largest 32-bit float that is at most `x`.
pub(crate) fn rounded_down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}
