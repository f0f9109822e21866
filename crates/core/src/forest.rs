// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forests of regression trees that predict interference, and their file (`spec/forest.md`), which `core/forest.c`
//! reads and evaluates.

use crate::memory::Memory;
use crate::{Error, envelope, ffi};

/// Schema of a tenant's profile and the aggregate of its neighbours.
pub const SCHEMA_PLACE1: u16 = ffi::SCHEMA_PLACE1;
/// Most features of a row.
pub const FOREST_INPUTS_MAX: usize = ffi::FOREST_INPUTS_MAX;
/// Most outputs (metrics) of a file.
pub const FOREST_OUTPUTS_MAX: usize = ffi::FOREST_OUTPUTS_MAX;
const LEAF: u8 = 0xff;
const OUTPUT_BYTES: usize = ffi::FOREST_NAME + 8;

/// A regression tree as the file has it: nodes by their distance from the root.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegressionTree {
    /// The feature of each split, 255 of a leaf.
    features: Vec<u8>,
    thresholds: Vec<f32>,
    values: Vec<f64>,
}

impl RegressionTree {
    /// A tree in scikit-learn's layout: children by number, -1 below a leaf, and a value for each node. Thresholds are
    /// rounded down to 32 bits, so that 32-bit rows, which scikit-learn uses, take the same path.
    ///
    /// # Errors
    /// [`Error::Shape`]: arrays of different lengths, children that make no tree, or a feature out of range.
    pub fn from_children(
        children: (&[i64], &[i64]),
        feature: &[i64],
        threshold: &[f64],
        value: &[f64],
    ) -> Result<RegressionTree, Error> {
        let (left, right) = children;
        let count = left.len();
        if [right.len(), feature.len(), threshold.len(), value.len()] != [count; 4] {
            return Err(Error::Shape("the arrays of a tree differ in length".into()));
        }
        let mut tree = RegressionTree::default();
        let mut order = std::collections::VecDeque::from([0i64]);
        while let Some(number) = order.pop_front() {
            let place = usize::try_from(number).ok().filter(|&at| at < count && tree.features.len() < count);
            let Some(at) = place else {
                return Err(Error::Shape(format!("a child of a tree is node {number} of {count}, or has two parents")));
            };
            if left[at] < 0 {
                tree.features.push(LEAF);
                tree.values.push(value[at]);
                continue;
            }
            let own = u8::try_from(feature[at]).ok().filter(|&own| usize::from(own) < FOREST_INPUTS_MAX);
            tree.features.push(own.ok_or_else(|| {
                Error::Shape(format!(
                    "node {at} of a tree asks for feature {}, where {FOREST_INPUTS_MAX} are allowed",
                    feature[at]
                ))
            })?);
            tree.thresholds.push(crate::tree::rounded_down(threshold[at]));
            order.extend([left[at], right[at]]);
        }
        Ok(tree)
    }

    /// Splits and leaves.
    pub fn node_count(&self) -> usize {
        self.features.len()
    }
}

/// One metric: its name, and the trees whose mean predicts it.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestOutput {
    /// Letters, digits, `_` and `-`; at most 40.
    pub name: String,
    /// Trees, in the order in which they are added.
    pub trees: Vec<RegressionTree>,
}

/// Forests that predict several metrics of a row.
pub struct Forest {
    schema: u16,
    rows: u64,
    seed: u64,
    names: Vec<String>,
    bytes: Vec<u8>,
    nodes: usize,
    // What `raw` points to.
    _roots: Vec<u32>,
    _cells: Memory,
    _values: Vec<f64>,
    raw: ffi::Forest,
}

// SAFETY: `raw` points to the heap memory of the vectors beside it, which nothing changes.
unsafe impl Send for Forest {}
// SAFETY: as above.
unsafe impl Sync for Forest {}

impl Forest {
    /// Forests of these outputs on rows of `inputs` features. `rows` and `seed` say what they were trained on.
    ///
    /// # Errors
    /// [`Error::Unwritable`], as the file would be refused.
    pub fn new(schema: u16, inputs: usize, outputs: &[ForestOutput], rows: u64, seed: u64) -> Result<Forest, Error> {
        let refuse = |text: String| Err(Error::Unwritable(text));
        let Ok(inputs) = u16::try_from(inputs) else {
            return refuse(format!("{inputs} features, where {FOREST_INPUTS_MAX} are allowed"));
        };
        if outputs.is_empty() {
            return refuse("it has no output".into());
        }
        let trees: Vec<&RegressionTree> = outputs.iter().flat_map(|output| &output.trees).collect();
        let nodes: usize = trees.iter().map(|tree| tree.node_count()).sum();
        let mut file = envelope::begin(ffi::KIND_FOREST, schema, inputs);
        for number in [outputs.len(), trees.len(), nodes] {
            let Ok(number) = u32::try_from(number) else { return refuse("it has more than 2^32 nodes".into()) };
            file.extend(number.to_le_bytes());
        }
        file.extend(rows.to_le_bytes());
        file.extend(seed.to_le_bytes());
        file.extend([0; 16]);
        for output in outputs {
            if output.trees.is_empty() {
                return refuse(format!("the output {} has no tree", output.name));
            }
            if output.name.len() > ffi::FOREST_NAME {
                return refuse(format!("the name {} has more than {} bytes", output.name, ffi::FOREST_NAME));
            }
            file.extend(output.name.as_bytes());
            file.extend(std::iter::repeat_n(0, ffi::FOREST_NAME - output.name.len()));
            file.extend((output.trees.len() as u32).to_le_bytes());
            file.extend([0; 4]);
        }
        trees.iter().for_each(|tree| file.extend((tree.node_count() as u32).to_le_bytes()));
        trees.iter().for_each(|tree| file.extend(&tree.features));
        trees.iter().for_each(|tree| tree.thresholds.iter().for_each(|number| file.extend(number.to_le_bytes())));
        trees.iter().for_each(|tree| tree.values.iter().for_each(|number| file.extend(number.to_le_bytes())));
        Forest::read(envelope::seal(file)?).or_else(|error| refuse(error.to_string()))
    }

