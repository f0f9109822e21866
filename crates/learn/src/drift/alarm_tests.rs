// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use linnet_sim::Chance;

const BLOCK: usize = 100;
const CHECK: usize = CHECK_BLOCKS * BLOCK;

/// A device whose reads have a fast or a slow score and are slow with these probabilities.
fn reads(chance: &mut Chance, count: usize, fast: f64, slow: f64) -> Vec<(i64, bool)> {
    (0..count)
        .map(|_| {
            let high = chance.happens(0.2);
            let spread = chance.below(1_000) as i64;
            (if high { 2_000 } else { -2_000 } + spread, chance.happens(if high { slow } else { fast }))
        })
        .collect()
}

/// The first check of reads of the second kind after a reference of the first kind.
fn first_check(seed: u64, before: (f64, f64), after: (f64, f64)) -> Check {
    let mut chance = Chance::new(seed);
    let mut monitor = Monitor::new(BLOCK, 0, &[]);
    for (score, slow) in reads(&mut chance, REFERENCE_BLOCKS * BLOCK, before.0, before.1) {
        assert_eq!(monitor.push(0, score, slow), None);
    }
    let mut checks: Vec<Check> = reads(&mut chance, CHECK, after.0, after.1)
        .into_iter()
        .filter_map(|(score, slow)| monitor.push(0, score, slow))
        .collect();
    assert_eq!(checks.len(), 1);
    checks.remove(0)
}

#[test]
fn the_test_has_the_level_that_it_states() {
    let checks: Vec<Check> = (0..3_000).map(|seed| first_check(seed, (0.05, 0.4), (0.05, 0.4))).collect();
    let beyond = checks.iter().filter(|check| check.t.abs() >= T_LEVEL).count();
    // 30 are expected; five standard deviations either way.
    assert!((3..=57).contains(&beyond), "{beyond} of 3000 at the level 0.01");
    // The required size of the change makes an alarm rarer than its level.
    let rang = |pick: fn(&Alarms) -> bool| checks.iter().filter(|check| pick(&check.alarms)).count();
    assert_eq!(rang(|alarms| alarms.inflection), 0);
    assert!(rang(|alarms| alarms.base_rate) <= 30 && rang(|alarms| alarms.calibration) <= 57);
}

#[test]
fn a_test_of_single_reads_would_ring_where_that_of_blocks_does_not() {
    // Slow reads come in runs of fifty, as in a stall: the same device before and after.
    let mut rang = [0, 0];
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let mut monitor = Monitor::new(250, 0, &[]);
        let (mut slow, mut before, mut after) = (false, 0.0, 0.0);
        for n in 0..(REFERENCE_BLOCKS + CHECK_BLOCKS) * 250 {
            if n % 50 == 0 {
                slow = chance.happens(0.1);
            }
            *(if n < REFERENCE_BLOCKS * 250 { &mut before } else { &mut after }) += f64::from(u8::from(slow));
            if let Some(check) = monitor.push(0, 0, slow) {
                let (n, m) = ((REFERENCE_BLOCKS * 250) as f64, (CHECK_BLOCKS * 250) as f64);
                let pooled: f64 = (before + after) / (n + m);
                let z = (after / m - before / n) / (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
                rang[0] += i32::from(check.t.abs() >= T_LEVEL);
                rang[1] += i32::from(z.abs() >= 2.576);
            }
        }
    }
    assert!(rang[0] <= 10, "{rang:?} of 300: blocks keep their level");
    assert!(rang[1] > 150, "{rang:?} of 300: single reads do not");
}

#[test]
fn each_alarm_rings_for_its_own_change() {
    let same = Alarms::default();
    for seed in 0..20 {
        let moved = first_check(seed, (0.05, 0.4), (0.25, 0.6));
        assert!(moved.alarms.inflection && moved.alarms.base_rate, "{moved:?}");
        assert!((moved.percentile.0 - 88.0).abs() < 3.0 && (moved.percentile.1 - 68.0).abs() < 6.0, "{moved:?}");
        // As many slow reads as before, but the score no longer predicts them.
        let lost = first_check(seed, (0.05, 0.8), (0.2, 0.2));
        assert_eq!(lost.alarms, Alarms { calibration: true, ..same }, "{lost:?}");
        assert!(lost.calibration_error.unwrap() < -0.4, "{lost:?}");
    }
}

