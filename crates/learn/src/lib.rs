// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inflection point, labels, training sets, fit and evaluation.

mod error;
mod inflection;
mod label;
mod profile;
mod replay;
mod set;

pub use error::Error;
pub use inflection::{BoostPoint, Inflection, InflectionOptions, inflection_point, inflection_points, is_slow};
pub use label::{Labelled, label};
pub use profile::{hedge_percentile, profile};
pub use set::{Dropped, TrainingSet};
