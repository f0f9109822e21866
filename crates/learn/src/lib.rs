// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inflection point, labels, training sets, fit and evaluation.

mod error;
mod inflection;

pub use error::Error;
pub use inflection::{BoostPoint, Inflection, InflectionOptions, inflection_point, inflection_points, is_slow};
