// SPDX-License-Identifier: MIT OR Apache-2.0
//! How objects are pickled: as a call of a static method of their class that makes them again.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// What `__reduce__` returns: a function, and its arguments.
pub type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyType>,));

/// A call of the class of `object`; `call` is the name of its method and what that takes.
pub fn by<'py, T>(object: &Bound<'py, T>, call: impl PyCallArgs<'py>) -> PyResult<Reduced<'py>> {
    // Static methods have no module, by which pickle would find them.
    let caller = object.py().import("operator")?.getattr("methodcaller")?.call1(call)?;
    Ok((caller, (object.as_any().get_type(),)))
}
