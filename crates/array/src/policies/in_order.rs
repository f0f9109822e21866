// SPDX-License-Identifier: MIT OR Apache-2.0
//! **linnet+hl**: ask trees in order, and hedge by the predicted risk.
//!
//! Ask the replicas in order, starting at the primary, as LinnOS does: a host that cannot see all replicas at once, or a
//! kernel that may only revoke, can do no more. Rather slow than fast: revoke, and the next replica is asked after the
//! failover. Else submit. The last replica is not asked: there the read is submitted.
//!
//! A submitted read is hedged once it has taken longer than it should with a chance of 95 %, going by its own score
//! (`linnet_core::Latencies`): soon where an answer was to be expected soon, late where the risk was taken knowingly.
//! Without such a table, after the hedge delay of its thresholds. One read in fifty pays for a hedge. It goes to the candidate that
//! linnet-best would take.
//!
//! A device that nobody has read from for 5 x `age_ns` gets the read as its probe in place of a revoke. One without trees is
//! submitted to and not hedged: without any, this is the baseline, event for event.

use super::overdue::Savings;
use super::scores::Scores;
use crate::{Ask, Choice, Hedge, Learned, Policy, Submit};
use linnet_sim::Chance;
use linnet_types::Nanos;

pub(crate) struct InOrder {
    scores: Scores,
    hedge_ns: Vec<Option<Nanos>>,
    savings: Savings,
}

impl InOrder {
    pub(crate) fn new(learned: &[Learned], hedge_ns: Vec<Option<Nanos>>) -> Self {
        InOrder { scores: Scores::new(learned), hedge_ns, savings: Savings::default() }
    }
}

impl Policy for InOrder {
    fn name(&self) -> &str {
        "linnet+hl"
    }

    fn judges(&self) -> bool {
        true
    }

    fn watches(&self) -> bool {
        true
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance) -> Choice {
        if ask.first {
            self.savings.earn();
        }
        let Some((score, within)) = self.scores.judge(ask, ask.next) else {
            return Choice::Submit(Submit::to(ask.next));
        };
        let hedge_after = within.or(self.hedge_ns[ask.next]);
        let submit = Submit::to(ask.next).hedged(hedge_after);
        Choice::Submit(match score > 0 {
            _ if ask.last => submit,
            true if !Scores::has_expired(ask, ask.next) => return Choice::Revoke { hedge_after },
            true => Submit { probe: true, ..submit },
            false => submit.judged(),
        })
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        if self.savings.take() { Hedge::To(self.scores.best(ask).0) } else { Hedge::Never }
    }
}
