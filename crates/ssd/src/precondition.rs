// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bringing a new device to the state it has after long use.

use linnet_sim::Chance;

use crate::machine::Machine;

/// Overwrites between two looks at write amplification, as a share of the logical space.
pub(crate) const WINDOW_SHARE: f64 = 0.25;
/// Overwrites are of 1, 2, 4 ... pages, each size as likely: 4 KiB to 128 KiB, 42 KiB on average, as block traces have them. Single
/// pages would scatter the neighbours of every large read over as many dies.
pub(crate) const EXTENTS: u64 = 6;
/// Windows whose write amplification differs by less are alike.
pub(crate) const ALIKE: f64 = 0.02;
/// Most windows: two and a half times the logical space.
pub(crate) const WINDOWS_MAX: u32 = 10;

impl Machine {
    /// Writes every logical page once, in order, then overwrites at random until write amplification settles. Maps only:
    /// no time passes. The device must be new.
    pub fn precondition(&mut self, mut chance: Chance) {
        let geometry = self.geometry.clone();
        let unit_pages = geometry.unit_pages as usize;
        let mut unit = Vec::with_capacity(unit_pages);
        for page in 0..geometry.logical_pages {
            self.fill(&mut unit, page);
        }
        let window = (f64::from(geometry.logical_pages) * WINDOW_SHARE) as u32;
        let mut before = f64::INFINITY;
        for _ in 0..WINDOWS_MAX {
            let mut moved = 0;
            let mut written = 0;
            while written < window {
                let first = chance.below(u64::from(geometry.logical_pages)) as u32;
                let extent = 1 << chance.below(EXTENTS);
                for page in first..(first + extent).min(geometry.logical_pages) {
                    moved += self.fill(&mut unit, page);
                    written += 1;
                }
            }
            let amplification = 1.0 + moved as f64 / f64::from(window);
            let alike = (amplification / before - 1.0).abs() < ALIKE;
            before = amplification;
            if alike {
                break;
            }
        }
        if !unit.is_empty() {
            self.settle_unit(&unit);
        }
    }

    /// Adds a page to the unit, which is written when full. Returns the pages that were moved to make room.
    fn fill(&mut self, unit: &mut Vec<u32>, page: u32) -> u64 {
        if self.ftl.l2p[page as usize] == crate::ftl::BUFFERED {
            return 0;
        }
        self.ftl.buffer(&self.geometry, page);
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
