// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests drift handling on synthetic devices that change: what it detects, learns, swaps in and rolls back.

use super::*;
use linnet_learn::{InflectionOptions, LinnOsScheme, LinnetScheme};
use linnet_sim::Chance;
use linnet_types::Op;

const WINDOW: usize = 1_200;

/// The cause of slow reads on a synthetic device.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    /// Large reads are slow.
    Large,
    /// Small reads are slow.
    Small,
    /// One read in ten is slow, at random.
    Chance,
}

/// I/Os of one page or of sixteen; one in five is a write.
fn device(seed: u64, moods: &[(Mood, usize)]) -> Vec<IoRecord> {
    let mut chance = Chance::new(seed);
    let mut now = 0;
    let mut records = Vec::new();
    for &(mood, count) in moods {
        for _ in 0..count {
            now += 200_000 + chance.below(400_000);
            let large = chance.happens(0.5);
            let slow = match mood {
                Mood::Large => large && chance.happens(0.6),
                Mood::Small => !large && chance.happens(0.6),
                Mood::Chance => chance.happens(0.3),
            };
            let write = chance.happens(0.2);
            let latency_ns = if slow && !write { 2_000_000 } else { 100_000 } + chance.below(50_000);
            let op = if write { Op::Write } else { Op::Read };
            let size_bytes = if large { 65_536 } else { 4_096 };
            let record = IoRecord::new(now, op, chance.below(1 << 20) * 4096, size_bytes);
            records.push(IoRecord { latency_ns: Some(latency_ns), ..record });
        }
    }
    records
}

fn options() -> DriftOptions {
    let inflection = InflectionOptions { ios: 20_000, ..InflectionOptions::default() };
    DriftOptions { window: WINDOW, block_ns: 0, inflection, ..DriftOptions::default() }
}

fn run(moods: &[(Mood, usize)]) -> DriftStudy {
    study_drift(&LinnetScheme::default(), &device(1, moods), &options(), &mut |_| true).expect("long enough")
}

fn count(found: &DriftStudy, pick: fn(&StudyEvent) -> bool) -> usize {
    found.events.iter().filter(|(_, shown)| pick(shown)).count()
}

#[test]
fn a_device_that_stays_as_it_is_keeps_its_model() {
    let found = run(&[(Mood::Large, 20_000)]);
    assert!(found.checks >= 20, "{}", found.checks);
    assert!(count(&found, |h| matches!(h, StudyEvent::Alarm(_))) <= 2, "{:?}", found.events);
    assert_eq!(count(&found, |h| matches!(h, StudyEvent::Swapped(_))), 0, "{:?}", found.events);
    let last = found.chunks.last().expect("evaluated");
    assert_eq!(last.figures[0], last.figures[1], "so it is the model trained once");
}

#[test]
fn a_change_is_noticed_learned_and_the_new_model_serves() {
    let found = run(&[(Mood::Large, 6_000), (Mood::Small, 8_000)]);
    assert!(count(&found, |h| matches!(h, StudyEvent::Alarm(check) if check.alarms.calibration)) > 0);
    assert!(count(&found, |h| matches!(h, StudyEvent::Swapped(_))) > 0, "{:?}", found.events);
    assert_eq!(count(&found, |h| matches!(h, StudyEvent::RolledBack(_))), 0);
    let [once, drift, always] = found.chunks.last().expect("evaluated").merit;
    assert!(once < 0.4 && drift > 0.7 && (drift - always).abs() < 0.1, "{once} {drift} {always}");
}

#[test]
fn a_change_that_goes_away_is_rolled_back() {
    // The change lasts only as long as its learning: the old model is better again during the trial.
    let before = 6_000;
    let alarmed = run(&[(Mood::Large, before), (Mood::Small, 8_000)]);
    let swapped_ns = alarmed.events.iter().find(|h| matches!(h.1, StudyEvent::Swapped(_))).expect("as above").0;
    let records = device(1, &[(Mood::Large, before), (Mood::Small, 8_000)]);
    let until = records.iter().filter(|record| record.arrive_ns <= swapped_ns).count();
    let found = run(&[(Mood::Large, before), (Mood::Small, until - before + 10), (Mood::Large, 6_000)]);
    let rolled = found.events.iter().find_map(|(_, h)| if let StudyEvent::RolledBack(v) = h { Some(v) } else { None });
    let verdict = rolled.expect("the old model comes back");
    assert!(verdict.shadow >= verdict.serving + 0.02 && verdict.reads == WINDOW / 2, "{verdict:?}");
    let [once, drift, _] = found.chunks.last().expect("evaluated").merit;
    assert_eq!(once, drift, "the first model serves");
}

#[test]
fn what_cannot_be_learned_changes_no_model() {
    let found = run(&[(Mood::Large, 6_000), (Mood::Chance, 8_000)]);
    assert!(count(&found, |h| matches!(h, StudyEvent::Alarm(_))) > 0);
    // A model without knowledge beats a model that is wrong: large reads are as often slow as small ones.
    assert!(count(&found, |h| matches!(h, StudyEvent::Rejected(_))) >= 2, "{:?}", found.events);
    // A new reference is collected, so the alarm does not repeat for ever.
    assert!(count(&found, |h| matches!(h, StudyEvent::Alarm(_))) <= 3, "{:?}", found.events);
}

#[test]
fn the_same_trace_gives_the_same_study_for_either_model() {
    let moods = [(Mood::Large, 4_000), (Mood::Small, 4_000)];
    assert_eq!(run(&moods), run(&moods));
    let train = linnet_core::TrainOptions { hidden: vec![16], epochs: 4, ..Default::default() };
    let scheme = LinnOsScheme(linnet_learn::FitOptions { train, ..Default::default() });
    let study = || study_drift(&scheme, &device(1, &moods), &options(), &mut |_| true).expect("long enough");
    let found = study();
    assert_eq!(found, study());
    assert!(found.fits[2] > found.fits[0] && found.reads > 0);
}

#[test]
fn short_and_interrupted_traces_are_errors() {
    let records = device(1, &[(Mood::Large, 500)]);
    let found = study_drift(&LinnetScheme::default(), &records, &options(), &mut |_| true);
    assert!(matches!(found, Err(Error::TooFewRows { .. })));
    let records = device(1, &[(Mood::Large, 5_000)]);
    assert!(matches!(
        study_drift(&LinnetScheme::default(), &records, &options(), &mut |_| false),
        Err(Error::Interrupted)
    ));
}
