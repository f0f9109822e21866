// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies that ignore the state of the devices.
//!
//! - **clone**: submit to the primary and to the replica after it at once, the first answer wins (LinnOS section 5.3; a
//!   hedge at p0). Doubles the load.
//! - **random**: submit to a replica drawn at random.
//!
//! When the primary has failed or is out of service, the first candidate takes its place.

use crate::{Ask, Choice, Policy, Submit};
use linnet_core::Budget;
use linnet_sim::Chance;

pub(crate) struct Cloning;

impl Policy for Cloning {
    fn name(&self) -> &str {
        "clone"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        Choice::Submit(Submit { also: ask.candidates().nth(1), ..Submit::to(ask.next) })
    }
}

pub(crate) struct Random;

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let drawn = chance.below(ask.count() as u64) as usize;
        Choice::Submit(Submit::to(ask.candidates().nth(drawn).unwrap_or(ask.next)))
    }
}
