// SPDX-License-Identifier: MIT OR Apache-2.0
//! The array: replicas and a policy, as a state machine without I/O.
//!
//! A driver reports events (a request arrived, a copy completed, failed, was refused or cancelled, a timer expired) and
//! carries out what the array puts in `out`. The array never waits and never reads a clock; the same code runs on
//! models in virtual time and on real devices.
//!
//! The life of a read:
//!
//! 1. It arrives. The policy is asked about the first candidate, the primary.
//! 2. Revoked: a timer of `failover_ns` is set. When it expires, the policy is asked about the next replica. The last
//!    candidate is never revoked. A revoke that the budget does not allow becomes a submit; one that is based on
//!    expired state becomes a probe.
//! 3. Submitted: a copy is in flight. It may be hedged: if its timer expires and the read is unanswered, a second copy
//!    is sent to a replica that has none. Where all reads have one hedge delay, one timer finds those that are late.
//! 4. The first completion answers the caller. Copies still in flight are cancelled; if a device cannot cancel, their
//!    completions are not reported, but the state of the device is updated from them.
//! 5. A copy that fails or exceeds its time limit is replaced at the next replica after `failover_ns`, unless another
//!    copy is in flight. If every replica has failed, the read fails.
//!
//! No policy decides about a write. It is sent to the primary, or to all replicas. A failed copy of it is not sent
//! elsewhere, because that would make the replicas differ.
//!
//! Request slots are reused and outputs are written to the caller's buffer, so a steady load allocates nothing.

mod due;
mod flight;
mod late;
mod route;

use linnet_core::{Budget, Rate, Replica, Settings};
use linnet_sim::Chance;
use linnet_types::{Nanos, Op, Request, Thresholds};

use crate::policy::bits;
use crate::probing::coin;
use crate::slab::{Alarm, Mask, Slab};
use crate::{Completion, Config, CopyId, Counters, Error, Outlook, Output, Placement, Policy, TimerId, WriteMode};
use due::Due;
use flight::Launch;

/// Replicas and a policy.
pub struct Array {
    config: Config,
    policy: Box<dyn Policy>,
    predicts: bool,
    inflection_ns: Vec<Nanos>,
    placement: Placement,
    /// Of each device, as the core counts at the host; a device reports nothing.
    replicas: Vec<Replica>,
    slab: Slab,
    chance: Chance,
    coin: Chance,
    settings: Settings,
    revokes: Budget,
    hedges: Budget,
    /// None where the policy has a budget of its own.
    hedge_rate: Option<Rate>,
    clones: Budget,
    clone_rate: Rate,
    /// Time limits of the copies of reads, and of writes.
    limits: [Due; 2],
    /// Copies of reads that may become late, by when they were sent.
    waiting: Due,
    /// Of the requests since the last reset, and of those before it.
    counters: [Counters; 2],
    all: Mask,
    #[cfg(test)]
    pub(crate) canary: Option<Breakage>,
}

impl Array {
    /// An array of `thresholds.len()` devices. The thresholds give the inflection points by which false submits and
    /// false revokes are counted; with 0 they are not counted.
    pub fn new(config: Config, thresholds: &[Thresholds], policy: Box<dyn Policy>) -> Result<Array, Error> {
        config.validate(thresholds.len())?;
        let placement = Placement::consecutive(thresholds.len(), config.replicas);
        Array::placed(config, thresholds, policy, placement)
    }

    /// Like [`Array::new`], with the data of each stream on the devices that the placement gives. Its rows have as many
    /// devices as there are replicas.
    pub fn placed(
        config: Config,
        thresholds: &[Thresholds],
        policy: Box<dyn Policy>,
        placement: Placement,
    ) -> Result<Array, Error> {
        config.validate(thresholds.len())?;
        placement.check(thresholds.len(), config.replicas)?;
        Ok(Array {
            predicts: policy.predicts(),
            inflection_ns: thresholds.iter().map(|thresholds| thresholds.inflection_ns).collect(),
            replicas: replicas(&*policy, thresholds)?,
            settings: policy.settings(config.settings),
            slab: Slab::new(),
            chance: Chance::new(config.seed),
            coin: coin(config.seed),
            revokes: Budget::default(),
            hedges: Budget::default(),
            hedge_rate: Some(config.hedge_budget).filter(|_| !policy.budgets_hedges()),
            clones: Budget::default(),
            clone_rate: config.clone_budget,
            limits: [0, 1].map(|kind| Due::new(TimerId::new(kind, 0, Alarm::Limit))),
            waiting: Due::new(TimerId::new(0, 0, Alarm::Late)),
            counters: Default::default(),
            policy,
            placement,
            all: ((1u16 << config.replicas) - 1) as Mask,
            config,
            #[cfg(test)]
            canary: None,
        })
    }

