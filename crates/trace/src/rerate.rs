// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes a workload: its rate, its sizes, or its length.
//!
//! LinnOS (section 5.1) re-rates traces of older servers so that "the resulting baseline latency distribution (after
//! running it on the high-end device) should be similar to the latency distribution in the original trace". The paper
//! does not say how similarity is measured; here it is the mean of |ln(baseline / target)| over the target's quantiles,
//! so a distance of 0.1 is about 10 % at each of them.

use linnet_measure::quantile;
use linnet_types::{IoRecord, Nanos};

use crate::error::Error;
use crate::read::SPAN_MAX_NS;
use crate::text::SECTOR_BYTES;

/// Default quantiles of a latency target.
const POINTS: [f64; 8] = [0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];
/// Steps of the bisection: it finds the factor to within 2^-14 of its logarithmic range.
const STEPS: u32 = 14;

fn positive(name: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::Argument { name, value: value.to_string(), problem: "must be a number above 0" })
}

/// A factor on the I/O rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(f64);

impl Rate {
    pub fn new(factor: f64) -> Result<Rate, Error> {
        positive("factor", factor).map(|()| Rate(factor))
    }

    /// The record at this rate; `None` if it arrives later than any reader takes. A latency belongs to the original
    /// rate and is dropped, unless the factor is 1.
    pub fn apply(self, record: &IoRecord) -> Option<IoRecord> {
        if self.0 == 1.0 {
            return Some(*record);
        }
        let at = record.arrive_ns as f64 / self.0;
        (at <= SPAN_MAX_NS as f64).then_some(IoRecord { arrive_ns: at as Nanos, latency_ns: None, ..*record })
    }

    /// The time 0 of the trace on the clock that others share, at this rate: those of all of them move alike.
    pub fn origin(self, origin_ns: Nanos) -> Nanos {
        if self.0 == 1.0 { origin_ns } else { (origin_ns as f64 / self.0) as Nanos }
    }

    /// The error of a trace that this rate makes too long; its last record arrives at `last_ns`.
    pub fn stretched(self, last_ns: Nanos) -> Error {
        let least = least_factor(last_ns);
        // Four digits, rounded up, of a number of any size.
        let places = (3.0 - least.log10().floor()).clamp(0.0, 300.0) as usize;
        let scale = 10f64.powi(places as i32);
        Error::Stretched { factor: self.0, fits: format!("{:.places$}", (least * scale).ceil() / scale) }
    }
}

/// The least factor by which a trace whose last record arrives at `last_ns` is not too long.
fn least_factor(last_ns: Nanos) -> f64 {
    last_ns as f64 / SPAN_MAX_NS as f64
}

fn last_ns(records: &[IoRecord]) -> Nanos {
    records.iter().map(|r| r.arrive_ns).max().unwrap_or(0)
}

/// Divides all arrival times by `factor`: above 1 the rate becomes higher. Latencies are dropped, because they belong
/// to the original rate; a factor of 1 changes nothing.
///
/// # Errors
/// [`Error::Argument`] if `factor` is not above 0, [`Error::Stretched`] if the trace becomes too long to be read.
pub fn rerate(records: &[IoRecord], factor: f64) -> Result<Vec<IoRecord>, Error> {
    let rate = Rate::new(factor)?;
    let rerated: Option<Vec<IoRecord>> = records.iter().map(|record| rate.apply(record)).collect();
    rerated.ok_or_else(|| rate.stretched(last_ns(records)))
}

/// [`rerate()`] for the time 0 of a trace on a clock that others share.
///
/// # Errors
/// [`Error::Argument`] if `factor` is not above 0.
pub fn rerate_origin(origin_ns: Nanos, factor: f64) -> Result<Nanos, Error> {
    Ok(Rate::new(factor)?.origin(origin_ns))
}

/// Multiplies all sizes; the results are whole sectors, at least one, and at most `max_bytes`. Latencies are dropped.
///
/// # Errors
/// [`Error::Argument`] if `factor` is not above 0 or `max_bytes` is less than a sector.
pub fn scale_sizes(records: &[IoRecord], factor: f64, max_bytes: u32) -> Result<Vec<IoRecord>, Error> {
    positive("factor", factor)?;
    let sector = SECTOR_BYTES as u32;
    let most = max_bytes / sector * sector;
    if most == 0 {
        return Err(Error::Argument {
            name: "max_bytes",
            value: max_bytes.to_string(),
            problem: "must be at least 512",
        });
    }
    let size = |r: &IoRecord| {
        let sectors = (f64::from(r.size_bytes) * factor / f64::from(sector)).round().max(1.0);
        ((sectors * f64::from(sector)).min(f64::from(most))) as u32
    };
    Ok(records.iter().map(|r| IoRecord { size_bytes: size(r), latency_ns: None, ..*r }).collect())
}

