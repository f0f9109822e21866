// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inflection point: the latency that splits fast reads from slow ones on one device (LinnOS, section 4.2.1).
//!
//! Assume that admission were perfect, and search for the threshold that would save most. A million reads are
//! simulated. Each takes a random latency of its device. If that is above the threshold, the read is revoked, pays the
//! failover cost and takes a random latency of another replica, which decides on it in turn. The last replica never
//! revokes. The boost of a threshold is the area between the latency CDFs with and without admission, negative where
//! admission is worse. That signed area is the difference of the two means, so the boost is the mean latency saved, and
//! no CDF needs to be built.
//!
//! Thresholds are tried from 10 percentiles below the starting point to 10 above, in steps of 0.1. The starting point
//! is where the slope of the CDF is one. The paper draws a 45 degree line and does not define the axes. Here they are
//! the share of reads, 0 to 1, against latency, where 0 is the lowest latency and 1 the latency at
//! [`InflectionOptions::axis_percentile`], the 99th unless set otherwise. (With the highest latency there, one outlier
//! would move the point.) An empirical CDF is a step function without slopes, so the slope is taken on its least
//! concave majorant. Its slope falls through one exactly at the read that maximises `share - latency`: that read is the
//! starting point, the lowest if several do.
//!
//! Where the paper is silent:
//! - Whose threshold decides on a read that failed over? That of its new device, as in an array where each device has
//!   its own model: while a candidate is k steps from the starting point of the device under study, each other device
//!   decides with the latency k steps from its own starting point. For equal devices this is one threshold for all.
//! - Which replicas? The paper has one drive for each replica. Reads fail over to the other devices in random order, to
//!   none twice. With fewer devices than replicas the devices are used again in turn, so a single device represents all
//!   its peers.
//! - A read exactly at the threshold is fast ([`is_slow`]): step 2 of the paper keeps smaller latencies and revokes
//!   larger ones, and section 4.4 calls a submit false if the read "will take longer" than the threshold. At the p90
//!   threshold at least 90 % of reads are fast.
//!
//! The boost is a mean, so one latency that outweighs all others together decides on the point: a read that was revoked
//! at every replica but the last, which never revokes, may meet it there, and every threshold under which that is rarer
//! looks better. Nothing tells such a record from a slow read, so it is kept; `linnet label` and `linnet fit` warn.
//!
//! All candidates use the same random draws: one latency for each simulated read and try. The latency of a read as a
//! function of the candidate is then a step function with at most one step for each try. Steps are added to a
//! difference array, and one running sum over it gives the boost of all candidates together. Sampling noise therefore
//! does not affect their order.

use linnet_measure::rank;
use linnet_sim::Chance;
use linnet_types::{FAILOVER_NS, Nanos, is_slow};

use crate::error::{Error, require};

/// The label of each read.
pub(crate) fn slow_of(latency_ns: &[Nanos], inflection_ns: Nanos) -> Vec<bool> {
    latency_ns.iter().map(|&latency_ns| is_slow(latency_ns, inflection_ns)).collect()
}

/// Options of the search for the inflection point.
#[derive(Clone, Debug, PartialEq)]
pub struct InflectionOptions {
    /// Copies of the data, 2..=64. A read is revoked at most `replicas - 1` times.
    pub replicas: usize,
    /// Reads to simulate, at least 1.
    pub ios: usize,
    /// Seed of the draws.
    pub seed: u64,
    /// Latency that one failover adds to a read (LinnOS, section 5.3: 15 us).
    pub failover_ns: Nanos,
    /// Distance of the outermost candidates from the starting point, in percentiles, 0..=100.
    pub span_percentiles: f64,
    /// Distance between candidates, in percentiles, 0.01..=10.
    pub step_percentiles: f64,
    /// Percentile at the end of the latency axis on which slopes are measured, above 50 and up to 100.
    pub axis_percentile: f64,
}

impl Default for InflectionOptions {
    fn default() -> Self {
        InflectionOptions {
            replicas: 3,
            ios: 1_000_000,
            seed: 0,
            failover_ns: FAILOVER_NS,
            span_percentiles: 10.0,
            step_percentiles: 0.1,
            axis_percentile: 99.0,
        }
    }
}

impl InflectionOptions {
    fn check(&self) -> Result<(), Error> {
        require((2..=64).contains(&self.replicas), "replicas", self.replicas, "2 to 64")?;
        require(self.ios >= 1, "ios", self.ios, "at least 1")?;
        let span = self.span_percentiles;
        require((0.0..=100.0).contains(&span), "span_percentiles", span, "0 to 100")?;
        let step = self.step_percentiles;
        require((0.01..=10.0).contains(&step), "step_percentiles", step, "0.01 to 10")?;
        let axis = self.axis_percentile;
        require(axis > 50.0 && axis <= 100.0, "axis_percentile", axis, "above 50 and up to 100")
    }
}

