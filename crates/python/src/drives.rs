// SPDX-License-Identifier: MIT OR Apache-2.0
//! The drives of an array, of either engine of the SSD model.

use linnet_array::{Error, Observer, Playback, Policy, RunOptions, RunResult};
use linnet_sim::{FaultPlan, Faulty, Modelled};
use linnet_ssd::queued::{QueuedParams, QueuedSsd, QueuedStats};
use linnet_ssd::{DeviceParams, Params, Ssd, Stats};
use linnet_types::Device;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

use crate::setup::Setup;

/// Preconditioned drives of one engine.
#[derive(Clone)]
pub enum Drives {
    /// The timeline engine, which has foresight.
    Timelines(Vec<Ssd>),
    /// The queued engine, which has none.
    Queued(Vec<QueuedSsd>),
}

/// Statistics of a drive.
pub enum DriveStats {
    Timelines(Box<Stats>),
    Queued(Box<QueuedStats>),
}

impl Drives {
    /// Builds and preconditions a drive for each entry, all of one engine; drive i has seed `seed` + i. The last `rebuilt`
    /// were written once, in order; the others were overwritten at random until they were steady.
    pub fn new(params: &[DeviceParams], seed: u64, rebuilt: usize) -> Result<Drives, linnet_ssd::Error> {
        let is_rebuilt = |i: usize| i + rebuilt >= params.len();
        let timelines = |(i, params): (usize, &DeviceParams)| match params {
            DeviceParams::Timelines(params) => {
                let mut drive = Ssd::new(params, seed.wrapping_add(i as u64))?;
                if is_rebuilt(i) {
                    drive.write_once(drive.capacity_bytes());
                } else {
                    drive.precondition();
                }
                Ok(Some(drive))
            }
            DeviceParams::Queued(_) => Ok(None),
        };
        let queued = |(i, params): (usize, &DeviceParams)| match params {
            DeviceParams::Timelines(_) => Ok(None),
            DeviceParams::Queued(params) => {
                let mut drive = QueuedSsd::new(params)?;
                if is_rebuilt(i) {
                    drive.write_once();
                } else {
                    drive.precondition(seed.wrapping_add(i as u64));
                }
                Ok(Some(drive))
            }
        };
        linnet_learn::on_pool(|| {
            let drives = params.par_iter().enumerate();
            if matches!(params.first(), Some(DeviceParams::Queued(_))) {
                let all = drives.map(queued).collect::<Result<Option<_>, _>>();
                return all.map(|all| Drives::Queued(all.unwrap_or_default()));
            }
            let all = drives.map(timelines).collect::<Result<Option<_>, _>>();
            all.map(|all| Drives::Timelines(all.unwrap_or_default()))
        })
    }

    /// Runs an array on these drives, and returns the statistics of each. `plans` has the faults of each drive, or is empty.
    pub fn run(
        self,
        setup: &Setup,
        policy: Box<dyn Policy>,
        playback: Playback,
        plans: Vec<FaultPlan>,
        observer: &mut impl Observer,
    ) -> Result<(RunResult, Vec<DriveStats>), Error> {
        let options = RunOptions { array: setup.config, playback };
        match self {
            Drives::Timelines(drives) => {
                let drives: Vec<_> = drives.into_iter().map(Modelled::new).collect();
                let stats = |drive: &Modelled<Ssd>| DriveStats::Timelines(Box::new(drive.model().stats()));
                run_with_faults(drives, plans, setup, policy, &options, observer, stats)
            }
            Drives::Queued(drives) => {
                let stats = |drive: &QueuedSsd| DriveStats::Queued(Box::new(drive.stats()));
                run_with_faults(drives, plans, setup, policy, &options, observer, stats)
            }
        }
    }
}

fn run_with_faults<D: Device>(
    mut drives: Vec<D>,
    plans: Vec<FaultPlan>,
    setup: &Setup,
    policy: Box<dyn Policy>,
    options: &RunOptions,
    observer: &mut impl Observer,
    stats: impl Fn(&D) -> DriveStats,
) -> Result<(RunResult, Vec<DriveStats>), Error> {
    let (streams, thresholds) = (setup.streams(), setup.thresholds());
    if plans.is_empty() {
        let result = linnet_array::run(&mut drives, &streams, &thresholds, policy, options, observer)?;
        return Ok((result, drives.iter().map(stats).collect()));
    }
    let mut drives: Vec<_> = drives.into_iter().zip(plans).map(|(drive, plan)| Faulty::new(drive, plan, 0)).collect();
    let result = linnet_array::run(&mut drives, &streams, &thresholds, policy, options, observer)?;
    Ok((result, drives.iter().map(|drive| stats(drive.device())).collect()))
}

