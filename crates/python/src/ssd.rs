// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linnet.Device`: one modelled drive, run on traces, explained, checked against a reference, saved and loaded.

mod load;
mod run;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use linnet_ssd::queued::{QueuedSsd, Served};
use linnet_ssd::{Cause, DeviceParams, Params, Settled, Ssd, Tenant, run_tenants};
use linnet_types::{Device, IoRecord, Nanos};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

use crate::errors;
use crate::items;
use crate::numbers::{self, vector};
use crate::progress::Progress;
use crate::trace::PyTrace;
use crate::whole;
use load::{BYTES_AN_IO, Load, closed_loop};
pub use run::PyDeviceRun;

/// I/Os between two reports of progress.
const PROGRESS_EVERY: usize = 65_536;
/// Highest rate of a tenant: an I/O each nanosecond, which is the resolution of time.
const IOPS_MAX: f64 = 1e9;

/// One modelled drive. Every run starts from a copy of it.
#[pyclass(name = "Device", module = "linnet", frozen)]
pub struct PyDevice {
    params: DeviceParams,
    ready: Ready,
    seed: u64,
    /// None if it was not preconditioned here.
    settled: Option<Settled>,
}

/// The drive before each run.
enum Ready {
    Timelines(Box<Mutex<Ssd>>),
    Queued(Box<QueuedSsd>),
}

impl PyDevice {
    /// A copy of the preconditioned drive and its size.
    pub fn drive(&self) -> PyResult<Ssd> {
        match &self.ready {
            Ready::Timelines(ready) => Ok(ready.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            Ready::Queued(_) => Err(errors::DeviceError::new_err(
                "this parameter file is of the queued model, whose answers are not known when a request is submitted; \
                 give one of model = \"timelines\"",
            )),
        }
    }
}

#[pymethods]
impl PyDevice {
    /// A drive of a preset, or of a TOML parameter file, preconditioned to steady state unless told otherwise.
    #[new]
    #[pyo3(signature = (preset = None, params = None, seed = 0, device_wide_share = None, precondition = true))]
    fn new(
        py: Python<'_>,
        preset: Option<&str>,
        params: Option<PathBuf>,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
        device_wide_share: Option<f64>,
        precondition: bool,
    ) -> PyResult<Self> {
        let (mut params, name) = match (preset, params) {
            (Some(name), None) => (DeviceParams::find(name).map_err(errors::device)?, name.to_owned()),
            (None, Some(path)) => (DeviceParams::read(&path).map_err(errors::device)?, path.display().to_string()),
            _ => return Err(PyValueError::new_err("give a preset or a parameter file")),
        };
        set_share(&mut params, &name, device_wide_share)?;
        let settled;
        let ready = match &params {
            DeviceParams::Timelines(params) => {
                let mut device = Ssd::new(params, seed).map_err(errors::device)?;
                settled = precondition.then(|| py.detach(|| device.precondition()));
                Ready::Timelines(Box::new(Mutex::new(device)))
            }
            DeviceParams::Queued(params) => {
                let mut device = QueuedSsd::new(params).map_err(errors::device)?;
                settled = precondition.then(|| py.detach(|| device.precondition(seed)));
                Ready::Queued(Box::new(device))
            }
        };
        Ok(PyDevice { params, ready, seed, settled })
    }

    /// Loads a saved drive.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let device = py.detach(|| Ssd::load(&path)).map_err(errors::device)?;
        let params = DeviceParams::Timelines(device.params());
        Ok(PyDevice { params, ready: Ready::Timelines(Box::new(Mutex::new(device))), seed: 0, settled: None })
    }

