// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routing of reads: asks the policy, and grants or refuses what it wants.

use linnet_core::{Replica, Settings};
use linnet_types::{Nanos, Outcome, is_slow};

use super::flight::Launch;
use super::{Array, Breakage};
use crate::probing::Draw;
use crate::slab::{Mask, State};
use crate::{Ask, Choice, Hedge, Outlook, Output, Placement, Submit};

impl Array {
    /// Decides where a read is sent next. It has no copy in flight.
    pub(super) fn route(&mut self, now: Nanos, index: usize, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        let slot = self.slab.get(index);
        let untried = self.all & !(slot.submitted | slot.refused);
        let mut candidates = self.in_service(now, slot, untried);
        if candidates == 0 {
            candidates = untried;
        }
        // Every replica was tried: replicas that were revoked may still have the data.
        let all_tried = candidates == 0;
        if all_tried {
            candidates = slot.refused & !slot.submitted;
        }
        if candidates == 0 {
            return;
        }
        let mut ask = ask(&self.settings, &self.replicas, &self.placement, now, slot, candidates, outlook);
        ask.last &= !self.breaks(Breakage::RevokeLast);
        let choice = if all_tried {
            Choice::Submit(Submit::to(ask.preferred(linnet_core::Policy::EwmaInflight, |_| None)))
        } else {
            self.policy.choose(&ask, &mut self.chance, &mut self.revokes)
        };
        let (next, last) = (ask.next, ask.last);
        let at_primary = ask.first && candidates & 1 != 0;
        let set = slot.set();
        self.counters[set].forced_submits += u64::from((last || all_tried) && self.predicts);
        let submit = match choice {
            // The policy chose another device although the primary was available.
            Choice::Submit(submit) if at_primary && submit.replica != next && self.config.probe_share > 0.0 => {
                if self.draw(now, index, next, outlook) {
                    Submit::to(next).hedged(submit.hedge_after)
                } else {
                    self.counters[set].predictions += u64::from(submit.predicted_fast);
                    submit
                }
            }
            Choice::Submit(submit) => {
                self.counters[set].predictions += u64::from(submit.predicted_fast);
                submit
            }
            Choice::Declined(submit) => {
                self.counters[set].predictions += 1;
                self.counters[set].budget_denied += u64::from(!submit.probe);
                submit
            }
            Choice::Revoke { hedge_after } => {
                self.counters[set].predictions += u64::from(!last);
                let kept = last || (self.config.probe_share > 0.0 && self.draw(now, index, next, outlook));
                if !kept {
                    self.revoke(now, index, next, outlook, out);
                    return;
                }
                Submit::to(next).hedged(hedge_after)
            }
        };
        self.carry_out(now, index, submit, candidates, out);
    }

    fn revoke(&mut self, now: Nanos, index: usize, device: usize, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        slot.refused |= bit_of(&self.placement, slot, device);
        let request = slot.request;
        let counters = &mut self.counters[slot.set()];
        self.replicas[device].note_revoke();
        counters.revokes += 1;
        let inflection_ns = self.inflection_ns[device];
        if inflection_ns > 0
            && let Some(Outcome::Done(at)) = outlook.peek_until(device, now, &request, now + inflection_ns)
            && !is_slow(at.saturating_sub(now), inflection_ns)
        {
            counters.false_revokes += 1;
        }
        self.retry_at(now + self.config.failover_ns, index, out);
    }

    /// Draws whether a read that the policy does not want on `device` is submitted there as a probe.
    fn draw(&mut self, now: Nanos, index: usize, device: usize, outlook: &dyn Outlook) -> bool {
        let there = self.coin.happens(self.config.probe_share);
        let inflection_ns = self.inflection_ns[device];
        let slot = self.slab.at(index);
        let probing = &mut self.counters[slot.set()].probing;
        probing.draws += 1;
        if there {
            probing.probes += 1;
            slot.sampled |= bit_of(&self.placement, slot, device);
        } else if inflection_ns > 0
            && let Some(Outcome::Done(at)) = outlook.peek_until(device, now, &slot.request, now + inflection_ns)
        {
            probing.fast_elsewhere += u64::from(!is_slow(at.saturating_sub(now), inflection_ns));
        }
        if slot.drawn == Draw::None {
            slot.drawn = if there { Draw::Probe } else { Draw::Elsewhere };
        }
        there
    }

