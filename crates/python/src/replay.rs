// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays traces in real time on NBD exports.

use linnet_array::Config;
use linnet_replay::{Error, Options};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

use crate::array::{ORACLE, PyRun, check_policy};
use crate::errors;
use crate::model::PyModel;
use crate::progress::Progress;
use crate::setup::{Setup, learned, write_mode};
use crate::trace::PyTrace;

/// Raises PolicyError for a policy that real drives with these models cannot run as what it is called: an unknown one,
/// the oracle, and one that decides by what a model lacks. `models` has one for each of the drives, or none.
#[pyfunction]
pub fn check_replay_policy(name: &str, models: Vec<Option<PyRef<'_, PyModel>>>, drives: usize) -> PyResult<()> {
    check_policy(name)?;
    if name == ORACLE {
        return Err(errors::PolicyError::new_err("oracle asks drives for answers in advance, and real ones give none"));
    }
    match linnet_array::missing(name, &learned(&models, drives)) {
        Some((device, what)) if models.is_empty() => {
            Err(errors::PolicyError::new_err(format!("{name} needs the {what} of drive {device}: give a model of it")))
        }
        Some((device, what)) => Err(errors::PolicyError::new_err(format!(
            "{name} needs the {what} of drive {device}, which its model does not have"
        ))),
        None => Ok(()),
    }
}

/// Replays one trace for each export under `policy`, in real time; `time_scale` is wall time divided by trace time.
/// Writes overwrite the exports: every one, or with `writes_to_all` false the stream's own. Returns the run, the delays
/// of submits (ns, sorted), and how many I/Os were folded and cut to the size of their export. `progress(I/Os sent)` may
/// return False to stop.
#[pyfunction]
#[pyo3(signature = (uris, streams, policy, models, time_scale = 1.0, writes_to_all = true, seed = 0, progress = None))]
#[allow(clippy::too_many_arguments)]
pub fn replay(
    py: Python<'_>,
    uris: Vec<String>,
    streams: Vec<PyRef<'_, PyTrace>>,
    policy: &str,
    models: Vec<Option<PyRef<'_, PyModel>>>,
    time_scale: f64,
    writes_to_all: bool,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<(PyRun, Vec<u64>, (u64, u64))> {
    if !(0.001..=1e6).contains(&time_scale) {
        return Err(PyValueError::new_err(format!("time_scale is {time_scale:?}; give 0.001 to 1000000")));
    }
    let config = Config { replicas: uris.len(), seed, write_mode: write_mode(writes_to_all), ..Config::default() };
    let setup = Setup::new(&streams, &models, config)?;
    let policy = setup.policy(policy)?;
    let options = Options { array: config, time_scale };
    let mut progress = Progress::new(progress);
    let outcome = py.detach(|| {
        let mut tell = |done| progress.tell((done,));
        linnet_replay::replay(&uris, &setup.streams(), &setup.thresholds(), policy, &options, &mut tell)
    });
    match outcome {
        Ok(outcome) => {
            let names = streams.iter().map(|trace| trace.name().to_owned()).collect();
            let reads = (outcome.latency_ns, outcome.tenant);
            let run = PyRun::new(reads, outcome.counters, Vec::new(), outcome.log, names).without_foresight();
            Ok((run, outcome.lateness_ns, (outcome.folded, outcome.cut)))
        }
        Err(Error::Interrupted { .. }) => Err(progress.error(PyKeyboardInterrupt::new_err("the replay was stopped"))),
        Err(error) => Err(errors::DeviceError::new_err(error.to_string())),
    }
}
