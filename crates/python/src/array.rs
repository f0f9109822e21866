// SPDX-License-Identifier: MIT OR Apache-2.0
//! An array of modelled devices, and runs of traces through it under a policy.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use linnet_array::{
    Config, Counters, DeviceModel, Error, Estimate, Observer, Playback, Policy, Progress as At, RunResult,
};
use linnet_core::Rate;
use linnet_measure::Summary;
use linnet_sim::{Chance, FaultPlan};
use linnet_ssd::{DeviceParams, PRESETS, QUEUED_PRESETS, Ssd};
use linnet_types::{FAILOVER_NS, IoRecord};
use numpy::PyArray1;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::drives::{DriveStats, Drives, parameters};
use crate::errors;
use crate::items;
use crate::model::PyModel;
use crate::numbers::vector;
use crate::progress::Progress;
use crate::setup::{Setup, write_mode};
use crate::ssd::set_share;
use crate::trace::PyTrace;
use crate::whole;

const TIMELINES: &str = "timelines";

fn engine_name(params: &DeviceParams) -> &'static str {
    match params {
        DeviceParams::Timelines(_) => TIMELINES,
        DeviceParams::Queued(_) => "queued",
    }
}

fn queued_capacity(params: &DeviceParams) -> u64 {
    match params {
        DeviceParams::Timelines(_) => 0,
        DeviceParams::Queued(params) => params.capacity_bytes(),
    }
}

/// The parameters of a preset or file, with another device-wide share if one is given.
fn of_preset(name: &str, device_wide_share: Option<f64>) -> PyResult<DeviceParams> {
    let mut params = DeviceParams::find(name).map_err(errors::device)?;
    set_share(&mut params, name, device_wide_share)?;
    Ok(params)
}

/// Most stalls of a device a minute.
const STALLS_MAX: f64 = 600.0;
/// The stream of random numbers that stalls are drawn from.
const STALLS: u64 = 0x57A1;

/// The policy that needs foresight of every replica.
pub const ORACLE: &str = "oracle";

/// Devices of presets or parameter files of one engine, preconditioned once; every run starts from copies of them.
#[pyclass(name = "Array", module = "linnet", frozen)]
pub struct PyArray {
    preset: String,
    /// One for each device, or one for all.
    params: Vec<DeviceParams>,
    /// Locked only during the copy: a drive has scratch memory that threads cannot share.
    drives: Mutex<Drives>,
    pub(crate) count: usize,
    capacity_bytes: u64,
    seed: u64,
    stalls_per_minute: f64,
}

#[pymethods]
impl PyArray {
    /// Builds and preconditions the devices; `device_wide_share` overrides the preset's. Device i has seed `seed` + i.
    /// `preset` is one name for all devices, or as many as there are devices, separated by commas. Each device answers
    /// nothing for 50 ms to a second at `stalls_per_minute` random times a minute, up to 600. The last `rebuilt` devices
    /// have their data as after a rebuild, written once and in order; the others as after long use.
    #[new]
    #[pyo3(signature = (preset, replicas, seed, device_wide_share = None, stalls_per_minute = 0.0, rebuilt = 0))]
    fn new(
        py: Python<'_>,
        preset: String,
        #[pyo3(from_py_with = whole::replicas)] replicas: usize,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
        device_wide_share: Option<f64>,
        stalls_per_minute: f64,
        #[pyo3(from_py_with = whole::rebuilt)] rebuilt: usize,
    ) -> PyResult<Self> {
        if !(0.0..=STALLS_MAX).contains(&stalls_per_minute) {
            return Err(errors::DeviceError::new_err(format!(
                "{stalls_per_minute} stalls a minute; give 0 to {STALLS_MAX}"
            )));
        }
        Config { replicas, ..Config::default() }.validate(replicas).map_err(errors::policy)?;
        if rebuilt > replicas {
            return Err(errors::DeviceError::new_err(format!("{rebuilt} rebuilt devices of {replicas}")));
        }
        let mut params = Vec::new();
        for name in preset.split(',') {
            params.push(of_preset(name.trim(), device_wide_share)?);
        }
        if params.len() != 1 && params.len() != replicas {
            return Err(errors::DeviceError::new_err(format!(
                "{preset}: {} presets for {replicas} devices; give one for all, or one for each",
                params.len()
            )));
        }
        if params.iter().any(|own| engine_name(own) != engine_name(&params[0])) {
            return Err(errors::DeviceError::new_err(format!(
                "{preset}: presets of both engines; an array needs devices of one engine"
            )));
        }
        let of_each: Vec<DeviceParams> = (0..replicas).map(|i| params[i % params.len()].clone()).collect();
        let drives = py.detach(|| Drives::new(&of_each, seed, rebuilt)).map_err(errors::device)?;
        let capacity_bytes = match &drives {
            Drives::Timelines(drives) => drives.iter().map(Ssd::capacity_bytes).min(),
            Drives::Queued(_) => of_each.iter().map(queued_capacity).min(),
        };
        let capacity_bytes = capacity_bytes.unwrap_or(0);
        let drives = Mutex::new(drives);
        Ok(PyArray { preset, params, count: replicas, capacity_bytes, drives, seed, stalls_per_minute })
    }

