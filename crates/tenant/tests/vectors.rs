// SPDX-License-Identifier: MIT OR Apache-2.0
//! `spec/vectors/place/profiles/cases.txt`, which a slow implementation in Python wrote
//! (`tests/conformance/profile.py`).

use linnet_tenant::{Aggregate, FEATURE_COUNT, FEATURES, Independent, Options, Profile, Profiler};
use linnet_types::{IoRecord, Op};

const FILE: &str = include_str!("../../../spec/vectors/place/profiles/cases.txt");

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{text} is not hex"))
}

fn features<'a>(words: impl Iterator<Item = &'a str>) -> [f64; FEATURE_COUNT] {
    let found: Vec<f64> = words.map(|word| f64::from_bits(hex(word))).collect();
    found.try_into().expect("27 features")
}

fn same(found: &[f64; FEATURE_COUNT], expected: &[f64; FEATURE_COUNT], line: usize) {
    for ((name, found), expected) in FEATURES.iter().zip(found).zip(expected) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "line {line}: {name} is {found}, not {expected}");
    }
}

#[test]
fn profiles_and_aggregates_are_those_of_the_vectors() {
    let mut options = Options::default();
    let mut ios: Vec<IoRecord> = Vec::new();
    let mut profiles: Vec<Profile> = Vec::new();
    let mut aggregates = 0;
    for (n, line) in FILE.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let mut words = line.split(' ');
        match words.next() {
            Some("start") => {
                options.window_ns = hex(words.next().unwrap());
                options.streams = hex(words.next().unwrap()) as usize;
                ios.clear();
            }
            Some("io") => {
                let mut next = || words.next().unwrap();
                let arrive_ns = hex(next());
                let op = if hex(next()) == 0 { Op::Read } else { Op::Write };
                let mut io = IoRecord::new(arrive_ns, op, hex(next()), hex(next()) as u32);
                io.device = hex(next()) as u32;
                io.latency_ns = Some(next()).filter(|word| *word != "-").map(hex);
                ios.push(io);
            }
            Some("profile") => {
                let end_ns = Some(words.next().unwrap()).filter(|word| *word != "-").map(hex);
                let mut profiler = Profiler::new(options, ios[0].arrive_ns).unwrap();
                ios.iter().for_each(|io| profiler.note(io));
                let found = profiler.finish(end_ns);
                same(&found.features, &features(words), n + 1);
                profiles.push(found);
            }
            Some("aggregate") => {
                let members: Vec<&Profile> =
                    words.by_ref().take_while(|word| *word != "=").map(|word| &profiles[hex(word) as usize]).collect();
                same(&Independent.of(&members).unwrap().features, &features(words), n + 1);
                aggregates += 1;
            }
            other => panic!("line {}: {other:?}", n + 1),
        }
    }
    assert_eq!((profiles.len(), aggregates), (24, 5));
}
