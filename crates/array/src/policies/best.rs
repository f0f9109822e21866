// SPDX-License-Identifier: MIT OR Apache-2.0
//! **linnet-best**: submit each read to the replica that is least likely to be slow.
//!
//! Score every candidate: what does this device's watch say of the read now, and how likely do its trees think it slow?
//! Submit to the candidate with the least score. Log-odds that fall into the same step of two count as equal: of those,
//! take the least EWMA latency x in flight. A finer score tells little, but sends all reads of a burst to one device.
//!
//! What no host can foresee, such as one busy die, is left to a hedge: a read that has not answered after the device's 95th
//! percentile is sent again, to the best of the others. One read in fifty pays for it; a burst may spend what up
//! to 12,800 reads have saved. Nothing is revoked.
//!
//! A device that nobody reads from cannot show that it has recovered. When no read has completed on one for 100 x `age_ns`
//! and nothing is under way there, this read goes there as its probe.
//!
//! Devices without trees score 0. Without any, what remains is EWMA latency x in flight, hedged.

use crate::{Ask, Choice, Hedge, Policy, Submit};
use linnet_core::{TREE_ONE, Trees};
use linnet_sim::Chance;
use linnet_types::Nanos;

/// Scores are compared in steps of two log-odds. Steps of 0, 1 and 3 were measured too: latencies fall up to two, then no more.
const STEP: i32 = 2 * TREE_ONE;
/// Reads that pay for one hedge: extra reads stay at 2 %.
const READS_PER_HEDGE: u32 = 50;
/// A device is probed after this many times `age_ns`. Its features age by themselves, so that a tenth of it gained nothing.
const PROBE_AGES: u64 = 100;
/// Most that can be saved up: the price of 256 hedges.
const SAVINGS_MAX: u32 = 256 * READS_PER_HEDGE;

pub(crate) struct LinnetBest {
    trees: Vec<Option<Trees>>,
    hedge_ns: Vec<Option<Nanos>>,
    /// Reads that have not paid for a hedge yet.
    savings: u32,
}

impl LinnetBest {
    pub(crate) fn new(trees: Vec<Option<Trees>>, hedge_ns: Vec<Option<Nanos>>) -> Self {
        LinnetBest { trees, hedge_ns, savings: 0 }
    }

    /// Log-odds that this read would be slow on the device, times [`TREE_ONE`].
    fn score(&self, ask: &Ask<'_>, device: usize) -> i32 {
        match (&self.trees[device], &ask.devices[device].watch) {
            (Some(trees), Some(watch)) => {
                trees.score(&watch.describe(ask.now_ns, ask.request.offset_bytes, ask.request.size_bytes))
            }
            _ => 0,
        }
    }

    /// The best candidate and the step that its score falls into.
    fn best(&self, ask: &Ask<'_>) -> (usize, i32) {
        let mut least = i32::MAX;
        let device = ask.least(|device| {
            let step = self.score(ask, device).div_euclid(STEP);
            least = least.min(step);
            (step, ask.devices[device].expected_ns())
        });
        (device, least)
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
        self.savings = (self.savings + 1).min(SAVINGS_MAX);
        let stale = |device: &usize| {
            let view = &ask.devices[*device];
            let age_ns = ask.now_ns.saturating_sub(view.learnt_ns);
            view.in_flight == 0 && !view.probing && age_ns > ask.config.age_ns.saturating_mul(PROBE_AGES)
        };
        let submit = match ask.candidates().find(stale) {
            _ if ask.last => Submit::to(ask.next),
            Some(device) => Submit { probe: true, ..Submit::to(device) },
            None => match self.best(ask) {
                (device, step) if step < 0 && self.trees[device].is_some() => Submit::to(device).judged(),
                (device, _) => Submit::to(device),
            },
        };
        Choice::Submit(submit.hedged(self.hedge_ns[submit.replica]))
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        let Some(left) = self.savings.checked_sub(READS_PER_HEDGE) else { return Hedge::Never };
        self.savings = left;
        Hedge::To(self.best(ask).0)
    }
}
