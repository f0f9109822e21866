// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the in-flight tracker with a slow model that keeps every I/O, checks its golden vectors, and compares the
//! trees with their definition.
//!
//! `LINNET_WRITE_VECTORS=1 cargo test -p linnet-core --test tests inflight` writes the vectors again.

use crate::common;

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::common::inflight::SlowInflightTracker;
use crate::common::{SPDX, keep, lines};
use linnet_core::{BUCKET_MAX, INFLIGHT_FEATURES, InflightTracker, Schema, TREES, Tree, Trees, bucket};
use linnet_sim::Chance;
use linnet_types::{Op, Request, is_slow};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Arrive(bool, u64, u32),
    Complete(prop::sample::Index),
    Withdraw(prop::sample::Index),
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let gap = prop_oneof![Just(0u64), 0..5_000u64, 0..3_000_000u64, 0..3_000_000_000u64];
    let offset = prop_oneof![0..1u64 << 40, 0..1u64 << 16];
    let arrive = (any::<bool>(), offset, prop_oneof![1..70_000u32, 1..=u32::MAX, Just(4096), Just(4097)]);
    let what = prop_oneof![
        4 => arrive.prop_map(|(read, offset, size)| Event::Arrive(read, offset, size)),
        3 => any::<prop::sample::Index>().prop_map(Event::Complete),
        1 => any::<prop::sample::Index>().prop_map(Event::Withdraw),
    ];
    (gap, what)
}

proptest! {
    #[test]
    fn agrees_with_the_slow_model(inflection_ns in 0..4_000_000u64, events in prop::collection::vec(event(), 0..120)) {
        let mut inflight = InflightTracker::new(inflection_ns);
        let mut slow = SlowInflightTracker::new(inflection_ns);
        let (mut now, mut places) = (0u64, Vec::new());
        for (gap, event) in events {
            now += gap;
            let (offset, size) = (now.wrapping_mul(0x9e37_79b9) >> 8, (now % 300_000) as u32 + 1);
            prop_assert_eq!(inflight.describe(Schema::Linnet1, now, offset, size), slow.describe(now, offset, size));
            let near = offset & 0xffff;
            prop_assert_eq!(inflight.describe(Schema::Linnet2, now, near, size), slow.describe2(now, near, size));
            match event {
                Event::Arrive(read, offset_bytes, size_bytes) => {
                    let op = if read { Op::Read } else { Op::Write };
                    let place = inflight.arrive(now, &Request::new(op, offset_bytes, size_bytes));
                    places.push((slow.arrive(now, read, offset_bytes, size_bytes), place));
                }
                Event::Complete(index) if !places.is_empty() => {
                    let (id, place) = places.swap_remove(index.index(places.len()));
                    inflight.complete(place, now);
                    inflight.complete(place, now);
                    slow.complete(id, now);
                }
                Event::Withdraw(index) if !places.is_empty() => {
                    let (id, place) = places.swap_remove(index.index(places.len()));
                    inflight.withdraw(place);
                    slow.withdraw(id);
                }
                _ => {}
            }
            prop_assert_eq!(inflight.in_flight(), slow.live.len());
        }
    }

    #[test]
    fn buckets_never_fall_and_keep_a_quarter_octave(value in any::<u64>(), more in 0..1u64 << 20) {
        prop_assert!(bucket(value) <= bucket(value.saturating_add(more)) && bucket(value) <= BUCKET_MAX);
        prop_assert_eq!(bucket(value), common::inflight::bucket(value));
        if (4..1 << 16).contains(&value) {
            prop_assert!(bucket(value * 5 / 4 + 1) > bucket(value) && bucket(value * 2) == bucket(value) + 4);
        }
    }

    #[test]
    fn the_score_is_the_base_and_one_leaf_of_each_tree(
        parts in prop::collection::vec((any::<[u8; 3]>(), any::<[u8; 3]>(), any::<[i16; 8]>()), 0..=TREES),
        base in -(1 << 30)..=1i32 << 30,
        features in any::<[u8; INFLIGHT_FEATURES]>(),
    ) {
        let features = features.map(|x| x & 63);
        let trees: Vec<Tree> = parts
            .iter()
            .map(|(f, t, leaf)| Tree { feature: f.map(|x| x & 15), threshold: t.map(|x| x & 63), leaf: *leaf })
            .collect();
        let mut expected = i64::from(base);
        for tree in &trees {
            let bit = |k: usize| usize::from(features[tree.feature[k] as usize] > tree.threshold[k]);
            expected += i64::from(tree.leaf[bit(0) + 2 * bit(1) + 4 * bit(2)]);
        }
        let made = Trees::new(&trees, base).expect("in range");
        prop_assert_eq!(i64::from(made.score(&features)), expected);
        prop_assert_eq!((0..trees.len()).map(|k| made.tree(k).expect("there")).collect::<Vec<_>>(), trees);
    }
}