    /// Reads a file of kind 3. Errors give the kind and place of a fault.
    ///
    /// # Errors
    /// [`Error::Model`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Forest, Error> {
        Forest::read(bytes.to_vec())
    }

    fn read(bytes: Vec<u8>) -> Result<Forest, Error> {
        // SAFETY: C reads at most `len` bytes; zeros are a valid `ffi::ForestFile` and `ffi::Forest`; the vectors have
        // the sizes that the file gives.
        unsafe {
            let mut file: ffi::ForestFile = std::mem::zeroed();
            let mut offset = 0;
            let code = ffi::linnet_forest_read(bytes.as_ptr(), bytes.len(), &mut file, &mut offset);
            if code < 0 {
                return Err(Error::of_model(code, offset));
            }
            let mut roots = vec![0; file.tree_count as usize];
            let mut cells = Memory::new(file.cell_count as usize * size_of::<ffi::ForestCell>());
            let mut values = vec![0.0; file.value_count as usize];
            let mut raw: ffi::Forest = std::mem::zeroed();
            let cell = cells.as_mut_ptr().cast();
            ffi::linnet_forest_load(&file, roots.as_mut_ptr(), cell, values.as_mut_ptr(), &mut raw);
            let table = std::slice::from_raw_parts(file.names, file.outputs as usize * OUTPUT_BYTES);
            let names = table.chunks_exact(OUTPUT_BYTES).map(|entry| {
                let name = entry[..ffi::FOREST_NAME].split(|&byte| byte == 0).next().unwrap_or_default();
                String::from_utf8_lossy(name).into_owned()
            });
            let names = names.collect();
            let (schema, rows, seed, nodes) = (file.schema, file.rows, file.seed, file.node_count as usize);
            Ok(Forest { schema, rows, seed, names, bytes, nodes, _roots: roots, _cells: cells, _values: values, raw })
        }
    }

    /// The file.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Schema of the features: [`SCHEMA_PLACE1`], or the caller's own from 0x8000 up.
    pub fn schema(&self) -> u16 {
        self.schema
    }

    /// Features of a row.
    pub fn inputs(&self) -> usize {
        self.raw.inputs as usize
    }

    /// Names of the outputs, in the order of a prediction.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Trees of all outputs.
    pub fn tree_count(&self) -> usize {
        self.raw.first[self.raw.outputs as usize] as usize
    }

    /// Nodes of all trees, leaves included.
    pub fn node_count(&self) -> usize {
        self.nodes
    }

    /// Rows that it was trained on, and the seed of the training.
    pub fn origin(&self) -> (u64, u64) {
        (self.rows, self.seed)
    }

    /// Predicts all outputs of rows that follow each other in `rows`: `out` has as many numbers for each row as there
    /// are outputs.
    ///
    /// # Errors
    /// [`Error::Input`]: a number that is not finite.
    ///
    /// # Panics
    /// If the lengths do not fit each other.
    pub fn predict(&self, rows: &[f32], out: &mut [f64]) -> Result<(), Error> {
        let (inputs, outputs) = (self.inputs(), self.names.len());
        let count = rows.len() / inputs;
        assert_eq!((count * inputs, count * outputs), (rows.len(), out.len()), "numbers of rows and outputs");
        let mut scratch = vec![0i32; ffi::FOREST_ROWS * (inputs + 1)];
        for (part, (rows, out)) in rows.chunks(inputs << 16).zip(out.chunks_mut(outputs << 16)).enumerate() {
            let count = (rows.len() / inputs) as u32;
            // SAFETY: the lengths were checked; scratch has what the header asks for.
            let code = unsafe {
                ffi::linnet_forest_predict(&self.raw, rows.as_ptr(), count, scratch.as_mut_ptr(), out.as_mut_ptr())
            };
            if code < 0 {
                return Err(Error::not_finite(rows, inputs, part << 16));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Forest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (trees, nodes, names) = (self.tree_count(), self.node_count(), &self.names);
        write!(f, "Forest {{ inputs: {}, outputs: {names:?}, trees: {trees}, nodes: {nodes} }}", self.inputs())
    }
}
