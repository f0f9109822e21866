// SPDX-License-Identifier: MIT OR Apache-2.0
//! **linnet-best**: submit each read to the replica that is least likely to be slow.
//!
//! Score every candidate: what does this device's watch say of the read now, and how likely do its trees think it slow?
//! Submit to the candidate where those odds times EWMA latency x (in flight + 1) are least (`linnet_core::preference`, which
//! the kernel's target asks too). Odds below e^-2 are all the same: a finer score tells little, but sends all reads of a
//! burst to one device.
//!
//! What no host can foresee, such as one busy die, is left to a hedge: a read that is overdue (`overdue.rs`) is sent again, to
//! the best of the others. One read in fifty pays for it; a burst may spend what up to 12,800 reads have saved. Nothing is
//! revoked.
//!
//! A device that nobody reads from cannot show that it has recovered. When no read has completed on one for 100 x `age_ns`
//! and nothing is under way there, this read goes there as its probe.
//!
//! Devices without trees score 0. Without any, what remains is EWMA latency x in flight, hedged.

use super::overdue::{Overdue, Savings};
use crate::{Ask, Choice, Completion, Hedge, Learned, Policy, Submit};
use linnet_core::{Trees, preference};
use linnet_sim::Chance;

/// A device is probed after this many times `age_ns`. Its features age by themselves, so that a tenth of it gained nothing.
const PROBE_AGES: u64 = 100;
pub(crate) struct LinnetBest {
    trees: Vec<Option<Trees>>,
    overdue: Overdue,
    savings: Savings,
}

impl LinnetBest {
    pub(crate) fn new(learned: &[Learned]) -> Self {
        let trees = learned.iter().map(|device| device.trees).collect();
        LinnetBest { trees, overdue: Overdue::new(learned), savings: Savings::default() }
    }

    /// Log-odds that this read would be slow on the device, times [`linnet_core::TREE_ONE`].
    fn score(&self, ask: &Ask<'_>, device: usize) -> i32 {
        match (&self.trees[device], &ask.devices[device].watch) {
            (Some(trees), Some(watch)) => {
                trees.score(&watch.describe(ask.now_ns, ask.request.offset_bytes, ask.request.size_bytes))
            }
            _ => 0,
        }
    }

    /// The best candidate and its score.
    fn best(&self, ask: &Ask<'_>) -> (usize, i32) {
        let mut least = (i64::MAX, u64::MAX, 0);
        let device = ask.least(|device| {
            let (score, expected_ns) = (self.score(ask, device), ask.devices[device].expected_ns());
            let own = (preference(score, expected_ns), expected_ns, score);
            least = if (own.0, own.1) < (least.0, least.1) { own } else { least };
            (own.0, own.1)
        });
        (device, least.2)
    }
}

impl Policy for LinnetBest {
    fn name(&self) -> &str {
        "linnet-best"
    }

    fn watches(&self) -> bool {
        true
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance) -> Choice {
        self.savings.earn();
        let stale = |device: &usize| {
            let view = &ask.devices[*device];
            let age_ns = ask.now_ns.saturating_sub(view.learnt_ns);
            view.in_flight == 0 && !view.probing && age_ns > ask.config.age_ns.saturating_mul(PROBE_AGES)
        };
        let submit = match ask.candidates().find(stale) {
            _ if ask.last => Submit::to(ask.next),
            Some(device) => Submit { probe: true, ..Submit::to(device) },
            None => match self.best(ask) {
                (device, score) if score < 0 && self.trees[device].is_some() => Submit::to(device).judged(),
                (device, _) => Submit::to(device),
            },
        };
        Choice::Submit(submit.hedged(self.overdue.delay_ns()))
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        self.overdue.asked();
        if self.savings.take() { Hedge::To(self.best(ask).0) } else { Hedge::Never }
    }

    fn completed(&mut self, done: &Completion) {
        self.overdue.completed(done);
    }
}
