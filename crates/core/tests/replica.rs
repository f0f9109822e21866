// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a replica with the in-flight tracker and the tracker that it contains, and tests when it is out of service,
//! how decisions treat it, and when its reads are hedged.

use linnet_core::{
    Answer, Asked, Budget, Candidate, DIGITS, Decision, Flight, Hedging, InflightTracker, Layer, Network, Place,
    Policy, Question, Rate, Replica, Schema, Settings, TREE_ONE, Tracker, Verdict,
};
use linnet_sim::Chance;
use linnet_types::{Nanos, Op, Request};

fn read(offset_bytes: u64) -> Request {
    Request::new(Op::Read, offset_bytes, 4096)
}

/// A network that predicts slow if the last read took more than a millisecond.
fn network() -> Network {
    let mut weights = vec![0; 2 * DIGITS];
    weights[2 * DIGITS - 4..].copy_from_slice(&[1000, 100, 10, 1]);
    let layer = Layer { inputs: DIGITS, outputs: 2, weights, biases: vec![0, -1_000] };
    Network::from_integers(vec![layer], vec![1]).expect("within bounds")
}

/// One I/O in flight, at the replica, the in-flight tracker and the tracker.
struct Live {
    flight: Flight,
    place: Place,
    snapshot: u32,
    request: Request,
    arrived_ns: Nanos,
}

#[test]
fn a_replica_equals_its_inflight_tracker_and_its_tracker() {
    let (settings, network) = (Settings::default(), network());
    for (seed, predicted_fast) in [(1, false), (2, true), (3, true)] {
        let mut chance = Chance::new(seed);
        let mut replica = Replica::new(1_000_000, true);
        let (mut inflight, mut tracker) = (InflightTracker::new(1_000_000), Tracker::new());
        let (mut live, mut now, mut slow) = (Vec::<Live>::new(), 0, 0);
        for step in 0..4_000 {
            if predicted_fast && step == 500 {
                replica.set_network(Some(&network)).expect("31 to 2");
            }
            now += chance.below(200_000);
            // At times far more I/Os are in flight than there are places at first.
            if live.is_empty() || chance.happens(if step % 1_000 < 400 { 0.8 } else { 0.3 }) {
                let op = if chance.happens(0.7) { Op::Read } else { Op::Write };
                let request = Request { op, ..read(chance.below(1 << 20) << 12) };
                let flight = replica.arrive(&settings, now, &request, false);
                assert_eq!((flight.arrived_ns(), flight.is_probe()), (now, false));
                let (place, snapshot) = (inflight.arrive(now, &request), tracker.arrive(request.size_bytes));
                live.push(Live { flight, place, snapshot, request, arrived_ns: now });
            } else {
                let Live { flight, place, snapshot, request, arrived_ns } =
                    live.swap_remove(chance.below(live.len() as u64) as usize);
                if chance.happens(0.1) {
                    replica.withdraw(&flight, now);
                    inflight.withdraw(place);
                    tracker.withdraw(request.size_bytes);
                } else {
                    assert_eq!(replica.complete(&flight, now), now - arrived_ns);
                    inflight.complete(place, now);
                    tracker.complete(request.op, request.size_bytes, now - arrived_ns, snapshot);
                }
            }
            let request = read(chance.below(1 << 20) << 12);
            for schema in Schema::ALL {
                let described = inflight.describe(schema, now, request.offset_bytes, 4096);
                assert_eq!(replica.features(schema, now, &request), Some(described));
            }
            assert_eq!((replica.in_flight() as usize, replica.pending_pages()), (live.len(), tracker.pending_pages()));
            let mut candidate = Candidate::default();
            replica.ask(4096, &mut candidate);
            let known = predicted_fast && step >= 500 && tracker.history_len() == 4;
            let digits = tracker.digits(tracker.pending_pages() + 1);
            assert_eq!((candidate.known, candidate.slow), (known, known && network.decide(&digits)));
            // A second query gets the computed or cached result of the first.
            let mut again = Candidate::default();
            replica.ask(4096, &mut again);
            assert_eq!(again, candidate);
            assert_eq!(replica.network_score(4096), known.then(|| network.score(&digits)));
            assert_eq!(replica.tracker(), tracker);
            slow += u32::from(candidate.slow);
        }
        assert!(!predicted_fast || slow > 100, "{slow} slow answers prove little");
    }
}

