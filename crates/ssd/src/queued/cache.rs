// SPDX-License-Identifier: MIT OR Apache-2.0
//! The write buffer of the queued model: pages that are being written to flash, and hot pages that stay until eviction.

use std::collections::{HashMap, HashSet, VecDeque};

use linnet_types::Nanos;

#[derive(Clone, Copy, Debug)]
struct Slot {
    sectors: u64,
    /// Number of the last write to this slot.
    stamp: u64,
    /// Its newest data is being written to flash.
    destaging: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    slots: HashMap<u32, Slot>,
    /// Pages in order of use, oldest first. An entry is stale if its stamp differs from the slot's.
    order: VecDeque<(u32, u64)>,
    capacity_pages: usize,
    stamp: u64,
    recent: HashSet<u32>,
    recent_until: Nanos,
    period_ns: Nanos,
}

impl Cache {
    pub fn new(capacity_pages: usize, period_ns: Nanos) -> Self {
        Cache {
            slots: HashMap::new(),
            order: VecDeque::new(),
            capacity_pages,
            stamp: 0,
            recent: HashSet::new(),
            recent_until: 0,
            period_ns,
        }
    }

    /// True if the buffer has all these sectors of the page.
    pub fn holds(&self, page: u32, sectors: u64) -> bool {
        self.slots.get(&page).is_some_and(|slot| slot.sectors & sectors == sectors)
    }

    /// Buffers a write. Returns its stamp if it has to be destaged now, and the page with its sectors that was evicted
    /// and must be written.
    pub fn write(&mut self, now: Nanos, page: u32, sectors: u64) -> (Option<u64>, Option<(u32, u64, u64)>) {
        self.stamp += 1;
        let stamp = self.stamp;
        let mut evicted = None;
        if let Some(slot) = self.slots.get_mut(&page) {
            slot.sectors |= sectors;
            slot.stamp = stamp;
            slot.destaging = false;
        } else {
            if self.slots.len() >= self.capacity_pages {
                evicted = self.evict();
            }
            self.slots.insert(page, Slot { sectors, stamp, destaging: false });
        }
        self.order.push_back((page, stamp));
        if self.order.len() > 64 + 4 * self.slots.len() {
            let slots = &self.slots;
            self.order.retain(|(page, stamp)| slots.get(page).is_some_and(|slot| slot.stamp == *stamp));
        }
        if self.period_ns > 0 && now > self.recent_until {
            self.recent.clear();
            self.recent_until = now + self.period_ns;
        }
        let destage = self.period_ns == 0 || self.recent.insert(page);
        if destage && let Some(slot) = self.slots.get_mut(&page) {
            slot.destaging = true;
        }
        (destage.then_some(stamp), evicted)
    }

    fn evict(&mut self) -> Option<(u32, u64, u64)> {
        while let Some((page, stamp)) = self.order.pop_front() {
            if self.slots.get(&page).is_some_and(|slot| slot.stamp == stamp) {
                let slot = self.slots.remove(&page)?;
                return (!slot.destaging).then_some((page, slot.sectors, slot.stamp));
            }
        }
        None
    }

    /// Called when the program of a page is done. Frees its slot unless the page was written again.
    pub fn programmed(&mut self, page: u32, stamp: u64) {
        if self.slots.get(&page).is_some_and(|slot| slot.stamp <= stamp) {
            self.slots.remove(&page);
        }
    }
}