    /// The devices' preset, the smallest capacity and the parameters that determine the read tail; for devices of
    /// different presets, a list of the parameters of each under `devices`.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("preset", &self.preset)?;
        if let [params] = self.params.as_slice() {
            dict.update(parameters(py, params, self.capacity_bytes)?.as_mapping())?;
            return Ok(dict);
        }
        let devices = self.params.iter().map(|params| parameters(py, params, self.capacity_bytes));
        dict.set_item("devices", devices.collect::<PyResult<Vec<_>>>()?)?;
        Ok(dict)
    }

    /// The engine of the devices: timelines or queued.
    #[getter]
    fn engine(&self) -> &'static str {
        engine_name(&self.params[0])
    }

    /// True if the devices can predict their answers, which the policy `oracle`, false revokes and counterfactual
    /// latencies need.
    #[getter]
    pub fn foresight(&self) -> bool {
        self.engine() == TIMELINES
    }

    /// Runs one trace for each device under `policy`. `models` holds one for each device, or `None`; or it is empty. What
    /// a policy that learns does with a device without a model is in `spec/decision.md`. `log` keeps every I/O as its
    /// device saw it. `progress(I/Os done)` may return False to stop. I/Os of records before `warm_up_ns` are served, but
    /// are in no result except the log and the statistics of the devices. With `closed_loop`, so many I/Os are in flight
    /// at a time, in the order of the records, whose times have no other meaning then. `hedges` false sends no second
    /// copy, whatever the policy. `hedge_bytes_max` is the largest read that `linnet-best`, `ewma-hedged` and
    /// `linnet-expected` hedge.
    #[pyo3(signature = (streams, policy, models, seed = 0, failover_ns = FAILOVER_NS, writes_to_all = false, log = false,
        progress = None, probe_share = 0.0, warm_up_ns = 0, closed_loop = None, hedges = true,
        hedge_bytes_max = None))]
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = items::streams)] streams: Vec<PyRef<'_, PyTrace>>,
        policy: &str,
        #[pyo3(from_py_with = items::models)] models: Vec<Option<PyRef<'_, PyModel>>>,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
        #[pyo3(from_py_with = whole::failover_ns)] failover_ns: u64,
        writes_to_all: bool,
        log: bool,
        progress: Option<Py<PyAny>>,
        probe_share: f64,
        #[pyo3(from_py_with = whole::warm_up_ns)] warm_up_ns: u64,
        #[pyo3(from_py_with = whole::closed_loop)] closed_loop: Option<NonZeroUsize>,
        hedges: bool,
        #[pyo3(from_py_with = whole::hedge_bytes_max)] hedge_bytes_max: Option<u32>,
    ) -> PyResult<PyRun> {
        let hedge_bytes_max = hedge_bytes_max.unwrap_or(u32::MAX);
        let mut config = Config { probe_share, hedge_bytes_max, ..self.config(seed, failover_ns, writes_to_all) };
        if !hedges {
            config.hedge_budget = Rate::new(0.0, 0);
            config.settings.hedges = config.hedge_budget;
        }
        let last_ns = streams.iter().map(|stream| stream.last_ns()).max().unwrap_or(0);
        if warm_up_ns > last_ns {
            return Err(PyValueError::new_err(format!(
                "warm_up_ns is {warm_up_ns}, and the last I/O arrives at {last_ns}: nothing would be measured"
            )));
        }
        let playback = Playback { closed_loop, warm_up_ns, log };
        let setup = Setup::new(&streams, &models, config)?;
        let policy = setup.policy(policy)?;
        let mut watcher = Watcher(Progress::new(progress));
        match py.detach(|| self.run_through(&setup, policy, playback, &mut watcher)) {
            Ok((result, stats)) => Ok(self.finished(&streams, result, stats)),
            Err(Error::Interrupted { .. }) => Err(watcher.0.error(PyKeyboardInterrupt::new_err("the run was stopped"))),
            Err(error) => Err(errors::policy(error)),
        }
    }
}

