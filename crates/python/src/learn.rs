// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of inflection point, fit and evaluation.

use std::num::NonZeroUsize;
use std::sync::Arc;

use linnet_core::{Model, Network, Schema, TrainOptions, Trees};
use linnet_learn::{
    BoostOptions, Devices, Evaluated, Evaluation, FitOptions, InflectionOptions, InflightSet, LearnOptions, Learned,
    Predicted, Progress as At, SlowAbove, Stage, TrainingSet,
};
use linnet_types::IoRecord;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::errors;
use crate::model::PyModel;
use crate::numbers::{self, vector};
use crate::progress::{Progress, Tell, apart, interruptible};
use crate::trace::PyTrace;
use crate::whole;

type Boost<'py> = Bound<'py, PyArray2<f64>>;

/// The inflection point of one device: percentile, latency in ns, boost curve (candidates, 3).
#[pyfunction]
pub fn inflection_point<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = numbers::exact)] latencies: Vec<PyReadonlyArray1<'py, u64>>,
    #[pyo3(from_py_with = whole::device)] device: usize,
    #[pyo3(from_py_with = whole::replicas)] replicas: usize,
    #[pyo3(from_py_with = whole::seed)] seed: u64,
    #[pyo3(from_py_with = whole::failover_ns)] failover_ns: u64,
) -> PyResult<(f64, u64, Boost<'py>)> {
    let columns: Vec<Vec<u64>> = latencies.iter().map(|column| column.as_array().to_vec()).collect();
    let options = InflectionOptions { replicas, seed, failover_ns, ..InflectionOptions::default() };
    let found = py.detach(|| {
        let slices: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
        linnet_learn::inflection_point(&slices, device, &options)
    });
    let found = found.map_err(errors::learn)?;
    let boost = curve(py, &found)?;
    Ok((found.percentile, found.latency_ns, boost))
}

fn curve<'py>(py: Python<'py>, found: &linnet_learn::Inflection) -> PyResult<Boost<'py>> {
    let flat: Vec<f64> = found.boost.iter().flat_map(|p| [p.percentile, p.latency_ns as f64, p.boost_ns]).collect();
    vector(py, flat)?.reshape([found.boost.len(), 3])
}

/// Latencies in ns, in the order of arrival, of the reads that a fit with this share finds a device's inflection point
/// on; shape (reads,).
#[pyfunction]
pub fn training_latencies<'py>(
    py: Python<'py>,
    trace: PyRef<'py, PyTrace>,
    train_share: f64,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let records = trace.records.clone();
    let found = py.detach(|| linnet_learn::training_latencies(&records, train_share)).map_err(errors::learn)?;
    vector(py, found)
}

/// The devices, by their place, of which a period has no read to train or to test on.
#[pyfunction]
pub fn without_rows(py: Python<'_>, traces: Vec<PyRef<'_, PyTrace>>, test: Vec<PyRef<'_, PyTrace>>) -> Vec<usize> {
    let (train, test) = (held(&traces), held(&test));
    py.detach(|| linnet_learn::without_rows(&slices(&train), &slices(&test)))
}

/// Fits one model for each trace, or one for all of them together (`pooled`); returns models with their reports. Models
/// of devices of one type may share their trees (`shared_trees`). To the trees, reads are slow above the device's
/// inflection point, above the geometric mean of all (`mean_slow`), or above `slow_ns`. `test` holds a period of each
/// device to test on; without it the last part of each trace is the test part.
#[pyfunction]
#[pyo3(signature = (traces, test, *, seed, epochs, batch, false_submit_weight, train_share, replicas, failover_ns,
    max_rows, unbiased, pooled, shared_trees, mean_slow, slow_ns, schema, false_revoke, progress = None))]
