// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact quantiles, histograms, classification scores: this crate computes every figure that the project reports.
//!
//! There is one definition of a quantile, the nearest rank ([`rank`]), so every reported latency is one that was
//! observed. Only what estimates and reports no latency interpolates, with NumPy: intervals of resampled means, errors of
//! models, medians of repetitions, and the quantiles that a fit to a shared drive compares with recorded ones.

mod auc;
mod confusion;
mod histogram;
mod interval;
mod quantile;

pub use auc::{roc_auc, roc_auc_integers};
pub use confusion::Confusion;
pub use histogram::{Bucket, Histogram};
pub use interval::{Z_95, wilson};
pub use quantile::{Summary, quantile, quantile_unsorted, rank};