impl PyArray {
    /// The settings of a run on these devices; the rest are defaults.
    pub fn config(&self, seed: u64, failover_ns: u64, writes_to_all: bool) -> Config {
        let write_mode = write_mode(writes_to_all);
        Config { replicas: self.count, seed, failover_ns, write_mode, ..Config::default() }
    }

    /// What Python sees of a run that has ended; false revokes are left out where the devices have no foresight.
    pub fn finished(&self, streams: &[PyRef<'_, PyTrace>], result: RunResult, stats: Vec<DriveStats>) -> PyRun {
        let names = streams.iter().map(|trace| trace.name().to_owned()).collect();
        let reads = (result.reads.latency_ns, result.reads.tenant);
        let measured_ns = (result.measured_from_ns, result.end_ns);
        let run = PyRun { measured_ns, ..PyRun::new(reads, result.counters, stats, result.log, names) };
        if self.foresight() { run } else { run.without_foresight() }
    }

    /// A run on copies of the devices, and the devices' statistics.
    pub fn run_through(
        &self,
        setup: &Setup,
        policy: Box<dyn Policy>,
        playback: Playback,
        observer: &mut impl Observer,
    ) -> Result<(RunResult, Vec<DriveStats>), Error> {
        if policy.name() == ORACLE && !self.foresight() {
            return Err(Error::Setting {
                field: "policy",
                value: policy.name().to_owned(),
                expected: "needs drives with foresight, and the queued model has none; leave it out".to_owned(),
            });
        }
        if playback.closed_loop.is_some() && self.stalls_per_minute > 0.0 {
            return Err(Error::Setting {
                field: "closed_loop",
                value: "with stalls".to_owned(),
                expected: "stalls come at times of the trace, which a closed loop ignores; leave out one of them"
                    .to_owned(),
            });
        }
        let copies = self.drives.lock().unwrap_or_else(PoisonError::into_inner).clone();
        copies.run(setup, policy, playback, self.plans(setup), observer)
    }

    /// The stalls of each device during a run; none if the array has none.
    fn plans(&self, setup: &Setup) -> Vec<FaultPlan> {
        if self.stalls_per_minute == 0.0 {
            return Vec::new();
        }
        let last_ns = setup.streams().iter().filter_map(|stream| stream.last()).map(|last| last.arrive_ns).max();
        let stalls = Chance::new(self.seed).fork(STALLS);
        let of_each = (0..self.count as u64)
            .map(|device| FaultPlan::stalling(&mut stalls.fork(device), self.stalls_per_minute, last_ns.unwrap_or(0)));
        of_each.collect()
    }
}

struct Watcher(Progress);

impl Observer for Watcher {
    fn progress(&mut self, at: At) -> bool {
        self.0.tell((at.done,))
    }
}

/// Result of one run.
#[pyclass(name = "Run", module = "linnet", frozen)]
pub struct PyRun {
    latency_ns: Vec<u64>,
    tenant: Vec<u32>,
    counters: Counters,
    stats: Vec<DriveStats>,
    log: Vec<Vec<IoRecord>>,
    names: Vec<String>,
    /// When the first request after the warm-up arrived, and the last event was.
    measured_ns: (u64, u64),
    /// Whether false revokes were counted.
    foresight: bool,
}

impl PyRun {
    /// A run from its parts: latency and tenant of each read, and the rest; `log` and `stats` may be empty.
    pub fn new(
        (latency_ns, tenant): (Vec<u64>, Vec<u32>),
        counters: Counters,
        stats: Vec<DriveStats>,
        log: Vec<Vec<IoRecord>>,
        names: Vec<String>,
    ) -> Self {
        PyRun { latency_ns, tenant, counters, stats, log, names, measured_ns: (0, 0), foresight: true }
    }

