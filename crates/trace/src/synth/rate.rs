// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrival times of the I/Os: windows of 10 s, bursts in busy tenths of a second, batches within bursts.
//!
//! One window has the peak of Table 1. The others share the rest of the mean in log-normal proportions. A burst begins
//! at a moment that devices have in common or that belongs to one device, as `correlation` says.

use linnet_sim::Chance;

use super::{Shape, Workload};

const WINDOW_S: f64 = 10.0;
/// The peak window has at most this share of the I/Os of a short run ...
const PEAK_SHARE_SHORT: f64 = 0.7;
/// ... and at most this share in a run of at least `LONG_S`, where every workload of Table 1 can reach its peak.
const PEAK_SHARE_LONG: f64 = 0.97;
const LONG_S: f64 = 100.0;
/// Other windows stay below this share of the peak, and its two neighbours further below. Otherwise a sliding window of
/// 10 s could have more I/Os than the peak.
const BELOW_PEAK: f64 = 0.8;
const BESIDE_PEAK: f64 = 0.5;
/// Spread of the windows' rates (standard deviation of the logarithm).
const WINDOW_SPREAD: f64 = 0.6;
/// Tenths of a second in a window, and the spread of their share of bursts.
const SLOTS: usize = 100;
const SLOT_SPREAD: f64 = 1.0;
/// Mean gap within a batch.
const BATCH_GAP_S: f64 = 10e-6;
/// Gap between batches of a burst: this share of the mean gap between I/Os, up to a maximum.
const BURST_GAP_SHARE: f64 = 0.25;
const BURST_GAP_MAX_S: f64 = 1e-3;
/// Mean time offset between devices at a common burst.
const JITTER_S: f64 = 200e-6;

pub(super) fn seconds_for_peak(workload: &Workload) -> f64 {
    let windows = workload.iops_max_10s / workload.iops_mean;
    let short = (windows / PEAK_SHARE_SHORT).ceil() * WINDOW_S;
    let long = (windows / PEAK_SHARE_LONG).ceil() * WINDOW_S;
    short.min(long.max(LONG_S))
}

/// Mixes a common and a separate normal number so that results have this correlation.
fn blend(common: f64, own: f64, correlation: f64) -> f64 {
    correlation.sqrt() * common + (1.0 - correlation).sqrt() * own
}

/// I/Os of each window: `ios` in total, one window at the peak, the others well below it.
fn window_counts(
    workload: &Workload,
    seconds: f64,
    ios: usize,
    shape: &Shape,
    common: &Chance,
    own: &Chance,
) -> Vec<usize> {
    let windows = (seconds / WINDOW_S).ceil().max(1.0) as usize;
    if windows == 1 {
        return vec![ios];
    }
    let whole = (seconds / WINDOW_S).floor() as u64;
    let share = if seconds >= LONG_S { PEAK_SHARE_LONG } else { PEAK_SHARE_SHORT };
    let peak_ios = (workload.iops_max_10s * WINDOW_S).min(share * ios as f64);
    let (mut shared, mut alone) = (common.fork(1), own.fork(1));
    let (shared_peak, own_peak) = (shared.below(whole), alone.below(whole));
    let together = alone.happens(shape.correlation);
    let peak = if together { shared_peak } else { own_peak } as usize;
    let length = |w: usize| (seconds - w as f64 * WINDOW_S).min(WINDOW_S) / WINDOW_S;
    let weights: Vec<f64> = (0..windows)
        .map(|w| (WINDOW_SPREAD * blend(shared.normal(), alone.normal(), shape.correlation)).exp() * length(w))
        .collect();
    // Proportional shares. Those that would exceed the limit are set to it; a few rounds are enough.
    let rest = ios as f64 - peak_ios;
    let share = |w: usize| if w.abs_diff(peak) == 1 { BESIDE_PEAK } else { BELOW_PEAK };
    let bound = |w: usize| share(w) * peak_ios * length(w);
    let mut held = vec![false; windows];
    held[peak] = true;
    let mut rates = vec![0.0; windows];
    rates[peak] = peak_ios;
    for _ in 0..windows {
        let fixed: f64 = (0..windows).filter(|&w| held[w] && w != peak).map(|w| rates[w]).sum();
        let free: f64 = (0..windows).filter(|&w| !held[w]).map(|w| weights[w]).sum();
        let mut settled = true;
        for w in 0..windows {
            if !held[w] {
                rates[w] = (rest - fixed) * weights[w] / free;
                if rates[w] > bound(w) {
                    rates[w] = bound(w);
                    held[w] = true;
                    settled = false;
                }
            }
        }
        if settled {
            break;
        }
    }
    // Rounded so that the sum is exact.
    let mut sum = 0.0;
    let mut done = 0;
    let mut counts: Vec<usize> = rates
        .iter()
        .map(|rate| {
            sum += rate;
            let count = (sum.round() as usize).saturating_sub(done);
            done += count;
            count
        })
        .collect();
    counts[peak] += ios.saturating_sub(done);
    counts
}