    fn carry_out(&mut self, now: Nanos, index: usize, submit: Submit, candidates: Mask, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        slot.may_be_late = false;
        let mut bit = bit_of(&self.placement, slot, submit.replica) & candidates;
        debug_assert!(bit != 0, "{} chose no candidate", self.policy.name());
        if bit == 0 {
            bit = candidates & candidates.wrapping_neg();
        }
        let k = bit.trailing_zeros() as usize;
        let also = submit.also.map_or(0, |also| bit_of(&self.placement, slot, also) & candidates & !bit);
        slot.predicted_fast |= if submit.predicted_fast { bit } else { 0 };
        let untried = self.all & !(slot.submitted | slot.refused | bit);
        self.launch(now, index, k, Launch { probe: submit.probe, may_revoke: untried != 0 }, out);
        if let Some(delay) = submit.hedge_after.filter(|_| self.config.replicas > 1) {
            self.await_late(now, index, k, delay, out);
        }
        if also != 0 {
            if self.clones.take(&self.clone_rate) {
                let k = also.trailing_zeros() as usize;
                self.launch(now, index, k, Launch { probe: false, may_revoke: untried & !also != 0 }, out);
            } else {
                self.counters[self.slab.get(index).set()].budget_denied += 1;
            }
        }
    }

    /// Sends the hedge of a read whose k-th copy has not answered in time.
    pub(super) fn hedge(&mut self, now: Nanos, index: usize, k: usize, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        let slot = **self.slab.at(index);
        if slot.answered || slot.hedged || slot.flying & (1 << k) == 0 {
            return;
        }
        // Hedges are not sent to devices that are out of service: single probes test these.
        let candidates = self.in_service(now, &slot, self.all & !slot.submitted);
        if candidates == 0 {
            return;
        }
        let target = match self.policy.hedge(&ask(
            &self.settings,
            &self.replicas,
            &self.placement,
            now,
            &slot,
            candidates,
            outlook,
        )) {
            Hedge::To(device) => device,
            Hedge::Never => return,
        };
        let bit = bit_of(&self.placement, &slot, target) & candidates;
        debug_assert!(bit != 0, "{} hedges to no candidate", self.policy.name());
        if bit == 0 {
            return;
        }
        if self.hedge_rate.is_some_and(|rate| !self.hedges.take(&rate)) {
            self.counters[slot.set()].budget_denied += 1;
            return;
        }
        self.counters[slot.set()].hedges += 1;
        let slot = self.slab.at(index);
        slot.hedged = true;
        slot.hedges |= bit;
        self.launch(now, index, bit.trailing_zeros() as usize, Launch::default(), out);
    }

    /// The replicas of `mask` whose devices are in service.
    fn in_service(&self, now: Nanos, slot: &State, mask: Mask) -> Mask {
        let mut left = mask;
        let mut rest = mask;
        while rest != 0 {
            let k = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if self.replicas[self.placement.device(slot.row, k)].is_out(now) {
                left &= !(1 << k);
            }
        }
        left
    }
}

/// The bit of a device in the masks of this request; 0 if the device holds no replica.
fn bit_of(placement: &Placement, slot: &State, device: usize) -> Mask {
    placement.replica(slot.row, device).map_or(0, |k| 1 << k)
}

fn ask<'a>(
    settings: &'a Settings,
    devices: &'a [Replica],
    placement: &'a Placement,
    now_ns: Nanos,
    slot: &'a State,
    candidates: Mask,
    outlook: &'a dyn Outlook,
) -> Ask<'a> {
    Ask {
        now_ns,
        arrive_ns: slot.arrive_ns,
        request: &slot.request,
        stream: slot.stream as usize,
        replicas: placement.devices(slot.row as usize),
        next: placement.device(slot.row, candidates.trailing_zeros() as usize),
        first: slot.submitted | slot.refused == 0,
        last: candidates.is_power_of_two(),
        devices,
        outlook,
        settings,
        candidates,
        refused: slot.refused,
    }
}
