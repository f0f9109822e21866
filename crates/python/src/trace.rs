// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linnet.Trace`: records held by the engine, and operations on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use linnet_files::Links;
use linnet_ssd::{Params, Ssd};
use linnet_trace::{AnyWriter, Clock, Error, FORMATS, LatencyTarget, MergedTenants, Metadata, Options, TraceStats};
use linnet_types::{IoRecord, LatencyModel, Nanos, Op, Outcome};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::items;
use crate::numbers::{integer_column, vector};
use crate::progress::{Progress, interruptible};
use crate::trace_files::{stopped, teller, tenants};
use crate::whole;

/// Range of factors that re-rating to a target latency distribution searches.
const FACTORS: (f64, f64) = (0.01, 1000.0);
/// Memory per record while it is read and run: the record, its growth, a log of its device.
const BYTES_A_RECORD: u64 = 160;
/// Memory per record while a factor is searched: the best re-rated copy, the next one, and latencies with their growth.
const BYTES_A_RERATED: u64 = 2 * size_of::<IoRecord>() as u64 + 24;
/// Records from one question whether to go on to the next.
const ASKED_EVERY: usize = 1 << 16;
/// Slices of a trace.
const PIECES_MAX: usize = 1_000_000;
/// Stands for "no latency" in columns.
const NONE: u64 = u64::MAX;

/// The I/Os of one device or volume, sorted by arrival; the first arrives at 0. Immutable.
#[pyclass(name = "Trace", module = "linnet", frozen)]
pub struct PyTrace {
    pub records: Arc<Vec<IoRecord>>,
    #[pyo3(get)]
    pub name: String,
    #[pyo3(get)]
    format: String,
    #[pyo3(get)]
    skipped: BTreeMap<String, u64>,
    #[pyo3(get)]
    warnings: Vec<String>,
    /// Of how many blocks of records one is held; 1 for a whole trace.
    #[pyo3(get)]
    every: u64,
    /// When its time 0 was on a clock that other traces share, ns; `None` where it has none.
    #[pyo3(get)]
    origin_ns: Option<Nanos>,
    /// Its records were made, not recorded: traces that were made together begin together.
    #[pyo3(get)]
    made: bool,
    /// I/Os that arrive at one time are in the order in which their device got them, or in one that was drawn. A
    /// recorder may list them as they completed.
    order_known: bool,
}

impl PyTrace {
    /// A trace that was generated, not read from a file.
    pub fn made(name: String, records: Vec<IoRecord>) -> Self {
        let (skipped, warnings) = (BTreeMap::new(), Vec::new());
        let (format, order_known) = ("linnet".into(), false);
        let (records, origin_ns) = (Arc::new(records), None);
        PyTrace { records, name, format, skipped, warnings, every: 1, origin_ns, made: true, order_known }
    }

    /// The I/Os of a modelled device, in the order in which it got them.
    pub fn served(name: String, records: Vec<IoRecord>) -> Self {
        PyTrace { order_known: true, ..Self::made(name, records) }
    }

    fn write_whole(&self, path: &Path, links: Links, go_on: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        let mut writer = AnyWriter::create(path, links)?;
        for some in self.records.chunks(ASKED_EVERY) {
            if !go_on() {
                return Err(Error::Stopped { path: path.to_path_buf() });
            }
            some.iter().try_for_each(|record| writer.push(record))?;
        }
        let source_format = if self.made { "linnet".into() } else { self.format.clone() };
        writer.finish(&Metadata { source_format, skipped: self.skipped.clone(), origin_ns: self.origin_ns })
    }

    /// The file or workload it came from.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn derived(&self, name: String, records: Vec<IoRecord>) -> Self {
        let (format, skipped) = (self.format.clone(), self.skipped.clone());
        let PyTrace { every, origin_ns, made, order_known, .. } = *self;
        PyTrace { format, skipped, every, origin_ns, made, order_known, ..Self::made(name, records) }
    }
}

