// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of the laboratory: `linnet.Study` (models on the same rows of one device), and the modules below.

pub mod counterfactual;
pub mod drift;
pub mod history;
pub mod informed;
pub mod paths;

use linnet_learn::{BoostOptions, FitOptions, InflectionOptions};
use linnet_study::{Defects, HeimdallOptions, Study, StudyOptions, StudyRows, WideSet};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::learn::evaluation;
use crate::numbers::vector;
use crate::progress::Progress;
use crate::trace::PyTrace;

/// Names of the published defects that a study can switch on.
#[pyfunction]
pub fn defects() -> Vec<&'static str> {
    Defects::NAMES.to_vec()
}

/// What a host can see when a read arrives, in some two hundred numbers: (n, width), a row for each read with a
/// latency.
#[pyfunction]
pub fn wide_rows<'py>(py: Python<'py>, trace: PyRef<'py, PyTrace>) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let records = trace.records.clone();
    let set = py.detach(|| WideSet::from_records(&records));
    let shape = [set.rows(), set.width];
    vector(py, set.values)?.reshape(shape)
}

/// One device: its reads described for every model, labelled by one inflection point, split by time.
#[pyclass(name = "Study", module = "linnet", frozen)]
pub struct PyStudy(Study);

type Part<'py> = (Bound<'py, PyDict>, Bound<'py, PyArray1<bool>>);

#[pymethods]
impl PyStudy {
    /// `test` is another period to test on; without it the last half of `trace` is the test part. Raises LearnError.
    #[new]
    #[pyo3(signature = (trace, test = None, *, seed = 0, defects = Vec::new()))]
    fn new(
        py: Python<'_>,
        trace: PyRef<'_, PyTrace>,
        test: Option<PyRef<'_, PyTrace>>,
        seed: u64,
        defects: Vec<String>,
    ) -> PyResult<Self> {
        let mut fit = FitOptions::default();
        fit.train.seed = seed;
        let mut heimdall = HeimdallOptions::default();
        heimdall.train.seed = seed;
        let options = StudyOptions {
            inflection: InflectionOptions { seed, ..InflectionOptions::default() },
            fit,
            boost: BoostOptions { seed, ..BoostOptions::default() },
            heimdall,
            defects: Defects::parse(defects.iter().map(String::as_str)).map_err(errors::learn)?,
            ..StudyOptions::default()
        };
        let (records, later) = (trace.records.clone(), test.map(|test| test.records.clone()));
        let study = py.detach(|| match later {
            Some(later) => Study::of_periods(&records, &later, options),
            None => Study::of_trace(&records, 0.5, options),
        });
        Ok(PyStudy(study.map_err(errors::learn)?))
    }

    /// The latency that splits fast from slow, found on the training part.
    #[getter]
    fn inflection_ns(&self) -> u64 {
        self.0.inflection.latency_ns
    }

    /// Its percentile among the reads of the training part.
    #[getter]
    fn inflection_percentile(&self) -> f64 {
        self.0.inflection.percentile
    }

    /// Evaluates `linnos`.
    fn linnos<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let evaluated = detached(py, |go_on| self.0.linnos(go_on))?;
        evaluation(py, &evaluated)
    }

    /// Evaluates `linnet`.
    fn linnet<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let evaluated = detached(py, |_| self.0.linnet())?;
        evaluation(py, &evaluated)
    }

    /// Evaluates the trees of `linnet` on the features of `linnet-2`.
    fn linnet2<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let evaluated = detached(py, |_| self.0.linnet2())?;
        evaluation(py, &evaluated)
    }

    /// Evaluates Heimdall with this many reads per decision: by the labels of all models, and under `own` by its own
    /// labels.
    fn heimdall<'py>(&self, py: Python<'py>, joint: usize) -> PyResult<Bound<'py, PyDict>> {
        let evaluated = detached(py, |go_on| self.0.heimdall(joint, go_on))?;
        let dict = evaluation(py, &evaluated.shared)?;
        dict.set_item("own", evaluation(py, &evaluated.own)?)?;
        dict.set_item("removed", evaluated.removed)?;
        Ok(dict)
    }

    /// Evaluates Heimdall's features and network, trained on the labels of all models.
    fn heimdall_by_cutoff<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let evaluated = detached(py, |go_on| self.0.heimdall_by_cutoff(go_on))?;
        evaluation(py, &evaluated)
    }

    /// Features by schema, (n, width) each, and labels (n,) of the training part.
    fn train<'py>(&self, py: Python<'py>) -> PyResult<Part<'py>> {
        part(py, &self.0.train)
    }

    /// The same of the test part.
    fn test<'py>(&self, py: Python<'py>) -> PyResult<Part<'py>> {
        part(py, &self.0.test)
    }
}

/// Runs work without Python's lock; Ctrl-C stops it between epochs.
fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, linnet_learn::Error> + Send,
) -> PyResult<T> {
    let mut progress = Progress::new(None);
    match py.detach(|| work(&mut || progress.tell(()))) {
        Ok(done) => Ok(done),
        Err(linnet_learn::Error::Interrupted) => {
            Err(progress.error(PyKeyboardInterrupt::new_err("studying was stopped")))
        }
        Err(error) => Err(errors::learn(error)),
    }
}

fn part<'py>(py: Python<'py>, rows: &StudyRows) -> PyResult<Part<'py>> {
    let count = rows.linnos.len();
    let dict = PyDict::new(py);
    let digits = vector(py, rows.linnos.digits.to_vec())?.reshape([count, linnet_core::DIGITS])?;
    dict.set_item("linnos", digits)?;
    dict.set_item("linnet", matrix(py, &rows.linnet.features)?)?;
    dict.set_item("heimdall", matrix(py, &rows.heimdall.features)?)?;
    Ok((dict, vector(py, rows.linnos.slow.to_vec())?))
}

fn matrix<'py, T: numpy::Element + Copy, const N: usize>(
    py: Python<'py>,
    rows: &[[T; N]],
) -> PyResult<Bound<'py, PyArray2<T>>> {
    vector(py, rows.as_flattened().to_vec())?.reshape([rows.len(), N])
}