    /// The same run for drives without foresight, which cannot count false revokes.
    pub fn without_foresight(self) -> Self {
        PyRun { foresight: false, ..self }
    }
}

#[pymethods]
impl PyRun {
    /// Latency of every read, from arrival at the array to its answer, ns, in the order of the answers.
    fn latency_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        vector(py, self.latency_ns.to_vec())
    }

    /// In virtual time, when the first request after the warm-up arrived, and the last event was, ns.
    #[getter]
    fn measured_ns(&self) -> (u64, u64) {
        self.measured_ns
    }

    /// The tenant of every read, in the order of [`PyRun::latency_ns`].
    fn tenant<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        vector(py, self.tenant.to_vec())
    }

    /// The measured part of a comparison row: latencies in us, counts, and shares of all reads. The share
    /// of false revokes is None where drives have no foresight.
    fn row<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dict, c) = (PyDict::new(py), &self.counters);
        let summary = py.detach(|| Summary::of(&mut self.latency_ns.clone()));
        let share = |count: u64| count as f64 / c.reads.max(1) as f64;
        let us = |ns: u64| ns as f64 / 1000.0;
        dict.set_item("reads", c.reads)?;
        dict.set_item("mean_us", summary.mean / 1000.0)?;
        dict.set_item("p50_us", us(summary.p50))?;
        dict.set_item("p95_us", us(summary.p95))?;
        dict.set_item("p99_us", us(summary.p99))?;
        dict.set_item("p999_us", us(summary.p999))?;
        dict.set_item("p9999_us", us(summary.p9999))?;
        dict.set_item("extra_io", c.extra_io)?;
        dict.set_item("extra_io_share", share(c.extra_io))?;
        dict.set_item("revokes", c.revokes)?;
        dict.set_item("forced_submits", c.forced_submits)?;
        dict.set_item("false_submit", share(c.false_submits))?;
        dict.set_item("false_revoke", self.foresight.then(|| share(c.false_revokes)))?;
        Ok(dict)
    }

    /// All counts of the run by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dict, c) = (PyDict::new(py), &self.counters);
        for (name, value) in [
            ("reads", c.reads),
            ("writes", c.writes),
            ("reads_failed", c.reads_failed),
            ("writes_failed", c.writes_failed),
            ("submits", c.submits),
            ("extra_io", c.extra_io),
            ("judged", c.predictions),
            ("revokes", c.revokes),
            ("forced_submits", c.forced_submits),
            ("failovers", c.failovers),
            ("errors", c.errors),
            ("timeouts", c.timeouts),
            ("hedges", c.hedges),
            ("hedges_won", c.hedges_won),
            ("probes", c.probes),
            ("budget_denied", c.budget_denied),
            ("false_submits", c.false_submits),
        ] {
            dict.set_item(name, value)?;
        }
        dict.set_item("false_revokes", self.foresight.then_some(c.false_revokes))?;
        Ok(dict)
    }

    /// Results of the sampled probes ([`linnet_array::Probing`]): draws, probes, and estimates with 95 % intervals as
    /// (value, low, high): false shares of the draws and of all reads, cost of a probe in us; and the true value by
    /// peeks.
    fn probing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dict, c) = (PyDict::new(py), &self.counters);
        let three = |e: Estimate| (e.value, e.low, e.high);
        dict.set_item("reads", c.reads)?;
        dict.set_item("tosses", c.probing.draws)?;
        dict.set_item("probes", c.probing.probes)?;
        dict.set_item("answered", c.probing.answered)?;
        dict.set_item("fast", c.probing.fast)?;
        dict.set_item("false_of_tosses", three(c.probing.false_share()))?;
        dict.set_item("false_of_tosses_truth", self.foresight.then(|| c.probing.truth()))?;
        dict.set_item("false_of_reads", three(c.probing.false_share_of(c.reads)))?;
        let drawn = c.probing.draws as f64 / c.reads.max(1) as f64;
        dict.set_item("false_of_reads_truth", self.foresight.then(|| drawn * c.probing.truth()))?;
        let us = |e: Estimate| (e.value / 1e3, e.low / 1e3, e.high / 1e3);
        dict.set_item("cost_us", c.probing.cost_ns().map(us))?;
        dict.set_item("probes_of_reads", c.probe_share())?;
        Ok(dict)
    }

    /// Statistics of each device: write amplification, utilisation, and the causes of its slow reads.
    fn device_stats<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.stats.iter().map(|one| one.dict(py)).collect()
    }

    /// The I/Os of each device as it saw them, with its latencies; empty unless the run was logged.
    fn logs(&self) -> Vec<PyTrace> {
        self.log.iter().zip(&self.names).map(|(log, name)| PyTrace::served(name.clone(), log.clone())).collect()
    }
}

