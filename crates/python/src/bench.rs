// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements behind `linnet bench`.

use std::hint::black_box;
use std::time::Instant;

use linnet_sim::Chance;
use linnet_ssd::{Params, Ssd};
use linnet_types::{Nanos, Op, Request};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::network::PyNetwork;

/// Name, share of reads in percent, and gap between requests in ns: loads that a drive of 64 GiB sustains.
const MIXES: [(&str, u64, Nanos); 3] = [("read", 100, 2_000), ("mixed-70-30", 70, 10_000), ("overwrite", 0, 20_000)];
/// Requests between two calls of the model.
const BATCH: usize = 4096;

fn drive(blocks_per_plane: u32) -> PyResult<Ssd> {
    let base = Params::preset("enterprise-wide").map_err(errors::device)?;
    let params = Params { pages_per_block: 32, blocks_per_plane, superblocks_per_erase: 8, ..base };
    Ssd::new(&params, 1).map_err(errors::device)
}

fn requests(capacity_bytes: u64, ios: usize, read_percent: u64, gap_ns: Nanos) -> Vec<(Nanos, Request)> {
    let (mut chance, pages) = (Chance::new(11), capacity_bytes / 4096);
    (0..ios as u64)
        .map(|n| {
            let op = if chance.below(100) < read_percent { Op::Read } else { Op::Write };
            (n * gap_ns, Request::new(op, chance.below(pages) * 4096, 4096))
        })
        .collect()
}

/// The function whose instructions callgrind counts.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn linnet_bench_ssd_counted(device: &mut Ssd, asked: &[(Nanos, Request)], done: &mut Vec<Nanos>) {
    for batch in asked.chunks(BATCH) {
        device.submit_many(batch, done);
    }
}

/// Requests per second of one drive of about `raw_gib` GiB, 4 KiB at random places, latency of each recorded: rows by mix, and the
/// drive's memory and preconditioning time. The best of `rounds`.
#[pyfunction]
pub fn bench_ssd<'py>(py: Python<'py>, ios: usize, rounds: u32, raw_gib: u32) -> PyResult<Bound<'py, PyDict>> {
    if ios == 0 || rounds == 0 || !(10..=1024).contains(&raw_gib) {
        return Err(PyValueError::new_err("ios and rounds are at least 1, raw_gib is 10 to 1024"));
    }
    // 64 GiB raw are 256 superblocks of 256 MiB.
    let mut device = drive(raw_gib * 4)?;
    let begun = Instant::now();
    py.detach(|| device.precondition());
    let precondition_s = begun.elapsed().as_secs_f64();
    let dict = PyDict::new(py);
    dict.set_item("raw_bytes", device.params().raw_bytes())?;
    dict.set_item("precondition_s", precondition_s)?;
    dict.set_item("map_bytes_per_page", device.map_bytes_per_page())?;
    let mut rows = Vec::new();
    for (name, read_percent, gap_ns) in MIXES {
        let asked = requests(device.capacity_bytes(), ios, read_percent, gap_ns);
        let mut best = f64::INFINITY;
        for _ in 0..rounds {
            py.check_signals()?;
            let mut copy = device.clone();
            let mut done = Vec::with_capacity(asked.len());
            let asked = &asked;
            let seconds = py.detach(move || {
                let begun = Instant::now();
                linnet_bench_ssd_counted(&mut copy, asked, &mut done);
                black_box(&done);
                begun.elapsed().as_secs_f64()
            });
            best = best.min(seconds);
        }
        let row = PyDict::new(py);
        row.set_item("mix", name)?;
        row.set_item("ios_per_second", ios as f64 / best)?;
        rows.push(row);
    }
    dict.set_item("rows", rows)?;
    Ok(dict)
}

/// Runs `ios` requests of a mix on a small drive inside the counted function, for callgrind.
#[pyfunction]
pub fn bench_ssd_count(mix: &str, ios: usize) -> PyResult<()> {
    let (_, read_percent, gap_ns) = MIXES
        .into_iter()
        .find(|(name, ..)| *name == mix)
        .ok_or_else(|| PyValueError::new_err(format!("unknown mix {mix:?}")))?;
    let mut device = drive(64)?;
    device.precondition();
    let asked = requests(device.capacity_bytes(), ios, read_percent, gap_ns);
    let mut done = Vec::with_capacity(ios);
    linnet_bench_ssd_counted(&mut device, &asked, &mut done);
    black_box(&done);
    Ok(())
}

/// What a decision costs, one JSON object a row; `counter` is a program that hands its arguments after `count` to
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
    let options = linnet_core::bench::Options { blocks, seed, counter, ..Default::default() };
    let rows = py.detach(|| linnet_core::bench::decide(&options)).map_err(errors::model)?;
    Ok(rows.iter().map(linnet_core::bench::Row::to_json).collect())
}

/// What a decision of this network costs in every build, one JSON object a row: the plain int64 loop, the core's whole network, and
/// the paths of a judge where it takes 31 digits. Without a network, what one of the trees costs.
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
    let options = linnet_core::bench::Options { blocks, seed, ..Default::default() };
    let network = network.map(|network| network.0.clone());
    let rows = py.detach(|| match &network {
        Some(network) => linnet_core::bench::one_network("network", network, &options),
        None => linnet_core::bench::trees(&options),
    });
    Ok(rows.map_err(errors::model)?.iter().map(linnet_core::bench::Row::to_json).collect())
}

/// Other processors have no decision bench yet.
#[cfg(not(target_arch = "x86_64"))]
#[pyfunction]
#[pyo3(signature = (network, blocks, seed = 1))]
pub fn bench_network(network: Option<PyRef<'_, PyNetwork>>, blocks: usize, seed: u64) -> PyResult<Vec<String>> {
    let _ = network;
    bench_decide(blocks, seed, None)
}

/// Runs the calls of one row inside the counted function.
#[cfg(target_arch = "x86_64")]
#[pyfunction]
pub fn bench_decide_count(arguments: Vec<String>) -> PyResult<()> {
    linnet_core::bench::count(&arguments).map_err(errors::model)
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
