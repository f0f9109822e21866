// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of tenants' profiles and their aggregates.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use linnet_tenant::{
    Aggregate, Correlated, DepthFrom, FEATURE_COUNT, FEATURES, Independent, Options, Profile, SAME_WORKLOAD, Tenants,
};
use linnet_trace::{About, Options as Reading};
use linnet_types::{IoRecord, Nanos};
use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::numbers::{self, vector};
use crate::progress::Progress;
use crate::trace::PyTrace;
use crate::trace_files;

/// A workload as numbers (spec/profile.md), with its rate history if it was measured.
#[pyclass(name = "TenantProfile", module = "linnet", frozen, from_py_object)]
#[derive(Clone)]
pub struct PyTenantProfile(Profile);

fn features(values: Vec<f64>) -> PyResult<Profile> {
    let count = values.len();
    let values: [f64; FEATURE_COUNT] = values
        .try_into()
        .map_err(|_| PyValueError::new_err(format!("{count} features; {FEATURE_COUNT} are expected")))?;
    Profile::from_features(values).map_err(errors::tenant)
}

fn options(window_ms: f64, streams: usize) -> Options {
    // Windows are multiples of 16 ns.
    let window_ns = (window_ms * 1e6 / 16.0).round().clamp(0.0, 1e15) as Nanos * 16;
    Options { window_ns, streams, ..Options::default() }
}

#[pymethods]
impl PyTenantProfile {
    /// A profile of these 27 features alone.
    #[staticmethod]
    fn from_features(values: Vec<f64>) -> PyResult<Self> {
        features(values).map(PyTenantProfile)
    }

    /// The features in the order of `profile_features()`: float64 array (27,).
    #[getter]
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        vector(py, self.0.features.to_vec())
    }

    /// I/Os in the sample; 0 of a declared load.
    #[getter]
    fn ios(&self) -> u64 {
        self.0.ios
    }

    /// Length of the sample, seconds.
    #[getter]
    fn duration_s(&self) -> f64 {
        self.0.duration_ns as f64 / 1e9
    }

    /// Width of the windows of the standard deviations, milliseconds.
    #[getter]
    fn window_ms(&self) -> f64 {
        self.0.window_ns as f64 / 1e6
    }

    /// Complete windows in the sample.
    #[getter]
    fn windows(&self) -> u64 {
        self.0.windows
    }

    /// Where the depth comes from: measured, estimated or declared.
    #[getter]
    fn depth_from(&self) -> &'static str {
        self.0.depth_from.name()
    }

    /// Standard deviations of the rates by width of the windows: (window ms, windows, of reads, of writes).
    #[getter]
    fn by_window(&self) -> Vec<(f64, u64, f64, f64)> {
        let of = |at: &linnet_tenant::WindowStd| {
            (at.window_ns as f64 / 1e6, at.windows, at.read_rate_std, at.write_rate_std)
        };
        self.0.by_window.iter().map(of).collect()
    }

    /// Short text that profiles of one workload often share.
    #[getter]
    fn signature(&self) -> String {
        linnet_tenant::signature(&self.0)
    }

    /// Phases of the sample: (number of the phase, from seconds, to seconds).
    fn phases(&self) -> Vec<(usize, f64, f64)> {
        let of = |at: &linnet_tenant::Phase| (at.phase, at.from_ns as f64 / 1e9, at.to_ns as f64 / 1e9);
        self.0.history.as_ref().map_or_else(Vec::new, |history| linnet_tenant::phases(history).iter().map(of).collect())
    }

    /// Distance of two profiles in doublings; at most `SAME_WORKLOAD` is taken for the same workload.
    fn distance(&self, other: &PyTenantProfile) -> f64 {
        linnet_tenant::distance(&self.0, &other.0)
    }

    /// The distance, and the name of the feature that makes it; None where nothing differs.
    fn difference(&self, other: &PyTenantProfile) -> (f64, Option<&'static str>) {
        linnet_tenant::difference(&self.0, &other.0)
    }

    /// The same with this number of I/Os, length of the sample and origin of the depth, as a store keeps them.
    fn stored(&self, ios: u64, duration_s: f64, window_ms: f64, depth_from: &str) -> PyResult<Self> {
        let depth_from = match depth_from {
            "measured" => DepthFrom::Measured,
            "estimated" => DepthFrom::Estimated,
            "declared" => DepthFrom::Declared,
            other => return Err(PyValueError::new_err(format!("depth_from is {other:?}"))),
        };
        let (duration_ns, window_ns) = ((duration_s * 1e9) as Nanos, (window_ms * 1e6) as Nanos);
        Ok(PyTenantProfile(Profile { ios, duration_ns, window_ns, depth_from, ..self.0.clone() }))
    }

    fn __repr__(&self) -> String {
        let (reads, writes) = (self.0.rate(linnet_types::Op::Read), self.0.rate(linnet_types::Op::Write));
        format!("TenantProfile({reads:.0} reads/s, {writes:.0} writes/s, depth {:.1})", self.0.depth())
    }
}

/// Names of the 27 features, in order.
#[pyfunction]
pub fn profile_features() -> Vec<&'static str> {
    FEATURES.to_vec()
}

/// Distance up to which two profiles are taken for the same workload.
#[pyfunction]
pub fn same_workload() -> f64 {
    SAME_WORKLOAD
}

fn told(profiles: Vec<(u32, Profile)>) -> Vec<(u32, PyTenantProfile)> {
    profiles.into_iter().map(|(tenant, profile)| (tenant, PyTenantProfile(profile))).collect()
}

