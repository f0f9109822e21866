// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements of `linnet bench`: converts arguments and results of `linnet_bench`.

use linnet_bench::ssd;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::network::PyNetwork;
use crate::progress::Progress;

/// Requests per second of one drive of about `raw_gib` GiB, 4 KiB at random offsets, with the latency of each recorded:
/// rows by mix, and the drive's memory and preconditioning time. The best of `rounds`.
#[pyfunction]
pub fn bench_ssd<'py>(py: Python<'py>, ios: usize, rounds: u32, raw_gib: u32) -> PyResult<Bound<'py, PyDict>> {
    if ios == 0 || rounds == 0 || !(10..=1024).contains(&raw_gib) {
        return Err(PyValueError::new_err("ios and rounds are at least 1, raw_gib is 10 to 1024"));
    }
    let mut bench = py.detach(|| ssd::Bench::new(raw_gib)).map_err(errors::device)?;
    let dict = PyDict::new(py);
    dict.set_item("raw_bytes", bench.device().params().raw_bytes())?;
    dict.set_item("precondition_s", bench.precondition_s())?;
    dict.set_item("map_bytes_per_page", bench.device().map_bytes_per_page())?;
    let mut rows = Vec::new();
    for (mix, (name, ..)) in ssd::MIXES.iter().enumerate() {
        let mut progress = Progress::new(None);
        let rate = py.detach(|| bench.rate(mix, ios, rounds, &mut || progress.tell(())));
        let rate = rate.ok_or_else(|| progress.error(PyValueError::new_err("the bench was stopped")))?;
        let row = PyDict::new(py);
        row.set_item("mix", name)?;
        row.set_item("ios_per_second", rate)?;
        rows.push(row);
    }
    dict.set_item("rows", rows)?;
    Ok(dict)
}

/// Runs `ios` requests of a mix on a small drive inside the counted function, for callgrind.
#[pyfunction]
pub fn bench_ssd_count(mix: &str, ios: usize) -> PyResult<()> {
    if ssd::count(mix, ios).map_err(errors::device)? {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("unknown mix {mix:?}")))
}

/// Runs a bench in a thread of its own and looks for Ctrl-C meanwhile. The thread of an interrupted bench ends with the
/// process.
fn interruptible<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let thread = std::thread::spawn(work);
    while !thread.is_finished() {
        py.detach(|| std::thread::sleep(std::time::Duration::from_millis(50)));
        py.check_signals()?;
    }
    thread.join().map_err(|panic| std::panic::resume_unwind(panic))
}

/// Cost of a decision, one JSON object per row; `counter` is a program that passes its arguments after `count` to
/// `bench_decide_count`, and runs under valgrind.
#[cfg(target_arch = "x86_64")]
#[pyfunction]
pub fn bench_decide(
    py: Python<'_>,
    blocks: usize,
    seed: u64,
    counter: Option<std::path::PathBuf>,
) -> PyResult<Vec<String>> {
    if blocks == 0 {
        return Err(PyValueError::new_err("blocks is at least 1"));
    }
    let options = linnet_bench::decide::Options { blocks, seed, counter, ..Default::default() };
    let rows = interruptible(py, move || linnet_bench::decide::decide(&options))?.map_err(errors::model)?;
    Ok(rows.iter().map(linnet_bench::decide::Row::to_json).collect())
}

/// Cost of a decision of this network in every build, one JSON object per row: the plain int64 loop, the core's whole
/// network, and the paths of an incremental network if it takes 31 digits. Without a network, the cost of the trees.
#[cfg(target_arch = "x86_64")]
#[pyfunction]
#[pyo3(signature = (network, blocks, seed = 1))]
pub fn bench_network(
    py: Python<'_>,
    network: Option<PyRef<'_, PyNetwork>>,
    blocks: usize,
    seed: u64,
) -> PyResult<Vec<String>> {
    if blocks == 0 {
        return Err(PyValueError::new_err("blocks is at least 1"));
    }
    let options = linnet_bench::decide::Options { blocks, seed, ..Default::default() };
    let network = network.map(|network| network.0.clone());
    let rows = py.detach(|| match &network {
        Some(network) => linnet_bench::decide::one_network("network", network, &options),
        None => linnet_bench::decide::trees(&options),
    });
    Ok(rows.map_err(errors::model)?.iter().map(linnet_bench::decide::Row::to_json).collect())
}

/// Other processors have no decision bench yet.
#[cfg(not(target_arch = "x86_64"))]
#[pyfunction]
#[pyo3(signature = (network, blocks, seed = 1))]
pub fn bench_network(network: Option<PyRef<'_, PyNetwork>>, blocks: usize, seed: u64) -> PyResult<Vec<String>> {
    let _ = network;
    bench_decide(blocks, seed, None)
}

/// Cost of the library of knobs, one JSON object per row.
#[pyfunction]
#[pyo3(signature = (blocks, seed = 1))]
pub fn bench_tune(py: Python<'_>, blocks: usize, seed: u64) -> PyResult<Vec<String>> {
    if blocks == 0 {
        return Err(PyValueError::new_err("blocks is at least 1"));
    }
    let rows = interruptible(py, move || linnet_bench::tune::tune(blocks, seed))?.map_err(errors::model)?;
    Ok(rows.iter().map(linnet_bench::tune::TuneRow::to_json).collect())
}

/// Runs the calls of one row inside the counted function.
#[cfg(target_arch = "x86_64")]
#[pyfunction]
pub fn bench_decide_count(arguments: Vec<String>) -> PyResult<()> {
    linnet_bench::decide::count(&arguments).map_err(errors::model)
}

/// Other processors have no decision bench yet.
#[cfg(not(target_arch = "x86_64"))]
#[pyfunction]
pub fn bench_decide(_blocks: usize, _seed: u64, _counter: Option<std::path::PathBuf>) -> PyResult<Vec<String>> {
    Err(errors::ModelError::new_err("the decision bench times x86-64 instruction sets; this processor is another"))
}

/// Other processors have no decision bench yet.
#[cfg(not(target_arch = "x86_64"))]
#[pyfunction]
pub fn bench_decide_count(_arguments: Vec<String>) -> PyResult<()> {
    bench_decide(1, 0, None).map(drop)
}