#[allow(clippy::too_many_arguments)]
pub fn fit<'py>(
    py: Python<'py>,
    traces: Vec<PyRef<'py, PyTrace>>,
    test: Option<Vec<PyRef<'py, PyTrace>>>,
    #[pyo3(from_py_with = whole::seed)] seed: u64,
    #[pyo3(from_py_with = whole::epochs)] epochs: usize,
    #[pyo3(from_py_with = whole::batch)] batch: NonZeroUsize,
    false_submit_weight: f32,
    train_share: f64,
    #[pyo3(from_py_with = whole::replicas)] replicas: usize,
    #[pyo3(from_py_with = whole::failover_ns)] failover_ns: u64,
    #[pyo3(from_py_with = whole::max_rows)] max_rows: Option<usize>,
    unbiased: bool,
    pooled: bool,
    shared_trees: bool,
    mean_slow: bool,
    #[pyo3(from_py_with = whole::slow_ns)] slow_ns: Option<u64>,
    schema: &str,
    false_revoke: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<(PyModel, Bound<'py, PyDict>)>> {
    let options = LearnOptions {
        train_share,
        inflection: InflectionOptions { replicas, seed, failover_ns, ..InflectionOptions::default() },
        fit: FitOptions {
            train: TrainOptions { epochs, batch: batch.get(), false_submit_weight, seed, ..TrainOptions::default() },
            max_rows,
            ..FitOptions::default()
        },
        boost: BoostOptions { seed, schema: schema_of(schema)?, false_revoke, ..BoostOptions::default() },
        devices: match (pooled, shared_trees) {
            (true, _) => Devices::Pooled,
            (_, true) => Devices::SharedTrees,
            _ => Devices::Apart,
        },
        slow_above: match (slow_ns, mean_slow) {
            (Some(slow_ns), _) => SlowAbove::Latency(slow_ns),
            (_, true) => SlowAbove::MeanInflection,
            _ => SlowAbove::Inflection,
        },
        unbiased,
    };
    let records = held(&traces);
    let later = test.as_deref().map(held);
    let mut progress = Progress::new(progress);
    let fits = (if pooled { 1 } else { records.len() }) * (1 + usize::from(unbiased));
    let fits = fits.saturating_mul(epochs);
    let mut done = 0;
    let on_progress = |at: Option<At>| match at.map(|at| at.stage) {
        Some(Stage::Fit { loss, .. }) => {
            done += 1;
            progress.tell((done, fits, loss))
        }
        Some(Stage::Label | Stage::Evaluate | Stage::Trees) => progress.tell((done, fits, f32::NAN)),
        None => progress.look(),
    };
    let learn = move |tell: Tell<'_, At>| match &later {
        Some(later) => linnet_learn::fit_periods(&slices(&records), &slices(later), &options, tell),
        None => linnet_learn::fit(&slices(&records), &options, tell),
    };
    match apart(py, learn, on_progress) {
        Some(Ok(learned)) => learned
            .into_iter()
            .map(|one| {
                let report = report(py, &one)?;
                Ok((PyModel { model: one.model }, report))
            })
            .collect(),
        Some(Err(error)) => Err(errors::learn(error)),
        None => Err(progress.error(PyKeyboardInterrupt::new_err("fitting was stopped"))),
    }
}

/// The schema of the trees' features that has this name.
fn schema_of(name: &str) -> PyResult<Schema> {
    let known = Schema::ALL.map(Schema::name).join(", ");
    let found = Schema::ALL.into_iter().find(|schema| schema.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("unknown schema {name:?}; known: {known}")))
}

fn held(traces: &[PyRef<'_, PyTrace>]) -> Vec<Arc<Vec<IoRecord>>> {
    traces.iter().map(|trace| trace.records.clone()).collect()
}

fn slices(records: &[Arc<Vec<IoRecord>>]) -> Vec<&[IoRecord]> {
    records.iter().map(|records| records.as_slice()).collect()
}

fn report<'py>(py: Python<'py>, one: &Learned) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let inflection = PyDict::new(py);
    inflection.set_item("percentile", one.inflection.percentile)?;
    inflection.set_item("latency_us", one.inflection.latency_ns as f64 / 1000.0)?;
    inflection.set_item("start_percentile", one.inflection.start_percentile)?;
    inflection.set_item("boost_us", one.inflection.boost_ns / 1000.0)?;
    dict.set_item("inflection", inflection)?;
    dict.set_item("train_rows", one.rows.0)?;
    dict.set_item("test_rows", one.rows.1)?;
    dict.set_item("fitted_rows", one.biased.fitted.rows)?;
    let dropped = PyDict::new(py);
    dropped.set_item("warm_up", one.dropped.warm_up)?;
    dropped.set_item("reads_without_latency", one.dropped.reads_without_latency)?;
    dropped.set_item("writes_without_latency", one.dropped.writes_without_latency)?;
    dict.set_item("dropped", dropped)?;
    dict.set_item("biased", evaluated(py, &one.biased)?)?;
    let plain = one.unbiased.as_ref().map(|fit| evaluated(py, fit)).transpose()?;
    dict.set_item("unbiased", plain)?;
    let boost: Vec<_> = one.inflection.boost.iter().map(|p| (p.percentile, p.latency_ns, p.boost_ns)).collect();
    dict.set_item("boost", boost)?;
    dict.set_item("slow_above_us", one.slow_above_ns as f64 / 1000.0)?;
    dict.set_item("linnet", evaluation(py, &one.trees)?)?;
    add_predicted(&dict, &one.predicted)?;
    Ok(dict)
}

