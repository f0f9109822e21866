// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the three schemas describe the same reads, and that each defect has only its intended effect.

use super::*;
use linnet_types::Op;

/// A device that is slow for 20 of every 100 ms; one I/O in four is a write.
fn busy(count: usize, seed: u64) -> Vec<IoRecord> {
    let mut chance = Chance::new(seed);
    let mut now = 0.0;
    let mut record = || {
        now += chance.exponential(150_000.0);
        let arrive_ns = now as Nanos;
        let slow = arrive_ns % 100_000_000 < 20_000_000;
        let latency_ns = if slow { 2_000_000 + chance.below(1_000_000) } else { 80_000 + chance.below(60_000) };
        let op = if chance.happens(0.25) { Op::Write } else { Op::Read };
        let size_bytes = 4096 * (1 + chance.below(4) as u32);
        IoRecord { latency_ns: Some(latency_ns), ..IoRecord::new(arrive_ns, op, 0, size_bytes) }
    };
    (0..count).map(|_| record()).collect()
}

fn study(defects: &[&str]) -> Study {
    let options = StudyOptions {
        inflection: InflectionOptions { ios: 50_000, ..InflectionOptions::default() },
        defects: Defects::parse(defects.iter().copied()).unwrap(),
        ..StudyOptions::default()
    };
    Study::of_trace(&busy(16_000, 1), 0.5, options).unwrap()
}

#[test]
fn every_schema_describes_the_same_reads() {
    let study = study(&[]);
    for rows in [&study.train, &study.test] {
        assert_eq!(rows.linnos.latency_ns, rows.linnet.latency_ns);
        assert_eq!(rows.linnos.slow, rows.linnet.slow);
        let paced: Vec<Nanos> = rows.heimdall.paced.iter().map(|read| read.latency_ns).collect();
        assert_eq!(paced, rows.linnos.latency_ns);
        assert_eq!((rows.in_period.len(), rows.noise.len()), (paced.len(), paced.len()));
    }
    assert!(study.train.linnos.arrive_ns.last() <= study.test.linnos.arrive_ns.first());
    assert!(study.train.linnos.len().abs_diff(study.test.linnos.len()) <= 1);
}

#[test]
fn all_models_learn_busy_episodes() {
    let study = study(&[]);
    let heimdall = study.heimdall(1, &mut || true).unwrap();
    let cutoff = study.heimdall_by_cutoff(&mut || true).unwrap();
    for evaluated in
        [study.linnos(&mut || true).unwrap(), study.linnet().unwrap(), heimdall.shared, heimdall.own, cutoff]
    {
        assert!(evaluated.roc_auc.unwrap() > 0.9, "{evaluated:?}");
        assert!(evaluated.accuracy > evaluated.base_rate);
        assert_eq!(evaluated.rows as usize, study.test.linnos.len());
    }
    let grouped = study.heimdall(9, &mut || true).unwrap();
    assert!(grouped.shared.roc_auc < heimdall.shared.roc_auc);
    assert!(grouped.rows < heimdall.rows / 8);
}

#[test]
fn periods_learn_on_one_and_test_on_the_other() {
    let options = StudyOptions {
        inflection: InflectionOptions { ios: 50_000, ..InflectionOptions::default() },
        ..StudyOptions::default()
    };
    let (first, second) = (busy(8000, 2), busy(8000, 3));
    let study = Study::of_periods(&first, &second, options.clone()).unwrap();
    assert!(study.linnet().unwrap().roc_auc.unwrap() > 0.9);
    let defects = Defects { random_split: true, ..Defects::default() };
    let refused = Study::of_periods(&first, &second, StudyOptions { defects, ..options });
    assert!(matches!(refused, Err(Error::Setting { name: "defect", .. })));
}

#[test]
fn defects_of_the_split() {
    let (fair, shuffled) = (study(&[]), study(&["random-split"]));
    assert!(shuffled.train.linnos.arrive_ns.last() > shuffled.test.linnos.arrive_ns.first());
    assert_eq!(shuffled.test.linnos.len(), fair.test.linnos.len());
    let mut all: Vec<Nanos> =
        [&shuffled.train, &shuffled.test].iter().flat_map(|rows| rows.linnos.arrive_ns.clone()).collect();
    all.sort_unstable();
    let expected = [fair.train.linnos.arrive_ns.clone(), fair.test.linnos.arrive_ns.clone()].concat();
    assert_eq!(all, expected);
    let over_all = study(&["threshold-over-all"]);
    assert_ne!(over_all.inflection.latency_ns, fair.inflection.latency_ns);
}

#[test]
fn defects_of_serving_change_what_is_tested_and_not_what_is_learned() {
    let fair = study(&[]);
    for name in ["serving-reads-only", "snapshot-at-completion", "serving-without-self"] {
        let study = study(&[name]);
        assert_eq!(study.train.linnos, fair.train.linnos, "{name}");
        assert_ne!(study.test.linnos.digits, fair.test.linnos.digits, "{name}");
        assert_eq!(study.test.linnos.slow, fair.test.linnos.slow, "{name}");
        assert_eq!(study.test.linnet, fair.test.linnet, "{name}");
    }
    let coarse = study(&["millisecond-times"]);
    assert_ne!(coarse.train.linnos.digits, fair.train.linnos.digits);
    assert_eq!(coarse.test.linnos.digits, fair.test.linnos.digits);
}

#[test]
fn defects_of_heimdall() {
    let fair = study(&[]);
    for name in ["look-ahead", "queue-by-submit"] {
        let study = study(&[name]);
        assert_ne!(study.test.heimdall.features, fair.test.heimdall.features, "{name}");
        assert_eq!(study.test.linnos, fair.test.linnos, "{name}");
    }
    let filtered = study(&["test-filtered"]).heimdall(1, &mut || true).unwrap();
    let honest = fair.heimdall(1, &mut || true).unwrap();
    assert!(filtered.own.rows < honest.own.rows);
    assert!(filtered.own.accuracy >= honest.own.accuracy);
    let hard = study(&["hard-auc"]).heimdall(1, &mut || true).unwrap();
    assert_eq!(hard.own.roc_auc, Some(honest.own.balanced_accuracy));
}
