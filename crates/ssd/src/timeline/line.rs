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

    /// The first gap of `length` from `start` on.
    #[inline]
    fn gap(&self, mut start: Nanos, length: Nanos) -> Gap {
        // Search from the newest reservation: most transfers are ready near the end of the list.
        let taken = self.taken();
        let mut at = taken.iter().rposition(|slot| slot.end <= start).map_or(0, |at| at + 1);
        for slot in &taken[at..] {
            if slot.start >= start + length {
                break;
            }
            start = slot.end;
            at += 1;
        }
        Gap { start, at: self.head + at as u8 }
    }

    fn forget_before(&mut self, now: Nanos) {
        let over = self.taken().iter().position(|slot| slot.end > now);
        self.head = over.map_or(self.tail, |over| self.head + over as u8);
    }

    fn remove(&mut self, at: usize) {
        self.slots.copy_within(at + 1..usize::from(self.tail), at);
        self.tail -= 1;
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
            self.remove(shortest);
            at -= usize::from(shortest < at);
        } else {
            self.shortest_ns = self.shortest_ns.min(length_ns);
        }
        if usize::from(self.tail) == ROOM {
            let head = usize::from(self.head);
            self.slots.copy_within(head.., 0);
            (self.head, self.tail, at) = (0, self.tail - self.head, at - head);
        }
        self.slots.copy_within(at..usize::from(self.tail), at + 1);
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
        if let Some(newest) = self.reserved.slots[..usize::from(self.reserved.tail)].last_mut()
            && newest.end == gap.start
            && gap.start > now
        {
            newest.end = end;
            return;
        }
        self.place(now, gap, end);
    }

    fn place(&mut self, now: Nanos, gap: Gap, end: Nanos) {
        let start = gap.start;
        let reserved = &mut self.reserved;
        reserved.forget_before(now);
        let at = usize::from(gap.at);
        let (head, tail) = (usize::from(reserved.head), usize::from(reserved.tail));
        debug_assert!((head..=tail).contains(&at), "the gap was found in another state");
        let touches_left = at > head && reserved.slots[at - 1].end == start;
        let touches_right = at < tail && reserved.slots[at].start == end;
        match (touches_left, touches_right) {
            (true, true) => {
                reserved.slots[at - 1].end = reserved.slots[at].end;
                reserved.remove(at);
            }
            (true, false) => reserved.slots[at - 1].end = end,
            (false, true) => reserved.slots[at].start = start,
            (false, false) => reserved.insert(at, Slot { start, end }),
        }
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
