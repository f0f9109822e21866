// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole way from records with latencies to a judged model, for every device of an array.
//!
//! For each device: inflection point and labels from the earlier part of the trace, a biased network fitted to that
//! part (and an unbiased one beside it on request), thresholds measured on it, and figures on the later part, which
//! nothing was learned from.

use linnet_core::Model;
use linnet_types::{IoRecord, Nanos};

use crate::error::Error;
use crate::evaluate::{Evaluation, QuantisationLoss, evaluate, evaluate_float, quantisation_loss};
use crate::fit::{FitOptions, Fitted, fit};
use crate::inflection::{Inflection, InflectionOptions};
use crate::label::{Labelled, label, label_periods};
use crate::set::{Dropped, TrainingSet};
use crate::thresholds::thresholds;

/// How the devices of an array are learned.
#[derive(Clone, Debug)]
pub struct LearnOptions {
    /// Share of each device's rows, the earlier ones, that is trained on; above 0 and below 1.
    pub train_share: f64,
    /// The inflection points.
    pub inflection: InflectionOptions,
    /// The fit. Its seed is that of device 0; device `d` takes the seed plus `d`.
    pub fit: FitOptions,
    /// Also fit each device without bias, for comparison.
    pub unbiased: bool,
}

impl Default for LearnOptions {
    fn default() -> Self {
        LearnOptions {
            train_share: 0.8,
            inflection: InflectionOptions::default(),
            fit: FitOptions::default(),
            unbiased: false,
        }
    }
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Features and inflection points of all devices.
    Label,
    /// An epoch has ended.
    Fit {
        /// With the bias against false submits, or without.
        biased: bool,
        /// Epochs done.
        epoch: usize,
        /// Epochs to do.
        epochs: usize,
        /// Its mean training loss.
        loss: f32,
    },
    /// Figures on the later part.
    Evaluate,
}

/// How far the work is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Device at work, from 0.
    pub device: usize,
    /// Devices in all.
    pub devices: usize,
    /// What is being done to it.
    pub stage: Stage,
}

/// A fit and its figures.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The networks.
    pub fitted: Fitted,
    /// The served network on the rows that it was trained on (all of the training part).
    pub train: Evaluation,
    /// The served network on the later part.
    pub test: Evaluation,
    /// The network before quantisation, on the later part.
    pub test_float: Evaluation,
    /// What quantisation cost on the later part.
    pub quantisation: QuantisationLoss,
}

/// What was learned of one device.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Where fast ends.
    pub inflection: Inflection,
    /// Records that made no row.
    pub dropped: Dropped,
    /// Rows of the training part and of the later part.
    pub rows: (u64, u64),
    /// The biased network with the device's thresholds, for a model file; without trees, which [`crate::learn_trees`]
    /// fits. Its false submits are those on the training rows.
    pub model: Model,
    /// The biased fit.
    pub biased: Judged,
    /// The fit without bias, when it was asked for.
    pub unbiased: Option<Judged>,
}

/// Learns every device of an array from its records. With one device, all replicas are taken to behave like it.
///
/// `watch` is told of every step and returns false to stop.
///
/// # Errors
/// Those of [`label`], and of [`fit`] within [`Error::Device`]; [`Error::Interrupted`] when `watch` asked to stop.
pub fn learn(
    devices: &[&[IoRecord]],
    options: &LearnOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Learned>, Error> {
    start(devices.len(), watch)?;
    let labelled = label(devices, options.train_share, &options.inflection)?;
    let past: Vec<Vec<IoRecord>> = labelled
        .iter()
        .zip(devices)
        .map(|(part, records)| until(records, part.train.arrive_ns.last().copied().unwrap_or(0)))
        .collect();
    learn_each(labelled, &past.iter().map(Vec::as_slice).collect::<Vec<_>>(), options, watch)
}

/// Learns every device from one period and judges it on another: `train` and `test` hold the records of each device.
/// `options.train_share` is not looked at.
///
/// # Errors
/// As [`learn`].
pub fn learn_periods(
    train: &[&[IoRecord]],
    test: &[&[IoRecord]],
    options: &LearnOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Learned>, Error> {
    start(train.len(), watch)?;
    learn_each(label_periods(train, test, &options.inflection)?, train, options, watch)
}

fn start(devices: usize, watch: &mut dyn FnMut(Progress) -> bool) -> Result<(), Error> {
    if watch(Progress { device: 0, devices, stage: Stage::Label }) { Ok(()) } else { Err(Error::Interrupted) }
}

/// `past` holds the training period of each device.
fn learn_each(
    labelled: Vec<Labelled>,
    past: &[&[IoRecord]],
    options: &LearnOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Learned>, Error> {
    let devices = labelled.len();
    let mut learned = Vec::with_capacity(devices);
    for (device, (part, past)) in labelled.into_iter().zip(past).enumerate() {
        let result = learn_one(part, past, device, options, &mut |stage| {
            if watch(Progress { device, devices, stage }) { Ok(()) } else { Err(Error::Interrupted) }
        });
        learned.push(result.map_err(|error| match error {
            Error::Interrupted => error,
            error => Error::Device { device, source: Box::new(error) },
        })?);
    }
    Ok(learned)
}

/// `past` holds the records of the training part, for the thresholds.
pub(crate) fn learn_one(
    part: Labelled,
    past: &[IoRecord],
    device: usize,
    options: &LearnOptions,
    tell: &mut dyn FnMut(Stage) -> Result<(), Error>,
) -> Result<Learned, Error> {
    let Labelled { inflection, train, test } = part;
    let mut fit_options = options.fit.clone();
    fit_options.train.seed = fit_options.train.seed.wrapping_add(device as u64);
    let biased = judge(&train, &test, &fit_options, tell)?;
    let unbiased = if options.unbiased {
        let mut plain = fit_options.clone();
        plain.train.false_submit_weight = 1.0;
        Some(judge(&train, &test, &plain, tell)?)
    } else {
        None
    };
    // "We use the false submit rates from the training process" (LinnOS, section 5.3): the later part has no say in the
    // model, not even in its hedge delay.
    let false_submit = biased.train.false_submit;
    let model = Model {
        network: Some(biased.fitted.network.clone()),
        trees: None,
        latencies: None,
        thresholds: thresholds(past, &inflection, false_submit),
        inflection_percentile: inflection.percentile,
        false_submit,
        rows: biased.fitted.rows,
        seed: fit_options.train.seed,
    };
    let rows = (train.len() as u64, test.len() as u64);
    Ok(Learned { inflection, dropped: train.dropped, rows, model, biased, unbiased })
}

fn judge(
    train: &TrainingSet,
    test: &TrainingSet,
    options: &FitOptions,
    tell: &mut dyn FnMut(Stage) -> Result<(), Error>,
) -> Result<Judged, Error> {
    let biased = options.train.false_submit_weight != 1.0;
    let epochs = options.train.epochs;
    let fitted = fit(train, options, &mut |epoch, loss| tell(Stage::Fit { biased, epoch, epochs, loss }).is_ok())?;
    tell(Stage::Evaluate)?;
    Ok(Judged {
        train: evaluate(&fitted.network, train)?,
        test: evaluate(&fitted.network, test)?,
        test_float: evaluate_float(&fitted.float, test)?,
        quantisation: quantisation_loss(&fitted.float, &fitted.network, test)?,
        fitted,
    })
}

/// The records that had arrived by this time.
pub(crate) fn until(records: &[IoRecord], last_ns: Nanos) -> Vec<IoRecord> {
    records.iter().filter(|record| record.arrive_ns <= last_ns).copied().collect()
}
