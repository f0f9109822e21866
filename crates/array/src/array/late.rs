// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads that a hedge is due for once they are late.
//!
//! Under most policies each read has a delay of its own, and a timer. Where all have one delay, which adapts
//! (`core/hedge.c`), a read is late by the delay of the time when that is looked at. So reads become late in the order in
//! which they were sent, and a list and one timer are enough, as in the kernel's target.

use std::collections::VecDeque;

use linnet_types::Nanos;

use super::Array;
use crate::slab::Alarm;
use crate::{CopyId, Outlook, Output, TimerId};

/// Copies of reads that may become late, oldest first, and when they were sent. Those that ended are dropped when they
/// reach the front.
pub(super) struct Waiting {
    sent: VecDeque<(Nanos, CopyId)>,
    /// The timer is set for the front entry, or for one that was there before.
    armed: bool,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Waiting { sent: VecDeque::with_capacity(256), armed: false }
    }
}

impl Array {
    /// The k-th copy of a read was just submitted, and is to be hedged when it is late: after `delay_ns`, unless all
    /// reads have one delay. Then reads above a size are not hedged, and what they take moves the delay of none.
    pub(super) fn await_late(&mut self, now: Nanos, index: usize, k: usize, delay_ns: Nanos, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        let is_first = slot.submitted == 1 << k;
        let sent_ns = slot.flights[k].core.arrived_ns();
        let Some(due_ns) = self.policy.hedge_due(sent_ns) else {
            if is_first {
                self.policy.sent_hedgeable(&self.settings);
            }
            let timer = TimerId::new(index, slot.generation, Alarm::Hedge(k));
            out.push(Output::SetTimer { at_ns: now.saturating_add(delay_ns), timer });
            return;
        };
        if slot.request.size_bytes > self.config.hedge_bytes_max {
            return;
        }
        if is_first {
            self.policy.sent_hedgeable(&self.settings);
        }
        slot.may_be_late = true;
        let copy = slot.copy_id(index, k);
        while self.waiting.sent.front().is_some_and(|&(_, copy)| self.slab.copy(copy).is_none()) {
            self.waiting.sent.pop_front();
        }
        self.waiting.sent.push_back((sent_ns, copy));
        if !self.waiting.armed {
            self.look_at(due_ns, out);
        }
    }

    fn look_at(&mut self, at_ns: Nanos, out: &mut Vec<Output>) {
        self.waiting.armed = true;
        out.push(Output::SetTimer { at_ns, timer: TimerId::new(0, 0, Alarm::Late) });
    }

    /// Hedges the reads that are late. The first may lengthen the delay, so that the next is not late yet.
    pub(super) fn find_late(&mut self, now: Nanos, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        self.waiting.armed = false;
        while let Some(&(sent_ns, copy)) = self.waiting.sent.front() {
            let late = self.slab.copy(copy).filter(|&(index, k)| {
                let slot = self.slab.get(index);
                // A device that refused this read may have it again since.
                slot.may_be_late && slot.flights[k].core.arrived_ns() == sent_ns
            });
            if late.is_some()
                && let Some(due_ns) = self.policy.hedge_due(sent_ns).filter(|&due_ns| due_ns > now)
            {
                self.look_at(due_ns, out);
                return;
            }
            self.waiting.sent.pop_front();
            if let Some((index, k)) = late {
                self.slab.at(index).may_be_late = false;
                self.hedge(now, index, k, outlook, out);
            }
        }
    }
}
