// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a channel or the host link is busy: reservations that use gaps, with bounded state.
//!
//! Transfers are reserved when their request arrives, which may be long before they start. A transfer takes the first
//! gap that is long enough after its data is ready. So a transfer that must wait 10 ms for its die does not delay those
//! that are ready earlier. At saturation neighbouring reservations touch and are merged, so the state stays small where
//! precision matters. If it overflows, transfers are sparse and collisions improbable, and the shortest reservation is
//! dropped.
//!
//! Long streams (flush and GC data on a channel, requests above the chunk size on a link) make no reservations: they
//! are served in chunks, and a transfer that meets a stream waits for the rest of the current chunk.

use linnet_types::Nanos;

use super::spans::SpanLog;
use crate::cause::Mechanism;

/// Maximum number of reservations.
const SLOTS: usize = 24;
/// Size of their array. Past reservations are skipped; when the end of the array is reached, the others move to the
/// front.
const ROOM: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: Nanos,
    end: Nanos,
}

/// The reservations of a bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    /// The reservations are `slots[head..tail]`, in ascending order.
    head: u8,
    tail: u8,
    slots: [Slot; ROOM],
    /// None is shorter than this.
    shortest_ns: Nanos,
}

/// Where a transfer fits: when it would start, and the place of its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub start: Nanos,
    at: u8,
}

/// One direction of one bus.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub reserved: Reserved,
    stream_until: Nanos,
    chunk_ns: Nanos,
    /// What used the bus, if this is recorded.
    pub log: Option<Box<SpanLog>>,
}

impl Reserved {
    #[inline]
    fn taken(&self) -> &[Slot] {
        &self.slots[usize::from(self.head)..usize::from(self.tail)]
    }

    /// The slot at this place. No place is beyond the array, so the remainder only spares the check.
    #[inline(always)]
    fn slot(&mut self, at: u8) -> &mut Slot {
        &mut self.slots[usize::from(at) % ROOM]
    }

    /// The first gap of `length` from `start` on.
    #[inline]
    fn gap(&self, mut start: Nanos, length: Nanos) -> Gap {
        let slot = |at: u8| &self.slots[usize::from(at) % ROOM];
        // Search from the newest reservation: most transfers are ready near the end of the list.
        let mut at = self.tail;
        while at > self.head && slot(at - 1).end > start {
            at -= 1;
        }
        while at < self.tail && slot(at).start < start + length {
            start = slot(at).end;
            at += 1;
        }
        Gap { start, at }
    }

    #[inline]
    fn forget_before(&mut self, now: Nanos) {
        while self.head < self.tail && self.slot(self.head).end <= now {
            self.head += 1;
        }
    }

    fn remove(&mut self, at: usize) {
        self.slots.copy_within(at + 1..usize::from(self.tail), at);
        self.tail -= 1;
    }

    fn place(&mut self, now: Nanos, gap: Gap, end: Nanos) {
        let (start, at) = (gap.start, gap.at);
        self.forget_before(now);
        debug_assert!((self.head..=self.tail).contains(&at), "the gap was found in another state");
        let touches_left = at > self.head && self.slot(at - 1).end == start;
        let touches_right = at < self.tail && self.slot(at).start == end;
        match (touches_left, touches_right) {
            (true, true) => {
                self.slot(at - 1).end = self.slot(at).end;
                self.remove(usize::from(at));
            }
            (true, false) => self.slot(at - 1).end = end,
            (false, true) => self.slot(at).start = start,
            (false, false) => self.insert(usize::from(at), Slot { start, end }),
        }
    }

    /// The first of the shortest reservations, and its length.
    fn shortest(&self) -> (usize, Nanos) {
        let head = usize::from(self.head);
        let mut shortest = (head, Nanos::MAX);
        for (at, slot) in (head..).zip(self.taken()) {
            let length_ns = slot.end - slot.start;
            if length_ns < shortest.1 {
                shortest = (at, length_ns);
                if length_ns == self.shortest_ns {
                    break;
                }
            }
        }
        shortest
    }

    /// Inserts a slot at this place. If there is no room, the shortest reservation is dropped, which may be this one.
    fn insert(&mut self, mut at: usize, slot: Slot) {
        let length_ns = slot.end - slot.start;
        if usize::from(self.tail - self.head) == SLOTS {
            if length_ns < self.shortest_ns {
                return;
            }
            let (shortest, shortest_ns) = self.shortest();
            self.shortest_ns = shortest_ns;
            if shortest_ns > length_ns {
                return;
            }
            // Those between the two places move into the gap.
            if shortest < at {
                at -= 1;
                self.slots.copy_within(shortest + 1..=at, shortest);
            } else {
                self.slots.copy_within(at..shortest, at + 1);
            }
            self.slots[at] = slot;
            return;
        }
        self.shortest_ns = self.shortest_ns.min(length_ns);
        if usize::from(self.tail) == ROOM {
            let head = usize::from(self.head);
            self.slots.copy_within(head.., 0);
            (self.head, self.tail, at) = (0, self.tail - self.head, at - head);
        }
        if at < usize::from(self.tail) {
            self.slots.copy_within(at..usize::from(self.tail), at + 1);
        }
        self.slots[at] = slot;
        self.tail += 1;
    }
}