impl DriveStats {
    /// The figures by name.
    pub fn dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self {
            DriveStats::Timelines(stats) => timelines_stats(py, stats),
            DriveStats::Queued(stats) => queued_stats(py, stats),
        }
    }
}

fn timelines_stats<'py>(py: Python<'py>, s: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("reads", s.reads)?;
    dict.set_item("writes", s.writes)?;
    dict.set_item("waf", s.waf())?;
    dict.set_item("utilisation", s.utilisation())?;
    dict.set_item("slow_reads", s.slow_reads.total())?;
    dict.set_item("slow_device_wide", s.slow_reads.device_wide)?;
    dict.set_item("slow_single_die", s.slow_reads.single_die)?;
    dict.set_item("slow_queueing", s.slow_reads.queueing)?;
    dict.set_item("slow_own_parts", s.slow_reads.own_parts)?;
    dict.set_item("slow_retry", s.slow_reads.retry)?;
    dict.set_item("device_wide_share", s.slow_reads.device_wide_share())?;
    Ok(dict)
}

fn queued_stats<'py>(py: Python<'py>, s: &QueuedStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("completed", s.completed)?;
    dict.set_item("waf", s.waf())?;
    for (name, value) in [
        ("host_programs", s.host_programs),
        ("gc_runs", s.gc_runs),
        ("gc_reads", s.gc_reads),
        ("gc_programs", s.gc_programs),
        ("erases", s.erases),
        ("pages_read", s.pages_read),
        ("rmw_reads", s.rmw_reads),
        ("buffer_hits", s.buffer_hits),
        ("reads_behind_gc", s.reads_behind_gc),
    ] {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// Capacity and the parameters that determine the read tail. Only the queued engine is named, because the other one is
/// the default.
pub fn parameters<'py>(py: Python<'py>, params: &DeviceParams, capacity_bytes: u64) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("capacity_bytes", capacity_bytes)?;
    match params {
        DeviceParams::Timelines(params) => timelines(&dict, params)?,
        DeviceParams::Queued(params) => queued(&dict, params)?,
    }
    Ok(dict)
}

fn timelines(dict: &Bound<'_, PyDict>, p: &Params) -> PyResult<()> {
    dict.set_item("channels", p.channels)?;
    dict.set_item("dies_per_channel", p.dies_per_channel)?;
    dict.set_item("device_wide_share", p.device_wide_share)?;
    dict.set_item("over_provisioning", p.over_provisioning)?;
    for (name, value) in [
        ("read_ns", p.read_ns),
        ("program_ns", p.program_ns),
        ("erase_ns", p.erase_ns),
        ("flush_timer_ns", p.flush_timer_ns),
        ("buffer_bytes", p.buffer_bytes),
    ] {
        dict.set_item(name, value)?;
    }
    dict.set_item("read_priority", format!("{:?}", p.read_priority))
}

fn queued(dict: &Bound<'_, PyDict>, p: &QueuedParams) -> PyResult<()> {
    dict.set_item("engine", "queued")?;
    for (name, value) in [
        ("channels", p.channels),
        ("chips_per_channel", p.chips_per_channel),
        ("dies_per_chip", p.dies_per_chip),
        ("planes_per_die", p.planes_per_die),
        ("page_bytes", p.page_bytes),
    ] {
        dict.set_item(name, value)?;
    }
    dict.set_item("spare_share_of_raw", p.spare_share_of_raw)?;
    for (name, value) in [
        ("read_ns", p.read_ns),
        ("program_ns", p.program_ns),
        ("erase_ns", p.erase_ns),
        ("write_buffer_bytes", p.write_buffer_bytes),
    ] {
        dict.set_item(name, value)?;
    }
    dict.set_item("gc_preemptible", p.gc_preemptible)
}
