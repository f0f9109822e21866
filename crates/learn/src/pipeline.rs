// SPDX-License-Identifier: MIT OR Apache-2.0
//! The training pipeline: from records with latencies to a whole model of every device of an array, with its figures.
//!
//! For each device: inflection point and labels from the earlier part of the trace, a biased network fitted to that
//! part (and an unbiased one beside it on request), thresholds measured on it, then trees and latency quantiles under
//! the same inflection point; and figures on the later part, which nothing was learned from.

use linnet_core::{LATENCY_SHARES, Model};
use linnet_types::{IoRecord, Nanos};

use crate::boost::BoostOptions;
use crate::error::Error;
use crate::evaluate::{Evaluation, QuantisationLoss, evaluate, evaluate_float, quantisation_loss};
use crate::inflection::{Inflection, InflectionOptions};
use crate::label::{Labelled, label_parts, rows_of_periods, split_all};
use crate::latencies::PredictedQuantile;
use crate::network::{FitOptions, Fitted, fit_network};
use crate::pooled::pool;
use crate::set::{Dropped, TrainingSet};
use crate::thresholds::thresholds;
use crate::trees::{EvaluatedTrees, Periods, learn_trees, learn_trees_shared};

/// What the models of several devices have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// Nothing: each has a model of its own.
    #[default]
    Apart,
    /// Each has its own network and inflection point, but all have the same trees, fitted to the rows of all: for devices
    /// of one type, among which a policy chooses.
    SharedTrees,
    /// Everything: one model, labelled by one inflection point of all their latencies.
    Pooled,
}

/// How the devices of an array are learned.
#[derive(Clone, Debug)]
pub struct LearnOptions {
    /// Share of each device's rows, the earlier ones, that is trained on; above 0 and below 1.
    pub train_share: f64,
    /// The inflection points.
    pub inflection: InflectionOptions,
    /// The networks. The seed is that of device 0; device `d` takes the seed plus `d`.
    pub fit: FitOptions,
    /// The trees.
    pub boost: BoostOptions,
    /// What the models have in common.
    pub devices: Devices,
    /// Also fit each device without bias, for comparison.
    pub unbiased: bool,
}

