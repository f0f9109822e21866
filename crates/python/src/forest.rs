// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of forests of regression trees.

use linnet_core::{Forest, ForestOutput, RegressionTree, SCHEMA_PLACE1};
use numpy::{PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::numbers::{rows, vector};
use crate::pickled::{self, Reduced};
use crate::sklearn::Nodes;
use crate::whole;

/// Forests of regression trees, one for each metric, evaluated by the core. Predictions have the bits of scikit-learn.
#[pyclass(module = "linnet", name = "Forest", frozen)]
pub struct PyForest(Forest);

/// Regressors that predict the mean of their trees.
const FORESTS: [&str; 2] = ["RandomForestRegressor", "ExtraTreesRegressor"];
const TREES: [&str; 2] = ["DecisionTreeRegressor", "ExtraTreeRegressor"];

/// The trees of a fitted forest or tree of one output. Other ensembles have trees as well, but weigh them, add them up or
/// give each its own features, and a class derived from these may predict anything: the class itself must be known.
fn trees(name: &str, model: &Bound<'_, PyAny>) -> PyResult<Vec<RegressionTree>> {
    let class = model.get_type();
    let (module, kind) = (class.module()?.to_string(), class.name()?.to_string());
    let known = module.starts_with("sklearn.");
    let unfitted = |_| PyTypeError::new_err(format!("{name}: not a fitted {kind}; fit it first"));
    if known && FORESTS.contains(&kind.as_str()) {
        let estimators = model.getattr("estimators_").map_err(unfitted)?;
        return estimators.try_iter()?.map(|one| tree(&one?.getattr("tree_")?)).collect();
    }
    if known && TREES.contains(&kind.as_str()) {
        return Ok(vec![tree(&model.getattr("tree_").map_err(unfitted)?)?]);
    }
    Err(PyTypeError::new_err(format!(
        "{name}: a model of class {kind}; {}, {}, {} and {} of scikit-learn are supported",
        FORESTS[0], FORESTS[1], TREES[0], TREES[1]
    )))
}

fn tree(fitted: &Bound<'_, PyAny>) -> PyResult<RegressionTree> {
    let nodes = Nodes::of(fitted)?;
    let [_, 1, 1] = nodes.shape[..] else {
        return Err(PyValueError::new_err(format!(
            "a tree of {:?} values; fit one forest for each output, or one forest on one column",
            nodes.shape
        )));
    };
    RegressionTree::from_children(
        nodes.children()?,
        nodes.feature.as_slice()?,
        nodes.threshold.as_slice()?,
        nodes.value.as_slice()?,
    )
    .map_err(errors::model)
}

#[pymethods]
impl PyForest {
    /// From fitted scikit-learn regressors, a forest for each name. All have the same features. `schema` is that of the
    /// features: `place-1`, or a number of the caller's own, 32768 to 65535. `rows` and `seed` say how they were
    /// trained. Raises TypeError for a model that is not a fitted RandomForestRegressor, ExtraTreesRegressor,
    /// DecisionTreeRegressor or ExtraTreeRegressor, and ValueError for one of several outputs or fitted on missing values, and
    /// for a name that is given twice.
    #[staticmethod]
    #[pyo3(signature = (models, schema = None, rows = 0, seed = 0))]
    fn from_sklearn(
        models: Vec<(String, Bound<'_, PyAny>)>,
        #[pyo3(from_py_with = whole::schema)] schema: Option<u16>,
        #[pyo3(from_py_with = whole::rows)] rows: u64,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
    ) -> PyResult<Self> {
        let mut inputs = None;
        let mut outputs = Vec::with_capacity(models.len());
        for (name, model) in &models {
            if outputs.iter().any(|output: &ForestOutput| output.name == *name) {
                return Err(PyValueError::new_err(format!("two forests have the name {name:?}")));
            }
            let trees = trees(name, model)?;
            let own: usize = model.getattr("n_features_in_")?.extract()?;
            if inputs.is_some_and(|inputs| inputs != own) {
                return Err(PyValueError::new_err(format!(
                    "{name} has {own} features, the forests before it {}",
                    inputs.unwrap_or(0)
                )));
            }
            inputs = Some(own);
            outputs.push(ForestOutput { name: name.clone(), trees });
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

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        pickled::by(slf, ("from_bytes", slf.get().to_bytes(slf.py())))
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
        vector(py, out)?.reshape([count, outputs])
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
