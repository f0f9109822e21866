// SPDX-License-Identifier: MIT OR Apache-2.0
//! The map as 32-bit words, for snapshots.

use super::{Frontier, Ftl, NONE, Superblock, UNOPENED};
use crate::timeline::geometry::Geometry;

impl Ftl {
    /// How many words [`Ftl::to_words`] gives, with this many free superblocks.
    pub fn words(geometry: &Geometry, splits: bool, free: u32) -> u64 {
        let split_words = if splits { 2 * u64::from(geometry.logical_pages.div_ceil(64)) } else { 0 };
        let superblocks = u64::from(geometry.superblocks);
        3 + 9 + u64::from(free) + 2 * superblocks + split_words + u64::from(geometry.logical_pages)
    }

    /// The state that must be saved, as little-endian words. The reverse map and the valid counts are computed from it.
    pub fn to_words(&self) -> Vec<u32> {
        let frontiers = [self.host, self.gc, self.victim.unwrap_or(UNOPENED)];
        let mut words = vec![self.victims as u32, (self.victims >> 32) as u32, self.free.len() as u32];
        words.extend(frontiers.iter().flat_map(|frontier| [frontier.superblock, frontier.next, frontier.end]));
        words.extend(&self.free);
        words.extend(self.state.iter().map(|&state| state as u32));
        words.extend(&self.erases);
        words.extend(self.split.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]));
        words.extend(self.l2p.iter());
        words
    }

    /// Restores the result of [`Ftl::to_words`] on a new map of the same geometry. False if the words are not such a
    /// result.
    pub fn set_words(&mut self, geometry: &Geometry, words: &[u32]) -> bool {
        let superblocks = self.state.len();
        let Some((&[low, high, free], rest)) = words.split_first_chunk::<3>() else { return false };
        if words.len() as u64 != Ftl::words(geometry, !self.split.is_empty(), free) {
            return false;
        }
        let parts = [9, free as usize, superblocks, superblocks, 2 * self.split.len(), self.l2p.len()];
        let mut rest = rest;
        let mut part = parts.into_iter().map(|length| {
            let (part, left) = rest.split_at(length);
            rest = left;
            part
        });
        let mut next = || part.next().unwrap_or_default();
        let (frontiers, free, states, erases, split, l2p) = (next(), next(), next(), next(), next(), next());
        let frontier = |at: usize| Frontier {
            superblock: frontiers[3 * at],
            next: frontiers[3 * at + 1],
            end: frontiers[3 * at + 2],
        };
        let sane = |frontier: &Frontier| {
            let first = u64::from(frontier.superblock) * u64::from(geometry.superblock_pages);
            let end = first + u64::from(geometry.superblock_pages);
            frontier.superblock == NONE && frontier.next == frontier.end
                || (frontier.superblock as usize) < superblocks
                    && u64::from(frontier.end) == end
                    && (first..=end).contains(&u64::from(frontier.next))
        };
        if !(0..3).all(|at| sane(&frontier(at))) || free.iter().any(|&superblock| superblock as usize >= superblocks) {
            return false;
        }
        let known = [Superblock::Free, Superblock::Open, Superblock::Closed, Superblock::Victim];
        for (state, &word) in self.state.iter_mut().zip(states) {
            let Some(&is) = known.get(word as usize) else { return false };
            *state = is;
        }
        self.victims = u64::from(low) | u64::from(high) << 32;
        (self.host, self.gc) = (frontier(0), frontier(1));
        self.victim = (frontier(2).superblock != NONE).then(|| frontier(2));
        self.free = free.iter().copied().collect();
        self.erases.copy_from_slice(erases);
        for (word, halves) in self.split.iter_mut().zip(split.chunks_exact(2)) {
            *word = u64::from(halves[0]) | u64::from(halves[1]) << 32;
        }
        self.l2p.copy_from_slice(l2p);
        for (page, &physical) in (0u32..).zip(l2p) {
            if physical == NONE {
                continue;
            }
            match self.p2l.get_mut(physical as usize) {
                Some(back) if *back == NONE => *back = page,
                _ => return false,
            }
            self.valid[geometry.superblock_of(physical) as usize] += 1;
        }
        self.is_sound(geometry)
    }

    /// Whether each superblock is what its state says, and is it once: free, written at a frontier, or collected.
    fn is_sound(&self, geometry: &Geometry) -> bool {
        let holds = |from: u32, until: u32| self.p2l[from as usize..until as usize].iter().any(|&page| page != NONE);
        let mut found = vec![Superblock::Closed; self.state.len()];
        let mut once = |superblock: u32, is: Superblock| {
            std::mem::replace(&mut found[superblock as usize], is) == Superblock::Closed
        };
        for &at in &self.free {
            if !once(at, Superblock::Free) || self.valid[at as usize] > 0 {
                return false;
            }
        }
        // Whole units are written to the one, single pages to the other.
        for (frontier, grain) in [(self.host, geometry.unit_pages), (self.gc, 1)] {
            if frontier.superblock != NONE
                && (!once(frontier.superblock, Superblock::Open)
                    || !frontier.next.is_multiple_of(grain)
                    || holds(frontier.next, frontier.end))
            {
                return false;
            }
        }
        if let Some(victim) = self.victim {
            let first = victim.superblock * geometry.superblock_pages;
            if !once(victim.superblock, Superblock::Victim)
                || victim.next == victim.end
                || !(victim.next - first).is_multiple_of(geometry.row_pages)
                || holds(first, victim.next)
            {
                return false;
            }
        }
        found == self.state
    }
}
