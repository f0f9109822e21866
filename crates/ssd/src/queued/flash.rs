// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planes, blocks and the page map of the queued model. Nothing here takes time.

use std::collections::VecDeque;

use super::params::QueuedParams;

/// Means no page.
pub(super) const NONE: u32 = u32::MAX;

/// A plane, by chip, die and plane number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the chip among all chips of the device: channel x chips per channel + chip.
    pub chip: u32,
    pub die: u32,
    pub plane: u32,
    /// Index of the plane among all planes.
    pub index: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    pub valid: u32,
    pub written: u32,
    pub erases: u32,
    /// Programs in flight; a block with any cannot become a victim.
    pub programming: u32,
    pub collecting: bool,
    /// The plane's count of programs when the block was last written.
    pub stamp: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Plane {
    pub blocks: Vec<Block>,
    pub free: VecDeque<u32>,
    /// Open blocks for host data and for relocated data.
    pub open: [u32; 2],
    pub collecting: u32,
    /// Valid pages of victims that have no new place yet.
    pub moving: u32,
    pub programs: u64,
}

/// The kinds of open block in a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Host = 0,
    Relocated = 1,
}

#[derive(Clone, Debug)]
pub(super) struct Flash {
    pub planes: Vec<Plane>,
    /// Physical page (plane x blocks x pages) of each logical page.
    pub l2p: Vec<u32>,
    pub p2l: Vec<u32>,
    /// Which sectors of each logical page were ever written.
    pub written: Vec<u64>,
    pub pages_per_block: u32,
    blocks_per_plane: u32,
    /// Divisors in the order of placement: (size, letter).
    order: [(u32, u8); 4],
    chips_per_channel: u32,
    dies_per_chip: u32,
    planes_per_die: u32,
}

impl Flash {
    /// Blocks that were erased since the device was new.
    pub fn erased(&self) -> u64 {
        self.planes.iter().flat_map(|plane| &plane.blocks).map(|block| u64::from(block.erases)).sum()
    }

    pub fn new(params: &QueuedParams) -> Self {
        let plane = Plane {
            blocks: vec![Block::default(); params.blocks_per_plane as usize],
            free: (2 + params.reserved_blocks_per_plane..params.blocks_per_plane).collect(),
            open: [0, 1],
            collecting: 0,
            moving: 0,
            programs: 0,
        };
        let size = |letter| match letter {
            b'C' => params.channels,
            b'W' => params.chips_per_channel,
            b'D' => params.dies_per_chip,
            _ => params.planes_per_die,
        };
        let mut order = [(1, b'C'); 4];
        for (slot, letter) in order.iter_mut().zip(params.placement.bytes()) {
            *slot = (size(letter), letter);
        }
        let planes = params.planes();
        let physical = planes as usize * params.blocks_per_plane as usize * params.pages_per_block as usize;
        Flash {
            planes: vec![plane; planes as usize],
            l2p: vec![NONE; params.logical_pages() as usize],
            p2l: vec![NONE; physical],
            written: vec![0; params.logical_pages() as usize],
            pages_per_block: params.pages_per_block,
            blocks_per_plane: params.blocks_per_plane,
            order,
            chips_per_channel: params.chips_per_channel,
            dies_per_chip: params.dies_per_chip,
            planes_per_die: params.planes_per_die,
        }
    }

    /// The plane of a logical page.
    pub fn place(&self, page: u32) -> Place {
        let mut rest = page;
        let mut of = [0u32; 4];
        for (size, letter) in self.order {
            let part = rest % size;
            rest /= size;
            match letter {
                b'C' => of[0] = part,
                b'W' => of[1] = part,
                b'D' => of[2] = part,
                _ => of[3] = part,
            }
        }
        let chip = of[0] * self.chips_per_channel + of[1];
        let index = (chip * self.dies_per_chip + of[2]) * self.planes_per_die + of[3];
        Place { chip, die: of[2], plane: of[3], index }
    }

    pub fn physical(&self, plane: u32, block: u32, page: u32) -> u32 {
        (plane * self.blocks_per_plane + block) * self.pages_per_block + page
    }

    pub fn block_of(&self, physical: u32) -> (u32, u32) {
        let block = physical / self.pages_per_block;
        (block / self.blocks_per_plane, block % self.blocks_per_plane)
    }

    /// Number of the page within its block. The pages of a multi-plane command must have the same number.
    pub fn number_of(&self, physical: u32) -> u32 {
        physical % self.pages_per_block
    }

    /// Pages that relocation can use without the last free block, minus those that are already reserved.
    pub fn room(&self, plane: u32) -> u64 {
        let at = &self.planes[plane as usize];
        let open = &at.blocks[at.open[Stream::Relocated as usize] as usize];
        let free = (at.free.len() as u64).saturating_sub(1) * u64::from(self.pages_per_block);
        (free + u64::from(self.pages_per_block - open.written)).saturating_sub(at.moving.into())
    }

    /// True if the host may use a page: if this opens a block, the rest must be enough for relocation to free another
    /// one.
    pub fn host_may_write(&self, plane: u32) -> bool {
        let at = &self.planes[plane as usize];
        let opens = at.blocks[at.open[Stream::Host as usize] as usize].written + 1 == self.pages_per_block;
        let room = self.room(plane) >= u64::from(self.pages_per_block);
        !opens || room && (at.collecting > 0 || at.free.len() >= 3)
    }

    pub fn invalidate(&mut self, page: u32) {
        let old = std::mem::replace(&mut self.l2p[page as usize], NONE);
        if old != NONE {
            self.p2l[old as usize] = NONE;
            let (plane, block) = self.block_of(old);
            self.planes[plane as usize].blocks[block as usize].valid -= 1;
        }
    }

    /// Maps a page to the next place of its plane. Returns the physical page, and whether a new block had to be opened.
    pub fn append(&mut self, page: u32, plane: u32, stream: Stream) -> (u32, bool) {
        self.invalidate(page);
        let pages_per_block = self.pages_per_block;
        let at = &mut self.planes[plane as usize];
        let block = at.open[stream as usize];
        at.programs += 1;
        let stamp = at.programs;
        let entry = &mut at.blocks[block as usize];
        let number = entry.written;
        entry.written += 1;
        entry.valid += 1;
        entry.programming += 1;
        entry.stamp = stamp;
        let full = entry.written == pages_per_block;
        if full {
            at.open[stream as usize] =
                at.free.pop_front().expect("room is kept for relocation (host_may_write, collect_if_short)");
        }
        let physical = self.physical(plane, block, number);
        self.l2p[page as usize] = physical;
        self.p2l[physical as usize] = page;
        (physical, full)
    }

    /// Checks that every page is in one place and that the counts add up.
    pub fn check(&self) -> Result<(), String> {
        let mut valid = 0usize;
        for (page, &physical) in (0u32..).zip(&self.l2p) {
            if physical == NONE {
                continue;
            }
            valid += 1;
            if self.p2l[physical as usize] != page {
                return Err(format!(
                    "page {page} is mapped to {physical}, which holds {}",
                    self.p2l[physical as usize]
                ));
            }
            if self.block_of(physical).0 != self.place(page).index {
                return Err(format!("page {page} lies on a plane that it does not belong to"));
            }
        }
        let counted: usize = self.planes.iter().flat_map(|p| &p.blocks).map(|b| b.valid as usize).sum();
        if counted != valid || self.p2l.iter().filter(|&&page| page != NONE).count() != valid {
            return Err(format!("{valid} pages are mapped, blocks count {counted}"));
        }
        Ok(())
    }
}
