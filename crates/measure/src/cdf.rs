// SPDX-License-Identifier: MIT OR Apache-2.0
//! Points of a latency distribution for a plot whose axis counts nines: p90 at 1, p99 at 2, p99.9 at 3.

use crate::quantile;

/// One point of a tail plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailPoint {
    /// Quantile, 0..1.
    pub q: f64,
    /// Position on the axis: `-log10(1 - q)`.
    pub nines: f64,
    /// The latency at this quantile.
    pub latency_ns: u64,
}

/// Position of a quantile on the axis of nines: `-log10(1 - q)`; infinite at 1.
pub fn nines(q: f64) -> f64 {
    -(1.0 - q).log10()
}

/// Points of the tail of latencies in ascending order: at most `points`, evenly spaced on the axis of nines from
/// quantile `from` to quantile `to` (LinnOS plots 0.8 to 0.9999). The axis ends where less than one latency lies beyond
/// a point, because the sample has no information there. Empty if no point is left, or if `from >= to`.
pub fn tail_cdf(sorted: &[u64], from: f64, to: f64, points: usize) -> Vec<TailPoint> {
    if sorted.is_empty() || points == 0 {
        return Vec::new();
    }
    let (first, last) = (nines(from.clamp(0.0, 1.0)), nines(to.clamp(0.0, 1.0)));
    let last = last.min((sorted.len() as f64).log10());
    if first.is_nan() || last.is_nan() || first >= last {
        return Vec::new();
    }
    let step = (last - first) / points.saturating_sub(1).max(1) as f64;
    (0..points)
        .map(|i| {
            let nines = first + step * i as f64;
            let q = 1.0 - 10f64.powf(-nines);
            TailPoint { q, nines, latency_ns: quantile(sorted, q) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenly_spaced_up_to_four_nines() {
        let sorted: Vec<u64> = (1..=1_000_000).collect();
        let tail = tail_cdf(&sorted, 0.8, 0.9999, 50);
        assert_eq!(tail.len(), 50);
        let step = tail[1].nines - tail[0].nines;
        for pair in tail.windows(2) {
            assert!((pair[1].nines - pair[0].nines - step).abs() < 1e-9);
            assert!(pair[1].latency_ns >= pair[0].latency_ns);
        }
        assert_eq!(tail[0].latency_ns, 800_000);
        assert!((tail[49].q - 0.9999).abs() < 1e-12);
        assert_eq!(tail[49].latency_ns, 999_900);
    }

    #[test]
    fn a_small_sample_ends_the_axis_early() {
        let sorted: Vec<u64> = (1..=100).collect();
        let tail = tail_cdf(&sorted, 0.8, 0.9999, 5);
        assert_eq!(tail.len(), 5);
        assert!((tail[4].q - 0.99).abs() < 1e-12);
        assert_eq!(tail[4].latency_ns, 99);
    }

    #[test]
    fn nothing_to_draw() {
        assert!(tail_cdf(&[], 0.8, 0.9999, 9).is_empty());
        assert!(tail_cdf(&[1, 2], 0.8, 0.9999, 9).is_empty());
        assert!(tail_cdf(&[1; 100], 0.9, 0.8, 9).is_empty());
        assert!(tail_cdf(&[1; 100], f64::NAN, 0.8, 9).is_empty());
        assert!(tail_cdf(&[1; 100], 0.8, 0.9, 0).is_empty());
        assert_eq!(tail_cdf(&[1; 100], 0.8, 0.9, 1).len(), 1);
    }
}
