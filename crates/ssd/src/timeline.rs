// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a channel or the host link is taken: reservations in gaps, with bounded state.
//!
//! Transfers are reserved when their request arrives, which may be long before they start. A transfer takes the first gap that is wide
//! enough at or after the time its data is ready, so one that must wait 10 ms for its die does not hold back those that are ready
//! earlier. At saturation neighbouring reservations touch and melt into one, so state stays small where precision matters; when it
//! does overflow, transfers are sparse, collisions improbable, and the shortest reservation is forgotten.
//!
//! Long streams (flush and GC data on a channel, requests above the chunk on a link) do not reserve: they are served in
//! chunks, and a transfer that meets a stream waits for the rest of the chunk under way.

use linnet_types::Nanos;

use crate::cause::Mechanism;
use crate::spans::SpanLog;

const SLOTS: usize = 24;

/// One direction of one bus.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    len: u8,
    starts: [Nanos; SLOTS],
    ends: [Nanos; SLOTS],
    stream_until: Nanos,
    chunk_ns: Nanos,
    /// What took the bus, when that is recorded.
    pub log: Option<Box<SpanLog>>,
}

impl Timeline {
    /// `chunk_ns`: how long a stream holds the bus before others get a turn.
    pub fn new(chunk_ns: Nanos) -> Self {
        Timeline { len: 0, starts: [0; SLOTS], ends: [0; SLOTS], stream_until: 0, chunk_ns: chunk_ns.max(1), log: None }
    }

    /// When a transfer of `length` that is ready at `ready` would start.
    #[inline]
    pub fn find(&self, ready: Nanos, length: Nanos) -> Nanos {
        let mut start = ready;
        if self.stream_until > ready {
            start = (ready + self.chunk_ns - ready % self.chunk_ns).min(self.stream_until);
        }
        for slot in 0..self.len as usize {
            if self.ends[slot] <= start {
                continue;
            }
            if self.starts[slot] >= start + length {
                break;
            }
            start = self.ends[slot];
        }
        start
    }

    /// Takes what [`Timeline::find`] gave. `now`: no later call is ready before it.
    pub fn reserve(&mut self, now: Nanos, start: Nanos, length: Nanos) {
        if length == 0 {
            return;
        }
        self.forget_before(now);
        let end = start + length;
        if let Some(log) = &mut self.log {
            log.add(Mechanism::HostRead, start, end);
        }
        let len = self.len as usize;
        let mut at = len;
        while at > 0 && self.starts[at - 1] >= end {
            at -= 1;
        }
        let touches_left = at > 0 && self.ends[at - 1] == start;
        let touches_right = at < len && self.starts[at] == end;
        match (touches_left, touches_right) {
            (true, true) => {
                self.ends[at - 1] = self.ends[at];
                self.remove(at);
            }
            (true, false) => self.ends[at - 1] = end,
            (false, true) => self.starts[at] = start,
            (false, false) => self.insert(at, start, end),
        }
    }

    /// A stream that holds the bus until `end`, chunk by chunk.
    pub fn stream(&mut self, of: Mechanism, start: Nanos, end: Nanos) {
        if let Some(log) = &mut self.log {
            log.add(of, start, end);
        }
        self.stream_until = self.stream_until.max(end);
    }

    /// [`Timeline::find`] for a command of any length: one longer than a chunk is a stream, and streams follow each other.
    pub fn find_command(&self, ready: Nanos, length: Nanos) -> Nanos {
        if length > self.chunk_ns { ready.max(self.stream_until) } else { self.find(ready, length) }
    }

    /// [`Timeline::reserve`] for what [`Timeline::find_command`] gave.
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
        let mut dead = 0;
        while dead < self.len as usize && self.ends[dead] <= now {
            dead += 1;
        }
        if dead > 0 {
            self.starts.copy_within(dead.., 0);
            self.ends.copy_within(dead.., 0);
            self.len -= dead as u8;
        }
    }

    fn remove(&mut self, at: usize) {
        self.starts.copy_within(at + 1.., at);
        self.ends.copy_within(at + 1.., at);
        self.len -= 1;
    }

    fn insert(&mut self, mut at: usize, start: Nanos, end: Nanos) {
        if self.len as usize == SLOTS {
            let shortest = (0..SLOTS).min_by_key(|&slot| self.ends[slot] - self.starts[slot]).unwrap_or(0);
            if self.ends[shortest] - self.starts[shortest] > end - start {
                return;
            }
            self.remove(shortest);
            at -= usize::from(shortest < at);
        }
        let len = self.len as usize;
        self.starts.copy_within(at..len, at + 1);
        self.ends.copy_within(at..len, at + 1);
        self.starts[at] = start;
        self.ends[at] = end;
        self.len += 1;
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
        /// With few transfers in flight, none overlap and none waits beside an idle bus.
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