    /// Saves the preconditioned drive; the file appears complete or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let device = self.drive()?;
        py.detach(move || device.save(&path)).map_err(errors::device)
    }

    /// The parameters in the form of a TOML file.
    fn to_toml(&self) -> String {
        self.params.to_toml()
    }

    /// Capacity in bytes as the host sees it.
    #[getter]
    fn capacity_bytes(&self) -> u64 {
        match (&self.params, &self.ready) {
            (DeviceParams::Queued(params), _) => params.capacity_bytes(),
            (_, Ready::Timelines(ready)) => ready.lock().unwrap_or_else(PoisonError::into_inner).capacity_bytes(),
            (_, Ready::Queued(_)) => 0,
        }
    }

    /// Seed of the drive.
    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }

    /// Write amplification at the end of preconditioning, and whether it was steady; None without it.
    #[getter]
    fn settled(&self) -> Option<(f64, bool)> {
        self.settled.map(|settled| (settled.amplification, settled.steady))
    }

    /// Nominal service time of a read, ns: that of pages which lie together, on the idle drive.
    fn unloaded_read_ns(&self, #[pyo3(from_py_with = whole::size_bytes)] size_bytes: u32) -> u64 {
        match (&self.params, &self.ready) {
            (DeviceParams::Queued(params), _) => params.unloaded_read_ns(size_bytes),
            (_, Ready::Timelines(ready)) => {
                ready.lock().unwrap_or_else(PoisonError::into_inner).unloaded_read_ns(size_bytes)
            }
            (_, Ready::Queued(_)) => 0,
        }
    }

    /// Runs traces on one copy of the drive, each a stream (a tenant). `timeline` keeps that many intervals of each die
    /// and channel for a picture, which only the timeline engine can. `progress(I/Os done)` may return False to stop.
    #[pyo3(signature = (streams, timeline = 0, progress = None))]
    fn run(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = items::streams)] streams: Vec<PyRef<'_, PyTrace>>,
        #[pyo3(from_py_with = whole::timeline)] timeline: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<PyDeviceRun> {
        let records: Vec<Arc<Vec<IoRecord>>> = streams.iter().map(|trace| trace.records.clone()).collect();
        let merged = merge(&records);
        let mut progress = Progress::new(progress);
        if timeline > 0 && matches!(self.ready, Ready::Queued(_)) {
            return Err(errors::DeviceError::new_err(
                "the queued model does not record what its dies and channels do; a picture needs model = \"timelines\"",
            ));
        }
        let mut device = match &self.ready {
            Ready::Timelines(_) => Some(self.drive()?),
            Ready::Queued(_) => None,
        };
        let run = py.detach(|| match (&mut device, &self.ready) {
            (Some(device), _) => {
                device.record_timeline(timeline);
                let mut answers = Vec::with_capacity(merged.len());
                for (n, (stream, record)) in merged.iter().enumerate() {
                    if n % PROGRESS_EVERY == 0 && !progress.tell((n,)) {
                        return None;
                    }
                    let (done, cause) = device.submit_on(*stream, record.arrive_ns, &record.request());
                    answers.push((Some(done - record.arrive_ns), cause));
                }
                Some((answers, stats(device)))
            }
            (None, Ready::Queued(ready)) => {
                let mut queued = ready.as_ref().clone();
                let mut answers = vec![(None, Cause::default()); merged.len()];
                let mut keep = |one: Served| answers[one.token as usize] = (Some(one.latency_ns), one.cause);
                for (n, (_, record)) in merged.iter().enumerate() {
                    if n % PROGRESS_EVERY == 0 && !progress.tell((n,)) {
                        return None;
                    }
                    queued.submit(record.arrive_ns, n as u64, &record.request());
                    queued.poll_served(record.arrive_ns, &mut keep);
                }
                queued.poll_served(Nanos::MAX, keep);
                let found = queued.stats();
                let waf = found.waf().unwrap_or(f64::NAN);
                Some((answers, vec![("waf", waf), ("gc_runs", found.gc_runs as f64)]))
            }
            (None, Ready::Timelines(_)) => None,
        });
        let Some((answers, stats)) = run else {
            return Err(run_stopped(progress));
        };
        let names = streams.iter().map(|trace| trace.name().to_owned()).collect();
        Ok(PyDeviceRun { merged, answers, stats, names, device: device.map(Mutex::new) })
    }

    /// Keeps `depth` requests of `size_bytes` in flight at random (or sequential) offsets until `ios` are served.
    /// Returns the virtual time taken, ns, and the latencies.
    #[pyo3(signature = (depth, ios, size_bytes, write_share = 0.0, sequential = false, seed = 0))]
    #[allow(clippy::too_many_arguments)]
    fn saturate<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = whole::depth)] depth: usize,
        #[pyo3(from_py_with = whole::ios)] ios: usize,
        #[pyo3(from_py_with = whole::size_bytes)] size_bytes: u32,
        write_share: f64,
        sequential: bool,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
    ) -> PyResult<(u64, Bound<'py, PyArray1<u64>>)> {
        if depth == 0 || ios == 0 || size_bytes == 0 {
            return Err(PyValueError::new_err("depth, ios and size_bytes are at least 1"));
        }
        if !(0.0..=1.0).contains(&write_share) {
            return Err(PyValueError::new_err(format!("write_share is {write_share}; it lies in 0 to 1")));
        }
        if let Some(room) = linnet_trace::free().filter(|room| room.bytes / BYTES_AN_IO < ios as u64) {
            let most = room.bytes / BYTES_AN_IO;
            return Err(PyValueError::new_err(format!("ios is {ios}; those of {most} fit {}", room.limit)));
        }
        let mut device = self.drive()?;
        let mut load = Load::new(size_bytes, write_share, sequential, seed);
        let mut progress = Progress::new(None);
        let run = py.detach(|| closed_loop(&mut device, depth, ios, &mut load, &mut || progress.look()));
        let Some((end, latencies)) = run else { return Err(run_stopped(progress)) };
        Ok((end, vector(py, latencies)?))
    }

    /// A drive with this one's contents after `ios` writes of 4 KiB at random offsets, idle again at time 0.
    fn overwritten(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = whole::ios)] ios: usize,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
    ) -> PyResult<PyDevice> {
        let mut device = self.drive()?;
        let mut progress = Progress::new(None);
        if !py.detach(|| device.overwrite(ios as u64, seed, &mut || progress.look())) {
            return Err(run_stopped(progress));
        }
        let ready = Ready::Timelines(Box::new(Mutex::new(device)));
        Ok(PyDevice { params: self.params.clone(), ready, seed: self.seed, settled: None })
    }

    /// Runs threads of 4 KiB requests at random offsets that share a copy of the drive. A tenant is (I/Os per second,
    /// share of writes, whether intervals are exponential, most in flight). Returns for each the latencies of its reads
    /// and of its writes after the warm-up, ns.
    fn tenants<'py>(
        &self,
        py: Python<'py>,
        tenants: Vec<(f64, f64, bool, usize)>,
        warm_up_s: f64,
        seconds: f64,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
    ) -> PyResult<Vec<Both<'py>>> {
        let possible = |iops: f64| iops > 0.0 && iops <= IOPS_MAX;
        if tenants.iter().any(|&(iops, share, _, depth)| !(possible(iops) && (0.0..=1.0).contains(&share) && depth > 0))
        {
            return Err(PyValueError::new_err(format!(
                "a tenant has a rate above 0 and up to {IOPS_MAX:e}, a share of writes in 0 to 1 and a depth of at \
                 least 1; given are {tenants:?}"
            )));
        }
        if !(warm_up_s >= 0.0 && seconds > 0.0 && warm_up_s + seconds < 1e6) {
            return Err(PyValueError::new_err(format!(
                "warm_up_s is {warm_up_s} and seconds {seconds}; they are at least 0 and above 0, and below 1e6 together"
            )));
        }
        let tenants: Vec<Tenant> = tenants
            .into_iter()
            .map(|(iops, write_share, poisson, depth)| Tenant { iops, write_share, poisson, depth })
            .collect();
        let mut device = self.drive()?;
        let ns = |seconds: f64| (seconds * 1e9) as Nanos;
        let mut progress = Progress::new(None);
        let run =
            py.detach(|| run_tenants(&mut device, &tenants, ns(warm_up_s), ns(seconds), seed, &mut || progress.look()));
        let Some(found) = run else { return Err(run_stopped(progress)) };
        found.into_iter().map(|one| Ok((vector(py, one.reads_ns)?, vector(py, one.writes_ns)?))).collect()
    }

    fn __repr__(&self) -> String {
        format!("Device(capacity_bytes={})", self.capacity_bytes())
    }
}