/// Names of the SSD presets.
#[pyfunction]
pub fn presets() -> Vec<&'static str> {
    PRESETS.to_vec()
}

/// Names of the policies that the kernel's target knows.
#[pyfunction]
pub fn kernel_policies() -> Vec<&'static str> {
    linnet_core::policy_names().to_vec()
}

/// Names of the presets of the queued model.
#[pyfunction]
pub fn queued_presets() -> Vec<&'static str> {
    QUEUED_PRESETS.to_vec()
}

/// Returns the engine of a preset of either model or of a parameter file (.toml). Raises DeviceError otherwise.
#[pyfunction]
pub fn engine_of(preset: &str) -> PyResult<&'static str> {
    match DeviceParams::find(preset).map_err(errors::device)? {
        DeviceParams::Timelines(_) => Ok("timelines"),
        DeviceParams::Queued(_) => Ok("queued"),
    }
}

/// Returns the drive whose measurements a preset of either model or a parameter file (.toml) was fitted to; None for a
/// guess. Raises DeviceError for what is neither.
#[pyfunction]
pub fn fitted_to(preset: &str) -> PyResult<Option<String>> {
    DeviceParams::fitted_to(preset).map_err(errors::device)
}

/// Names of the policies.
#[pyfunction]
pub fn policies() -> Vec<&'static str> {
    linnet_array::POLICIES.to_vec()
}

/// Names of the policies that ask a model of each device.
#[pyfunction]
pub fn learned_policies() -> Vec<&'static str> {
    linnet_array::POLICIES.iter().copied().filter(|name| linnet_array::asks_model(name)).collect()
}

/// Names of the policies that other systems ship.
#[pyfunction]
pub fn deployed_policies() -> Vec<&'static str> {
    linnet_array::POLICIES.iter().copied().filter(|name| linnet_array::is_deployed(name)).collect()
}

/// Raises PolicyError for an unknown policy, with the known names and the closest one.
#[pyfunction]
pub fn check_policy(name: &str) -> PyResult<()> {
    let config = Config { replicas: 1, ..Config::default() };
    linnet_array::policy(name, &[DeviceModel::default()], &config).map(drop).map_err(errors::policy)
}
