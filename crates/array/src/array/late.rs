// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads that a hedge is due for once they are late.
//!
//! Under most policies each read has a delay of its own, and a timer. Where all have one delay, which adapts
//! (`core/hedge.c`), a read is late by the delay of the time when that is looked at. So reads become late in the order in
//! which they were sent, and a list and one timer are enough, as in the kernel's target.

use linnet_types::Nanos;

use super::Array;
use crate::slab::Alarm;
use crate::{Outlook, Output, TimerId};

impl Array {
    /// The k-th copy of a read was just submitted, and is to be hedged when it is late: after `delay_ns`, unless all
    /// reads have one delay. Then reads above a size are not hedged, and what they take moves the delay of none.
    pub(super) fn await_late(&mut self, now: Nanos, index: usize, k: usize, delay_ns: Nanos, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        let sent_ns = slot.flights[k].core.arrived_ns();
        let due_ns = self.policy.hedge_due(sent_ns);
        if due_ns.is_some() && slot.request.size_bytes > self.config.hedge_bytes_max {
            return;
        }
        if slot.submitted == 1 << k {
            self.policy.sent_hedgeable(&self.settings);
        }
        let Some(due_ns) = due_ns else {
            let timer = TimerId::new(index, slot.generation, Alarm::Hedge(k));
            out.push(Output::SetTimer { at_ns: now.saturating_add(delay_ns), timer });
            return;
        };
        slot.may_be_late = true;
        let copy = slot.copy_id(index, k);
        self.waiting.push((sent_ns, copy), due_ns, |copy| self.slab.copy(copy).is_some(), out);
    }

    /// Hedges the reads that are late. The first may lengthen the delay, so that the next is not late yet.
    pub(super) fn find_late(&mut self, now: Nanos, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        self.waiting.disarm();
        while let Some((sent_ns, copy)) = self.waiting.front() {
            let late = self.slab.copy(copy).filter(|&(index, k)| {
                let slot = self.slab.get(index);
                // A device that refused this read may have it again since.
                slot.may_be_late && slot.flights[k].core.arrived_ns() == sent_ns
            });
            if late.is_some()
                && let Some(due_ns) = self.policy.hedge_due(sent_ns).filter(|&due_ns| due_ns > now)
            {
                self.waiting.arm(due_ns, out);
                return;
            }
            self.waiting.pop();
            if let Some((index, k)) = late {
                self.slab.at(index).may_be_late = false;
                self.hedge(now, index, k, outlook, out);
            }
        }
    }
}
