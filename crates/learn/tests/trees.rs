// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares trees on in-flight features with LinnOS's network, on recordings of a real NVMe SSD: same split in time,
//! same inflection point, nothing filtered.

use crate::common;

use linnet_learn::{BoostOptions, InflightSet, LearnOptions, evaluate_trees, fit, fit_trees};

#[test]
#[ignore = "slow: make test-slow"]
fn rank_slow_reads_better_than_linnos() {
    let options = LearnOptions { train_share: 0.5, ..LearnOptions::default() };
    let mut ratios = Vec::new();
    for name in common::FLASHNET {
        let Some(records) = common::recording(name) else { return };
        let learned = fit(&[&records], &options, &mut |_| true).unwrap().remove(0);
        let set = InflightSet::from_records(&records, learned.inflection.latency_ns, Default::default()).unwrap();
        let (train, test) = set.split_at_share(0.5);
        assert_eq!(set.len(), records.iter().filter(|record| record.op.is_read()).count());
        let trees = fit_trees(&train, &BoostOptions::default()).unwrap();
        let (ours, theirs) = (evaluate_trees(&trees, &test).unwrap(), learned.biased.test);
        println!("{name}: {:?}, LinnOS {:?}", ours.roc_auc, theirs.roc_auc);
        assert!(ours.accuracy > ours.base_rate, "{name}: {ours:?}");
        ratios.push((1.0 - ours.roc_auc.unwrap()) / (1.0 - theirs.roc_auc.unwrap()));
    }
    let mean = ratios.iter().product::<f64>().powf(1.0 / ratios.len() as f64);
    assert!(mean < 0.65, "(1 - AUC) of LinnOS's: {ratios:?}");
}
