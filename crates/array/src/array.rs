// SPDX-License-Identifier: MIT OR Apache-2.0
//! The array: replicas and a policy, as a state machine without I/O.
//!
//! A driver feeds it what happened (a request arrived, a copy completed, failed, was refused or cancelled, a timer rang)
//! and carries out what it puts in `out`. The array never waits and never asks for the time; the same code runs on models
//! in virtual time and on real devices.
//!
//! The life of a read:
//!
//! 1. It arrives. The policy is asked about the first candidate, the primary.
//! 2. Revoked: a timer of `failover_ns` is set, and when it rings the policy is asked about the next replica. The last
//!    candidate is never revoked. A revoke that the budget does not allow becomes a submit; one that rests on expired
//!    knowledge becomes a probe.
//! 3. Submitted: a copy flies. It may be hedged: when its timer rings and the read is unanswered, a second copy goes to a
//!    replica that holds none.
//! 4. The first completion answers the caller. Copies still flying are cancelled; where a device cannot cancel, their
//!    completions are swallowed, but the device's view learns from them.
//! 5. A copy that fails or exceeds its time limit is replaced at the next replica after `failover_ns`, unless another copy
//!    flies. When every replica has failed, the read fails.
//!
//! A write is never judged. It goes to the primary, or to all replicas, and a failed copy of it is not sent elsewhere:
//! that would leave the replicas different.
//!
//! Requests live in slots that are used again and outputs go to the caller's buffer, so a steady load allocates nothing.

use std::collections::VecDeque;

use linnet_sim::Chance;
use linnet_types::{DeviceProfile, Nanos, Op, Outcome, Request};

use crate::config::Bucket;
use crate::policy::{device_of, replica_of};
use crate::slab::{Alarm, Flight, Mask, Slab, Slot};
use crate::{
    Ask, Choice, Completion, Config, CopyId, Counters, DeviceView, Error, Outlook, Output, Policy, Submit, TimerId,
    WriteMode,
};

/// Replicas and a policy.
pub struct Array {
    config: Config,
    policy: Box<dyn Policy>,
    judges: bool,
    inflection_ns: Vec<Nanos>,
    views: Vec<DeviceView>,
    slab: Slab,
    chance: Chance,
    revokes: Bucket,
    hedges: Bucket,
    clones: Bucket,
    limits: [Limits; 2],
    counters: Counters,
    all: Mask,
    #[cfg(test)]
    pub(crate) canary: Option<Breakage>,
}

/// Time limits of copies in the order of submission; reads and writes apart, so that deadlines never decrease. Copies that
/// ended are dropped when they come to the front.
#[derive(Default)]
struct Limits {
    timeout_ns: Nanos,
    due: VecDeque<(Nanos, CopyId)>,
    armed: bool,
}

impl Array {
    /// An array of `profiles.len()` devices. The profiles give the inflection points by which false submits and false
    /// revokes are counted; with 0 they are not counted.
    pub fn new(config: Config, profiles: &[DeviceProfile], policy: Box<dyn Policy>) -> Result<Array, Error> {
        config.validate(profiles.len())?;
        let limits = [config.read_timeout_ns, config.write_timeout_ns];
        Ok(Array {
            judges: policy.judges(),
            policy,
            inflection_ns: profiles.iter().map(|profile| profile.inflection_ns).collect(),
            views: vec![DeviceView::default(); profiles.len()],
            slab: Slab::default(),
            chance: Chance::new(config.seed),
            revokes: Bucket::new(config.revoke_budget),
            hedges: Bucket::new(config.hedge_budget),
            clones: Bucket::new(config.clone_budget),
            limits: limits.map(|timeout_ns| Limits { timeout_ns, ..Limits::default() }),
            counters: Counters::default(),
            all: ((1u16 << config.replicas) - 1) as Mask,
            config,
            #[cfg(test)]
            canary: None,
        })
    }

    /// Counts so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The devices as the array sees them.
    pub fn devices(&self) -> &[DeviceView] {
        &self.views
    }

