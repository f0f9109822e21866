// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays of numbers as callers give them: what a conversion would change or lose is refused. And as they get them.

use numpy::{Element, PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::IntoPyDict;

/// Finds the interface of numpy, once, before the crate of that name does: it panics where its imports fail, as they do
/// when the handler of a signal raises in them. Not when this module is imported, because most commands need no numpy.
pub fn ready(py: Python<'_>) -> PyResult<()> {
    static READY: PyOnceLock<()> = PyOnceLock::new();
    READY
        .get_or_try_init(py, || {
            py.import("numpy")?;
            // Handlers of signals run on the main thread alone.
            let find = || Python::attach(|py| drop(PyArray1::from_vec(py, vec![0u8]).readonly()));
            py.detach(|| std::thread::scope(|scope| scope.spawn(find).join()))
                .map_err(|_| PyRuntimeError::new_err("this numpy has no interface for arrays; linnet needs numpy 2.0"))
        })
        .copied()
}

/// An argument that holds arrays of just the type that is asked for, as the package's own callers give them.
pub fn exact<'a, 'py, T: FromPyObject<'a, 'py>>(value: &'a Bound<'py, PyAny>) -> PyResult<T> {
    ready(value.py())?;
    value.extract().map_err(Into::into)
}

/// An array of Python's that holds these values.
pub fn vector<T: Element>(py: Python<'_>, values: Vec<T>) -> PyResult<Bound<'_, PyArray1<T>>> {
    ready(py)?;
    Ok(PyArray1::from_vec(py, values))
}

/// Refuses a masked array with masked values: what is below the mask would count as given.
pub fn unmasked(value: &Bound<'_, PyAny>) -> PyResult<()> {
    let numpy = value.py().import("numpy")?;
    if numpy.getattr("ma")?.call_method1("is_masked", (value,))?.is_truthy()? {
        return Err(PyValueError::new_err("an array with masked values; fill them or leave their rows out"));
    }
    Ok(())
}

/// The array, if its elements are of one of these kinds (numpy's letters).
fn of_kinds<'py>(value: &Bound<'py, PyAny>, kinds: &str, needed: &str) -> PyResult<Bound<'py, PyAny>> {
    ready(value.py())?;
    unmasked(value)?;
    let given = value.py().import("numpy")?.call_method1("asarray", (value,))?;
    let kind: String = given.getattr("dtype")?.getattr("kind")?.extract()?;
    if !kinds.contains(&kind) {
        return Err(PyTypeError::new_err(format!("an array of kind {kind:?} where {needed}")));
    }
    Ok(given)
}

/// The error of an array of another shape than the `needed` one.
fn misshapen(value: &Bound<'_, PyAny>, needed: &str) -> PyErr {
    let shape = value.getattr("shape").map_or_else(|_| "?".into(), |shape| shape.to_string());
    PyValueError::new_err(format!("an array of shape {shape}, not {needed}"))
}

/// Rows of integers of this type; `needed` says what they are.
pub fn integer_rows<'py, T: Element>(
    value: &Bound<'py, PyAny>,
    dtype: &str,
    needed: &str,
) -> PyResult<PyReadonlyArray2<'py, T>> {
    let converted = integers(value, dtype)?;
    converted.extract().map_err(|_| misshapen(&converted, needed))
}

/// A column of integers of this type, by its name.
pub fn integer_column<'py, T: Element>(
    value: &Bound<'py, PyAny>,
    dtype: &str,
    name: &str,
) -> PyResult<PyReadonlyArray1<'py, T>> {
    let column = integers(value, dtype)
        .and_then(|converted| converted.extract().map_err(|_| misshapen(&converted, "a column (n,)")));
    column.map_err(|error| {
        let py = value.py();
        let told = format!("{name}: {}", error.value(py));
        if error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py) {
            PyErr::from_type(error.get_type(py), told)
        } else {
            error
        }
    })
}

/// A contiguous array of integers of this type: as given, or converted if no value changes.
pub fn integers<'py>(value: &Bound<'py, PyAny>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    let numpy = value.py().import("numpy")?;
    let given = of_kinds(value, "iub", &format!("integers are needed ({dtype})"))?;
    // What has the type keeps its values, and its dimensions: `ascontiguousarray` makes a number a column.
    let converted = numpy.call_method1("asarray", (&given, dtype, "C"))?;
    if converted.is(&given) || numpy.call_method1("array_equal", (&given, &converted))?.is_truthy()? {
        Ok(converted)
    } else {
        Err(PyValueError::new_err(format!("a value does not fit {dtype}")))
    }
}

/// A contiguous array of floats of this type, rounded to it. A finite value that would become infinite is refused; values
/// that are not finite stay.
pub fn floats<'py>(value: &Bound<'py, PyAny>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let numpy = py.import("numpy")?;
    let given = of_kinds(value, "fiub", &format!("numbers are needed ({dtype})"))?;
    // An overflow is an error below, and no warning here.
    let quiet = numpy.call_method("errstate", (), Some(&[("over", "ignore")].into_py_dict(py)?))?;
    quiet.call_method0("__enter__")?;
    let converted = numpy.call_method1("ascontiguousarray", (&given, dtype));
    quiet.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    let converted = converted?;
    let finite = |array| numpy.call_method1("isfinite", (array,));
    if numpy.call_method1("array_equal", (finite(&given)?, finite(&converted)?))?.is_truthy()? {
        Ok(converted)
    } else {
        Err(PyValueError::new_err(format!("a value does not fit {dtype}")))
    }
}

/// Rows of features (n, inputs) as contiguous 32-bit floats.
pub fn rows<'py>(x: &Bound<'py, PyAny>, inputs: usize) -> PyResult<PyReadonlyArray2<'py, f32>> {
    let x = matrix(x)?;
    if x.shape()[1] != inputs {
        return Err(PyValueError::new_err(format!("rows have {} numbers; {inputs} are expected", x.shape()[1])));
    }
    Ok(x)
}

/// Rows of any number of features, as contiguous 32-bit floats.
pub fn matrix<'py>(x: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray2<'py, f32>> {
    let converted = floats(x, "float32")?;
    converted.extract().map_err(|_| misshapen(&converted, "rows (n, inputs) of numbers"))
}
