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
/// front. A power of two, so that a remainder replaces the check of a place.
const ROOM: usize = 32;

/// Places that a search compares at once.
const STEP: usize = 4;

/// One reservation: four are in a cache line.
#[derive(Clone, Copy, Debug)]
struct Slot {
    start: Nanos,
    end: Nanos,
}

/// What is before the first reservation, and what is after the last.
const PAST: Slot = Slot { start: 0, end: 0 };
const NEVER: Slot = Slot { start: Nanos::MAX, end: Nanos::MAX };

/// The reservations of a bus.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Reserved {
    /// The reservations are those at `head..tail`, in ascending order. What is before `head` has ended: a reservation of
    /// the past, or one of the first [`STEP`] places, which are never used. What is at `tail` never starts. So a search
    /// ends without a look at either. Those that have ended since are forgotten when there is no room for another.
    head: usize,
    tail: usize,
    /// None is shorter than this.
    shortest_ns: Nanos,
    slots: [Slot; ROOM],
}

/// Where a transfer fits: when it would start, and the place of its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub start: Nanos,
    at: usize,
}

/// One direction of one bus. In this order no slot is in two cache lines, and what a search needs beside the slots is in
/// the first: those of all channels do not fit in the first cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Timeline {
    stream_until: Nanos,
    chunk_ns: Nanos,
    /// What used the bus, if this is recorded.
    pub log: Option<Box<SpanLog>>,
    pub reserved: Reserved,
}

impl Reserved {
    fn new() -> Self {
        let mut slots = [PAST; ROOM];
        slots[STEP] = NEVER;
        Reserved { head: STEP, tail: STEP, shortest_ns: Nanos::MAX, slots }
    }

    /// The first gap of `length` from `start` on.
    #[inline(always)]
    fn gap(&self, mut start: Nanos, length: Nanos) -> Gap {
        // Search from the newest reservation: most transfers are ready near the end of the list. How many of the next few
        // end later is counted without branches, which would be hard to predict.
        let mut at = self.tail;
        loop {
            let near =
                self.slots[(at - STEP) % ROOM..].first_chunk::<STEP>().expect("no place is before the first four");
            let later = near.iter().map(|slot| usize::from(slot.end > start)).sum::<usize>();
            at -= later;
            if later < STEP {
                break;
            }
        }
        while self.slots[at % ROOM].start < start + length {
            start = self.slots[at % ROOM].end;
            at += 1;
        }
        Gap { start, at }
    }

    #[inline]
    fn forget_before(&mut self, now: Nanos) {
        while self.slots[self.head % ROOM].end <= now {
            self.head += 1;
        }
    }

    #[inline(never)]
    fn place(&mut self, now: Nanos, gap: Gap, end: Nanos) {
        let (start, at) = (gap.start, gap.at % ROOM);
        debug_assert!((self.head..=self.tail).contains(&gap.at), "the gap was found in another state");
        // What has ended by now is not continued.
        let touches_left = start > now && self.slots[(at - 1) % ROOM].end == start;
        let touches_right = self.slots[at].start == end;
        match (touches_left, touches_right) {
            (true, true) => {
                self.slots[(at - 1) % ROOM].end = self.slots[at].end;
                self.shift_down(at + 1, self.tail + 1);
                self.tail -= 1;
            }
            (true, false) => self.slots[(at - 1) % ROOM].end = end,
            (false, true) => self.slots[at].start = start,
            (false, false) => self.insert(now, at, Slot { start, end }),
        }
    }

    /// Moves what is at `from..until` to the place before. Mostly these are few, so a copy of memory would be slower.
    #[inline]
    fn shift_down(&mut self, from: usize, until: usize) {
        for at in from..until {
            self.slots[(at - 1) % ROOM] = self.slots[at % ROOM];
        }
    }

    /// Moves what is at `from..until` to the place after.
    #[inline]
    fn shift_up(&mut self, from: usize, until: usize) {
        for at in (from..until).rev() {
            self.slots[(at + 1) % ROOM] = self.slots[at % ROOM];
        }
    }

    /// Inserts a reservation at this place. If there is no room, the shortest one is dropped, which may be this one.
    fn insert(&mut self, now: Nanos, mut at: usize, slot: Slot) {
        let length_ns = slot.end - slot.start;
        if self.tail - self.head >= SLOTS || self.tail == ROOM - 1 {
            self.forget_before(now);
        }
        if self.tail - self.head == SLOTS {
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
                self.shift_down(shortest + 1, at + 1);
            } else {
                self.shift_up(at, shortest);
            }
        } else {
            self.shortest_ns = self.shortest_ns.min(length_ns);
            if self.tail == ROOM - 1 {
                let gone = self.head - STEP;
                self.slots.copy_within(self.head.., STEP);
                (self.head, self.tail, at) = (STEP, self.tail - gone, at - gone);
            }
            self.shift_up(at, self.tail + 1);
            self.tail += 1;
        }
        self.slots[at] = slot;
    }

    /// The place of the first of the shortest reservations, and its length.
    fn shortest(&self) -> (usize, Nanos) {
        let mut shortest = (self.head, Nanos::MAX);
        for at in self.head..self.tail {
            let Slot { start, end } = self.slots[at % ROOM];
            if end - start < shortest.1 {
                shortest = (at, end - start);
                if end - start == self.shortest_ns {
                    break;
                }
            }
        }
        shortest
    }
}

impl Timeline {
    /// `chunk_ns`: how long a stream holds the bus before others get a turn.
    pub fn new(chunk_ns: Nanos) -> Self {
        Timeline { stream_until: 0, chunk_ns: chunk_ns.max(1), log: None, reserved: Reserved::new() }
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
    #[inline(always)]
    pub fn occupy(&mut self, now: Nanos, gap: Gap, length: Nanos) {
        if length == 0 {
            return;
        }
        let end = gap.start + length;
        // Most transfers begin where the newest reservation ends: the parts of a large request, and any at saturation.
        let reserved = &mut self.reserved;
        let newest = &mut reserved.slots[(reserved.tail - 1) % ROOM];
        if newest.end == gap.start && gap.start > now {
            newest.end = end;
            return;
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
