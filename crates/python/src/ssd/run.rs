// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linnet.DeviceRun`: the answers of one drive, and why they took that long.

use std::sync::{Mutex, PoisonError};

use linnet_ssd::{Cause, Resource, Span, Ssd};
use linnet_types::{IoRecord, Nanos};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::trace::PyTrace;

type Answer = (Option<Nanos>, Cause);
/// Latency, and pairs of mechanism and ns.
type Explained = (Option<u64>, Vec<(&'static str, u64)>);

/// Result of a run on one drive, I/O by I/O.
#[pyclass(name = "DeviceRun", module = "linnet", frozen)]
pub struct PyDeviceRun {
    pub(super) merged: Vec<(u16, IoRecord)>,
    pub(super) answers: Vec<Answer>,
    pub(super) stats: Vec<(&'static str, f64)>,
    pub(super) names: Vec<String>,
    pub(super) device: Option<Mutex<Ssd>>,
}

#[pymethods]
impl PyDeviceRun {
    /// One trace with the drive's latencies, in the order of arrival; `device` is the stream's number.
    fn log(&self) -> PyTrace {
        let answered = self.merged.iter().zip(&self.answers);
        let records = answered.map(|((stream, r), (latency_ns, _))| IoRecord {
            latency_ns: *latency_ns,
            device: u32::from(*stream),
            ..*r
        });
        PyTrace::served(self.names.join("+"), records.collect())
    }

    /// Counters of the drive: write amplification, GC, wear, utilisation of each die and of the least and most busy
    /// one.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in &self.stats {
            dict.set_item(name, if value.is_nan() { None } else { Some(*value) })?;
        }
        if let Some(device) = &self.device {
            let found = device.lock().unwrap_or_else(PoisonError::into_inner).stats();
            dict.set_item("die_utilisation", found.die_utilisation())?;
        }
        Ok(dict)
    }

    /// Why the reads between two quantiles of read latency (0 to 1) took that long.
    fn explain<'py>(&self, py: Python<'py>, from_quantile: f64, to_quantile: f64) -> PyResult<Bound<'py, PyDict>> {
        if !(0.0 <= from_quantile && from_quantile < to_quantile && to_quantile <= 1.0) {
            return Err(PyValueError::new_err(format!(
                "quantiles {from_quantile} to {to_quantile}: give 0 <= from < to <= 1"
            )));
        }
        let reads = self.merged.iter().zip(&self.answers).filter(|((_, r), _)| r.op.is_read());
        let served: Vec<(Nanos, Cause)> =
            reads.filter_map(|(_, (latency, cause))| latency.map(|ns| (ns, *cause))).collect();
        let found = linnet_ssd::breakdown(&served, from_quantile, to_quantile)
            .ok_or_else(|| errors::DeviceError::new_err("no read lies in this range of quantiles"))?;
        let dict = PyDict::new(py);
        dict.set_item("reads", found.requests)?;
        dict.set_item("latency_us_least", found.latency_ns.0 as f64 / 1000.0)?;
        dict.set_item("latency_us_most", found.latency_ns.1 as f64 / 1000.0)?;
        dict.set_item("latency_us_mean", found.latency_ns_mean / 1000.0)?;
        dict.set_item("service_us_mean", found.service_ns_mean / 1000.0)?;
        let parts = found.parts.iter().map(|part| {
            let row = PyDict::new(py);
            row.set_item("mechanism", part.mechanism.name())?;
            row.set_item("source", format!("{:?}", part.mechanism.source()))?;
            row.set_item("wait_us_mean", part.wait_ns as f64 / 1000.0 / found.requests as f64)?;
            row.set_item("share_of_latency", part.share_of_latency)?;
            row.set_item("reads", part.requests)?;
            row.set_item("main_of", part.main_of)?;
            PyResult::Ok(row)
        });
        dict.set_item("mechanisms", parts.collect::<PyResult<Vec<_>>>()?)?;
        Ok(dict)
    }

    /// Causes of the latency of one I/O (by its index in `log()`): its latency and pairs of mechanism and ns.
    fn explain_io(&self, index: usize) -> PyResult<Explained> {
        let (latency, cause) = self
            .answers
            .get(index)
            .ok_or_else(|| PyIndexError::new_err(format!("I/O {index} of {}", self.answers.len())))?;
        Ok((*latency, cause.parts().map(|(mechanism, ns)| (mechanism.name(), ns)).collect()))
    }

    /// Activity of dies and channels between two times, ns: (resource, number, activity, start, end). Needs a run with
    /// `timeline`.
    fn timeline(&self, from_ns: u64, to_ns: u64) -> Vec<(&'static str, u32, &'static str, u64, u64)> {
        let Some(device) = &self.device else { return Vec::new() };
        let show = |span: Span| {
            let (kind, number) = match span.resource {
                Resource::Die(n) => ("die", n),
                Resource::Channel(n) => ("channel", n),
            };
            (kind, number, span.of.name(), span.start_ns, span.end_ns)
        };
        device.lock().unwrap_or_else(PoisonError::into_inner).timeline(from_ns, to_ns).into_iter().map(show).collect()
    }
}
