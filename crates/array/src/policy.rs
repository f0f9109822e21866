// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of policies: the question, the possible answers, and reports of completions.

use crate::slab::Mask;
use linnet_core::{Answer, Budget, Candidate, Network, REPLICAS_MAX, Replica, Settings, Verdict, preferred};
use linnet_sim::Chance;
use linnet_types::{Nanos, Op, Outcome, Request};

/// Foresight: what a device would answer to a request now. Models have it; real devices do not.
pub trait Outlook {
    /// What device number `device` would answer, or `None` without foresight.
    fn peek(&self, device: usize, now: Nanos, request: &Request) -> Option<Outcome>;

    /// [`Outlook::peek`] for callers that only need to know how the request ends by `limit`: if it completes later, the
    /// answer may be any time between `limit` and the completion.
    fn peek_until(&self, device: usize, now: Nanos, request: &Request, _limit: Nanos) -> Option<Outcome> {
        self.peek(device, now, request)
    }
}

/// No foresight, as on real devices.
impl Outlook for () {
    fn peek(&self, _device: usize, _now: Nanos, _request: &Request) -> Option<Outcome> {
        None
    }
}

/// The question where a read is sent. Devices are identified by their number in the array.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// Time of the question.
    pub now_ns: Nanos,
    /// When the read arrived at the array: before `now_ns` after a revoke, and for hedges.
    pub arrive_ns: Nanos,
    /// The read.
    pub request: &'a Request,
    /// The stream it belongs to.
    pub stream: usize,
    /// The devices that hold its data, the primary first.
    pub replicas: &'a [u32],
    /// The first candidate, counted from the primary: the one that [`Choice::Revoke`] refers to.
    pub next: usize,
    /// True if this is the first decision on this read.
    pub first: bool,
    /// True if there is only one candidate: it will not be revoked, so no prediction is needed.
    pub last: bool,
    /// The state of every device of the array.
    pub devices: &'a [Replica],
    /// Foresight, if the devices have it.
    pub outlook: &'a dyn Outlook,
    /// The settings of the core's decision, as the policy changed them.
    pub settings: &'a Settings,
    pub(crate) candidates: Mask,
    pub(crate) refused: Mask,
}

impl Ask<'_> {
    /// Devices that may be chosen, in order from the primary: replicas that hold no copy of the read, were not revoked
    /// for it and are in service; if there are none, the best that are left. A hedge's candidates include revoked
    /// replicas.
    pub fn candidates(&self) -> impl Iterator<Item = usize> {
        bits(self.candidates).map(|k| self.device(k))
    }

    /// The k-th replica of the read; 0 is the primary.
    pub fn device(&self, k: usize) -> usize {
        self.replicas[k] as usize
    }

    /// How many candidates there are.
    pub fn count(&self) -> usize {
        self.candidates.count_ones() as usize
    }

    /// The array's view of the first candidate.
    pub fn view(&self) -> &Replica {
        &self.devices[self.next]
    }

    /// The candidate with the lowest key; among equals, the one nearest to the primary.
    pub fn least<K: PartialOrd>(&self, mut key: impl FnMut(usize) -> K) -> usize {
        let mut best = (self.next, None);
        for device in self.candidates() {
            let own = key(device);
            if best.1.as_ref().is_none_or(|least| own < *least) {
                best = (device, Some(own));
            }
        }
        best.0
    }

    /// The candidate that the core's policy prefers; `score` is the trees' score of each device that has trees.
    pub fn preferred(&self, policy: linnet_core::Policy, mut score: impl FnMut(usize) -> Option<i32>) -> usize {
        self.preferred_of(self.candidates, policy, &mut score)
    }

    /// The candidate with the lowest wait by the averages; replicas that were revoked for this read come last.
    pub fn least_wait(&self) -> usize {
        let fresh = self.candidates & !self.refused;
        let of = if fresh == 0 { self.candidates } else { fresh };
        self.preferred_of(of, linnet_core::Policy::EwmaInflight, &mut |_| None)
    }

    fn preferred_of(
        &self,
        of: Mask,
        policy: linnet_core::Policy,
        score: &mut dyn FnMut(usize) -> Option<i32>,
    ) -> usize {
        let mut candidates = self.described(of);
        for k in bits(of) {
            candidates[k].score = score(self.device(k)).unwrap_or(candidates[k].score);
        }
        preferred(policy, &candidates).map_or(self.next, |k| self.device(k))
    }

    /// The candidates that linnet-best would probe: idle, and unread for a second by default.
    pub fn forgotten(&self) -> impl Iterator<Item = usize> {
        let known = self.known();
        let probed = move |k: &usize| known[*k].wants_probe(self.settings, linnet_core::Policy::Best, self.now_ns);
        bits(self.candidates).filter(probed).map(|k| self.device(k))
    }

    /// What is known of each of these replicas, which are eligible; the others are not.
    fn described(&self, of: Mask) -> [Candidate; REPLICAS_MAX] {
        let mut candidates = [Candidate::default(); REPLICAS_MAX];
        for k in bits(of) {
            self.devices[self.device(k)].describe(self.now_ns, &mut candidates[k]);
            candidates[k].eligible = true;
        }
        candidates
    }

    /// What is known of the candidates, without models.
    pub fn known(&self) -> [Candidate; REPLICAS_MAX] {
        self.described(self.candidates)
    }

    /// Converts the core's answer to a choice. With `tried`, a probe counts as a revoke that was wanted.
    pub(crate) fn carry_out(&self, answer: &Answer, hedge_after: Option<Nanos>, tried: bool) -> Choice {
        if answer.verdict == Verdict::Revoke {
            return Choice::Revoke { hedge_after };
        }
        let Answer { replica, predicted_fast, probe, denied, .. } = *answer;
        let submit = Submit { predicted_fast, probe, ..Submit::to(self.device(replica)).hedged(hedge_after) };
        if denied || (probe && tried) { Choice::Declined(submit) } else { Choice::Submit(submit) }
    }
}

