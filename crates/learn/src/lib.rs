// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inflection point, labels, training sets, fit and evaluation.
//!
//! [`fit`] is the whole pipeline: it takes records with latencies of each device and returns a complete model of each,
//! with its figures. Its steps are public too: [`label`] finds each device's [`Inflection`] on the earlier part of its
//! trace and splits it into two [`TrainingSet`]s, [`fit_network`] trains and quantises, [`thresholds()`] measures the
//! thresholds that policies use, [`fit_trees`] and [`fit_predictions`] fit the other parts to an [`InflightSet`],
//! [`evaluate`], [`evaluate_trees`] and [`evaluate_predictions`] evaluate on the later part. To test a model file on
//! another trace, use [`last_rows`] at the model's own inflection point, and as many of the last of an [`InflightSet`].
//!
//! Splits follow time, test rows are never filtered, and every accuracy is reported with the base rate.
//!
//! ```
//! use linnet_learn::{InflectionOptions, LearnOptions, fit};
//! use linnet_types::{IoRecord, Op};
//!
//! // A read every millisecond; the device is slow in 20 ms of every 100.
//! let record = |i: u64| {
//!     let latency_ns = if i % 100 < 20 { 3_000_000 } else { 80_000 + 37 * i % 40_000 };
//!     IoRecord { latency_ns: Some(latency_ns), ..IoRecord::new(i * 1_000_000, Op::Read, i * 4096, 4096) }
//! };
//! let records: Vec<IoRecord> = (0..2_000).map(record).collect();
//!
//! // Defaults take longer; these suit an example.
//! let inflection = InflectionOptions { ios: 10_000, ..InflectionOptions::default() };
//! let mut options = LearnOptions { inflection, ..LearnOptions::default() };
//! (options.fit.train.hidden, options.fit.train.epochs) = (vec![16], 2);
//! let learned = fit(&[&records], &options, &mut |_progress| true)?.remove(0);
//!
//! // The later 20 % of the reads evaluate; the model has all its parts and can be written to a file.
//! assert!(learned.trees.accuracy > learned.trees.base_rate);
//! let bytes = learned.model.to_bytes()?;
//! let read = linnet_core::Model::from_bytes(&bytes)?;
//! assert!(read.network.is_some() && read.trees.is_some() && read.predictions.latencies.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bias_correction;
mod boost;
pub mod drift;
mod error;
mod evaluate;
mod inflection;
mod inflight_set;
mod label;
mod network;
mod parallel;
mod pipeline;
mod pool;
mod pooled;
mod predictions;
mod replay;
mod set;
mod thresholds;
mod ties;
mod trees;

pub use boost::{BoostOptions, evaluate_trees, fit_trees};
pub use drift::{
    Alarms, CHECK_BLOCKS, Candidate, Check, Drift, DriftEvent, DriftOptions, Job, LinnOsScheme, LinnetScheme, Monitor,
    REFERENCE_BLOCKS, Scheme, Verdict,
};
pub use error::{Error, require};
pub use evaluate::{Evaluation, QuantisationLoss, evaluate, evaluate_float, figures, quantisation_loss};
pub use inflection::{BoostPoint, Inflection, InflectionOptions, inflection_point, inflection_points, slope_one};
pub use inflight_set::InflightSet;
pub use label::{Labelled, label, last_rows, training_latencies, without_rows};
pub use network::{FitOptions, Fitted, fit_network};
pub use pipeline::{Devices, Evaluated, LearnOptions, Learned, Progress, SlowAbove, Stage, fit, fit_periods};
pub use pool::on_pool;
pub use predictions::*;
pub use replay::{Event, in_time_order};
pub use set::{Dropped, HISTORY, TrainingSet, check_train_share};
pub use thresholds::{hedge_percentile, thresholds};
pub use ties::without_ties;
