// SPDX-License-Identifier: MIT OR Apache-2.0
//! Garbage collection in the maps: which superblock is collected, and where its valid pages go.

use std::ops::Range;

use super::{Frontier, Ftl, NONE, Superblock};
use crate::timeline::geometry::Geometry;

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

/// What a round of garbage collection did in total.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    pub moved: u32,
    pub programs: u32,
    /// The victim is empty and erased.
    pub erased: bool,
}

/// At most one of this many victims is chosen to level wear, so that space is freed even if all superblocks are full.
const LEVEL_EVERY: u64 = 4;

/// How many of these pages are valid. Eight are counted at once, in vector registers.
fn count_valid(unit: &[u32]) -> u32 {
    let count = |pages: &[u32]| pages.iter().map(|&page| u32::from(page != NONE)).sum::<u32>();
    let (eights, rest) = unit.as_chunks::<8>();
    eights.iter().map(|eight| count(eight)).sum::<u32>() + count(rest)
}

/// Copies the valid ones of a unit's pages to the beginning of `to`, and returns how many there are. What follows them is
/// overwritten too.
fn gather_valid(unit: &[u32], to: &mut [u32]) -> usize {
    let to = &mut to[..unit.len()];
    let mut end = 0;
    // Each page is written, and the next one replaces it if it is not valid: a branch would be hard to predict.
    let mut write = |&page: &u32| {
        to[end] = page;
        end += usize::from(page != NONE);
    };
    let (eights, rest) = unit.as_chunks::<8>();
    eights.iter().for_each(|eight| eight.iter().for_each(&mut write));
    rest.iter().for_each(write);
    end
}

impl Ftl {
    /// A closed superblock that is worn so much less than others that its data must be static.
    fn rested(&self) -> Option<u32> {
        if self.level.static_gap == 0 || !self.victims.is_multiple_of(LEVEL_EVERY) || self.free.len() < 3 {
            return None;
        }
        let most = self.erases.iter().max().copied()?;
        let closed = (0..self.state.len()).filter(|&at| self.state[at] == Superblock::Closed);
        let least = closed.min_by_key(|&at| self.erases[at])?;
        (most - self.erases[least] >= self.level.static_gap).then_some(least as u32)
    }

    fn choose(&mut self, geometry: &Geometry) -> Option<Frontier> {
        self.victims += 1;
        if let Some(superblock) = self.rested() {
            self.wear_moves += 1;
            let next = superblock * geometry.superblock_pages;
            return Some(Frontier { superblock, next, end: next + geometry.superblock_pages });
        }
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

    /// Relocates up to `rows` rows of the victim and erases it when it is empty. Adds to `work`, which has an entry per
    /// die. `None` if no closed superblock holds an invalid page.
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
        let stop = victim.after(rows * geometry.row_pages);
        // All valid pages of the round are gathered before any is moved, so that their map entries can be prefetched.
        let range = victim.next as usize..stop as usize;
        let mut moving = std::mem::take(&mut self.moving);
        let moved = self.gather(geometry, range.clone(), &mut moving, work);
        self.p2l[range].fill(NONE);
        self.append(geometry, &moving[..moved], &mut round, work);
        round.moved = moved as u32;
        self.moving = moving;
        victim.next = stop;
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

    /// Fills `moving` from its beginning with the valid ones of the pages in `range`, which is whole rows. Returns how many
    /// there are.
    fn gather(&self, geometry: &Geometry, range: Range<usize>, moving: &mut Vec<u32>, work: &mut [DieWork]) -> usize {
        let backs = &self.p2l[range];
        if moving.len() < backs.len() {
            moving.resize(backs.len(), NONE);
        }
        let unit_pages = geometry.unit_pages as usize;
        let mut moved = 0;
        // Data that was written in large requests is invalid, or valid, a whole unit at a time. Neighbouring units that
        // are valid as a whole are copied together: those from `copied` on up to the unit at hand.
        let (mut copied, mut at) = (0, 0);
        for row in backs.chunks_exact(geometry.row_pages as usize) {
            for (die, unit) in work.iter_mut().zip(row.chunks_exact(unit_pages)) {
                let valid = count_valid(unit);
                die.reads += u32::from(valid > 0);
                die.pages += valid;
                if valid != geometry.unit_pages {
                    if copied < at {
                        moving[moved..moved + at - copied].copy_from_slice(&backs[copied..at]);
                        moved += at - copied;
                    }
                    if valid > 0 {
                        moved += gather_valid(unit, &mut moving[moved..]);
                    }
                    copied = at + unit_pages;
                }
                at += unit_pages;
            }
        }
        moving[moved..moved + at - copied].copy_from_slice(&backs[copied..at]);
        moved + at - copied
    }

    /// Writes pages to the frontier of relocated data.
    fn append(&mut self, geometry: &Geometry, mut pages: &[u32], round: &mut Round, work: &mut [DieWork]) {
        while !pages.is_empty() {
            if self.gc.next == self.gc.end {
                self.close(self.gc);
                self.gc = self.open(geometry);
            }
            let first = self.gc.next;
            let (now, later) = pages.split_at(pages.len().min((self.gc.end - first) as usize));
            pages = later;
            self.p2l[first as usize..first as usize + now.len()].copy_from_slice(now);
            self.l2p.number(now, first);
            if !self.split.is_empty() {
                now.iter().for_each(|&page| self.set_split(page, false));
            }
            self.gc.next += now.len() as u32;
            self.valid[self.gc.superblock as usize] += now.len() as u32;
            // A unit is programmed when its last page is placed.
            let (from, until) = (geometry.unit_of(first), geometry.unit_of(self.gc.next));
            round.programs += until - from;
            let mut die = geometry.die_of_unit(from) as usize;
            for _ in from..until {
                work[die].programs += 1;
                die = if die + 1 == work.len() { 0 } else { die + 1 };
            }
        }
    }
}
