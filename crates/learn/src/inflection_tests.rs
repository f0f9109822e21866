// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use proptest::prelude::*;

fn options(ios: usize) -> InflectionOptions {
    InflectionOptions { ios, ..Default::default() }
}

/// 80..120 us, but `slow_share` of the reads take 2..4 ms.
fn bimodal(count: usize, slow_share: f64, seed: u64) -> Vec<Nanos> {
    let mut chance = Chance::new(seed);
    let draw = |_| {
        if chance.happens(slow_share) { 2_000_000 + chance.below(2_000_000) } else { 80_000 + chance.below(40_000) }
    };
    (0..count).map(draw).collect()
}

fn exponential(count: usize, mean_ns: f64) -> Vec<Nanos> {
    let mut chance = Chance::new(5);
    (0..count).map(|_| chance.exponential(mean_ns) as Nanos).collect()
}

#[test]
fn the_gap_of_a_bimodal_distribution_is_found() {
    for (slow_share, seed) in [(0.03, 1), (0.08, 2), (0.15, 3), (0.25, 4)] {
        let reads = bimodal(100_000, slow_share, seed);
        let found = inflection_point(&[&reads], 0, &options(100_000)).unwrap();
        let wrong = reads.iter().filter(|&&x| is_slow(x, found.latency_ns) != (x >= 2_000_000)).count();
        // A threshold is an observed latency, and the draws allow a deviation of a few tenths of a percentile.
        assert!(wrong as f64 <= 0.003 * reads.len() as f64, "{slow_share}: {wrong} at p{}", found.percentile);
        assert!((found.percentile - 100.0 * (1.0 - slow_share)).abs() < 0.5, "{}", found.percentile);
        let window = found.boost[0].percentile..found.boost[found.boost.len() - 1].percentile;
        assert!(found.percentile > window.start && window.contains(&found.percentile));
        assert!(found.boost_ns > 0.9 * slow_share * 2_800_000.0, "{}", found.boost_ns);
    }
}

#[test]
fn boosts_are_those_of_the_formula() {
    let reads = exponential(20_000, 300_000.0);
    let options = options(400_000);
    let found = inflection_point(&[&reads], 0, &options).unwrap();
    let count = reads.len() as f64;
    let mean = reads.iter().sum::<u64>() as f64 / count;
    let failover = options.failover_ns as f64;
    for point in &found.boost {
        let (fast, slow): (Vec<Nanos>, Vec<Nanos>) = reads.iter().partition(|&&x| !is_slow(x, point.latency_ns));
        let fast_part = fast.iter().sum::<u64>() as f64 / count;
        let slow_share = slow.len() as f64 / count;
        let admitted = fast_part + slow_share * (failover + fast_part) + slow_share.powi(2) * (failover + mean);
        let expected = mean - admitted;
        assert!((point.boost_ns - expected).abs() < 2_500.0, "{point:?} {expected}");
    }
    let best = found.boost.iter().map(|p| p.boost_ns).fold(f64::MIN, f64::max);
    assert_eq!(best, found.boost_ns);
    // No knee: the lower the threshold, the better, down to the end of the window.
    assert!(found.percentile == found.boost[0].percentile && found.percentile < found.start_percentile);
}

#[test]
fn slope_one_of_an_exponential() {
    // On an axis of width w means, the density exp(-x) is 1/w at x = ln w; w is ln 100 at the p99.
    let reads = exponential(200_000, 1e6);
    let expected = 1.0 - 1.0 / 100f64.ln();
    assert!((slope_one_of(&reads, 99.0) - expected).abs() < 0.02);
    let wider = 1.0 - 1.0 / 1000f64.ln();
    assert!((slope_one_of(&reads, 99.9) - wider).abs() < 0.02);
}

fn slope_one_of(reads: &[Nanos], axis_percentile: f64) -> f64 {
    let mut sorted = reads.to_vec();
    sorted.sort_unstable();
    slope_one(&sorted, axis_percentile)
}

