// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests models of several devices: separate, with shared trees, and pooled.

use crate::common;

use linnet_core::Model;
use linnet_learn::{
    Devices, Error, InflectionOptions, LearnOptions, Learned, SlowAbove, fit, fit_periods, without_rows,
};
use linnet_types::IoRecord;

fn options(devices: Devices) -> LearnOptions {
    let inflection = InflectionOptions { ios: 20_000, ..Default::default() };
    let mut options = LearnOptions { inflection, devices, ..Default::default() };
    (options.fit.train.hidden, options.fit.train.epochs) = (vec![16], 2);
    // Of few rows, most are needed to learn from.
    options.train_share = 0.8;
    options
}

fn devices() -> [Vec<IoRecord>; 2] {
    [1, 2].map(|seed| common::busy_episodes(6_000, seed))
}

fn fit_all(sharing: Devices) -> Vec<Learned> {
    let [a, b] = devices();
    fit(&[&a, &b], &options(sharing), &mut |_| true).unwrap()
}

/// Trees and quantiles as bytes of a file.
fn trees(model: &Model) -> Vec<u8> {
    Model { network: None, ..model.clone() }.to_bytes().unwrap()
}

#[test]
fn every_model_is_whole_and_survives_its_file() {
    for sharing in [Devices::Apart, Devices::SharedTrees, Devices::Pooled] {
        for one in fit_all(sharing) {
            let bytes = one.model.to_bytes().unwrap();
            let read = Model::from_bytes(&bytes).unwrap();
            assert!(
                read.network.is_some() && read.trees.is_some() && read.predictions.latencies.is_some(),
                "{sharing:?}"
            );
            assert_eq!(read.to_bytes().unwrap(), bytes);
            assert!(one.trees.roc_auc.unwrap() > 0.9, "{sharing:?} {:?}", one.trees);
            let told = one.predicted.latencies.unwrap();
            assert!(told.iter().all(|told| told.covered > 0.0), "{told:?}");
        }
    }
}

#[test]
fn devices_share_what_was_asked_for() {
    let apart = fit_all(Devices::Apart);
    assert_ne!(apart[0].model.trees, apart[1].model.trees);
    let shared = fit_all(Devices::SharedTrees);
    assert_eq!(shared[0].model.trees, shared[1].model.trees);
    assert_eq!(shared[0].model.predictions, shared[1].model.predictions);
    for (apart, shared) in apart.iter().zip(&shared) {
        assert_eq!(apart.model.network, shared.model.network);
        assert_eq!(apart.inflection, shared.inflection);
    }
    let pooled = fit_all(Devices::Pooled);
    assert_eq!(pooled.len(), 1);
    assert_eq!(pooled[0].rows.0, apart[0].rows.0 + apart[1].rows.0);
    assert_ne!(trees(&pooled[0].model), trees(&shared[0].model));
}

#[test]
fn trees_of_different_devices_can_predict_one_event() {
    let [fast, slow] = devices();
    let slow: Vec<IoRecord> = slow
        .into_iter()
        .map(|record| IoRecord {
            latency_ns: record.latency_ns.map(|ns| 8 * ns),
            arrive_ns: 8 * record.arrive_ns,
            ..record
        })
        .collect();
    let fit_with = |devices: &[&[IoRecord]], slow_above| {
        fit(devices, &LearnOptions { slow_above, ..options(Devices::Apart) }, &mut |_| true).unwrap()
    };
    let own = fit_with(&[&fast, &slow], SlowAbove::Inflection);
    let points = [0, 1].map(|device: usize| own[device].inflection.latency_ns);
    assert_eq!([own[0].slow_above_ns, own[1].slow_above_ns], points);
    let alike = fit_with(&[&fast, &slow], SlowAbove::MeanInflection);
    let mean = (points[0] as f64 * points[1] as f64).sqrt().round() as u64;
    for (device, (alike, own)) in alike.iter().zip(&own).enumerate() {
        assert_eq!(alike.slow_above_ns, mean);
        assert_eq!((&alike.model.network, alike.model.thresholds), (&own.model.network, own.model.thresholds));
        assert_ne!(alike.model.trees, own.model.trees);
        let alone = fit_with(&[[&fast, &slow][device]], SlowAbove::Latency(mean)).remove(0);
        assert_eq!((alone.slow_above_ns, alone.trees.base_rate), (mean, alike.trees.base_rate), "fitted alone");
    }
    // What few reads of the one exceed, most of the other do.
    let slow_shares = |found: &[Learned]| [0, 1].map(|device: usize| 1.0 - found[device].trees.base_rate);
    let (own, alike) = (slow_shares(&own), slow_shares(&alike));
    assert!(alike[0] <= own[0] && alike[1] > own[1] && alike[1] > 0.9, "{own:?} {alike:?}");
}

#[test]
fn periods_learn_on_one_and_test_on_the_other() {
    let ([a, b], later) = (devices(), common::busy_episodes(4_000, 3));
    for sharing in [Devices::Apart, Devices::Pooled] {
        let learned = fit_periods(&[&a, &b], &[&later, &later], &options(sharing), &mut |_| true).unwrap();
        assert_eq!(learned.len(), if sharing == Devices::Pooled { 1 } else { 2 });
        let later_rows: u64 = learned.iter().map(|one| one.rows.1).sum();
        let reads = later.iter().filter(|record| record.op.is_read()).count() as u64;
        assert!(2 * reads - later_rows < 200, "all but those without a history: {later_rows} of {}", 2 * reads);
        assert!(learned.iter().all(|one| one.trees.rows == one.rows.1), "trees are tested on the reads of the network");
    }
    let uneven = fit_periods(&[&a, &b], &[&later], &options(Devices::Apart), &mut |_| true);
    assert!(matches!(uneven, Err(Error::Setting { name: "test", .. })));
    assert!(matches!(fit(&[], &options(Devices::Pooled), &mut |_| true), Err(Error::NoDevice)));
}

#[test]
fn devices_without_reads_in_a_period_are_named() {
    let [a, b] = devices();
    let writes: Vec<_> = a.iter().filter(|record| !record.op.is_read()).copied().collect();
    let few = &b[..4];
    assert_eq!(without_rows(&[&a, &b], &[&b, &a]), [0usize; 0]);
    assert_eq!(without_rows(&[&a, &writes, few], &[&b, &a, &a]), [1, 2]);
    assert_eq!(without_rows(&[&a, &b, &a], &[&[], &b, &writes]), [0, 2]);
}
