// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings a new device into the state after long use.

use std::ops::Range;

use linnet_sim::Chance;

use super::machine::Machine;
use crate::ASKED_EVERY;
use crate::precondition::{ALIKE, EXTENTS, Settled, WINDOW_SHARE, WINDOWS_MAX};

/// What comes before a window may be the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least {
    /// Windows that are compared with none before them.
    pub windows: u32,
    /// Superblocks that the drive has erased since it was new; windows until then do not count towards the limit.
    pub erases: u64,
}

impl Machine {
    /// Writes every logical page once, in order, then overwrites at random until write amplification is steady. Changes
    /// the maps only: no time passes. The device must be new.
    pub fn precondition(&mut self, mut chance: Chance) -> Settled {
        let geometry = self.geometry.clone();
        let unit_pages = geometry.unit_pages as usize;
        let mut unit = Vec::with_capacity(unit_pages);
        for page in 0..geometry.logical_pages {
            self.fill(&mut unit, page);
        }
        let anywhere = std::iter::repeat_with(|| {
            let first = chance.below(u64::from(geometry.logical_pages)) as u32;
            let extent = 1 << chance.below(EXTENTS);
            first..(first + extent).min(geometry.logical_pages)
        });
        let least = Least { windows: 0, erases: geometry.superblocks.into() };
        self.overwrite_until_steady(anywhere, geometry.logical_pages, least, unit)
    }

    /// Overwrites these pages until write amplification is steady: in windows of a share of `space` pages, of which the
    /// first ones are not compared, as `least` says. Changes the maps only: no time passes. `unit` has pages that wait to
    /// be written.
    pub fn overwrite_until_steady(
        &mut self,
        writes: impl Iterator<Item = Range<u32>>,
        space: u32,
        least: Least,
        mut unit: Vec<u32>,
    ) -> Settled {
        let window = ((f64::from(space) * WINDOW_SHARE) as u64).max(1);
        let (mut moved, mut written, mut windows, mut compared) = (0, 0, 0, 0);
        let mut settled = Settled::default();
        for pages in writes {
            written += u64::from(pages.end - pages.start);
            for page in pages {
                moved += self.fill(&mut unit, page);
            }
            if written >= window {
                let amplification = 1.0 + moved as f64 / window as f64;
                let collected = self.ftl.erased() >= least.erases;
                let alike = (amplification / settled.amplification - 1.0).abs() < ALIKE;
                let steady = collected && windows > least.windows && alike;
                windows += 1;
                compared += u32::from(collected);
                settled = Settled { pages: settled.pages + written, amplification, steady };
                (moved, written) = (0, 0);
                if steady || compared == WINDOWS_MAX {
                    break;
                }
            }
        }
        if !unit.is_empty() {
            self.settle_unit(&unit);
        }
        settled
    }

    /// Writes the first pages once, in order. Changes the maps only: no time passes. The device must be new.
    pub fn write_once(&mut self, pages: u32) {
        let mut unit = Vec::with_capacity(self.geometry.unit_pages as usize);
        for page in 0..pages.min(self.geometry.logical_pages) {
            self.fill(&mut unit, page);
        }
        if !unit.is_empty() {
            self.settle_unit(&unit);
        }
    }

    /// Overwrites this many single pages at random. Changes the maps only: no time passes. False if `go_on`, which is
    /// asked every [`ASKED_EVERY`] pages, said no.
    pub fn overwrite(&mut self, pages: u64, mut chance: Chance, go_on: &mut dyn FnMut() -> bool) -> bool {
        let mut unit = Vec::with_capacity(self.geometry.unit_pages as usize);
        for page in 0..pages {
            if page.is_multiple_of(ASKED_EVERY) && !go_on() {
                return false;
            }
            self.fill(&mut unit, chance.below(self.geometry.logical_pages.into()) as u32);
        }
        if !unit.is_empty() {
            self.settle_unit(&unit);
        }
        true
    }

    /// Adds a page to the unit, and writes the unit when it is full. Returns how many pages were moved to free space.
    fn fill(&mut self, unit: &mut Vec<u32>, page: u32) -> u64 {
        if self.ftl.l2p[page as usize] == super::ftl::BUFFERED {
            return 0;
        }
        self.ftl.buffer(&self.geometry, page, 1);
        unit.push(page);
        if unit.len() < self.geometry.unit_pages as usize {
            return 0;
        }
        let moved = self.settle_unit(unit);
        unit.clear();
        moved
    }

    fn settle_unit(&mut self, unit: &[u32]) -> u64 {
        let mut moved = 0;
        while self.ftl.free_pages(&self.geometry) < self.gc_free_pages || !self.ftl.has_room() {
            match self.ftl.collect(&self.geometry, self.params.gc_quantum_rows, &mut self.work) {
                Some(round) => moved += u64::from(round.moved),
                None => break,
            }
        }
        self.ftl.place_unit(&self.geometry, unit);
        moved
    }
}
