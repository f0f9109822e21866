// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the path from records to evaluated models, on synthetic devices with known behaviour and on recordings.

use crate::common;

use linnet_core::{Loss, Model};
use linnet_learn::{
    Error, FitOptions, InflectionOptions, LearnOptions, Learned, Progress, Stage, TrainingSet, evaluate, fit,
    fit_network,
};
use linnet_types::IoRecord;

fn options(epochs: usize) -> LearnOptions {
    let mut options = LearnOptions {
        inflection: InflectionOptions { ios: 100_000, ..Default::default() },
        unbiased: true,
        ..Default::default()
    };
    options.fit.train.epochs = epochs;
    options
}

fn learn_one(records: &[IoRecord], options: &LearnOptions) -> Learned {
    fit(&[records], options, &mut |_| true).unwrap().remove(0)
}

fn print(name: &str, learned: &Learned) {
    println!(
        "{name}: p{} = {} ns, rows {:?}",
        learned.inflection.percentile, learned.model.thresholds.inflection_ns, learned.rows
    );
    for evaluated in [Some(&learned.biased), learned.unbiased.as_ref()].into_iter().flatten() {
        let (t, e, q) = (&evaluated.train, &evaluated.test, &evaluated.quantisation);
        println!(
            "  train base {:.4} accuracy {:.4} auc {:?} fs {:.4}",
            t.base_rate, t.accuracy, t.roc_auc, t.false_submit
        );
        println!(
            "  test  base {:.4} accuracy {:.4} balanced {:.4} auc {:?} fs {:.4} fr {:.4}; \
             rounding {:.5} points, {:.5} changed",
            e.base_rate,
            e.accuracy,
            e.balanced_accuracy,
            e.roc_auc,
            e.false_submit,
            e.false_revoke,
            q.accuracy_points,
            q.decisions_changed
        );
    }
}

#[test]
fn busy_episodes_are_learned() {
    let learned = learn_one(&common::busy_episodes(40_000, 1), &options(3));
    print("busy episodes", &learned);
    let (biased, unbiased) = (&learned.biased, learned.unbiased.as_ref().unwrap());
    for evaluated in [biased, unbiased] {
        let test = &evaluated.test;
        assert!(test.roc_auc.unwrap() > 0.9, "{test:?}");
        assert!(test.accuracy > test.base_rate + 0.05, "{test:?}");
        assert!(evaluated.quantisation.accuracy_points.abs() < 0.1, "{:?}", evaluated.quantisation);
        assert!(evaluated.fitted.quantisation.accuracy_points.abs() < 0.1, "{:?}", evaluated.fitted.quantisation);
        assert!((evaluated.test_float.roc_auc.unwrap() - test.roc_auc.unwrap()).abs() < 0.01);
    }
    let model = &learned.model;
    assert_eq!(model.thresholds.inflection_ns, learned.inflection.latency_ns);
    assert_eq!(model.false_submit, biased.train.false_submit);
    let read = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(read.network, model.network);
    assert_eq!(read.thresholds, model.thresholds);
}

#[test]
fn network_and_trees_are_tested_on_the_same_reads() {
    // The first reads arrive before any has completed: the network has no rows of them.
    let mut records = common::busy_episodes(4_000, 1);
    let begin_ns = records[1_000].arrive_ns;
    for record in &mut records[..1_000] {
        record.latency_ns = Some(begin_ns - record.arrive_ns);
    }
    let learned = learn_one(&records, &options(1));
    assert!(learned.dropped.warm_up > 700, "{:?}", learned.dropped);
    let (network, trees) = (&learned.biased.test, &learned.trees);
    assert_eq!((trees.rows, trees.base_rate), (network.rows, network.base_rate));
    assert_eq!(learned.rows.1, network.rows);
}

