// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that builds agree on decisions, and that every build is measured.

use super::*;

#[test]
fn every_build_decides_alike() {
    let network = stream::untrained(48, 1).expect("small weights");
    let mut chance = Chance(2);
    let subjects: Vec<Box<Subject>> =
        Build::available().into_iter().map(|build| Subject::new(&network, build).expect("31 digits")).collect();
    let devices: Vec<Device<'_>> = subjects.iter().map(|subject| subject.device()).collect();
    for _ in 0..200 {
        let pages = chance.below(1_000) as u32;
        devices.iter().for_each(|device| advance(device, "realistic", &mut Chance(u64::from(pages))));
        let scores: Vec<i64> = devices.iter().map(|device| device.score(pages)).collect();
        assert!(scores.iter().all(|&score| score == scores[0]), "{scores:?}");
        assert!(devices.iter().all(|device| device.decide(pages) == (scores[0] > 0)));
    }
}

#[test]
fn cold_rows_of_remembered_decisions_find_them() {
    let network = stream::untrained(16, 1).expect("small weights");
    for build in Build::available() {
        let subject = Subject::new(&network, build).expect("31 digits");
        let device = subject.device();
        let mut chance = Chance(2);
        for pages in 1..1_000 {
            chill(&device, "realistic", &mut chance, Some(pages));
            assert!(device.remembers(pages), "{build:?}: {pages}");
        }
    }
}

#[test]
fn a_network_is_measured_in_every_build() {
    let network = stream::untrained(16, 1).expect("small weights");
    let rows = one_network("small", &network, &Options { blocks: 3, ..Options::default() }).expect("it runs");
    for build in Build::available() {
        let own: Vec<&Row> = rows.iter().filter(|row| row.build == build.name()).collect();
        for path in ["plain", "network", "submit", "complete", "arrive"] {
            assert!(own.iter().any(|row| row.path == path), "{build:?} {path}");
        }
        assert!(own.iter().all(|row| row.ns_median >= row.ns_min && row.ns_min >= 0.0));
    }
    let json: serde_json::Value = serde_json::from_str(&rows[0].to_json()).expect("JSON");
    assert_eq!(json["network"], "small");
}