fn evaluated<'py>(py: Python<'py>, fit: &Evaluated) -> PyResult<Bound<'py, PyDict>> {
    let dict = evaluation(py, &fit.test)?;
    dict.set_item("train_accuracy", fit.train.accuracy)?;
    dict.set_item("float_accuracy", fit.test_float.accuracy)?;
    dict.set_item("quantisation_points", fit.quantisation.accuracy_points)?;
    dict.set_item("quantisation_changed", fit.quantisation.decisions_changed)?;
    dict.set_item("loss", fit.fitted.loss.clone())?;
    Ok(dict)
}

pub fn evaluation<'py>(py: Python<'py>, result: &Evaluation) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rows", result.rows)?;
    dict.set_item("base_rate", result.base_rate)?;
    dict.set_item("accuracy", result.accuracy)?;
    dict.set_item("balanced_accuracy", result.balanced_accuracy)?;
    dict.set_item("roc_auc", result.roc_auc)?;
    dict.set_item("false_submit", result.false_submit)?;
    dict.set_item("false_revoke", result.false_revoke)?;
    Ok(dict)
}

/// One item for each prediction: a row for each of its numbers, with its figures; none for one that the model lacks.
fn add_predicted(dict: &Bound<'_, PyDict>, predicted: &Predicted) -> PyResult<()> {
    for (name, rows) in predicted.figures() {
        let rows =
            rows.map(|rows| rows.into_iter().map(|row| row.into_py_dict(dict.py())).collect::<PyResult<Vec<_>>>());
        dict.set_item(name, rows.transpose()?)?;
    }
    Ok(())
}

/// Figures of a model's network, and those of its trees and predictions.
type Figures = (Option<Evaluation>, Option<(Evaluation, Predicted)>);

/// The figures of a model on the last share of each trace: trees and network on the same reads, as in a fit.
fn on_last_share(
    model: &Model,
    records: &[Arc<Vec<IoRecord>>],
    test_share: f64,
    slow_ns: u64,
) -> Result<Figures, linnet_learn::Error> {
    let inflection_ns = model.thresholds.inflection_ns;
    let (mut of_network, mut of_trees) = (TrainingSet::default(), InflightSet::default());
    for (device, records) in records.iter().enumerate() {
        let tested = linnet_learn::last_rows(records, test_share, inflection_ns)
            .map_err(|error| linnet_learn::Error::Device { device, source: Box::new(error) })?;
        if let Some(trees) = &model.trees {
            let own = InflightSet::from_records(records, inflection_ns, trees.schema())?;
            of_trees.append(own.last(tested.len()));
        }
        of_network.append(tested);
    }
    of_trees.label(slow_ns);
    let by_trees = |trees: &Trees| {
        let predicted = linnet_learn::evaluate_predictions(trees, &model.predictions, &of_trees)?;
        Ok::<_, linnet_learn::Error>((linnet_learn::evaluate_trees(trees, &of_trees)?, predicted))
    };
    let by_network = |network: &Network| linnet_learn::evaluate(network, &of_network);
    Ok((model.network.as_ref().map(by_network).transpose()?, model.trees.as_ref().map(by_trees).transpose()?))
}

