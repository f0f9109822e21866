// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress callbacks and Ctrl-C for long work that runs without Python's lock.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Ctrl-C is looked for so often.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a step of work is told to; false stops the work.
pub type Tell<'a, P> = &'a mut dyn FnMut(P) -> bool;

/// Does work on another thread, since its steps are too long to look for Ctrl-C between them. `on_step` is told each
/// step, and that 100 ms passed without one; it runs on this thread, without Python's lock. If it returns false there is
/// no result, and the thread ends unheard at its next step.
pub fn apart<P: Send + 'static, T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(Tell<'_, P>) -> T + Send + 'static,
    mut on_step: impl FnMut(Option<P>) -> bool + Send,
) -> Option<T> {
    let (sender, steps) = mpsc::channel();
    let running = std::thread::spawn(move || work(&mut |step| sender.send(step).is_ok()));
    py.detach(move || {
        loop {
            let step = match steps.recv_timeout(LOOK_EVERY) {
                Ok(step) => Some(step),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if !on_step(step) {
                return None;
            }
        }
        Some(running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Work without steps, which Ctrl-C ends: see [`apart`].
pub fn interruptible<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let mut progress = Progress::new(None);
    let done = apart(py, |_: Tell<'_, ()>| work(), |_| progress.tell(()));
    done.ok_or_else(|| progress.error(PyKeyboardInterrupt::new_err("the work was stopped")))
}

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
        self.heed(|py, callback| {
            let Some(callback) = callback else { return Ok(true) };
            let answer = callback.bind(py).call1(arguments)?;
            Ok(answer.is_none() || answer.is_truthy()?)
        })
    }

    /// Looks for Ctrl-C alone; true to continue.
    pub fn look(&mut self) -> bool {
        self.heed(|_, _| Ok(true))
    }

    fn heed(&mut self, ask: impl FnOnce(Python<'_>, Option<&Py<PyAny>>) -> PyResult<bool>) -> bool {
        if self.raised.is_some() {
            return false;
        }
        let answer = Python::attach(|py| {
            py.check_signals()?;
            ask(py, self.callback.as_ref())
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
