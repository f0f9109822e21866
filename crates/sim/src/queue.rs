// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue of future events, with the virtual clock.
//!
//! Events leave in the order of (time, sequence): of two events due at the same time, the one that was pushed first
//! leaves first. So a run depends on its input alone. Popping an event moves the clock to the event's time. An event
//! that is pushed for a past time is due now, so the clock never goes back.

use linnet_types::Nanos;

/// Time and sequence in one integer: comparing keys compares times first, then the order of insertion.
type Key = u128;

/// Children per node. Four halve the height of a binary heap, and the keys of the four children are adjacent in memory.
const ARITY: usize = 4;

fn key(at: Nanos, sequence: u64) -> Key {
    (Key::from(at) << 64) | Key::from(sequence)
}

/// A queue of timed events with a virtual clock.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: Vec<(Key, E)>,
    sequence: u64,
    now_ns: Nanos,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue; the clock is at 0.
    pub fn new() -> Self {
        EventQueue { heap: Vec::with_capacity(1024), sequence: 0, now_ns: 0 }
    }

    /// The virtual time.
    pub fn now_ns(&self) -> Nanos {
        self.now_ns
    }

    /// Events waiting.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True when no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// When the next event is due.
    pub fn next_ns(&self) -> Option<Nanos> {
        self.heap.first().map(|(key, _)| (key >> 64) as Nanos)
    }

    /// Moves the clock forward to `at`, for input that does not come through the queue; a past `at` has no effect. `at`
    /// must not be after the next event.
    pub fn advance(&mut self, at: Nanos) {
        debug_assert!(self.next_ns().is_none_or(|next| at <= next), "the clock may not jump over an event");
        self.now_ns = self.now_ns.max(at);
    }

    /// Pushes an event for time `at`, or for now if `at` is past.
    pub fn push(&mut self, at: Nanos, event: E) {
        let entry = (key(at.max(self.now_ns), self.sequence), event);
        self.sequence += 1;
        let mut hole = self.heap.len();
        self.heap.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent].0 <= entry.0 {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }

    /// Pops the next event and moves the clock to it.
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        let last = self.heap.pop()?;
        let Some(&(first, event)) = self.heap.first() else {
            self.now_ns = (last.0 >> 64) as Nanos;
            return Some((self.now_ns, last.1));
        };
        let heap = &mut self.heap[..];
        let mut hole = 0;
        loop {
            let child = hole * ARITY + 1;
            if child >= heap.len() {
                break;
            }
            let family = &heap[child..heap.len().min(child + ARITY)];
            let mut least = 0;
            for (i, entry) in family.iter().enumerate().skip(1) {
                if entry.0 < family[least].0 {
                    least = i;
                }
            }
            let least = child + least;
            if last.0 <= heap[least].0 {
                break;
            }
            heap[hole] = heap[least];
            hole = least;
        }
        heap[hole] = last;
        self.now_ns = (first >> 64) as Nanos;
        Some((self.now_ns, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chance;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_leave_by_time_then_by_order_of_insertion(times in prop::collection::vec(0u64..50, 0..300)) {
            let mut queue = EventQueue::new();
            for (i, &at) in times.iter().enumerate() {
                queue.push(at, i);
            }
            let mut expected: Vec<(u64, usize)> = times.iter().copied().zip(0..).collect();
            expected.sort();
            let taken: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            prop_assert_eq!(taken, expected);
        }
    }

    #[test]
    fn the_clock_never_goes_back() {
        let mut chance = Chance::new(1);
        let mut queue = EventQueue::new();
        queue.push(0, 0u32);
        let mut before = 0;
        for i in 0..10_000 {
            let (now, _) = queue.pop().expect("each round puts in at least one event");
            assert!(now >= before);
            assert_eq!(now, queue.now_ns());
            before = now;
            queue.push(now.saturating_sub(chance.below(50)), i);
            if chance.happens(0.01) {
                queue.push(now + chance.below(1000), i);
            }
        }
    }
}
