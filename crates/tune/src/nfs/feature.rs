// SPDX-License-Identifier: MIT OR Apache-2.0
//! The eight features of KML's network for NFS (Akgun et al., "Improving Storage Systems Using Machine Learning",
//! section 3.2), per file and second.
//!
//! What differs from the published code:
//! - Offsets and their differences are 64-bit and in pages. There they are bytes in a 32-bit integer, which wraps.
//! - Differences are between reads of the same file. There they cross from file to file.
//! - A read is paired with its answer by file and offset. There one slot per hash of a file handle keeps one read.
//! - Pauses of a second and more are no gaps. Counts are per second of the window's true length.
//! - Each number is a logarithm, so that slow links and large files stay within the range of the training data.

use crate::nfs::rpc::Rpcs;

/// Names of the features, in order. A model file names its schema `nfs-1` after this list.
pub const NAMES: [&str; 8] = [
    "reads_per_s",
    "latency_us",
    "read_gap_us",
    "done_gap_us",
    "offset_diff_pages",
    "index_diff_pages",
    "reclaimed_pages_per_s",
    "rsize_kib",
];

fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

/// The numbers of a window before the logarithm, in the units of `NAMES`.
pub fn values(rpcs: &Rpcs) -> [f64; 8] {
    let seconds = rpcs.elapsed_ns as f64 / 1e9;
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    [
        per_second(rpcs.reads),
        mean(rpcs.latency_ns, rpcs.matched) / 1e3,
        mean(rpcs.read_gap_ns, rpcs.read_gaps) / 1e3,
        mean(rpcs.done_gap_ns, rpcs.done_gaps) / 1e3,
        mean(rpcs.offset_pages, rpcs.offset_diffs),
        mean(rpcs.index_pages, rpcs.index_diffs),
        per_second(rpcs.reclaimed),
        rpcs.rsize_bytes as f64 / 1024.0,
    ]
}

/// The inputs of a model: log2(1 + value) / 8, each from 0 to 8.
pub fn row(rpcs: &Rpcs) -> [f32; 8] {
    values(rpcs).map(|value| ((1.0 + value).log2() / 8.0) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Rpcs {
        Rpcs {
            reads: 200,
            matched: 100,
            latency_ns: 500_000_000,
            read_gaps: 10,
            read_gap_ns: 1_000_000,
            done_gaps: 10,
            done_gap_ns: 2_000_000,
            offset_diffs: 4,
            offset_pages: 4 << 32,
            index_diffs: 2,
            index_pages: 6,
            reclaimed: 50,
            elapsed_ns: 2_000_000_000,
            rsize_bytes: 1 << 20,
            ..Rpcs::default()
        }
    }

    #[test]
    fn values_have_the_units_of_their_names() {
        let far = f64::from(u32::MAX) + 1.0;
        assert_eq!(values(&window()), [100.0, 5000.0, 100.0, 200.0, far, 3.0, 25.0, 1024.0]);
    }

    #[test]
    fn rows_are_finite_and_small() {
        for rpcs in [window(), Rpcs::default(), Rpcs { offset_pages: u64::MAX, offset_diffs: 1, ..Rpcs::default() }] {
            assert!(row(&rpcs).iter().all(|value| (0.0..=8.0).contains(value)), "{:?}", row(&rpcs));
        }
    }

    #[test]
    fn a_longer_window_of_the_same_kind_gives_the_same_row() {
        let twice = window().plus(window());
        assert_eq!(row(&twice), row(&window()));
    }
}