#[test]
fn scale_does_not_move_the_start() {
    let reads = exponential(5_000, 1e6);
    let scaled: Vec<Nanos> = reads.iter().map(|x| 1_000 + 7 * x).collect();
    assert_eq!(slope_one_of(&reads, 99.0), slope_one_of(&scaled, 99.0));
}

#[test]
fn candidates_surround_the_start_in_tenths() {
    let reads = exponential(50_000, 1e6);
    let found = inflection_point(&[&reads], 0, &options(1_000)).unwrap();
    assert_eq!(found.boost.len(), 201);
    assert_eq!(found.boost[100].percentile, found.start_percentile);
    assert_eq!(found.boost[100].latency_ns, found.start_latency_ns);
    for pair in found.boost.windows(2) {
        assert!((pair[1].percentile - pair[0].percentile - 0.1).abs() < 1e-9);
        assert!(pair[1].latency_ns >= pair[0].latency_ns);
    }
    let tenths = found.percentile * 10.0;
    assert_eq!(tenths, tenths.round());
}

#[test]
fn equal_devices_are_as_one() {
    let reads = bimodal(10_000, 0.1, 9);
    let one = inflection_point(&[&reads], 0, &options(50_000)).unwrap();
    let three = inflection_point(&[&reads, &reads, &reads], 0, &options(50_000)).unwrap();
    assert_eq!(one, three);
}

#[test]
fn peers_that_are_never_faster_give_nothing() {
    let fast = bimodal(10_000, 0.1, 1);
    let slow = vec![9_000_000; 10];
    let found = inflection_points(&[&fast, &slow, &slow], &options(20_000)).unwrap();
    assert!(found[0].boost_ns <= 0.0, "{}", found[0].boost_ns);
    // In the other direction nothing is revoked: each slow device treats all its reads as fast.
    assert_eq!(found[1].boost_ns, 0.0);
}

#[test]
fn a_failover_dearer_than_the_tail_gives_nothing() {
    let reads = bimodal(10_000, 0.1, 1);
    let dear = InflectionOptions { failover_ns: 50_000_000, ..options(20_000) };
    assert!(inflection_point(&[&reads], 0, &dear).unwrap().boost_ns < 0.0);
}

#[test]
fn more_replicas_save_more() {
    let reads = bimodal(10_000, 0.25, 1);
    let boost = |replicas| {
        let options = InflectionOptions { replicas, failover_ns: 0, ..options(100_000) };
        inflection_point(&[&reads], 0, &options).unwrap().boost_ns
    };
    assert!(boost(2) < boost(3) && boost(3) < boost(5));
}

#[test]
fn tiny_and_constant_inputs() {
    for reads in [&[5u64][..], &[1], &[5, 5, 5, 5], &[u64::MAX; 3]] {
        let found = inflection_point(&[reads], 0, &options(1_000)).unwrap();
        assert_eq!((found.latency_ns, found.boost_ns, found.percentile), (reads[0], 0.0, 99.9), "{reads:?}");
        assert!(!reads.iter().any(|&x| is_slow(x, found.latency_ns)));
    }
    let two = inflection_point(&[&[100_000, 9_000_000]], 0, &options(10_000)).unwrap();
    assert_eq!(two.latency_ns, 100_000);
    assert!(two.boost_ns > 1e6);
    let ten = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1000].map(|x| x * 10_000);
    let found = inflection_point(&[&ten], 0, &options(10_000)).unwrap();
    assert_eq!((found.latency_ns, found.start_latency_ns, found.start_percentile), (10_000, 10_000, 90.0));
}