#[test]
fn a_burst_across_the_split_gives_the_model_nothing_of_its_later_reads() {
    // A burst every second, as in a trace with coarse times. The network has no rows of the first, so the split cuts the
    // seventh.
    let mut records = common::busy_episodes(6_000, 1);
    for (place, record) in records.iter_mut().enumerate() {
        record.arrive_ns = 1_000_000_000 * (place as u64 / 500);
    }
    let options = LearnOptions { unbiased: false, ..options(1) };
    let one = learn_one(&records, &options);
    let test_reads = one.rows.1 as usize;
    for record in records.iter_mut().rev().filter(|record| record.op.is_read()).take(test_reads) {
        record.latency_ns = record.latency_ns.map(|latency_ns| 50 * latency_ns);
    }
    let other = learn_one(&records, &options);
    assert_ne!(one.biased.test.base_rate, other.biased.test.base_rate);
    assert_eq!(one.model.thresholds, other.model.thresholds);
    assert_eq!(one.model.to_bytes().unwrap(), other.model.to_bytes().unwrap());
}

#[test]
fn chance_is_not_learned() {
    let learned = learn_one(&common::no_pattern(20_000, 2), &options(2));
    print("no pattern", &learned);
    for evaluated in [&learned.biased, learned.unbiased.as_ref().unwrap()] {
        let auc = evaluated.test.roc_auc.unwrap();
        assert!((0.45..0.55).contains(&auc), "{auc}");
        assert!(evaluated.test.accuracy < evaluated.test.base_rate + 0.01);
    }
}

#[test]
fn the_same_seed_gives_the_same_model() {
    let records = common::busy_episodes(4_000, 3);
    let mut options = options(1);
    options.unbiased = false;
    let bytes = |options: &LearnOptions| learn_one(&records, options).model.to_bytes().unwrap();
    let first = bytes(&options);
    assert_eq!(first, bytes(&options));
    options.fit.train.seed += 1;
    assert_ne!(first, bytes(&options));
}

#[test]
fn every_epoch_of_every_device_is_told_once_and_can_interrupt() {
    let (a, b) = (common::busy_episodes(3_000, 4), common::busy_episodes(3_000, 5));
    let mut seen = Vec::new();
    let learned = fit(&[&a, &b], &options(2), &mut |progress| {
        seen.push(progress);
        true
    });
    assert_eq!(learned.unwrap().len(), 2);
    assert_eq!(seen[0], Progress { device: 0, devices: 2, stage: Stage::Label });
    let mut fits: Vec<(usize, bool, usize)> = seen
        .iter()
        .filter_map(|p| match p.stage {
            Stage::Fit { biased, epoch, epochs: 2, .. } => Some((p.device, biased, epoch)),
            _ => None,
        })
        .collect();
    // Fits run on all CPUs: their epochs interleave, each fit's own in order.
    fits.sort_by_key(|(device, biased, _)| (*device, !biased));
    let expected = [(0, true), (0, false), (1, true), (1, false)].map(|(d, b)| [(d, b, 1), (d, b, 2)]).concat();
    assert_eq!(fits, expected);
    for stop_after in 0..seen.len() {
        let mut told = 0;
        let result = fit(&[&a, &b], &options(2), &mut |_| {
            told += 1;
            told <= stop_after
        });
        assert!(matches!(result, Err(Error::Interrupted)), "after {stop_after}");
        assert_eq!(told, stop_after + 1);
    }
}

#[test]
fn thinned_fits_train_on_as_many_rows_as_allowed() {
    let set = TrainingSet::from_records(&common::busy_episodes(5_000, 6), 1_000_000).unwrap();
    let mut options = FitOptions { max_rows: Some(1_000), ..Default::default() };
    options.train.epochs = 8;
    let fitted = fit_network(&set, &options, &mut |_, _| true).unwrap();
    assert_eq!((fitted.rows, fitted.quantisation.rows, fitted.loss.len()), (1_000, 1_000, 8));
    assert!(evaluate(&fitted.network, &set).unwrap().roc_auc.unwrap() > 0.9);
}

