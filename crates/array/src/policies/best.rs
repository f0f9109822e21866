// SPDX-License-Identifier: MIT OR Apache-2.0
//! **linnet-best**: submit each read to the replica that is least likely to be slow.
//!
//! Score every candidate: what does this device's watch say of the read now, and how likely do its trees think it slow?
//! Submit to the candidate where those odds times EWMA latency x (in flight + 1) are least (`linnet_core::preferred`, which
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
use super::scores::Scores;
use crate::{Ask, Choice, Completion, Hedge, Learned, Policy, Submit};
use linnet_sim::Chance;

pub(crate) struct LinnetBest {
    scores: Scores,
    overdue: Overdue,
    savings: Savings,
}

impl LinnetBest {
    pub(crate) fn new(learned: &[Learned]) -> Self {
        LinnetBest { scores: Scores::new(learned), overdue: Overdue::new(learned), savings: Savings::default() }
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
        if ask.first {
            self.savings.earn();
        }
        let submit = match ask.candidates().find(|&device| Scores::is_forgotten(ask, device)) {
            _ if ask.last => Submit::to(ask.next),
            Some(device) => Submit { probe: true, ..Submit::to(device) },
            None => match self.scores.best(ask) {
                (device, score) if score < 0 && self.scores.know(device) => Submit::to(device).judged(),
                (device, _) => Submit::to(device),
            },
        };
        Choice::Submit(submit.hedged(self.overdue.delay_ns()))
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        self.overdue.asked();
        if self.savings.take() { Hedge::To(self.scores.best(ask).0) } else { Hedge::Never }
    }

    fn completed(&mut self, done: &Completion) {
        self.overdue.completed(done);
    }
}