/// The replicas of a set, in order from the primary.
pub(crate) fn bits(mut set: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let k = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (k < REPLICAS_MAX).then_some(k)
    })
}

/// A submit and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submit {
    /// The device; a candidate of the [`Ask`].
    pub replica: usize,
    /// Send a second copy elsewhere if this one has not answered after this time, or by [`Policy::hedge_due`].
    pub hedge_after: Option<Nanos>,
    /// Send a second copy to this candidate at once.
    pub also: Option<usize>,
    /// The policy predicts that the device will be fast; the submit counts as false if it is not.
    pub predicted_fast: bool,
    /// The policy prefers another replica, but sends the read to learn the state of this one.
    pub probe: bool,
}

impl Submit {
    /// A plain submit.
    pub fn to(replica: usize) -> Self {
        Submit { replica, hedge_after: None, also: None, predicted_fast: false, probe: false }
    }

    /// The same with a hedge; `None` means no hedge.
    pub fn hedged(self, hedge_after: Option<Nanos>) -> Self {
        Submit { hedge_after, ..self }
    }

    /// The same, marked as a prediction that the device will be fast.
    pub fn predicted_fast(self) -> Self {
        Submit { predicted_fast: true, ..self }
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Submit.
    Submit(Submit),
    /// Submit to [`Ask::next`] although it is predicted slow: as a probe, or because the budget has no revoke left.
    Declined(Submit),
    /// [`Ask::next`] is predicted slow; try the replica after it. The budget has paid for it. The read is submitted
    /// nevertheless, hedged after `hedge_after`, if this is the last candidate or if a sampled probe is drawn
    /// ([`crate::Config::probe_share`]).
    Revoke {
        /// Hedge delay of a submit in place of the revoke.
        hedge_after: Option<Nanos>,
    },
}

/// What to do with a read that has not answered after its hedge delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedge {
    /// Send a second copy to this candidate.
    To(usize),
    /// Nothing.
    Never,
}

/// A copy that a device completed, including losers of a race.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Time of completion.
    pub now_ns: Nanos,
    /// The device.
    pub device: usize,
    /// Read or write.
    pub op: Op,
    /// Length.
    pub size_bytes: u32,
    /// From submit to completion at the device.
    pub latency_ns: Nanos,
    /// I/Os in flight at the device when the copy was submitted, without this copy.
    pub in_flight: u32,
    /// It answers a read that could have become late ([`Policy::hedge_due`]) and was not found late. At most one copy
    /// of a read does.
    pub in_time: bool,
}

/// Decides where reads are sent. Completions, time and random numbers are passed in.
pub trait Policy: Send {
    /// Its name in [`crate::POLICIES`].
    fn name(&self) -> &str;

    /// True if it may answer [`Choice::Revoke`]. Reads of a predicting policy pay [`crate::Config::decision_ns`].
    fn predicts(&self) -> bool {
        false
    }

    /// True if it needs [`linnet_core::Replica::features`] of the devices.
    fn tracks_inflight(&self) -> bool {
        false
    }

    /// The network that predicts for the device.
    fn network(&self, _device: usize) -> Option<&Network> {
        None
    }

    /// The settings of the core's decision for this policy, based on those of the array.
    fn settings(&self, given: Settings) -> Settings {
        given
    }

    /// Chooses where this read is sent. `revokes` pays for revokes.
    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance, revokes: &mut Budget) -> Choice;

    /// True if it keeps a budget of hedges of its own, that of [`Settings::hedges`], which its answers of [`Hedge::To`] have
    /// been charged to. Otherwise the array charges [`crate::Config::hedge_budget`].
    fn budgets_hedges(&self) -> bool {
        false
    }

    /// The first copy of a read that may be hedged was sent: one of those that earn hedges.
    fn sent_hedgeable(&mut self, _settings: &Settings) {}

    /// When a read that was sent then is late, if all reads of the array have one hedge delay, as it is now
    /// ([`linnet_core::Hedging::due_ns`]). It holds for the reads that [`Submit::hedge_after`] asks a hedge for; the time
    /// given there is not used. `None`: each has the delay that it was submitted with.
    fn hedge_due(&self, _sent_ns: Nanos) -> Option<Nanos> {
        None
    }

    /// The hedge delay of this read has passed: chooses where the hedge is sent. The default takes the lowest wait by
    /// the averages; replicas that were revoked for this read come last.
    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        Hedge::To(ask.least_wait())
    }

    /// A copy completed.
    fn completed(&mut self, _done: &Completion) {}

    /// A copy left its device without an answer: it failed, ran into its time limit, or was refused or cancelled.
    fn lost(&mut self, _device: usize, _request: &Request) {}
}
