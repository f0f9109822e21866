// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::boost::{BoostOptions, fit_trees};
use linnet_core::INFLIGHT_FEATURES;
use linnet_sim::Chance;

/// Reads are slow with feature 3, and slower the higher feature 7 is; fast reads take 80 to 120 us.
fn rows(count: u64, seed: u64) -> InflightSet {
    let mut chance = Chance::new(seed);
    let mut set = InflightSet::default();
    for row in 0..count {
        let features: [u8; INFLIGHT_FEATURES] = std::array::from_fn(|_| chance.below(64) as u8);
        let slow = chance.happens(if features[3] > 40 { 0.8 } else { 0.05 });
        let longest = if slow { 1_000_000 * (1 + u64::from(features[7])) } else { 40_000 };
        set.features.push(features);
        set.slow.push(slow);
        set.latency_ns.push(if slow { 1_000_000 } else { 80_000 } + chance.below(longest));
        set.arrive_ns.push(row);
    }
    set
}

fn fitted(set: &InflightSet) -> (Trees, Latencies) {
    let trees = fit_trees(set, &BoostOptions::default()).unwrap();
    let latencies = fit_latencies(&trees, set).unwrap();
    (trees, latencies)
}

#[test]
fn quantiles_hold_on_rows_that_were_not_seen() {
    let (trees, latencies) = fitted(&rows(30_000, 1));
    assert_eq!(latencies.feature(), 7);
    for told in evaluate_latencies(&trees, &latencies, &rows(30_000, 2)).unwrap() {
        assert!((told.covered - told.share).abs() < 0.02, "{told:?}");
        assert!(told.loss_ns < told.one_number_loss_ns, "{told:?}");
    }
}

#[test]
fn every_size_of_set_gives_a_table() {
    for count in [1, 2, 7, 199, 200, 500] {
        let set = rows(count, 3);
        let (trees, latencies) = fitted(&set);
        assert_eq!(fitted(&set), (trees, latencies));
        let most = set.latency_ns.iter().max().unwrap();
        // Too few rows for a high quantile: the highest latency is used.
        assert_eq!(u64::from(latencies.predict(i32::MAX, &[63; INFLIGHT_FEATURES])[4]), *most, "{count}");
        for told in evaluate_latencies(&trees, &latencies, &set).unwrap() {
            assert!(told.covered >= told.share - 0.15, "{count}: {told:?}");
        }
    }
    let none = InflightSet::default();
    let (trees, latencies) = fitted(&rows(10, 3));
    assert!(fit_latencies(&trees, &none).is_err() && evaluate_latencies(&trees, &latencies, &none).is_err());
}

#[test]
fn one_latency_for_all_is_predicted_exactly() {
    let mut set = rows(1_000, 4);
    set.latency_ns.fill(123_456);
    let (trees, latencies) = fitted(&set);
    for told in evaluate_latencies(&trees, &latencies, &set).unwrap() {
        assert_eq!((told.covered, told.loss_ns, told.one_number_loss_ns), (1.0, 0.0, 0.0));
        assert!(told.loss_ns.is_sign_positive() && told.one_number_loss_ns.is_sign_positive(), "no -0: {told:?}");
    }
    // Latencies above the maximum of the format are predicted as that maximum, which covers everything.
    set.latency_ns.fill(u64::MAX);
    let (trees, latencies) = fitted(&set);
    assert_eq!(latencies.predict(0, &[0; INFLIGHT_FEATURES]), &[u32::MAX; 5]);
    assert!(evaluate_latencies(&trees, &latencies, &set).unwrap().iter().all(|told| told.covered == 1.0));
}

#[test]
fn edges_cut_into_equal_parts() {
    let sorted: Vec<i32> = (1..=160).collect();
    let found: [i32; 15] = edges(&sorted, i32::MAX);
    assert_eq!(found, std::array::from_fn(|i| 10 * (i as i32 + 1)));
    assert_eq!([bounds(&sorted, &found, 0), bounds(&sorted, &found, 15)], [(0, 10), (150, 160)]);
    assert_eq!(edges::<_, 3>(&[5, 5, 5, 9], 63), [5, 63, 63]);
    assert_eq!(widen((0, 2), 5, 100), 0..5);
    assert_eq!(widen((50, 52), 10, 100), 46..56);
    assert_eq!(widen((99, 100), 10, 100), 90..100);
    assert_eq!(widen((3, 3), 10, 4), 0..4);
}

#[test]
fn falls_are_levelled_by_weight() {
    let mut values: [f64; SCORE_BINS] = std::array::from_fn(|i| i as f64);
    (values[4], values[5]) = (9.0, 3.0);
    let mut weights = [1.0; SCORE_BINS];
    weights[5] = 2.0;
    let risen = rise(&values, &weights);
    assert_eq!(&risen[3..8], &[3.0, 5.0, 5.0, 6.0, 7.0]);
    assert!(risen.is_sorted());
}
