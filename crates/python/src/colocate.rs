// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bindings of co-location runs: tenants together on a modelled drive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use linnet_sim::Chance;
use linnet_ssd::{DeviceParams, Mechanism, Settled, Ssd};
use linnet_tenant::{Load, Offer, Outcome, Recorded, Seen, TENANTS_MAX, Tenant, Warm, colocate, part_bytes, settle};
use linnet_types::{IoRecord, Nanos};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

use crate::errors;
use crate::progress::Progress;
use crate::trace::PyTrace;

fn ns(seconds: f64) -> PyResult<Nanos> {
    if !(0.0..=86_400.0).contains(&seconds) {
        return Err(PyValueError::new_err(format!("{seconds} seconds; give 0 to 86,400")));
    }
    Ok((seconds * 1e9) as Nanos)
}

/// What a tenant offers to a drive: a synthetic load, or a recorded one.
#[pyclass(name = "TenantLoad", module = "linnet", frozen)]
pub struct PyTenantLoad(pub(crate) Arc<dyn Offer + Send + Sync>);

#[pymethods]
impl PyTenantLoad {
    /// `rate` I/Os per second, a share of reads, sizes that are equally likely, shares of random and of unaligned
    /// offsets, and a maximum of I/Os outstanding. With `period_s` the load is active only for the share `active` of
    /// it.
    #[new]
    #[pyo3(signature = (rate, sizes, reads = 1.0, random = 1.0, unaligned = 0.0, depth = 32, period_s = 0.0, active = 1.0, poisson = false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        rate: f64,
        sizes: Vec<u32>,
        reads: f64,
        random: f64,
        unaligned: f64,
        depth: usize,
        period_s: f64,
        active: f64,
        poisson: bool,
    ) -> PyResult<Self> {
        let shares = [("reads", reads), ("random", random), ("unaligned", unaligned), ("active", active)];
        if let Some((name, share)) = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(PyValueError::new_err(format!("{name} is {share}; give 0 to 1")));
        }
        if !(0.001..=1e8).contains(&rate) || active < 0.01 {
            return Err(PyValueError::new_err(format!(
                "rate {rate}, active {active}: give 0.001 to 1e8, and 0.01 to 1"
            )));
        }
        if sizes.is_empty() || sizes.contains(&0) || sizes.iter().any(|&size| size > 1 << 26) {
            return Err(PyValueError::new_err("sizes: give at least one, of 1 byte to 64 MiB"));
        }
        if depth == 0 {
            return Err(PyValueError::new_err("depth is 0; give at least 1"));
        }
        let period_ns = ns(period_s)?;
        let load = Load { rate, reads, sizes, random, unaligned, depth, period_ns, active, poisson };
        Ok(PyTenantLoad(Arc::new(load)))
    }

    /// A load drawn by a seed, with this share of a bandwidth.
    #[staticmethod]
    fn draw(seed: u64, share: f64, peak_bytes_per_s: f64) -> PyResult<Self> {
        let share = checked_share(share, peak_bytes_per_s)?;
        Ok(PyTenantLoad(Arc::new(Load::draw(&mut Chance::new(seed), share, peak_bytes_per_s))))
    }

    /// The I/Os of a sample of a trace, again and again, with this share of a bandwidth and a maximum outstanding.
    #[staticmethod]
    fn recorded(sample: &PyTrace, share: f64, peak_bytes_per_s: f64, depth: usize) -> PyResult<Self> {
        let bandwidth = checked_share(share, peak_bytes_per_s)? * peak_bytes_per_s;
        match Recorded::new(sample.name(), sample.records.clone(), bandwidth, depth.max(1)) {
            Some(load) => Ok(PyTenantLoad(Arc::new(load))),
            None => Err(errors::TenantError::new_err(format!(
                "{}: a sample has at least two I/Os, at different times",
                sample.name()
            ))),
        }
    }

    /// I/Os per second, on average.
    #[getter]
    fn rate(&self) -> f64 {
        self.0.rate()
    }

    /// Maximum of I/Os outstanding.
    #[getter]
    fn depth(&self) -> usize {
        self.0.depth()
    }

    /// Whether any I/O is a write.
    #[getter]
    fn writes(&self) -> bool {
        self.0.writes()
    }

    /// The I/Os that arrive within these seconds, on a space of so many bytes.
    fn trace(&self, py: Python<'_>, seconds: f64, space_bytes: u64, seed: u64) -> PyResult<PyTrace> {
        let end_ns = ns(seconds)?;
        check_ios(self.0.rate() * seconds)?;
        if u64::from(self.0.size_most()) > space_bytes || space_bytes < 4096 {
            return Err(PyValueError::new_err(format!("the space of {space_bytes} bytes is too small")));
        }
        Ok(PyTrace::made("load".into(), py.detach(|| self.0.records(end_ns, space_bytes, seed))))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A modelled drive that tenants share. Each run is on a copy of it.
#[pyclass(name = "SharedDrive", module = "linnet", frozen)]
pub struct PySharedDrive {
    ready: Mutex<Ssd>,
    parameters: String,
}

/// Most I/Os that are made at a time, and held in memory.
pub(crate) const IOS_MAX: u32 = 50_000_000;

/// Refuses more I/Os than are made at a time.
pub(crate) fn check_ios(ios: f64) -> PyResult<()> {
    if ios > f64::from(IOS_MAX) {
        return Err(PyValueError::new_err(format!("{ios:.0} I/Os; give fewer seconds")));
    }
    Ok(())
}

fn checked_share(share: f64, peak_bytes_per_s: f64) -> PyResult<f64> {
    if !(share > 0.0 && share <= 10.0 && (1e3..=1e12).contains(&peak_bytes_per_s)) {
        return Err(PyValueError::new_err("share is above 0, and the bandwidth in bytes per second"));
    }
    Ok(share)
}

/// Metrics of an outcome: those of reads, then of writes, then the mean depth.
fn numbers(outcome: &Outcome) -> Vec<f64> {
    let of = |seen: &Seen| {
        [seen.bandwidth_mean, seen.latency_mean_us, seen.latency_p90_us, seen.latency_p95_us, seen.latency_p99_us]
    };
    outcome.ops.iter().flat_map(of).chain([outcome.depth]).collect()
}

/// The numbers of each tenant; NaN for one that was idle.
pub(crate) fn rows(outcomes: &[Outcome]) -> Vec<Vec<f64>> {
    outcomes.iter().map(|one| if one.is_idle() { vec![f64::NAN; 11] } else { numbers(one) }).collect()
}

#[pymethods]
impl PySharedDrive {
    /// `name` is nvme or sata (Table 1 of the gray-box paper), a preset of the SSD model, or a parameter file. The
    /// drive is preconditioned: in the state after long use. With `filled` it is new instead, and only the parts of the
    /// first so many tenants hold data, written once in order.
    #[new]
    #[pyo3(signature = (name, seed = 0, filled = None))]
    fn new(py: Python<'_>, name: &str, seed: u64, filled: Option<usize>) -> PyResult<Self> {
        let params = match linnet_tenant::drive(name) {
            Some(params) => params.map_err(errors::device)?,
            None => match DeviceParams::find(name).map_err(errors::device)? {
                DeviceParams::Timelines(params) => params,
                DeviceParams::Queued(_) => {
                    return Err(errors::DeviceError::new_err(format!("{name}: give a drive of the timeline engine")));
                }
            },
        };
        let mut drive = Ssd::new(&params, seed).map_err(errors::device)?;
        py.detach(|| match filled {
            None => {
                drive.precondition();
            }
            Some(tenants) => drive.write_once(part_bytes(&drive) * tenants.min(TENANTS_MAX) as u64),
        });
        Ok(PySharedDrive { parameters: DeviceParams::Timelines(params).to_toml(), ready: Mutex::new(drive) })
    }

    /// The parameters in the form of a TOML file.
    #[getter]
    fn parameters(&self) -> &str {
        &self.parameters
    }

    /// Bytes of a tenant's part of the drive.
    #[getter]
    fn space_bytes(&self) -> u64 {
        let drive = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        part_bytes(&drive)
    }

    /// Runs tenants, each a trace and its maximum of I/Os outstanding, together; what completes before `warm_s` is not
    /// measured. For each: bandwidth (bytes/s), latency (us) mean, p90, p95, p99 of reads, the same of writes, and the
    /// mean depth. Latencies of an operation of which nothing completed are NaN. A tenant without I/Os outstanding at
    /// any measured time raises TenantError.
    fn run(
        &self,
        py: Python<'_>,
        tenants: Vec<(PyRef<'_, PyTrace>, usize)>,
        warm_s: f64,
        end_s: f64,
    ) -> PyResult<Vec<Vec<f64>>> {
        Ok(self.outcomes(py, tenants, warm_s, end_s)?.iter().map(numbers).collect())
    }

    /// Runs loads, each with a seed of its own, together, and measures `seconds`. As `run`, but a tenant that is idle
    /// while it is measured has NaN. Without `warm_s` the drive is brought to a steady state first: the loads overwrite
    /// their parts without time passing until write amplification is steady, and run until the reserve of free pages
    /// is. Returns the numbers of each tenant, and how the drive was warmed up: seconds, whether both were steady, bytes
    /// that were overwritten, the seconds in which the loads offer so much, and the write amplification at its end.
    #[pyo3(signature = (loads, seconds, warm_s = None))]
    fn run_loads(
        &self,
        py: Python<'_>,
        loads: Vec<(PyRef<'_, PyTenantLoad>, u64)>,
        seconds: f64,
        warm_s: Option<f64>,
    ) -> PyResult<(Vec<Vec<f64>>, Named)> {
        let (warm_ns, end_ns) = measured(loads.len(), warm_s.unwrap_or(0.0), warm_s.unwrap_or(0.0) + seconds)?;
        let loads: Vec<_> = loads.iter().map(|(load, seed)| (load.0.clone(), *seed)).collect();
        let mut progress = Progress::new(None);
        let (found, settled, offered_ns) = py.detach(|| {
            let mut drive = self.copy();
            let space = part_bytes(&drive);
            let (mut warm, mut settled, mut offered_ns) = (Warm::For(warm_ns), Settled::default(), 0);
            if warm_s.is_none() {
                // Other I/Os than those of the run.
                let others: Vec<_> = loads.iter().map(|(load, seed)| (load.as_ref(), !seed)).collect();
                (settled, offered_ns) = settle(&mut drive, &others);
                warm = Warm::Steady;
            }
            let tenants = loads.iter().map(|(load, seed)| Tenant { ios: load.ios(space, *seed), depth: load.depth() });
            let found = colocate(&mut drive, tenants.collect(), warm, end_ns - warm_ns, || progress.tell(()));
            (found, settled, offered_ns)
        });
        let found = found.ok_or_else(|| stopped(progress))?;
        let steady = found.steady && (settled.steady || settled.pages == 0);
        let warmed = [
            ("seconds", found.warm_ns as f64 / 1e9),
            ("steady", f64::from(u8::from(steady))),
            ("overwritten_bytes", settled.pages as f64 * 4096.0),
            ("offered_seconds", offered_ns as f64 / 1e9),
            ("amplification", settled.amplification),
        ];
        Ok((rows(&found.outcomes), warmed.into()))
    }

    /// `run`, and for each tenant what its mean read and its mean write waited for: microseconds by mechanism, those
    /// above zero.
    #[allow(clippy::type_complexity)]
    fn run_explained(
        &self,
        py: Python<'_>,
        tenants: Vec<(PyRef<'_, PyTrace>, usize)>,
        warm_s: f64,
        end_s: f64,
    ) -> PyResult<Vec<(Vec<f64>, Named, Named)>> {
        let found = self.outcomes(py, tenants, warm_s, end_s)?;
        Ok(found.iter().map(|one| (numbers(one), waits(&one.ops[0]), waits(&one.ops[1]))).collect())
    }
}

/// Figures by their names.
pub(crate) type Named = BTreeMap<&'static str, f64>;

fn waits(seen: &Seen) -> Named {
    let named = Mechanism::ALL.iter().zip(seen.wait_us_mean).map(|(mechanism, us)| (mechanism.name(), us));
    named.filter(|(_, us)| *us > 0.0).collect()
}

/// The error for a tenant that did nothing while it was measured.
fn unmeasured(tenant: usize, records: &[IoRecord], warm_s: f64, end_s: f64) -> PyErr {
    let seconds = |ns: Nanos| ns as f64 / 1e9;
    let when = match (records.first(), records.last()) {
        (Some(first), Some(last)) => format!(
            "its {} I/Os arrive from {:.6} to {:.6} s; the clock of a trace starts at its first I/O",
            records.len(),
            seconds(first.arrive_ns),
            seconds(last.arrive_ns)
        ),
        _ => "its trace has no I/Os".into(),
    };
    errors::TenantError::new_err(format!(
        "tenant {tenant} has no I/O outstanding from {warm_s} to {end_s} s, which is measured: {when}"
    ))
}

pub(crate) fn stopped(progress: Progress) -> PyErr {
    progress.error(PyKeyboardInterrupt::new_err("the run was stopped"))
}

/// Start and end of what is measured of a run of so many tenants.
pub(crate) fn measured(tenants: usize, warm_s: f64, end_s: f64) -> PyResult<(Nanos, Nanos)> {
    let (warm_ns, end_ns) = (ns(warm_s)?, ns(end_s)?);
    if tenants == 0 || tenants > TENANTS_MAX || warm_ns >= end_ns {
        return Err(PyValueError::new_err(format!(
            "{tenants} tenants from {warm_s} to {end_s} s; give 1 to {TENANTS_MAX}, and an end after the warm-up"
        )));
    }
    Ok((warm_ns, end_ns))
}

impl PySharedDrive {
    fn copy(&self) -> Ssd {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn outcomes(
        &self,
        py: Python<'_>,
        tenants: Vec<(PyRef<'_, PyTrace>, usize)>,
        warm_s: f64,
        end_s: f64,
    ) -> PyResult<Vec<Outcome>> {
        let (warm_ns, end_ns) = measured(tenants.len(), warm_s, end_s)?;
        let held: Vec<_> = tenants.iter().map(|(trace, depth)| (trace.records.clone(), *depth)).collect();
        let mut progress = Progress::new(None);
        let found = py.detach(|| {
            let mut drive = self.copy();
            let tenants = held.iter().map(|(records, depth)| Tenant { ios: records.iter().copied(), depth: *depth });
            colocate(&mut drive, tenants.collect(), Warm::For(warm_ns), end_ns - warm_ns, || progress.tell(()))
        });
        let found = found.ok_or_else(|| stopped(progress))?.outcomes;
        match found.iter().position(Outcome::is_idle) {
            Some(idle) => Err(unmeasured(idle, &held[idle].0, warm_s, end_s)),
            None => Ok(found),
        }
    }
}

/// Names of the drives of Table 1 of the gray-box paper.
#[pyfunction]
pub fn shared_drives() -> Vec<&'static str> {
    linnet_tenant::DRIVES.iter().map(|(name, _)| *name).collect()
}
