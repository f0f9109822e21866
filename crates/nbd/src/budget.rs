// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that all connections of a server may hold together.
//!
//! Each connection has a floor outside of the budget: its usual buffer, and [`FLOOR_BYTES`] of requests and replies. So
//! clients that hold the whole budget, and read nothing, slow down large requests of others and never stop small ones.
//!
//! What a request needs is taken at once, or nothing of it: a request that holds a part and waits for the rest would
//! wait for ever, if what it waits for is the part of another one that does the same. Nobody needs more of the budget
//! in order to give back: replies leave at their deadlines; a write leaves when its payload is complete, or at the
//! latest when the earlier replies of its connection have left; and clients that keep this from happening are cut off.
//!
//! Who does not get it waits in line, first come, first served. Without a line, small needs would take what comes back
//! before it is enough for a large one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a connection may hold of requests and replies when the budget is spent.
pub const FLOOR_BYTES: usize = 1 << 20;

/// A budget, and the line of those that wait for a part of it.
#[derive(Debug)]
pub struct Budget {
    bytes: usize,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    left: usize,
    waiting: VecDeque<Arc<Place>>,
}

/// A place in the line. It leaves the line when its bytes were taken for it.
#[derive(Debug)]
pub struct Place {
    bytes: usize,
    granted: AtomicBool,
}

impl Budget {
    pub fn new(bytes: usize) -> Budget {
        Budget { bytes, line: Mutex::new(Line { left: bytes, waiting: VecDeque::new() }) }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes this much, and returns how much that was: a need beyond the whole budget takes the whole budget, since one
    /// request is always accepted. `None` if it must wait; then `place` is its place in the line, and the caller asks
    /// again with it, or gives it up with [`Budget::leave`].
    pub fn take(&self, place: &mut Option<Arc<Place>>, bytes: usize) -> Option<usize> {
        let bytes = bytes.min(self.bytes);
        if let Some(waiting) = place.as_ref().filter(|place| place.bytes == bytes) {
            let granted = waiting.granted.load(Relaxed);
            if granted {
                *place = None;
            }
            return granted.then_some(bytes);
        }
        self.leave(place);
        let mut line = self.line();
        if line.waiting.is_empty() && line.left >= bytes {
            line.left -= bytes;
            return Some(bytes);
        }
        let waiting = Arc::new(Place { bytes, granted: AtomicBool::new(false) });
        line.waiting.push_back(Arc::clone(&waiting));
        *place = Some(waiting);
        None
    }

    pub fn give(&self, bytes: usize) {
        if bytes > 0 {
            let mut line = self.line();
            line.left += bytes;
            line.serve();
        }
    }

    /// Gives up a place in the line, and what was taken for it.
    pub fn leave(&self, place: &mut Option<Arc<Place>>) {
        let Some(place) = place.take() else { return };
        let mut line = self.line();
        if place.granted.load(Relaxed) {
            line.left += place.bytes;
        } else {
            line.waiting.retain(|other| !Arc::ptr_eq(other, &place));
        }
        line.serve();
    }

    pub fn left(&self) -> usize {
        self.line().left
    }
}

impl Line {
    /// Takes for those at the front of the line, as far as what is left goes.
    fn serve(&mut self) {
        while let Some(first) = self.waiting.front().filter(|first| first.bytes <= self.left) {
            self.left -= first.bytes;
            first.granted.store(true, Relaxed);
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_need_is_served_before_small_ones_that_came_later() {
        let budget = Budget::new(100);
        let [mut large, mut small, mut none] = [const { None }; 3];
        assert_eq!(budget.take(&mut none, 60), Some(60));
        assert_eq!(budget.take(&mut large, 80), None);
        // The 40 that are left would do, and taking them again and again would keep the large one waiting.
        assert_eq!(budget.take(&mut small, 10), None);
        assert_eq!((budget.take(&mut large, 80), budget.left()), (None, 40), "who waits holds nothing");
        budget.give(60);
        assert_eq!(budget.left(), 10);
        assert_eq!(budget.take(&mut small, 10), Some(10));
        assert_eq!(budget.take(&mut large, 80), Some(80));
        assert!(none.is_none() && small.is_none() && large.is_none());
    }

    #[test]
    fn who_leaves_the_line_holds_up_nobody_and_loses_nothing() {
        let budget = Budget::new(100);
        let [mut first, mut second, mut none] = [const { None }; 3];
        assert_eq!(budget.take(&mut none, 50), Some(50));
        assert_eq!(budget.take(&mut first, 90), None);
        assert_eq!(budget.take(&mut second, 40), None);
        budget.leave(&mut first);
        assert_eq!(budget.left(), 10, "taken for the second, which did not ask again yet");
        budget.leave(&mut second);
        assert_eq!(budget.left(), 50);
        // A need that changes is another need.
        assert_eq!(budget.take(&mut first, 90), None);
        assert_eq!(budget.take(&mut first, 50), Some(50));
        budget.give(100);
        assert_eq!(budget.left(), 100);
    }

    #[test]
    fn a_need_beyond_the_whole_takes_the_whole() {
        let budget = Budget::new(100);
        let [mut place, mut none] = [const { None }; 2];
        assert_eq!(budget.take(&mut none, 1), Some(1));
        assert_eq!(budget.take(&mut place, 1000), None);
        budget.give(1);
        assert_eq!(budget.take(&mut place, 1000), Some(100));
        budget.give(100);
    }
}
