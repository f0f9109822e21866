// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of counterfactuals: what a host knows of every replica at each read, and what each would answer.

use std::sync::PoisonError;

use linnet_array::Playback;
use linnet_study::{COUNTERFACTUAL_FEATURES, CounterfactualPolicy};
use linnet_types::FAILOVER_NS;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;

use crate::array::PyArray;
use crate::errors;
use crate::model::PyModel;
use crate::numbers::vector;
use crate::setup::Setup;
use crate::trace::PyTrace;

/// Features (reads, replicas, numbers) and latencies in us (reads, replicas), with replicas in order from the primary,
/// and the replica that the policy chose for each read.
type Arrays<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyArray1<u8>>);

/// Runs `policy` like `Array.run`, and records what the host knew of each replica when a read arrived, and what each
/// would have answered.
#[pyfunction]
#[pyo3(signature = (array, streams, policy, models, seed = 0, failover_ns = FAILOVER_NS, writes_to_all = false))]
#[allow(clippy::too_many_arguments)]
pub fn counterfactual<'py>(
    py: Python<'py>,
    array: &PyArray,
    streams: Vec<PyRef<'_, PyTrace>>,
    policy: &str,
    models: Vec<Option<PyRef<'_, PyModel>>>,
    seed: u64,
    failover_ns: u64,
    writes_to_all: bool,
) -> PyResult<Arrays<'py>> {
    if !array.foresight() {
        return Err(errors::PolicyError::new_err(
            "counterfactual latencies need drives with foresight, and the queued model has none",
        ));
    }
    let setup = Setup::new(&streams, &models, array.config(seed, failover_ns, writes_to_all))?;
    let (policy, counterfactual) = CounterfactualPolicy::new(setup.policy(policy)?);
    py.detach(|| array.run_through(&setup, Box::new(policy), Playback::default(), &mut ())).map_err(errors::policy)?;
    let found = std::mem::take(&mut *counterfactual.lock().unwrap_or_else(PoisonError::into_inner));
    let reads = found.chosen.len();
    let latency_us: Vec<f64> = found.latency_ns.iter().map(|&ns| ns as f64 / 1000.0).collect();
    Ok((
        vector(py, found.features)?.reshape([reads, array.count, COUNTERFACTUAL_FEATURES])?.into_any(),
        vector(py, latency_us)?.reshape([reads, array.count])?.into_any(),
        vector(py, found.chosen)?,
    ))
}
