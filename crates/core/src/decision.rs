// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decision on one read: the core's procedure (`core/decide.c`, `core/choose.c`), which the kernel's target uses
//! too.

use linnet_types::Nanos;

use crate::{Budget, Policy, Settings, Trees, ffi};

/// Maximum number of replicas of one read.
pub const REPLICAS_MAX: usize = 8;
/// The hedge delay where no 95th percentile is known, ns.
pub const HEDGE_START_NS: Nanos = 10_000_000;

/// Input to a decision: the state of one replica (`struct linnet_candidate`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Candidate {
    /// Moving average of its read latency; 0 before the first read.
    pub ewma_ns: Nanos,
    /// When a read last completed there or a probe was last sent.
    pub learnt_ns: Nanos,
    /// Score of its trees for this read; the lowest that counts if they were not asked, or it has none.
    pub score: i32,
    /// I/Os that have not ended.
    pub in_flight: u32,
    /// It may be chosen.
    pub eligible: bool,
    /// It has a model's prediction.
    pub known: bool,
    /// The model that was asked predicts slow.
    pub slow: bool,
    /// A probe is in flight.
    pub probing: bool,
    /// Revokes since a read last completed there.
    pub revokes_in_row: u32,
}

const _: () = assert!(size_of::<Candidate>() == 32);

impl Candidate {
    /// Notes what its trees say of this read.
    #[inline]
    pub fn scored(&mut self, score: i32, trees: &Trees) {
        (self.known, self.score, self.slow) = (true, score, score > trees.slow_score());
    }

    /// Whether this policy sends a read as a probe to it although another is preferred.
    pub fn wants_probe(&self, settings: &Settings, policy: Policy, now: Nanos) -> bool {
        // SAFETY: the layouts are C's; so in every call below.
        unsafe { ffi::linnet_wants_probe(settings, policy as u32, self, now) != 0 }
    }
}

/// The eligible candidate that the policy prefers, ignoring probes.
///
/// # Panics
/// For more than [`REPLICAS_MAX`] candidates.
pub fn preferred(policy: Policy, candidates: &[Candidate]) -> Option<usize> {
    assert!(candidates.len() <= REPLICAS_MAX, "{} candidates", candidates.len());
    // SAFETY: C reads the candidates that the pointer and the count describe, at most REPLICAS_MAX, and keeps nothing.
    let chosen = unsafe { ffi::linnet_preferred(policy as u32, candidates.as_ptr(), candidates.len() as u32) };
    Some(chosen as usize).filter(|&k| k < candidates.len())
}

/// Input of a decision. Bit k of a set is the k-th replica.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Time of the decision.
    pub now_ns: Nanos,
    /// 1..=[`REPLICAS_MAX`].
    pub replicas: usize,
    /// Replicas that could serve the read, in service or not; at least one.
    pub usable: u8,
    /// Replicas that have trees.
    pub trees: u8,
    /// Replicas that have a network.
    pub networks: u8,
    /// Whether [`Verdict::Revoke`] is allowed.
    pub may_revoke: bool,
}

/// The verdict on a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Submit it.
    Submit,
    /// Send it elsewhere: the chosen replica is predicted slow.
    Revoke,
    /// Submit it without a choice, counted separately: one replica is left, or there is no model.
    ForcedSubmit,
}

/// The answer of a complete decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The replica.
    pub replica: usize,
    /// The verdict on the read there.
    pub verdict: Verdict,
    /// The read is sent to learn the state of the replica.
    pub probe: bool,
    /// A model predicts that the read is fast.
    pub predicted_fast: bool,
    /// The decision was to revoke, but the budget did not allow it.
    pub denied: bool,
}

/// A model that a decision must ask, by the number of its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Its trees, for `known` and `score`.
    Trees(usize),
    /// Its network, for `known` and `slow`.
    Network(usize),
}

/// Takes decisions one after the other (`struct linnet_decision`).
///
/// Call [`Decision::begin`], then [`Decision::describe`] for each usable replica, then [`Decision::next_to_ask`] until
/// it returns none; then the [`Decision::answer`] is complete. For a second copy of a late read these are
/// [`Decision::begin_copy`], [`Decision::describe`], [`Decision::next_of_copy`] and [`Decision::copy`].
///
/// Once a model has been asked, only what it answers is to be written: which candidates are eligible is then decided.
#[derive(Clone, Debug)]
pub struct Decision {
    raw: ffi::Decision,
    begun: Begun,
}

/// What a [`Decision`] is of: C follows the fields that the one has set, not the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Nothing,
    Read,
    Copy,
}

impl Decision {
    /// Memory for a decision.
    pub fn new() -> Decision {
        Decision { raw: ffi::Decision::default(), begun: Begun::Nothing }
    }

    /// # Panics
    /// For a question without usable replicas, or with more than there can be.
    #[inline]
    pub fn begin(&mut self, settings: &Settings, question: &Question) {
        let raw = self.put(question, Begun::Read);
        // SAFETY: a struct of C's layout and settings of its own; `put` has checked what C follows.
        unsafe { ffi::linnet_decision_begin(raw, settings) }
    }

    /// Begins where a second copy of a late read goes. The usable replicas are those that could take a copy.
    ///
    /// # Panics
    /// As [`Decision::begin`].
    pub fn begin_copy(&mut self, settings: &Settings, question: &Question) {
        let raw = self.put(question, Begun::Copy);
        // SAFETY: as in `begin`.
        unsafe { ffi::linnet_copy_begin(raw, settings) }
    }

