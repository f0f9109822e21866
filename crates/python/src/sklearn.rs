// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fitted trees as scikit-learn keeps them.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::numbers::{floats, integers};

/// The columns of a fitted tree, its `tree_`, with an element for each node.
pub struct Nodes<'py> {
    pub left: PyReadonlyArray1<'py, i64>,
    pub right: PyReadonlyArray1<'py, i64>,
    pub feature: PyReadonlyArray1<'py, i64>,
    pub threshold: PyReadonlyArray1<'py, f64>,
    /// The shape of the values: nodes, outputs, classes.
    pub shape: Vec<usize>,
    /// The values, one node after the other.
    pub value: PyReadonlyArray1<'py, f64>,
}

impl<'py> Nodes<'py> {
    /// Reads the columns. An infinite threshold, which scikit-learn gives to questions for missing values, is refused.
    pub fn of(fitted: &Bound<'py, PyAny>) -> PyResult<Nodes<'py>> {
        let whole = |name: &str| integers(&fitted.getattr(name)?, "int64")?.extract();
        let threshold: PyReadonlyArray1<'py, f64> = floats(&fitted.getattr("threshold")?, "float64")?.extract()?;
        if let Some(node) = threshold.as_slice()?.iter().position(|threshold| !threshold.is_finite()) {
            return Err(PyValueError::new_err(format!(
                "node {node} of a tree has the threshold {}: it was fitted on missing values, which rows may not have \
                 here; fit it without them",
                threshold.as_slice()?[node]
            )));
        }
        let value = floats(&fitted.getattr("value")?, "float64")?;
        Ok(Nodes {
            left: whole("children_left")?,
            right: whole("children_right")?,
            feature: whole("feature")?,
            threshold,
            shape: value.getattr("shape")?.extract()?,
            value: value.call_method1("reshape", (-1,))?.extract()?,
        })
    }

    /// Both columns of children.
    pub fn children(&self) -> PyResult<(&[i64], &[i64])> {
        Ok((self.left.as_slice()?, self.right.as_slice()?))
    }
}