#[pymethods]
impl PyTrace {
    /// Reads a file of any known format, plain or compressed. `progress(bytes, total bytes)` may return False to stop.
    /// `tenant_from` "device" makes each device number a tenant. Of a trace of more than `most` records, one of every
    /// `every` blocks of consecutive records is kept, at its own time. With `device` only that device's records are
    /// read. Raises TraceError with file, record and field.
    #[staticmethod]
    #[pyo3(signature = (path, format = None, lenient = false, progress = None, tenant_from = None, most = None,
        device = None))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        format: Option<String>,
        lenient: bool,
        progress: Option<Py<PyAny>>,
        tenant_from: Option<&str>,
        #[pyo3(from_py_with = whole::most)] most: Option<u64>,
        #[pyo3(from_py_with = whole::device_or_any)] device: Option<u32>,
    ) -> PyResult<Self> {
        let tenant_from = tenants(tenant_from)?;
        let room = linnet_trace::free().map(|room| (room.bytes / BYTES_A_RECORD, room.limit));
        let progress = Arc::new(Mutex::new(Progress::new(progress)));
        // A trace that is far out of order is read twice, and each reading asks.
        let mut options = || {
            let (format, progress) = (format.clone(), Some(teller(progress.clone())));
            Options { format, lenient, tenant_from, device, records_max: room, progress }
        };
        let read = py.detach(|| match most {
            None => linnet_trace::read_all(&path, options()).map(|trace| (trace, 1, None)),
            Some(most) => linnet_trace::read_sample(&path, &mut options, most)
                .map(|sampled| (sampled.trace, sampled.every, Some(sampled.total))),
        });
        let (trace, every, total) = read.map_err(|error| stopped(error, progress))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let mut warnings = trace.warnings;
        if let Some(total) = total.filter(|_| every > 1) {
            let (kept, block) = (trace.records.len(), linnet_trace::BLOCK_RECORDS);
            warnings.push(format!(
                "{kept} of {total} records are used: one of every {every} blocks of {block} consecutive records"
            ));
        }
        let (origin_ns, made) = ((trace.clock == Clock::Shared).then_some(trace.origin_ns), trace.clock == Clock::Made);
        let records = Arc::new(trace.records);
        let (format, skipped) = (trace.format.into(), trace.skipped);
        Ok(PyTrace { records, name, format, skipped, warnings, every, origin_ns, made, order_known: false })
    }

    /// A trace from columns of equal length, of integers that fit the column's type, which are sorted by arrival; a
    /// latency of 2^64-1 means none. Without tenants all are 0.
    #[staticmethod]
    #[pyo3(signature = (name, arrive_ns, op, offset_bytes, size_bytes, device, latency_ns, tenant = None))]
    #[allow(clippy::too_many_arguments)]
    fn from_columns(
        name: String,
        arrive_ns: &Bound<'_, PyAny>,
        op: &Bound<'_, PyAny>,
        offset_bytes: &Bound<'_, PyAny>,
        size_bytes: &Bound<'_, PyAny>,
        device: &Bound<'_, PyAny>,
        latency_ns: &Bound<'_, PyAny>,
        tenant: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let of = |column: &str| format!("{name}: column {column}");
        let arrive_ns: PyReadonlyArray1<'_, u64> = integer_column(arrive_ns, "uint64", &of("arrive_ns"))?;
        let op: PyReadonlyArray1<'_, u8> = integer_column(op, "uint8", &of("op"))?;
        let offset_bytes: PyReadonlyArray1<'_, u64> = integer_column(offset_bytes, "uint64", &of("offset_bytes"))?;
        let size_bytes: PyReadonlyArray1<'_, u32> = integer_column(size_bytes, "uint32", &of("size_bytes"))?;
        let device: PyReadonlyArray1<'_, u32> = integer_column(device, "uint32", &of("device"))?;
        let latency_ns: PyReadonlyArray1<'_, u64> = integer_column(latency_ns, "uint64", &of("latency_ns"))?;
        let tenant = tenant.map(|tenant| integer_column(tenant, "uint32", &of("tenant"))).transpose()?;
        let tenant: Option<PyReadonlyArray1<'_, u32>> = tenant;
        let (arrive, op, offset) = (arrive_ns.as_array(), op.as_array(), offset_bytes.as_array());
        let (size, device, latency) = (size_bytes.as_array(), device.as_array(), latency_ns.as_array());
        let tenant = tenant.as_ref().map(|column| column.as_array());
        let rows = arrive.len();
        let tenants = tenant.map_or(rows, |column| column.len());
        if [op.len(), offset.len(), size.len(), device.len(), latency.len(), tenants].iter().any(|&n| n != rows) {
            return Err(PyValueError::new_err(format!("{name}: columns differ in length")));
        }
        if rows == 0 {
            return Err(errors::TraceError::new_err(format!("{name}: no records")));
        }
        let first_ns = arrive.iter().copied().min().unwrap_or(0);
        let mut records = Vec::with_capacity(rows);
        for i in 0..rows {
            let op = match op[i] {
                0 => Op::Read,
                1 => Op::Write,
                other => {
                    return Err(errors::TraceError::new_err(format!(
                        "{name}: row {i}: op {other}; 0 is a read, 1 a write"
                    )));
                }
            };
            if size[i] == 0 {
                return Err(errors::TraceError::new_err(format!("{name}: row {i}: size_bytes is 0")));
            }
            // The bounds of the readers: what is taken here can be written and read again.
            if arrive[i] - first_ns > linnet_trace::SPAN_MAX_NS {
                return Err(errors::TraceError::new_err(format!(
                    "{name}: row {i}: arrive_ns {} lies more than 400 days after the first",
                    arrive[i]
                )));
            }
            if offset[i] > i64::MAX as u64 - u64::from(size[i]) {
                let offset = offset[i];
                return Err(errors::TraceError::new_err(format!(
                    "{name}: row {i}: offset_bytes {offset} lies beyond 8 EiB"
                )));
            }
            if latency[i] != NONE && latency[i] > linnet_trace::LATENCY_MAX_NS {
                let latency = latency[i];
                return Err(errors::TraceError::new_err(format!(
                    "{name}: row {i}: latency_ns {latency} is beyond 2^63 - 1; 2^64-1 means none"
                )));
            }
            records.push(IoRecord {
                arrive_ns: arrive[i],
                latency_ns: (latency[i] != NONE).then_some(latency[i]),
                offset_bytes: offset[i],
                size_bytes: size[i],
                device: device[i],
                tenant: tenant.map_or(0, |column| column[i]),
                op,
            });
        }
        records.sort_by_key(|r| r.arrive_ns);
        let origin = records[0].arrive_ns;
        records.iter_mut().for_each(|r| r.arrive_ns -= origin);
        Ok(Self::made(name, records))
    }

    /// Merges several traces that all begin at 0, without latencies. Trace i becomes tenant i; with `keep_tenants` each
    /// keeps its own tenants, offset to begin after the highest tenant of the trace before it.
    #[staticmethod]
    #[pyo3(signature = (traces, keep_tenants = false))]
    fn merge(
        py: Python<'_>,
        #[pyo3(from_py_with = items::traces)] traces: Vec<PyRef<'_, PyTrace>>,
        keep_tenants: bool,
    ) -> PyResult<PyTrace> {
        let total = traces.iter().map(|trace| trace.records.len() as u64).sum::<u64>();
        if total == 0 {
            return Err(errors::TraceError::new_err("no records to merge; give at least one trace"));
        }
        if let Some(room) = linnet_trace::free().filter(|room| room.bytes / BYTES_A_RECORD < total) {
            return Err(errors::TraceError::new_err(format!(
                "the {total} records of {} traces do not fit {}; merge shorter parts of them",
                traces.len(),
                room.limit
            )));
        }
        let name = traces.iter().map(|trace| trace.name.as_str()).collect::<Vec<_>>().join("+");
        let mut skipped = BTreeMap::new();
        for (reason, count) in traces.iter().flat_map(|trace| &trace.skipped) {
            let of_reason = skipped.entry(reason.clone()).or_insert(0u64);
            *of_reason = of_reason.saturating_add(*count);
        }
        let records: Vec<Arc<Vec<IoRecord>>> = traces.iter().map(|trace| trace.records.clone()).collect();
        let slices: Vec<&[IoRecord]> = records.iter().map(|records| records.as_slice()).collect();
        let tenants = if keep_tenants { MergedTenants::Kept } else { MergedTenants::OneEach };
        let merged = py.detach(|| linnet_trace::merge(&slices, tenants)).map_err(errors::trace)?;
        Ok(PyTrace { skipped, ..Self::made(name, merged) })
    }

    /// The same trace under another name.
    fn named(&self, name: String) -> Self {
        PyTrace { warnings: self.warnings.clone(), records: self.records.clone(), ..self.derived(name, Vec::new()) }
    }

    /// When the last I/O arrives, nanoseconds after the first one of the trace as it was read; 0 without any.
    #[getter]
    pub fn last_ns(&self) -> Nanos {
        self.records.last().map_or(0, |last| last.arrive_ns)
    }

    fn __len__(&self) -> usize {
        self.records.len()
    }

    fn __repr__(&self) -> String {
        format!("Trace({:?}, {} records, {})", self.name, self.records.len(), self.format)
    }

    /// True if any read has a latency.
    #[getter]
    fn has_latency(&self) -> bool {
        self.records.iter().any(|r| r.op.is_read() && r.latency_ns.is_some())
    }

    /// Numbers of the devices that have an I/O, ascending.
    #[getter]
    fn devices(&self) -> Vec<u32> {
        linnet_trace::devices(&self.records).into_iter().collect()
    }

    /// The same I/Os as those of one device, number 0: for volumes of one drive.
    fn as_one_device(&self) -> PyTrace {
        let records = self.records.iter().map(|r| IoRecord { device: 0, ..*r }).collect();
        PyTrace { warnings: self.warnings.clone(), ..self.derived(self.name.clone(), records) }
    }

    /// The trace with I/Os that arrive at one time in an order drawn by a hash of `seed` and their places. Recordings
    /// that list I/Os as they completed would otherwise tell which of them was slow. A log of a modelled device, and
    /// what was drawn before, stays as it is: features are those that its device's model would have had.
    fn without_ties(&self, py: Python<'_>, #[pyo3(from_py_with = whole::seed)] seed: u64) -> PyTrace {
        let drawn = if self.order_known { None } else { py.detach(|| linnet_learn::without_ties(&self.records, seed)) };
        let records = drawn.map_or_else(|| self.records.clone(), Arc::new);
        let warnings = self.warnings.clone();
        PyTrace { records, warnings, order_known: true, ..self.derived(self.name.clone(), Vec::new()) }
    }

    /// Rates, sizes and latency quantiles, as `linnet trace stat --json` prints them.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = TraceStats { skipped: self.skipped.clone(), ..py.detach(|| TraceStats::of(&self.records)) };
        stats_dict(py, stats)
    }

    /// Columns as arrays: arrive_ns, op, offset_bytes, size_bytes, device, latency_ns (2^64-1 if there is none),
    /// tenant.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let records = &self.records;
        dict.set_item("arrive_ns", vector(py, records.iter().map(|r| r.arrive_ns).collect())?)?;
        dict.set_item("op", vector(py, records.iter().map(|r| r.op as u8).collect())?)?;
        dict.set_item("offset_bytes", vector(py, records.iter().map(|r| r.offset_bytes).collect())?)?;
        dict.set_item("size_bytes", vector(py, records.iter().map(|r| r.size_bytes).collect())?)?;
        dict.set_item("device", vector(py, records.iter().map(|r| r.device).collect())?)?;
        dict.set_item("latency_ns", vector(py, records.iter().map(|r| r.latency_ns.unwrap_or(NONE)).collect())?)?;
        dict.set_item("tenant", vector(py, records.iter().map(|r| r.tenant).collect())?)?;
        Ok(dict)
    }

    /// Latencies of the reads that have one, ns, in the order of arrival.
    fn read_latencies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let latencies = self.records.iter().filter(|r| r.op.is_read()).filter_map(|r| r.latency_ns);
        vector(py, latencies.collect())
    }

    /// Cuts the trace into equal time slices, each beginning at 0.
    fn slices(&self, #[pyo3(from_py_with = whole::pieces)] pieces: usize) -> PyResult<Vec<PyTrace>> {
        if pieces == 0 {
            return Err(PyValueError::new_err("pieces is 0; give at least 1"));
        }
        if pieces > PIECES_MAX {
            return Err(PyValueError::new_err(format!("pieces is {pieces}; the limit is {PIECES_MAX}")));
        }
        let cut = linnet_trace::slice_by_time(&self.records, pieces).into_iter().enumerate();
        let slice = |(i, part)| PyTrace { origin_ns: None, ..self.derived(format!("{}/{i}", self.name), part) };
        Ok(cut.map(slice).collect())
    }

    /// Splits the trace in two at this share of its duration; the second part also begins at 0.
    fn split(&self, share: f64) -> PyResult<(PyTrace, PyTrace)> {
        if !(share > 0.0 && share < 1.0) {
            return Err(PyValueError::new_err(format!("share is {share}; it lies between 0 and 1")));
        }
        let end = self.records.last().map_or(0, |r| r.arrive_ns);
        Ok(self.split_at((end as f64 * share) as Nanos))
    }

    /// Splits the trace in two at this time; the second part also begins at 0.
    fn split_at(&self, #[pyo3(from_py_with = whole::at_ns)] at_ns: u64) -> (PyTrace, PyTrace) {
        let at = self.records.partition_point(|r| r.arrive_ns < at_ns);
        let (first, second) = self.records.split_at(at);
        let rebased = second.iter().map(|r| IoRecord { arrive_ns: r.arrive_ns - at_ns, ..*r }).collect();
        let origin_ns = self.origin_ns.map(|origin_ns| origin_ns.saturating_add(at_ns));
        let second = PyTrace { origin_ns, ..self.derived(self.name.clone(), rebased) };
        (self.derived(self.name.clone(), first.to_vec()), second)
    }

    /// The same I/Os this much later; on a shared clock at their own times, since its time 0 was as much earlier. The
    /// first no longer arrives at 0. A trace that is read begins at its first I/O, so a file keeps the delay only in the
    /// origin of a shared clock (`origin_ns`, in Parquet): without one, delay a trace after it was read.
    fn delayed(&self, #[pyo3(from_py_with = whole::by_ns)] by_ns: u64) -> PyResult<PyTrace> {
        if self.records.last().is_some_and(|last| last.arrive_ns > linnet_trace::SPAN_MAX_NS.saturating_sub(by_ns)) {
            return Err(PyValueError::new_err(format!("{}: would be longer than 400 days", self.name)));
        }
        let records = self.records.iter().map(|r| IoRecord { arrive_ns: r.arrive_ns + by_ns, ..*r }).collect();
        let origin_ns = self.origin_ns.map(|origin_ns| origin_ns.saturating_sub(by_ns));
        Ok(PyTrace { warnings: self.warnings.clone(), origin_ns, ..self.derived(self.name.clone(), records) })
    }

    /// This trace, and from `at_ns` on the other one.
    fn followed_by(&self, other: &PyTrace, #[pyo3(from_py_with = whole::at_ns)] at_ns: u64) -> PyResult<PyTrace> {
        if self.records.last().is_some_and(|last| last.arrive_ns > at_ns) {
            return Err(PyValueError::new_err(format!("{}: has records after {at_ns} ns", self.name)));
        }
        if other.records.last().is_some_and(|last| last.arrive_ns > linnet_trace::SPAN_MAX_NS.saturating_sub(at_ns)) {
            return Err(PyValueError::new_err(format!("{} and {}: longer than 400 days", self.name, other.name)));
        }
        let later = other.records.iter().map(|r| IoRecord { arrive_ns: r.arrive_ns + at_ns, ..*r });
        let joined = self.derived(self.name.clone(), self.records.iter().copied().chain(later).collect());
        Ok(PyTrace { order_known: self.order_known && other.order_known, ..joined })
    }

    /// The trace at `factor` times its rate: times are divided by it. Latencies are dropped unless the factor is 1.
    fn rerate(&self, factor: f64) -> PyResult<PyTrace> {
        let records = linnet_trace::rerate(&self.records, factor).map_err(errors::trace)?;
        let at = |origin_ns| linnet_trace::rerate_origin(origin_ns, factor);
        let origin_ns = self.origin_ns.map(at).transpose().map_err(errors::trace)?;
        Ok(PyTrace { origin_ns, ..self.derived(self.name.clone(), records) })
    }

    /// Re-rates until the read latencies of the baseline on one device of `preset` resemble those of `target` (LinnOS,
    /// section 5.1). Returns the trace, the factor and the remaining distance (mean absolute log ratio).
    fn rerate_like(
        &self,
        py: Python<'_>,
        target: &PyTrace,
        preset: &str,
        #[pyo3(from_py_with = whole::seed)] seed: u64,
    ) -> PyResult<(PyTrace, f64, f64)> {
        let total = self.records.len() as u64;
        if let Some(room) = linnet_trace::free().filter(|room| room.bytes / BYTES_A_RERATED < total) {
            let most = room.bytes / BYTES_A_RERATED;
            return Err(errors::TraceError::new_err(format!(
                "{}: to search a factor, {BYTES_A_RERATED} bytes for each of {total} records are needed, and those of {most} fit {}; \
                 search it on a part of the trace, and use --factor",
                self.name, room.limit
            )));
        }
        let params = Params::preset(preset).map_err(errors::device)?;
        let mut fresh = Ssd::new(&params, seed).map_err(errors::device)?;
        let wanted: Vec<Nanos> =
            target.records.iter().filter(|r| r.op.is_read()).filter_map(|r| r.latency_ns).collect();
        let wanted = LatencyTarget::of(&wanted).ok_or_else(|| {
            errors::TraceError::new_err(format!("{}: carries no read latencies to resemble", target.name))
        })?;
        let progress = Arc::new(Mutex::new(Progress::new(None)));
        let found = py.detach(|| {
            fresh.precondition();
            linnet_trace::rerate_to_target(&self.records, &wanted, FACTORS, &mut |records| {
                alone(fresh.clone(), records, &mut || go_on(&progress))
                    .ok_or_else(|| Error::Stopped { path: self.name.clone().into() })
            })
        });
        let found = found.map_err(|error| stopped(error, progress))?;
        let rated = PyTrace { origin_ns: None, ..self.derived(self.name.clone(), found.records) };
        Ok((rated, found.factor, found.distance))
    }

    /// Writes the trace in the format of the path's extension: .parquet, .csv or .iolog; `-` is CSV to standard output.
    /// The file appears complete or not at all. `follow` False, for Parquet, refuses links and all but regular files.
    #[pyo3(signature = (path, follow = true))]
    fn write(&self, py: Python<'_>, path: PathBuf, follow: bool) -> PyResult<()> {
        let links = if follow { Links::Follow } else { Links::Refuse };
        let progress = Arc::new(Mutex::new(Progress::new(None)));
        let written = py.detach(|| self.write_whole(&path, links, &mut || go_on(&progress)));
        written.map_err(|error| stopped(error, progress))
    }
}

