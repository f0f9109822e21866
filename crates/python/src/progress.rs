// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress callbacks and Ctrl-C for long work that runs without Python's lock.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// A Python callable that receives progress. Work stops if it returns `False` or raises, or if a signal (Ctrl-C) is
/// pending.
pub struct Progress {
    callback: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Progress {
    /// Wraps a callable; with `None` Ctrl-C still works.
    pub fn new(callback: Option<Py<PyAny>>) -> Self {
        Progress { callback, raised: None }
    }

    /// Reports progress; true to continue. Once the callable has raised, always false.
    pub fn tell(&mut self, arguments: impl for<'py> PyCallArgs<'py>) -> bool {
        if self.raised.is_some() {
            return false;
        }
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

    /// The exception of the callable, or else the error of the work that it stopped.
    pub fn error(self, otherwise: PyErr) -> PyErr {
        self.raised.unwrap_or(otherwise)
    }

    /// What the callable raised, if it did; it is told once.
    pub fn take(&mut self) -> Option<PyErr> {
        self.raised.take()
    }

    /// What the callable raised, if it did.
    pub fn raised(self) -> Option<PyErr> {
        self.raised
    }
}
