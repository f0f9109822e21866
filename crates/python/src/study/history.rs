// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings for rows with histories of other lengths than LinnOS's, and networks trained on rows of any width.

use std::num::NonZeroUsize;

use linnet_core::{Loss, TrainOptions};
use linnet_study::HistorySet;
use numpy::{PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::learn::Rows;
use crate::network::PyNetwork;
use crate::numbers::{self, vector};
use crate::progress::Progress;
use crate::trace::PyTrace;
use crate::whole;

/// Trains a network on rows of any number of digits and quantises it to three decimals. Ctrl-C stops it between two epochs.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn train_network<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = numbers::exact)] rows: PyReadonlyArray2<'py, u8>,
    #[pyo3(from_py_with = numbers::exact)] slow: PyReadonlyArray1<'py, bool>,
    #[pyo3(from_py_with = whole::hidden)] hidden: Vec<usize>,
    #[pyo3(from_py_with = whole::epochs)] epochs: usize,
    #[pyo3(from_py_with = whole::batch)] batch: NonZeroUsize,
    false_submit_weight: f32,
    #[pyo3(from_py_with = whole::seed)] seed: u64,
) -> PyResult<PyNetwork> {
    let width = rows.shape()[1];
    let digits: Vec<u8> = rows.as_array().iter().copied().collect();
    if let Some(odd) = digits.iter().find(|&&digit| digit > linnet_core::DIGIT_MAX) {
        return Err(PyValueError::new_err(format!("{odd} is no decimal digit")));
    }
    if epochs == 0 {
        return Err(PyValueError::new_err("epochs is 0; a network that is trained has at least 1"));
    }
    let slow = slow.as_array().to_vec();
    let options = TrainOptions {
        hidden,
        epochs,
        batch: batch.get(),
        false_submit_weight,
        seed,
        loss: Loss::CategoricalHinge,
        ..TrainOptions::default()
    };
    let mut progress = Progress::new(None);
    let trained =
        py.detach(|| linnet_study::train_rows(&options, width, &digits, &slow, &mut |_, _| progress.tell(())));
    // A run that is stopped ends with the network of its last epoch, and without an error of its own.
    progress.raised().map_or(Ok(()), Err)?;
    trained.map(PyNetwork).map_err(|error| match error {
        linnet_learn::Error::Core(error) => errors::model(error),
        error => errors::learn(error),
    })
}

/// Digits (n, 7 history + 3) and labels (n,) of a trace's reads from a tracker with a history of this many reads: for
/// studies. Four reads give the rows of `training_rows`.
#[pyfunction]
pub fn history_rows<'py>(
    py: Python<'py>,
    trace: PyRef<'py, PyTrace>,
    #[pyo3(from_py_with = whole::history)] history: usize,
    #[pyo3(from_py_with = whole::inflection_ns)] inflection_ns: u64,
) -> PyResult<Rows<'py>> {
    let records = trace.records.clone();
    let set = py.detach(|| HistorySet::from_records(&records, history, inflection_ns)).map_err(errors::learn)?;
    let rows = set.slow.len();
    let digits = vector(py, set.digits)?.reshape([rows, set.inputs])?;
    Ok((digits, vector(py, set.slow)?))
}
