// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the array with the inputs of real devices: copies are refused and cancelled, answers come in any order, timers
//! expire late, and tokens are stale.

use super::*;
use crate::slab::Alarm;
use crate::{Array, Checker, CopyId, Input, Observer, Output, POLICIES, TimerId, WriteMode, policy};
use linnet_sim::Chance;
use linnet_types::Request;
use std::collections::BTreeSet;

pub(super) const READ: Request = Request::new(Op::Read, 0, 4096);

fn array(name: &str, networks: &[Option<Network>], config: Config) -> Array {
    let learned = learned(networks);
    let policy = policy(name, &learned, &config).expect("known");
    Array::new(config, &thresholds(&learned), policy).expect("settings within their ranges")
}

pub(super) fn submits(out: &[Output]) -> Vec<(usize, CopyId, bool)> {
    let submit = |output: &Output| match *output {
        Output::Submit { device, copy, may_revoke, .. } => Some((device, copy, may_revoke)),
        _ => None,
    };
    out.iter().filter_map(submit).collect()
}

pub(super) fn timers(out: &[Output]) -> Vec<(Nanos, TimerId)> {
    let timer = |output: &Output| match *output {
        Output::SetTimer { at_ns, timer } => Some((at_ns, timer)),
        _ => None,
    };
    out.iter().filter_map(timer).collect()
}

#[test]
fn a_read_that_devices_refuse_moves_on_and_is_never_refused_at_the_last() {
    let mut array = array("baseline", &[None, None], two_replicas());
    let mut out = Vec::new();
    array.arrive(0, 7, 0, &READ, &(), &mut out);
    let (device, first, may_revoke) = submits(&out)[0];
    assert_eq!((device, may_revoke), (0, true));
    out.clear();
    array.revoked(100, first, &mut out);
    let (at_ns, timer) = timers(&out)[0];
    assert_eq!((at_ns, out.len()), (15_100, 1));
    out.clear();
    array.timer(at_ns, timer, &(), &mut out);
    let (device, second, may_revoke) = submits(&out)[0];
    assert_eq!((device, may_revoke), (1, false), "the last replica has to answer");
    // The copy fails, but the replica that refused still has the data.
    out.clear();
    array.failed(20_000, second, &mut out);
    let (at_ns, timer) = timers(&out)[0];
    out.clear();
    array.timer(at_ns, timer, &(), &mut out);
    let (device, third, may_revoke) = submits(&out)[0];
    assert_eq!((device, may_revoke), (0, false));
    out.clear();
    array.completed(90_000, third, &mut out);
    assert_eq!(
        out,
        [Output::Complete { tag: 7, stream: 0, tenant: 0, op: Op::Read, arrive_ns: 0, latency_ns: 90_000 }]
    );
    let c = *array.counters();
    assert_eq!((c.revokes, c.refusals, c.failovers, c.submits, c.extra_io), (1, 1, 1, 3, 1));
    assert_eq!(array.live(), 0);
    assert!(array.devices().iter().all(|view| view.in_flight() == 0 && view.pending_pages() == 0));
}

#[test]
fn a_policy_hears_of_copies_that_left_without_an_answer() {
    for (end, name) in [(Array::failed as fn(&mut Array, _, _, &mut Vec<_>), "failed"), (Array::revoked, "revoked")] {
        let mut array = array("spdk-raid1", &[None, None], two_replicas());
        let mut out = Vec::new();
        array.arrive(0, 1, 0, &READ, &(), &mut out);
        let (device, copy, _) = submits(&out)[0];
        assert_eq!(device, 0);
        out.clear();
        end(&mut array, 100, copy, &mut out);
        let (at_ns, timer) = timers(&out)[0];
        out.clear();
        array.timer(at_ns, timer, &(), &mut out);
        let (device, copy, _) = submits(&out)[0];
        assert_eq!(device, 1);
        array.completed(200_000, copy, &mut Vec::new());
        // Nothing is outstanding anywhere, so the first one is taken.
        out.clear();
        array.arrive(300_000, 2, 0, &READ, &(), &mut out);
        assert_eq!(submits(&out)[0].0, 0, "{name}");
    }
}

