// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of networks and trees of knobs.

use linnet_core::{Activation, CartOptions, DecisionTree, FloatLayer, SmallNetwork};
use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::errors;
use crate::numbers::{floats, integers, matrix, rows, unmasked, vector};
use crate::progress::Progress;
use crate::sklearn::Nodes;
use crate::whole;

fn activation(name: &str) -> PyResult<Activation> {
    match name {
        "linear" => Ok(Activation::Linear),
        "relu" => Ok(Activation::Relu),
        "sigmoid" => Ok(Activation::Sigmoid),
        "softmax" => Ok(Activation::Softmax),
        _ => Err(PyValueError::new_err(format!("activation {name:?}; one of linear, relu, sigmoid, softmax"))),
    }
}

/// A small network in 32-bit floats, computed to the bit as in the kernel.
#[pyclass(module = "linnet", name = "FloatNetwork", frozen)]
pub struct PyFloatNetwork(SmallNetwork);

#[pymethods]
impl PyFloatNetwork {
    /// From (weights, biases) of each layer, weights as outputs x inputs, and the name of each layer's activation:
    /// linear, relu, sigmoid; softmax for the last. At most eight layers of at most 256.
    #[staticmethod]
    fn from_arrays(arrays: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>, activations: Vec<String>) -> PyResult<Self> {
        if arrays.len() != activations.len() {
            let (layers, names) = (arrays.len(), activations.len());
            return Err(PyValueError::new_err(format!(
                "{layers} layers and {names} activations; one for each is needed"
            )));
        }
        let layers = arrays
            .iter()
            .zip(&activations)
            .map(|((weights, biases), name)| {
                let weights: PyReadonlyArray2<'_, f32> = floats(weights, "float32")?.extract()?;
                let biases: PyReadonlyArray1<'_, f32> = floats(biases, "float32")?.extract()?;
                Ok(FloatLayer {
                    outputs: weights.shape()[0],
                    inputs: weights.shape()[1],
                    activation: activation(name)?,
                    weights: weights.as_slice()?.to_vec(),
                    biases: biases.as_slice()?.to_vec(),
                })
            })
            .collect::<PyResult<Vec<_>>>()?;
        SmallNetwork::from_layers(&layers).map(PyFloatNetwork).map_err(errors::model)
    }

    /// Numbers per row.
    #[getter]
    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    /// Outputs of the last layer.
    #[getter]
    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    /// Outputs of each row (n, inputs): float32 array (n, outputs). A NaN in a row, or a sum of infinity less infinity,
    /// makes the outputs of that row NaN.
    fn forward<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (network, outputs) = (&self.0, self.0.outputs());
        let x = rows(x, network.inputs())?;
        let (values, count) = (x.as_slice()?, x.shape()[0]);
        let mut out = vec![0.0; count * outputs];
        py.detach(|| {
            let mut pairs = values.chunks_exact(network.inputs()).zip(out.chunks_exact_mut(outputs));
            pairs.try_for_each(|(row, out)| network.forward(row, out))
        })
        .map_err(errors::model)?;
        vector(py, out)?.reshape([count, outputs])
    }
}

/// One decision tree, evaluated as the kernel evaluates it.
#[pyclass(module = "linnet", name = "Tree", frozen)]
pub struct PyTree {
    tree: DecisionTree,
    classes: Py<PyAny>,
}

