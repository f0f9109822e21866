// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the log. Drift handling as a whole is tested in `crates/study`, where it is compared with other strategies.

use super::*;
use linnet_sim::Chance;
use linnet_types::{IoRecord, Op};

const WINDOW: usize = 1_200;

/// I/Os of one page or of sixteen; one in five is a write. Three large reads in five are slow.
fn device(seed: u64, count: usize) -> Vec<IoRecord> {
    let mut chance = Chance::new(seed);
    let mut now = 0;
    let mut record = || {
        now += 200_000 + chance.below(400_000);
        let large = chance.happens(0.5);
        let slow = large && chance.happens(0.6);
        let op = if chance.happens(0.2) { Op::Write } else { Op::Read };
        let latency_ns = if slow && op.is_read() { 2_000_000 } else { 100_000 } + chance.below(50_000);
        let size_bytes = if large { 65_536 } else { 4_096 };
        let record = IoRecord::new(now, op, chance.below(1 << 20) * 4096, size_bytes);
        IoRecord { latency_ns: Some(latency_ns), ..record }
    };
    (0..count).map(|_| record()).collect()
}

fn options() -> DriftOptions {
    let inflection = InflectionOptions { ios: 20_000, ..InflectionOptions::default() };
    DriftOptions { window: WINDOW, block_ns: 0, inflection, ..DriftOptions::default() }
}

#[test]
fn the_log_shows_what_training_sets_show() {
    let records = device(5, 1_000);
    let (inflection_ns, mut log) = (1_000_000, Log::new(WINDOW));
    crate::replay::in_time_order(&records, |event| match event {
        crate::replay::Event::Arrive(k) => log.arrive(k as u64, records[k].arrive_ns, &records[k].request()),
        crate::replay::Event::Complete(k) => {
            log.end(k as u64, records[k].arrive_ns + records[k].latency_ns.unwrap_or(0), true);
        }
    });
    let seen = log.replay(&LinnetScheme::default(), inflection_ns);
    let set = crate::InflightSet::from_records(&records, inflection_ns, Default::default()).expect("reads");
    assert!(seen.open.is_empty());
    assert_eq!(seen.rows.iter().map(|row| row.2).collect::<Vec<_>>(), set.features);
    assert_eq!(seen.rows.iter().map(|row| row.1.unwrap_or(0)).collect::<Vec<_>>(), set.latency_ns);
    let seen = log.replay(&LinnOsScheme::default(), inflection_ns);
    let set = crate::TrainingSet::from_records(&records, inflection_ns).expect("reads");
    assert_eq!(seen.rows.iter().map(|row| row.2).collect::<Vec<_>>().concat(), set.digits);
}

#[test]
fn a_candidate_that_joins_late_says_what_it_would_have_said_from_the_start() {
    // The log still holds all events, so a tracker that starts in the middle has missed nothing, including I/Os in
    // flight.
    let records = device(6, 1_000);
    let scheme = LinnetScheme::default();
    let learned = {
        let set = crate::InflightSet::from_records(&records, 1_000_000, Default::default()).expect("reads");
        scheme.fit(&set.features, &set.latency_ns, 1_000_000).expect("rows")
    };
    let inflection = crate::inflection_point(&[&[1_000_000]], 0, &options().inflection).expect("one latency");
    let candidate = Candidate { model: learned, inflection, trained: Vec::new() };
    let mut log = Log::new(WINDOW);
    let mut early = ModelSlot::new(&scheme, candidate.clone(), &log, (1, 0));
    let (mut late, mut compared) = (None, 0);
    crate::replay::in_time_order(&records, |event| match event {
        crate::replay::Event::Arrive(k) => {
            if k == 500 {
                late = Some(ModelSlot::new(&scheme, candidate.clone(), &log, (1, 0)));
            }
            let (id, now, request) = (k as u64, records[k].arrive_ns, records[k].request());
            log.arrive(id, now, &request);
            let score = early.arrive(&scheme, id, now, &request);
            if let Some(late) = &mut late {
                assert_eq!(late.arrive(&scheme, id, now, &request), score);
                compared += 1;
            }
        }
        crate::replay::Event::Complete(k) => {
            let (id, latency_ns) = (k as u64, records[k].latency_ns);
            let now = records[k].arrive_ns + latency_ns.unwrap_or(0);
            log.end(id, now, true);
            early.end(&scheme, id, now, latency_ns);
            if let Some(late) = &mut late {
                late.end(&scheme, id, now, latency_ns);
            }
        }
    });
    assert_eq!(compared, 500);
}

#[test]
fn wrong_settings_are_refused() {
    let small = DriftOptions { window: 100, ..options() };
    assert!(matches!(Drift::new(LinnetScheme::default(), small), Err(Error::Setting { name: "window", .. })));
    let wide = DriftOptions { margin: 1.5, ..options() };
    assert!(matches!(Drift::new(LinnetScheme::default(), wide), Err(Error::Setting { name: "margin", .. })));
}
