// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies in flight: submitting them, ending them, and cancelling those that exceed their time limit.

use linnet_types::{Nanos, is_slow};

use super::{Array, Breakage};
use crate::slab::Flight;
use crate::{CopyId, Output};

/// How a copy is submitted to its device.
#[derive(Clone, Copy, Default)]
pub(super) struct Launch {
    /// To learn the current state of the device.
    pub probe: bool,
    /// Another replica is left, so a device that predicts by itself may refuse.
    pub may_revoke: bool,
}

impl Array {
    /// Submits a copy of a request to the k-th replica.
    pub(super) fn launch(&mut self, now: Nanos, index: usize, k: usize, how: Launch, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        let device = self.placement.device(slot.row, k);
        let replica = &mut self.replicas[device];
        let in_flight = replica.in_flight();
        let core = replica.arrive(&self.settings, now, &slot.request, how.probe);
        let counters = &mut self.counters[slot.set()];
        counters.probes += u64::from(core.is_probe());
        slot.flights[k] = Flight { core, in_flight };
        slot.submitted |= 1 << k;
        slot.flying |= 1 << k;
        let is_read = slot.request.op.is_read();
        counters.submits += 1;
        if slot.copies > 0 {
            *(if is_read { &mut counters.extra_io } else { &mut counters.extra_writes }) += 1;
        }
        slot.copies += 1;
        let (copy, tag, request) = (slot.copy_id(index, k), slot.tag, slot.request);
        out.push(Output::Submit { device, copy, tag, request, may_revoke: how.may_revoke && is_read });

        // Those of reads and writes are apart, so that deadlines never decrease.
        let limit = &mut self.limits[usize::from(!is_read)];
        let timeout_ns = if is_read { self.config.read_timeout_ns } else { self.config.write_timeout_ns };
        let at_ns = now.saturating_add(timeout_ns);
        limit.push((at_ns, copy), at_ns, |copy| self.slab.copy(copy).is_some(), out);
    }

    /// Ends the flight of a copy. `None` if it has already ended.
    pub(super) fn land(&mut self, copy: CopyId) -> Option<(usize, usize)> {
        let Some((index, k)) = self.slab.copy(copy) else {
            self.counters[self.slab.set_of(copy)].late += 1;
            return None;
        };
        self.slab.at(index).flying &= !(1 << k);
        Some((index, k))
    }

    /// Counts whether a copy was slow, if its read was predicted fast or is a sampled probe. `waited_ns` is its time at
    /// the device, up to now if it was not answered: then it was slow after the inflection point, and before it the
    /// outcome is unknown.
    pub(super) fn judge(&mut self, index: usize, k: usize, waited_ns: Nanos, answered: bool) {
        let slot = self.slab.at(index);
        let inflection_ns = self.inflection_ns[self.placement.device(slot.row, k)];
        let slow = is_slow(waited_ns, inflection_ns);
        if inflection_ns == 0 || !(answered || slow) {
            return;
        }
        let counters = &mut self.counters[slot.set()];
        counters.false_submits += u64::from(slow && slot.predicted_fast & (1 << k) != 0);
        if slot.sampled & (1 << k) != 0 {
            counters.probing.answered_probe(waited_ns, inflection_ns);
        }
    }

    pub(super) fn enforce_limits(&mut self, now: Nanos, kind: usize, out: &mut Vec<Output>) {
        self.limits[kind].disarm();
        if self.breaks(Breakage::ForgetLimits) {
            return;
        }
        while let Some((at_ns, copy)) = self.limits[kind].front() {
            let flying = self.slab.copy(copy);
            if flying.is_some() && at_ns > now {
                self.limits[kind].arm(at_ns, out);
                return;
            }
            self.limits[kind].pop();
            let Some((index, k)) = flying else { continue };
            let slot = self.slab.at(index);
            let device = self.placement.device(slot.row, k);
            out.push(Output::Cancel { device, copy, timed_out: true });
            self.counters[slot.set()].timeouts += 1;
            let waited_ns = now.saturating_sub(slot.flights[k].core.arrived_ns());
            self.judge(index, k, waited_ns, false);
            self.land(copy);
            self.lose(now, index, k, out);
        }
    }
}
