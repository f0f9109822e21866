// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flash translation layer, without time: where each page is, and which superblock is collected next.
//!
//! A page map in units of 4 KiB, in both directions. Host data and relocated data are written to separate open
//! superblocks. The victim of garbage collection is the closed superblock with the fewest valid pages. A scan of one
//! counter per superblock finds it. That costs less than sorted buckets that change with every overwrite: a victim
//! moves thousands of pages, and the scan reads a few hundred counters.

use std::collections::VecDeque;

use super::geometry::Geometry;
use super::stats::Wear;
use super::table::Table;

mod collect;
mod words;

pub(crate) use collect::DieWork;

/// No page: in `l2p`, never written; in `p2l`, free or invalid.
pub(crate) const NONE: u32 = u32::MAX;
/// In `l2p`: the newest data is only in the write buffer.
pub(crate) const BUFFERED: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Superblock {
    Free,
    Open,
    Closed,
    Victim,
}

/// Where the next page is written; `next == end` if a superblock has to be opened.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    superblock: u32,
    next: u32,
    end: u32,
}

impl Frontier {
    /// Where the next page is after this many, or its end if fewer are left. On the largest drive, pages end close below
    /// 2^32.
    fn after(self, pages: u32) -> u32 {
        self.next + pages.min(self.end - self.next)
    }
}

const UNOPENED: Frontier = Frontier { superblock: NONE, next: 0, end: 0 };

#[derive(Clone, Debug)]
pub(crate) struct Ftl {
    pub l2p: Table,
    p2l: Table,
    valid: Vec<u32>,
    state: Vec<Superblock>,
    erases: Vec<u32>,
    /// Oldest first, which spreads erases evenly.
    free: VecDeque<u32>,
    host: Frontier,
    gc: Frontier,
    victim: Option<Frontier>,
    /// Pages that a round relocates; kept to reuse its memory.
    moving: Vec<u32>,
    /// Pages that are stored in two pieces, one bit each; empty without partial-page mapping.
    split: Vec<u64>,
    level: Levelling,
    /// Victims chosen, and how many of them were chosen to level wear.
    victims: u64,
    pub wear_moves: u64,
}

/// State of wear levelling.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Levelling {
    pub dynamic: bool,
    pub static_gap: u32,
}

impl Ftl {
    pub fn new(geometry: &Geometry, level: Levelling, splits: bool) -> Self {
        let pages = geometry.superblock_pages as usize * geometry.superblocks as usize;
        Ftl {
            l2p: Table::filled(geometry.logical_pages as usize, NONE),
            p2l: Table::filled(pages, NONE),
            valid: vec![0; geometry.superblocks as usize],
            state: vec![Superblock::Free; geometry.superblocks as usize],
            erases: vec![0; geometry.superblocks as usize],
            free: (0..geometry.superblocks).collect(),
            host: UNOPENED,
            gc: UNOPENED,
            victim: None,
            moving: Vec::new(),
            split: vec![0; if splits { geometry.logical_pages.div_ceil(64) as usize } else { 0 }],
            level,
            victims: 0,
            wear_moves: 0,
        }
    }

    /// Marks a page as stored in two pieces, or in one.
    #[inline]
    pub fn set_split(&mut self, page: u32, split: bool) {
        if let Some(word) = self.split.get_mut(page as usize / 64) {
            *word = *word & !(1 << (page % 64)) | u64::from(split) << (page % 64);
        }
    }