/// The exception of a run that was stopped.
fn run_stopped(progress: Progress) -> PyErr {
    progress.error(PyKeyboardInterrupt::new_err("the run was stopped"))
}

/// Sets another device-wide share if one is given; `name` is that of the preset or file.
pub fn set_share(params: &mut DeviceParams, name: &str, device_wide_share: Option<f64>) -> PyResult<()> {
    match (params, device_wide_share) {
        (DeviceParams::Timelines(params), Some(share)) => params.device_wide_share = share,
        (DeviceParams::Queued(_), Some(_)) => {
            return Err(errors::DeviceError::new_err(format!(
                "{name}: the queued model has no device-wide share; leave the share out"
            )));
        }
        (_, None) => {}
    }
    Ok(())
}

/// Latencies of reads and of writes, ns.
type Both<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>);

/// Streams merged by arrival; at equal times the lower stream is first.
fn merge(records: &[Arc<Vec<IoRecord>>]) -> Vec<(u16, IoRecord)> {
    let mut merged: Vec<(u16, IoRecord)> =
        (0u16..).zip(records).flat_map(|(stream, list)| list.iter().map(move |record| (stream, *record))).collect();
    merged.sort_by_key(|(_, record)| record.arrive_ns);
    merged
}

fn stats(device: &Ssd) -> Vec<(&'static str, f64)> {
    let (s, wear) = (device.stats(), device.wear());
    let busy = s.die_utilisation();
    let pick = |of: fn(f64, f64) -> f64| busy.iter().copied().reduce(of).unwrap_or(0.0);
    vec![
        ("waf", s.waf().unwrap_or(f64::NAN)),
        ("utilisation", s.utilisation()),
        ("gc_rounds", (s.gc_rounds_wide + s.gc_rounds_single) as f64),
        ("gc_moved_pages", s.gc_moved_pages as f64),
        ("erases", s.erases as f64),
        ("retries", s.retries as f64),
        ("flushes", (s.flushes_timer + s.flushes_watermark) as f64),
        ("slow_reads", s.slow_reads.total() as f64),
        ("slow_device_wide", s.slow_reads.device_wide as f64),
        ("slow_single_die", s.slow_reads.single_die as f64),
        ("wear_least", f64::from(wear.least)),
        ("wear_most", f64::from(wear.most)),
        ("die_busy_least", pick(f64::min)),
        ("die_busy_most", pick(f64::max)),
    ]
}

/// Compares the model with a reference file (NAME.json with its CSV in the same directory); returns ratios and
/// distances as JSON text.
#[pyfunction]
pub fn ssd_check(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let (check, _) =
        py.detach(|| linnet_ssd::check(&path)).map_err(|error| errors::DeviceError::new_err(error.to_string()))?;
    serde_json::to_string(&check).map_err(|error| errors::DeviceError::new_err(error.to_string()))
}

/// The keys of a parameter file of the timeline engine, whether a preset has them or not.
#[pyfunction]
pub fn ssd_parameters() -> Vec<&'static str> {
    Params::keys().to_vec()
}

/// Nearest-rank quantiles (shares 0 to 1) of latencies: the project's only definition.
#[pyfunction]
pub fn quantiles_ns(
    #[pyo3(from_py_with = numbers::exact)] latency_ns: PyReadonlyArray1<'_, u64>,
    shares: Vec<f64>,
) -> Vec<u64> {
    let mut sorted = latency_ns.as_array().to_vec();
    sorted.sort_unstable();
    shares.iter().map(|&q| linnet_measure::quantile(&sorted, q)).collect()
}
