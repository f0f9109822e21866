// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a window of reads looks like, in numbers that do not grow with the file, with the machine's speed or with the
//! value that we set.
//!
//! `used_share` and `added_per_page` follow our own action; a decider must not take them as signs of the workload. They
//! are the reward: what the value in force costs. The core computes them (`core/pattern.c`), as it does in the kernel
//! module.

use linnet_core::ReadPattern;

use crate::nfs::rpc::Rpcs;
use crate::observe::Counts;

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
    /// The same as the core has it, which decides.
    pub pattern: ReadPattern,
    /// What an NFS client sent for the file; the governor fills it in.
    pub rpcs: Rpcs,
}

/// A multiple of 1/65,536.
fn q16(number: u64) -> f64 {
    number as f64 / 65_536.0
}

impl Features {
    /// The numbers of a window. Where the kernel does not tell demands (before 6.12), the pages brought stand for them.
    pub fn of(counts: &Counts, demands: bool) -> Features {
        let pattern = ReadPattern::of(counts, demands);
        Features {
            accesses: pattern.accesses,
            jumps: pattern.jumps,
            local_share: q16(pattern.local_q16.into()),
            reverse_share: q16(pattern.reverse_q16.into()),
            run_pages: q16(pattern.run_pages_q16),
            near_share: q16(pattern.near_q16.into()),
            far_share: q16(pattern.far_q16.into()),
            spread: q16(pattern.spread_q16.into()),
            request_pages: pattern.request_pages.into(),
            mapped_share: q16(pattern.mapped_q16.into()),
            used_share: q16(pattern.used_q16.into()),
            added_per_page: q16(pattern.added_each_q16),
            batches_per_page: q16(pattern.batches_each_q16),
            added: pattern.added,
            pattern,
            rpcs: Rpcs::default(),
        }
    }

    /// The inputs of a model, each of the order of 1.
    pub fn row(&self) -> [f32; NAMES.len()] {
        self.pattern.row()
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