impl Default for LearnOptions {
    fn default() -> Self {
        LearnOptions {
            train_share: 0.8,
            inflection: InflectionOptions::default(),
            fit: FitOptions::default(),
            boost: BoostOptions::default(),
            devices: Devices::default(),
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
    /// Figures of a network on the later part.
    Evaluate,
    /// Trees and latency quantiles of all devices, and their figures.
    Trees,
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
pub struct Evaluated {
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

/// What was learned of one device, or of all where they are pooled.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Where fast ends.
    pub inflection: Inflection,
    /// Records that made no row of the network.
    pub dropped: Dropped,
    /// Rows of the network: of the training part and of the later part.
    pub rows: (u64, u64),
    /// The whole model, for a model file: the biased network, the trees, the latency quantiles, and the device's thresholds.
    /// Its false submits are those on the training rows.
    pub model: Model,
    /// The biased fit.
    pub biased: Evaluated,
    /// The fit without bias, when it was asked for.
    pub unbiased: Option<Evaluated>,
    /// Figures of the trees on the later part.
    pub trees: Evaluation,
    /// How the predicted latency quantiles held on it.
    pub latencies: [PredictedQuantile; LATENCY_SHARES.len()],
}

/// What was learned of one device before its trees; `model` is without them.
struct NetworkOnly {
    inflection: Inflection,
    dropped: Dropped,
    rows: (u64, u64),
    model: Model,
    biased: Evaluated,
    unbiased: Option<Evaluated>,
}

/// Fits a model to every device of an array: the earlier part of its records trains, the rest tests. With one device, all
/// replicas are taken to behave like it.
///
/// `on_progress` is told of every step and returns false to stop. The same records and options give the same bytes of models.
///
/// # Errors
/// Those of [`crate::label`], and of [`fit_network`] and [`crate::fit_trees`], within [`Error::Device`] where they are one device's;
/// [`Error::Interrupted`] when `watch` asked to stop.
pub fn fit(
    devices: &[&[IoRecord]],
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Learned>, Error> {
    start(devices.len(), options, on_progress)?;
    let parts = split_all(devices, options.train_share)?;
    let last_ns = |train: &TrainingSet| train.arrive_ns.last().copied().unwrap_or(0);
    let past: Vec<Vec<IoRecord>> =
        parts.iter().zip(devices).map(|((train, _), records)| until(records, last_ns(train))).collect();
    let past: Vec<&[IoRecord]> = past.iter().map(Vec::as_slice).collect();
    let networks = fit_networks(parts, &past, options, on_progress)?;
    let share = options.train_share;
    add_trees(networks, devices.len(), options, on_progress, |device, inflection_ns| {
        Periods::split(devices[device], share, inflection_ns)
    })
}

/// Fits a model to one period of every device and evaluates it on another: `train` and `test` hold the records of each device.
/// `options.train_share` is not looked at.
///
/// # Errors
/// As [`fit`]; [`Error::Setting`] when the two lists differ in length.
pub fn fit_periods(
    train: &[&[IoRecord]],
    test: &[&[IoRecord]],
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Learned>, Error> {
    start(train.len(), options, on_progress)?;
    let networks = fit_networks(rows_of_periods(train, test)?, train, options, on_progress)?;
    add_trees(networks, train.len(), options, on_progress, |device, inflection_ns| {
        Periods::of(train[device], test[device], inflection_ns)
    })
}

/// Models that will come of so many devices.
fn models(devices: usize, options: &LearnOptions) -> usize {
    if options.devices == Devices::Pooled { 1 } else { devices }
}

fn start(devices: usize, options: &LearnOptions, on_progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), Error> {
    tell(on_progress, Progress { device: 0, devices: models(devices, options), stage: Stage::Label })
}

fn tell(on_progress: &mut dyn FnMut(Progress) -> bool, at: Progress) -> Result<(), Error> {
    if on_progress(at) { Ok(()) } else { Err(Error::Interrupted) }
}

fn of_device(device: usize, error: Error) -> Error {
    match error {
        Error::Interrupted => error,
        error => Error::Device { device, source: Box::new(error) },
    }
}

/// `parts` are each device's rows without labels, `past` the records of its training part, for the thresholds.
fn fit_networks(
    parts: Vec<(TrainingSet, TrainingSet)>,
    past: &[&[IoRecord]],
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<NetworkOnly>, Error> {
    let devices = models(parts.len(), options);
    let mut one = |part, past: &[IoRecord], device| {
        fit_one(part, past, device, options, &mut |stage| tell(on_progress, Progress { device, devices, stage }))
    };
    if options.devices == Devices::Pooled {
        let (part, past) = pool(parts, past, &options.inflection)?;
        return Ok(vec![one(part, &past, 0)?]);
    }
    let labelled = label_parts(parts, &options.inflection)?.into_iter().zip(past).enumerate();
    labelled.map(|(device, (part, past))| one(part, past, device).map_err(|error| of_device(device, error))).collect()
}

/// Completes each model. `periods` gives the rows of a device's trees, by the inflection point that its network has.
fn add_trees(
    networks: Vec<NetworkOnly>,
    devices: usize,
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
    periods: impl Fn(usize, Nanos) -> Result<Periods, Error>,
) -> Result<Vec<Learned>, Error> {
    tell(on_progress, Progress { device: 0, devices: networks.len(), stage: Stage::Trees })?;
    let rows = |device: usize| {
        let inflection_ns = networks[device.min(networks.len() - 1)].inflection.latency_ns;
        periods(device, inflection_ns).map_err(|error| of_device(device, error))
    };
    let rows = (0..devices).map(rows).collect::<Result<Vec<_>, _>>()?;
    let trees = match options.devices {
        Devices::Apart => rows.iter().map(|own| learn_trees(own, &options.boost)).collect::<Result<_, _>>()?,
        Devices::SharedTrees => learn_trees_shared(&rows, &options.boost)?,
        Devices::Pooled => vec![learn_trees(&Periods::together(rows), &options.boost)?],
    };
    Ok(networks.into_iter().zip(trees).map(|(network, trees)| network.with(trees)).collect())
}

impl NetworkOnly {
    fn with(self, own: EvaluatedTrees) -> Learned {
        let NetworkOnly { inflection, dropped, rows, model, biased, unbiased } = self;
        let model = Model { trees: Some(own.trees), latencies: Some(own.latencies), ..model };
        Learned { inflection, dropped, rows, model, biased, unbiased, trees: own.test, latencies: own.predicted }
    }
}

fn fit_one(
    part: Labelled,
    past: &[IoRecord],
    device: usize,
    options: &LearnOptions,
    tell: &mut dyn FnMut(Stage) -> Result<(), Error>,
) -> Result<NetworkOnly, Error> {
    let Labelled { inflection, train, test } = part;
    let mut fit_options = options.fit.clone();
    fit_options.train.seed = fit_options.train.seed.wrapping_add(device as u64);
    let biased = evaluated(&train, &test, &fit_options, tell)?;
    let unbiased = if options.unbiased {
        let mut plain = fit_options.clone();
        plain.train.false_submit_weight = 1.0;
        Some(evaluated(&train, &test, &plain, tell)?)
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
    Ok(NetworkOnly { inflection, dropped: train.dropped, rows, model, biased, unbiased })
}

fn evaluated(
    train: &TrainingSet,
    test: &TrainingSet,
    options: &FitOptions,
    tell: &mut dyn FnMut(Stage) -> Result<(), Error>,
) -> Result<Evaluated, Error> {
    let biased = options.train.false_submit_weight != 1.0;
    let epochs = options.train.epochs;
    let fitted =
        fit_network(train, options, &mut |epoch, loss| tell(Stage::Fit { biased, epoch, epochs, loss }).is_ok())?;
    tell(Stage::Evaluate)?;
    Ok(Evaluated {
        train: evaluate(&fitted.network, train)?,
        test: evaluate(&fitted.network, test)?,
        test_float: evaluate_float(&fitted.float, test)?,
        quantisation: quantisation_loss(&fitted.float, &fitted.network, test)?,
        fitted,
    })
}

/// The records that had arrived by this time.
fn until(records: &[IoRecord], last_ns: Nanos) -> Vec<IoRecord> {
    records.iter().filter(|record| record.arrive_ns <= last_ns).copied().collect()
}
