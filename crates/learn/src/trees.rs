// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits and evaluates trees on records with latencies.

use linnet_core::{Predictions, Schema, Trees};
use linnet_types::{IoRecord, Nanos};

use crate::boost::{BoostOptions, evaluate_trees, fit_trees, slow_score};
use crate::error::Error;
use crate::evaluate::Evaluation;
use crate::inflight_set::InflightSet;
use crate::predictions::{Predicted, evaluate_predictions, fit_predictions};
use crate::set::check_train_share;

/// The share of the training rows, the latest, on which a rate of false revokes is found.
const HELD_SHARE: f64 = 0.25;

/// Trees and their figures on rows that were not used for learning.
#[derive(Clone, Debug)]
pub(crate) struct EvaluatedTrees {
    /// The fitted trees.
    pub trees: Trees,
    /// Predictions by their score.
    pub predictions: Predictions,
    /// Figures on the later part or the other period.
    pub test: Evaluation,
    /// Accuracy of the predictions on it.
    pub predicted: Predicted,
}

/// Training and test rows for the trees of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Periods {
    /// The training rows.
    pub train: InflightSet,
    /// The test rows.
    pub test: InflightSet,
}

impl Periods {
    /// The earlier part of a device's reads, and the last `tested` of them: those that its network is tested on. The
    /// network has no rows of the first few reads, so its training part, which gives the inflection point, reaches a few
    /// reads further than that of the trees. Slow is above `inflection_ns`.
    ///
    /// # Errors
    /// [`Error::Setting`]; [`Error::NoReads`] without a read that has a latency.
    pub fn split(
        records: &[IoRecord],
        train_share: f64,
        tested: usize,
        inflection_ns: Nanos,
        schema: Schema,
    ) -> Result<Periods, Error> {
        check_train_share(train_share)?;
        let all = InflightSet::from_records(records, inflection_ns, schema)?;
        Ok(Periods { train: all.split_at_share(train_share).0, test: all.last(tested) })
    }

    /// Two periods of a device: the reads of the one, and the last `tested` of the other, as in [`Periods::split`].
    ///
    /// # Errors
    /// As [`Periods::split`].
    pub fn of(
        train: &[IoRecord],
        test: &[IoRecord],
        tested: usize,
        inflection_ns: Nanos,
        schema: Schema,
    ) -> Result<Periods, Error> {
        let rows = |records| InflightSet::from_records(records, inflection_ns, schema);
        Ok(Periods { train: rows(train)?, test: rows(test)?.last(tested) })
    }

    /// Reads above this latency are slow.
    pub fn label(&mut self, slow_above_ns: Nanos) {
        self.train.label(slow_above_ns);
        self.test.label(slow_above_ns);
    }

    /// Concatenates the rows of several devices of one type; each was split by time separately.
    pub fn together(devices: impl IntoIterator<Item = Periods>) -> Periods {
        let mut all = Periods::default();
        for device in devices {
            all.train.append(device.train);
            all.test.append(device.test);
        }
        all
    }
}

/// Fits trees to a device's reads and evaluates them. A read is slow above `slow_score`.
///
/// # Errors
/// [`Error::TooFewRows`] if a part is empty.
pub(crate) fn learn_trees(device: &Periods, slow_score: i32, options: &BoostOptions) -> Result<EvaluatedTrees, Error> {
    let trees = fit_trees(&device.train, options)?.with_slow_score(slow_score);
    let predictions = fit_predictions(&trees, &device.train)?;
    evaluated(trees, predictions, &device.test)
}

/// Fits the same trees to all devices of an array, and evaluates them on each. Every row is labelled by the inflection
/// point of its own device. Scores of one read on several devices are comparable, and the trees learn from more data
/// than one device has.
///
/// # Errors
/// As [`learn_trees`].
pub(crate) fn learn_trees_shared(devices: &[Periods], options: &BoostOptions) -> Result<Vec<EvaluatedTrees>, Error> {
    let mut train = InflightSet::default();
    devices.iter().for_each(|device| train.append(device.train.clone()));
    let trees = fit_trees(&train, options)?.with_slow_score(score_of_rate(devices, options)?);
    let predictions = fit_predictions(&trees, &train)?;
    devices.iter().map(|device| evaluated(trees, predictions, &device.test)).collect()
}

/// The score above which a read is slow, for trees of all these devices: 0 without [`BoostOptions::false_revoke`].
///
/// It is found on the last part of each device's training rows, with trees that were fitted to the rows before: on rows
/// that trees were fitted to, slow and fast ones look easier to separate than they are later.
///
/// # Errors
/// [`Error::TooFewRows`] if the rate is less than one of these rows.
pub(crate) fn score_of_rate(devices: &[Periods], options: &BoostOptions) -> Result<i32, Error> {
    let Some(asked) = options.false_revoke else { return Ok(0) };
    let (mut earlier, mut held) = (InflightSet::default(), InflightSet::default());
    for device in devices {
        let (first, last) = device.train.split_at_share(1.0 - HELD_SHARE);
        earlier.append(first);
        held.append(last);
    }
    slow_score(&fit_trees(&earlier, options)?, &held, asked)
}

fn evaluated(trees: Trees, predictions: Predictions, test: &InflightSet) -> Result<EvaluatedTrees, Error> {
    let predicted = evaluate_predictions(&trees, &predictions, test)?;
    Ok(EvaluatedTrees { trees, predictions, test: evaluate_trees(&trees, test)?, predicted })
}
