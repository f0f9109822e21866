// SPDX-License-Identifier: MIT OR Apache-2.0
//! Binding of a knob's model: fitted to rows, decided by, read and written.

use linnet_core::{Activation, CartOptions, Knob, SCHEMA_PRIVATE, SCHEMA_READAHEAD1, Unit};
use linnet_tune::feature::NAMES;
use linnet_tune::fit::{FitOptions, Parts, Rows, fit};
use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::numbers::{self, vector};
use crate::progress::Progress;
use crate::whole;

/// The model of a knob: a network, a tree, or both, and the value of each class.
#[pyclass(module = "linnet", name = "KnobModel", frozen)]
pub struct PyKnobModel(Knob);

type Decisions<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl PyKnobModel {
    /// Fits a model to rows of features (n, inputs) and their classes, which are indices into `values`, in KiB. Rows of
    /// as many numbers as the observer's features are of its schema; others of a private one. Ctrl-C stops it between two
    /// epochs or splits.
    #[staticmethod]
    #[pyo3(signature = (rows, classes, values, *, parts = "both", hidden = vec![15, 5], activation = "sigmoid", epochs = 200,
                        learning_rate = 0.02, momentum = 0.9, max_depth = 9, min_samples_leaf = 4, max_leaves = 32,
                        confidence = 0.6, seed = 0))]
    #[allow(clippy::too_many_arguments)]
    fn fit(
        py: Python<'_>,
        #[pyo3(from_py_with = numbers::exact)] rows: PyReadonlyArray2<'_, f32>,
        classes: Vec<u8>,
        values: Vec<u32>,
        parts: &str,
        hidden: Vec<usize>,
        activation: &str,
        #[pyo3(from_py_with = whole::epochs)] epochs: usize,
        learning_rate: f32,
        momentum: f32,
        #[pyo3(from_py_with = whole::max_depth)] max_depth: usize,
        #[pyo3(from_py_with = whole::min_samples_leaf)] min_samples_leaf: usize,
        #[pyo3(from_py_with = whole::max_leaves)] max_leaves: usize,
        confidence: f64,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
    ) -> PyResult<PyKnobModel> {
        let parts = match parts {
            "both" => Parts::Both,
            "network" => Parts::Network,
            "tree" => Parts::Tree,
            other => return Err(PyValueError::new_err(format!("parts is {other:?}; give both, network or tree"))),
        };
        let activation = match activation {
            "sigmoid" => Activation::Sigmoid,
            "relu" => Activation::Relu,
            other => return Err(PyValueError::new_err(format!("activation is {other:?}; give sigmoid or relu"))),
        };
        let tree = CartOptions { depth_max: max_depth, leaf_rows: min_samples_leaf, leaves_max: max_leaves };
        let options = FitOptions { hidden, activation, epochs, learning_rate, momentum, tree, seed };
        let inputs = rows.shape()[1];
        let schema = if inputs == NAMES.len() { SCHEMA_READAHEAD1 } else { SCHEMA_PRIVATE };
        let features: Vec<f32> = rows.as_array().iter().copied().collect();
        let mut progress = Progress::new(None);
        let fitted = py.detach(|| {
            let rows = Rows { features: &features, inputs, classes: &classes };
            fit(schema, Unit::Kib, &values, rows, parts, confidence, &options, &mut || progress.tell(()))
        });
        progress.raised().map_or(Ok(()), Err)?;
        fitted.map(PyKnobModel).map_err(|error| errors::LearnError::new_err(error.to_string()))
    }

    /// Reads a model file.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<PyKnobModel> {
        Knob::from_bytes(data).map(PyKnobModel).map_err(errors::model)
    }

    /// The model as a file (spec/knob.md), which states this share of rows outside the training data.
    #[pyo3(signature = (accuracy = 0.0))]
    fn to_bytes<'py>(&self, py: Python<'py>, accuracy: f64) -> PyResult<Bound<'py, PyBytes>> {
        let knob = Knob { accuracy, ..self.0.clone() };
        knob.to_bytes().map(|bytes| PyBytes::new(py, &bytes)).map_err(errors::model)
    }

    /// The value of each row (n, inputs) in KiB, and the model's confidence, 0 to 1.
    fn decide<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = numbers::exact)] rows: PyReadonlyArray2<'py, f32>,
    ) -> PyResult<Decisions<'py>> {
        let mut values = Vec::new();
        let mut sure = Vec::new();
        for row in rows.as_array().rows() {
            let (_, value, confidence) = self.0.decide(&row.to_vec()).map_err(errors::model)?;
            values.push(value);
            sure.push(confidence);
        }
        Ok((vector(py, values)?, vector(py, sure)?))
    }

    /// The value of each class, in KiB.
    #[getter]
    fn values(&self) -> Vec<u32> {
        self.0.values.clone()
    }

    /// "both", "network" or "tree".
    #[getter]
    fn parts(&self) -> &'static str {
        match (&self.0.network, &self.0.tree) {
            (Some(_), Some(_)) => "both",
            (Some(_), None) => "network",
            _ => "tree",
        }
    }

    /// Rows that it was fitted to.
    #[getter]
    fn rows(&self) -> u64 {
        self.0.rows
    }

    /// Share of rows outside the training data whose class it names; 0 where the file does not say.
    #[getter]
    fn accuracy(&self) -> f64 {
        self.0.accuracy
    }
}