#[test]
fn bad_input_is_refused() {
    let reads = [1, 2, 3];
    let ask = |latencies: &[&[Nanos]], device, options: &InflectionOptions| {
        inflection_point(latencies, device, options).unwrap_err().to_string()
    };
    let defaults = InflectionOptions::default();
    assert!(ask(&[], 0, &defaults).contains("no device"));
    assert!(ask(&[&reads], 1, &defaults).contains("device 1 is not among the 1"));
    assert!(ask(&[&reads, &[]], 0, &defaults).contains("device 1: no read"));
    let bad = |change: fn(&mut InflectionOptions)| {
        let mut options = InflectionOptions::default();
        change(&mut options);
        ask(&[&reads], 0, &options)
    };
    assert!(bad(|o| o.replicas = 1).contains("replicas is 1"));
    assert!(bad(|o| o.replicas = 65).contains("replicas"));
    assert!(bad(|o| o.ios = 0).contains("ios"));
    assert!(bad(|o| o.step_percentiles = 0.0).contains("step_percentiles"));
    assert!(bad(|o| o.step_percentiles = f64::NAN).contains("step_percentiles"));
    assert!(bad(|o| o.span_percentiles = f64::INFINITY).contains("span_percentiles"));
    assert!(bad(|o| o.axis_percentile = 0.0).contains("axis_percentile"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_difference_array_equals_the_plain_simulation(
        tries in prop::collection::vec((0u64..1_000, 0usize..=8), 2..5),
        failover_ns in 0u64..50,
    ) {
        let candidates = 8;
        let mut saved = vec![0i128; candidates + 1];
        let tries: Vec<Try> = tries.into_iter().map(|(latency_ns, fast_from)| Try { latency_ns, fast_from }).collect();
        let mut rest = tries[1..].iter().copied();
        save(&mut saved, tries[0], tries.len(), failover_ns, || rest.next().unwrap());
        let mut running = 0;
        for (candidate, step) in saved[..candidates].iter().enumerate() {
            running += step;
            let k = tries.iter().position(|t| t.fast_from <= candidate).unwrap_or(tries.len() - 1);
            let latency_ns = tries[k].latency_ns + k as u64 * failover_ns;
            prop_assert_eq!(running, i128::from(tries[0].latency_ns) - i128::from(latency_ns));
        }
    }

    #[test]
    fn any_input_gives_an_observed_latency(
        // From 1: a best threshold of 0 is refused, see `a_point_of_zero_is_no_point`.
        reads in prop::collection::vec(1u64..100, 1..40),
        peer in prop::collection::vec(any::<u64>(), 1..40),
        replicas in 2usize..6,
        span in 0.0f64..100.0,
        step in 0.01f64..10.0,
    ) {
        let options = InflectionOptions {
            replicas, span_percentiles: span, step_percentiles: step, ..options(200)
        };
        let found = inflection_point(&[&reads, &peer], 0, &options).unwrap();
        prop_assert!(reads.contains(&found.latency_ns));
        prop_assert!(found.percentile > 0.0 && found.percentile < 100.0);
        prop_assert!((found.percentile - found.start_percentile).abs() <= span + step);
        prop_assert_eq!(&found, &inflection_point(&[&reads, &peer], 0, &options).unwrap());
        // The label is monotonic in latency, and the share of fast reads is at least the percentile.
        let fast = reads.iter().filter(|&&x| !is_slow(x, found.latency_ns)).count();
        prop_assert!(fast as f64 >= found.percentile / 100.0 * reads.len() as f64 - 1e-9);
    }
}

#[test]
fn a_point_of_zero_is_no_point() {
    let mut reads = vec![0; 900];
    reads.resize(1_000, 1_000_000);
    let refused = inflection_points(&[&bimodal(1_000, 0.1, 1), &reads], &options(10_000)).err();
    assert!(matches!(refused, Some(Error::CoarseClock { device: 1, share: 90.0 })), "{refused:?}");
    // Some reads of 0 do not make it so.
    reads[20..900].fill(80_000);
    assert!(inflection_point(&[&reads], 0, &options(10_000)).unwrap().latency_ns >= 80_000);
}