    #[inline]
    pub fn is_split(&self, page: u32) -> bool {
        self.split.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Marks pages as stored in one piece.
    #[inline]
    pub fn join(&mut self, first: u32, pages: u32) {
        if !self.split.is_empty() {
            (first..first + pages).for_each(|page| self.set_split(page, false));
        }
    }

    /// Whether any of these pages is stored in two pieces.
    #[inline]
    pub fn any_split(&self, first: u32, pages: u32) -> bool {
        !self.split.is_empty() && (first..first + pages).any(|page| self.is_split(page))
    }

    /// Erases of the superblock that holds a physical page.
    #[inline]
    pub fn erases_at(&self, geometry: &Geometry, physical: u32) -> u32 {
        self.erases[geometry.superblock_of(physical) as usize]
    }

    /// The host no longer needs the page's data. Returns true if it was in the buffer.
    pub fn trim(&mut self, geometry: &Geometry, page: u32) -> bool {
        let old = std::mem::replace(&mut self.l2p[page as usize], NONE);
        if old < BUFFERED {
            self.p2l[old as usize] = NONE;
            self.valid[geometry.superblock_of(old) as usize] -= 1;
        }
        self.set_split(page, false);
        old == BUFFERED
    }

    /// Free space in pages, including the space already freed by the collection in progress.
    pub fn free_pages(&self, geometry: &Geometry) -> u64 {
        let won = self.victim.map_or(0, |victim| victim.next - victim.superblock * geometry.superblock_pages);
        let open = (self.host.end - self.host.next) + (self.gc.end - self.gc.next) + won;
        self.free.len() as u64 * u64::from(geometry.superblock_pages) + u64::from(open)
    }

    /// The newest data of up to `most` pages from `first` on is in the buffer from now on; their copies on flash are
    /// invalid. Stops before a page that is in the buffer already. Returns how many pages there were.
    #[inline]
    pub fn buffer(&mut self, geometry: &Geometry, first: u32, most: u32) -> u32 {
        let entries = &mut self.l2p[first as usize..(first + most) as usize];
        let Some(&oldest) = entries.first() else { return 0 };
        // What one large request wrote is often overwritten by another: then the copies are neighbours.
        let newest = oldest.saturating_add(most - 1);
        if newest < BUFFERED
            && (oldest..).zip(entries.iter()).all(|(physical, &old)| physical == old)
            && geometry.superblock_of(oldest) == geometry.superblock_of(newest)
        {
            entries.fill(BUFFERED);
            self.p2l[oldest as usize..=newest as usize].fill(NONE);
            self.valid[geometry.superblock_of(oldest) as usize] -= most;
            return most;
        }
        for (count, entry) in (0..).zip(entries) {
            let old = std::mem::replace(entry, BUFFERED);
            if old < BUFFERED {
                self.p2l[old as usize] = NONE;
                self.valid[geometry.superblock_of(old) as usize] -= 1;
            } else if old == BUFFERED {
                return count;
            }
        }
        most
    }

    /// Prefetches the map entry of a page that will be looked up soon.
    #[inline]
    pub fn expect_page(&self, page: u32) {
        self.l2p.prefetch(page as usize);
    }

    /// [`Ftl::expect_page`] for the pages of a request: one of each cache line.
    #[inline]
    pub fn expect_pages(&self, first: u32, count: u64) {
        for page in (u64::from(first)..u64::from(first) + count).step_by(16) {
            self.l2p.prefetch(page as usize);
        }
    }

    /// Prefetches what an overwrite of a page needs, some time after [`Ftl::expect_page`] fetched its map entry.
    #[inline]
    pub fn expect_overwrite(&self, page: u32) {
        self.p2l.prefetch(self.l2p[page as usize] as usize);
    }

    /// True when [`Ftl::place_unit`] has room; otherwise rounds of garbage collection must run first.
    pub fn has_room(&self) -> bool {
        // The last free superblock is reserved for garbage collection, which may need it to finish its victim.
        self.host.next < self.host.end || self.free.len() > 1
    }

    /// Writes buffered pages (at most one program unit) to the host frontier. Returns the first physical page of the
    /// unit.
    pub fn place_unit(&mut self, geometry: &Geometry, pages: &[u32]) -> u32 {
        debug_assert!(pages.len() <= geometry.unit_pages as usize && self.has_room());
        if self.host.next == self.host.end {
            self.close(self.host);
            self.host = self.open(geometry);
        }
        let first = self.host.next;
        self.host.next += geometry.unit_pages;
        self.l2p.prefetch_all(pages);
        debug_assert!(pages.iter().all(|&page| self.l2p[page as usize] == BUFFERED));
        self.p2l[first as usize..first as usize + pages.len()].copy_from_slice(pages);
        self.l2p.number(pages, first);
        self.valid[self.host.superblock as usize] += pages.len() as u32;
        first
    }

    fn close(&mut self, frontier: Frontier) {
        if frontier.superblock != NONE {
            self.state[frontier.superblock as usize] = Superblock::Closed;
        }
    }

    fn open(&mut self, geometry: &Geometry) -> Frontier {
        if self.level.dynamic {
            let erases = |at: &usize| self.erases[self.free[*at] as usize];
            if let Some(least) = (0..self.free.len()).min_by_key(erases) {
                self.free.swap(0, least);
            }
        }
        let superblock = self.free.pop_front().expect("garbage collection keeps a superblock free");
        self.state[superblock as usize] = Superblock::Open;
        let next = superblock * geometry.superblock_pages;
        Frontier { superblock, next, end: next + geometry.superblock_pages }
    }

    /// Memory of the tables.
    pub fn bytes(&self) -> usize {
        let words = self.l2p.len() + self.p2l.len() + self.valid.len() + self.erases.len() + self.free.len();
        4 * words + self.state.len() + 8 * self.split.len()
    }

    /// Superblocks that were erased since the map was new.
    pub fn erased(&self) -> u64 {
        self.erases.iter().map(|&erases| u64::from(erases)).sum()
    }

    /// Distribution of erases over the superblocks.
    pub fn wear(&self) -> Wear {
        let count = self.erases.len().max(1) as f64;
        let mean = self.erases.iter().map(|&n| f64::from(n)).sum::<f64>() / count;
        let square = self.erases.iter().map(|&n| (f64::from(n) - mean).powi(2)).sum::<f64>() / count;
        let least = self.erases.iter().min().copied().unwrap_or(0);
        Wear { least, most: self.erases.iter().max().copied().unwrap_or(0), mean, deviation: square.sqrt() }
    }

    /// Checks that the maps agree and the counts add up; the error says where they do not.
    pub fn check(&self, geometry: &Geometry, buffered: &[u32]) -> Result<(), String> {
        let mut valid = vec![0u32; self.valid.len()];
        for (physical, &page) in (0u32..).zip(self.p2l.iter()) {
            if page == NONE {
                continue;
            }
            let back = self.l2p.get(page as usize).copied();
            if back != Some(physical) {
                return Err(format!("flash page {physical} holds page {page}, which is mapped to {back:?}"));
            }
            valid[geometry.superblock_of(physical) as usize] += 1;
        }
        if valid != self.valid {
            return Err("valid counts do not add up".to_owned());
        }
        let mapped = self.l2p.iter().filter(|&&physical| physical < BUFFERED).count();
        if mapped != valid.iter().map(|&n| n as usize).sum::<usize>() {
            return Err(format!("{mapped} pages are mapped, and flash holds another number"));
        }
        let waiting = self.l2p.iter().filter(|&&physical| physical == BUFFERED).count();
        if waiting != buffered.len() || buffered.iter().any(|&page| self.l2p[page as usize] != BUFFERED) {
            return Err(format!("{waiting} pages are marked as buffered, and the buffer holds {}", buffered.len()));
        }
        let free = self.state.iter().filter(|&&state| state == Superblock::Free).count();
        if free != self.free.len() || self.free.iter().any(|&sb| self.valid[sb as usize] != 0) {
            return Err("the free list disagrees with the superblocks' states".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_at_the_end_of_the_largest_drive_ends_there() {
        let victim = Frontier { superblock: 65535, next: BUFFERED - 8, end: BUFFERED - 1 };
        assert_eq!(victim.after(4), BUFFERED - 4);
        assert_eq!(victim.after(65536), BUFFERED - 1);
    }
}
