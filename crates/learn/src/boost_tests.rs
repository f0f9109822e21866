// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::trees::{Periods, learn_trees, learn_trees_shared, score_of_rate};

/// Rows whose odds of being slow depend on two features together, and on a third alone.
fn rows(count: u64, seed: u64) -> InflightSet {
    let mut chance = Chance::new(seed);
    let mut set = InflightSet::default();
    for row in 0..count {
        let features: [u8; INFLIGHT_FEATURES] = std::array::from_fn(|_| chance.below(64) as u8);
        let odds = match (features[3] > 40, features[7] > 20, features[11] > 50) {
            (true, true, _) => 0.9,
            (_, _, true) => 0.6,
            _ => 0.1,
        };
        set.features.push(features);
        set.slow.push(chance.happens(odds));
        set.latency_ns.push(row);
        set.arrive_ns.push(row);
    }
    set
}

#[test]
fn finds_what_made_the_reads_slow() {
    let trees = fit_trees(&rows(6_000, 1), &BoostOptions::default()).unwrap();
    let later = rows(6_000, 2);
    let evaluated = evaluate_trees(&trees, &later).unwrap();
    // The accuracy of known odds is the limit.
    let best: Vec<i64> = later
        .features
        .iter()
        .map(|row| {
            if row[3] > 40 && row[7] > 20 {
                9
            } else if row[11] > 50 {
                6
            } else {
                1
            }
        })
        .collect();
    let best = roc_auc_integers(&best, &later.slow).unwrap();
    assert!(best - evaluated.roc_auc.unwrap() < 0.02, "{:?} of {best}", evaluated.roc_auc);
    assert!(evaluated.accuracy > evaluated.base_rate + 0.1);
    // The scores are log-odds: their mean probability is the share of slow reads.
    let odds: Vec<f64> =
        later.features.iter().map(|row| logistic(f64::from(trees.score(row)) / f64::from(TREE_ONE))).collect();
    let mean = odds.iter().sum::<f64>() / odds.len() as f64;
    assert!((mean - (1.0 - evaluated.base_rate)).abs() < 0.02, "{mean} of {}", 1.0 - evaluated.base_rate);
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_rate_of_false_revokes_is_had_on_later_rows() {
    let devices = [1, 2].map(|seed| Periods { train: rows(8_000, seed), test: rows(8_000, seed + 10) });
    let plain = learn_trees_shared(&devices, &BoostOptions::default()).unwrap();
    for asked in [0.02, 0.1] {
        let options = BoostOptions { false_revoke: Some(asked), ..BoostOptions::default() };
        let made = learn_trees_shared(&devices, &options).unwrap();
        for own in &made {
            let had = own.test.false_revoke;
            assert!((0.5 * asked..1.5 * asked).contains(&had), "asked {asked}, had {had}");
            assert_eq!(own.trees.with_slow_score(0), plain[0].trees, "the trees are the same");
        }
        // One device has the rows of its own.
        let above = score_of_rate(&devices[..1], &options).unwrap();
        let own = learn_trees(&devices[0], above, &options).unwrap();
        assert!((0.5 * asked..1.5 * asked).contains(&own.test.false_revoke), "{:?}", own.test);
    }
    let few = [Periods { train: rows(100, 3), test: rows(100, 4) }];
    let options = BoostOptions { false_revoke: Some(0.01), ..BoostOptions::default() };
    let refused = score_of_rate(&few, &options).unwrap_err().to_string();
    assert!(refused.contains("25") && refused.contains("100"), "{refused}");
}

#[test]
fn same_rows_and_seed_same_trees() {
    let set = rows(500, 3);
    let fit = |seed| fit_trees(&set, &BoostOptions { seed, ..BoostOptions::default() }).unwrap();
    assert_eq!(fit(1), fit(1));
    assert_ne!(fit(1), fit(2));
}

#[test]
fn rows_of_one_kind_give_a_score_and_no_more() {
    let mut set = rows(300, 4);
    set.slow.fill(false);
    let trees = fit_trees(&set, &BoostOptions::default()).unwrap();
    let scores: Vec<i32> = set.features.iter().map(|row| trees.score(row)).collect();
    assert!(scores.iter().all(|&score| score == scores[0] && score < -6 * TREE_ONE), "{}", scores[0]);
    set.slow.fill(true);
    let trees = fit_trees(&set, &BoostOptions::default()).unwrap();
    assert!(trees.score(&set.features[0]) > 6 * TREE_ONE);
}

#[test]
fn settings_out_of_range_and_empty_sets_are_refused() {
    let set = rows(10, 5);
    let wrong = [
        BoostOptions { trees: 65, ..BoostOptions::default() },
        BoostOptions { rate: f64::NAN, ..BoostOptions::default() },
        BoostOptions { ridge: -1.0, ..BoostOptions::default() },
        BoostOptions { feature_share: 1.5, ..BoostOptions::default() },
        BoostOptions { rows_max: 0, ..BoostOptions::default() },
    ];
    for options in wrong {
        assert!(matches!(fit_trees(&set, &options), Err(Error::Setting { .. })), "{options:?}");
    }
    let empty = InflightSet::default();
    assert!(matches!(fit_trees(&empty, &BoostOptions::default()), Err(Error::TooFewRows { .. })));
}

#[test]
fn basic_operations_are_close_enough() {
    for x in [-40.0, -3.7, -0.01, 0.0, 0.5, 1.0, 12.3, 40.0f64] {
        assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12, "{x}");
    }
    for share in [0.001, 0.03, 0.5, 0.77, 0.999f64] {
        assert!((log_odds(share) - (share / (1.0 - share)).ln()).abs() < 1e-9, "{share}");
    }
}
