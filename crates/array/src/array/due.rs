// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies that something is due for after a time, unless they end before: in order, so that one timer is enough.

use std::collections::VecDeque;

use linnet_types::Nanos;

use crate::{CopyId, Output, TimerId};

/// Copies with a time each, which never decreases. Those that ended are dropped when they reach the front.
pub(super) struct Due {
    queue: VecDeque<(Nanos, CopyId)>,
    timer: TimerId,
    /// The timer is set for the front entry, or for one that was there before.
    armed: bool,
}

impl Due {
    pub(super) fn new(timer: TimerId) -> Due {
        Due { queue: VecDeque::with_capacity(256), timer, armed: false }
    }

    /// Adds a copy, for which the timer is set to `due_ns` if it is not set yet.
    pub(super) fn push(
        &mut self,
        (at_ns, copy): (Nanos, CopyId),
        due_ns: Nanos,
        flies: impl Fn(CopyId) -> bool,
        out: &mut Vec<Output>,
    ) {
        while self.queue.front().is_some_and(|&(_, copy)| !flies(copy)) {
            self.queue.pop_front();
        }
        self.queue.push_back((at_ns, copy));
        if !self.armed {
            self.arm(due_ns, out);
        }
    }

    pub(super) fn arm(&mut self, due_ns: Nanos, out: &mut Vec<Output>) {
        self.armed = true;
        out.push(Output::SetTimer { at_ns: due_ns, timer: self.timer });
    }

    /// The timer has expired.
    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }

    pub(super) fn front(&self) -> Option<(Nanos, CopyId)> {
        self.queue.front().copied()
    }

    pub(super) fn pop(&mut self) {
        self.queue.pop_front();
    }
}
