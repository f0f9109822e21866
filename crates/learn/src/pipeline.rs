// SPDX-License-Identifier: MIT OR Apache-2.0
//! The training pipeline: turns records with latencies into a complete model of every device of an array, with its
//! figures.
//!
//! For each device: inflection point and labels from the earlier part of the trace, a biased network fitted to that
//! part (and an unbiased one on request), its thresholds, then trees and predictions with the same inflection point;
//! and figures on the later part, which is not used for learning.

use linnet_core::{Model, Predictions};
use linnet_types::{IoRecord, Nanos};

use crate::boost::BoostOptions;
use crate::error::Error;
use crate::evaluate::{Evaluation, QuantisationLoss, evaluate, evaluate_float, quantisation_loss};
use crate::inflection::{Inflection, InflectionOptions};
use crate::label::{Labelled, label_parts, rows_of_periods, split_all};
use crate::network::{FitOptions, Fitted, fit_network};
use crate::parallel::{Tell, on_all_cpus};
use crate::pooled::pool;
use crate::predictions::Predicted;
use crate::set::{Dropped, TrainingSet};
use crate::thresholds::thresholds;
use crate::trees::{EvaluatedTrees, Periods, learn_trees, learn_trees_shared, score_of_rate};

/// What the models of several devices share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// Nothing: each device has its own model.
    #[default]
    Apart,
    /// Each has its own network and inflection point, but all have the same trees, fitted to the rows of all: for
    /// devices of one type in one array.
    SharedTrees,
    /// Everything: one model, labelled by one inflection point of all their latencies.
    Pooled,
}

/// Above which latency a read is slow to the trees. Their features do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowAbove {
    /// The inflection point of the device, or of all if they are pooled.
    #[default]
    Inflection,
    /// The geometric mean of the devices' inflection points: for devices of different types in one array. Odds of one
    /// event can be compared; those of exceeding each device's own inflection point cannot, because a slow read of a
    /// fast device may be faster than a fast read of a slow one.
    MeanInflection,
    /// This latency: for devices of one array that are fitted one by one.
    Latency(Nanos),
}

impl SlowAbove {
    /// The latency for a device, given the inflection points of all.
    fn latency_ns(self, device: usize, inflection_ns: &[Nanos]) -> Nanos {
        match self {
            SlowAbove::Inflection => inflection_ns[device],
            SlowAbove::MeanInflection => {
                let logs: f64 = inflection_ns.iter().map(|&ns| (ns.max(1) as f64).ln()).sum();
                (logs / inflection_ns.len() as f64).exp().round() as Nanos
            }
            SlowAbove::Latency(ns) => ns,
        }
    }
}

/// Options for the models of an array's devices.
#[derive(Clone, Debug)]
pub struct LearnOptions {
    /// Share of each device's rows, the earlier ones, that are used for training; above 0 and below 1. Default
    /// 0.5, as in Python.
    pub train_share: f64,
    /// Options of the inflection points.
    pub inflection: InflectionOptions,
    /// Options of the networks. The seed is that of device 0; device `d` uses the seed plus `d`.
    pub fit: FitOptions,
    /// Options of the trees.
    pub boost: BoostOptions,
    /// What the models share.
    pub devices: Devices,
    /// Which reads are slow to the trees.
    pub slow_above: SlowAbove,
    /// Also fit each device without bias, for comparison.
    pub unbiased: bool,
}

impl Default for LearnOptions {
    fn default() -> Self {
        LearnOptions {
            train_share: 0.5,
            inflection: InflectionOptions::default(),
            fit: FitOptions::default(),
            boost: BoostOptions::default(),
            devices: Devices::default(),
            slow_above: SlowAbove::default(),
            unbiased: false,
        }
    }
}

/// The current step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Features and inflection points of all devices.
    Label,
    /// An epoch has ended.
    Fit {
        /// With or without the bias against false submits.
        biased: bool,
        /// Epochs done.
        epoch: usize,
        /// Epochs in total.
        epochs: usize,
        /// Its mean training loss.
        loss: f32,
    },
    /// Evaluation of a network on the later part.
    Evaluate,
    /// Trees and predictions of all devices, and their evaluation.
    Trees,
}

/// Progress of the work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Current device, from 0.
    pub device: usize,
    /// Number of devices.
    pub devices: usize,
    /// Its current step.
    pub stage: Stage,
}

/// A fit and its figures.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// The networks.
    pub fitted: Fitted,
    /// The quantised network on the rows that it was trained on (all of the training part).
    pub train: Evaluation,
    /// The quantised network on the later part.
    pub test: Evaluation,
    /// The network before quantisation, on the later part.
    pub test_float: Evaluation,
    /// Effect of quantisation on the later part.
    pub quantisation: QuantisationLoss,
}