    /// Requests that have not ended, copies whose answer is no longer wanted included.
    pub fn live(&self) -> usize {
        self.slab.live()
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// A request arrives. `tag` is the caller's name for it; `stream` chooses the primary, device `stream mod devices`.
    pub fn arrive(
        &mut self,
        now: Nanos,
        tag: u64,
        stream: usize,
        request: &Request,
        outlook: &dyn Outlook,
        out: &mut Vec<Output>,
    ) {
        let primary = stream % self.views.len();
        let index = self.slab.insert(tag, now, stream as u32, primary as u32, *request);
        if !request.op.is_read() {
            self.counters.writes += 1;
            let replicas = if self.config.write_mode == WriteMode::All { self.config.replicas } else { 1 };
            for k in 0..replicas {
                self.launch(now, index, k, false, out);
            }
            return;
        }
        self.counters.reads += 1;
        self.revokes.earn();
        self.hedges.earn();
        self.clones.earn();
        if self.judges && self.config.decision_ns > 0 {
            self.retry_at(now + self.config.decision_ns, index, out);
        } else {
            self.route(now, index, outlook, out);
        }
    }

    /// A copy completed at its device.
    pub fn completed(&mut self, now: Nanos, copy: CopyId, out: &mut Vec<Output>) {
        let Some((index, k)) = self.land(copy) else { return };
        let slot = *self.slab.at(index);
        let device = device_of(slot.primary as usize, k, self.views.len());
        let Request { op, size_bytes, .. } = slot.request;
        let flight = slot.flights[k];
        let latency_ns = now.saturating_sub(flight.submit_ns);
        self.views[device].completed(now, op, size_bytes, latency_ns, flight.snapshot);
        self.policy.completed(&Completion {
            now_ns: now,
            device,
            op,
            size_bytes,
            latency_ns,
            in_flight: flight.in_flight,
        });
        let inflection_ns = self.inflection_ns[device];
        if slot.judged & (1 << k) != 0 && inflection_ns > 0 && latency_ns > inflection_ns {
            self.counters.false_submits += 1;
        }
        if op.is_read() {
            self.answer(now, index, k, out);
        } else {
            self.slab.at(index).succeeded = true;
        }
        self.settle(now, index, out);
    }

    /// A copy failed with an error.
    pub fn failed(&mut self, now: Nanos, copy: CopyId, out: &mut Vec<Output>) {
        if let Some((index, k)) = self.land(copy) {
            self.counters.errors += 1;
            self.lose(now, index, k, out);
        }
    }

    /// A device refused a copy (a kernel target that judges for itself): a revoke by the device.
    pub fn revoked(&mut self, now: Nanos, copy: CopyId, out: &mut Vec<Output>) {
        let Some((index, k)) = self.land(copy) else { return };
        let slot = self.slab.at(index);
        slot.submitted &= !(1 << k);
        slot.refused |= 1 << k;
        slot.copies -= 1;
        let (flying, answered, size_bytes) = (slot.flying, slot.answered, slot.request.size_bytes);
        let device = device_of(slot.primary as usize, k, self.views.len());
        let view = &mut self.views[device];
        view.withdrawn(size_bytes);
        view.revokes_in_row = view.revokes_in_row.saturating_add(1);
        self.counters.refusals += 1;
        self.counters.revokes += 1;
        if flying == 0 && !answered {
            self.retry_at(now + self.config.failover_ns, index, out);
        }
        self.settle(now, index, out);
    }

    /// A copy was cancelled, as asked for by [`Output::Cancel`]: its device will not answer.
    pub fn cancelled(&mut self, now: Nanos, copy: CopyId, out: &mut Vec<Output>) {
        let Some((index, k)) = self.land(copy) else { return };
        let slot = self.slab.at(index);
        let size_bytes = slot.request.size_bytes;
        let (flying, answered) = (slot.flying, slot.answered);
        let device = device_of(slot.primary as usize, k, self.views.len());
        self.views[device].withdrawn(size_bytes);
        if flying == 0 && !answered && slot.request.op.is_read() {
            self.retry_at(now + self.config.failover_ns, index, out);
        }
        self.settle(now, index, out);
    }

    /// A timer rings. One whose reason has passed does nothing.
    pub fn timer(&mut self, now: Nanos, timer: TimerId, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        match timer.alarm() {
            Some(Alarm::Limit) if timer.slot() < 2 => self.enforce_limits(now, timer.slot(), out),
            Some(Alarm::Retry) if self.slab.is_current(timer) && self.slab.at(timer.slot()).waiting => {
                let slot = self.slab.at(timer.slot());
                slot.waiting = false;
                if !slot.answered && slot.flying == 0 {
                    self.route(now, timer.slot(), outlook, out);
                }
                self.settle(now, timer.slot(), out);
            }
            Some(Alarm::Hedge(k)) if self.slab.is_current(timer) => self.hedge(now, timer.slot(), k, outlook, out),
            _ => {}
        }
    }

    /// Decides where a read goes next. Nothing of it is under way.
    fn route(&mut self, now: Nanos, index: usize, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        let slot = *self.slab.at(index);
        let untried = self.all & !(slot.submitted | slot.refused);
        let mut candidates = self.in_service(now, &slot, untried);
        if candidates == 0 {
            candidates = untried;
        }
        // Every replica was tried: those that were revoked may still hold the data.
        let all_tried = candidates == 0;
        if all_tried {
            candidates = slot.refused & !slot.submitted;
        }
        if candidates == 0 {
            return;
        }
        let mut ask = ask(&self.config, &self.views, now, &slot, candidates, outlook);
        ask.last &= !self.breaks(Breakage::RevokeLast);
        let choice = if all_tried {
            Choice::Submit(Submit::to(ask.least(|device| ask.devices[device].expected_ns())))
        } else {
            self.policy.choose(&ask, &mut self.chance)
        };
        let (next, last) = (ask.next, ask.last);
        self.counters.forced_submits += u64::from((last || all_tried) && self.judges);
        let submit = match choice {
            Choice::Submit(submit) => {
                self.counters.judged += u64::from(submit.judged);
                submit
            }
            Choice::Revoke { hedge_after } => {
                let submit = Submit::to(next).hedged(hedge_after);
                self.counters.judged += u64::from(!last);
                if last {
                    submit
                } else if self.policy.learns() && self.views[next].is_stale(now, &self.config) {
                    Submit { probe: true, ..submit }
                } else if !self.revokes.take() {
                    self.counters.budget_denied += 1;
                    submit
                } else {
                    self.revoke(now, index, next, outlook, out);
                    return;
                }
            }
        };
        self.carry_out(now, index, submit, candidates, out);
    }

    fn revoke(&mut self, now: Nanos, index: usize, device: usize, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        let devices = self.views.len();
        let slot = self.slab.at(index);
        slot.refused |= 1 << replica_of(slot.primary as usize, device, devices);
        let request = slot.request;
        let view = &mut self.views[device];
        view.revokes_in_row = view.revokes_in_row.saturating_add(1);
        self.counters.revokes += 1;
        let inflection_ns = self.inflection_ns[device];
        if inflection_ns > 0
            && let Some(Outcome::Done(at)) = outlook.peek(device, now, &request)
            && at.saturating_sub(now) <= inflection_ns
        {
            self.counters.false_revokes += 1;
        }
        self.retry_at(now + self.config.failover_ns, index, out);
    }

    fn carry_out(&mut self, now: Nanos, index: usize, submit: Submit, candidates: Mask, out: &mut Vec<Output>) {
        let (primary, devices) = (self.slab.at(index).primary as usize, self.views.len());
        let mut k = replica_of(primary, submit.replica, devices);
        debug_assert!(k < 8 && candidates & (1 << k) != 0, "{} chose no candidate", self.policy.name());
        if k >= 8 || candidates & (1 << k) == 0 {
            k = candidates.trailing_zeros() as usize;
        }
        let bit: Mask = 1 << k;
        let device = device_of(primary, k, devices);
        let readmitted = self.views[device].readmit(now, &self.config);
        if submit.probe || readmitted {
            self.counters.probes += 1;
            self.views[device].probing = true;
            self.views[device].learnt_ns = now;
        }
        let slot = self.slab.at(index);
        slot.probes |= if submit.probe || readmitted { bit } else { 0 };
        slot.judged |= if submit.judged { bit } else { 0 };
        let untried = self.all & !(slot.submitted | slot.refused | bit);
        self.launch(now, index, k, untried != 0, out);
        if let Some(delay) = submit.hedge_after.filter(|_| self.config.replicas > 1) {
            let timer = TimerId::new(index, self.slab.at(index).generation, Alarm::Hedge(k));
            out.push(Output::SetTimer { at_ns: now + delay, timer });
        }
        if let Some(also) = submit.also {
            let k = replica_of(primary, also, devices);
            if k >= 8 || candidates & !bit & (1 << k) == 0 {
                return;
            }
            if self.clones.take() {
                self.launch(now, index, k, untried & !(1 << k) != 0, out);
            } else {
                self.counters.budget_denied += 1;
            }
        }
    }

    /// Hands a copy of a request to the k-th replica.
    fn launch(&mut self, now: Nanos, index: usize, k: usize, may_revoke: bool, out: &mut Vec<Output>) {
        let devices = self.views.len();
        let slot = self.slab.at(index);
        let device = device_of(slot.primary as usize, k, devices);
        let view = &mut self.views[device];
        let in_flight = view.in_flight;
        let snapshot = view.submitted(slot.request.size_bytes);
        slot.flights[k] = Flight { submit_ns: now, snapshot, in_flight };
        slot.submitted |= 1 << k;
        slot.refused &= !(1 << k);
        slot.flying |= 1 << k;
        let is_read = slot.request.op.is_read();
        self.counters.submits += 1;
        if slot.copies > 0 {
            *(if is_read { &mut self.counters.extra_io } else { &mut self.counters.extra_writes }) += 1;
        }
        slot.copies += 1;
        let (copy, tag, request) = (slot.copy_id(index, k), slot.tag, slot.request);
        out.push(Output::Submit { device, copy, tag, request, may_revoke: may_revoke && is_read });

        let limits = &mut self.limits[usize::from(!is_read)];
        while limits.due.front().is_some_and(|&(_, copy)| self.slab.copy(copy).is_none()) {
            limits.due.pop_front();
        }
        let at_ns = now.saturating_add(limits.timeout_ns);
        limits.due.push_back((at_ns, copy));
        if !limits.armed {
            limits.armed = true;
            out.push(Output::SetTimer { at_ns, timer: TimerId::new(usize::from(!is_read), 0, Alarm::Limit) });
        }
    }

    /// Ends the flight of a copy; nothing when it ended before.
    fn land(&mut self, copy: CopyId) -> Option<(usize, usize)> {
        let Some((index, k)) = self.slab.copy(copy) else {
            self.counters.late += 1;
            return None;
        };
        let devices = self.views.len();
        let slot = self.slab.at(index);
        slot.flying &= !(1 << k);
        if slot.probes & (1 << k) != 0 {
            self.views[device_of(slot.primary as usize, k, devices)].probing = false;
        }
        Some((index, k))
    }

    /// Gives a read its answer, unless it has one, and calls its other copies off.
    fn answer(&mut self, now: Nanos, index: usize, k: usize, out: &mut Vec<Output>) {
        let (devices, twice) = (self.views.len(), self.breaks(Breakage::CompleteTwice));
        let slot = self.slab.at(index);
        if slot.answered && !twice {
            return;
        }
        slot.answered = true;
        self.counters.hedges_won += u64::from(slot.hedges & (1 << k) != 0);
        out.push(Output::Complete {
            tag: slot.tag,
            stream: slot.stream as usize,
            op: Op::Read,
            arrive_ns: slot.arrive_ns,
            latency_ns: now - slot.arrive_ns,
        });
        for k in (0..8).filter(|k| slot.flying & (1 << k) != 0) {
            let device = device_of(slot.primary as usize, k, devices);
            out.push(Output::Cancel { device, copy: slot.copy_id(index, k), timed_out: false });
        }
    }

    /// A copy failed: the read fails over when nothing else of it flies.
    fn lose(&mut self, now: Nanos, index: usize, k: usize, out: &mut Vec<Output>) {
        let devices = self.views.len();
        let keeps = self.breaks(Breakage::LeakInFlight);
        let slot = self.slab.at(index);
        let device = device_of(slot.primary as usize, k, devices);
        if !keeps {
            self.views[device].failed(now, slot.request.size_bytes, &self.config);
        }
        let goes_on = slot.request.op.is_read() && !slot.answered && slot.flying == 0 && slot.submitted != self.all;
        if goes_on {
            self.counters.failovers += 1;
            self.retry_at(now + self.config.failover_ns, index, out);
        }
        self.settle(now, index, out);
    }

    /// Sends the hedge of a read whose k-th copy has not answered in time.
    fn hedge(&mut self, now: Nanos, index: usize, k: usize, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        let slot = *self.slab.at(index);
        let free = self.all & !slot.submitted;
        if slot.answered || slot.hedged || slot.flying & (1 << k) == 0 || free == 0 {
            return;
        }
        let candidates = self.in_service(now, &slot, free);
        if candidates == 0 {
            return;
        }
        // A hedge is no way to try a device that was left out: that is what single probes are for.
        let target = self.policy.hedge(&ask(&self.config, &self.views, now, &slot, candidates, outlook));
        let Some(k) = target.map(|device| replica_of(slot.primary as usize, device, self.views.len())) else {
            return;
        };
        debug_assert!(k < 8 && candidates & (1 << k) != 0, "{} hedges to no candidate", self.policy.name());
        if k >= 8 || candidates & (1 << k) == 0 {
            return;
        }
        if !self.hedges.take() {
            self.counters.budget_denied += 1;
            return;
        }
        self.counters.hedges += 1;
        let slot = self.slab.at(index);
        slot.hedged = true;
        slot.hedges |= 1 << k;
        self.launch(now, index, k, false, out);
    }

    /// Those of `mask` whose devices are in service.
    fn in_service(&self, now: Nanos, slot: &Slot, mask: Mask) -> Mask {
        let mut left = mask;
        let mut rest = mask;
        while rest != 0 {
            let k = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if self.views[device_of(slot.primary as usize, k, self.views.len())].is_out(now) {
                left &= !(1 << k);
            }
        }
        left
    }

    fn retry_at(&mut self, at_ns: Nanos, index: usize, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        if !slot.waiting {
            slot.waiting = true;
            out.push(Output::SetTimer { at_ns, timer: TimerId::new(index, slot.generation, Alarm::Retry) });
        }
    }

    /// Ends a request of which nothing is left to wait for.
    fn settle(&mut self, now: Nanos, index: usize, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        if slot.flying != 0 || slot.waiting {
            return;
        }
        let (tag, stream, op, arrive_ns) = (slot.tag, slot.stream as usize, slot.request.op, slot.arrive_ns);
        if !slot.answered {
            if slot.succeeded {
                out.push(Output::Complete { tag, stream, op, arrive_ns, latency_ns: now - arrive_ns });
            } else {
                *(if op.is_read() { &mut self.counters.reads_failed } else { &mut self.counters.writes_failed }) += 1;
                out.push(Output::Fail { tag, stream, op });
            }
        }
        self.slab.remove(index);
    }

    fn enforce_limits(&mut self, now: Nanos, kind: usize, out: &mut Vec<Output>) {
        self.limits[kind].armed = false;
        if self.breaks(Breakage::ForgetLimits) {
            return;
        }
        while let Some(&(at_ns, copy)) = self.limits[kind].due.front() {
            match self.slab.copy(copy) {
                Some((index, k)) if at_ns <= now => {
                    self.limits[kind].due.pop_front();
                    let slot = self.slab.at(index);
                    let device = device_of(slot.primary as usize, k, self.views.len());
                    out.push(Output::Cancel { device, copy, timed_out: true });
                    self.counters.timeouts += 1;
                    self.land(copy);
                    self.lose(now, index, k, out);
                }
                Some(_) => {
                    self.limits[kind].armed = true;
                    out.push(Output::SetTimer { at_ns, timer: TimerId::new(kind, 0, Alarm::Limit) });
                    return;
                }
                None => {
                    self.limits[kind].due.pop_front();
                }
            }
        }
    }

    #[cfg(test)]
    fn breaks(&self, breakage: Breakage) -> bool {
        self.canary == Some(breakage)
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn breaks(&self, _breakage: Breakage) -> bool {
        false
    }
}

/// Faults that tests put into the array, to see that the checker finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breakage {
    /// Each copy answers the caller.
    CompleteTwice,
    /// A failed copy stays in flight.
    LeakInFlight,
    /// Copies have no time limit.
    ForgetLimits,
    /// The last replica may be revoked.
    RevokeLast,
}

fn ask<'a>(
    config: &'a Config,
    views: &'a [DeviceView],
    now_ns: Nanos,
    slot: &'a Slot,
    candidates: Mask,
    outlook: &'a dyn Outlook,
) -> Ask<'a> {
    let primary = slot.primary as usize;
    Ask {
        now_ns,
        request: &slot.request,
        stream: slot.stream as usize,
        primary,
        next: device_of(primary, candidates.trailing_zeros() as usize, views.len()),
        last: candidates.is_power_of_two(),
        devices: views,
        outlook,
        config,
        candidates,
        refused: slot.refused,
    }
}
