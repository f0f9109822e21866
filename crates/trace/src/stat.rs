// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of a trace: the columns of LinnOS, Table 1, and quantiles of latency.

use std::collections::{BTreeMap, BTreeSet};

use linnet_measure::quantile;
use linnet_types::{IoRecord, Nanos};

use crate::read::Trace;

/// Length of the window of `iops_max_10s`.
pub(crate) const WINDOW_NS: Nanos = 10_000_000_000;

/// Quantiles of latency in microseconds, by nearest rank: at least this share of the latencies is at most the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyUs {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

/// Statistics of a trace. The field names are those of `linnet trace stat --json`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceStats {
    /// I/Os.
    pub records: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Tenants that have at least one I/O.
    pub tenants: u64,
    /// Devices that have at least one I/O.
    pub devices: u64,
    /// From the first to the last arrival.
    pub duration_s: f64,
    /// `records / duration_s`; `None` if all arrive at once.
    pub iops_mean: Option<f64>,
    /// Most I/Os per second within any 10 s (a sliding window), at least `iops_mean`. A trace shorter than 10 s is one
    /// window of its own length; `None` if all arrive at once.
    pub iops_max_10s: Option<f64>,
    /// Mean size of reads; 0 without any.
    pub read_bytes_mean: f64,
    /// Mean size of writes; 0 without any.
    pub write_bytes_mean: f64,
    /// Largest read; 0 without any.
    pub read_bytes_max: u32,
    /// Largest write; 0 without any.
    pub write_bytes_max: u32,
    /// Latency of the reads that have one; `None` if none has one.
    pub read_latency_us: Option<LatencyUs>,
    /// Latency of the writes that have one; `None` if none has one.
    pub write_latency_us: Option<LatencyUs>,
    /// Reads that have a latency.
    pub reads_with_latency: u64,
    /// Writes that have a latency.
    pub writes_with_latency: u64,
    /// What the reader left out, by reason.
    pub skipped: BTreeMap<String, u64>,
}

pub(crate) fn quantiles(mut latencies: Vec<Nanos>) -> Option<LatencyUs> {
    if latencies.is_empty() {
        return None;
    }
    latencies.sort_unstable();
    let at = |q| quantile(&latencies, q) as f64 / 1000.0;
    Some(LatencyUs { p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99), p999: at(0.999) })
}

fn most_in_window(records: &[IoRecord]) -> u64 {
    let (mut first, mut most) = (0, 0);
    for last in 0..records.len() {
        while records[last].arrive_ns - records[first].arrive_ns >= WINDOW_NS {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most as u64
}

/// The different values of a field, ascending.
fn distinct(records: &[IoRecord], field: impl Fn(&IoRecord) -> u32) -> BTreeSet<u32> {
    records.chunk_by(|a, b| field(a) == field(b)).map(|run| field(&run[0])).collect()
}

/// The devices that have at least one I/O, ascending.
pub fn devices(records: &[IoRecord]) -> BTreeSet<u32> {
    distinct(records, |r| r.device)
}

impl TraceStats {
    /// Sets the duration and the rates, from the most I/Os within a window.
    pub(crate) fn set_rates(&mut self, duration_ns: Nanos, most: u64) {
        self.duration_s = duration_ns as f64 / 1e9;
        if duration_ns > 0 {
            let mean = self.records as f64 / self.duration_s;
            self.iops_mean = Some(mean);
            // The last I/O counts in the mean. Where the trace is little longer than a window, none holds all of them.
            self.iops_max_10s = Some((most as f64 / (duration_ns.min(WINDOW_NS) as f64 / 1e9)).max(mean));
        }
    }

    /// Statistics of records that are sorted by arrival.
    pub fn of(records: &[IoRecord]) -> TraceStats {
        debug_assert!(records.is_sorted_by_key(|r| r.arrive_ns));
        let mut stats = TraceStats {
            records: records.len() as u64,
            tenants: distinct(records, |r| r.tenant).len() as u64,
            devices: devices(records).len() as u64,
            ..TraceStats::default()
        };
        let (mut read_bytes, mut write_bytes) = (0u128, 0u128);
        let (mut read_latencies, mut write_latencies) = (Vec::new(), Vec::new());
        for r in records {
            if r.op.is_read() {
                stats.reads += 1;
                read_bytes += u128::from(r.size_bytes);
                stats.read_bytes_max = stats.read_bytes_max.max(r.size_bytes);
                read_latencies.extend(r.latency_ns);
            } else {
                stats.writes += 1;
                write_bytes += u128::from(r.size_bytes);
                stats.write_bytes_max = stats.write_bytes_max.max(r.size_bytes);
                write_latencies.extend(r.latency_ns);
            }
        }
        let mean = |bytes: u128, n: u64| if n == 0 { 0.0 } else { bytes as f64 / n as f64 };
        stats.read_bytes_mean = mean(read_bytes, stats.reads);
        stats.write_bytes_mean = mean(write_bytes, stats.writes);
        if let [first, .., last] = records {
            stats.set_rates(last.arrive_ns - first.arrive_ns, most_in_window(records));
        }
        stats.reads_with_latency = read_latencies.len() as u64;
        stats.writes_with_latency = write_latencies.len() as u64;
        stats.read_latency_us = quantiles(read_latencies);
        stats.write_latency_us = quantiles(write_latencies);
        stats
    }
}

impl Trace {
    /// Statistics of this trace, with what was left out.
    pub fn stats(&self) -> TraceStats {
        TraceStats { skipped: self.skipped.clone(), ..TraceStats::of(&self.records) }
    }
}
