// SPDX-License-Identifier: MIT OR Apache-2.0
//! The write buffer: pages that wait for a flush, pages being programmed, and the times at which their slots become
//! free.

use std::collections::VecDeque;

use linnet_types::Nanos;

/// A page holds a slot from its arrival until its program ends. Slots become free in the order of dispatch, as in a
/// ring.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    capacity_pages: u64,
    /// Pages that wait for a batched flush.
    pub batch: Vec<u32>,
    /// Pages of the program unit that is being collected for immediate destage.
    pub eager: Vec<u32>,
    /// When slots become free, and the total number of pages dispatched up to each. Both columns increase, so a
    /// bisection finds a wait in a queue of any length.
    releases: VecDeque<(Nanos, u64)>,
    /// Pages dispatched since the start, and how many of these have freed their slots.
    dispatched_pages: u64,
    released_pages: u64,
    /// When the last slot becomes free.
    last_release: Nanos,
    /// Unit number and end of program, direct-mapped: the units that can still be read from DRAM. If two units share an
    /// entry, the older one is then read from flash.
    units: Vec<(u32, Nanos)>,
}

impl Buffer {
    pub fn new(capacity_pages: u64, unit_pages: u32) -> Self {
        let entries = (capacity_pages / u64::from(unit_pages)).next_power_of_two().min(1 << 16) as usize;
        Buffer {
            capacity_pages,
            batch: Vec::new(),
            eager: Vec::new(),
            releases: VecDeque::new(),
            dispatched_pages: 0,
            released_pages: 0,
            last_release: 0,
            units: vec![(u32::MAX, 0); entries],
        }
    }

    /// A unit was dispatched to its die; its program ends at `end`.
    pub fn dispatched(&mut self, unit: u32, pages: u32, end: Nanos) {
        let mask = self.units.len() - 1;
        self.units[unit as usize & mask] = (unit, end);
        self.dispatched_pages += u64::from(pages);
        self.last_release = self.last_release.max(end);
        match self.releases.back_mut() {
            Some((time, upto)) if *time == self.last_release => *upto = self.dispatched_pages,
            _ => self.releases.push_back((self.last_release, self.dispatched_pages)),
        }
    }

    /// Frees the slots whose programs ended by `now`.
    #[inline]
    pub fn release(&mut self, now: Nanos) {
        while let Some(&(time, upto)) = self.releases.front() {
            if time > now {
                return;
            }
            self.released_pages = upto;
            self.releases.pop_front();
        }
    }

    /// True if the unit is still being programmed at `now`, so that its pages are in DRAM.
    #[inline]
    pub fn holds(&self, unit: u32, now: Nanos) -> bool {
        if self.last_release <= now {
            return false;
        }
        let (held, end) = self.units[unit as usize & (self.units.len() - 1)];
        held == unit && end > now
    }

    /// When `pages` more fit, for a request that arrives at `now`. Space that no program in flight will free is charged
    /// at `drain_page_ns` per page, the rate of a flush on all dies.
    pub fn room_at(&self, now: Nanos, pages: u64, drain_page_ns: f64) -> Nanos {
        let waiting = (self.batch.len() + self.eager.len()) as u64;
        let wanted = waiting + self.dispatched_pages - self.released_pages + pages;
        if wanted <= self.capacity_pages {
            return now;
        }
        let needed = self.released_pages + (wanted - self.capacity_pages);
        let at = self.releases.partition_point(|&(_, upto)| upto < needed);
        match self.releases.get(at) {
            Some(&(time, _)) => time.max(now),
            None => {
                let beyond = needed - self.dispatched_pages;
                self.last_release.max(now) + (beyond as f64 * drain_page_ns) as Nanos
            }
        }
    }

    /// When the last program in flight ends.
    pub fn drained_at(&self) -> Nanos {
        self.last_release
    }

    /// Pages that are not on flash.
    pub fn waiting(&self) -> Vec<u32> {
        self.batch.iter().chain(&self.eager).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_has_room_when_programs_end() {
        let mut buffer = Buffer::new(16, 8);
        assert_eq!(buffer.room_at(5, 16, 1.0), 5);
        buffer.dispatched(0, 8, 100);
        buffer.dispatched(1, 8, 90);
        assert!(buffer.holds(1, 50) && !buffer.holds(1, 90) && !buffer.holds(2, 50));
        assert_eq!(buffer.room_at(5, 8, 1.0), 100, "slots come free in order");
        assert_eq!(buffer.room_at(5, 17, 3.0), 103, "one page more than the buffer holds");
        buffer.release(100);
        assert_eq!(buffer.room_at(100, 16, 1.0), 100);
    }
}
