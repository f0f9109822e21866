// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heimdall (EuroSys '25) as a baseline, implemented from its published description: labels by slow periods, a noise
//! filter for the training rows, its features, its network, and joint inference.

mod fit;
mod period;
mod rows;

pub use fit::{HeimdallModel, HeimdallOptions, fit_heimdall};
pub use period::{Paced, PeriodOptions, PeriodPoints, noise, slow_periods};
pub use rows::HeimdallSet;