/// Cuts a trace into `n` slices of equal duration, each starting at 0. A slice without arrivals is empty.
pub fn slice_by_time(records: &[IoRecord], n: usize) -> Vec<Vec<IoRecord>> {
    let n = n.max(1);
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return vec![Vec::new(); n] };
    let span = u128::from(last.arrive_ns - first.arrive_ns) + 1;
    let mut rest = records;
    (1..=n)
        .map(|k| {
            let start = first.arrive_ns + (span * (k as u128 - 1)).div_ceil(n as u128) as Nanos;
            let end = first.arrive_ns + (span * k as u128).div_ceil(n as u128) as Nanos;
            let (slice, later) = rest.split_at(rest.partition_point(|r| r.arrive_ns < end));
            rest = later;
            slice.iter().map(|r| IoRecord { arrive_ns: r.arrive_ns - start, ..*r }).collect()
        })
        .collect()
}

/// A target for a latency distribution: latencies at some quantiles.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyTarget {
    /// Pairs of quantile (0..1) and latency (above 0).
    pub points: Vec<(f64, Nanos)>,
}

impl LatencyTarget {
    /// The distribution of these latencies, at p50 to p99.9. `None` if none is above 0.
    pub fn of(latencies: &[Nanos]) -> Option<LatencyTarget> {
        let mut sorted: Vec<Nanos> = latencies.iter().copied().filter(|&l| l > 0).collect();
        sorted.sort_unstable();
        let points = POINTS.iter().map(|&q| Some((q, at_quantile(&sorted, q)?))).collect::<Option<Vec<_>>>()?;
        Some(LatencyTarget { points })
    }
}

/// `None` without latencies (the project's quantile would be 0).
fn at_quantile(sorted: &[Nanos], q: f64) -> Option<Nanos> {
    (!sorted.is_empty()).then(|| quantile(sorted, q))
}

/// Mean |ln(latency / target)| over the target's quantiles, and the mean with signs. `None` without latencies.
pub fn latency_distance(latencies: &[Nanos], target: &LatencyTarget) -> Option<(f64, f64)> {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let (mut distance, mut bias) = (0.0, 0.0);
    for &(q, wanted) in &target.points {
        let log = (at_quantile(&sorted, q)?.max(1) as f64 / wanted.max(1) as f64).ln();
        distance += log.abs();
        bias += log;
    }
    let n = target.points.len() as f64;
    (n > 0.0).then_some((distance / n, bias / n))
}

/// The result of [`rerate_to_target`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rerated {
    /// The factor; arrival times were divided by it.
    pub factor: f64,
    /// The remaining mean |ln(baseline / target)|.
    pub distance: f64,
    /// The mean with signs: above 0 the baseline is slower than the target.
    pub bias: f64,
    /// How often the baseline was run.
    pub runs: u32,
    /// The re-rated records.
    pub records: Vec<IoRecord>,
}

/// Runs records on a device without any policy and returns their latencies. Its error ends the search.
pub type Baseline<'a> = dyn FnMut(&[IoRecord]) -> Result<Vec<Nanos>, Error> + 'a;

/// Searches the factor between `range.0` and `range.1` for which the baseline's latencies are closest to the target
/// (LinnOS, section 5.1).
///
/// The search assumes that a higher rate means longer latencies, so the sign of the mean log ratio gives its direction.
/// It returns the best factor that it tried, which may be an end of the range if the target is outside. The range begins
/// at the least factor by which the trace can still be read, if that is within it.
///
/// # Errors
/// [`Error::Argument`] for an empty or reversed range, an empty target, or a baseline that returns no latency;
/// [`Error::Stretched`] if no factor of the range makes the trace short enough.
pub fn rerate_to_target(
    records: &[IoRecord],
    target: &LatencyTarget,
    range: (f64, f64),
    baseline: &mut Baseline<'_>,
) -> Result<Rerated, Error> {
    positive("range.0", range.0)?;
    positive("range.1", range.1)?;
    if range.0 >= range.1 {
        return Err(Error::Argument {
            name: "range",
            value: format!("{range:?}"),
            problem: "must begin below its end",
        });
    }
    // Beside the rounding of the quotients.
    let least = least_factor(last_ns(records)) * (1.0 + 1e-12);
    let range = (range.0.max(least), range.1);
    if range.0 > range.1 {
        return Err(Rate::new(range.1)?.stretched(last_ns(records)));
    }
    let mut best: Option<Rerated> = None;
    let mut runs = 0;
    let mut run = |factor: f64, best: &mut Option<Rerated>| -> Result<f64, Error> {
        let records = rerate(records, factor)?;
        let latencies = baseline(&records)?;
        runs += 1;
        let Some((distance, bias)) = latency_distance(&latencies, target) else {
            let problem = "target and baseline must both have latencies";
            return Err(Error::Argument { name: "target", value: target.points.len().to_string(), problem });
        };
        if best.as_ref().is_none_or(|b| distance < b.distance) {
            *best = Some(Rerated { factor, distance, bias, runs, records });
        }
        Ok(bias)
    };
    let (mut low, mut high) = (range.0.ln(), range.1.ln());
    let slower_at_low = run(range.0, &mut best)? > 0.0;
    let faster_at_high = !slower_at_low && run(range.1, &mut best)? < 0.0;
    if !slower_at_low && !faster_at_high {
        for _ in 0..STEPS {
            let middle = (low + high) / 2.0;
            if run(middle.exp(), &mut best)? > 0.0 { high = middle } else { low = middle }
        }
    }
    let mut found = best.expect("at least one run");
    found.runs = runs;
    Ok(found)
}
