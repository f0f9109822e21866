// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists as arguments: an item of another type is named with its argument and its place.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::model::PyModel;
use crate::trace::PyTrace;

fn type_of(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string())
}

/// The items of a list, each by `of`; `kind` says what they are.
fn listed<'py, T>(
    value: &Bound<'py, PyAny>,
    name: &str,
    kind: &str,
    of: impl Fn(&Bound<'py, PyAny>) -> Option<T>,
) -> PyResult<Vec<T>> {
    let Ok(items) = value.try_iter() else {
        return Err(PyTypeError::new_err(format!("{name} is a {}; give a list of {kind}", type_of(value))));
    };
    let mut found = Vec::new();
    for (at, item) in items.enumerate() {
        let item = item?;
        found.push(of(&item).ok_or_else(|| {
            PyTypeError::new_err(format!("{name}[{at}] is a {}; give a list of {kind}", type_of(&item)))
        })?);
    }
    Ok(found)
}

fn trace_list<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Vec<PyRef<'py, PyTrace>>> {
    listed(value, name, "linnet.Trace", |item| item.extract().ok())
}

/// The argument `streams`.
pub fn streams<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<PyRef<'py, PyTrace>>> {
    trace_list(value, "streams")
}

/// The argument `traces`.
pub fn traces<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<PyRef<'py, PyTrace>>> {
    trace_list(value, "traces")
}

/// The argument `models`, of which some may be `None`.
pub fn models<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Option<PyRef<'py, PyModel>>>> {
    listed(value, "models", "linnet.Model or None", |item| item.extract().ok())
}