/// Cumulative log-normal shares of the tenths of a second in a window; the same for all devices.
fn slots(window: usize, common: &Chance) -> Vec<f64> {
    let mut chance = common.fork(1000 + window as u64);
    let mut sum = 0.0;
    (0..SLOTS)
        .map(|_| {
            sum += (SLOT_SPREAD * chance.normal()).exp();
            sum
        })
        .collect()
}

/// The starts of bursts, as a share of the window; an endless sequence.
struct Epochs<'a> {
    slots: &'a [f64],
    chance: Chance,
}

impl Epochs<'_> {
    fn next(&mut self) -> f64 {
        let at = self.chance.unit() * self.slots[SLOTS - 1];
        let slot = self.slots.partition_point(|&sum| sum <= at).min(SLOTS - 1);
        (slot as f64 + self.chance.unit()) / SLOTS as f64
    }
}

/// Arrival times of one device in nanoseconds, sorted; `ios` of them, all below `seconds`.
pub(super) fn arrivals(
    workload: &Workload,
    seconds: f64,
    ios: usize,
    shape: &Shape,
    common: &Chance,
    own: &Chance,
) -> Vec<u64> {
    let counts = window_counts(workload, seconds, ios, shape, common, own);
    let gap_s = (BURST_GAP_SHARE / workload.iops_mean).min(BURST_GAP_MAX_S);
    let end_ns = (seconds * 1e9) as u64;
    let mut arrivals = Vec::with_capacity(ios);
    let mut chance = own.fork(2);
    for (window, &count) in counts.iter().enumerate() {
        let start_s = window as f64 * WINDOW_S;
        let length_s = (seconds - start_s).min(WINDOW_S);
        let slots = slots(window, common);
        let mut shared = Epochs { slots: &slots, chance: common.fork(2_000_000 + window as u64) };
        let mut alone = Epochs { slots: &slots, chance: own.fork(2_000_000 + window as u64) };
        let window_first = arrivals.len();
        while arrivals.len() - window_first < count {
            let left = count - (arrivals.len() - window_first);
            let begin = if chance.happens(shape.correlation) { shared.next() } else { alone.next() };
            let mut at_s = start_s + begin * length_s + chance.exponential(JITTER_S);
            let burst = (1.0 + chance.exponential(shape.burst_ios_mean - 1.0)).round().min(left as f64) as usize;
            for _ in 0..burst {
                // Arrivals after the end of the run wrap around to its beginning.
                arrivals.push((at_s * 1e9) as u64 % end_ns);
                let mean_s = if chance.happens(shape.batch_share) { BATCH_GAP_S } else { gap_s };
                at_s += chance.exponential(mean_s);
            }
        }
    }
    arrivals.sort_unstable();
    arrivals
}