/// Writes a line with the features of a read that would be submitted now.
fn describe(text: &mut String, slow: &SlowInflightTracker, now: u64, offset: u64, size: u32) {
    let features = slow.describe(now, offset, size).map(|f| format!("{f:x}")).join(" ");
    writeln!(text, "describe {now:x} {offset:x} {size:x} {features}").unwrap();
}

/// A read with exactly the latency of the inflection point, and one that takes a nanosecond more, with a write before
/// each.
fn around_the_inflection_point(text: &mut String) {
    const INFLECTION_NS: u64 = 1_000_000;
    writeln!(text, "\nstart {INFLECTION_NS:x}").unwrap();
    let mut slow = SlowInflightTracker::new(INFLECTION_NS);
    for (at_ns, latency_ns) in [(0, INFLECTION_NS - 1), (5_000_000, INFLECTION_NS), (9_000_000, INFLECTION_NS + 1)] {
        for (read, offset, size) in [(false, 0, 8192), (true, 4096, 4096)] {
            let io = slow.arrive(at_ns, read, offset, size);
            writeln!(text, "arrive {io:x} {at_ns:x} {} {offset:x} {size:x}", u8::from(!read)).unwrap();
        }
        let (io, done_ns) = (slow.live[slow.live.len() - 1].id, at_ns + latency_ns);
        slow.complete(io, done_ns);
        writeln!(text, "complete {io:x} {done_ns:x}").unwrap();
        describe(text, &slow, done_ns + 100_000, 0, 4096);
    }
    for inflection_ns in [0, 1, INFLECTION_NS, u64::MAX] {
        for latency_ns in [0, 1, INFLECTION_NS - 1, INFLECTION_NS, INFLECTION_NS + 1, u64::MAX] {
            let slow = u8::from(latency_ns > inflection_ns);
            writeln!(text, "label {latency_ns:x} {inflection_ns:x} {slow}").unwrap();
        }
    }
}

/// Limits: a latency above the cap of averages, which then fades, and a read with more pages than the rate is
/// multiplied by.
fn at_the_ends(text: &mut String) {
    writeln!(text, "\nstart {:x}", u64::MAX).unwrap();
    let (mut slow, mut now) = (SlowInflightTracker::new(u64::MAX), 0);
    for latency_ns in [3 << 40].into_iter().chain([100_000; 40]) {
        let io = slow.arrive(now, true, 0, 4096);
        writeln!(text, "arrive {io:x} {now:x} 0 0 1000").unwrap();
        now += latency_ns;
        slow.complete(io, now);
        writeln!(text, "complete {io:x} {now:x}").unwrap();
        describe(text, &slow, now, 4096, 4096);
    }
    writeln!(text, "start 0").unwrap();
    slow = SlowInflightTracker::new(0);
    let io = slow.arrive(now, false, 0, 64 * 4096);
    writeln!(text, "arrive {io:x} {now:x} 1 0 40000").unwrap();
    slow.complete(io, now + 64_000);
    writeln!(text, "complete {io:x} {:x}", now + 64_000).unwrap();
    for size in [65_534 * 4096, 65_535 * 4096, 65_536 * 4096, u32::MAX] {
        describe(text, &slow, now + 64_000, 0, size);
    }
}

/// Random events: bursts, stalls, I/Os of all sizes.
fn drawn(text: &mut String, case: u64, chance: &mut Chance) {
    let inflection_ns = [200_000, 0, 3_000_000, u64::MAX][case as usize % 4];
    writeln!(text, "\nstart {inflection_ns:x}").unwrap();
    let (mut slow, mut now) = (SlowInflightTracker::new(inflection_ns), 1_000_000 * case);
    for _ in 0..60 {
        now += [0, chance.below(3_000), chance.below(60_000), chance.below(400_000)][chance.below(4) as usize];
        if chance.happens(0.04) {
            now += chance.below(4_000_000_000);
        }
        let reach = [1 << 40, 1 << 24, 1 << 16][chance.below(3) as usize];
        let (offset, size) = (chance.below(reach), 1 + chance.below(300_000) as u32);
        if chance.happens(0.5) {
            describe(text, &slow, now, offset, size);
        }
        if slow.live.is_empty() || chance.happens(0.55) {
            // An I/O without pages: a flush that a device counts as a write.
            let (read, size) = match chance.below(8) {
                0 => (false, 0),
                1 => (true, [u32::MAX, 1, 4096, 4097][chance.below(4) as usize]),
                _ => (chance.happens(0.7), size),
            };
            let io = slow.arrive(now, read, offset, size);
            writeln!(text, "arrive {io:x} {now:x} {} {offset:x} {size:x}", u8::from(!read)).unwrap();
            continue;
        }
        let io = slow.live[chance.below(slow.live.len() as u64) as usize].id;
        if chance.happens(0.15) {
            slow.withdraw(io);
            writeln!(text, "withdraw {io:x}").unwrap();
        } else {
            slow.complete(io, now);
            writeln!(text, "complete {io:x} {now:x}").unwrap();
        }
    }
}

