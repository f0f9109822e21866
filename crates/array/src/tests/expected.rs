// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests linnet-expected where odds and expected latencies disagree.

use super::*;
use linnet_core::{TREE_ONE, Trees};
use linnet_types::{IoRecord, Thresholds};

fn reads(count: u64) -> Vec<IoRecord> {
    (0..count).map(|i| IoRecord::new(i * 3_000_000, Op::Read, i * 1_048_576, 4096)).collect()
}

/// A device whose trees always give this score.
fn model(inflection_ns: Nanos, score: i32) -> DeviceModel {
    DeviceModel {
        thresholds: Thresholds { inflection_ns, ..test_thresholds() },
        trees: Trees::new(&[], score).ok(),
        ..DeviceModel::default()
    }
}

#[test]
fn a_fast_drive_that_is_slow_for_itself_is_preferred_to_a_slow_one_that_is_fast_for_itself() {
    let devices = || vec![steady(300_000, 4), steady(80_000, 4)];
    let learned = [model(1_000_000, -2 * TREE_ONE), model(60_000, 3 * TREE_ONE)];
    let expected = counts(&run_named("linnet-expected", &mut devices(), &reads(200), &learned));
    assert!(expected[0] < 10, "{expected:?}");
    let by_odds = counts(&run_named("linnet-best", &mut devices(), &reads(200), &learned));
    assert!(by_odds[1] < 10, "{by_odds:?}");
}

#[test]
fn equal_drives_are_told_apart_by_their_trees() {
    let devices = || vec![steady(80_000, 4), steady(80_000, 4), steady(80_000, 4)];
    let learned = [3 * TREE_ONE, 0, 0].map(|score| model(150_000, score));
    let counts = counts(&run_named("linnet-expected", &mut devices(), &reads(200), &learned));
    // The trees of a drive count once it has answered eight reads.
    assert_eq!(counts[0], 8, "{counts:?}");
}

#[test]
fn while_a_device_has_no_trees_the_averages_decide() {
    let devices = || vec![steady(80_000, 4), steady(80_000, 4), steady(80_000, 4)];
    let mut learned = [3 * TREE_ONE, 3 * TREE_ONE, 0].map(|score| model(150_000, score));
    learned[2].trees = None;
    let counts = counts(&run_named("linnet-expected", &mut devices(), &reads(200), &learned));
    assert!(counts[0] > 190, "{counts:?}");
}

const US: Nanos = 1_000;

/// Which of two devices gets a read: the first, whose reads of 1 ms are slow, took these times and has slow odds of one
/// to one, or the second, whose reads of 20 ms are slow, took this time and has next to none.
fn chosen(latencies_ns: &[Nanos], in_flight: u32, other_ns: Nanos) -> usize {
    let mut policy = Alone::new("linnet-expected", &[model(1_000 * US, 0), model(20_000 * US, -9 * TREE_ONE)]);
    latencies_ns.iter().for_each(|&ns| policy.completed(0, 0, ns, 0));
    (0..8).for_each(|_| policy.completed(0, 1, other_ns, 0));
    policy.sends(0, &[in_flight, 0])
}