#[test]
fn a_replica_without_an_inflight_tracker_has_no_features() {
    let mut replica = Replica::new(0, false);
    let flight = replica.arrive(&Settings::default(), 0, &read(0), false);
    assert_eq!(replica.features(Schema::Linnet1, 5, &read(0)), None);
    assert_eq!((replica.complete(&flight, 20), replica.ewma_ns(), replica.in_flight()), (20, 20, 0));
}

#[test]
fn a_network_of_another_shape_is_refused_and_changes_nothing() {
    let layer = Layer { inputs: DIGITS, outputs: 3, weights: vec![0; 3 * DIGITS], biases: vec![0; 3] };
    let three = Network::from_integers(vec![layer], vec![1]).expect("within bounds");
    let mut replica = Replica::new(0, false);
    replica.set_network(Some(&network())).expect("31 to 2");
    assert!(replica.set_network(Some(&three)).expect_err("three outputs").to_string().contains("31 digits"));
    let settings = Settings::default();
    for now in 0..4 {
        let flight = replica.arrive(&settings, now, &read(0), false);
        replica.complete(&flight, now);
    }
    assert!(replica.network_score(4096).is_some());
    replica.set_network(None).expect("nothing to refuse");
    assert_eq!((replica.network_score(4096), replica.tracker().history_len()), (None, 4));
}

#[test]
fn pages_in_flight_are_kept_when_the_network_changes() {
    let mut replica = Replica::new(0, false);
    let flight = replica.arrive(&Settings::default(), 0, &read(0), false);
    for network in [Some(&network()), Some(&network()), None] {
        replica.set_network(network).expect("31 to 2");
        assert_eq!(replica.pending_pages(), 1);
    }
    replica.complete(&flight, 1);
    assert_eq!(replica.pending_pages(), 0);
}

#[test]
fn a_failing_replica_is_left_out_longer_each_time_and_comes_back() {
    let settings = Settings { errors_max: 2, out_ns: 100, out_ns_max: 250, ..Settings::default() };
    let mut replica = Replica::new(0, false);
    let fail = |replica: &mut Replica, now| {
        let flight = replica.arrive(&settings, now, &read(0), false);
        replica.fail(&settings, &flight, now);
        flight.is_probe()
    };
    assert!(!fail(&mut replica, 10));
    assert!(!replica.is_out(10), "one error is no reason");
    assert!(!fail(&mut replica, 20));
    assert!(replica.is_out(119) && !replica.is_out(120));
    let probe = replica.arrive(&settings, 120, &read(0), false);
    assert!(probe.is_probe() && replica.is_out(200), "one probe at a time");
    replica.fail(&settings, &probe, 130);
    assert!(replica.is_out(329) && !replica.is_out(330));
    assert!(fail(&mut replica, 330));
    assert!(replica.is_out(579) && !replica.is_out(580), "the absence is bounded");
    let flight = replica.arrive(&settings, 580, &read(0), false);
    replica.complete(&flight, 600);
    assert!(!replica.is_out(600) && !fail(&mut replica, 700));
    assert_eq!((replica.in_flight(), replica.pending_pages(), replica.ewma_ns()), (0, 0, 20));
}

#[test]
fn only_the_probe_that_fails_lengthens_the_absence() {
    let settings = Settings { errors_max: 3, out_ns: 100, out_ns_max: 10_000, ..Settings::default() };
    let mut replica = Replica::new(0, false);
    let mut flights: Vec<Flight> = (0..12).map(|_| replica.arrive(&settings, 0, &read(0), false)).collect();
    let mut fail = |replica: &mut Replica, now| replica.fail(&settings, &flights.pop().expect("one is left"), now);
    (8..=17).for_each(|now| fail(&mut replica, now));
    assert!(replica.is_out(109) && !replica.is_out(110), "since the third error");
    fail(&mut replica, 115);
    assert!(!replica.is_out(115), "a read of before says nothing new");
    let probe = replica.arrive(&settings, 120, &read(0), false);
    fail(&mut replica, 130);
    assert!(probe.is_probe() && replica.is_out(319) && !replica.is_out(320), "nor while the probe is in flight");
    replica.fail(&settings, &probe, 140);
    assert!(replica.is_out(339) && !replica.is_out(340), "twice as long");
}