/// Saving of one candidate threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoostPoint {
    /// Percentile of the device's read latencies.
    pub percentile: f64,
    /// The threshold: the latency at that percentile.
    pub latency_ns: Nanos,
    /// Mean latency saved per read; negative if admission would cost more than it saves.
    pub boost_ns: f64,
}

/// The inflection point of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Inflection {
    /// Percentile of the best threshold.
    pub percentile: f64,
    /// The best threshold: reads above it are slow.
    pub latency_ns: Nanos,
    /// Mean latency that the best threshold saves. Not above zero if no candidate saves anything (latencies nearly
    /// equal, or a failover that costs more than the tail): admission then has no use on this device.
    pub boost_ns: f64,
    /// Percentile at which the CDF has slope one.
    pub start_percentile: f64,
    /// Latency at which the CDF has slope one.
    pub start_latency_ns: Nanos,
    /// Every candidate, percentiles ascending.
    pub boost: Vec<BoostPoint>,
}

/// Finds the inflection point of `latencies[device]`, the read latencies of one device in any order; the other elements
/// are those of its peers. With one element, all replicas draw from it.
///
/// Among candidates with equal boost the nearest to the starting point is chosen, and the lower of two. Percentiles
/// outside `0 < p < 100` are not tried.
///
/// # Errors
/// [`Error::NoDevice`], [`Error::DeviceOutOfRange`], [`Error::NoLatency`] for a device without a read,
/// [`Error::CoarseClock`] if the best threshold is 0, [`Error::Setting`].
pub fn inflection_point(
    latencies: &[&[Nanos]],
    device: usize,
    options: &InflectionOptions,
) -> Result<Inflection, Error> {
    let devices = prepare(latencies, options)?;
    if device >= devices.len() {
        return Err(Error::DeviceOutOfRange { device, devices: devices.len() });
    }
    search(&devices, device, options)
}

/// [`inflection_point`] of every device, with each distribution sorted once.
///
/// # Errors
/// As [`inflection_point`].
pub fn inflection_points(latencies: &[&[Nanos]], options: &InflectionOptions) -> Result<Vec<Inflection>, Error> {
    let devices = prepare(latencies, options)?;
    (0..devices.len()).map(|device| search(&devices, device, options)).collect()
}

/// A device's latencies in ascending order, and its starting point.
struct Distribution {
    sorted: Vec<Nanos>,
    /// Percentile of the starting point, as a number of steps.
    start: i64,
}

fn prepare(latencies: &[&[Nanos]], options: &InflectionOptions) -> Result<Vec<Distribution>, Error> {
    options.check()?;
    if latencies.is_empty() {
        return Err(Error::NoDevice);
    }
    let grid = Grid::new(options.step_percentiles);
    let of = |(device, latencies): (usize, &&[Nanos])| {
        if latencies.is_empty() {
            return Err(Error::NoLatency { device });
        }
        let mut sorted = latencies.to_vec();
        sorted.sort_unstable();
        let start = grid.nearest(100.0 * slope_one(&sorted, options.axis_percentile));
        Ok(Distribution { sorted, start })
    };
    latencies.iter().enumerate().map(of).collect()
}

/// Percentiles as whole numbers of steps, so that they are exact however they are computed.
#[derive(Clone, Copy)]
struct Grid {
    step: f64,
}

impl Grid {
    fn new(step: f64) -> Self {
        Grid { step }
    }

    fn percentile(self, steps: i64) -> f64 {
        // 905 / 10 is the double nearest to 90.5; 905 * 0.1 is its neighbour.
        let per_percentile = 1.0 / self.step;
        let whole = per_percentile.round();
        if (per_percentile - whole).abs() < 1e-9 { steps as f64 / whole } else { steps as f64 * self.step }
    }

    /// Largest number of steps below percentile 100.
    fn last(self) -> i64 {
        (100.0 / self.step - 1e-9).ceil() as i64 - 1
    }

    fn nearest(self, percentile: f64) -> i64 {
        ((percentile / self.step).round() as i64).clamp(1, self.last())
    }
}

/// Share of reads at or below the point where the slope of the CDF is one (see the head of this file). `sorted` holds
/// at least one latency; the CDF is cut at its percentile `axis_percentile`.
pub fn slope_one(sorted: &[Nanos], axis_percentile: f64) -> f64 {
    let low = sorted[0];
    let end = sorted[rank(sorted.len(), axis_percentile / 100.0)];
    // A zero width (all equal up to the end of the axis) makes the CDF a step there, and the result is the foot of the
    // step.
    let width = (end - low).max(1) as f64;
    let count = sorted.len() as f64;
    let mut best = (f64::NEG_INFINITY, 1.0);
    let mut at_or_below = 0;
    for alike in sorted.chunk_by(|a, b| a == b).take_while(|alike| alike[0] <= end) {
        at_or_below += alike.len();
        let share = at_or_below as f64 / count;
        let above_diagonal = share - (alike[0] - low) as f64 / width;
        if above_diagonal > best.0 {
            best = (above_diagonal, share);
        }
    }
    best.1
}

