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

/// One direction of one bus.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// The reservations are `slots[head..tail]`, in ascending order.
    head: u8,
    tail: u8,
    slots: [Slot; ROOM],
    stream_until: Nanos,
    chunk_ns: Nanos,
    /// What used the bus, if this is recorded.
    pub log: Option<Box<SpanLog>>,
}

impl Timeline {
    /// `chunk_ns`: how long a stream holds the bus before others get a turn.
    pub fn new(chunk_ns: Nanos) -> Self {
        let slots = [Slot { start: 0, end: 0 }; ROOM];
        Timeline { head: 0, tail: 0, slots, stream_until: 0, chunk_ns: chunk_ns.max(1), log: None }
    }

    #[inline]
    fn taken(&self) -> &[Slot] {
        &self.slots[usize::from(self.head)..usize::from(self.tail)]
    }

    /// When a transfer of `length` that is ready at `ready` would start.
    #[inline]
    pub fn find(&self, ready: Nanos, length: Nanos) -> Nanos {
        let mut start = ready;
        if self.stream_until > ready {
            start = (ready + self.chunk_ns - ready % self.chunk_ns).min(self.stream_until);
        }
        // Search from the newest reservation: most transfers are ready near the end of the list.
        let taken = self.taken();
        let over = taken.iter().rposition(|slot| slot.end <= start).map_or(0, |at| at + 1);
        for slot in &taken[over..] {
            if slot.start >= start + length {
                break;
            }
            start = slot.end;
        }
        start
    }

    /// Reserves the result of [`Timeline::find`]. No later call has a `ready` before `now`.
    pub fn reserve(&mut self, now: Nanos, start: Nanos, length: Nanos) {
        if length == 0 {
            return;
        }
        let end = start + length;
        if let Some(log) = &mut self.log {
            log.add(Mechanism::HostRead, start, end);
        }
        // Most transfers begin where the newest reservation ends: the parts of a large request, and any at saturation.
        if let Some(newest) = self.slots[..usize::from(self.tail)].last_mut()
            && newest.end == start
            && start > now
        {
            newest.end = end;
            return;
        }
        self.forget_before(now);
        let taken = self.taken();
        let at = taken.iter().rposition(|slot| slot.start < end).map_or(0, |at| at + 1);
        let touches_left = at > 0 && taken[at - 1].end == start;
        let touches_right = at < taken.len() && taken[at].start == end;
        let at = usize::from(self.head) + at;
        match (touches_left, touches_right) {
            (true, true) => {
                self.slots[at - 1].end = self.slots[at].end;
                self.remove(at);
            }
            (true, false) => self.slots[at - 1].end = end,
            (false, true) => self.slots[at].start = start,
            (false, false) => self.insert(at, Slot { start, end }),
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
    pub fn find_command(&self, ready: Nanos, length: Nanos) -> Nanos {
        if length > self.chunk_ns { ready.max(self.stream_until) } else { self.find(ready, length) }
    }

    /// [`Timeline::reserve`] for the result of [`Timeline::find_command`].
    pub fn reserve_command(&mut self, now: Nanos, start: Nanos, length: Nanos) {
        if length > self.chunk_ns {
            self.stream(Mechanism::Link, start, start + length);
        } else {
            self.reserve(now, start, length);
        }
    }

    /// When the last stream ends.
    pub fn stream_until(&self) -> Nanos {
        self.stream_until
    }

    fn forget_before(&mut self, now: Nanos) {
        let over = self.taken().iter().position(|slot| slot.end > now);
        self.head = over.map_or(self.tail, |over| self.head + over as u8);
    }

    fn remove(&mut self, at: usize) {
        self.slots.copy_within(at + 1..usize::from(self.tail), at);
        self.tail -= 1;
    }

    fn insert(&mut self, mut at: usize, slot: Slot) {
        let taken = self.taken();
        if taken.len() == SLOTS {
            let shortest = (0..SLOTS).min_by_key(|&at| taken[at].end - taken[at].start).unwrap_or(0);
            if taken[shortest].end - taken[shortest].start > slot.end - slot.start {
                return;
            }
            let shortest = usize::from(self.head) + shortest;
            self.remove(shortest);
            at -= usize::from(shortest < at);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(bus: &mut Timeline, now: Nanos, ready: Nanos, length: Nanos) -> Nanos {
        let start = bus.find(ready, length);
        bus.reserve(now, start, length);
        start
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
        assert_eq!(bus.find(2_300, 10), 3_000);
        assert_eq!(bus.find(9_900, 10), 10_000);
        assert_eq!(bus.find(10_000, 10), 10_000);
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