#[test]
fn a_probe_of_an_earlier_absence_says_nothing_of_the_next() {
    let settings = Settings { errors_max: 1, out_ns: 100, out_ns_max: 1_000, ..Settings::default() };
    for withdrawn in [false, true] {
        let mut replica = Replica::new(0, false);
        let flights = [0, 1, 2].map(|now| replica.arrive(&settings, now, &read(0), false));
        replica.fail(&settings, &flights[0], 10);
        let probe = replica.arrive(&settings, 110, &read(0), false);
        replica.complete(&flights[1], 120);
        replica.fail(&settings, &flights[2], 130);
        if withdrawn {
            replica.withdraw(&probe, 140);
        } else {
            replica.fail(&settings, &probe, 140);
        }
        assert!(replica.is_out(229) && !replica.is_out(230), "since the error at 130");
    }
}

#[test]
fn a_read_of_before_the_absence_that_is_withdrawn_does_not_end_it() {
    let settings = Settings { errors_max: 1, out_ns: 100, out_ns_max: 1_000, ..Settings::default() };
    let mut replica = Replica::new(0, false);
    let flights = [0, 1].map(|now| replica.arrive(&settings, now, &read(0), false));
    replica.fail(&settings, &flights[1], 10);
    replica.withdraw(&flights[0], 20);
    assert!(replica.is_out(109) && !replica.is_out(110));
}

#[test]
fn a_probe_that_is_withdrawn_ends_an_absence_of_no_time_at_time_zero() {
    let settings = Settings { errors_max: 1, out_ns: 0, out_ns_max: 0, ..Settings::default() };
    let mut replica = Replica::new(0, false);
    let flight = replica.arrive(&settings, 0, &read(0), false);
    replica.fail(&settings, &flight, 0);
    let probe = replica.arrive(&settings, 0, &read(0), false);
    replica.withdraw(&probe, 0);
    assert!(probe.is_probe() && !replica.is_out(0));
}

#[test]
fn the_read_after_a_withdrawn_probe_is_the_probe_and_a_write_is_none() {
    let settings = Settings { errors_max: 1, out_ns: 100, out_ns_max: 1_000, ..Settings::default() };
    let mut replica = Replica::new(0, false);
    let flight = replica.arrive(&settings, 0, &read(0), false);
    replica.fail(&settings, &flight, 10);
    let write = replica.arrive(&settings, 110, &Request::new(Op::Write, 0, 4096), false);
    assert!(!write.is_probe() && !replica.is_out(110), "the next read is still to come");
    let probe = replica.arrive(&settings, 120, &read(0), false);
    assert!(probe.is_probe() && replica.is_out(130));
    replica.withdraw(&probe, 130);
    replica.withdraw(&write, 130);
    assert!(!replica.is_out(130));
    let probe = replica.arrive(&settings, 130, &read(0), false);
    assert!(probe.is_probe() && replica.is_out(140));
    replica.fail(&settings, &probe, 140);
    assert!(replica.is_out(339) && !replica.is_out(340), "twice as long as the last time");
}

#[test]
fn a_read_that_completes_ends_the_absence_at_once_even_at_time_zero() {
    let settings = Settings { errors_max: 1, ..Settings::default() };
    let mut replica = Replica::new(0, false);
    let flights = [0, 4096].map(|offset_bytes| replica.arrive(&settings, 0, &read(offset_bytes), false));
    replica.fail(&settings, &flights[0], 0);
    assert!(replica.is_out(0));
    replica.complete(&flights[1], 0);
    let mut candidate = Candidate::default();
    replica.describe(0, &mut candidate);
    assert!(candidate.eligible && !replica.is_out(0));
}