/// Profiles of the tenants of a trace in memory: (tenant, profile), by tenant. `end_s` is the end of the sample,
/// seconds after its first I/O; the latest arrival by default. `from_s` and `to_s` cut the sample.
#[pyfunction]
#[pyo3(signature = (trace, window_ms = 100.0, streams = 32, end_s = None, intervals = None))]
pub fn profile_trace(
    py: Python<'_>,
    trace: &PyTrace,
    window_ms: f64,
    streams: usize,
    end_s: Option<f64>,
    intervals: Option<Vec<(f64, f64)>>,
) -> PyResult<Vec<(u32, PyTenantProfile)>> {
    let mut tenants = Tenants::new(options(window_ms, streams)).map_err(errors::tenant)?;
    let records = trace.records.clone();
    let longest_s = linnet_trace::SPAN_MAX_NS as f64 / 1e9;
    let ns = |name: &str, seconds: f64| {
        if (0.0..=longest_s).contains(&seconds) {
            return Ok((seconds * 1e9) as Nanos);
        }
        Err(PyValueError::new_err(format!("{name} is {seconds}; it lies in 0 to {longest_s} s, which is 400 days")))
    };
    let end_ns = end_s.map(|end_s| ns("end_s", end_s)).transpose()?;
    let Some(intervals) = intervals else {
        py.detach(|| records.iter().for_each(|io| tenants.note(io)));
        return Ok(told(py.detach(|| tenants.finish(end_ns))));
    };
    // The parts of a phase follow each other without the gaps between them.
    let mut shift = 0;
    for (from, to) in intervals {
        let (from, to) = (ns("the beginning of an interval", from)?, ns("the end of an interval", to)?);
        let first = records.partition_point(|io| io.arrive_ns < from);
        let last = records.partition_point(|io| io.arrive_ns < to);
        let moved = |io: &IoRecord| IoRecord { arrive_ns: io.arrive_ns - from + shift, ..*io };
        records[first..last.max(first)].iter().for_each(|io| tenants.note(&moved(io)));
        shift += to.saturating_sub(from);
    }
    Ok(told(tenants.finish(Some(shift))))
}

/// Profiles of the tenants of a file of any known format, read by arrival in flat memory: (profiles, format, what was
/// skipped, warnings). `progress(bytes, total bytes)` may return False to stop.
#[pyfunction]
#[pyo3(signature = (path, format = None, lenient = false, tenant_from = None, window_ms = 100.0, streams = 32, progress = None))]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
pub fn profile_file(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    lenient: bool,
    tenant_from: Option<&str>,
    window_ms: f64,
    streams: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<(u32, PyTenantProfile)>, String, std::collections::BTreeMap<String, u64>, Vec<String>)> {
    let tenant_from = trace_files::tenants(tenant_from)?;
    let none = Tenants::new(options(window_ms, streams)).map_err(errors::tenant)?;
    let progress = Arc::new(Mutex::new(Progress::new(progress)));
    let teller = || Some(trace_files::teller(progress.clone()));
    let mut reading =
        || Reading { format: format.clone(), lenient, tenant_from, progress: teller(), ..Reading::default() };
    let read = py.detach(|| linnet_trace::fold(&path, &mut reading, || none.clone(), |tenants, io| tenants.note(io)));
    let (tenants, about) = read.map_err(|error| trace_files::stopped(error, progress))?;
    let About { format, skipped, warnings, .. } = about;
    Ok((told(tenants.finish(None)), format.to_owned(), skipped, warnings))
}

/// Profiles of the jobs of a fio job file: (name, profile). `text` is its content.
#[pyfunction]
pub fn declared_profiles(path: PathBuf, text: &str) -> PyResult<Vec<(String, PyTenantProfile)>> {
    let jobs = linnet_tenant::declared(&path, text).map_err(errors::tenant)?;
    Ok(jobs.into_iter().map(|(name, profile)| (name, PyTenantProfile(profile))).collect())
}

/// One profile of several: `method` is "independent" (variances add) or "correlated" (for profiles of one trace).
#[pyfunction]
#[pyo3(signature = (profiles, method = "independent"))]
pub fn aggregate_profiles(profiles: Vec<PyTenantProfile>, method: &str) -> PyResult<PyTenantProfile> {
    let members: Vec<&Profile> = profiles.iter().map(|profile| &profile.0).collect();
    let aggregate: &dyn Aggregate = match method {
        "independent" => &Independent,
        "correlated" => &Correlated,
        other => {
            return Err(PyValueError::new_err(format!("method is {other:?}; give \"independent\" or \"correlated\"")));
        }
    };
    aggregate.of(&members).map(PyTenantProfile).map_err(errors::tenant)
}

/// The independent aggregate of rows of features (n, 27): float64 array (27,).
#[pyfunction]
pub fn aggregate_features<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = numbers::exact)] rows: PyReadonlyArray2<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    if rows.shape()[1] != FEATURE_COUNT {
        return Err(PyValueError::new_err(format!(
            "rows of {} features; {FEATURE_COUNT} are expected",
            rows.shape()[1]
        )));
    }
    let members: Vec<Profile> =
        rows.as_array().rows().into_iter().map(|row| features(row.to_vec())).collect::<PyResult<_>>()?;
    let whole = Independent.of(&members.iter().collect::<Vec<_>>()).map_err(errors::tenant)?;
    vector(py, whole.features.to_vec())
}