#[test]
fn other_losses_and_shapes_are_fitted_too() {
    let set = TrainingSet::from_records(&common::busy_episodes(8_000, 9), 1_000_000).unwrap();
    let shapes: [(Loss, &[usize]); 3] =
        [(Loss::BinaryCrossEntropy, &[32]), (Loss::SoftmaxCrossEntropy, &[32, 16]), (Loss::CategoricalHinge, &[])];
    for (loss, hidden) in shapes {
        let mut options = FitOptions::default();
        (options.train.loss, options.train.hidden) = (loss, hidden.to_vec());
        let fitted = fit_network(&set, &options, &mut |_, _| true).unwrap();
        let evaluated = evaluate(&fitted.network, &set).unwrap();
        assert!(evaluated.roc_auc.unwrap() > 0.9, "{loss:?} {hidden:?}: {evaluated:?}");
        assert!(fitted.quantisation.decisions_changed < 0.01, "{loss:?} {hidden:?}: {:?}", fitted.quantisation);
    }
}

#[test]
fn bias_correction_removes_the_mean_rounding_error() {
    let set = TrainingSet::from_records(&common::no_pattern(4_000, 8), 1_000_000).unwrap();
    let shift = |correct_bias: bool| {
        // One decimal, so that rounding has an effect.
        let mut options = FitOptions { decimals: 1, correct_bias, ..Default::default() };
        options.train.epochs = 1;
        let fitted = fit_network(&set, &options, &mut |_, _| true).unwrap();
        let scale = *fitted.network.scales().last().unwrap() as f64;
        let error = |i| fitted.network.score(set.row(i)) as f64 / scale - f64::from(fitted.float.score(set.row(i)));
        (0..set.len()).map(error).sum::<f64>() / set.len() as f64
    };
    assert!(shift(true).abs() < 0.01 && shift(false).abs() > 0.03, "{} {}", shift(true), shift(false));
}

#[test]
fn one_class_is_learned_and_an_empty_set_refused() {
    let mut set = TrainingSet::from_records(&common::busy_episodes(2_000, 7), 1_000_000).unwrap();
    let mut options = FitOptions::default();
    options.train.epochs = 3;
    for (inflection_ns, base_rate) in [(u64::MAX, 1.0), (0, 0.0)] {
        set.relabel(inflection_ns);
        let fitted = fit_network(&set, &options, &mut |_, _| true).unwrap();
        let evaluated = evaluate(&fitted.network, &set).unwrap();
        assert_eq!((evaluated.base_rate, evaluated.roc_auc), (base_rate, None));
        assert!(evaluated.accuracy > 0.99, "{evaluated:?}");
    }
    let empty = TrainingSet::default();
    let fitted = fit_network(&set, &options, &mut |_, _| true).unwrap();
    assert!(fit_network(&empty, &options, &mut |_, _| true).unwrap_err().to_string().contains("0 rows for training"));
    assert!(evaluate(&fitted.network, &empty).unwrap_err().to_string().contains("0 rows for evaluation"));
    options.decimals = 9;
    assert!(fit_network(&set, &options, &mut |_, _| true).unwrap_err().to_string().contains("decimals is 9"));
    for epochs in [0, 1_000_001, usize::MAX] {
        options.train.epochs = epochs;
        let error = fit_network(&set, &options, &mut |_, _| true).unwrap_err().to_string();
        assert_eq!(error, format!("epochs is {epochs}, it must be 1 to 1,000,000"));
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn recordings_are_evaluated_beside_their_base_rate() {
    for name in [common::FLASHNET[0], common::HADOOP] {
        let Some(records) = common::recording(name) else { return };
        let learned = learn_one(&records, &options(2));
        print(name, &learned);
        let (biased, unbiased) = (&learned.biased, learned.unbiased.as_ref().unwrap());
        assert_eq!(biased.test.base_rate, unbiased.test.base_rate);
        assert_eq!(biased.test.rows, learned.rows.1);
        // Bias trades false submits for false revokes.
        assert!(biased.test.false_submit < unbiased.test.false_submit);
        assert!(biased.test.false_revoke > unbiased.test.false_revoke);
        for evaluated in [biased, unbiased] {
            assert!(evaluated.quantisation.accuracy_points.abs() < 0.1, "{name}: {:?}", evaluated.quantisation);
            if name == common::HADOOP {
                assert!(evaluated.test.roc_auc.unwrap() > 0.9, "{:?}", evaluated.test);
                assert!(evaluated.test.accuracy > evaluated.test.base_rate + 0.2, "{:?}", evaluated.test);
            }
        }
    }
}