#[test]
fn a_cancelled_loser_frees_its_request_and_teaches_nothing() {
    let mut array = array("clone", &[None, None], two_replicas());
    let mut out = Vec::new();
    array.arrive(0, 1, 1, &READ, &(), &mut out);
    let copies = submits(&out);
    assert_eq!([copies[0].0, copies[1].0], [1, 0], "stream 1 has device 1 as its primary");
    out.clear();
    array.completed(80_000, copies[1].1, &mut out);
    assert_eq!(out[1], Output::Cancel { device: 1, copy: copies[0].1, timed_out: false });
    assert_eq!(array.live(), 1);
    array.cancelled(81_000, copies[0].1, &mut out);
    assert_eq!((array.live(), array.devices()[1].tracker().history_len(), array.devices()[1].in_flight()), (0, 0, 0));
    // Late reports of ended copies change nothing.
    out.clear();
    array.completed(90_000, copies[0].1, &mut out);
    array.failed(90_000, copies[1].1, &mut out);
    array.completed(90_000, CopyId(u64::MAX), &mut out);
    array.timer(90_000, TimerId(u64::MAX), &(), &mut out);
    assert_eq!((out.len(), array.counters().late), (0, 3));
}

#[test]
fn a_write_to_all_is_answered_with_its_last_copy_and_fails_with_all() {
    let write = Request::new(Op::Write, 0, 4096);
    let mut array = array("baseline", &[None, None], Config { write_mode: WriteMode::All, ..two_replicas() });
    let mut out = Vec::new();
    for (now, first_fails, last_fails) in [(10_000, true, false), (20_000, false, true), (30_000, true, true)] {
        out.clear();
        array.arrive(now, now, 0, &write, &(), &mut out);
        let copies = submits(&out);
        out.clear();
        for (after_ns, fails, (_, copy, _)) in [(100, first_fails, copies[1]), (300, last_fails, copies[0])] {
            assert_eq!(out, [], "one copy is in flight");
            let end = if fails { Array::failed } else { Array::completed };
            end(&mut array, now + after_ns, copy, &mut out);
        }
        let (tag, stream, op, arrive_ns) = (now, 0, Op::Write, now);
        let answered = Output::Complete { tag, stream, tenant: 0, op, arrive_ns, latency_ns: 300 };
        let failed = Output::Fail { tag, stream, tenant: 0, op, arrive_ns };
        assert_eq!(out, [if first_fails && last_fails { failed } else { answered }]);
    }
    assert_eq!((array.live(), array.counters().writes_failed), (0, 1));
}

#[test]
fn a_timer_whose_reason_is_gone_does_nothing() {
    let mut array = array("baseline", &[None, None], two_replicas());
    let mut out = Vec::new();
    // Two reads, one after the other in the same memory, are refused and wait for a retry.
    let refused = |now, array: &mut Array, out: &mut Vec<Output>| {
        out.clear();
        array.arrive(now, now, 0, &READ, &(), out);
        let (_, copy, _) = submits(out)[0];
        out.clear();
        array.revoked(now, copy, out);
        timers(out)[0].1
    };
    let first = refused(0, &mut array, &mut out);
    out.clear();
    array.timer(15_000, first, &(), &mut out);
    let (_, copy, _) = submits(&out)[0];
    array.completed(90_000, copy, &mut out);
    let second = refused(100_000, &mut array, &mut out);
    assert_eq!(first.slot(), second.slot());
    out.clear();
    // The last two name time limits of a kind that is not there.
    for timer in [first, TimerId::new(2, 0, Alarm::Limit), TimerId::new(9, 0, Alarm::Limit)] {
        array.timer(115_000, timer, &(), &mut out);
    }
    assert_eq!(out, []);
    array.timer(115_000, second, &(), &mut out);
    assert_eq!(out.len(), 1);
    array.timer(116_000, second, &(), &mut out);
    assert_eq!((out.len(), array.live()), (1, 1), "it has expired");
}

#[test]
fn a_read_whose_only_copy_its_device_cancels_goes_elsewhere() {
    let mut array = array("baseline", &[None, None], two_replicas());
    let mut out = Vec::new();
    array.arrive(0, 7, 0, &READ, &(), &mut out);
    let (_, copy, _) = submits(&out)[0];
    out.clear();
    array.cancelled(100, copy, &mut out);
    let (at_ns, timer) = timers(&out)[0];
    assert_eq!((at_ns, out.len()), (15_100, 1), "not given up");
    out.clear();
    array.timer(at_ns, timer, &(), &mut out);
    assert_eq!(submits(&out)[0].0, 1);
}

