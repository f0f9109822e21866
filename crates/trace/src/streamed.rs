// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of a trace of any length in flat memory.
//!
//! Records come in the order of arrival, so that a file whose events are slightly out of order gives the numbers of the
//! sorted trace. Latencies are kept exactly up to a limit and counted in a histogram beyond it. A
//! trace that exceeds another limit is read whole, if it fits in memory ([`crate::read_all`]).

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use linnet_measure::Histogram;
use linnet_types::{IoRecord, Nanos};

use crate::error::Error;
use crate::memory::{growth, share};
use crate::order::{About, By, Ordered};
use crate::read::Options;
use crate::stat::{LatencyUs, TraceStats, WINDOW_NS, quantiles};

/// Latencies of reads, and of writes, that are kept exactly: 32 MiB each.
const EXACT_MAX: usize = 1 << 22;
/// Arrivals within the window of `iops_max_10s`: 64 MiB.
const WINDOW_MAX: usize = 1 << 23;
/// Tenants that are told apart, and devices.
const TENANTS_MAX: usize = 1 << 16;

/// Statistics of a file, and what the reader said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileStats {
    /// The statistics.
    pub stats: TraceStats,
    /// Name of the format that was used.
    pub format: &'static str,
    /// Warnings for the user of the trace.
    pub warnings: Vec<String>,
    /// Largest relative error of the latency quantiles: 0 up to 4,194,304 latencies of reads and as many of writes.
    pub latency_error: f64,
}

/// Latencies: exact, then in a histogram.
#[derive(Default)]
struct Latencies {
    exact: Vec<Nanos>,
    counted: Histogram,
}

impl Latencies {
    fn push(&mut self, latency_ns: Option<Nanos>, path: &Path) -> Result<(), Error> {
        let Some(latency_ns) = latency_ns else { return Ok(()) };
        if self.counted.count() > 0 {
            self.counted.record(latency_ns);
        } else if self.exact.len() < EXACT_MAX {
            if self.exact.len() == self.exact.capacity() {
                self.exact.reserve_exact(growth::<Nanos>(path, self.exact.len(), EXACT_MAX)?);
            }
            self.exact.push(latency_ns);
        } else {
            self.exact.drain(..).for_each(|kept| self.counted.record(kept));
            self.counted.record(latency_ns);
        }
        Ok(())
    }

    fn count(&self) -> u64 {
        self.exact.len() as u64 + self.counted.count()
    }

    fn quantiles(self) -> (Option<LatencyUs>, f64) {
        if self.counted.count() == 0 {
            return (quantiles(self.exact), 0.0);
        }
        let at = |q| self.counted.quantile(q) as f64 / 1000.0;
        let found = LatencyUs { p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99), p999: at(0.999) };
        (Some(found), Histogram::RELATIVE_ERROR)
    }
}

/// What was seen of records that came in order.
#[derive(Default)]
struct Seen {
    stats: TraceStats,
    read_bytes: u128,
    write_bytes: u128,
    reads: Latencies,
    writes: Latencies,
    window: VecDeque<Nanos>,
    most: usize,
    tenants: BTreeSet<u32>,
    devices: BTreeSet<u32>,
    first_ns: Option<Nanos>,
    last_ns: Nanos,
}

impl Seen {
    /// Takes the next record; false if a limit is exceeded.
    fn take(&mut self, r: &IoRecord, path: &Path) -> Result<bool, Error> {
        self.first_ns.get_or_insert(r.arrive_ns);
        self.last_ns = r.arrive_ns;
        let stats = &mut self.stats;
        stats.records += 1;
        if r.op.is_read() {
            stats.reads += 1;
            self.read_bytes += u128::from(r.size_bytes);
            stats.read_bytes_max = stats.read_bytes_max.max(r.size_bytes);
            self.reads.push(r.latency_ns, path)?;
        } else {
            stats.writes += 1;
            self.write_bytes += u128::from(r.size_bytes);
            stats.write_bytes_max = stats.write_bytes_max.max(r.size_bytes);
            self.writes.push(r.latency_ns, path)?;
        }
        while self.window.front().is_some_and(|&first| r.arrive_ns - first >= WINDOW_NS) {
            self.window.pop_front();
        }
        if self.window.len() == self.window.capacity() {
            self.window.reserve_exact(growth::<Nanos>(path, self.window.len(), WINDOW_MAX + 1)?);
        }
        self.window.push_back(r.arrive_ns);
        self.most = self.most.max(self.window.len());
        self.tenants.insert(r.tenant);
        self.devices.insert(r.device);
        Ok(self.window.len() <= WINDOW_MAX && self.tenants.len().max(self.devices.len()) <= TENANTS_MAX)
    }

    fn finish(self) -> (TraceStats, f64) {
        let mut stats = self.stats;
        let mean = |bytes: u128, n: u64| if n == 0 { 0.0 } else { bytes as f64 / n as f64 };
        stats.read_bytes_mean = mean(self.read_bytes, stats.reads);
        stats.write_bytes_mean = mean(self.write_bytes, stats.writes);
        stats.tenants = self.tenants.len() as u64;
        stats.devices = self.devices.len() as u64;
        stats.set_rates(self.last_ns - self.first_ns.unwrap_or(self.last_ns), self.most as u64);
        (stats.reads_with_latency, stats.writes_with_latency) = (self.reads.count(), self.writes.count());
        let (found, error) = self.reads.quantiles();
        stats.read_latency_us = found;
        let (found, other) = self.writes.quantiles();
        stats.write_latency_us = found;
        (stats, error.max(other))
    }
}

/// Statistics of a file, record by record; `Ok(None)` if it exceeds a limit and has to be read whole.
///
/// # Errors
/// Those of [`open`], [`Error::Empty`] or [`Error::Memory`].
pub fn stat_file(path: &Path, options: Options) -> Result<Option<FileStats>, Error> {
    share(path, 1)?;
    let mut records = Ordered::open(path, options, By::Buffer)?;
    let mut seen = Seen::default();
    for record in records.by_ref() {
        let record = match record {
            Err(Error::Disorder { .. }) => return Ok(None),
            record => record?,
        };
        if !seen.take(&record, path)? {
            return Ok(None);
        }
    }
    let about = records.about();
    if seen.stats.records == 0 {
        return Err(about.empty(path));
    }
    let About { format, skipped, warnings, .. } = about;
    let (stats, latency_error) = seen.finish();
    Ok(Some(FileStats { stats: TraceStats { skipped, ..stats }, format, warnings, latency_error }))
}
