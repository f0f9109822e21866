// SPDX-License-Identifier: MIT OR Apache-2.0
//! One Python exception for each crate's error enum, under one base.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(linnet, Error, PyException, "Base of every error that Linnet raises.");
create_exception!(linnet, TraceError, Error, "A trace cannot be read or written; says file, record and field.");
create_exception!(linnet, ModelError, Error, "A network or a model file is damaged or out of bounds.");
create_exception!(linnet, LearnError, Error, "The data cannot be learned from.");
create_exception!(linnet, DeviceError, Error, "A device preset or parameter is impossible.");
create_exception!(linnet, TuneError, Error, "A knob cannot be observed or set.");
create_exception!(linnet, TenantError, Error, "A profile or a declared load is impossible; says what and where.");
create_exception!(linnet, PolicyError, Error, "A policy is unknown or lacks what it needs.");

/// Converts a model or network error to a Python exception.
pub fn model(error: linnet_core::Error) -> PyErr {
    ModelError::new_err(error.to_string())
}

/// Converts a learning error to a Python exception.
pub fn learn(error: linnet_learn::Error) -> PyErr {
    LearnError::new_err(error.to_string())
}

/// Converts a failed file operation to Python's OSError, with the path.
pub fn file(path: &std::path::Path, error: std::io::Error) -> PyErr {
    match error.raw_os_error() {
        // The (errno, text, path) form selects FileNotFoundError and similar classes.
        Some(code) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or(&text).to_owned();
            pyo3::exceptions::PyOSError::new_err((code, text, path.display().to_string()))
        }
        None => pyo3::exceptions::PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// Converts a trace error to a Python exception.
pub fn trace(error: linnet_trace::Error) -> PyErr {
    TraceError::new_err(error.to_string())
}

/// Converts an SSD model error to a Python exception.
pub fn device(error: linnet_ssd::Error) -> PyErr {
    DeviceError::new_err(error.to_string())
}

/// Converts an array error to a Python exception.
pub fn policy(error: linnet_array::Error) -> PyErr {
    PolicyError::new_err(error.to_string())
}

/// Converts a profile's error to a Python exception.
pub fn tenant(error: linnet_tenant::Error) -> PyErr {
    TenantError::new_err(error.to_string())
}

/// Converts an error of a drive that is set aside to a Python exception: of the system, the drive or the tenants.
pub fn staging(error: linnet_staging::Error) -> PyErr {
    use linnet_staging::Error as E;
    match error {
        E::Open { path, source } => file(std::path::Path::new(&path), source),
        E::Writes { .. } | E::Large { .. } => TenantError::new_err(error.to_string()),
        E::InUse { .. } | E::Kind { .. } | E::Small { .. } | E::Ring(_) | E::Thread(_) | E::Io { .. } => {
            DeviceError::new_err(error.to_string())
        }
    }
}
