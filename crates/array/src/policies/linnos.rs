// SPDX-License-Identifier: MIT OR Apache-2.0
//! **linnos**, **linnos+hl** and **linnos+h99**: ask a network per device whether this read will be slow (LinnOS, OSDI'20,
//! sections 4 and 5.3).
//!
//! Ask the replicas in order, starting at the primary. Describe the read to the device's network in 31 digits: pages pending now, and
//! pending pages and latency of the last four reads. Slow: revoke, and the next replica is asked after the failover. Fast:
//! submit. The last replica is not asked: there the read is submitted.
//!
//! Without a network, and before four reads have completed (training skips those too), the read is submitted.
//!
//! The two hedging forms send a second copy when a submitted read has not answered after the device's delay: the percentile
//! min(95, 100 - false submits) of read latency for +hl (section 4.4), the 99th for +h99 (section 5.5). The copy goes to the
//! replica whose network gives the least score for slow, of those that do not hold the read; never to one that does.

use crate::{Ask, Choice, Hedge, Policy, Submit};
use linnet_core::Network;
use linnet_sim::Chance;
use linnet_types::Nanos;

/// Reads that the history must hold before its digits mean anything.
const HISTORY: u32 = 4;

pub(crate) struct LinnOs {
    name: &'static str,
    networks: Vec<Option<Network>>,
    hedge_ns: Vec<Option<Nanos>>,
}

impl LinnOs {
    pub(crate) fn new(name: &'static str, networks: Vec<Option<Network>>, hedge_ns: Vec<Option<Nanos>>) -> Self {
        LinnOs { name, networks, hedge_ns }
    }
}

impl Policy for LinnOs {
    fn name(&self) -> &str {
        self.name
    }

    fn judges(&self) -> bool {
        true
    }

    fn learns(&self) -> bool {
        true
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance) -> Choice {
        let hedge_after = self.hedge_ns[ask.next];
        let submit = Submit::to(ask.next).hedged(hedge_after);
        let view = ask.view();
        match &self.networks[ask.next] {
            Some(network) if !ask.last && view.tracker.history_len() >= HISTORY => {
                if network.decide(&view.digits(ask.request.size_bytes)) {
                    Choice::Revoke { hedge_after }
                } else {
                    Choice::Submit(submit.judged())
                }
            }
            _ => Choice::Submit(submit),
        }
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        Hedge::To(ask.least(|device| {
            let view = &ask.devices[device];
            let score = match &self.networks[device] {
                Some(network) if view.tracker.history_len() >= HISTORY => {
                    network.score(&view.digits(ask.request.size_bytes))
                }
                _ => 0,
            };
            (score, view.expected_ns())
        }))
    }
}
