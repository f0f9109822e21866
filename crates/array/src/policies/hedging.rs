// SPDX-License-Identifier: MIT OR Apache-2.0
//! **hedge-p95** and **hedge-ip**: wait, then send a second copy.
//!
//! Submit to the primary. If it has not answered after the device's delay (its 95th percentile of read latency, or its
//! inflection point), send a second copy to the other replica with the lowest expected wait; the first answer wins
//! (LinnOS section 5.3; Dean and Barroso, "The tail at scale", CACM 2013). Delays come from the profiling run and are
//! fixed: a delay that followed the hedged latencies would feed back on itself. The array's hedge budget bounds the
//! extra load.

use crate::{Ask, Choice, Policy, Submit};
use linnet_core::Budget;
use linnet_sim::Chance;
use linnet_types::Nanos;

pub(crate) struct Hedging {
    name: &'static str,
    delay_ns: Vec<Option<Nanos>>,
}

impl Hedging {
    pub(crate) fn new(name: &'static str, delay_ns: Vec<Option<Nanos>>) -> Self {
        Hedging { name, delay_ns }
    }
}

impl Policy for Hedging {
    fn name(&self) -> &str {
        self.name
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        Choice::Submit(Submit::to(ask.next).hedged(self.delay_ns[ask.next]))
    }
}
