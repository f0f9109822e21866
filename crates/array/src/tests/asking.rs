// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests what a policy can ask of a question, and how an answer of the core becomes a choice.

use super::*;
use crate::policy::bits;
use crate::{Outlook, Submit};
use linnet_core::{Answer, Verdict};
use linnet_types::Outcome;

#[test]
fn candidates_are_replicas_in_their_order() {
    let mut scene = Scene::new(&[0; 8]);
    scene.replicas = vec![7, 6, 5, 4, 3, 2, 1, 0];
    let ask = scene.ask(0, 0b1000_0110);
    assert_eq!((ask.candidates().collect::<Vec<_>>(), ask.count(), ask.device(0)), (vec![6, 5, 0], 3, 7));
    assert_eq!(bits(0xff).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(bits(0).count(), 0);
    // The lowest key, and of equal ones the nearest to the primary.
    assert_eq!((ask.least(|device| device), ask.least(|device| 9 - device), ask.least(|_| 1)), (0, 6, 6));
    assert_eq!(ask.least(|_| f64::NAN), 6);
}

#[test]
fn the_least_wait_is_of_replicas_that_were_not_revoked_if_there_are_any() {
    let mut scene = Scene::new(&[1, 2, 3]);
    // Each has answered in 100 us.
    for replica in &mut scene.devices {
        let flight = replica.arrive(&scene.settings, 0, &scene.request, false);
        replica.complete(&flight, 100_000);
    }
    for (candidates, refused, least) in [(7, 0, 0), (7, 1, 1), (7, 3, 2), (7, 7, 0), (6, 2, 2), (6, 6, 1), (6, 1, 1)] {
        let ask = Ask { refused, ..scene.ask(100_000, candidates) };
        assert_eq!(ask.least_wait(), least, "{candidates} of which {refused} were revoked");
    }
}

/// Foresees one time.
struct Foresees;

impl Outlook for Foresees {
    fn peek(&self, _device: usize, _now: Nanos, _request: &Request) -> Option<Outcome> {
        Some(Outcome::Done(5))
    }
}

#[test]
fn an_outlook_without_limits_says_what_it_foresees() {
    let scene = Scene::new(&[0]);
    assert_eq!(Foresees.peek_until(0, 0, &scene.request, 1), Some(Outcome::Done(5)));
    assert_eq!(().peek_until(0, 0, &scene.request, 1), None);
}

#[test]
fn a_probe_in_place_of_a_revoke_was_not_wanted() {
    let mut scene = Scene::new(&[0; 3]);
    scene.replicas = vec![2, 1, 0];
    let ask = scene.ask(0, 7);
    let of = |verdict, denied, probe, tried| {
        let answer = Answer { verdict, replica: 2, predicted_fast: true, probe, denied };
        ask.carry_out(&answer, Some(9), tried)
    };
    let submit = Submit { probe: false, ..Submit::to(0).hedged(Some(9)).predicted_fast() };
    let probe = Submit { probe: true, ..submit };
    assert_eq!(of(Verdict::Revoke, false, false, true), Choice::Revoke { hedge_after: Some(9) });
    assert_eq!(of(Verdict::Submit, false, false, true), Choice::Submit(submit));
    assert_eq!(of(Verdict::Submit, true, false, false), Choice::Declined(submit));
    assert_eq!(of(Verdict::Submit, false, true, true), Choice::Declined(probe));
    assert_eq!(of(Verdict::Submit, false, true, false), Choice::Submit(probe));
}
