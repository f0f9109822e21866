// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings a new device of the queued model into the state after long use.

use linnet_sim::Chance;

use super::engine::{QueuedSsd, QueuedStats};
use super::flash::{Block, NONE, Stream};
use crate::precondition::{ALIKE, EXTENTS, Settled, WINDOW_SHARE, WINDOWS_MAX};

/// Extents are multiples of this.
const EXTENT_BYTES: u64 = 4096;

impl QueuedSsd {
    /// Simulates long use: writes every logical page, then overwrites at random until garbage collection runs at a
    /// steady write amplification, as [`crate::Ssd::precondition`] does. Changes the maps only: no time passes.
    /// Afterwards the device is idle at time 0, its statistics are zero, and its previous contents are lost. The seed
    /// determines what is overwritten. Returns how steady that is.
    pub fn precondition(&mut self, seed: u64) -> Settled {
        self.write_once();
        let pages = self.params.logical_pages();
        let mut chance = Chance::new(seed).fork(3);
        let window = ((f64::from(pages) * WINDOW_SHARE) as u64).max(1);
        let used = u64::from(self.params.blocks_per_plane - self.params.reserved_blocks_per_plane);
        let blocks = u64::from(self.params.planes()) * used;
        let (mut settled, mut windows) = (Settled::default(), 0);
        while !settled.steady && windows < WINDOWS_MAX {
            let (moved, written) = self.overwrite(window, &mut chance);
            let amplification = 1.0 + moved as f64 / window as f64;
            let collected = self.flash.erased() >= blocks;
            let alike = (amplification / settled.amplification - 1.0).abs() < ALIKE;
            let steady = collected && alike;
            windows += u32::from(collected);
            settled = Settled { pages: settled.pages + written, amplification, steady };
        }
        self.stats = QueuedStats::default();
        settled
    }

    /// Writes every logical page once, in order, as a rebuild does. Changes the maps only: no time passes. Afterwards the
    /// device is idle at time 0, its statistics are zero, and its previous contents are lost.
    pub fn write_once(&mut self) {
        if let Ok(new) = QueuedSsd::new(&self.params.clone()) {
            *self = new;
        }
        for page in 0..self.params.logical_pages() {
            self.settle(page);
        }
        self.stats = QueuedStats::default();
    }

    /// Overwrites at least this many pages at random places. Returns how many pages were moved to free space, and how
    /// many were overwritten.
    fn overwrite(&mut self, window: u64, chance: &mut Chance) -> (u64, u64) {
        let pages = self.params.logical_pages();
        let (mut moved, mut written) = (0, 0);
        while written < window {
            let first = chance.below(pages.into()) as u32;
            let bytes = EXTENT_BYTES << chance.below(EXTENTS);
            let extent = bytes.div_ceil(self.params.page_bytes.into()) as u32;
            for page in first..first.saturating_add(extent).min(pages) {
                moved += self.settle(page);
                written += 1;
            }
        }
        (moved, written)
    }

    /// Maps a whole page of host data. Returns how many pages were moved to free space.
    fn settle(&mut self, page: u32) -> u64 {
        let plane = self.flash.place(page).index;
        let mut moved = 0;
        while self.wants_room(plane)
            && let Some(more) = self.collect_at_once(plane)
        {
            moved += more;
        }
        let sectors = self.params.page_bytes / 512;
        self.flash.written[page as usize] = super::host::mask(0, sectors);
        self.append_at_once(page, plane, Stream::Host);
        moved
    }

    fn wants_room(&self, plane: u32) -> bool {
        let free = self.flash.planes[plane as usize].free.len() as u32;
        free < self.params.gc_start_blocks() || !self.flash.host_may_write(plane)
    }

    /// Collects one victim of the plane, if there is one and its valid pages fit. Returns how many pages were moved.
    fn collect_at_once(&mut self, plane: u32) -> Option<u64> {
        let block = self.victim(plane)?;
        let valid = u64::from(self.flash.planes[plane as usize].blocks[block as usize].valid);
        if self.flash.room(plane) < valid {
            return None;
        }
        let first = self.flash.physical(plane, block, 0);
        for physical in first..first + self.flash.pages_per_block {
            let page = self.flash.p2l[physical as usize];
            if page != NONE {
                self.append_at_once(page, plane, Stream::Relocated);
            }
        }
        let state = &mut self.flash.planes[plane as usize];
        let erased = &mut state.blocks[block as usize];
        *erased = Block { erases: erased.erases + 1, ..Block::default() };
        state.free.push_back(block);
        Some(valid)
    }

    fn append_at_once(&mut self, page: u32, plane: u32, stream: Stream) {
        let (physical, _) = self.flash.append(page, plane, stream);
        let (plane, block) = self.flash.block_of(physical);
        self.flash.planes[plane as usize].blocks[block as usize].programming -= 1;
    }
}
