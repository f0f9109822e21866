// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work on trace files in flat memory: statistics, and from file to file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use linnet_trace::{Change, Error, MergedTenants, Options, TENANTS_COUNTED_MAX, TenantFrom};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::progress::Progress;
use crate::trace::stats_dict;

/// Statistics of a file in flat memory, as [`crate::trace::PyTrace::stat`] gives them, with `format`, `warnings`, and
/// `latency_error`, the largest relative error of the quantiles; None if the file has to be read whole.
#[pyfunction]
#[pyo3(signature = (path, format = None, lenient = false, progress = None))]
pub fn trace_stat<'py>(
    py: Python<'py>,
    path: PathBuf,
    format: Option<String>,
    lenient: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let (progress, teller) = shared(progress);
    let options = Options { format, lenient, progress: Some(teller), ..Options::default() };
    let found = py.detach(|| linnet_trace::stat_file(&path, options)).map_err(|error| stopped(error, progress))?;
    let Some(found) = found else { return Ok(None) };
    let dict = stats_dict(py, found.stats)?;
    dict.set_item("format", found.format)?;
    dict.set_item("warnings", found.warnings)?;
    dict.set_item("latency_error", found.latency_error)?;
    Ok(Some(dict))
}

/// Writes trace files as one file in flat memory, in the form of its ending. `factor` re-rates one trace; `merge` makes
/// each of them a tenant, or with `keep_tenants` keeps theirs apart. With `device` only that device's records are
/// written. `progress(bytes, total bytes)` may return False to
/// stop. Returns `records`, `tenants` (counted up to one more than `tenants_max`), `tenants_max`, `formats`, `skipped`,
/// and `warnings` as pairs of file and text.
#[pyfunction]
#[pyo3(signature = (paths, out, *, format = None, lenient = false, tenant_from = None, factor = None, merge = false,
    keep_tenants = false, device = None, progress = None))]
#[allow(clippy::too_many_arguments)]
pub fn trace_convert<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    out: PathBuf,
    format: Option<String>,
    lenient: bool,
    tenant_from: Option<&str>,
    factor: Option<f64>,
    merge: bool,
    keep_tenants: bool,
    device: Option<u32>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let tenant_from = tenants(tenant_from)?;
    let change = match (factor, merge, keep_tenants) {
        (Some(_), true, _) | (_, false, true) => {
            return Err(PyValueError::new_err("give either factor or merge, and keep_tenants with merge only"));
        }
        (Some(factor), ..) => Change::Rate(factor),
        (None, true, true) => Change::Merge(MergedTenants::Kept),
        (None, true, false) => Change::Merge(MergedTenants::OneEach),
        (None, false, false) => Change::None,
    };
    let progress = Arc::new(Mutex::new(Progress::new(progress)));
    let bytes = Arc::new(Mutex::new(vec![(0, 0); paths.len()]));
    let mut options = |path: &Path| {
        let index = paths.iter().position(|one| one == path).unwrap_or(0);
        let (progress, bytes) = (progress.clone(), bytes.clone());
        let teller = move |at: linnet_trace::Progress| {
            let Ok(mut bytes) = bytes.lock() else { return false };
            bytes[index] = (at.bytes, at.total_bytes);
            let sum = bytes.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            progress.lock().is_ok_and(|mut progress| progress.tell(sum))
        };
        let (format, progress) = (format.clone(), Some(Box::new(teller) as Teller));
        Options { format, lenient, tenant_from, device, progress, ..Options::default() }
    };
    let mut go_on = || Python::attach(|py| py.check_signals()).is_ok();
    let done = py.detach(|| linnet_trace::convert(&paths, &out, change, &mut options, &mut go_on));
    let done = done.map_err(|error| stopped(error, progress))?;
    let dict = PyDict::new(py);
    dict.set_item("records", done.records)?;
    dict.set_item("tenants", done.tenants)?;
    dict.set_item("tenants_max", TENANTS_COUNTED_MAX)?;
    dict.set_item("formats", done.formats)?;
    dict.set_item("skipped", done.skipped)?;
    dict.set_item("warnings", done.warnings)?;
    Ok(dict)
}

/// Where tenants come from, as Python says it.
pub fn tenants(from: Option<&str>) -> PyResult<TenantFrom> {
    match from {
        None => Ok(TenantFrom::Trace),
        Some("device") => Ok(TenantFrom::Device),
        Some(other) => Err(PyValueError::new_err(format!("tenant_from is {other:?}; give \"device\" or None"))),
    }
}

type Teller = Box<dyn FnMut(linnet_trace::Progress) -> bool + Send>;

/// A callback of Python's, and what a reader calls.
pub fn shared(progress: Option<Py<PyAny>>) -> (Arc<Mutex<Progress>>, Teller) {
    let progress = Arc::new(Mutex::new(Progress::new(progress)));
    (progress.clone(), teller(progress))
}

/// What one of several readers calls that share a callback.
pub fn teller(progress: Arc<Mutex<Progress>>) -> Teller {
    Box::new(move |at| progress.lock().is_ok_and(|mut progress| progress.tell((at.bytes, at.total_bytes))))
}

/// The exception of a callback that stopped a reader, or else the reader's own error.
pub fn stopped(error: Error, progress: Arc<Mutex<Progress>>) -> PyErr {
    let stopped = matches!(error, Error::Stopped { .. });
    let own = errors::trace(error);
    let raised = progress.lock().ok().and_then(|mut progress| progress.take());
    match raised {
        _ if !stopped => own,
        Some(raised) => raised,
        None => PyKeyboardInterrupt::new_err("reading was stopped"),
    }
}
