// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests what the array makes of the answers of a policy: draws, second copies, and what is judged.

use super::inputs::{READ, submits, timers};
use super::*;
use crate::slab::Alarm;
use crate::{Array, Ask, Choice, CopyId, Outlook, Output, Policy, Submit, TimerId};
use linnet_core::Budget;
use linnet_sim::Chance;
use linnet_types::{Outcome, Request};

/// A policy that answers by a rule.
struct Rule(fn(&Ask<'_>) -> Choice);

impl Policy for Rule {
    fn name(&self) -> &str {
        "rule"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        (self.0)(ask)
    }
}

fn array(rule: fn(&Ask<'_>) -> Choice, inflection_ns: Nanos, config: Config) -> Array {
    let thresholds = Thresholds { inflection_ns, ..test_thresholds() };
    Array::new(config, &vec![thresholds; config.replicas], Box::new(Rule(rule))).expect("settings within their ranges")
}

/// The array with what it asked for last.
struct Driven(Array, Vec<Output>);

impl Driven {
    /// Lets something happen. Retries follow at once, and what was asked for earlier is forgotten.
    fn after(&mut self, happens: impl FnOnce(&mut Array, &mut Vec<Output>)) -> &[Output] {
        let Driven(array, out) = self;
        out.clear();
        happens(array, out);
        if let [.., Output::SetTimer { at_ns, timer }] = out[..]
            && submits(out).is_empty()
        {
            out.clear();
            array.timer(at_ns, timer, &(), out);
        }
        out
    }

    /// The devices that a read at this time goes to, and the copies.
    fn read(&mut self, now: Nanos) -> Vec<(usize, CopyId, bool)> {
        submits(self.after(|array, out| array.arrive(now, now, 0, &READ, &(), out)))
    }

    /// A copy fails: the device and the copy that follow, and whether that device may refuse.
    fn fail(&mut self, now: Nanos, copy: CopyId) -> (usize, CopyId, bool) {
        submits(self.after(|array, out| array.failed(now, copy, out)))[0]
    }

    /// A device refuses a copy.
    fn refuse(&mut self, now: Nanos, copy: CopyId) -> (usize, CopyId, bool) {
        submits(self.after(|array, out| array.revoked(now, copy, out)))[0]
    }

    fn draws(&self) -> u64 {
        self.0.counters().probing.draws
    }
}

#[test]
fn a_primary_that_is_passed_over_is_drawn_in_the_first_decision_alone() {
    let last = |ask: &Ask<'_>| Choice::Submit(Submit::to(ask.candidates().last().expect("a candidate")));
    let config = Config { probe_share: 1.0, settings: limited(1), ..Config::default() };
    let mut driven = Driven(array(last, 200_000, config), Vec::new());
    let (device, copy, _) = driven.read(0)[0];
    assert_eq!((device, driven.draws()), (0, 1), "the draw sends it to the primary");
    let (device, copy, _) = driven.fail(100, copy);
    assert_eq!((device, driven.draws()), (2, 1));
    driven.after(|array, out| array.completed(90_000, copy, out));
    // The primary is out of service.
    let (device, copy, _) = driven.read(1_000_000)[0];
    assert_eq!((device, driven.draws()), (2, 1));
    // It is back when this copy fails. That the read goes to another one is its second decision.
    let (device, copy, _) = driven.fail(10_500_000, copy);
    assert_eq!((device, driven.draws()), (1, 1));
    driven.after(|array, out| array.completed(10_600_000, copy, out));
    assert_eq!((driven.0.live(), driven.0.counters().reads_failed), (0, 0));
}

#[test]
fn the_second_copy_goes_where_the_policy_says() {
    let both = |ask: &Ask<'_>| Choice::Submit(Submit { also: ask.candidates().last(), ..Submit::to(ask.next) });
    for (replicas, second) in [(3, (2, true)), (2, (1, false))] {
        let mut driven = Driven(array(both, 200_000, Config { replicas, ..Config::default() }), Vec::new());
        let copies: Vec<_> = driven.read(0).iter().map(|&(device, _, may_refuse)| (device, may_refuse)).collect();
        assert_eq!(copies, [(0, true), second], "one of them has to answer");
    }
    // There is nowhere to send a second copy.
    let mut driven = Driven(array(both, 200_000, Config { replicas: 1, ..Config::default() }), Vec::new());
    assert_eq!(driven.read(0).len(), 1);
}

#[test]
fn a_read_with_one_replica_waits_for_no_hedge() {
    let hedged = |ask: &Ask<'_>| Choice::Submit(Submit::to(ask.next).hedged(Some(1_000)));
    for (replicas, timers_set) in [(1, 1), (2, 2)] {
        let mut driven = Driven(array(hedged, 200_000, Config { replicas, ..Config::default() }), Vec::new());
        driven.read(0);
        assert_eq!(timers(&driven.1).len(), timers_set, "one is the time limit");
    }
}

/// Lets the timer that a copy's hedge waits for expire: the device of the hedge, and its copy.
fn expire(driven: &mut Driven, now: Nanos, timer: TimerId) -> Option<(usize, CopyId, bool)> {
    submits(driven.after(|array, out| array.timer(now, timer, &(), out))).pop()
}

#[test]
fn a_read_is_hedged_once_and_only_while_the_copy_that_is_late_flies() {
    let hedged = |ask: &Ask<'_>| Choice::Submit(Submit::to(ask.next).hedged(Some(1_000)));
    let mut driven = Driven(array(hedged, 200_000, Config { replicas: 5, ..Config::default() }), Vec::new());
    let hedge_timer =
        |driven: &Driven| timers(&driven.1).into_iter().find(|(_, timer)| timer.alarm() != Some(Alarm::Limit));
    let (_, copy, _) = driven.read(0)[0];
    let (_, failed) = hedge_timer(&driven).expect("a hedge is wanted");
    let (device, first, _) = driven.fail(100, copy);
    let (_, late) = hedge_timer(&driven).expect("a hedge is wanted");
    assert_eq!((device, expire(&mut driven, 1_000, failed)), (1, None), "that copy has failed");
    let (device, second, _) = expire(&mut driven, 16_100, late).expect("it is late");
    assert_eq!(device, 2);
    driven.after(|array, out| array.failed(17_000, first, out));
    let (device, third, _) = driven.fail(18_000, second);
    let (_, late) = hedge_timer(&driven).expect("a hedge is wanted");
    assert_eq!((device, expire(&mut driven, 40_000, late)), (3, None), "one hedge for each read");
    driven.after(|array, out| array.completed(90_000, third, out));
    assert_eq!(driven.0.live(), 0);

    let cloned = |ask: &Ask<'_>| {
        Choice::Submit(Submit { also: ask.candidates().nth(1), ..Submit::to(ask.next).hedged(Some(1_000)) })
    };
    let mut driven = Driven(array(cloned, 200_000, Config::default()), Vec::new());
    let copies = driven.read(0);
    let (_, late) = hedge_timer(&driven).expect("a hedge is wanted");
    driven.after(|array, out| array.completed(900, copies[1].1, out));
    assert_eq!(expire(&mut driven, 1_000, late), None, "it is answered");
}

#[test]
fn hedges_that_the_budget_does_not_pay_for_are_counted() {
    let hedged = |ask: &Ask<'_>| Choice::Submit(Submit::to(ask.next).hedged(Some(1_000)));
    let config = Config { hedge_budget: Rate::new(0.0, 2), ..Config::default() };
    let mut driven = Driven(array(hedged, 200_000, config), Vec::new());
    for now in 0..5 {
        driven.read(now);
        let (_, late) = *timers(&driven.1).last().expect("a hedge is wanted");
        expire(&mut driven, now + 1_000, late);
    }
    let c = driven.0.counters();
    assert_eq!((c.hedges, c.budget_denied), (2, 3));
}

#[test]
fn a_replica_out_of_service_is_no_candidate() {
    let last = |ask: &Ask<'_>| Choice::Submit(Submit::to(ask.candidates().last().expect("a candidate")));
    let mut driven = Driven(array(last, 200_000, Config { settings: limited(1), ..Config::default() }), Vec::new());
    let (device, copy, _) = driven.read(0)[0];
    assert_eq!((device, driven.fail(100, copy).0, driven.read(1_000)[0].0), (2, 1, 1));
}

#[test]
fn once_every_replica_was_tried_none_may_refuse() {
    let first = |ask: &Ask<'_>| Choice::Submit(Submit::to(ask.next));
    let mut driven = Driven(array(first, 200_000, Config::default()), Vec::new());
    let (_, copy, _) = driven.read(0)[0];
    let (_, copy, _) = driven.refuse(100, copy);
    let (device, copy, may_refuse) = driven.refuse(200, copy);
    assert_eq!((device, may_refuse), (2, false));
    let (device, copy, may_refuse) = driven.fail(300, copy);
    assert_eq!((device, may_refuse), (0, false));
    let (device, _, may_refuse) = driven.fail(400, copy);
    assert_eq!((device, may_refuse), (1, false));
}

/// Foresight of a device with this latency. Of an answer after the limit it says no more than that.
struct Foresees(Nanos);

impl Outlook for Foresees {
    fn peek(&self, _device: usize, now: Nanos, _request: &Request) -> Option<Outcome> {
        Some(Outcome::Done(now + self.0))
    }

    fn peek_until(&self, _device: usize, now: Nanos, _request: &Request, limit: Nanos) -> Option<Outcome> {
        Some(Outcome::Done((now + self.0).min(limit + 1)))
    }
}

#[test]
fn revokes_are_judged_by_what_is_foreseen_until_the_inflection_point() {
    let revoke = |_: &Ask<'_>| Choice::Revoke { hedge_after: None };
    // The draw is made and sends the read elsewhere.
    let config = Config { probe_share: 1e-9, ..Config::default() };
    for (inflection_ns, latency_ns, is_false) in
        [(200_000, 200_000, 1), (200_000, 200_001, 0), (200_000, 9_000_000, 0), (0, 0, 0), (0, 80_000, 0)]
    {
        for now in [0, 1, 3_000_000_000_000] {
            let mut array = array(revoke, inflection_ns, config);
            array.arrive(now, 1, 0, &READ, &Foresees(latency_ns), &mut Vec::new());
            let c = array.counters();
            assert_eq!((c.revokes, c.probing.draws), (1, 1));
            assert_eq!((c.false_revokes, c.probing.fast_elsewhere), (is_false, is_false), "{latency_ns} at {now}");
        }
    }
}

#[test]
fn a_device_without_an_inflection_point_is_not_judged() {
    let promise = |ask: &Ask<'_>| Choice::Submit(Submit::to(ask.next).predicted_fast());
    let revoke = |_: &Ask<'_>| Choice::Revoke { hedge_after: None };
    for (inflection_ns, judged) in [(200_000, 1), (0, 0)] {
        // The first copy fails, the second is judged.
        let ended = |rule, ends: fn(&mut Array, CopyId)| {
            let config = Config { probe_share: 1.0, ..Config::default() };
            let mut driven = Driven(array(rule, inflection_ns, config), Vec::new());
            let (_, copy, _) = driven.read(0)[0];
            let (device, copy, _) = driven.fail(0, copy);
            assert_eq!(device, 1);
            ends(&mut driven.0, copy);
            *driven.0.counters()
        };
        let completed = |array: &mut Array, copy| array.completed(900_000, copy, &mut Vec::new());
        assert_eq!(ended(promise, completed).false_submits, judged);
        let probing = ended(revoke, completed).probing;
        assert_eq!((probing.probes, probing.answered, probing.fast), (2, judged, 0));
        // A probe that is cancelled after the inflection point was slow; one that is cancelled before it tells nothing.
        let cancelled = |array: &mut Array, copy| array.cancelled(900_000, copy, &mut Vec::new());
        assert_eq!(ended(revoke, cancelled).probing.answered, judged);
        let waited = ended(promise, cancelled);
        assert_eq!((waited.probing.answered, waited.false_submits), (0, judged));
        let early = |array: &mut Array, copy| array.cancelled(215_000, copy, &mut Vec::new());
        assert_eq!(ended(revoke, early).probing.answered, 0);
    }
}

#[test]
fn a_read_whose_other_copy_is_refused_or_cancelled_stays_as_it_is() {
    let both = |ask: &Ask<'_>| Choice::Submit(Submit { also: ask.candidates().nth(1), ..Submit::to(ask.next) });
    for ends in [Array::revoked, Array::cancelled, Array::failed] {
        let mut driven = Driven(array(both, 200_000, Config::default()), Vec::new());
        let copies = driven.read(0);
        // Nothing is asked for while the other copy flies, nor after it has answered.
        assert_eq!(driven.after(|array, out| ends(array, 100, copies[0].1, out)), []);
        assert_eq!(driven.after(|array, out| array.completed(200, copies[1].1, out)).len(), 1);
        assert_eq!(driven.0.live(), 0);
        let copies = driven.read(1_000);
        assert_eq!(driven.after(|array, out| array.completed(1_100, copies[1].1, out)).len(), 2);
        assert_eq!(driven.after(|array, out| ends(array, 1_200, copies[0].1, out)), []);
        assert_eq!(driven.0.live(), 0);
    }
}