#[test]
fn a_write_that_completes_ends_a_row_of_errors_only_if_all_were_of_writes() {
    let settings = Settings { errors_max: 2, out_ns: 100, out_ns_max: 1_000, ..Settings::default() };
    let write = Request::new(Op::Write, 0, 4096);
    // Errors of these, and whether a write that completes clears them.
    for (failed, clears) in [([write, write], true), ([read(0), write], false), ([write, read(0)], false)] {
        let mut replica = Replica::new(0, false);
        let end = |replica: &mut Replica, now, request: &Request, well: bool| {
            let flight = replica.arrive(&settings, now, request, false);
            if well {
                replica.complete(&flight, now);
            } else {
                replica.fail(&settings, &flight, now);
            }
        };
        end(&mut replica, 10, &failed[0], false);
        end(&mut replica, 20, &write, true);
        end(&mut replica, 30, &failed[1], false);
        assert_eq!(replica.is_out(30), failed[0].op.is_read(), "a row that the write has ended, or not: {failed:?}");
        end(&mut replica, 40, &failed[1], false);
        assert!(replica.is_out(50));
        end(&mut replica, 50, &write, true);
        assert_eq!(replica.is_out(50), !clears, "{failed:?}");
        // And whether it is left out longer the next time.
        end(&mut replica, 300, &read(0), false);
        end(&mut replica, 300, &read(0), false);
        assert_eq!(replica.is_out(410), !clears, "{failed:?}");
        end(&mut replica, 600, &read(0), true);
        end(&mut replica, 610, &write, false);
        end(&mut replica, 620, &write, true);
        end(&mut replica, 630, &write, false);
        assert!(!replica.is_out(630), "what reads had failed was cleared by a read");
    }
}

#[test]
fn a_probe_that_fails_is_repeated_once_the_state_has_expired_again() {
    let settings = Settings { age_ns: 999, probe_ages: 1, errors_max: 3, ..Settings::default() };
    let mut replica = Replica::new(0, false);
    let wants_probe = |replica: &Replica, now| {
        let mut candidate = Candidate::default();
        replica.describe(now, &mut candidate);
        candidate.wants_probe(&settings, Policy::EwmaInflight, now)
    };
    let flight = replica.arrive(&settings, 0, &read(0), false);
    replica.complete(&flight, 100);
    assert!(!wants_probe(&replica, 1099) && wants_probe(&replica, 1100));
    let probe = replica.arrive(&settings, 1100, &read(0), true);
    assert!(!wants_probe(&replica, 5000), "it is in flight");
    replica.fail(&settings, &probe, 1150);
    assert_eq!(replica.learnt_ns(), 1100);
    assert!(!wants_probe(&replica, 2099) && wants_probe(&replica, 2100));
    let probe = replica.arrive(&settings, 2100, &read(0), true);
    replica.withdraw(&probe, 2150);
    assert!(!wants_probe(&replica, 3099) && wants_probe(&replica, 3100));
}

#[test]
fn the_state_of_a_replica_holds_no_prediction_of_an_earlier_read() {
    let mut replica = Replica::new(0, false);
    let flight = replica.arrive(&Settings::default(), 0, &read(0), false);
    replica.complete(&flight, 100);
    let mut candidate = Candidate { score: 7, known: true, slow: true, probing: true, ..Candidate::default() };
    replica.describe(200, &mut candidate);
    let expected =
        Candidate { ewma_ns: 100, learnt_ns: 100, score: -2 * TREE_ONE, eligible: true, ..Candidate::default() };
    assert_eq!(candidate, expected);
    replica.set_network(Some(&network())).expect("31 to 2");
    (candidate.known, candidate.slow) = (true, true);
    replica.ask(4096, &mut candidate);
    assert_eq!(candidate, expected, "its network predicts nothing before four reads");
}