/// Statistics as `linnet trace stat --json` prints them.
pub fn stats_dict(py: Python<'_>, stats: TraceStats) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("records", stats.records)?;
    dict.set_item("reads", stats.reads)?;
    dict.set_item("writes", stats.writes)?;
    dict.set_item("tenants", stats.tenants)?;
    dict.set_item("devices", stats.devices)?;
    dict.set_item("duration_s", stats.duration_s)?;
    dict.set_item("iops_mean", stats.iops_mean)?;
    dict.set_item("iops_max_10s", stats.iops_max_10s)?;
    dict.set_item("read_bytes_mean", stats.read_bytes_mean)?;
    dict.set_item("write_bytes_mean", stats.write_bytes_mean)?;
    dict.set_item("read_bytes_max", stats.read_bytes_max)?;
    dict.set_item("write_bytes_max", stats.write_bytes_max)?;
    let latency = stats.read_latency_us.map(|l| {
        let latency = PyDict::new(py);
        for (name, value) in [("p50", l.p50), ("p90", l.p90), ("p95", l.p95), ("p99", l.p99), ("p999", l.p999)] {
            latency.set_item(name, value)?;
        }
        PyResult::Ok(latency)
    });
    dict.set_item("read_latency_us", latency.transpose()?)?;
    dict.set_item("skipped", stats.skipped)?;
    Ok(dict)
}

