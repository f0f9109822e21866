// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heimdall (EuroSys '25) as published, written from its description, to compare with: labels by periods, a noise filter on
//! the rows that are trained on, its own features, its network, joint inference.

mod fit;
mod period;
mod rows;

pub use fit::{HeimdallModel, HeimdallOptions, fit_heimdall};
pub use period::{Paced, PeriodOptions, PeriodPoints, noise, slow_periods};
pub use rows::HeimdallSet;
