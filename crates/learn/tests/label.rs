// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that labels come from the training part alone.

use linnet_learn::{Error, InflectionOptions, TrainingSet, inflection_point, label, last_rows, training_latencies};
use linnet_sim::Chance;
use linnet_types::{IoRecord, Nanos, Op};

fn reads(latencies: impl Iterator<Item = Nanos>) -> Vec<IoRecord> {
    latencies
        .enumerate()
        .map(|(i, latency_ns)| {
            let latency_ns = Some(latency_ns);
            IoRecord { latency_ns, ..IoRecord::new(i as u64 * 10_000_000, Op::Read, 0, 4096) }
        })
        .collect()
}

fn options() -> InflectionOptions {
    InflectionOptions { ios: 10_000, ..Default::default() }
}

fn bimodal(seed: u64) -> Vec<IoRecord> {
    let mut chance = Chance::new(seed);
    reads((0..1004).map(|_| {
        let behind = if chance.happens(0.1) { 3_000_000 } else { 0 };
        90_000 + chance.below(20_000) + behind
    }))
}

#[test]
fn the_test_part_has_no_say() {
    let records = bimodal(1);
    let mut other_future = records.clone();
    for record in &mut other_future[504..] {
        record.latency_ns = record.latency_ns.map(|latency_ns| latency_ns * 50);
    }
    let [a, b] = [&records, &other_future].map(|r| label(&[r], 0.5, &options()).unwrap().remove(0));
    assert_eq!(a.inflection, b.inflection);
    assert_eq!(a.train, b.train);
    assert_eq!((a.train.len(), a.test.len()), (500, 500));
    assert!(b.test.slow.iter().all(|&slow| slow), "all of the other future is above the threshold of the past");
    let share = a.test.slow.iter().filter(|&&slow| slow).count() as f64 / 500.0;
    assert!((0.05..0.2).contains(&share), "{share}");
}

#[test]
fn the_parts_are_the_set_with_its_labels() {
    let records = bimodal(2);
    let labelled = label(&[&records], 0.8, &options()).unwrap().remove(0);
    let whole = TrainingSet::from_records(&records, labelled.inflection.latency_ns).unwrap();
    assert_eq!((labelled.train, labelled.test), whole.split_at_share(0.8));
}

#[test]
fn the_latencies_of_the_training_part_give_its_point() {
    let records = bimodal(3);
    let labelled = label(&[&records], 0.7, &options()).unwrap().remove(0);
    let latency_ns = training_latencies(&records, 0.7).unwrap();
    assert_eq!(latency_ns, labelled.train.latency_ns);
    assert_eq!(inflection_point(&[&latency_ns], 0, &options()).unwrap(), labelled.inflection);
    assert!(matches!(training_latencies(&records, 1.0), Err(Error::Setting { .. })));
    assert!(matches!(training_latencies(&records[..5], 0.5), Err(Error::TooFewRows { .. })));
}

#[test]
fn a_model_is_tested_on_what_the_fit_held_out() {
    // 19 reads give 15 rows: half rows at the cut, where shares that are a little off differ.
    let records = &bimodal(3)[..19];
    let whole = TrainingSet::from_records(records, 100_000).unwrap();
    assert_eq!(last_rows(records, 1.0, 100_000).unwrap(), whole);
    for percent in 5..=95 {
        let train_share = f64::from(percent) / 100.0;
        let held_out = whole.split_at_share(train_share).1;
        for test_share in [1.0 - train_share, f64::from(100 - percent) / 100.0] {
            assert_eq!(last_rows(records, test_share, 100_000).unwrap(), held_out, "{percent} %");
        }
    }
    assert!(matches!(last_rows(records, 0.01, 0), Err(Error::TooFewRows { purpose: "testing", .. })));
    assert!(matches!(last_rows(records, 0.0, 0), Err(Error::Setting { name: "test_share", .. })));
}

#[test]
fn reads_that_all_arrive_at_one_time_have_no_history() {
    let mut records = bimodal(3);
    records.iter_mut().for_each(|record| record.arrive_ns = 0);
    let refused = label(&[&records], 0.5, &options()).unwrap_err().to_string();
    assert!(refused.contains("none of 1004 reads arrives after 4 of them are complete"), "{refused}");
    // As many reads as a history has are a short trace.
    assert!(matches!(training_latencies(&records[..4], 0.5), Err(Error::TooFewRows { .. })));
}

#[test]
fn each_device_has_its_own_threshold() {
    let fast = bimodal(3);
    let mut slow = bimodal(4);
    for record in &mut slow {
        record.latency_ns = record.latency_ns.map(|latency_ns| latency_ns * 4);
    }
    let labelled = label(&[&fast, &slow, &fast], 0.5, &options()).unwrap();
    assert!(labelled[1].inflection.latency_ns > 3 * labelled[0].inflection.latency_ns);
    assert_eq!(labelled[0].train, labelled[2].train);
}

#[test]
fn bad_input_names_the_device_and_the_reason() {
    let good = bimodal(5);
    let short = reads((0..3).map(|_| 1));
    let none: Vec<IoRecord> = good.iter().map(|r| IoRecord { latency_ns: None, ..*r }).collect();
    let message = |devices: &[&[IoRecord]], share| label(devices, share, &options()).unwrap_err().to_string();
    assert!(message(&[], 0.5).contains("no device"));
    assert!(message(&[&good], 0.0).contains("train_share is 0"));
    assert!(message(&[&good], f64::NAN).contains("train_share"));
    assert!(message(&[&good, &short], 0.5).contains("device 1: 0 rows for training"));
    assert!(message(&[&none], 0.5).contains("device 0: none of 1004 records"));
    assert!(matches!(label(&[&none], 0.5, &options()), Err(Error::Device { device: 0, .. })));
}
