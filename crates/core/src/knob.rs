// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of one knob, and its file (`spec/model-file.md`, kind 2), which `core/knob.c` reads.

use crate::normaliser::KNOB_INPUTS_MAX;
use crate::{Activation, DecisionTree, Error, Moments, Normaliser, SmallNetwork, TreeNode, envelope, ffi};

/// Schema of the features of a readahead tuner.
pub const SCHEMA_READAHEAD1: u16 = 3;
/// Schema of the features of an NFS tuner.
pub const SCHEMA_NFS1: u16 = 4;
/// First of the schemas that callers define.
pub const SCHEMA_PRIVATE: u16 = ffi::SCHEMA_PRIVATE;

/// Unit of a knob's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No unit.
    None,
    /// Bytes.
    Bytes,
    /// 1024 bytes.
    Kib,
}

/// A model of a knob: predicts a class from features, and each class has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// Schema of the features: [`SCHEMA_READAHEAD1`], [`SCHEMA_NFS1`], or a number from [`SCHEMA_PRIVATE`] up.
    pub schema: u16,
    /// Unit of the values.
    pub unit: Unit,
    /// The value of each class, at most 32.
    pub values: Vec<u32>,
    /// Normalises features for the network.
    pub normaliser: Normaliser,
    /// The network, on z-scores.
    pub network: Option<SmallNetwork>,
    /// The tree, on features without normalisation.
    pub tree: Option<DecisionTree>,
    /// Lowest confidence to act on, 0..=1; stored in millionths.
    pub confidence: f64,
    /// Share of rows outside the training data whose class the model predicts; 0: unknown.
    pub accuracy: f64,
    /// Rows that it was trained on.
    pub rows: u64,
    /// Seed of the training.
    pub seed: u64,
}

impl Knob {
    /// The class of a row of features (not normalised), its value, and the model's confidence. By the network if there
    /// is one, otherwise by the tree.
    pub fn decide(&self, row: &[f32]) -> Result<(usize, u32, f64), Error> {
        let mut z = [0.0; KNOB_INPUTS_MAX];
        let Some(z) = z.get_mut(..row.len()) else {
            return Err(Error::Input(format!("{} features, where {KNOB_INPUTS_MAX} are allowed", row.len())));
        };
        self.normaliser.apply(row, z)?;
        let (class, confidence) = match (&self.network, &self.tree) {
            (Some(network), _) => network.classify(z)?,
            (None, Some(tree)) if tree.inputs() == row.len() => tree.classify(row),
            _ => return Err(Error::Input("the model has no network, and no tree on these features".into())),
        };
        let value = self.values.get(class).ok_or_else(|| Error::Input(format!("class {class} has no value")))?;
        Ok((class, *value, confidence))
    }

