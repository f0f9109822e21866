// SPDX-License-Identifier: MIT OR Apache-2.0
//! Binding of path scores: runs of an array under a path selector whose parts are switches.

use linnet_array::Playback;
use linnet_study::{PathOptions, PathScores};
use linnet_types::FAILOVER_NS;
use pyo3::prelude::*;

use crate::array::{PyArray, PyRun};
use crate::errors;
use crate::setup::Setup;
use crate::trace::PyTrace;

/// Runs an array like `Array.run`, with reads sent by path scores. Raises PolicyError.
#[pyfunction]
#[pyo3(signature = (array, streams, *, cpus = 1, size_classes = false, sample_every = 1, in_flight = true,
    shares = false, refresh_ns = 0, seed = 0, failover_ns = FAILOVER_NS, writes_to_all = false, warm_up_ns = 0))]
#[allow(clippy::too_many_arguments)]
pub fn scored_paths(
    py: Python<'_>,
    array: &PyArray,
    streams: Vec<PyRef<'_, PyTrace>>,
    cpus: u16,
    size_classes: bool,
    sample_every: u32,
    in_flight: bool,
    shares: bool,
    refresh_ns: u64,
    seed: u64,
    failover_ns: u64,
    writes_to_all: bool,
    warm_up_ns: u64,
) -> PyResult<PyRun> {
    let playback = Playback { warm_up_ns, ..Playback::default() };
    let setup = Setup::new(&streams, &[], array.config(seed, failover_ns, writes_to_all))?;
    let options = PathOptions { cpus: cpus.into(), size_classes, sample_every, in_flight, shares, refresh_ns };
    let policy = PathScores::new(options, array.count, seed);
    let (result, stats) =
        py.detach(|| array.run_through(&setup, Box::new(policy), playback, &mut ())).map_err(errors::policy)?;
    Ok(array.finished(&streams, result, stats))
}
