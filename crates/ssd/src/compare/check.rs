// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the queued model with a reference: the latencies of another simulator for the same requests.
//!
//! A reference is a JSON file with the device's `parameters`, and a CSV file of the requests with their latencies in
//! the reference.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use linnet_types::{Nanos, Op};
use serde::Serialize;

use super::reference::{CheckError, Reference, rows};
use crate::queued::{QueuedSsd, QueuedStats};

/// The result of a comparison. A ratio is our value divided by the reference's, for measured reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The reference's name.
    pub name: String,
    /// Mean latency.
    pub mean_ratio: f64,
    /// Quantiles of latency.
    pub p50_ratio: f64,
    /// 75th percentile.
    pub p75_ratio: f64,
    /// 90th percentile.
    pub p90_ratio: f64,
    /// 95th percentile.
    pub p95_ratio: f64,
    /// 99th percentile.
    pub p99_ratio: f64,
    /// 99.9th percentile.
    pub p999_ratio: f64,
    /// Largest difference of the distribution functions, at the edges of bins that are 10 % wide.
    pub ks_log10pct: f64,
    /// Write amplification after the first fill; `None` if the reference does not state it.
    pub waf_ratio: Option<f64>,
    /// Mean latency of measured writes; `None` if there are none.
    pub write_mean_ratio: Option<f64>,
    /// Requests per second of real time, including preparation.
    pub ios_per_second: f64,
    /// Peak memory of the process; only Linux reports it.
    pub peak_rss_bytes: Option<u64>,
    /// Reads that were compared.
    pub reads: u64,
    /// Measured reads without a latency in the reference.
    pub not_completed_in_reference: u64,
    /// Requests that the model had not completed at the end; always 0.
    pub not_completed: u64,
    /// Our mean read latency.
    pub mean_ns: f64,
    /// Our write amplification after the first fill.
    pub waf: f64,
    /// For the reads slower than the reference's 95th percentile: mechanisms that they waited for in our model, with
    /// their shares.
    pub tail_shares: Vec<(String, f64)>,
    /// Unknown keys of `parameters`.
    pub ignored_parameters: Vec<String>,
}

/// The value at this quantile of a sorted list.
fn quantile(sorted: &[Nanos], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1;
    sorted[at] as f64
}

/// Largest difference of two distribution functions, at the edges of bins that are 10 % wide.
fn ks_log10pct(ours: &[Nanos], theirs: &[Nanos]) -> f64 {
    let bins = |values: &[Nanos]| {
        let mut counts: BTreeMap<i64, f64> = BTreeMap::new();
        for &value in values {
            let bin = ((value.max(1) as f64).ln() / 1.1f64.ln()).floor() as i64;
            *counts.entry(bin).or_default() += 1.0 / values.len() as f64;
        }
        counts
    };
    let (ours, theirs) = (bins(ours), bins(theirs));
    let mut difference: BTreeMap<i64, f64> = ours;
    for (bin, share) in theirs {
        *difference.entry(bin).or_default() -= share;
    }
    let (mut sum, mut worst) = (0.0f64, 0.0f64);
    for share in difference.values() {
        sum += share;
        worst = worst.max(sum.abs());
    }
    worst
}

fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Runs the model over the workload of a reference and compares latencies. Also returns the model's counters.
///
/// # Errors
/// See [`CheckError`].
pub fn check(path: &Path) -> Result<(Check, QueuedStats), CheckError> {
    let reference = Reference::read(path)?;
    let rows = rows(&reference.csv)?;
    let parameters = |source| CheckError::Parameters { path: path.to_owned(), source };
    let mut ssd = QueuedSsd::new(&reference.params).map_err(parameters)?;
    let began = Instant::now();
    let answers = ssd.serve(rows.iter().map(|row| (row.now, row.request)));
    let wall_s = began.elapsed().as_secs_f64();

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut our_writes, mut their_writes, mut writes) = (0.0, 0.0, 0u32);
    let mut not_completed_in_reference = 0;
    let measured =
        || answers.iter().map(|served| (&rows[served.token as usize], served)).filter(|(row, _)| row.measured);
    for (row, served) in measured() {
        let latency_ns = served.latency_ns;
        match (row.request.op, row.latency_ns) {
            (Op::Read, Some(theirs_ns)) => {
                ours.push(latency_ns);
                theirs.push(theirs_ns);
            }
            (Op::Read, None) => not_completed_in_reference += 1,
            (Op::Write, Some(theirs_ns)) => {
                our_writes += latency_ns as f64;
                their_writes += theirs_ns as f64;
                writes += 1;
            }
            (Op::Write, None) => {}
        }
    }
    if ours.is_empty() {
        return Err(CheckError::NoReads { path: reference.csv });
    }
    ours.sort_unstable();
    theirs.sort_unstable();
    let tail_from = quantile(&theirs, 0.95) as Nanos;
    let mut tail = crate::Cause::default();
    for (row, served) in measured() {
        if row.request.op == Op::Read && served.latency_ns > tail_from {
            tail.merge(&served.cause);
        }
    }
    let waited = tail.total_ns().max(1) as f64;
    let mut tail_shares: Vec<(String, f64)> =
        tail.parts().map(|(mechanism, ns)| (mechanism.name().to_owned(), ns as f64 / waited)).collect();
    tail_shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mean = |values: &[Nanos]| values.iter().map(|&ns| ns as f64).sum::<f64>() / values.len() as f64;
    let ratio = |share| quantile(&ours, share) / quantile(&theirs, share).max(1.0);
    let stats = ssd.stats();
    let waf = stats.waf_after_first_fill();
    Ok((
        Check {
            name: reference.name,
            mean_ratio: mean(&ours) / mean(&theirs).max(1.0),
            p50_ratio: ratio(0.5),
            p75_ratio: ratio(0.75),
            p90_ratio: ratio(0.9),
            p95_ratio: ratio(0.95),
            p99_ratio: ratio(0.99),
            p999_ratio: ratio(0.999),
            ks_log10pct: ks_log10pct(&ours, &theirs),
            waf_ratio: reference.waf.filter(|&told| told > 0.0).map(|told| waf / told),
            write_mean_ratio: (writes > 0).then(|| our_writes / f64::max(their_writes, 1.0)),
            ios_per_second: rows.len() as f64 / wall_s.max(1e-9),
            peak_rss_bytes: peak_rss_bytes(),
            reads: ours.len() as u64,
            not_completed_in_reference,
            not_completed: (rows.len() - answers.len()) as u64,
            mean_ns: mean(&ours),
            waf,
            tail_shares,
            ignored_parameters: reference.ignored_parameters,
        },
        stats,
    ))
}
