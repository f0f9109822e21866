// SPDX-License-Identifier: MIT OR Apache-2.0
//! Binding of linnet-best with foresight in the place of its trees.

use std::sync::PoisonError;

use linnet_array::Playback;
use linnet_study::{Informed, Scores};
use linnet_types::FAILOVER_NS;
use pyo3::prelude::*;

use crate::array::{PyArray, PyRun};
use crate::errors;
use crate::model::PyModel;
use crate::setup::Setup;
use crate::trace::PyTrace;

/// Runs an array like `Array.run` under linnet-best, with the scores of a model that is `distance` standard deviations
/// apart on slow and on fast reads, or without `distance` with those of the models' trees, or if `overdue` with those of a
/// rule that avoids devices whose oldest read in flight is older than the hedge delay; a read above `slow_above_ns` of
/// its device is slow. Returns the run, the AUC of what was compared (None if all reads are alike), and the share of slow
/// answers among all that could have been chosen. Raises PolicyError.
#[pyfunction]
#[pyo3(signature = (array, streams, models, distance, slow_above_ns, *, overdue = false, seed = 0, failover_ns = FAILOVER_NS,
    writes_to_all = false, warm_up_ns = 0))]
#[allow(clippy::too_many_arguments)]
pub fn informed(
    py: Python<'_>,
    array: &PyArray,
    streams: Vec<PyRef<'_, PyTrace>>,
    models: Vec<Option<PyRef<'_, PyModel>>>,
    distance: Option<f64>,
    slow_above_ns: Vec<u64>,
    overdue: bool,
    seed: u64,
    failover_ns: u64,
    writes_to_all: bool,
    warm_up_ns: u64,
) -> PyResult<(PyRun, Option<f64>, f64)> {
    if !array.foresight() {
        return Err(errors::PolicyError::new_err("it needs drives with foresight, and the queued model has none"));
    }
    if slow_above_ns.len() != array.count {
        return Err(errors::PolicyError::new_err(format!(
            "{} latencies above which a read is slow, for {} devices; give one for each",
            slow_above_ns.len(),
            array.count
        )));
    }
    let playback = Playback { warm_up_ns, ..Playback::default() };
    let setup = Setup::new(&streams, &models, array.config(seed, failover_ns, writes_to_all))?;
    let scores = match (overdue, distance) {
        (true, _) => Scores::Overdue,
        (_, Some(distance)) => Scores::Foresight(distance),
        (_, None) => Scores::Trees(setup.trees()),
    };
    let (policy, compared) = Informed::new(scores, slow_above_ns, setup.hedging(), seed, warm_up_ns);
    let (result, stats) =
        py.detach(|| array.run_through(&setup, Box::new(policy), playback, &mut ())).map_err(errors::policy)?;
    let compared = compared.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((array.finished(&streams, result, stats), compared.auc(), compared.slow_share()))
}
