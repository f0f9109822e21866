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
