// SPDX-License-Identifier: MIT OR Apache-2.0
//! Offsets of the I/Os: popular and unpopular extents, sequential runs, and a share that is not aligned to 4 KiB.

use linnet_sim::Chance;
use linnet_types::Op;

use super::Shape;

const EXTENT_BYTES: u64 = 1 << 20;
const PAGE: u64 = 4096;
const SECTOR: u64 = 512;

pub(super) struct Places {
    chance: Chance,
    footprint: u64,
    extents: u64,
    /// Multiplier that spreads popular extents over the footprint; coprime to their number.
    scatter: u64,
    skew: f64,
    sequential_share: f64,
    unaligned_share: f64,
    /// The ends of the last read and the last write.
    ends: [u64; 2],
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Places {
    pub fn new(shape: &Shape, mut chance: Chance) -> Places {
        let extents = (shape.footprint_bytes / EXTENT_BYTES).max(1);
        let mut scatter = (extents as f64 * 0.618) as u64 + 1 + chance.below(extents.min(1 << 16));
        while gcd(scatter, extents) != 1 {
            scatter += 1;
        }
        let footprint = shape.footprint_bytes / PAGE * PAGE;
        let ends = [chance.below(extents) * EXTENT_BYTES, chance.below(extents) * EXTENT_BYTES];
        Places {
            chance,
            footprint,
            extents,
            scatter,
            skew: shape.skew,
            sequential_share: shape.sequential_share,
            unaligned_share: shape.unaligned_share,
            ends,
        }
    }

    /// Offset and size of the next I/O. `size` is unchanged, except for unaligned I/Os larger than a page and below
    /// `most`.
    pub fn next(&mut self, op: Op, size: u32, most: u32) -> (u64, u32) {
        let last_start = self.footprint - u64::from(size) - 2 * PAGE;
        let offset = if self.chance.happens(self.sequential_share) {
            // Aligned again, so that only the given share is unaligned.
            self.ends[op as usize].next_multiple_of(PAGE)
        } else {
            let popular = (self.extents as f64 * self.chance.unit().powf(self.skew)) as u64;
            let extent = (u128::from(popular) * u128::from(self.scatter) % u128::from(self.extents)) as u64;
            extent * EXTENT_BYTES + self.chance.below(EXTENT_BYTES / PAGE) * PAGE
        };
        let offset = if offset > last_start { offset % (last_start / PAGE + 1) / PAGE * PAGE } else { offset };
        let (offset, size) = if self.chance.happens(self.unaligned_share) {
            let shift = (1 + self.chance.below(PAGE / SECTOR - 1)) * SECTOR;
            (offset + shift, self.odd(size, most))
        } else {
            (offset, size)
        };
        self.ends[op as usize] = offset + u64::from(size);
        (offset, size)
    }

    /// A size up to seven sectors smaller or larger, with the same average.
    fn odd(&mut self, size: u32, most: u32) -> u32 {
        if size <= PAGE as u32 || size >= most {
            return size;
        }
        let sectors = self.chance.below(15) as u32;
        size + sectors * SECTOR as u32 - 7 * SECTOR as u32
    }
}