    /// The model as a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let refuse = |text: String| Err(Error::Unwritable(text));
        let (inputs, levels) = (self.normaliser.inputs(), self.values.len());
        if self.network.is_none() && self.tree.is_none() {
            return refuse("it has neither network nor tree".into());
        }
        if let Some(network) = &self.network
            && (network.inputs(), network.outputs()) != (inputs, levels)
        {
            return refuse(format!("{network:?} is not one of {inputs} features and {levels} values"));
        }
        if let Some(tree) = &self.tree
            && (tree.inputs(), tree.classes()) != (inputs, levels)
        {
            return refuse(format!("{tree:?} is not one of {inputs} features and {levels} values"));
        }
        let layers = self.network.as_ref().map(SmallNetwork::layers).unwrap_or_default();
        let nodes = self.tree.as_ref().map_or(&[][..], DecisionTree::nodes);
        let mut file = envelope::begin(ffi::KIND_KNOB, self.schema, inputs as u16);
        let parts =
            u32::from(self.network.is_some()) * ffi::PART_NETWORK + u32::from(self.tree.is_some()) * ffi::PART_TREES;
        for number in [layers.len() as u32, parts] {
            file.extend(number.to_le_bytes());
        }
        let unit = match self.unit {
            Unit::None => 0u16,
            Unit::Bytes => 1,
            Unit::Kib => 2,
        };
        file.extend((levels as u16).to_le_bytes());
        file.extend(unit.to_le_bytes());
        for number in [self.rows, self.seed, self.normaliser.rows()] {
            file.extend(number.to_le_bytes());
        }
        let shares = [millionths("confidence", self.confidence)?, millionths("accuracy", self.accuracy)?];
        for number in [self.normaliser.memory(), nodes.len() as u32].into_iter().chain(shares) {
            file.extend(number.to_le_bytes());
        }
        file.extend([0; 24]);
        for value in &self.values {
            file.extend(value.to_le_bytes());
        }
        for moments in self.normaliser.moments() {
            file.extend(moments.mean.to_le_bytes());
            file.extend(moments.variance.to_le_bytes());
        }
        for layer in &layers {
            file.extend((layer.outputs as u32).to_le_bytes());
            file.extend(layer.activation.code().to_le_bytes());
        }
        for number in layers.iter().flat_map(|layer| layer.weights.iter().chain(&layer.biases)) {
            file.extend(number.to_le_bytes());
        }
        for node in nodes {
            file.extend(node.word.to_le_bytes());
            file.extend(node.feature.to_le_bytes());
            file.extend(node.right.to_le_bytes());
        }
        let file = envelope::seal(file)?;
        // A model that the reader would refuse is not written: the reader checks schema, number of values and finite
        // weights.
        match Knob::from_bytes(&file) {
            Ok(_) => Ok(file),
            Err(error) => refuse(error.to_string()),
        }
    }

    /// Reads a file of kind 2. Errors give the kind and place of a fault.
    pub fn from_bytes(bytes: &[u8]) -> Result<Knob, Error> {
        // SAFETY: C reads at most `len` bytes; zeros are a valid `ffi::Knob`, whose pointers lead into `bytes`, which
        // lives. Parts are loaded into memory of the size that the file gives.
        unsafe {
            let mut read: ffi::Knob = std::mem::zeroed();
            let mut offset = 0;
            let code = ffi::linnet_knob_read(bytes.as_ptr(), bytes.len(), &mut read, &mut offset);
            if code < 0 {
                return Err(Error::of_model(code, offset));
            }
            let inputs = usize::from(read.inputs);
            let mut moments = vec![Moments::default(); inputs];
            let mut raw: ffi::Normaliser = std::mem::zeroed();
            ffi::linnet_knob_load_normaliser(&read, &mut raw, moments.as_mut_ptr());
            let network = if read.parts & ffi::PART_NETWORK == 0 {
                None
            } else {
                let shape: Vec<(usize, Activation)> = read.layers[..read.layer_count as usize]
                    .iter()
                    .map(|layer| (layer.outputs as usize, Activation::of(layer.activation)))
                    .collect();
                let mut network = SmallNetwork::new(inputs, &shape, 0)?;
                ffi::linnet_knob_load_network(&read, network.raw_mut());
                Some(network)
            };
            let tree = if read.parts & ffi::PART_TREES == 0 {
                None
            } else {
                let mut nodes = vec![TreeNode::default(); read.node_count as usize];
                ffi::linnet_knob_load_tree(&read, nodes.as_mut_ptr());
                Some(DecisionTree::from_nodes(nodes, inputs, usize::from(read.levels))?)
            };
            Ok(Knob {
                schema: read.schema,
                unit: [Unit::None, Unit::Bytes, Unit::Kib][usize::from(read.unit)],
                values: read.values[..usize::from(read.levels)].to_vec(),
                normaliser: Normaliser::from_moments(moments, read.normaliser_rows, read.memory)?,
                network,
                tree,
                confidence: f64::from(read.confidence_ppm) / 1e6,
                accuracy: f64::from(read.accuracy_ppm) / 1e6,
                rows: read.rows,
                seed: read.seed,
            })
        }
    }
}

fn millionths(name: &str, share: f64) -> Result<u32, Error> {
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::Unwritable(format!("{name} is {share}, outside 0 to 1")));
    }
    Ok((share * 1e6).round() as u32)
}