    /// Counts of all requests so far, or of those that arrived since [`Array::reset_counters`].
    pub fn counters(&self) -> &Counters {
        &self.counters[0]
    }

    /// What limits the hedges: the policy's own budget, or that of the array.
    pub fn hedge_rate(&self) -> Rate {
        self.hedge_rate.unwrap_or(self.settings.hedges)
    }

    /// Sets all counts to 0. What requests do that arrived before is not counted any more.
    pub fn reset_counters(&mut self) {
        self.counters[0] = Counters::default();
        self.slab.reset();
    }

    /// The state of each device as the array knows it.
    pub fn devices(&self) -> &[Replica] {
        &self.replicas
    }

    /// Requests that have not ended, including those with copies whose answer is no longer wanted.
    pub fn live(&self) -> usize {
        self.slab.live()
    }

    /// The devices of each stream.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The longest that a copy of a read is waited for.
    pub fn read_timeout_ns(&self) -> Nanos {
        self.config.read_timeout_ns
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// A request arrives. `tag` is the caller's name for it; `stream` selects the devices of its data
    /// ([`Array::placement`]).
    pub fn arrive(
        &mut self,
        now: Nanos,
        tag: u64,
        stream: usize,
        request: &Request,
        outlook: &dyn Outlook,
        out: &mut Vec<Output>,
    ) {
        let row = self.placement.row_of(stream);
        let index = self.slab.insert(tag, now, stream as u32, row as u32, *request);
        if !request.op.is_read() {
            self.counters[0].writes += 1;
            let replicas = if self.config.write_mode == WriteMode::All { self.config.replicas } else { 1 };
            for k in 0..replicas {
                self.launch(now, index, k, Launch::default(), out);
            }
            return;
        }
        self.counters[0].reads += 1;
        self.revokes.earn(&self.settings.revokes);
        if let Some(rate) = &self.hedge_rate {
            self.hedges.earn(rate);
        }
        self.clones.earn(&self.clone_rate);
        if self.predicts && self.config.decision_ns > 0 {
            self.retry_at(now + self.config.decision_ns, index, out);
        } else {
            self.route(now, index, outlook, out);
        }
    }

    /// A copy completed at its device.
    pub fn completed(&mut self, now: Nanos, copy: CopyId, out: &mut Vec<Output>) {
        let Some((index, k)) = self.land(copy) else { return };
        let slot = self.slab.at(index);
        let device = self.placement.device(slot.row, k);
        let Request { op, size_bytes, .. } = slot.request;
        let in_time = std::mem::take(&mut slot.may_be_late);
        let flight = &slot.flights[k];
        let latency_ns = self.replicas[device].complete(&flight.core, now);
        self.policy.completed(&Completion {
            now_ns: now,
            device,
            op,
            size_bytes,
            latency_ns,
            in_flight: flight.in_flight,
            in_time,
        });
        self.judge(index, k, latency_ns, true);
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
            self.counters[self.slab.get(index).set()].errors += 1;
            self.lose(now, index, k, out);
        }
    }

    /// A device refused a copy (a kernel target that predicts by itself): a revoke by the device.
    pub fn revoked(&mut self, now: Nanos, copy: CopyId, out: &mut Vec<Output>) {
        let Some((index, k)) = self.land(copy) else { return };
        let slot = self.slab.at(index);
        slot.submitted &= !(1 << k);
        slot.refused |= 1 << k;
        slot.copies -= 1;
        // A refused copy costs the device nothing, so one of the read's other copies no longer counts as extra.
        let taken_back = u64::from(slot.copies > 0);
        let counters = &mut self.counters[slot.set()];
        debug_assert!(taken_back <= counters.extra_io, "a copy that was not counted");
        counters.extra_io -= taken_back;
        counters.refusals += 1;
        counters.revokes += 1;
        let (flying, answered, flight) = (slot.flying, slot.answered, slot.flights[k].core);
        let device = self.placement.device(slot.row, k);
        self.policy.lost(device, &slot.request);
        let replica = &mut self.replicas[device];
        replica.withdraw(&flight, now);
        replica.note_revoke();
        if flying == 0 && !answered {
            self.retry_at(now + self.config.failover_ns, index, out);
        }
        self.settle(now, index, out);
    }

    /// A copy was cancelled, as requested by [`Output::Cancel`]: its device will not answer.
    pub fn cancelled(&mut self, now: Nanos, copy: CopyId, out: &mut Vec<Output>) {
        let Some((index, k)) = self.land(copy) else { return };
        let slot = self.slab.at(index);
        let (flying, answered, flight) = (slot.flying, slot.answered, slot.flights[k].core);
        let (device, request) = (self.placement.device(slot.row, k), slot.request);
        self.judge(index, k, now.saturating_sub(flight.arrived_ns()), false);
        self.policy.lost(device, &request);
        self.replicas[device].withdraw(&flight, now);
        if flying == 0 && !answered && request.op.is_read() {
            self.retry_at(now + self.config.failover_ns, index, out);
        }
        self.settle(now, index, out);
    }