#[pymethods]
impl PyTree {
    /// From a fitted scikit-learn `DecisionTreeClassifier` of one output. Thresholds are rounded down to 32 bits, so
    /// that 32-bit rows, which scikit-learn uses, take the same path. Raises TypeError for what is no such tree, and
    /// ValueError for a question for missing values: `predict` takes none.
    #[staticmethod]
    fn from_sklearn(tree: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = tree.py();
        let fitted = tree.getattr("tree_").map_err(|_| {
            PyTypeError::new_err("not a fitted DecisionTreeClassifier: it has no `tree_`; fit it first")
        })?;
        let classes = tree.getattr("classes_").map_err(|_| {
            PyTypeError::new_err("not a classifier: it has no `classes_`; regression trees have no classes")
        })?;
        let nodes = Nodes::of(&fitted)?;
        // Rows of each class, or their shares, depending on the version of scikit-learn.
        let [_, 1, count] = nodes.shape[..] else {
            return Err(PyValueError::new_err(format!(
                "a tree of {:?} values; trees of one output are supported",
                nodes.shape
            )));
        };
        if classes.len()? != count {
            return Err(PyValueError::new_err(format!("{} classes and {count} in the tree", classes.len()?)));
        }
        let leaves: Vec<(usize, f64)> = nodes
            .value
            .as_slice()?
            .chunks_exact(count.max(1))
            .map(|shares| {
                let mut best = 0;
                for (class, share) in shares.iter().enumerate() {
                    if *share > shares[best] {
                        best = class;
                    }
                }
                (best, shares[best] / shares.iter().sum::<f64>())
            })
            .collect();
        let inputs: usize = tree.getattr("n_features_in_")?.extract()?;
        let tree = DecisionTree::from_children(
            nodes.children()?,
            nodes.feature.as_slice()?,
            nodes.threshold.as_slice()?,
            &leaves,
            inputs,
            count,
        )
        .map_err(errors::model)?;
        let classes = py.import("numpy")?.call_method1("asarray", (classes,))?.unbind();
        Ok(PyTree { tree, classes })
    }

    /// Induces a tree by the Gini index from rows `x` (n, inputs) of finite numbers and their labels `y` (n,), like
    /// scikit-learn's `DecisionTreeClassifier` with `max_leaves` as its `max_leaf_nodes`, but deterministic: among equal
    /// splits the lowest feature wins, then the lowest threshold. Of more than `max_leaves` leaves (2 to 2048) those are
    /// kept that lower the impurity most. Trees of up to 32 leaves have a fast table. Ctrl-C stops it between two splits.
    /// Raises LearnError for limits out of their range and for rows that are not finite.
    #[staticmethod]
    #[pyo3(signature = (x, y, max_depth = 9, min_samples_leaf = 1, max_leaves = 32))]
    fn fit(
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = whole::max_depth)] max_depth: usize,
        #[pyo3(from_py_with = whole::min_samples_leaf)] min_samples_leaf: usize,
        #[pyo3(from_py_with = whole::max_leaves)] max_leaves: usize,
    ) -> PyResult<Self> {
        let options = CartOptions { depth_max: max_depth, leaf_rows: min_samples_leaf, leaves_max: max_leaves };
        unmasked(y)?;
        let (labels, codes): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            py.import("numpy")?.call_method1("unique", (y, false, true))?.extract()?;
        let codes: PyReadonlyArray1<'_, i64> = integers(&codes, "int64")?.extract()?;
        let x = matrix(x)?;
        let inputs = x.shape()[1];
        let values = x.as_slice()?;
        let classes = codes
            .as_slice()?
            .iter()
            .map(|&code| u8::try_from(code).map_err(|_| PyValueError::new_err("more than 256 classes")))
            .collect::<PyResult<Vec<u8>>>()?;
        // A tree of one class is one leaf; the core requires at least two.
        let count = labels.len()?.max(2);
        let mut progress = Progress::new(None);
        let tree =
            py.detach(|| DecisionTree::fit(&options, inputs, values, &classes, count, &mut || progress.tell(())));
        progress.raised().map_or(Ok(()), Err)?;
        Ok(PyTree {
            tree: tree.map_err(|error| errors::LearnError::new_err(error.to_string()))?,
            classes: labels.unbind(),
        })
    }

    /// Features per row.
    #[getter]
    fn inputs(&self) -> usize {
        self.tree.inputs()
    }

    /// Number of nodes, including leaves.
    #[getter]
    fn node_count(&self) -> usize {
        self.tree.nodes().len()
    }

    /// Label of each row (n, inputs), like the classifier's `predict`: array (n,). Raises ModelError for a number that is
    /// not finite, and ValueError for rows of another width.
    fn predict<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let x = rows(x, self.tree.inputs())?;
        let values = x.as_slice()?;
        let found = py.detach(|| self.tree.predict_rows(values)).map_err(errors::model)?;
        let found: Vec<i64> = found.into_iter().map(|class| class as i64).collect();
        self.classes.bind(py).call_method1("take", (vector(py, found)?,))
    }
}
