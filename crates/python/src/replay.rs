// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays traces in real time on NBD exports.

use linnet_array::Config;
use linnet_replay::{Error, Options};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

use crate::array::PyRun;
use crate::errors;
use crate::model::PyModel;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::trace::PyTrace;

/// Replays one trace for each export under `policy`, in real time; `time_scale` is wall time divided by trace time.
/// Writes overwrite the exports. Returns the run and the delays of submits (ns, sorted). `progress(I/Os sent)` may
/// return False to stop.
#[pyfunction]
#[pyo3(signature = (uris, streams, policy, models, time_scale = 1.0, seed = 0, progress = None))]
#[allow(clippy::too_many_arguments)]
pub fn replay(
    py: Python<'_>,
    uris: Vec<String>,
    streams: Vec<PyRef<'_, PyTrace>>,
    policy: &str,
    models: Vec<PyRef<'_, PyModel>>,
    time_scale: f64,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<(PyRun, Vec<u64>)> {
    if !(0.001..=1e6).contains(&time_scale) {
        return Err(PyValueError::new_err(format!("time_scale is {time_scale}; give 0.001 to 1000000")));
    }
    let config = Config { replicas: uris.len(), seed, ..Config::default() };
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
            Ok((PyRun::new(reads, outcome.counters, Vec::new(), outcome.log, names), outcome.lateness_ns))
        }
        Err(Error::Interrupted { .. }) => Err(progress.error(PyKeyboardInterrupt::new_err("the replay was stopped"))),
        Err(error) => Err(errors::DeviceError::new_err(error.to_string())),
    }
}