#[test]
fn few_slow_reads_that_double_are_seen_where_five_percentiles_are_not_reached() {
    let checks: Vec<Check> = (0..100).map(|seed| first_check(seed, (0.01, 0.05), (0.025, 0.08))).collect();
    let rang = |pick: fn(&Alarms) -> bool| checks.iter().filter(|check| pick(&check.alarms)).count();
    assert!(rang(|alarms| alarms.base_rate) > 40, "{}", rang(|alarms| alarms.base_rate));
    assert_eq!(rang(|alarms| alarms.inflection), 0);
}

#[test]
fn what_the_model_was_trained_on_is_its_reference() {
    let mut chance = Chance::new(3);
    let trained: Vec<(Nanos, bool)> =
        reads(&mut chance, 5_000, 0.05, 0.4).into_iter().map(|read| (0, read.1)).collect();
    let mut monitor = Monitor::new(BLOCK, 0, &trained);
    let checks: Vec<Check> = reads(&mut chance, 2 * CHECK, 0.4, 0.8)
        .into_iter()
        .filter_map(|(score, slow)| monitor.push(0, score, slow))
        .collect();
    assert_eq!(checks.len(), 2, "no read is needed for a reference");
    assert!(checks.iter().all(|check| check.alarms.inflection && !check.alarms.calibration));
    assert_eq!(checks[0].calibration_error, None, "nothing is known of calibration yet");
}

#[test]
fn no_block_is_compared_with_itself() {
    // Scores lose their meaning with the first read after the blocks of calibration's reference, wherever they end among
    // the checks. The first check of calibration has no block of the reference, so it sees all of that.
    for trained in 0..=REFERENCE_BLOCKS {
        let mut chance = Chance::new(3);
        let trained = vec![(0, false); trained * BLOCK];
        let mut monitor = Monitor::new(BLOCK, 0, &trained);
        let mut pushed = reads(&mut chance, REFERENCE_BLOCKS * BLOCK, 0.05, 0.8);
        pushed.extend(reads(&mut chance, 2 * CHECK, 0.2, 0.2));
        let checks: Vec<(usize, Check)> = (1..)
            .zip(pushed)
            .filter_map(|(read, (score, slow))| monitor.push(0, score, slow).map(|check| (read, check)))
            .collect();
        for (read, check) in checks {
            let error = (read >= REFERENCE_BLOCKS * BLOCK + CHECK).then_some(true);
            assert_eq!(check.calibration_error.map(|error| error < -0.4), error, "{} {read} {check:?}", trained.len());
            assert_eq!(check.alarms.calibration, error.is_some());
        }
    }
}

#[test]
fn a_block_lasts_as_long_as_it_must() {
    // A stall of 20 ms in every 200: the reads of a block of a few milliseconds are correlated; blocks of a whole
    // period are all alike.
    let rang = |block_ns: Nanos| {
        let mut monitor = Monitor::new(10, block_ns, &[]);
        let checks =
            (0..300_000u64).filter_map(|n| monitor.push(n * 100_000, 0, n * 100_000 % 200_000_000 < 20_000_000));
        let rang: Vec<bool> = checks.map(|check| check.alarms.any()).collect();
        (rang.iter().filter(|&&rang| rang).count(), rang.len())
    };
    let (short, long) = (rang(0), rang(400_000_000));
    assert!(short.0 > short.1 / 20, "{short:?}");
    assert!(long.1 > 0 && long.0 == 0, "{long:?}");
}

#[test]
fn a_share_that_never_varied_and_moved_is_certain() {
    assert_eq!(student(&[0.0; 24], &[0.0; 8]), 0.0);
    assert_eq!(student(&[0.0; 24], &[0.5; 8]), f64::INFINITY);
    assert!(far_apart(0.0, 0.1) && far_apart(0.1, 0.0) && !far_apart(0.0, 0.0) && !far_apart(0.10, 0.14));
}