/// Evaluates a model on the last share of each trace by time, the rows of all traces together. The figures are those of
/// its network, or of its trees if it has no network; `linnet` holds those of its trees; each prediction
/// by their score has an item of its name, such as `latencies`. Slow is a latency above the model's inflection point; to
/// the trees above `slow_ns`, if it is given. A trace of which no row is tested is named by the error.
#[pyfunction]
#[pyo3(signature = (model, traces, test_share, slow_ns = None))]
pub fn evaluate<'py>(
    py: Python<'py>,
    model: PyRef<'py, PyModel>,
    traces: Vec<PyRef<'py, PyTrace>>,
    test_share: f64,
    #[pyo3(from_py_with = whole::slow_ns)] slow_ns: Option<u64>,
) -> PyResult<Bound<'py, PyDict>> {
    if !(test_share > 0.0 && test_share <= 1.0) {
        return Err(PyValueError::new_err(format!("test_share is {test_share}; it lies above 0 and up to 1")));
    }
    let records = held(&traces);
    let named = |error| match error {
        linnet_learn::Error::Device { device, source } => {
            errors::LearnError::new_err(format!("{}: {source}", traces[device].name))
        }
        error => errors::learn(error),
    };
    let model = model.model.clone();
    let inflection_ns = model.thresholds.inflection_ns;
    let slow_ns = slow_ns.unwrap_or(inflection_ns);
    let (network, trees) =
        interruptible(py, move || on_last_share(&model, &records, test_share, slow_ns))?.map_err(named)?;
    let (trees, predicted) = trees.unzip();
    // Every model has a network or trees: a file without both is refused, and `fit` produces both.
    let Some(first) = network.as_ref().or(trees.as_ref()) else {
        return Err(errors::ModelError::new_err("the model has neither network nor trees"));
    };
    let dict = evaluation(py, first)?;
    dict.set_item("model", if network.is_some() { "linnos" } else { "linnet" })?;
    dict.set_item("linnet", trees.map(|result| evaluation(py, &result)).transpose()?)?;
    add_predicted(&dict, &predicted.unwrap_or_default())?;
    dict.set_item("inflection_us", inflection_ns as f64 / 1000.0)?;
    dict.set_item("test_share", test_share)?;
    Ok(dict)
}

pub type Rows<'py> = (Bound<'py, PyArray2<u8>>, Bound<'py, PyArray1<bool>>);

/// Features (n, 31) and labels (n,) of a trace's reads, in the order of arrival: the training data of `fit`.
#[pyfunction]
pub fn training_rows<'py>(
    py: Python<'py>,
    trace: PyRef<'py, PyTrace>,
    #[pyo3(from_py_with = whole::inflection_ns)] inflection_ns: u64,
) -> PyResult<Rows<'py>> {
    let records = trace.records.clone();
    let set = interruptible(py, move || TrainingSet::from_records(&records, inflection_ns))?.map_err(errors::learn)?;
    let rows = set.len();
    let digits = vector(py, set.digits)?.reshape([rows, linnet_core::DIGITS])?;
    Ok((digits, vector(py, set.slow)?))
}

type InflightRows<'py> = (Bound<'py, PyArray2<u8>>, Bound<'py, PyArray1<bool>>, Bound<'py, PyArray1<u64>>);

/// Features of each read as it arrives (`spec/features-linnet.md`), shape (n, features), with labels and latencies, in
/// the order of arrival: the training data of the trees.
#[pyfunction]
#[pyo3(signature = (trace, inflection_ns, schema = "linnet-1"))]
pub fn inflight_rows<'py>(
    py: Python<'py>,
    trace: PyRef<'py, PyTrace>,
    #[pyo3(from_py_with = whole::inflection_ns)] inflection_ns: u64,
    schema: &str,
) -> PyResult<InflightRows<'py>> {
    let schema = schema_of(schema)?;
    let records = trace.records.clone();
    let set = interruptible(py, move || InflightSet::from_records(&records, inflection_ns, schema))?
        .map_err(errors::learn)?;
    let (rows, width) = (set.len(), linnet_core::INFLIGHT_FEATURES);
    let flat: Vec<u8> = set.features.iter().flatten().copied().collect();
    let features = vector(py, flat)?.reshape([rows, width])?;
    Ok((features, vector(py, set.slow)?, vector(py, set.latency_ns)?))
}
