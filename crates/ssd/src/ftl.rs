// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flash translation layer without time: which page lies where, which superblock is collected next.
//!
//! A page map in units of 4 KiB, both ways. Host data and relocated data are written to separate open superblocks. The victim of garbage
//! collection is the closed superblock with the fewest valid pages; it is looked up by a scan of one counter per
//! superblock, once per victim, which costs less than keeping buckets in order on every overwrite (a victim moves thousands of
//! pages, the scan reads a few hundred counters).

use std::collections::VecDeque;

use crate::geometry::Geometry;

/// No page: of `l2p`, never written; of `p2l`, free or invalid.
pub(crate) const NONE: u32 = u32::MAX;
/// Of `l2p`: the newest data is in the write buffer only.
pub(crate) const BUFFERED: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Superblock {
    Free,
    Open,
    Closed,
    Victim,
}

/// Where the next page goes; `next == end` when a superblock has to be opened.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    superblock: u32,
    next: u32,
    end: u32,
}

const UNOPENED: Frontier = Frontier { superblock: NONE, next: 0, end: 0 };

/// What a round of garbage collection did on one die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DieWork {
    /// Program units read (all planes at once).
    pub reads: u32,
    /// 4 KiB pages read and moved.
    pub pages: u32,
    /// Program units written.
    pub programs: u32,
}

/// What a round of garbage collection did in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    pub moved: u32,
    pub programs: u32,
    /// The victim is finished and erased.
    pub erased: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Ftl {
    pub l2p: Vec<u32>,
    p2l: Vec<u32>,
    valid: Vec<u32>,
    state: Vec<Superblock>,
    erases: Vec<u32>,
    /// Oldest first, which spreads erases evenly.
    free: VecDeque<u32>,
    host: Frontier,
    gc: Frontier,
    victim: Option<Frontier>,
}

impl Ftl {
    pub fn new(geometry: &Geometry) -> Self {
        let pages = geometry.superblock_pages as usize * geometry.superblocks as usize;
        Ftl {
            l2p: vec![NONE; geometry.logical_pages as usize],
            p2l: vec![NONE; pages],
            valid: vec![0; geometry.superblocks as usize],
            state: vec![Superblock::Free; geometry.superblocks as usize],
            erases: vec![0; geometry.superblocks as usize],
            free: (0..geometry.superblocks).collect(),
            host: UNOPENED,
            gc: UNOPENED,
            victim: None,
        }
    }

    /// Free space in pages, counting what the work under way on the victim has already won.
    pub fn free_pages(&self, geometry: &Geometry) -> u64 {
        let won = self.victim.map_or(0, |victim| victim.next - victim.superblock * geometry.superblock_pages);
        let open = (self.host.end - self.host.next) + (self.gc.end - self.gc.next) + won;
        self.free.len() as u64 * u64::from(geometry.superblock_pages) + u64::from(open)
    }

    /// The newest data of a page is in the buffer from now on; what lay on flash is invalid.
    #[inline]
    pub fn buffer(&mut self, geometry: &Geometry, page: u32) {
        let old = std::mem::replace(&mut self.l2p[page as usize], BUFFERED);
        if old < BUFFERED {
            self.p2l[old as usize] = NONE;
            self.valid[geometry.superblock_of(old) as usize] -= 1;
        }
    }

    /// True when [`Ftl::place_unit`] has room; otherwise rounds of garbage collection must run first.
    pub fn has_room(&self) -> bool {
        // The last free superblock belongs to garbage collection, which may need it to finish its victim.
        self.host.next < self.host.end || self.free.len() > 1
    }

    /// Writes buffered pages (at most a program unit of them) to the host frontier. Returns the first physical page of the unit.
    pub fn place_unit(&mut self, geometry: &Geometry, pages: &[u32]) -> u32 {
        debug_assert!(pages.len() <= geometry.unit_pages as usize && self.has_room());
        if self.host.next == self.host.end {
            self.close(self.host);
            self.host = self.open(geometry);
        }
        let first = self.host.next;
        self.host.next += geometry.unit_pages;
        for (physical, &page) in (first..).zip(pages) {
            debug_assert_eq!(self.l2p[page as usize], BUFFERED);
            self.l2p[page as usize] = physical;
            self.p2l[physical as usize] = page;
        }
        self.valid[self.host.superblock as usize] += pages.len() as u32;
        first
    }