impl Timeline {
    /// `chunk_ns`: how long a stream holds the bus before others get a turn.
    pub fn new(chunk_ns: Nanos) -> Self {
        let reserved = Reserved { head: 0, tail: 0, slots: [Slot { start: 0, end: 0 }; ROOM], shortest_ns: Nanos::MAX };
        Timeline { reserved, stream_until: 0, chunk_ns: chunk_ns.max(1), log: None }
    }

    /// When a transfer of `length` that is ready at `ready` would start.
    #[inline]
    pub fn find(&self, ready: Nanos, length: Nanos) -> Gap {
        let mut start = ready;
        if self.stream_until > ready {
            start = (ready + self.chunk_ns - ready % self.chunk_ns).min(self.stream_until);
        }
        self.reserved.gap(start, length)
    }

    /// Reserves the result of [`Timeline::find`], which must be the last call before this one. No later call has a
    /// `ready` before `now`.
    #[inline]
    pub fn reserve(&mut self, now: Nanos, gap: Gap, length: Nanos) {
        if length > 0
            && let Some(log) = &mut self.log
        {
            log.add(Mechanism::HostRead, gap.start, gap.start + length);
        }
        self.occupy(now, gap, length);
    }

    /// [`Timeline::reserve`] that changes [`Timeline::reserved`] only: it is not recorded.
    #[inline]
    pub fn occupy(&mut self, now: Nanos, gap: Gap, length: Nanos) {
        if length == 0 {
            return;
        }
        let end = gap.start + length;
        // Most transfers begin where the newest reservation ends: the parts of a large request, and any at saturation.
        let reserved = &mut self.reserved;
        if reserved.head < reserved.tail && gap.start > now {
            let newest = reserved.slot(reserved.tail - 1);
            if newest.end == gap.start {
                newest.end = end;
                return;
            }
        }
        reserved.place(now, gap, end);
    }

    /// Adds a stream that uses the bus until `end`, chunk by chunk.
    pub fn stream(&mut self, of: Mechanism, start: Nanos, end: Nanos) {
        if let Some(log) = &mut self.log {
            log.add(of, start, end);
        }
        self.stream_until = self.stream_until.max(end);
    }

    /// [`Timeline::find`] for a command of any length: one longer than a chunk is a stream, and streams are served in
    /// sequence.
    pub fn find_command(&self, ready: Nanos, length: Nanos) -> Gap {
        if length > self.chunk_ns {
            Gap { start: ready.max(self.stream_until), at: self.reserved.tail }
        } else {
            self.find(ready, length)
        }
    }

    /// [`Timeline::reserve`] for the result of [`Timeline::find_command`].
    pub fn reserve_command(&mut self, now: Nanos, gap: Gap, length: Nanos) {
        if length > self.chunk_ns {
            self.stream(Mechanism::Link, gap.start, gap.start + length);
        } else {
            self.reserve(now, gap, length);
        }
    }

    /// When the last stream ends.
    pub fn stream_until(&self) -> Nanos {
        self.stream_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(bus: &mut Timeline, now: Nanos, ready: Nanos, length: Nanos) -> Nanos {
        let gap = bus.find(ready, length);
        bus.reserve(now, gap, length);
        gap.start
    }

    #[test]
    fn a_late_transfer_leaves_the_bus_to_earlier_ones() {
        let mut bus = Timeline::new(1000);
        assert_eq!(take(&mut bus, 0, 10_000_000, 10), 10_000_000);
        assert_eq!(take(&mut bus, 0, 50, 10), 50);
        assert_eq!(take(&mut bus, 0, 55, 10), 60);
        assert_eq!(take(&mut bus, 0, 9_999_995, 10), 10_000_010);
    }

    #[test]
    fn a_stream_gives_way_at_the_next_chunk() {
        let mut bus = Timeline::new(1000);
        bus.stream(Mechanism::FlushWide, 0, 10_000);
        assert_eq!(bus.find(2_300, 10).start, 3_000);
        assert_eq!(bus.find(9_900, 10).start, 10_000);
        assert_eq!(bus.find(10_000, 10).start, 10_000);
    }

    proptest! {
        /// With few transfers in flight, none overlap and none waits while the bus is idle.
        #[test]
        fn reservations_do_not_overlap(jobs in prop::collection::vec((0u64..500, 1u64..40), 1..SLOTS)) {
            let mut bus = Timeline::new(1000);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (ready, length) in jobs {
                let start = take(&mut bus, 0, ready, length);
                prop_assert!(start >= ready);
                prop_assert!(taken.iter().all(|&(s, e)| start >= e || start + length <= s));
                for early in ready..start {
                    prop_assert!(taken.iter().any(|&(s, e)| early < e && early + length > s));
                }
                taken.push((start, start + length));
            }
        }
    }
}
