// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of the drift study: a trace replayed with a model trained once, one with drift handling, and one that is
//! always retrained.

use linnet_core::TrainOptions;
use linnet_learn::{BoostOptions, DriftOptions, Error, FitOptions, LinnOsScheme, LinnetScheme, Verdict};
use linnet_study::{DriftStudy, STRATEGIES, StudyChunk, StudyEvent, study_drift};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::learn::evaluation;
use crate::progress::Progress;
use crate::trace::PyTrace;

/// Result of drift handling on a trace with latencies, as a dictionary. `progress(I/Os done)` may return False to stop.
#[pyfunction]
#[pyo3(signature = (trace, model, window, margin, seed, block_ns, progress = None))]
#[allow(clippy::too_many_arguments)]
pub fn drift_study<'py>(
    py: Python<'py>,
    trace: PyRef<'py, PyTrace>,
    model: &str,
    window: usize,
    margin: f64,
    seed: u64,
    block_ns: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let records = trace.records.clone();
    let mut options = DriftOptions { window, margin, block_ns, ..DriftOptions::default() };
    options.inflection.seed = seed;
    let mut progress = Progress::new(progress);
    let mut on_progress = |done: u64| progress.tell((done,));
    let found = match model {
        "linnet" => {
            let scheme = LinnetScheme(BoostOptions { seed, ..BoostOptions::default() });
            py.detach(|| study_drift(&scheme, &records, &options, &mut on_progress))
        }
        "linnos" => {
            let train = TrainOptions { seed, ..TrainOptions::default() };
            let scheme = LinnOsScheme(FitOptions { train, ..FitOptions::default() });
            py.detach(|| study_drift(&scheme, &records, &options, &mut on_progress))
        }
        other => return Err(PyValueError::new_err(format!("unknown model {other:?}; known: linnet, linnos"))),
    };
    match found {
        Ok(found) => dictionary(py, &found),
        Err(Error::Interrupted) => Err(progress.error(PyKeyboardInterrupt::new_err("the study was stopped"))),
        Err(error) => Err(errors::learn(error)),
    }
}

fn dictionary<'py>(py: Python<'py>, found: &DriftStudy) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("reads", found.reads)?;
    dict.set_item("checks", found.checks)?;
    dict.set_item("checks_of_calibration", found.checks_of_calibration)?;
    let fits = PyDict::new(py);
    for (name, count) in STRATEGIES.iter().zip(found.fits) {
        fits.set_item(name, count)?;
    }
    dict.set_item("fits", fits)?;
    let chunks: PyResult<Vec<_>> = found.chunks.iter().map(|one| chunk(py, one)).collect();
    dict.set_item("chunks", chunks?)?;
    let events: PyResult<Vec<_>> = found.events.iter().map(|(at, one)| event(py, *at, one)).collect();
    dict.set_item("happenings", events?)?;
    Ok(dict)
}

fn chunk<'py>(py: Python<'py>, chunk: &StudyChunk) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("from_s", chunk.time_ns.0 as f64 / 1e9)?;
    dict.set_item("until_s", chunk.time_ns.1 as f64 / 1e9)?;
    dict.set_item("inflection_us", chunk.inflection_ns as f64 / 1e3)?;
    for (k, name) in STRATEGIES.iter().enumerate() {
        let own = evaluation(py, &chunk.figures[k])?;
        own.set_item("merit", chunk.merit[k])?;
        own.set_item("own_accuracy", chunk.own_accuracy[k])?;
        dict.set_item(name, own)?;
    }
    Ok(dict)
}

fn event<'py>(py: Python<'py>, at_ns: u64, event: &StudyEvent) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("at_s", at_ns as f64 / 1e9)?;
    let compared = |kind: &str, verdict: &Verdict| {
        dict.set_item("what", kind)?;
        dict.set_item("reads", verdict.reads)?;
        dict.set_item("merit_serving", verdict.serving)?;
        dict.set_item("merit_shadow", verdict.shadow)?;
        dict.set_item("t", verdict.t.is_finite().then_some(verdict.t))
    };
    match event {
        StudyEvent::Fitted { inflection_ns, percentile, rows } => {
            dict.set_item("what", "fitted")?;
            dict.set_item("inflection_us", *inflection_ns as f64 / 1e3)?;
            dict.set_item("percentile", percentile)?;
            dict.set_item("rows", rows)?;
        }
        StudyEvent::Failed(error) => {
            dict.set_item("what", "failed")?;
            dict.set_item("error", error)?;
        }
        StudyEvent::Alarm(check) => {
            dict.set_item("what", "alarm")?;
            let alarms = check.alarms;
            let named = [
                ("inflection", alarms.inflection),
                ("calibration", alarms.calibration),
                ("base-rate", alarms.base_rate),
            ];
            let rung: Vec<&str> = named.into_iter().filter_map(|(name, rings)| rings.then_some(name)).collect();
            dict.set_item("alarms", rung)?;
            dict.set_item("percentile_was", check.percentile.0)?;
            dict.set_item("percentile_is", check.percentile.1)?;
            dict.set_item("t", check.t.is_finite().then_some(check.t))?;
            dict.set_item("calibration_error", check.calibration_error)?;
        }
        StudyEvent::Swapped(verdict) => compared("swapped", verdict)?,
        StudyEvent::Rejected(verdict) => compared("rejected", verdict)?,
        StudyEvent::RolledBack(verdict) => compared("rolled-back", verdict)?,
        StudyEvent::Kept(verdict) => compared("kept", verdict)?,
    }
    Ok(dict)
}
