// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the estimates of sampled probes with the truth from peeks.

use super::*;
use crate::probing::{Draw, Probing};
use crate::{Counters, Playback, RunOptions, policy, run};
use linnet_sim::{Chance, Modelled, TestDevice};

fn stream(chance: &mut Chance, count: usize) -> Vec<IoRecord> {
    let mut at = 0;
    (0..count)
        .map(|_| {
            at += chance.exponential(15_000.0) as Nanos;
            let op = if chance.happens(0.9) { Op::Read } else { Op::Write };
            IoRecord { offset_bytes: chance.below(1 << 24) * 4096, ..record(at, op) }
        })
        .collect()
}

/// Three busy devices with a policy and this share of probes.
fn counters(name: &str, seed: u64, probe_share: f64) -> Counters {
    let mut chance = Chance::new(seed);
    let learned = learned(&vec![Some(revokes_above(150)); 3]);
    let mut devices: Vec<_> = (0..3).map(|k| Modelled::new(TestDevice::busy(2_000_000, 0.5, seed * 3 + k))).collect();
    let streams: Vec<Vec<IoRecord>> = (0..3).map(|_| stream(&mut chance, 6_000)).collect();
    let streams: Vec<&[IoRecord]> = streams.iter().map(Vec::as_slice).collect();
    let options =
        RunOptions { array: Config { probe_share, seed, ..Config::default() }, playback: Playback::default() };
    let chosen = policy(name, &learned, &options.array).expect("known");
    run(&mut devices, &streams, &thresholds(&learned), chosen, &options, &mut ()).expect("a sound run").counters
}

const POLICIES: [&str; 4] = ["linnos", "linnos+hl", "shortest-queue", "ewma-inflight"];

#[test]
#[ignore = "slow: make test-slow"]
fn the_interval_covers_the_truth_as_often_as_it_says() {
    let (mut covered, mut runs, mut z) = (0, 0, Vec::new());
    for name in POLICIES {
        for seed in 0..40 {
            let c = counters(name, seed, 0.05);
            let (estimate, truth) = (c.probing.false_share(), c.probing.truth());
            assert!(c.probing.draws > 1_000 && c.probing.answered > 30, "{name} {seed}: {:?}", c.probing);
            assert!(truth > 0.02 && truth < 0.999, "{name} {seed}: nothing to estimate, {truth}");
            runs += 1;
            covered += i32::from(estimate.low <= truth && truth <= estimate.high);
            z.push((estimate.value - truth) / (truth * (1.0 - truth) / c.probing.answered as f64).sqrt());
            let reads = c.probing.false_share_of(c.reads);
            let scale = c.probing.draws as f64 / c.reads as f64;
            for (of_reads, of_draws) in
                [(reads.value, estimate.value), (reads.low, estimate.low), (reads.high, estimate.high)]
            {
                assert!((of_reads - scale * of_draws).abs() < 1e-12);
            }
        }
    }
    // 95 % of 160 are 152, with a standard deviation of 2.8.
    assert!((143..=160).contains(&covered), "{covered} of {runs}");
    // Errors in units of their standard deviation: mean 0 with a standard deviation of 0.08, spread 1.
    let mean = z.iter().sum::<f64>() / z.len() as f64;
    let spread = (z.iter().map(|z| (z - mean) * (z - mean)).sum::<f64>() / z.len() as f64).sqrt();
    assert!(mean.abs() < 0.3, "biased: {mean}");
    assert!((0.8..1.2).contains(&spread), "{spread}");
}

#[test]
fn half_of_the_draws_probe_and_cost_what_they_say() {
    for name in ["linnos", "shortest-queue"] {
        let c = counters(name, 3, 0.5);
        let share = c.probing.probes as f64 / c.probing.draws as f64;
        assert!((share - 0.5).abs() < 0.03, "{share}");
        assert!(c.probing.reads.iter().all(|&reads| reads > 0), "{:?}", c.probing);
        let cost = c.probing.cost_ns().expect("reads of both kinds");
        assert!(cost.low < cost.value && cost.value < cost.high);
        // Some probes hit slow devices, so they take longer than reads that were sent elsewhere.
        assert!(cost.value > 0.0, "{name}: {cost:?}");
    }
}

#[test]
fn without_a_share_nothing_is_drawn_and_with_all_of_it_nothing_is_revoked() {
    // Of these, one policy revokes, and one sends reads elsewhere.
    let [none, elsewhere] = ["linnos", "shortest-queue"].map(|name| counters(name, 1, 0.0));
    assert_eq!([none.probing, elsewhere.probing], [Probing::default(); 2]);
    assert!(none.revokes > 0 && none.false_revokes > 0);
    let all = counters("linnos", 1, 1.0);
    assert!(all.revokes == 0 && all.probing.probes == all.probing.draws && all.probing.draws > 0);
    assert_eq!(all.probing.false_share().value, all.probing.truth());
    // False revokes are counted by the same peeks at revoked reads.
    let some = counters("linnos", 1, 0.1);
    assert_eq!(some.probing.fast_elsewhere, some.false_revokes);
    assert!(some.probe_share() > 0.0 && some.probe_share() < 0.1);
}

#[test]
fn the_cost_is_a_difference_of_means_with_the_interval_of_two_samples() {
    let mut probing = Probing::default();
    assert_eq!((probing.false_share().value, probing.truth(), probing.false_share_of(0).value), (0.0, 0.0, 0.0));
    for latency_ns in [10, 20, 30] {
        assert_eq!(probing.cost_ns(), None);
        probing.answered_read(Draw::Probe, latency_ns);
        probing.answered_read(Draw::None, 1_000);
    }
    for latency_ns in [4, 8] {
        assert_eq!(probing.cost_ns(), None);
        probing.answered_read(Draw::Elsewhere, latency_ns);
    }
    assert_eq!((probing.reads, probing.latency_ns), ([3, 2], [60, 12]));
    // Variances of 100 and 8, of 3 and 2 reads.
    let (cost, reach) = (probing.cost_ns().expect("two of each"), 1.959964 * (100f64 / 3.0 + 8.0 / 2.0).sqrt());
    assert_eq!(cost.value, 14.0);
    assert!((cost.low - (14.0 - reach)).abs() < 1e-5 && (cost.high - (14.0 + reach)).abs() < 1e-5, "{cost:?}");
}

#[test]
fn shares_are_of_draws_and_of_reads() {
    let probing = Probing { draws: 40, probes: 5, answered: 4, fast: 3, fast_elsewhere: 9, ..Probing::default() };
    assert_eq!((probing.false_share().value, probing.truth()), (0.75, 0.3));
    let (of_draws, of_reads) = (probing.false_share(), probing.false_share_of(80));
    assert_eq!(of_reads.value, 0.375);
    assert!(of_draws.low < 0.75 && of_draws.high > 0.75, "{of_draws:?}");
    assert_eq!((of_reads.low, of_reads.high), (of_draws.low / 2.0, of_draws.high / 2.0));
    assert_eq!(Counters { reads: 50, probing, ..Counters::default() }.probe_share(), 0.1);
    assert_eq!(Counters { probing, ..Counters::default() }.probe_share(), 5.0);
}

#[test]
fn the_same_seed_draws_the_same() {
    assert_eq!(counters("linnos+hl", 7, 0.02), counters("linnos+hl", 7, 0.02));
}