/// Asks whether a signal is pending.
fn go_on(progress: &Mutex<Progress>) -> bool {
    progress.lock().is_ok_and(|mut progress| progress.tell(()))
}

/// Read latencies of one device that serves only these records; `None` if it shall not go on.
fn alone(mut device: Ssd, records: &[IoRecord], go_on: &mut dyn FnMut() -> bool) -> Option<Vec<Nanos>> {
    let mut latencies = Vec::new();
    for some in records.chunks(ASKED_EVERY) {
        if !go_on() {
            return None;
        }
        for record in some {
            if let Outcome::Done(at) = device.submit(record.arrive_ns, &record.request())
                && record.op.is_read()
            {
                latencies.push(at - record.arrive_ns);
            }
        }
    }
    Some(latencies)
}

/// Records that fit the memory that is left, and the words of the limit that says so; None where nothing does.
#[pyfunction]
pub fn record_room() -> Option<(u64, &'static str)> {
    linnet_trace::free().map(|room| (room.bytes / BYTES_A_RECORD, room.limit))
}

/// Names and descriptions of the formats that can be read.
#[pyfunction]
pub fn trace_formats() -> Vec<(&'static str, &'static str)> {
    FORMATS.iter().map(|format| (format.name, format.about)).collect()
}

/// Names of the Table 1 workloads that can be generated.
#[pyfunction]
pub fn workloads() -> Vec<&'static str> {
    linnet_trace::synth::WORKLOADS.iter().map(|w| w.name).collect()
}

/// A Table 1 workload (LinnOS, section 5.1): one trace for each device, bursts correlated across them.
#[pyfunction]
pub fn synth(
    py: Python<'_>,
    workload: &str,
    seconds: f64,
    #[pyo3(from_py_with = whole::devices)] devices: usize,
    #[pyo3(from_py_with = whole::seed)] seed: u64,
) -> PyResult<Vec<PyTrace>> {
    let name = workload.to_owned();
    let made = interruptible(py, move || linnet_trace::synth(&name, seconds, devices, seed))?.map_err(errors::trace)?;
    Ok(made.into_iter().map(|records| PyTrace::made(workload.to_owned(), records)).collect())
}
