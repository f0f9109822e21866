// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram for series that are too long to keep. Values below 256 are exact. Above that, each power of two has 128
//! equal buckets, so the width of a bucket is at most 1/128 of its values and its middle is within 1/256 (0.4 %) of
//! each. Merging two histograms, in any order, gives the histogram of both sets. HdrHistogram and fio's `stat.h` use
//! the same idea; here the precision is fixed, so that any two histograms can be merged.

use crate::rank;

/// `1 << PRECISION_BITS` buckets per power of two.
const PRECISION_BITS: u32 = 7;

/// Counts of values in buckets of bounded relative width.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// A bucket that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Lowest value of the bucket.
    pub low: u64,
    /// Highest value of the bucket.
    pub high: u64,
    /// How many values are in it.
    pub count: u64,
}

fn index_of(value: u64) -> usize {
    let exponent = 63 - (value | 1).leading_zeros();
    let shift = exponent.saturating_sub(PRECISION_BITS);
    ((u64::from(shift) << PRECISION_BITS) + (value >> shift)) as usize
}

fn bounds_of(index: usize) -> (u64, u64) {
    let whole = (index as u64) >> PRECISION_BITS;
    let shift = whole.saturating_sub(1);
    let low = (index as u64 - (shift << PRECISION_BITS)) << shift;
    (low, low + ((1u64 << shift) - 1))
}

impl Histogram {
    /// The largest relative difference between a value and the value reported for it.
    pub const RELATIVE_ERROR: f64 = 1.0 / (1u64 << (PRECISION_BITS + 1)) as f64;

    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value `times` times.
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let index = index_of(value);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += times;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact mean; 0 when empty.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Exact minimum; 0 when empty.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Exact maximum; 0 when empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The nearest-rank quantile, within [`Histogram::RELATIVE_ERROR`]; exact at 0 and 1. 0 when empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = rank(self.count as usize, q) as u64;
        let mut seen = 0;
        for bucket in self.buckets() {
            seen += bucket.count;
            if seen > wanted {
                if wanted == 0 {
                    return self.min;
                }
                if wanted + 1 == self.count {
                    return self.max;
                }
                return (bucket.low + (bucket.high - bucket.low) / 2).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The buckets that are not empty, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, &count)| {
            let (low, high) = bounds_of(index);
            Bucket { low, high, count }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_line() {
        let mut next = 0u64;
        for index in 0.. {
            let (low, high) = bounds_of(index);
            assert_eq!(low, next);
            assert_eq!((index_of(low), index_of(high)), (index, index));
            assert!((high - low) as f64 <= 2.0 * Histogram::RELATIVE_ERROR * low as f64 || low == high);
            if high == u64::MAX {
                break;
            }
            next = high + 1;
        }
    }

    #[test]
    fn empty() {
        let histogram = Histogram::new();
        assert_eq!((histogram.count(), histogram.quantile(0.5), histogram.max()), (0, 0, 0));
        assert_eq!(histogram.mean(), 0.0);
        assert_eq!(histogram.buckets().count(), 0);
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift), 1..200)
    }

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&v| histogram.record(v));
        histogram
    }

    proptest! {
        #[test]
        fn quantiles_keep_the_stated_error(mut set in values(), q in 0.0f64..=1.0) {
            let histogram = of(&set);
            set.sort_unstable();
            let exact = quantile(&set, q);
            let reported = histogram.quantile(q);
            prop_assert!(reported.abs_diff(exact) as f64 <= Histogram::RELATIVE_ERROR * exact as f64);
            prop_assert_eq!(histogram.quantile(1.0), set[set.len() - 1]);
            prop_assert_eq!(histogram.quantile(0.0), set[0]);
        }

        #[test]
        fn merging_is_counting_both(a in values(), b in values()) {
            let both = of(&[a.clone(), b.clone()].concat());
            let mut ab = of(&a);
            ab.merge(&of(&b));
            let mut ba = of(&b);
            ba.merge(&of(&a));
            prop_assert_eq!(&ab, &both);
            prop_assert_eq!(&ba, &both);
            ab.merge(&Histogram::new());
            prop_assert_eq!(&ab, &both);
        }

        #[test]
        fn repeating_is_counting_each(value: u64, times in 0u64..20) {
            let mut many = Histogram::new();
            many.record_many(value, times);
            prop_assert_eq!(many, of(&vec![value; times as usize]));
        }
    }
}