/// Result for one device, or for all if they are pooled.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Where fast ends.
    pub inflection: Inflection,
    /// Records that gave no row of the network.
    pub dropped: Dropped,
    /// Numbers of rows of the network: in the training part and in the later part.
    pub rows: (u64, u64),
    /// The complete model, for a model file: the biased network, the trees, the predictions, and the device's
    /// thresholds. Its false submits are those on the training rows.
    pub model: Model,
    /// The biased fit.
    pub biased: Evaluated,
    /// The fit without bias, if requested.
    pub unbiased: Option<Evaluated>,
    /// Above this latency a read is slow to the trees.
    pub slow_above_ns: Nanos,
    /// Figures of the trees on the later part.
    pub trees: Evaluation,
    /// Accuracy of the predictions on it.
    pub predicted: Predicted,
}

/// Result for one device without its trees; `model` lacks them too.
struct NetworkOnly {
    inflection: Inflection,
    dropped: Dropped,
    rows: (u64, u64),
    model: Model,
    biased: Evaluated,
    unbiased: Option<Evaluated>,
}

/// Fits a model to every device of an array: the earlier part of its records trains, the rest tests. With one device,
/// all replicas are assumed to behave like it.
///
/// `on_progress` is called at every step; returning false stops the work. The same records and options give the same
/// bytes of models.
///
/// # Errors
/// Those of [`crate::label`], [`fit_network`] and [`crate::fit_trees`], wrapped in [`Error::Device`] if they concern
/// one device; [`Error::Interrupted`] if `on_progress` stopped the work.
pub fn fit(
    devices: &[&[IoRecord]],
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Learned>, Error> {
    start(devices.len(), options, on_progress)?;
    let parts = split_all(devices, options.train_share)?;
    let tested: Vec<usize> = parts.iter().map(|(_, test)| test.len()).collect();
    let past: Vec<Vec<IoRecord>> =
        parts.iter().zip(devices).map(|((train, _), records)| past(records, train)).collect();
    let past: Vec<&[IoRecord]> = past.iter().map(Vec::as_slice).collect();
    let networks = fit_networks(parts, &past, options, on_progress)?;
    let share = options.train_share;
    add_trees(networks, devices.len(), options, on_progress, |device, inflection_ns| {
        Periods::split(devices[device], share, tested[device], inflection_ns, options.boost.schema)
    })
}

/// Fits a model to one period of every device and evaluates it on another: `train` and `test` hold the records of each
/// device. `options.train_share` is ignored.
///
/// # Errors
/// Those of [`fit`]; [`Error::Setting`] if the two lists differ in length.
pub fn fit_periods(
    train: &[&[IoRecord]],
    test: &[&[IoRecord]],
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Learned>, Error> {
    start(train.len(), options, on_progress)?;
    let parts = rows_of_periods(train, test)?;
    let tested: Vec<usize> = parts.iter().map(|(_, test)| test.len()).collect();
    let networks = fit_networks(parts, train, options, on_progress)?;
    add_trees(networks, train.len(), options, on_progress, |device, inflection_ns| {
        Periods::of(train[device], test[device], tested[device], inflection_ns, options.boost.schema)
    })
}

/// Number of models for this many devices.
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

/// `parts` are each device's rows without labels; `past` holds the records of its training part, for the thresholds.
fn fit_networks(
    parts: Vec<(TrainingSet, TrainingSet)>,
    past: &[&[IoRecord]],
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<NetworkOnly>, Error> {
    if options.devices == Devices::Pooled {
        let (part, past) = pool(parts, past, &options.inflection)?;
        return fit_labelled(vec![part], &[&past], options, on_progress);
    }
    fit_labelled(label_parts(parts, &options.inflection)?, past, options, on_progress)
}

/// Fits the networks of all devices, on every CPU. Each fit has its own seed, so the number of CPUs changes no result.
fn fit_labelled(
    parts: Vec<Labelled>,
    past: &[&[IoRecord]],
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<NetworkOnly>, Error> {
    let devices = parts.len();
    let weight = options.fit.train.false_submit_weight;
    let weights: Vec<f32> = if options.unbiased { vec![weight, 1.0] } else { vec![weight] };
    let jobs = (0..devices).flat_map(|device| weights.iter().map(move |&weight| (device, weight))).collect();
    let work = |(device, weight): (usize, f32), tell: &Tell<Progress>| {
        let mut fit = options.fit.clone();
        fit.train.seed = seed_of(device, options);
        fit.train.false_submit_weight = weight;
        let part = &parts[device];
        evaluated(&part.train, &part.test, &fit, &mut |stage| tell(Progress { device, devices, stage }))
            .map_err(|error| if options.devices == Devices::Pooled { error } else { of_device(device, error) })
    };
    let mut fits = on_all_cpus(jobs, work, on_progress)?.into_iter();
    let networks = parts.into_iter().zip(past).enumerate().map(|(device, (part, past))| {
        let biased = fits.next().expect("a fit of each device");
        let unbiased = options.unbiased.then(|| fits.next().expect("two fits of each device"));
        NetworkOnly::of(part, past, biased, unbiased, seed_of(device, options))
    });
    Ok(networks.collect())
}

fn seed_of(device: usize, options: &LearnOptions) -> u64 {
    options.fit.train.seed.wrapping_add(device as u64)
}

/// Completes each model. `periods` returns the rows of a device's trees for the inflection point of its network.
fn add_trees(
    networks: Vec<NetworkOnly>,
    devices: usize,
    options: &LearnOptions,
    on_progress: &mut dyn FnMut(Progress) -> bool,
    periods: impl Fn(usize, Nanos) -> Result<Periods, Error>,
) -> Result<Vec<Learned>, Error> {
    tell(on_progress, Progress { device: 0, devices: networks.len(), stage: Stage::Trees })?;
    let inflection_ns: Vec<Nanos> = networks.iter().map(|own| own.inflection.latency_ns).collect();
    let slow_above_ns = |model: usize| options.slow_above.latency_ns(model, &inflection_ns);
    let rows = |device: usize| -> Result<Periods, Error> {
        let model = device.min(networks.len() - 1);
        let mut rows = periods(device, inflection_ns[model]).map_err(|error| of_device(device, error))?;
        rows.label(slow_above_ns(model));
        Ok(rows)
    };
    let rows = (0..devices).map(rows).collect::<Result<Vec<_>, _>>()?;
    let trees = match options.devices {
        Devices::Apart => rows
            .iter()
            .map(|own| learn_trees(own, score_of_rate(std::slice::from_ref(own), &options.boost)?, &options.boost))
            .collect::<Result<_, _>>()?,
        Devices::SharedTrees => learn_trees_shared(&rows, &options.boost)?,
        Devices::Pooled => {
            let slow_score = score_of_rate(&rows, &options.boost)?;
            vec![learn_trees(&Periods::together(rows), slow_score, &options.boost)?]
        }
    };
    let models = networks.into_iter().zip(trees).enumerate();
    Ok(models.map(|(model, (network, trees))| network.with(trees, slow_above_ns(model))).collect())
}

impl NetworkOnly {
    fn of(part: Labelled, past: &[IoRecord], biased: Evaluated, unbiased: Option<Evaluated>, seed: u64) -> NetworkOnly {
        let Labelled { inflection, train, test } = part;
        // "We use the false submit rates from the training process" (LinnOS, section 5.3): the later part does not
        // influence the model, including its hedge delay.
        let false_submit = biased.train.false_submit;
        let model = Model {
            network: Some(biased.fitted.network.clone()),
            trees: None,
            predictions: Predictions::default(),
            thresholds: thresholds(past, &inflection, false_submit),
            inflection_percentile: inflection.percentile,
            false_submit,
            rows: biased.fitted.rows,
            seed,
        };
        let rows = (train.len() as u64, test.len() as u64);
        NetworkOnly { inflection, dropped: train.dropped, rows, model, biased, unbiased }
    }

    fn with(self, own: EvaluatedTrees, slow_above_ns: Nanos) -> Learned {
        let NetworkOnly { inflection, dropped, rows, model, biased, unbiased } = self;
        let model = Model { trees: Some(own.trees), predictions: own.predictions, ..model };
        let EvaluatedTrees { test: trees, predicted, .. } = own;
        Learned { inflection, dropped, rows, model, biased, unbiased, slow_above_ns, trees, predicted }
    }
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

/// The records up to the last read of the training part, by place: of those that arrive at one time with it, the later
/// reads are test reads.
fn past(records: &[IoRecord], train: &TrainingSet) -> Vec<IoRecord> {
    let reads = train.dropped.warm_up as usize + train.len();
    let mut past = records.to_vec();
    past.sort_by_key(|record| record.arrive_ns);
    let has_latency = |record: &IoRecord| record.op.is_read() && record.latency_ns.is_some();
    let mut places = (0..past.len()).filter(|&place| has_latency(&past[place]));
    let last = reads.checked_sub(1).and_then(|last| places.nth(last));
    past.truncate(last.map_or(0, |last| last + 1));
    past
}