#[test]
fn the_wait_is_that_of_fast_and_slow_reads_by_their_odds_times_the_root_of_the_queue() {
    // Slow reads count as 2 ms before there is one: (100 + 2,000) / 2 us. Three others in flight double it.
    assert_eq!([1_040, 1_060].map(|us| chosen(&[100 * US; 8], 0, us * US)), [1, 0]);
    assert_eq!([2_080, 2_120].map(|us| chosen(&[100 * US; 8], 3, us * US)), [1, 0]);
    // One read of 8.4 ms moves the 2,000 us by a 64th of the difference, 100 us; one of 900 us the 100 us by 12.5 us.
    let slow = [[100 * US; 8].as_slice(), &[8_400 * US; 1]].concat();
    assert_eq!([1_090, 1_110].map(|us| chosen(&slow, 0, us * US)), [1, 0]);
    let moved = [[100 * US; 8].as_slice(), &[900 * US; 16]].concat();
    // 16 of them leave (63 / 64)^16 = 0.777 of the difference of 800 us.
    assert_eq!([1_125, 1_150].map(|us| chosen(&moved, 0, us * US)), [1, 0]);
    // Where the first read is slow, fast ones count as half of the inflection point.
    let slow_first = [[2_000 * US].as_slice(), &[500 * US; 7]].concat();
    assert_eq!([1_235, 1_265].map(|us| chosen(&slow_first, 0, us * US)), [1, 0]);
    // With few reads, or without an inflection point, the averages of the array count, which know nothing here.
    assert_eq!(chosen(&[100 * US; 7], 0, 50 * US), 0);
    let mut policy = Alone::new("linnet-expected", &[model(0, 0), model(20_000 * US, -9 * TREE_ONE)]);
    (0..64).for_each(|_| policy.completed(0, 0, 100 * US, 0));
    (0..8).for_each(|_| policy.completed(0, 1, US, 0));
    assert_eq!(policy.sends(0, &[0, 0]), 0);
    // Writes are not counted.
    let mut policy = Alone::new("linnet-expected", &[model(1_000 * US, 0), model(20_000 * US, -9 * TREE_ONE)]);
    (0..8).for_each(|_| policy.policy.completed(&Completion { op: Op::Write, ..answer(0, 0, 100 * US, 0) }));
    (0..8).for_each(|_| policy.completed(0, 1, 50 * US, 0));
    assert_eq!(policy.sends(0, &[0, 0]), 0);
}

#[test]
fn a_score_below_even_odds_promises_a_fast_read() {
    for (score, promised) in [(-1, true), (0, false), (1, false)] {
        let mut policy = Alone::new("linnet-expected", &[model(1_000 * US, score)]);
        (0..8).for_each(|_| policy.completed(0, 0, 100 * US, 0));
        let Choice::Submit(submit) = policy.choose(0, &mut Scene::new(&[0])) else { panic!("it revokes nothing") };
        assert_eq!((submit.predicted_fast, submit.probe), (promised, false));
    }
}

#[test]
fn an_idle_device_that_was_unread_for_a_second_is_probed_if_there_is_another() {
    let mut policy = Alone::new("linnet-expected", &[model(1_000 * US, -1), model(1_000 * US, -1)]);
    (0..8).for_each(|_| [0, 1].into_iter().for_each(|device| policy.completed(0, device, 100 * US, 0)));
    let mut asked = |now_ns, in_flight: &[u32], candidates| {
        let scene = Scene::new(in_flight);
        match policy.policy.choose(&scene.ask(now_ns, candidates), &mut policy.chance, &mut Budget::default()) {
            Choice::Submit(submit) => (submit.replica, submit.probe, submit.predicted_fast),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(asked(900_000_000, &[0, 0], 3), (0, false, true));
    assert_eq!(asked(1_100_000_000, &[0, 1], 3), (0, true, false));
    assert_eq!(asked(1_100_000_000, &[1, 0], 3), (1, true, false));
    assert_eq!(asked(1_100_000_000, &[0, 0], 2), (1, false, true), "it is the only one");
}

#[test]
fn odds_between_yes_and_no_count_in_proportion() {
    // The first is fast at 80 us and slow at 2 ms and more, and slow in 27 of 100: 600 us. The second takes 300 us and is
    // slow in 5 of 100: 400 us.
    let devices = || vec![steady(80_000, 4), steady(300_000, 4)];
    let learned = [model(1_000_000, -TREE_ONE), model(1_000_000, -3 * TREE_ONE)];
    let counts = counts(&run_named("linnet-expected", &mut devices(), &reads(200), &learned));
    assert!(counts[0] < 12, "{counts:?}");
}

#[test]
fn without_trees_it_is_ewma_hedged() {
    let devices = || vec![steady(2_000_000, 4), steady(80_000, 4), steady(90_000, 4)];
    let learned = learned(&[None, None, None]);
    let records: Vec<IoRecord> = (0..500).map(|i| IoRecord::new(i * 40_000, Op::Read, i * 1_048_576, 4096)).collect();
    let ours = run_named("linnet-expected", &mut devices(), &records, &learned);
    let rival = run_named("ewma-hedged", &mut devices(), &records, &learned);
    assert_eq!(ours.log, rival.log);
    assert_eq!(ours.counters.extra_io, rival.counters.extra_io);
    assert!(ours.counters.extra_io > 0);
}
