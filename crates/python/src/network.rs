// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linnet.Network`: exact integer networks on rows of digits.

use linnet_core::{Error, Layer, Network};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors;
use crate::numbers::{integer_column, integer_rows, vector};
use crate::pickled::{self, Reduced};

/// Dense layers on integers with ReLU between them and none after the last; exact for weights of any magnitude up to a
/// million. Rows are unsigned digits, shape (n, inputs).
#[pyclass(name = "Network", module = "linnet", frozen)]
pub struct PyNetwork(pub Network);

#[pymethods]
impl PyNetwork {
    /// A network from its integers: `layers` is a list of (weights, biases), weights of shape (outputs, inputs), both
    /// int64; `scales` is the bias scale of each layer ([1000, 1000000] for LinnOS). Raises ModelError for shapes or
    /// magnitudes out of bounds.
    #[staticmethod]
    fn from_integers(layers: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>, scales: Vec<i64>) -> PyResult<Self> {
        let layers = layers
            .iter()
            .map(|(weights, biases)| {
                let weights: PyReadonlyArray2<'_, i64> = integer_rows(weights, "int64", "weights (outputs, inputs)")?;
                let biases: PyReadonlyArray1<'_, i64> = integer_column(biases, "int64", "biases")?;
                Ok(Layer {
                    outputs: weights.shape()[0],
                    inputs: weights.shape()[1],
                    weights: weights.as_array().iter().copied().collect(),
                    biases: biases.as_array().iter().copied().collect(),
                })
            })
            .collect::<PyResult<_>>()?;
        Network::from_integers(layers, scales).map(PyNetwork).map_err(errors::model)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        pickled::by(slf, ("from_integers", slf.get().layers(slf.py())?, slf.get().scales()))
    }

    /// Digits per row.
    #[getter]
    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    /// Outputs of the last layer.
    #[getter]
    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    /// Decides each row: uint8 array (n,), 1 = revoke (output 1 exceeds output 0), 0 = submit.
    fn decide<'py>(&self, py: Python<'py>, digits: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let rows = self.rows(digits)?;
        let network = &self.0;
        let out = py
            .detach(|| {
                rows.chunks_exact(network.inputs())
                    .map(|row| Ok(u8::from(network.try_score(row)? > 0)))
                    .collect::<Result<Vec<u8>, Error>>()
            })
            .map_err(errors::model)?;
        vector(py, out)
    }

    /// Output 1 minus output 0 of each row: int64 array (n,), saturating.
    fn scores<'py>(&self, py: Python<'py>, digits: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let rows = self.rows(digits)?;
        let network = &self.0;
        let out = py
            .detach(|| {
                rows.chunks_exact(network.inputs())
                    .map(|row| network.try_score(row))
                    .collect::<Result<Vec<i64>, Error>>()
            })
            .map_err(errors::model)?;
        vector(py, out)
    }

    /// Outputs of each row, exact: int64 array (n, outputs), or an object array of Python integers if one of them
    /// exceeds 64 bits.
    fn logits<'py>(&self, py: Python<'py>, digits: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.rows(digits)?;
        let (network, outputs) = (&self.0, self.0.outputs());
        let sums: Vec<i128> = py
            .detach(|| {
                let mut sums = vec![0i128; rows.len() / network.inputs() * outputs];
                let mut pairs = rows.chunks_exact(network.inputs()).zip(sums.chunks_exact_mut(outputs));
                pairs.try_for_each(|(row, out)| network.logits(row, out)).map(|()| sums)
            })
            .map_err(errors::model)?;
        let shape = [sums.len() / outputs, outputs];
        if let Some(narrow) = sums.iter().map(|&sum| i64::try_from(sum).ok()).collect::<Option<Vec<i64>>>() {
            return vector(py, narrow)?.reshape(shape)?.into_bound_py_any(py);
        }
        let rows = PyList::new(py, sums.chunks_exact(outputs).map(<[i128]>::to_vec))?;
        py.import("numpy")?.call_method1("array", (rows, "object"))
    }

    /// The integers of each layer, in the form that `from_integers` takes.
    fn layers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let parts = self.0.layers().into_iter().map(|layer| {
            let weights = vector(py, layer.weights)?.reshape([layer.outputs, layer.inputs])?;
            Ok((weights, vector(py, layer.biases)?))
        });
        PyList::new(py, parts.collect::<PyResult<Vec<_>>>()?)
    }

    /// The bias scale of each layer.
    #[getter]
    fn scales(&self) -> Vec<i64> {
        self.0.scales().to_vec()
    }
}

impl PyNetwork {
    fn rows(&self, digits: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let needed = format!("rows (n, {}) of digits", self.0.inputs());
        let digits: PyReadonlyArray2<'_, u8> = integer_rows(digits, "uint8", &needed)?;
        let width = digits.shape()[1];
        if width != self.0.inputs() {
            return Err(PyValueError::new_err(format!(
                "rows have {width} digits; the network takes {}",
                self.0.inputs()
            )));
        }
        Ok(digits.as_array().iter().copied().collect())
    }
}
