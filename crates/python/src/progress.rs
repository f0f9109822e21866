// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress callbacks out of long work that runs without Python's lock, and Ctrl-C into it.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// A Python callable that is told how far work has come. Work stops when it answers `False`, raises, or when a signal
/// (Ctrl-C) waits.
pub struct Progress {
    callback: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Progress {
    /// Wraps a callable; `None` still lets Ctrl-C through.
    pub fn new(callback: Option<Py<PyAny>>) -> Self {
        Progress { callback, raised: None }
    }

    /// Reports; true to go on.
    pub fn tell(&mut self, arguments: impl for<'py> PyCallArgs<'py>) -> bool {
        let answer = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = &self.callback else { return Ok(true) };
            let answer = callback.bind(py).call1(arguments)?;
            Ok(answer.is_none() || answer.is_truthy()?)
        });
        answer.unwrap_or_else(|error| {
            self.raised = Some(error);
            false
        })
    }

    /// What the callable raised, or else the error of the work that it stopped.
    pub fn error(self, otherwise: PyErr) -> PyErr {
        self.raised.unwrap_or(otherwise)
    }

    /// What the callable raised, if it did.
    pub fn raised(self) -> Option<PyErr> {
        self.raised
    }
}