    /// A timer expires. It has no effect if its reason no longer holds.
    pub fn timer(&mut self, now: Nanos, timer: TimerId, outlook: &dyn Outlook, out: &mut Vec<Output>) {
        match timer.alarm() {
            Some(Alarm::Limit) if timer.slot() < 2 => self.enforce_limits(now, timer.slot(), out),
            Some(Alarm::Late) => self.find_late(now, outlook, out),
            Some(Alarm::Retry) if self.slab.is_current(timer) && self.slab.at(timer.slot()).waiting => {
                let slot = self.slab.at(timer.slot());
                debug_assert!(!slot.answered && slot.flying == 0, "a read that waits has no copy");
                slot.waiting = false;
                self.route(now, timer.slot(), outlook, out);
                self.settle(now, timer.slot(), out);
            }
            Some(Alarm::Hedge(k)) if self.slab.is_current(timer) => self.hedge(now, timer.slot(), k, outlook, out),
            _ => {}
        }
    }

    /// Answers a read, unless it has been answered, and cancels its other copies.
    fn answer(&mut self, now: Nanos, index: usize, k: usize, out: &mut Vec<Output>) {
        let twice = self.breaks(Breakage::CompleteTwice);
        let slot = self.slab.at(index);
        if slot.answered && !twice {
            return;
        }
        slot.answered = true;
        let counters = &mut self.counters[slot.set()];
        counters.hedges_won += u64::from(slot.hedges & (1 << k) != 0);
        counters.probing.answered_read(slot.drawn, now - slot.arrive_ns);
        out.push(Output::Complete {
            tag: slot.tag,
            stream: slot.stream as usize,
            tenant: slot.request.tenant,
            op: Op::Read,
            arrive_ns: slot.arrive_ns,
            latency_ns: now - slot.arrive_ns,
        });
        for k in bits(slot.flying) {
            let device = self.placement.device(slot.row, k);
            out.push(Output::Cancel { device, copy: slot.copy_id(index, k), timed_out: false });
        }
    }

    /// A copy failed: the read fails over if it has no other copy in flight.
    fn lose(&mut self, now: Nanos, index: usize, k: usize, out: &mut Vec<Output>) {
        let keeps = self.breaks(Breakage::LeakInFlight);
        let slot = self.slab.at(index);
        let device = self.placement.device(slot.row, k);
        self.policy.lost(device, &slot.request);
        if !keeps {
            self.replicas[device].fail(&self.settings, &slot.flights[k].core, now);
        }
        let goes_on = slot.request.op.is_read() && !slot.answered && slot.flying == 0 && slot.submitted != self.all;
        if goes_on {
            self.counters[slot.set()].failovers += 1;
            self.retry_at(now + self.config.failover_ns, index, out);
        }
        self.settle(now, index, out);
    }

    fn retry_at(&mut self, at_ns: Nanos, index: usize, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        if !slot.waiting {
            slot.waiting = true;
            out.push(Output::SetTimer { at_ns, timer: TimerId::new(index, slot.generation, Alarm::Retry) });
        }
    }

    /// Ends a request that waits for nothing more.
    fn settle(&mut self, now: Nanos, index: usize, out: &mut Vec<Output>) {
        let slot = self.slab.at(index);
        if slot.flying != 0 || slot.waiting {
            return;
        }
        let (tag, stream, arrive_ns) = (slot.tag, slot.stream as usize, slot.arrive_ns);
        let Request { tenant, op, .. } = slot.request;
        if !slot.answered {
            if slot.succeeded {
                out.push(Output::Complete { tag, stream, tenant, op, arrive_ns, latency_ns: now - arrive_ns });
            } else {
                let counters = &mut self.counters[slot.set()];
                *(if op.is_read() { &mut counters.reads_failed } else { &mut counters.writes_failed }) += 1;
                out.push(Output::Fail { tag, stream, tenant, op, arrive_ns });
            }
        }
        self.slab.remove(index);
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

/// Idle devices, with what the policy needs of each: an in-flight tracker, a network.
fn replicas(policy: &dyn Policy, thresholds: &[Thresholds]) -> Result<Vec<Replica>, Error> {
    let replica = |(device, thresholds): (usize, &Thresholds)| {
        let network = policy.network(device);
        let mut replica = Replica::new(thresholds.inflection_ns, policy.tracks_inflight());
        replica.set_network(network).map_err(|_| Error::NetworkShape {
            device,
            inputs: network.map_or(0, |network| network.inputs()),
            outputs: network.map_or(0, |network| network.outputs()),
        })?;
        Ok(replica)
    };
    thresholds.iter().enumerate().map(replica).collect()
}

/// Faults that tests inject into the array, to check that the checker finds them.
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