/// Reads and writes of few pages, of which several are in flight on the same one, and pages with the same hash.
fn same_pages(text: &mut String, chance: &mut Chance) {
    writeln!(text, "\nstart f4240").unwrap();
    let (mut slow, mut now) = (SlowInflightTracker::new(1_000_000), 0);
    for turn in 0..60 {
        now += chance.below(20_000);
        let (offset, size) = (4096 * chance.below(if turn < 40 { 6 } else { 200 }) + chance.below(4096), 4096);
        let features = slow.describe2(now, offset, size).map(|f| format!("{f:x}")).join(" ");
        writeln!(text, "describe2 {now:x} {offset:x} {size:x} {features}").unwrap();
        describe(text, &slow, now, offset, size);
        if slow.live.len() < 4 || chance.happens(0.7) {
            let read = chance.happens(0.8);
            let io = slow.arrive(now, read, offset, size);
            writeln!(text, "arrive {io:x} {now:x} {} {offset:x} {size:x}", u8::from(!read)).unwrap();
            continue;
        }
        let io = slow.live[chance.below(slow.live.len() as u64) as usize].id;
        if chance.happens(0.3) {
            slow.withdraw(io);
            writeln!(text, "withdraw {io:x}").unwrap();
        } else {
            slow.complete(io, now);
            writeln!(text, "complete {io:x} {now:x}").unwrap();
        }
    }
}

#[test]
fn vectors() {
    let mut text = format!(
        "{SPDX}# Events on one in-flight tracker, in order; numbers in hex. `start` begins again.\n\
         # start INFLECTION_NS / arrive IO NOW_NS OP OFFSET SIZE (OP: 0 read, 1 write) / complete IO NOW_NS / withdraw IO\n\
         # describe NOW_NS OFFSET SIZE F x 16 (describe2: in linnet-2) / label LATENCY_NS INFLECTION_NS SLOW\n"
    );
    around_the_inflection_point(&mut text);
    at_the_ends(&mut text);
    let mut chance = Chance::new(16);
    (0..8).for_each(|case| drawn(&mut text, case, &mut chance));
    same_pages(&mut text, &mut chance);
    keep("inflight.txt", &text);

    let (mut inflight, mut places, mut checked) = (InflightTracker::default(), HashMap::new(), 0);
    for line in lines(&text) {
        let n: Vec<u64> = line[1..].iter().map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
        match line[0] {
            "start" => inflight = InflightTracker::new(n[0]),
            "arrive" => {
                let op = if n[2] == 0 { Op::Read } else { Op::Write };
                let request = Request::new(op, n[3], n[4] as u32);
                places.insert(n[0], inflight.arrive(n[1], &request));
            }
            "complete" => inflight.complete(places.remove(&n[0]).unwrap(), n[1]),
            "withdraw" => inflight.withdraw(places.remove(&n[0]).unwrap()),
            "describe" | "describe2" => {
                let expected: Vec<u8> = n[3..].iter().map(|&f| f as u8).collect();
                let schema = if line[0] == "describe" { Schema::Linnet1 } else { Schema::Linnet2 };
                assert_eq!(inflight.describe(schema, n[0], n[1], n[2] as u32).to_vec(), expected, "{line:?}");
                checked += 1;
            }
            _ => assert_eq!(u64::from(is_slow(n[0], n[1])), n[2], "{line:?}"),
        }
    }
    assert!(checked > 100);
}

#[test]
fn the_scale_begins_as_documented() {
    let firsts: Vec<u64> = (0..15).map(|b| (0..).find(|&v| bucket(v) == b).expect("reached")).collect();
    assert_eq!(firsts, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24]);
    assert_eq!((bucket(114_687), bucket(114_688), bucket(u64::MAX)), (62, 63, 63));
}

#[test]
fn trees_out_of_range_are_refused() {
    let bad = [Tree { feature: [0, 16, 0], ..Tree::default() }, Tree { threshold: [0, 0, 64], ..Tree::default() }];
    for tree in bad {
        assert!(Trees::new(&[tree], 0).expect_err("refused").to_string().contains("above"));
    }
    assert!(Trees::new(&[], (1 << 30) + 1).is_err());
    assert!(Trees::new(&[Tree::default(); TREES + 1], 0).expect_err("refused").to_string().contains("65 trees"));
}
