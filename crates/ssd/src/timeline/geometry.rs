// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a page is stored, and how long its transfers take: sizes and times that are computed once from the parameters.

use linnet_types::Nanos;

use super::params::{PAGE_BYTES, Params};

/// Division of 32-bit numbers by a constant, as one wide multiplication. The reciprocal is rounded down and the number
/// incremented (Robison 2005), which is exact for all: with `e = 2^64 - reciprocal * by`, which is in `1..=by`, the
/// product is `2^64 (n + 1) / by` less `e (n + 1) / by`, and `e (n + 1)` is above 0 and at most 2^64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u32,
    /// (2^64 - 1) / by, rounded down.
    reciprocal: u64,
}

impl Divisor {
    pub fn new(by: u32) -> Self {
        Divisor { by, reciprocal: u64::MAX / u64::from(by) }
    }

    #[inline(always)]
    pub fn quotient(self, n: u32) -> u32 {
        ((u128::from(self.reciprocal) * u128::from(u64::from(n) + 1)) >> 64) as u32
    }

    #[inline(always)]
    pub fn remainder(self, n: u32) -> u32 {
        n - self.quotient(n) * self.by
    }
}

/// Physical pages are numbered in the order in which they are written: the pages of a program unit, then the next die,
/// then the next row, then the next superblock. Successive dies in that order are on different channels.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub channels: u32,
    pub dies_per_channel: u32,
    pub dies: u32,
    pub unit_pages: u32,
    pub row_pages: u32,
    pub superblock_pages: u32,
    pub superblocks: u32,
    pub logical_pages: u32,
    by_unit: Divisor,
    by_dies: Divisor,
    by_channels: Divisor,
    by_superblock: Divisor,
    /// Transfer of one 4 KiB page over a channel.
    pub channel_page_ns: Nanos,
    /// Transfer of one program unit over a channel.
    pub channel_unit_ns: Nanos,
    /// Transfer of one flash page over a channel: how long an internal transfer can delay a read.
    pub channel_chunk_ns: Nanos,
    /// Picoseconds per byte of the host link, rounded down.
    link_byte_ps: u64,
    /// tR of the rows of a block, in turn.
    row_read_ns: Vec<Nanos>,
}

impl Geometry {
    /// From validated parameters.
    pub fn new(params: &Params) -> Self {
        let dies = params.channels * params.dies_per_channel;
        let unit_pages = params.unit_pages();
        let superblock_pages = params.superblock_pages() as u32;
        let channel_ns = |bytes: u32| (u64::from(bytes) * 1000).div_ceil(u64::from(params.channel_mb_per_s));
        Geometry {
            channels: params.channels,
            dies_per_channel: params.dies_per_channel,
            dies,
            unit_pages,
            row_pages: unit_pages * dies,
            superblock_pages,
            superblocks: params.blocks_per_plane,
            logical_pages: params.logical_pages(),
            by_unit: Divisor::new(unit_pages),
            by_dies: Divisor::new(dies),
            by_channels: Divisor::new(params.channels),
            by_superblock: Divisor::new(superblock_pages),
            channel_page_ns: channel_ns(PAGE_BYTES),
            channel_unit_ns: channel_ns(unit_pages * PAGE_BYTES),
            channel_chunk_ns: channel_ns(params.flash_page_bytes),
            link_byte_ps: 1_000_000 / u64::from(params.link_mb_per_s),
            row_read_ns: match params.page_type_read_ns.is_empty() {
                true => vec![params.read_ns],
                false => params.page_type_read_ns.clone(),
            },
        }
    }

    #[inline]
    pub fn unit_of(&self, page: u32) -> u32 {
        self.by_unit.quotient(page)
    }

    #[inline]
    pub fn die_of_unit(&self, unit: u32) -> u32 {
        self.by_dies.remainder(unit)
    }

    /// tR of a program unit, by its page type.
    #[inline]
    pub fn read_ns(&self, unit: u32) -> Nanos {
        match self.row_read_ns[..] {
            [only] => only,
            ref types => types[self.by_dies.quotient(unit) as usize % types.len()],
        }
    }

    #[inline]
    pub fn channel_of(&self, die: u32) -> u32 {
        self.by_channels.remainder(die)
    }

    #[inline]
    pub fn superblock_of(&self, page: u32) -> u32 {
        self.by_superblock.quotient(page)
    }

    /// Transfer of this many bytes over the host link.
    #[inline]
    pub fn link_ns(&self, bytes: u64) -> Nanos {
        bytes * self.link_byte_ps / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn division_is_exact(n: u32, by in 1u32..) {
            let divisor = Divisor::new(by);
            prop_assert_eq!(divisor.quotient(n), n / by);
            prop_assert_eq!(divisor.remainder(n), n % by);
        }
    }

    #[test]
    fn the_link_is_at_most_a_picosecond_per_byte_faster_than_its_parameter() {
        for link_mb_per_s in [560, 3_200, 14_000, 31_251, 32_000] {
            let geometry = Geometry::new(&Params { link_mb_per_s, ..Params::preset("consumer-deep").unwrap() });
            let found = (1u64 << 30) as f64 * 1000.0 / geometry.link_ns(1 << 30) as f64;
            let over = found / f64::from(link_mb_per_s) - 1.0;
            assert!((-1e-6..0.0325).contains(&over), "{found:.0} for {link_mb_per_s}");
        }
    }

    #[test]
    fn neighbouring_units_lie_on_different_channels() {
        let geometry = Geometry::new(&Params::preset("consumer-deep").unwrap());
        for unit in 0..geometry.dies {
            let channels = [unit, unit + 1].map(|u| geometry.channel_of(geometry.die_of_unit(u)));
            assert_ne!(channels[0], channels[1]);
        }
        assert_eq!(geometry.die_of_unit(geometry.unit_of(geometry.row_pages)), 0);
        assert_eq!(geometry.superblock_of(geometry.superblock_pages - 1), 0);
        assert_eq!(geometry.superblock_of(geometry.superblock_pages), 1);
    }
}
