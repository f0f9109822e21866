// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linnet.Server`: modelled drives over NBD, in real time.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use linnet_nbd::{Builder, Command, Drive, Export, Handle, Sample, Storage};
use linnet_ssd::Ssd;
use linnet_types::{LatencyModel, Nanos, Outcome, Request};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::numbers::vector;
use crate::ssd::PyDevice;

/// A modelled drive behind a server; flush and trim also reach the model.
struct ServedDrive(Ssd);

impl LatencyModel for ServedDrive {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        self.0.submit(now, request)
    }
}

impl Drive for ServedDrive {
    fn flush(&mut self, now: Nanos) -> Nanos {
        self.0.flush(now)
    }

    fn trim(&mut self, now: Nanos, offset_bytes: u64, size_bytes: u64) -> Nanos {
        self.0.trim(now, offset_bytes, size_bytes)
    }
}

/// Modelled drives served over NBD, from construction until `stop()`.
#[pyclass(name = "Server", module = "linnet", frozen)]
pub struct PyServer {
    handle: Mutex<Option<Handle>>,
    /// The process that has the server's threads. A child of a fork has none, and would wait for them without end.
    process: u32,
    names: Vec<String>,
    uris: Vec<String>,
}

#[pymethods]
impl PyServer {
    /// Serves `drives` (name and drive) on a Unix socket or on TCP at loopback, or both. `directory` keeps the data in
    /// sparse files instead of memory. `time_scale` is wall time divided by model time. The last `log_len` requests of
    /// each drive are kept for `requests`.
    #[new]
    #[pyo3(signature = (drives, size_bytes = None, unix = None, port = None, directory = None, time_scale = 1.0,
                        log_len = 65_536))]
    fn new(
        drives: Vec<(String, PyRef<'_, PyDevice>)>,
        size_bytes: Option<u64>,
        unix: Option<PathBuf>,
        port: Option<u16>,
        directory: Option<PathBuf>,
        time_scale: f64,
        log_len: usize,
    ) -> PyResult<Self> {
        let memory_left = || linnet_files::room().map(|room| room.bytes);
        let mut builder = Builder::new().time_scale(time_scale).log_len(log_len).memory_left(memory_left);
        let mut names = Vec::with_capacity(drives.len());
        for (name, device) in drives {
            let drive = device.drive()?;
            let capacity = drive.capacity_bytes();
            let size = size_bytes.unwrap_or(capacity);
            if size > capacity {
                return Err(errors::DeviceError::new_err(format!(
                    "{name}: {size} bytes are more than the {capacity} of the modelled drive; serve at most these, or \
                     model a larger drive in a parameter file"
                )));
            }
            let storage = match &directory {
                Some(folder) => Storage::File { path: folder.join(format!("{name}.img")), durable: false },
                None => Storage::Memory,
            };
            builder = builder.export(Export::new(name.clone(), size, Box::new(ServedDrive(drive))).storage(storage));
            names.push(name);
        }
        if let Some(path) = unix {
            builder = builder.unix(path);
        }
        if let Some(port) = port {
            builder = builder.tcp(port);
        }
        let handle = builder.start().map_err(served)?;
        let uris = names.iter().flat_map(|name| handle.uris(name)).collect();
        Ok(PyServer { handle: Mutex::new(Some(handle)), process: std::process::id(), names, uris })
    }

    /// Names of the drives.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Address of each drive.
    #[getter]
    fn uris(&self) -> Vec<String> {
        self.uris.clone()
    }

    /// Requests so far, and model latency compared with achieved latency, as JSON text.
    fn stats(&self) -> Option<String> {
        if self.process != std::process::id() {
            return None;
        }
        self.handle.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|handle| handle.stats().to_json())
    }

    /// The last reads and writes of a drive in the order of their answers, as columns in model time: `arrive_ns` since
    /// the server's start, `op` (0 read, 1 write), `offset_bytes`, `size_bytes`, `latency_ns` as achieved and
    /// `latency_ns_model`. KeyError for a drive that is not served; None if the server was stopped.
    fn requests<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.process != std::process::id() {
            return Ok(None);
        }
        let held = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(handle) = held.as_ref() else { return Ok(None) };
        let mut log = handle.samples(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        drop(held);
        log.retain(|sample| matches!(sample.command, Command::Read | Command::Write));
        let columns = PyDict::new(py);
        let long = |of: fn(&Sample) -> u64| vector(py, log.iter().map(of).collect());
        columns.set_item("arrive_ns", long(|s| s.arrive_ns)?)?;
        columns.set_item("op", vector(py, log.iter().map(|s| u8::from(s.command == Command::Write)).collect())?)?;
        columns.set_item("offset_bytes", long(|s| s.offset_bytes)?)?;
        columns.set_item("size_bytes", vector(py, log.iter().map(|s| s.size_bytes).collect())?)?;
        columns.set_item("latency_ns", long(|s| s.latency_ns_achieved)?)?;
        columns.set_item("latency_ns_model", long(|s| s.latency_ns_model)?)?;
        Ok(Some(columns))
    }

    /// Closes every connection, removes the socket, and returns the last statistics as JSON text; None if the server
    /// was already stopped.
    fn stop(&self, py: Python<'_>) -> Option<String> {
        if self.process != std::process::id() {
            return None;
        }
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(py.detach(|| handle.stop().to_json()))
    }
}

impl Drop for PyServer {
    fn drop(&mut self) {
        if self.process != std::process::id()
            && let Ok(handle) = self.handle.get_mut()
        {
            std::mem::forget(handle.take());
        }
    }
}

fn served(error: linnet_nbd::Error) -> PyErr {
    errors::DeviceError::new_err(error.to_string())
}
