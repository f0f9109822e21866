// SPDX-License-Identifier: MIT OR Apache-2.0
//! **oracle**: greedy clairvoyant.
//!
//! Peek at every candidate for its answer to this read if it were submitted now. Submit to the one that answers first.
//! On devices without foresight, submit to the first candidate.
//!
//! It knows the answer to each read but does not look ahead: it never takes a slower replica so that later reads find a
//! shorter queue. It is therefore a practical limit and not a bound; a policy that spreads load better can win.

use crate::{Ask, Choice, Policy, Submit};
use linnet_core::Budget;
use linnet_sim::Chance;
use linnet_types::{Nanos, Outcome};

pub(crate) struct Oracle;

impl Policy for Oracle {
    fn name(&self) -> &str {
        "oracle"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let answers_ns = |device| match ask.outlook.peek(device, ask.now_ns, ask.request) {
            Some(Outcome::Done(at)) => at,
            _ => Nanos::MAX,
        };
        Choice::Submit(Submit::to(ask.least(answers_ns)))
    }
}
