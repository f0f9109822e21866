// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted of the reads that an NFS client sends for one file. The layout of `Cell` is that of `bpf/nfs.h`.

/// Numbers that the BPF program counts, in its order.
const COUNTED: usize = 14;

/// Reads of one file over some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rpcs {
    /// READ calls sent.
    pub reads: u64,
    /// Answered.
    pub done: u64,
    /// Of those, with an error.
    pub failed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Answers whose call was seen.
    pub matched: u64,
    /// Sum of their times from call to answer, in nanoseconds.
    pub latency_ns: u64,
    /// Gaps between consecutive calls. Pauses of a second and more are none.
    pub read_gaps: u64,
    /// Their sum, in nanoseconds.
    pub read_gap_ns: u64,
    /// Gaps between consecutive answers.
    pub done_gaps: u64,
    /// Their sum, in nanoseconds.
    pub done_gap_ns: u64,
    /// Pairs of consecutive calls.
    pub offset_diffs: u64,
    /// Sum of the distances between their offsets, in pages.
    pub offset_pages: u64,
    /// Pairs of pages that entered the page cache one after the other.
    pub index_diffs: u64,
    /// Sum of the distances between them, in pages.
    pub index_pages: u64,
    /// Pages that the whole machine reclaimed meanwhile.
    pub reclaimed: u64,
    /// How long that was, in nanoseconds.
    pub elapsed_ns: u64,
    /// Read size of the mount; it is not summed up.
    pub rsize_bytes: u64,
}

impl Rpcs {
    fn to_array(self) -> [u64; COUNTED + 2] {
        [
            self.reads,
            self.done,
            self.failed,
            self.bytes,
            self.matched,
            self.latency_ns,
            self.read_gaps,
            self.read_gap_ns,
            self.done_gaps,
            self.done_gap_ns,
            self.offset_diffs,
            self.offset_pages,
            self.index_diffs,
            self.index_pages,
            self.reclaimed,
            self.elapsed_ns,
        ]
    }

    fn from_array(all: [u64; COUNTED + 2], rsize_bytes: u64) -> Rpcs {
        let [reads, done, failed, bytes, matched, latency_ns, read_gaps, read_gap_ns, done_gaps, done_gap_ns, ..] = all;
        let [.., offset_diffs, offset_pages, index_diffs, index_pages, reclaimed, elapsed_ns] = all;
        Rpcs {
            reads,
            done,
            failed,
            bytes,
            matched,
            latency_ns,
            read_gaps,
            read_gap_ns,
            done_gaps,
            done_gap_ns,
            offset_diffs,
            offset_pages,
            index_diffs,
            index_pages,
            reclaimed,
            elapsed_ns,
            rsize_bytes,
        }
    }

    fn zip(self, other: Rpcs, with: impl Fn(u64, u64) -> u64) -> Rpcs {
        let (mut left, right) = (self.to_array(), other.to_array());
        for (l, r) in left.iter_mut().zip(right) {
            *l = with(*l, r);
        }
        Rpcs::from_array(left, self.rsize_bytes.max(other.rsize_bytes))
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Rpcs) -> Rpcs {
        self.zip(other, u64::saturating_add)
    }

    /// What was added since `before`. A counter that went back was reset; all of it is new.
    #[must_use]
    pub fn since(self, before: Rpcs) -> Rpcs {
        if self.reads < before.reads { self } else { self.zip(before, u64::saturating_sub) }
    }

    /// True where nothing was sent or answered.
    pub fn is_idle(&self) -> bool {
        self.reads == 0 && self.done == 0
    }

    /// Mean time from call to answer in seconds; None without a pair.
    pub fn latency(&self) -> Option<f64> {
        (self.matched > 0).then(|| self.latency_ns as f64 / self.matched as f64 / 1e9)
    }

    /// Bytes per second of one file; 0 where no time passed. The counters are read after the clock, on a busy processor
    /// long after it: what came over a longer time than the clock says came in that time.
    pub fn rate(&self) -> f64 {
        let elapsed_ns = self.elapsed_ns.max(self.done_gap_ns);
        if elapsed_ns == 0 { 0.0 } else { self.bytes as f64 / (elapsed_ns as f64 / 1e9) }
    }
}

/// One file, as BPF keeps it: counters, then state that is of use to BPF alone.
#[cfg(feature = "bpf")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Cell {
    counted: [u64; COUNTED],
    state: [u64; 4],
}

#[cfg(feature = "bpf")]
impl Cell {
    /// The counters alone.
    pub(crate) fn rpcs(&self) -> Rpcs {
        let mut all = [0; COUNTED + 2];
        all[..COUNTED].copy_from_slice(&self.counted);
        Rpcs::from_array(all, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_sums() {
        let before = Rpcs { reads: 3, bytes: 100, ..Rpcs::default() };
        let after = Rpcs { reads: 5, bytes: 300, index_pages: 7, rsize_bytes: 4096, ..Rpcs::default() };
        let since = after.since(before);
        assert_eq!((since.reads, since.bytes, since.index_pages, since.rsize_bytes), (2, 200, 7, 4096));
        assert_eq!(since.plus(before), after);
        assert_eq!(before.since(after), before, "a counter that was reset");
    }

    #[test]
    fn each_number_keeps_its_place() {
        let mut all = [0; COUNTED + 2];
        for (number, at) in all.iter_mut().zip(1..) {
            *number = at;
        }
        assert_eq!(Rpcs::from_array(all, 0).to_array(), all);
        let rpcs = Rpcs::from_array(all, 0);
        assert_eq!((rpcs.reads, rpcs.done_gap_ns, rpcs.offset_diffs, rpcs.index_pages), (1, 10, 11, 14));
    }

    #[test]
    fn latency_and_rate() {
        let rpcs =
            Rpcs { matched: 4, latency_ns: 8_000_000, bytes: 1 << 20, elapsed_ns: 500_000_000, ..Rpcs::default() };
        assert_eq!((rpcs.latency(), rpcs.rate()), (Some(0.002), f64::from(2 << 20)));
        assert_eq!((Rpcs::default().latency(), Rpcs::default().rate()), (None, 0.0));
        let late = Rpcs { done_gap_ns: 1_000_000_000, ..rpcs };
        assert_eq!(late.rate(), f64::from(1 << 20), "the answers came over a second");
    }
}
