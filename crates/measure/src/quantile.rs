// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes quantiles (nearest rank), and the summary of quantiles that tables print.

/// Index, from 0, of the nearest-rank quantile `q` in `count` sorted values: that of the lowest value for which the
/// share of values at or below it is at least `q`. `q` is clamped to 0..=1 (0 is the lowest value, 1 the highest). 0
/// for an empty set.
///
/// If `q * count` is above an integer by at most one part in 10^12, it counts as that integer. So 0.07 of 100 values is
/// the seventh value, although the product of the two floats is 7.000000000000001.
pub fn rank(count: usize, q: f64) -> usize {
    let exact = q.clamp(0.0, 1.0) * count as f64;
    let ceiling = (exact * (1.0 - 1e-12)).ceil() as usize;
    ceiling.clamp(1, count.max(1)) - 1
}

/// The nearest-rank quantile of values in ascending order; `q` in 0..=1. 0 when there are no values.
pub fn quantile(sorted: &[u64], q: f64) -> u64 {
    sorted.get(rank(sorted.len(), q)).copied().unwrap_or(0)
}

/// The same quantile of values in any order; it reorders them. Linear in the count. 0 when there are no values.
pub fn quantile_unsorted(values: &mut [u64], q: f64) -> u64 {
    if values.is_empty() {
        return 0;
    }
    let index = rank(values.len(), q);
    *values.select_nth_unstable(index).1
}

/// Mean and quantiles of a set of latencies, in the unit of the values (nanoseconds throughout the project).
/// All zero when the set is empty.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Summary {
    /// How many values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 75th percentile.
    pub p75: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Highest value.
    pub max: u64,
}

impl Summary {
    /// Sorts the values and summarises them.
    pub fn of(values: &mut [u64]) -> Self {
        values.sort_unstable();
        Self::of_sorted(values)
    }

    /// Summarises values in ascending order.
    pub fn of_sorted(sorted: &[u64]) -> Self {
        debug_assert!(sorted.is_sorted());
        if sorted.is_empty() {
            return Self::default();
        }
        let sum: u128 = sorted.iter().map(|&v| u128::from(v)).sum();
        Summary {
            count: sorted.len() as u64,
            mean: sum as f64 / sorted.len() as f64,
            p50: quantile(sorted, 0.50),
            p75: quantile(sorted, 0.75),
            p90: quantile(sorted, 0.90),
            p95: quantile(sorted, 0.95),
            p99: quantile(sorted, 0.99),
            p999: quantile(sorted, 0.999),
            p9999: quantile(sorted, 0.9999),
            max: sorted[sorted.len() - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_to_a_hundred() {
        let values: Vec<u64> = (1..=100).collect();
        for percent in 1..=100u64 {
            assert_eq!(quantile(&values, percent as f64 / 100.0), percent);
        }
        assert_eq!(quantile(&values, 0.0), 1);
        assert_eq!(quantile(&values, 0.001), 1);
        assert_eq!(quantile(&values, 0.501), 51);
    }

    #[test]
    fn out_of_range_and_empty() {
        assert_eq!(quantile(&[3, 4], -1.0), 3);
        assert_eq!(quantile(&[3, 4], 9.0), 4);
        assert_eq!(quantile(&[3, 4], f64::NAN), 3);
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(quantile_unsorted(&mut [], 0.5), 0);
        assert_eq!(Summary::of(&mut []), Summary::default());
    }

    #[test]
    fn summary_of_a_known_set() {
        let mut values: Vec<u64> = (1..=100_000).rev().collect();
        let summary = Summary::of(&mut values);
        assert_eq!(summary.count, 100_000);
        assert_eq!(summary.mean, 50_000.5);
        assert_eq!(
            [summary.p50, summary.p75, summary.p90, summary.p95, summary.p99, summary.p999, summary.p9999, summary.max],
            [50_000, 75_000, 90_000, 95_000, 99_000, 99_900, 99_990, 100_000]
        );
    }

    #[test]
    fn the_mean_does_not_overflow() {
        assert_eq!(Summary::of(&mut [u64::MAX, u64::MAX]).mean, u64::MAX as f64);
    }

    proptest! {
        #[test]
        fn the_share_lies_at_or_below(mut values in prop::collection::vec(0u64..50, 1..200), q in 0.0f64..=1.0) {
            let selected = quantile_unsorted(&mut values.clone(), q);
            values.sort_unstable();
            let v = quantile(&values, q);
            prop_assert_eq!(v, selected);
            let n = values.len() as f64;
            let at_or_below = values.iter().filter(|&&x| x <= v).count() as f64;
            let below = values.iter().filter(|&&x| x < v).count() as f64;
            prop_assert!(at_or_below >= q * n * (1.0 - 1e-12));
            prop_assert!(v == values[0] || below < q * n);
        }
    }
}
