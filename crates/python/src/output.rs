// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that Python writes, by the same writer as those that the engine writes.

use std::os::fd::IntoRawFd;
use std::path::PathBuf;

use linnet_files::{Links, Output};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;

/// A file that is being written; without `commit` the target stays as it was. See `linnet.files`.
#[pyclass(name = "Output", module = "linnet")]
pub struct PyOutput {
    path: PathBuf,
    output: Option<Output>,
}

#[pymethods]
impl PyOutput {
    /// Starts to write. `follow` False refuses symbolic links and all but regular files.
    #[new]
    #[pyo3(signature = (path, follow = true))]
    fn new(py: Python<'_>, path: PathBuf, follow: bool) -> PyResult<Self> {
        let links = if follow { Links::Follow } else { Links::Refuse };
        let output = loop {
            match py.detach(|| Output::create(&path, links)) {
                // A pipe waits for its reader; Ctrl-C ends the wait.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => py.check_signals()?,
                other => break other.map_err(|error| errors::file(&path, error))?,
            }
        };
        Ok(PyOutput { path, output: Some(output) })
    }

    /// A file descriptor to write to, which the caller closes.
    fn fd(&self) -> PyResult<i32> {
        let handle = self.open()?.handle().map_err(|error| errors::file(&self.path, error))?;
        Ok(handle.into_raw_fd())
    }

    /// True for a pipe, a device or standard output.
    #[getter]
    fn is_through(&self) -> PyResult<bool> {
        Ok(self.open()?.is_through())
    }

    /// Syncs the file and puts it in its place.
    fn commit(&mut self, py: Python<'_>) -> PyResult<()> {
        let output = self.output.take().ok_or_else(ended)?;
        py.detach(|| output.commit()).map_err(|error| errors::file(&self.path, error))
    }

    /// Gives up: the target stays as it was.
    fn discard(&mut self) {
        self.output = None;
    }
}

impl PyOutput {
    fn open(&self) -> PyResult<&Output> {
        self.output.as_ref().ok_or_else(ended)
    }
}

fn ended() -> PyErr {
    PyValueError::new_err("the output was committed or discarded")
}
