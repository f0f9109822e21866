// SPDX-License-Identifier: MIT OR Apache-2.0
//! Safe wrapper of the C core: features, tracker, network, trainer, model files.
//!
//! All code that decides or learns is C (`core/`); this crate owns the memory and checks the shapes.

mod decision;
mod envelope;
mod error;
// The headers document these items.
#[allow(missing_docs)]
mod ffi;
mod float;
mod forest;
mod heimdall;
mod incremental;
mod inflight;
mod knob;
mod memory;
mod model;
mod network;
mod normaliser;
mod predictions;
#[doc(hidden)]
pub mod raw;
mod readahead;
mod replica;
mod ring;
#[cfg(test)]
mod same_bits;
mod settings;
mod simd;
mod small;
mod tracker;
mod train;
mod tree;
mod trees;

pub use decision::{
    Answer, Asked, Candidate, Decision, HEDGE_START_NS, Hedging, Question, REPLICAS_MAX, Verdict, preferred,
};
pub use error::{Error, ModelFault};
pub use float::{Activation, FloatLayer, FloatNetwork};
pub use forest::{FOREST_INPUTS_MAX, FOREST_OUTPUTS_MAX, Forest, ForestOutput, RegressionTree, SCHEMA_PLACE1};
pub use heimdall::{HEIMDALL_FEATURES, HEIMDALL_INPUTS, Heimdall, HeimdallScale, throughput};
pub use incremental::{IncrementalNetwork, Precompute};
pub use inflight::{BUCKET_MAX, INFLIGHT_FEATURES, InflightTracker, Place, Schema, bucket};
pub use knob::{Knob, SCHEMA_NFS1, SCHEMA_PRIVATE, SCHEMA_READAHEAD1, Unit};
pub use model::{Model, crc32c};
pub use network::{DIGIT_MAX, LAYERS_MAX, Layer, Network, SIZE_MAX, Width};
pub use normaliser::{KNOB_INPUTS_MAX, Moments, Normaliser, Z_MAX};
pub use predictions::*;
pub use readahead::{
    DISTANCES, READ_NUMBERS, READAHEAD_DEFAULT_KIB, READAHEAD_INPUTS, ReadCounts, ReadGovernor, ReadPattern,
    ReadProposal, ReadRule, ReadVerdict, Reading, SIZES, certainty_ppm,
};
pub use replica::{Flight, Replica};
pub use ring::{Consumer, Producer, Sampler, ring};
pub use settings::{Budget, Policy, Rate, Settings, policy_names};
pub use small::{SMALL_SIZE_MAX, SmallNetwork, StepOptions};
pub use tracker::Tracker;
pub use train::{Loss, Optimiser, TrainOptions, train, train_f32};
pub use tree::{CartOptions, DecisionTree, TreeNode};
pub use trees::{TREE_LEAVES, TREE_LEVELS, TREE_ONE, TREES, Tree, Trees};

/// Features of one read: decimal digits (`spec/features.md`).
pub const DIGITS: usize = 31;
