// SPDX-License-Identifier: MIT OR Apache-2.0
//! The map as 32-bit words, for snapshots.

use super::{Frontier, Ftl, NONE, Superblock, UNOPENED};
use crate::timeline::geometry::Geometry;

impl Ftl {
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
        let parts = [9, free as usize, superblocks, superblocks, 2 * self.split.len(), self.l2p.len()];
        if free as usize > superblocks || rest.len() != parts.iter().sum::<usize>() {
            return false;
        }
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
        let free = self.state.iter().filter(|&&state| state == Superblock::Free).count();
        free == self.free.len()
            && self.free.iter().all(|&at| self.valid[at as usize] == 0 && self.state[at as usize] == Superblock::Free)
    }
}
