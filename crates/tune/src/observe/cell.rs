// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted for one file. The layout is that of `bpf/readahead.h`.

/// Buckets of log2 of the distance between demands.
pub const DISTANCES: usize = 16;
/// Buckets of log2 of a read's pages.
pub const SIZES: usize = 8;

/// Counters of one file, in pages of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Demands: reads, and faults of mappings.
    pub accesses: u64,
    /// Pages demanded.
    pub pages: u64,
    /// Demands of pages that were demanded just before.
    pub repeats: u64,
    /// Demands that continue a sequence upwards.
    pub forward: u64,
    /// Demands that continue one downwards.
    pub reverse: u64,
    /// Demands elsewhere.
    pub jumps: u64,
    /// Of the demands, those through a mapping.
    pub faults: u64,
    /// Pages brought into memory.
    pub added: u64,
    /// Of those, pages demanded soon after.
    pub used: u64,
    /// Times that pages were brought from elsewhere than where the last ones ended.
    pub batches: u64,
    /// Calls of the kernel's readahead, where it tells.
    pub readaheads: u64,
    /// log2 of the distance from the end of a demand to the next.
    pub distance: [u64; DISTANCES],
    /// log2 of the pages of a read.
    pub size: [u64; SIZES],
}

/// Numbers in `Counts`.
const NUMBERS: usize = 11 + DISTANCES + SIZES;

impl Counts {
    fn to_array(self) -> [u64; NUMBERS] {
        let mut all = [0; NUMBERS];
        let head = [
            self.accesses,
            self.pages,
            self.repeats,
            self.forward,
            self.reverse,
            self.jumps,
            self.faults,
            self.added,
            self.used,
            self.batches,
            self.readaheads,
        ]; // as in readahead.h
        all[..11].copy_from_slice(&head);
        all[11..11 + DISTANCES].copy_from_slice(&self.distance);
        all[11 + DISTANCES..].copy_from_slice(&self.size);
        all
    }

    fn from_array(all: [u64; NUMBERS]) -> Counts {
        let [accesses, pages, repeats, forward, reverse, jumps, faults, added, used, batches, readaheads, ..] = all;
        let mut counts = Counts {
            accesses,
            pages,
            repeats,
            forward,
            reverse,
            jumps,
            faults,
            added,
            used,
            batches,
            readaheads,
            ..Counts::default()
        };
        counts.distance.copy_from_slice(&all[11..11 + DISTANCES]);
        counts.size.copy_from_slice(&all[11 + DISTANCES..]);
        counts
    }

    fn zip(self, other: Counts, with: impl Fn(u64, u64) -> u64) -> Counts {
        let (mut left, right) = (self.to_array(), other.to_array());
        for (l, r) in left.iter_mut().zip(right) {
            *l = with(*l, r);
        }
        Counts::from_array(left)
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Counts) -> Counts {
        self.zip(other, u64::saturating_add)
    }

    /// What was added since `before`. A counter that went back began anew.
    #[must_use]
    pub fn since(self, before: Counts) -> Counts {
        if self.accesses < before.accesses || self.added < before.added {
            return self;
        }
        self.zip(before, u64::saturating_sub)
    }

    /// True where nothing happened.
    pub fn is_idle(&self) -> bool {
        self.accesses == 0 && self.added == 0 && self.repeats == 0
    }
}

/// One file, control group and CPU, as BPF keeps it: counters, then state that is of use to BPF alone.
#[cfg(feature = "bpf")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Cell {
    /// The counters.
    pub counts: Counts,
    /// First page of the last demand.
    pub start: u64,
    /// The page after its last.
    pub end: u64,
    state: [u64; 2 + 4 + 16 + 1],
    /// The process that demanded last.
    pub process: u32,
    folio: u32,
}

#[cfg(feature = "bpf")]
const _: () = assert!(size_of::<Cell>() == 61 * 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_sums() {
        let before = Counts { accesses: 3, added: 10, distance: [1; DISTANCES], ..Counts::default() };
        let after = Counts { accesses: 5, added: 30, distance: [4; DISTANCES], ..Counts::default() };
        let since = after.since(before);
        assert_eq!((since.accesses, since.added, since.distance[15]), (2, 20, 3));
        assert_eq!(since.plus(before), after);
        assert_eq!(before.since(after), before, "began anew");
        assert!(after.since(after).is_idle());
    }
}
