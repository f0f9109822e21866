// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linnet.Model`: network, trees and thresholds of a device, as stored in a model file.

use std::path::PathBuf;

use linnet_array::DeviceModel;
use linnet_core::{BUCKET_MAX, INFLIGHT_FEATURES, Model, Prediction};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors;
use crate::network::PyNetwork;
use crate::numbers::{integer_rows, vector};
use crate::pickled::{self, Reduced};

/// CRC-32C, the checksum of model files (spec/model-file.md).
#[pyfunction]
pub fn crc32c(py: Python<'_>, data: &[u8]) -> u32 {
    py.detach(|| linnet_core::crc32c(data))
}

/// A fitted model, which `linnet fit` writes and policies use. Immutable. Holds a network, for `linnos`, or trees, for
/// `linnet-best`, or both.
#[pyclass(name = "Model", module = "linnet", frozen)]
pub struct PyModel {
    pub model: Model,
}

impl PyModel {
    /// The models and thresholds that a policy uses.
    pub fn learned(&self) -> DeviceModel {
        let Model { thresholds, network, trees, predictions, .. } = &self.model;
        DeviceModel { thresholds: *thresholds, network: network.clone(), trees: *trees, predictions: *predictions }
    }
}

#[pymethods]
impl PyModel {
    /// Reads a model file. Raises ModelError, which names the file and the damaged field, or OSError.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        // A model has at most a few megabytes.
        const FILE_BYTES_MAX: u64 = 1 << 26;
        let shown = path.display().to_string();
        let bytes = linnet_files::read(&path, FILE_BYTES_MAX).map_err(|error| errors::file(&path, error))?;
        Self::from_bytes(&bytes, &shown)
    }

    /// Reads a model from the bytes of its file; `name` is used in errors.
    #[staticmethod]
    #[pyo3(signature = (data, name = "model"))]
    fn from_bytes(data: &[u8], name: &str) -> PyResult<Self> {
        Model::from_bytes(data)
            .map(|model| PyModel { model })
            .map_err(|error| errors::ModelError::new_err(format!("{name}: {error}; write it again with `linnet fit`")))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        pickled::by(slf, ("from_bytes", slf.get().to_bytes(slf.py())?))
    }

    /// The bytes of its file (`spec/model-file.md`).
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.model.to_bytes().map_err(errors::model)?))
    }

    /// The network of `linnos`, if it has one.
    #[getter]
    fn network(&self) -> Option<PyNetwork> {
        self.model.network.clone().map(PyNetwork)
    }

    /// The thresholds of the device in ns and I/Os.
    #[getter]
    fn thresholds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let thresholds = &self.model.thresholds;
        dict.set_item("inflection_ns", thresholds.inflection_ns)?;
        dict.set_item("latency_ns_p95", thresholds.latency_ns_p95)?;
        dict.set_item("latency_ns_p99", thresholds.latency_ns_p99)?;
        dict.set_item("hedge_ns", thresholds.hedge_ns)?;
        dict.set_item("queue_inflection", thresholds.queue_inflection)?;
        dict.set_item("queue_median", thresholds.queue_median)?;
        dict.set_item("queue_lower_quartile", thresholds.queue_lower_quartile)?;
        Ok(dict)
    }

    /// The old name of `thresholds`.
    #[getter]
    fn profile<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let warning = py.get_type::<pyo3::exceptions::PyDeprecationWarning>();
        PyErr::warn(py, &warning, c"Model.profile is now Model.thresholds", 1)?;
        self.thresholds(py)
    }

    /// The latency that splits fast reads from slow ones, ns.
    #[getter]
    fn inflection_ns(&self) -> u64 {
        self.model.thresholds.inflection_ns
    }

    /// Percentile of the inflection point in the device's distribution, 0 to 100.
    #[getter]
    fn inflection_percentile(&self) -> f64 {
        self.model.inflection_percentile
    }

    /// True if it has the trees that `linnet-best` needs.
    #[getter]
    fn has_trees(&self) -> bool {
        self.model.trees.is_some()
    }

    /// The schema of its trees' features, for `inflight_rows`; none without trees.
    #[getter]
    fn schema(&self) -> Option<&'static str> {
        self.model.trees.as_ref().map(|trees| trees.schema().name())
    }

    /// True if it predicts latencies.
    #[getter]
    fn has_latencies(&self) -> bool {
        self.model.predictions.latencies.is_some()
    }

    /// Names of what it predicts, for `predict`.
    #[getter]
    fn predictions(&self) -> Vec<&'static str> {
        self.model.predictions.each().map(Prediction::name).collect()
    }

    /// The score above which its trees call a read slow, so that it may be revoked; none without trees. 0 is even odds.
    #[getter]
    fn slow_score(&self) -> Option<i32> {
        self.model.trees.as_ref().map(linnet_core::Trees::slow_score)
    }

    /// The trees' scores (n,) of features (n, 16) from `inflight_rows`: the logarithm of the odds that a read is slow,
    /// times 1024. Raises ModelError without trees, and ValueError for features that are not 0 to 63.
    fn scores<'py>(&self, py: Python<'py>, features: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let trees = self.model.trees.ok_or_else(|| errors::ModelError::new_err("the model has no trees"))?;
        let rows = rows(features)?;
        vector(py, py.detach(|| rows.iter().map(|row| trees.score(row)).collect()))
    }

    /// Latencies (n, 5) in ns that a read with these features (n, 16) stays within with a probability of 50, 90, 95, 99
    /// and 99.9 %; 4294967295 means that or more. Raises ModelError for a model that predicts none, and ValueError for
    /// features above 63.
    fn predict_latency<'py>(
        &self,
        py: Python<'py>,
        features: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<u32>>> {
        self.predict(py, "latencies", features)
    }

    /// The numbers (n, k) that the prediction of this name gives for features (n, 16) of reads; `spec/model-file.md`
    /// says what they are. Raises ModelError for a name that is not one of `predictions`, and ValueError for features
    /// above 63.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        features: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<u32>>> {
        let found = self.model.trees.zip(self.model.predictions.each().find(|own| own.name() == name));
        let (trees, prediction) = found.ok_or_else(|| {
            errors::ModelError::new_err(format!("the model predicts no {name}; write it again with `linnet fit`"))
        })?;
        let rows = rows(features)?;
        let width = prediction.numbers(0, &[0; INFLIGHT_FEATURES]).len();
        let flat: Vec<u32> =
            py.detach(|| rows.iter().flat_map(|row| prediction.numbers(trees.score(row), row)).copied().collect());
        vector(py, flat)?.reshape([rows.len(), width])
    }

    /// Reads it was trained on.
    #[getter]
    fn rows(&self) -> u64 {
        self.model.rows
    }

    /// Seed of the training.
    #[getter]
    fn seed(&self) -> u64 {
        self.model.seed
    }
}

/// Rows of features as the trees take them. Larger numbers than a tracker gives would have a score that depends on the
/// processor's instructions.
fn rows(features: &Bound<'_, PyAny>) -> PyResult<Vec<[u8; INFLIGHT_FEATURES]>> {
    let needed = format!("rows (n, {INFLIGHT_FEATURES}) of features");
    let features: PyReadonlyArray2<'_, u8> = integer_rows(features, "uint8", &needed)?;
    let width = features.shape()[1];
    if width != INFLIGHT_FEATURES {
        return Err(PyValueError::new_err(format!("rows have {width} features; the trees take {INFLIGHT_FEATURES}")));
    }
    let features = features.as_array();
    if let Some(((row, feature), above)) = features.indexed_iter().find(|&(_, &own)| own > BUCKET_MAX) {
        return Err(PyValueError::new_err(format!(
            "feature {feature} of row {row} is {above}; features are 0 to {BUCKET_MAX}"
        )));
    }
    let row = |row: numpy::ndarray::ArrayView1<'_, u8>| std::array::from_fn(|k| row[k]);
    Ok(features.rows().into_iter().map(row).collect())
}
