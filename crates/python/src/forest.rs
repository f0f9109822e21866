// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of forests of regression trees.

use linnet_core::{Forest, ForestOutput, RegressionTree, SCHEMA_PLACE1};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::numbers::{floats, integers, rows};

/// Forests of regression trees, one for each metric, evaluated by the core. Predictions have the bits of scikit-learn.
#[pyclass(module = "linnet", name = "Forest", frozen)]
pub struct PyForest(Forest);

/// The trees of a fitted forest or tree of one output.
fn trees(model: &Bound<'_, PyAny>) -> PyResult<Vec<RegressionTree>> {
    let estimators = match model.getattr("estimators_") {
        Ok(estimators) => estimators.try_iter()?.collect::<PyResult<Vec<_>>>()?,
        Err(_) => vec![model.clone()],
    };
    estimators.iter().map(tree).collect()
}

fn tree(estimator: &Bound<'_, PyAny>) -> PyResult<RegressionTree> {
    let fitted = estimator.getattr("tree_").map_err(|_| {
        PyTypeError::new_err(
            "not a fitted RandomForestRegressor, ExtraTreesRegressor or DecisionTreeRegressor; fit it first",
        )
    })?;
    if estimator.hasattr("classes_")? {
        return Err(PyTypeError::new_err("a classifier; forests of regression trees are supported"));
    }
    let whole = |name: &str| integers(&fitted.getattr(name)?, "int64");
    let left: PyReadonlyArray1<'_, i64> = whole("children_left")?.extract()?;
    let right: PyReadonlyArray1<'_, i64> = whole("children_right")?.extract()?;
    let feature: PyReadonlyArray1<'_, i64> = whole("feature")?.extract()?;
    let threshold: PyReadonlyArray1<'_, f64> = floats(&fitted.getattr("threshold")?, "float64")?.extract()?;
    let value = floats(&fitted.getattr("value")?, "float64")?;
    let shape: Vec<usize> = value.getattr("shape")?.extract()?;
    let [nodes, 1, 1] = shape[..] else {
        return Err(PyValueError::new_err(format!(
            "a tree of {shape:?} values; fit one forest for each output, or one forest on one column"
        )));
    };
    let value: PyReadonlyArray1<'_, f64> = value.call_method1("reshape", (nodes,))?.extract()?;
    RegressionTree::from_children(
        (left.as_slice()?, right.as_slice()?),
        feature.as_slice()?,
        threshold.as_slice()?,
        value.as_slice()?,
    )
    .map_err(errors::model)
}

#[pymethods]
impl PyForest {
    /// From fitted scikit-learn regressors, a forest for each name. All have the same features. `schema` is that of the
    /// features: `place-1`, or a number of the caller's own, 32768 to 65535. `rows` and `seed` say how they were
    /// trained.
    #[staticmethod]
    #[pyo3(signature = (models, schema = None, rows = 0, seed = 0))]
    fn from_sklearn(
        models: Vec<(String, Bound<'_, PyAny>)>,
        schema: Option<u16>,
        rows: u64,
        seed: u64,
    ) -> PyResult<Self> {
        let mut inputs = None;
        let mut outputs = Vec::with_capacity(models.len());
        for (name, model) in &models {
            let own: usize = model
                .getattr("n_features_in_")
                .map_err(|_| PyTypeError::new_err(format!("{name}: not a fitted regressor; fit it first")))?
                .extract()?;
            if inputs.is_some_and(|inputs| inputs != own) {
                return Err(PyValueError::new_err(format!(
                    "{name} has {own} features, the forests before it {}",
                    inputs.unwrap_or(0)
                )));
            }
            inputs = Some(own);
            outputs.push(ForestOutput { name: name.clone(), trees: trees(model)? });
        }
        let inputs = inputs.ok_or_else(|| PyValueError::new_err("no forest; give at least one"))?;
        let made = Forest::new(schema.unwrap_or(SCHEMA_PLACE1), inputs, &outputs, rows, seed);
        made.map(PyForest).map_err(errors::model)
    }

    /// Reads a file of kind 3.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        Forest::from_bytes(bytes).map(PyForest).map_err(errors::model)
    }

    /// The file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.to_bytes())
    }

    /// Features of a row.
    #[getter]
    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    /// Names of the outputs.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.names().to_vec()
    }

    /// Number of the features' schema.
    #[getter]
    fn schema(&self) -> u16 {
        self.0.schema()
    }

    /// Trees of all outputs.
    #[getter]
    fn tree_count(&self) -> usize {
        self.0.tree_count()
    }

    /// Nodes of all trees.
    #[getter]
    fn node_count(&self) -> usize {
        self.0.node_count()
    }

    /// Rows that it was trained on.
    #[getter]
    fn rows(&self) -> u64 {
        self.0.origin().0
    }

    /// Seed of the training.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.origin().1
    }

    /// Predicts all outputs of rows (n, inputs), as 32-bit floats: float64 array (n, outputs).
    fn predict<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let x = rows(x, self.0.inputs())?;
        let (rows, count, outputs) = (x.as_slice()?, x.shape()[0], self.0.names().len());
        let mut out = vec![0.0; count * outputs];
        py.detach(|| self.0.predict(rows, &mut out)).map_err(errors::model)?;
        PyArray1::from_vec(py, out).reshape([count, outputs])
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