#[test]
fn sim_inputs_in_any_order_keep_every_rule() {
    for seed in 0..60 {
        let mut chance = Chance::new(seed);
        let replicas = 1 + chance.below(4) as usize;
        let devices = replicas + chance.below(3) as usize;
        let tight = Rate::new(chance.unit(), chance.below(50) as u32);
        let config = Config {
            replicas,
            hedge_budget: tight,
            clone_budget: tight,
            read_timeout_ns: 1 + chance.below(3_000_000),
            write_timeout_ns: 1 + chance.below(3_000_000),
            seed,
            ..Config::default()
        };
        let name = POLICIES[chance.below(POLICIES.len() as u64) as usize];
        let mut array = array(name, &vec![Some(revokes_above(200)); devices], config);
        let checker = jumble(&mut array, &mut chance, devices, replicas);
        if let Err(broken) = checker.finish(array.counters()) {
            panic!("seed {seed}, {name}, {replicas} of {devices}: {}", broken.join("\n"));
        }
        assert_eq!(array.live(), 0, "seed {seed}, {name}");
    }
}

/// Submits 2,000 requests with all other inputs at random; then only inputs that end requests, until all have ended.
fn jumble(array: &mut Array, chance: &mut Chance, devices: usize, replicas: usize) -> Checker {
    let mut checker = Checker::new(devices, replicas);
    let (mut flying, mut waiting, mut doomed, mut past) = (Vec::new(), BTreeSet::new(), Vec::new(), Vec::new());
    let (mut now, mut tag) = (0, 0);
    let mut out = Vec::new();
    while tag < 2000 || array.live() > 0 {
        now += chance.below(20_000);
        let action = if tag < 2000 { chance.below(10) } else { 4 + chance.below(6) };
        match action {
            0..4 => {
                let op = if chance.happens(0.8) { Op::Read } else { Op::Write };
                let request = Request::new(op, tag << 12, 1 + chance.below(100_000) as u32);
                let stream = chance.below(9) as usize;
                checker.input(now, &Input::Arrive { tag, stream, request, arrive_ns: now });
                array.arrive(now, tag, stream, &request, &(), &mut out);
                tag += 1;
            }
            // Timers expire in order, on time or late.
            4..6 if !waiting.is_empty() => {
                let (at_ns, timer) = waiting.pop_first().expect("not empty");
                now = now.max(at_ns);
                checker.input(now, &Input::Timer(timer));
                array.timer(now, timer, &(), &mut out);
            }
            6 if !doomed.is_empty() => {
                let copy = doomed.swap_remove(chance.below(doomed.len() as u64) as usize);
                checker.input(now, &Input::Cancelled(copy));
                array.cancelled(now, copy, &mut out);
            }
            7 if !past.is_empty() => {
                let copy = past[chance.below(past.len() as u64) as usize];
                array.completed(now, copy, &mut out);
            }
            _ if !flying.is_empty() => {
                let (copy, may_revoke) = flying.swap_remove(chance.below(flying.len() as u64) as usize);
                match chance.below(8) {
                    0 => {
                        checker.input(now, &Input::Failed(copy));
                        array.failed(now, copy, &mut out);
                    }
                    1 if may_revoke => {
                        checker.input(now, &Input::Revoked(copy));
                        array.revoked(now, copy, &mut out);
                    }
                    // The copy is lost: only the time limit ends it.
                    2 => continue,
                    _ => {
                        checker.input(now, &Input::Completed(copy));
                        array.completed(now, copy, &mut out);
                        past.push(copy);
                    }
                }
            }
            _ => {}
        }
        for output in out.drain(..) {
            checker.output(now, &output);
            match output {
                Output::Submit { copy, may_revoke, .. } => flying.push((copy, may_revoke)),
                Output::Cancel { copy, timed_out: false, .. } => doomed.push(copy),
                Output::SetTimer { at_ns, timer } => drop(waiting.insert((at_ns, timer))),
                _ => {}
            }
        }
        checker.step(now, array);
    }
    checker
}
