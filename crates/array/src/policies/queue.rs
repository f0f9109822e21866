// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies that look at what is in flight.
//!
//! - **shortest-queue**: submit to the replica with the fewest I/Os in flight; of equals, to the one nearest to the primary.
//!   This is what Linux's NVMe multipath `queue-depth` policy does with paths.
//! - **ewma-inflight**: submit to the replica where EWMA latency x (in flight + 1) is least. A replica without history
//!   counts as 0 and is tried at once. A replica with a bad average would never be asked again, so one whose last read is
//!   older than the array's age limit gets the read as a probe, like device-mapper's `historical-service-time`, which
//!   lets stale averages expire.

use crate::{Ask, Choice, Policy, Submit};
use linnet_sim::Chance;

pub(crate) struct ShortestQueue;

impl Policy for ShortestQueue {
    fn name(&self) -> &str {
        "shortest-queue"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance) -> Choice {
        Choice::Submit(Submit::to(ask.least(|device| ask.devices[device].in_flight)))
    }
}

pub(crate) struct EwmaInflight;

impl Policy for EwmaInflight {
    fn name(&self) -> &str {
        "ewma-inflight"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance) -> Choice {
        Choice::Submit(probe_or(ask, ask.least(|device| ask.devices[device].expected_ns())))
    }
}

/// The chosen candidate, unless another has gone unread for so long that its average says nothing: then that one, as a probe.
pub(super) fn probe_or(ask: &Ask<'_>, chosen: usize) -> Submit {
    let forgotten = |&device: &usize| device != chosen && ask.devices[device].ewma_ns > 0 && ask.is_stale(device);
    match ask.candidates().find(forgotten) {
        Some(device) => Submit { probe: true, ..Submit::to(device) },
        None => Submit::to(chosen),
    }
}