    fn put(&mut self, question: &Question, begun: Begun) -> &mut ffi::Decision {
        let Question { now_ns, replicas, usable, trees, networks, may_revoke } = *question;
        assert!(
            (1..=REPLICAS_MAX).contains(&replicas) && usable != 0 && u32::from(usable) >> replicas == 0,
            "{question:?}"
        );
        self.begun = begun;
        let raw = &mut self.raw;
        (raw.now_ns, raw.count, raw.usable) = (now_ns, replicas as u8, usable);
        (raw.trees, raw.networks, raw.may_revoke) = (trees, networks, u8::from(may_revoke));
        raw
    }

    /// The state of the k-th replica, to be filled in.
    #[inline]
    pub fn describe(&mut self, k: usize) -> &mut Candidate {
        &mut self.raw.candidates[k]
    }

    /// The model that must be asked next; `None` if the decision is complete. `revokes` pays for a revoke. Trees are
    /// asked only as far as the choice depends on their scores.
    ///
    /// # Panics
    /// Unless it was begun by [`Decision::begin`].
    #[inline]
    pub fn next_to_ask(&mut self, settings: &Settings, revokes: &mut Budget) -> Option<Asked> {
        assert!(self.begun == Begun::Read, "no decision has begun");
        // SAFETY: a decision has begun, so the fields that C follows are set, and of the candidates it follows none; it
        // keeps none of the references.
        let k = unsafe { ffi::linnet_decision_next(&mut self.raw, settings, revokes) } as usize;
        let asked = if self.raw.asks_trees != 0 { Asked::Trees(k) } else { Asked::Network(k) };
        (k < REPLICAS_MAX).then_some(asked)
    }

    /// The replica whose trees must be asked next for the place of a copy; `None` if that is known: [`Decision::copy`].
    ///
    /// # Panics
    /// Unless it was begun by [`Decision::begin_copy`].
    pub fn next_of_copy(&mut self) -> Option<usize> {
        assert!(self.begun == Begun::Copy, "no decision on a copy has begun");
        // SAFETY: as in `next_to_ask`.
        let k = unsafe { ffi::linnet_copy_next(&mut self.raw) } as usize;
        (k < REPLICAS_MAX).then_some(k)
    }

    /// Where the copy goes; `None` if no usable replica is in service.
    pub fn copy(&self) -> Option<usize> {
        Some(self.raw.choice.replica as usize).filter(|&k| k < REPLICAS_MAX)
    }

    /// The answer.
    #[inline]
    pub fn answer(&self) -> Answer {
        let ffi::Decision { choice, verdict, denied, .. } = &self.raw;
        let verdict = match verdict {
            0 => Verdict::Submit,
            1 => Verdict::Revoke,
            _ => Verdict::ForcedSubmit,
        };
        let replica = choice.replica as usize;
        Answer { replica, verdict, probe: choice.probe, predicted_fast: choice.predicted_fast, denied: *denied != 0 }
    }
}

impl Default for Decision {
    fn default() -> Self {
        Decision::new()
    }
}

/// When to send a second copy of a read, and whether the budget pays for it (`core/hedge.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Hedging {
    delay_ns: Nanos,
    budget: Budget,
}

const _: () = assert!(size_of::<Hedging>() == 16);

impl Hedging {
    /// Starts at this delay; without one there is only the budget, which reads must earn.
    pub fn new(settings: &Settings, delay_ns: Option<Nanos>) -> Hedging {
        let mut hedging = Hedging { delay_ns: 0, budget: Budget::default() };
        // SAFETY: values of C's layout for the call; C fills `hedging` and keeps nothing.
        unsafe { ffi::linnet_hedge_init(&mut hedging, settings, delay_ns.unwrap_or(0)) };
        hedging
    }

    /// After this time a read is overdue: at most 2^40 ns.
    pub fn delay_ns(&self) -> Option<Nanos> {
        Some(self.delay_ns).filter(|&ns| ns > 0)
    }

    /// A read has arrived.
    pub fn earn(&mut self, settings: &Settings) {
        // SAFETY: as in `new`.
        unsafe { ffi::linnet_linked_hedge_earn(self, settings) }
    }

    /// When a read that was sent then is late; `None` if none is hedged. The answer changes with every late read and every
    /// answer, so it is asked again when the time has come. Reads become late in the order in which they were sent.
    pub fn due_ns(&self, sent_ns: Nanos) -> Option<Nanos> {
        // SAFETY: as in `new`.
        self.delay_ns().map(|_| unsafe { ffi::linnet_linked_hedge_due(self, sent_ns) })
    }

    /// A read is late; the eligible candidates could take a second copy of it. True if it may be sent,
    /// which is then charged to the budget. False if the budget is spent, or if all these candidates are overloaded.
    ///
    /// # Panics
    /// For more than [`REPLICAS_MAX`] candidates.
    pub fn ask(&mut self, settings: &Settings, candidates: &[Candidate]) -> bool {
        assert!(candidates.len() <= REPLICAS_MAX, "{} candidates", candidates.len());
        // SAFETY: as in `new`; the pointer and the length are of one slice.
        unsafe { ffi::linnet_hedge_ask(self, settings, candidates.as_ptr(), candidates.len() as u32) != 0 }
    }

    /// A read that was not found late is answered, this long after it was sent.
    pub fn answered(&mut self, latency_ns: Nanos) {
        // SAFETY: as in `new`.
        unsafe { ffi::linnet_hedge_answered(self, latency_ns) }
    }
}
