// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inflection point, labels, training sets, fit and evaluation.

mod error;
mod evaluate;
mod fit;
mod inflection;
mod label;
mod pipeline;
mod profile;
mod recentre;
mod replay;
mod set;

pub use error::Error;
pub use evaluate::{Evaluation, QuantisationLoss, evaluate, evaluate_float, quantisation_loss};
pub use fit::{FitOptions, Fitted, fit};
pub use inflection::{BoostPoint, Inflection, InflectionOptions, inflection_point, inflection_points, is_slow};
pub use label::{Labelled, label};
pub use pipeline::{Judged, LearnOptions, Learned, Progress, Stage, learn};
pub use profile::{hedge_percentile, profile};
pub use set::{Dropped, TrainingSet};
