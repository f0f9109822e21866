// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests models of several devices: separate, with shared trees, and pooled.

use crate::common;

use linnet_core::Model;
use linnet_learn::{Devices, Error, InflectionOptions, LearnOptions, Learned, fit, fit_periods, without_rows};
use linnet_types::IoRecord;

fn options(devices: Devices) -> LearnOptions {
    let inflection = InflectionOptions { ios: 20_000, ..Default::default() };
    let mut options = LearnOptions { inflection, devices, ..Default::default() };
    (options.fit.train.hidden, options.fit.train.epochs) = (vec![16], 2);
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
fn periods_learn_on_one_and_test_on_the_other() {
    let ([a, b], later) = (devices(), common::busy_episodes(4_000, 3));
    for sharing in [Devices::Apart, Devices::Pooled] {
        let learned = fit_periods(&[&a, &b], &[&later, &later], &options(sharing), &mut |_| true).unwrap();
        assert_eq!(learned.len(), if sharing == Devices::Pooled { 1 } else { 2 });
        let later_rows: u64 = learned.iter().map(|one| one.rows.1).sum();
        let reads = later.iter().filter(|record| record.op.is_read()).count() as u64;
        assert!(2 * reads - later_rows < 200, "all but those without a history: {later_rows} of {}", 2 * reads);
        assert_eq!(learned.iter().map(|one| one.trees.rows).sum::<u64>(), 2 * reads);
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
