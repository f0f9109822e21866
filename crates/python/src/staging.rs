// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of runs on a real drive that is set aside.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use linnet_staging::{Drive, Error, Ran, colocate};
use linnet_tenant::Tenant;
use linnet_types::{IoRecord, Nanos};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::colocate::{IOS_MAX, Named, PyTenantLoad, check_ios, measured, rows, stopped};
use crate::errors;
use crate::progress::Progress;
use crate::trace::PyTrace;

/// A real drive that tenants share: a block device of which nothing is in use, or a file. One run at a time. Its methods
/// are those of `SharedDrive`, which models one.
#[pyclass(name = "StagingDrive", module = "linnet", frozen)]
pub struct PyStagingDrive {
    drive: Drive,
    /// Held by what runs, never by one who holds Python's lock and waits.
    turn: Mutex<()>,
    /// Whether the run in progress shall end.
    stop: AtomicBool,
    /// What the machine did to the worst run: see `machine`.
    worst: Mutex<(f64, f64)>,
}

#[pymethods]
impl PyStagingDrive {
    /// Seconds that a drive runs before it is measured, if nothing else is asked for.
    #[classattr]
    const WARM_S: f64 = 1.0;

    /// Most I/Os of a run of loads.
    #[classattr]
    const IOS_MAX: u32 = IOS_MAX;

    /// `overwrite` lets tenants write, and what is on the drive is lost.
    #[new]
    #[pyo3(signature = (path, overwrite = false))]
    fn new(path: PathBuf, overwrite: bool) -> PyResult<Self> {
        let drive = Drive::open(&path, overwrite).map_err(errors::staging)?;
        Ok(PyStagingDrive { drive, turn: Mutex::new(()), stop: AtomicBool::new(false), worst: Mutex::default() })
    }

    /// Whether what is on the drive may be overwritten.
    #[getter]
    fn writable(&self) -> bool {
        self.drive.writable()
    }

    /// Bytes of a tenant's part of the drive.
    #[getter]
    fn space_bytes(&self) -> u64 {
        self.drive.part_bytes()
    }

    /// What the machine added to the worst runs so far: microseconds from when an I/O could be submitted to when it was
    /// (99th percentile of a run), and for which share of the time with I/Os outstanding a tenant's thread had no CPU.
    #[getter]
    fn machine(&self) -> (f64, f64) {
        *self.worst.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run in progress, which another thread waits for and which raises KeyboardInterrupt there, and all later
    /// ones until `resume`.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Allows runs again.
    fn resume(&self) {
        self.stop.store(false, Ordering::Relaxed);
    }

    /// Writes all parts twice, in order and scattered. `progress` hears of bytes done and bytes in all.
    #[pyo3(signature = (progress = None))]
    fn fill(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let mut progress = Progress::new(progress);
        let filled = py.detach(|| {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            self.drive.fill(|done, all| progress.tell((done, all)))
        });
        match filled {
            Ok(true) => Ok(()),
            Ok(false) => Err(progress.error(PyKeyboardInterrupt::new_err("filling was stopped"))),
            Err(error) => Err(errors::staging(error)),
        }
    }

    /// See `SharedDrive.run`; but a tenant without I/Os outstanding at any measured time has NaN: what arrives just before
    /// the end may not be submitted any more.
    fn run(
        &self,
        py: Python<'_>,
        tenants: Vec<(PyRef<'_, PyTrace>, usize)>,
        warm_s: f64,
        end_s: f64,
    ) -> PyResult<Vec<Vec<f64>>> {
        let (warm_ns, end_ns) = measured(tenants.len(), warm_s, end_s)?;
        let held: Vec<_> = tenants.iter().map(|(trace, depth)| (trace.records.clone(), *depth)).collect();
        let offered: Vec<_> = held.iter().map(|(ios, depth)| Tenant { ios: &ios[..], depth: *depth }).collect();
        Ok(rows(&self.together(py, &offered, warm_ns, end_ns - warm_ns)?.outcomes))
    }

    /// See `SharedDrive.run_loads`. Whether the drive is in a steady state cannot be seen from outside: without `warm_s`
    /// the warm-up is a second, and `steady` is always 0. Says what `machine` says, of this run.
    #[pyo3(signature = (loads, seconds, warm_s = None))]
    fn run_loads(
        &self,
        py: Python<'_>,
        loads: Vec<(PyRef<'_, PyTenantLoad>, u64)>,
        seconds: f64,
        warm_s: Option<f64>,
    ) -> PyResult<(Vec<Vec<f64>>, Named)> {
        let warm_s = warm_s.unwrap_or(Self::WARM_S);
        let (warm_ns, end_ns) = measured(loads.len(), warm_s, warm_s + seconds)?;
        let ios: f64 = loads.iter().map(|(load, _)| load.0.rate() * (warm_s + seconds)).sum();
        check_ios(ios)?;
        let loads: Vec<_> = loads.iter().map(|(load, seed)| (load.0.clone(), *seed)).collect();
        let space = self.drive.part_bytes();
        let held: Vec<_> = py.detach(|| loads.iter().map(|(load, seed)| load.records(end_ns, space, *seed)).collect());
        let offered: Vec<_> =
            held.iter().zip(&loads).map(|(ios, (load, _))| Tenant { ios: &ios[..], depth: load.depth() }).collect();
        let ran = self.together(py, &offered, warm_ns, end_ns - warm_ns)?;
        let (late, waited) = (ran.late_us_p99, ran.waited_share);
        let warmed = [("seconds", warm_s), ("steady", 0.0), ("late_us_p99", late), ("waited_share", waited)];
        Ok((rows(&ran.outcomes), warmed.into()))
    }
}

impl PyStagingDrive {
    fn together(
        &self,
        py: Python<'_>,
        tenants: &[Tenant<&[IoRecord]>],
        warm_ns: Nanos,
        measured_ns: Nanos,
    ) -> PyResult<Ran> {
        let mut progress = Progress::new(None);
        let ran: Result<Option<Ran>, Error> = py.detach(|| {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let goes_on = || !self.stop.load(Ordering::Relaxed) && progress.tell(());
            let ran = colocate(&self.drive, tenants, warm_ns, measured_ns, goes_on)?;
            if let Some(ran) = &ran {
                let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
                *worst = (worst.0.max(ran.late_us_p99), worst.1.max(ran.waited_share));
            }
            Ok(ran)
        });
        ran.map_err(errors::staging)?.ok_or_else(|| stopped(progress))
    }
}