/// A device's thresholds at every candidate, as indices into its sorted latencies.
struct Thresholds<'a> {
    sorted: &'a [Nanos],
    /// Number of reads that are fast at each candidate; monotonic.
    fast: Vec<usize>,
}

impl<'a> Thresholds<'a> {
    fn new(device: &'a Distribution, grid: Grid, offsets: &[i64]) -> Self {
        let sorted = &device.sorted[..];
        let fast = offsets
            .iter()
            .map(|offset| {
                let steps = (device.start + offset).clamp(1, grid.last());
                let threshold = sorted[rank(sorted.len(), grid.percentile(steps) / 100.0)];
                sorted.partition_point(|&latency| !is_slow(latency, threshold))
            })
            .collect();
        Thresholds { sorted, fast }
    }

    /// A random read: its latency, and the first candidate at which it is fast (the number of candidates if none).
    fn draw(&self, chance: &mut Chance) -> Try {
        let index = chance.below(self.sorted.len() as u64) as usize;
        let fast_from =
            if index < self.fast[0] { 0 } else { self.fast.partition_point(|&fast_below| fast_below <= index) };
        Try { latency_ns: self.sorted[index], fast_from }
    }
}

#[derive(Clone, Copy, Debug)]
struct Try {
    latency_ns: Nanos,
    fast_from: usize,
}

/// Adds the saving of one read at each candidate, relative to its first try, to a difference array over the candidates.
/// `next` draws the second, third, ... of `tries` tries.
fn save(saved: &mut [i128], first: Try, tries: usize, failover_ns: Nanos, mut next: impl FnMut() -> Try) {
    // Candidates below `open` have revoked every try so far.
    let mut open = first.fast_from;
    let mut latency_ns = 0u128;
    for k in 1..tries {
        if open == 0 {
            return;
        }
        latency_ns += u128::from(failover_ns);
        let this = next();
        let fast_from = if k + 1 == tries { 0 } else { this.fast_from };
        if fast_from < open {
            let gain = i128::from(first.latency_ns) - (latency_ns + u128::from(this.latency_ns)) as i128;
            saved[fast_from] += gain;
            saved[open] -= gain;
            open = fast_from;
        }
    }
}

fn search(devices: &[Distribution], device: usize, options: &InflectionOptions) -> Result<Inflection, Error> {
    let grid = Grid::new(options.step_percentiles);
    let own = &devices[device];
    let reach = (options.span_percentiles / options.step_percentiles).round() as i64;
    let offsets: Vec<i64> =
        (-reach..=reach).filter(|offset| (1..=grid.last()).contains(&(own.start + offset))).collect();

    let thresholds: Vec<Thresholds> = devices.iter().map(|d| Thresholds::new(d, grid, &offsets)).collect();
    let pool = options.replicas.max(devices.len());
    let mut others: Vec<usize> = (1..pool).map(|k| (device + k) % devices.len()).collect();
    let mut chance = Chance::new(options.seed).fork(device as u64);
    let mut saved = vec![0i128; offsets.len() + 1];
    for _ in 0..options.ios {
        let first = thresholds[device].draw(&mut chance);
        let mut tried = 0;
        save(&mut saved, first, options.replicas, options.failover_ns, || {
            let pick = tried + chance.below((others.len() - tried) as u64) as usize;
            others.swap(tried, pick);
            tried += 1;
            thresholds[others[tried - 1]].draw(&mut chance)
        });
    }

    let mut running = 0i128;
    let boost: Vec<BoostPoint> = offsets
        .iter()
        .zip(&saved)
        .map(|(offset, step)| {
            running += step;
            let percentile = grid.percentile(own.start + offset);
            let latency_ns = own.sorted[rank(own.sorted.len(), percentile / 100.0)];
            BoostPoint { percentile, latency_ns, boost_ns: running as f64 / options.ios as f64 }
        })
        .collect();

    let farther = |a: usize, b: usize| offsets[a].abs() > offsets[b].abs();
    let best = (1..boost.len()).fold(0, |best, i| {
        let (a, b) = (boost[best].boost_ns, boost[i].boost_ns);
        if b > a || (b == a && farther(best, i)) { i } else { best }
    });
    if boost[best].latency_ns == 0 {
        let zeros = own.sorted.partition_point(|&latency_ns| latency_ns == 0);
        return Err(Error::CoarseClock { device, share: 100.0 * zeros as f64 / own.sorted.len() as f64 });
    }
    let start_percentile = grid.percentile(own.start);
    Ok(Inflection {
        percentile: boost[best].percentile,
        latency_ns: boost[best].latency_ns,
        boost_ns: boost[best].boost_ns,
        start_percentile,
        start_latency_ns: own.sorted[rank(own.sorted.len(), start_percentile / 100.0)],
        boost,
    })
}

#[cfg(test)]
#[path = "inflection_tests.rs"]
mod tests;
