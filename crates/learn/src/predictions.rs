// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits and evaluates the predictions of a model ([`linnet_core::Predictions`]). A new one is a file of this module, a
//! field of [`Predicted`], and its line in each function here.

mod latencies;

pub use latencies::{PredictedQuantile, evaluate_latencies, fit_latencies};

use linnet_core::{LATENCY_SHARES, Predictions, Trees};

use crate::error::Error;
use crate::inflight_set::InflightSet;

/// Named figures of one number that is predicted.
pub type Figures = Vec<(&'static str, f64)>;

/// Accuracy of a model's predictions on rows that were not used for learning; `None` for one that it lacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// Of the latencies.
    pub latencies: Option<[PredictedQuantile; LATENCY_SHARES.len()]>,
}

impl Predicted {
    /// The figures of each prediction by its name, for reports: one entry for each number that it predicts.
    pub fn figures(&self) -> Vec<(&'static str, Option<Vec<Figures>>)> {
        vec![("latencies", self.latencies.map(|all| all.iter().map(PredictedQuantile::figures).collect()))]
    }
}

/// Fits all predictions to the rows that the trees were fitted to.
///
/// # Errors
/// [`Error::TooFewRows`] for an empty set.
pub fn fit_predictions(trees: &Trees, set: &InflightSet) -> Result<Predictions, Error> {
    Ok(Predictions { latencies: Some(fit_latencies(trees, set)?) })
}

/// Evaluates the predictions on these rows.
///
/// # Errors
/// [`Error::TooFewRows`] for an empty set.
pub fn evaluate_predictions(trees: &Trees, predictions: &Predictions, set: &InflightSet) -> Result<Predicted, Error> {
    let latencies = predictions.latencies.as_ref().map(|own| evaluate_latencies(trees, own, set)).transpose()?;
    Ok(Predicted { latencies })
}