#[test]
fn a_read_without_a_choice_needs_no_decision() {
    let on = Settings { policy: Policy::Best, ..Settings::default() };
    let choices = [(on, false), (Settings { policy: Policy::Baseline, ..on }, true), (Settings { on: 0, ..on }, true)];
    for (settings, of_several) in choices {
        for usable in 1..=u8::MAX {
            let single = usable.is_power_of_two();
            assert_eq!(settings.decides_nothing(usable, false), of_several || single, "{usable:b} of {settings:?}");
            assert!(!settings.decides_nothing(usable, true), "{usable:b}: whether to revoke is a decision");
        }
    }
}

/// The decision of linnos if the network of the first of two replicas predicts slow.
fn ask_slow(replica: &Replica, settings: &Settings, revokes: &mut Budget, now_ns: Nanos) -> Answer {
    let mut decision = Decision::new();
    let question = Question { now_ns, replicas: 2, usable: 1, trees: 0, networks: 3, may_revoke: true };
    decision.begin(settings, &question);
    replica.describe(now_ns, decision.describe(0));
    while let Some(Asked::Network(k)) = decision.next_to_ask(settings, revokes) {
        (decision.describe(k).known, decision.describe(k).slow) = (true, true);
    }
    decision.answer()
}

#[test]
fn knowledge_expires_with_age_or_after_many_revokes() {
    let settings = Settings {
        policy: Policy::Linnos,
        age_ns: 1000,
        revokes_in_row_max: 3,
        revokes: Rate::new(0.0, 2),
        ..Settings::default()
    };
    let (mut replica, mut revokes) = (Replica::new(0, false), Budget::default());
    let flight = replica.arrive(&settings, 400, &read(0), false);
    replica.complete(&flight, 500);
    assert_eq!(replica.learnt_ns(), 500);
    let answer = ask_slow(&replica, &settings, &mut revokes, 1499);
    assert_eq!((answer.verdict, answer.replica, answer.probe), (Verdict::Revoke, 0, false));
    let answer = ask_slow(&replica, &settings, &mut revokes, 1500);
    assert_eq!((answer.verdict, answer.probe, answer.denied), (Verdict::Submit, true, false));
    (0..3).for_each(|_| replica.note_revoke());
    assert!(ask_slow(&replica, &settings, &mut revokes, 600).probe);
    let probe = replica.arrive(&settings, 600, &read(0), true);
    assert_eq!(ask_slow(&replica, &settings, &mut revokes, 5000).verdict, Verdict::Revoke, "its probe is in flight");
    let answer = ask_slow(&replica, &settings, &mut revokes, 5000);
    assert_eq!((answer.verdict, answer.probe, answer.denied), (Verdict::Submit, false, true), "two were paid for");
    replica.complete(&probe, 5000);
    assert!(!ask_slow(&replica, &settings, &mut revokes, 5999).probe);
    assert!(ask_slow(&replica, &settings, &mut revokes, 6000).probe);
}

#[test]
fn one_read_in_fifty_is_overdue() {
    let settings = Settings::default();
    for start_ns in [1_000, 100_000, 100_000_000] {
        let mut hedging = Hedging::new(&settings, Some(start_ns));
        let mut chance = Chance::new(start_ns);
        let mut asked = 0;
        for read in 0..60_000 {
            let latency_ns = chance.exponential(200_000.0) as Nanos;
            if latency_ns > hedging.delay_ns().expect("a start") {
                hedging.ask(&settings, &[]);
                asked += u64::from(read >= 10_000);
            }
            hedging.answered(latency_ns);
        }
        assert!((900..1_100).contains(&asked), "{asked} of 50,000 from {start_ns} ns on");
    }
    assert_eq!(Hedging::new(&settings, None).delay_ns(), None);
}

#[test]
fn savings_pay_for_one_read_in_fifty_and_end() {
    let settings = Settings::default();
    let mut hedging = Hedging::new(&settings, None);
    let paid = (0..10_000).filter(|_| {
        hedging.earn(&settings);
        hedging.ask(&settings, &[])
    });
    assert_eq!(paid.count(), 200);
    (0..1_000_000).for_each(|_| hedging.earn(&settings));
    assert_eq!((0..1_000).filter(|_| hedging.ask(&settings, &[])).count(), 256);
}
