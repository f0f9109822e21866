// SPDX-License-Identifier: MIT OR Apache-2.0
//! **heur-sim** and **heur-adv**: the two heuristics that LinnOS is compared with (section 5.3).
//!
//! - **heur-sim**: revoke if more I/Os are in flight at the device than the queue length at the percentile of its
//!   inflection point. Reads of a device that was not profiled (inflection point 0) are submitted.
//! - **heur-adv**: in addition, check the last four completed reads. If one was slow although it met a queue shorter
//!   than the median, mark the device as internally busy. While it is busy, revoke unless the queue has dropped below
//!   the lower quartile. It is busy until the last four reads were all fast.
//!
//! Where we differ: "shorter than the median" and "below the quartile" include equality, because the quartile of a
//! lightly loaded device is 0, and no queue is shorter.

use super::DeviceModel;
use crate::{Ask, Choice, Completion, Policy, Submit};
use linnet_core::{Asked, Budget, Decision, Question, Settings};
use linnet_sim::Chance;
use linnet_types::{Nanos, Thresholds, is_slow};

fn is_crowded(thresholds: &Thresholds, in_flight: u32) -> bool {
    thresholds.inflection_ns > 0 && in_flight > thresholds.queue_inflection
}

/// The core's decision about the first candidate, with `slow` in place of a network's prediction. With one candidate the
/// policy of the settings is of no account.
fn decide(decision: &mut Decision, ask: &Ask<'_>, revokes: &mut Budget, slow: bool) -> Choice {
    if ask.last {
        return Choice::Submit(Submit::to(ask.next));
    }
    let k = ask.candidates.trailing_zeros() as usize;
    let (usable, replicas) = (1 << k, ask.replicas.len());
    let question = Question { now_ns: ask.now_ns, replicas, usable, trees: 0, networks: usable, may_revoke: true };
    decision.begin(ask.settings, &question);
    ask.view().describe(ask.now_ns, decision.describe(k));
    while let Some(Asked::Network(k)) = decision.next_to_ask(ask.settings, revokes) {
        let candidate = decision.describe(k);
        (candidate.known, candidate.slow) = (true, slow);
    }
    ask.carry_out(&decision.answer(), None, true)
}

pub(crate) struct HeurSim {
    thresholds: Vec<Thresholds>,
    decision: Decision,
}

impl HeurSim {
    pub(crate) fn new(learned: &[DeviceModel]) -> Self {
        HeurSim { thresholds: learned.iter().map(|device| device.thresholds).collect(), decision: Decision::new() }
    }
}

impl Policy for HeurSim {
    fn name(&self) -> &str {
        "heur-sim"
    }

    fn predicts(&self) -> bool {
        true
    }

    /// The decision depends on the current queue alone, which does not expire.
    fn settings(&self, given: Settings) -> Settings {
        Settings { age_ns: Nanos::MAX, revokes_in_row_max: u32::MAX, ..given }
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, revokes: &mut Budget) -> Choice {
        let slow = is_crowded(&self.thresholds[ask.next], ask.view().in_flight());
        decide(&mut self.decision, ask, revokes, slow)
    }
}

/// Completed reads that heur-adv checks, as many as LinnOS.
const HISTORY: usize = 4;

pub(crate) struct HeurAdv {
    devices: Vec<Adv>,
    decision: Decision,
}

struct Adv {
    thresholds: Thresholds,
    /// Fast reads since the last slow one.
    fast_in_row: usize,
    busy: bool,
}

impl HeurAdv {
    pub(crate) fn new(learned: &[DeviceModel]) -> Self {
        let device = |learned: &DeviceModel| Adv { thresholds: learned.thresholds, fast_in_row: HISTORY, busy: false };
        HeurAdv { devices: learned.iter().map(device).collect(), decision: Decision::new() }
    }
}

impl Policy for HeurAdv {
    fn name(&self) -> &str {
        "heur-adv"
    }

    fn predicts(&self) -> bool {
        true
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, revokes: &mut Budget) -> Choice {
        let Adv { thresholds, busy, .. } = &self.devices[ask.next];
        let in_flight = ask.view().in_flight();
        let kept_out = *busy && in_flight > thresholds.queue_lower_quartile;
        let slow = kept_out || is_crowded(thresholds, in_flight);
        decide(&mut self.decision, ask, revokes, slow)
    }

    /// A slow read at a short queue marks the device at once and stays in the history until four fast reads have pushed
    /// it out, which also ends the mark. So counting fast reads since the last slow one is enough.
    fn completed(&mut self, done: &Completion) {
        let device = &mut self.devices[done.device];
        if !done.op.is_read() || device.thresholds.inflection_ns == 0 {
            return;
        }
        if is_slow(done.latency_ns, device.thresholds.inflection_ns) {
            device.fast_in_row = 0;
            device.busy |= done.in_flight <= device.thresholds.queue_median;
        } else {
            device.fast_in_row += 1;
            device.busy &= device.fast_in_row < HISTORY;
        }
    }
}
