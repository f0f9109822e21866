// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole numbers as arguments. PyO3's own conversion raises OverflowError, which no caller of ours expects, and whose text
//! does not name the argument; these raise ValueError or TypeError that does.

use std::num::NonZeroUsize;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

trait Whole {
    const LEAST: u64 = 0;
    const MOST: u64;
}

impl Whole for u16 {
    const MOST: u64 = u16::MAX as u64;
}

impl Whole for u32 {
    const MOST: u64 = u32::MAX as u64;
}

impl Whole for u64 {
    const MOST: u64 = u64::MAX;
}

impl Whole for usize {
    const MOST: u64 = usize::MAX as u64;
}

impl Whole for NonZeroUsize {
    const LEAST: u64 = 1;
    const MOST: u64 = usize::MAX as u64;
}

impl<T: Whole> Whole for Option<T> {
    const LEAST: u64 = T::LEAST;
    const MOST: u64 = T::MOST;
}

fn named<'a, 'py, T: Whole + FromPyObject<'a, 'py>>(value: &'a Bound<'py, PyAny>, name: &str) -> PyResult<T> {
    let py = value.py();
    value.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        let shown = shown(value);
        if error.is_instance_of::<PyOverflowError>(py) || error.is_instance_of::<PyValueError>(py) {
            PyValueError::new_err(format!("{name} is {shown}, no whole number from {} to {}", T::LEAST, T::MOST))
        } else if error.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(format!("{name} is {shown}, no whole number"))
        } else {
            error
        }
    })
}

/// The sizes of the hidden layers of a network.
pub fn hidden(value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let Ok(sizes) = value.try_iter() else {
        return Err(PyTypeError::new_err(format!("hidden is {}, no sequence of sizes", shown(value))));
    };
    sizes.map(|size| named(&size?, "hidden")).collect()
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "?".into(), |text| text.to_string())
}

/// A function for each argument, for `from_py_with`.
macro_rules! arguments {
    ($($function:ident $name:literal $type:ty;)*) => {
        $(pub fn $function(value: &Bound<'_, PyAny>) -> PyResult<$type> {
            named(value, $name)
        })*
    };
}

arguments! {
    at_ns "at_ns" u64;
    batch "batch" NonZeroUsize;
    by_ns "by_ns" u64;
    closed_loop "closed_loop" Option<NonZeroUsize>;
    device "device" usize;
    device_or_any "device" Option<u32>;
    depth "depth" usize;
    devices "devices" usize;
    epochs "epochs" usize;
    failover_ns "failover_ns" u64;
    hedge_bytes_max "hedge_bytes_max" Option<u32>;
    history "history" usize;
    inflection_ns "inflection_ns" u64;
    ios "ios" usize;
    max_depth "max_depth" usize;
    max_leaves "max_leaves" usize;
    max_rows "max_rows" Option<usize>;
    min_samples_leaf "min_samples_leaf" usize;
    most "most" Option<u64>;
    pieces "pieces" usize;
    rebuilt "rebuilt" usize;
    replicas "replicas" usize;
    rows "rows" u64;
    schema "schema" Option<u16>;
    seed "seed" u64;
    size_bytes "size_bytes" u32;
    slow_ns "slow_ns" Option<u64>;
    timeline "timeline" usize;
    warm_up_ns "warm_up_ns" u64;
}
