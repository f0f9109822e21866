// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted for one file. The layout is that of `core/reads.h`.

pub use linnet_core::{DISTANCES, READ_NUMBERS as NUMBERS, ReadCounts as Counts, SIZES};

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
const _: () = assert!(size_of::<Cell>() == 60 * 8);

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
        assert_eq!(before.since(after), before, "a counter that was reset");
        assert!(after.since(after).is_idle());
    }
}
