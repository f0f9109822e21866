// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a window of reads looks like, in numbers that do not grow with the file, with the machine's speed or with the
//! value that we set.
//!
//! `used_share` and `added_per_page` follow our own action; a decider must not take them as signs of the workload. They are
//! the reward: what the value in force costs.

use crate::observe::{Counts, DISTANCES};

/// Names of the entries of `Features::row`, in order. A model file names its schema `readahead-1` after this list.
pub const NAMES: [&str; 8] = [
    "local_share",
    "reverse_share",
    "run_pages_log2",
    "near_share",
    "far_share",
    "spread",
    "request_pages_log2",
    "mapped_share",
];

/// A window in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features {
    /// Demands that the numbers rest on.
    pub accesses: u64,
    /// Places between which the demands jumped.
    pub jumps: u64,
    /// Share of demands that continue a sequence, upwards or downwards.
    pub local_share: f64,
    /// Of those, the share that goes downwards.
    pub reverse_share: f64,
    /// Pages demanded between two jumps.
    pub run_pages: f64,
    /// Share of distances below 2^5 pages.
    pub near_share: f64,
    /// Share of distances of 2^10 pages and more.
    pub far_share: f64,
    /// Entropy of the distances' sizes, 0 to 1.
    pub spread: f64,
    /// Pages of a read(), the middle one; 1 for faults.
    pub request_pages: f64,
    /// Share of demands through mappings.
    pub mapped_share: f64,
    /// Reward: share of the pages brought that were demanded soon.
    pub used_share: f64,
    /// Reward: pages brought for each one demanded.
    pub added_per_page: f64,
    /// Reward: times that something was brought, for each page demanded.
    pub batches_per_page: f64,
    /// Pages brought.
    pub added: u64,
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// log2 of the middle read.
fn middle(size: &[u64]) -> f64 {
    let total: u64 = size.iter().sum();
    let mut seen = 0;
    for (log, count) in size.iter().enumerate() {
        seen += count;
        if total > 0 && 2 * seen >= total {
            return (1u64 << log) as f64;
        }
    }
    1.0
}

fn entropy(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let bits: f64 = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = share(*count, total);
            -share * share.log2()
        })
        .sum();
    bits / (DISTANCES as f64).log2()
}

impl Features {
    /// The numbers of a window. Where the kernel does not tell demands (before 6.12), the pages brought stand for them.
    pub fn of(counts: &Counts, demands: bool) -> Features {
        if !demands {
            return Features::of_added(counts);
        }
        let local = counts.forward + counts.reverse;
        let distances: u64 = counts.distance.iter().sum();
        Features {
            accesses: counts.accesses,
            jumps: counts.jumps,
            local_share: share(local, counts.accesses),
            reverse_share: share(counts.reverse, local),
            run_pages: counts.pages as f64 / (counts.jumps.max(1)) as f64,
            near_share: share(counts.distance[..5].iter().sum(), distances),
            far_share: share(counts.distance[10..].iter().sum(), distances),
            spread: entropy(&counts.distance),
            request_pages: middle(&counts.size),
            mapped_share: share(counts.faults.min(counts.accesses), counts.accesses),
            used_share: share(counts.used.min(counts.added), counts.added),
            added_per_page: counts.added as f64 / counts.pages.max(1) as f64,
            batches_per_page: counts.batches as f64 / counts.pages.max(1) as f64,
            added: counts.added,
        }
    }

    /// From batches alone: a scan's batches join, so that few begin; each random read begins one.
    fn of_added(counts: &Counts) -> Features {
        // A batch that joins another one is not counted as begun; its pages are. 32 pages are one of the default's batches.
        let joined = (counts.added / 32).saturating_sub(counts.batches);
        Features {
            accesses: counts.batches + joined,
            jumps: counts.batches,
            local_share: share(joined, counts.batches + joined),
            reverse_share: 0.0,
            run_pages: if joined > counts.batches { counts.added as f64 / counts.batches.max(1) as f64 } else { 1.0 },
            near_share: 0.0,
            far_share: 0.0,
            spread: 0.0,
            request_pages: 1.0,
            mapped_share: 0.0,
            used_share: 0.0,
            added_per_page: 0.0,
            batches_per_page: 0.0,
            added: counts.added,
        }
    }

    /// The inputs of a model, each of the order of 1.
    pub fn row(&self) -> [f32; NAMES.len()] {
        [
            self.local_share as f32,
            self.reverse_share as f32,
            (self.run_pages.max(1.0).log2() / 8.0).min(2.0) as f32,
            self.near_share as f32,
            self.far_share as f32,
            self.spread as f32,
            (self.request_pages.max(1.0).log2() / 8.0) as f32,
            self.mapped_share as f32,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(accesses: u64, pages_each: u64) -> Counts {
        let mut counts = Counts {
            accesses,
            pages: accesses * pages_each,
            jumps: accesses,
            faults: accesses,
            added: 32 * accesses,
            used: accesses * pages_each,
            batches: accesses,
            ..Counts::default()
        };
        counts.distance[12] = accesses / 2;
        counts.distance[15] = accesses - accesses / 2;
        counts
    }

    #[test]
    fn random_reads_through_a_mapping() {
        let features = Features::of(&random(1000, 1), true);
        assert_eq!((features.local_share, features.run_pages, features.far_share), (0.0, 1.0, 1.0));
        assert_eq!((features.mapped_share, features.added_per_page), (1.0, 32.0));
        assert!((features.used_share - 1.0 / 32.0).abs() < 1e-9);
        assert!((features.spread - 0.25).abs() < 1e-9, "two sizes of sixteen: one bit of four");
    }

    #[test]
    fn features_do_not_grow_with_time() {
        let (short, long) = (Features::of(&random(100, 2), true), Features::of(&random(100_000, 2), true));
        assert_eq!(short.row(), long.row());
    }

    #[test]
    fn an_empty_window_is_finite() {
        for demands in [true, false] {
            let features = Features::of(&Counts::default(), demands);
            assert!(features.row().iter().all(|value| value.is_finite()), "{features:?}");
        }
    }

    #[test]
    fn batches_stand_for_demands_where_the_kernel_does_not_tell_them() {
        let scan = Counts { added: 32_000, batches: 3, ..Counts::default() };
        let random = Counts { added: 32_000, batches: 1000, ..Counts::default() };
        assert!(Features::of(&scan, false).run_pages > 1000.0);
        assert!(Features::of(&random, false).run_pages < 2.0);
    }
}