    fn close(&mut self, frontier: Frontier) {
        if frontier.superblock != NONE {
            self.state[frontier.superblock as usize] = Superblock::Closed;
        }
    }

    fn open(&mut self, geometry: &Geometry) -> Frontier {
        let superblock = self.free.pop_front().expect("garbage collection keeps a superblock free");
        self.state[superblock as usize] = Superblock::Open;
        let next = superblock * geometry.superblock_pages;
        Frontier { superblock, next, end: next + geometry.superblock_pages }
    }

    fn choose(&self, geometry: &Geometry) -> Option<Frontier> {
        let mut least = geometry.superblock_pages;
        let mut chosen = None;
        for (superblock, (&valid, &state)) in (0..).zip(self.valid.iter().zip(&self.state)) {
            if valid < least && state == Superblock::Closed {
                least = valid;
                chosen = Some(superblock);
            }
        }
        let superblock = chosen?;
        let next = superblock * geometry.superblock_pages;
        Some(Frontier { superblock, next, end: next + geometry.superblock_pages })
    }

    /// Relocates up to `rows` rows of the victim and erases it when it is done. `work` has an entry per die, which is added to.
    /// None when no closed superblock holds an invalid page.
    pub fn collect(&mut self, geometry: &Geometry, rows: u32, work: &mut [DieWork]) -> Option<Round> {
        let mut victim = match self.victim.take() {
            Some(victim) => victim,
            None => {
                let victim = self.choose(geometry)?;
                self.state[victim.superblock as usize] = Superblock::Victim;
                victim
            }
        };
        let mut round = Round::default();
        let stop = victim.end.min(victim.next + rows * geometry.row_pages);
        while victim.next < stop {
            let die = geometry.die_of_unit(geometry.unit_of(victim.next)) as usize;
            let mut moved = 0;
            for physical in victim.next..victim.next + geometry.unit_pages {
                let page = self.p2l[physical as usize];
                if page != NONE {
                    self.p2l[physical as usize] = NONE;
                    self.append(geometry, page, &mut round, work);
                    moved += 1;
                }
            }
            victim.next += geometry.unit_pages;
            work[die].reads += u32::from(moved > 0);
            work[die].pages += moved;
            round.moved += moved;
        }
        self.valid[victim.superblock as usize] -= round.moved;
        if victim.next == victim.end {
            debug_assert_eq!(self.valid[victim.superblock as usize], 0);
            self.state[victim.superblock as usize] = Superblock::Free;
            self.erases[victim.superblock as usize] += 1;
            self.free.push_back(victim.superblock);
            round.erased = true;
        } else {
            self.victim = Some(victim);
        }
        Some(round)
    }

    #[inline]
    fn append(&mut self, geometry: &Geometry, page: u32, round: &mut Round, work: &mut [DieWork]) {
        if self.gc.next == self.gc.end {
            self.close(self.gc);
            self.gc = self.open(geometry);
        }
        let physical = self.gc.next;
        self.gc.next += 1;
        self.l2p[page as usize] = physical;
        self.p2l[physical as usize] = page;
        self.valid[self.gc.superblock as usize] += 1;
        let unit = geometry.unit_of(physical);
        if physical + 1 == (unit + 1) * geometry.unit_pages {
            work[geometry.die_of_unit(unit) as usize].programs += 1;
            round.programs += 1;
        }
    }

    /// Fewest and most erases of a superblock.
    pub fn wear(&self) -> (u32, u32) {
        let least = self.erases.iter().min().copied().unwrap_or(0);
        (least, self.erases.iter().max().copied().unwrap_or(0))
    }

    /// Checks that the maps agree and counts add up; the error tells where they do not.
    pub fn check(&self, geometry: &Geometry, buffered: &[u32]) -> Result<(), String> {
        let mut valid = vec![0u32; self.valid.len()];
        for (physical, &page) in (0u32..).zip(&self.p2l) {
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
