// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inflection point, labels, training sets, fit and evaluation.
//!
//! The whole way is [`learn`]: records with latencies of each device go in, a judged model of each comes out. Its steps
//! can be taken one by one: [`label`] finds each device's [`Inflection`] on the earlier part of its trace and makes two
//! [`TrainingSet`]s of it, [`fit`] trains and quantises, [`thresholds()`] measures the thresholds that policies use,
//! [`evaluate`] judges the later part. A model file is judged on another trace with [`TrainingSet::from_records`], at
//! the model's own inflection point, and [`evaluate`].
//!
//! Splits follow time, test rows are never filtered, and every accuracy stands beside the base rate.

mod boost;
pub mod drift;
mod error;
mod evaluate;
mod fit;
mod inflection;
mod label;
mod latencies;
mod pipeline;
mod pooled;
mod recentre;
mod replay;
mod set;
mod thresholds;
mod trees;
mod watched;

pub use boost::{BoostOptions, evaluate_trees, fit_trees};
pub use drift::{
    Alarms, CHECK_BLOCKS, Candidate, Check, Drift, DriftOptions, Job, LinnOsScheme, LinnetScheme, Monitor, News,
    REFERENCE_BLOCKS, Scheme, Verdict,
};
pub use error::{Error, require};
pub use evaluate::{Evaluation, QuantisationLoss, evaluate, evaluate_float, figures, quantisation_loss};
pub use fit::{FitOptions, Fitted, fit};
pub use inflection::{BoostPoint, Inflection, InflectionOptions, inflection_point, inflection_points, slope_one};
pub use label::{Labelled, label, label_periods};
pub use latencies::{Foretold, evaluate_latencies, fit_latencies};
pub use pipeline::{Judged, LearnOptions, Learned, Progress, Stage, learn, learn_periods};
pub use pooled::learn_pooled;
pub use replay::{Event, in_time_order};
pub use set::{Dropped, HISTORY, TrainingSet, check_train_share};
pub use thresholds::{hedge_percentile, thresholds};
pub use trees::{JudgedTrees, Periods, learn_trees, learn_trees_shared};
pub use watched::WatchedSet;
