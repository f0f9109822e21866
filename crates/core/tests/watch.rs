// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watch against a slow model that keeps every I/O, and the trees against their definition.

use linnet_core::{BUCKET_MAX, TREES, Tree, Trees, WATCH_FEATURES, Watch, bucket};
use linnet_types::{Op, Request};
use proptest::prelude::*;

/// Everything that ever happened, with ends by the order in which they came.
#[derive(Default)]
struct Slow {
    inflection_ns: u64,
    live: Vec<Io>,
    done: Vec<(Io, u64)>,
    arrived: Vec<Io>,
    slow: Option<(u64, u64)>,
}

#[derive(Clone, Copy)]
struct Io {
    id: usize,
    at_ns: u64,
    read: bool,
    offset: u64,
    size: u32,
    ahead: u64,
}

fn pages(size: u32) -> u64 {
    u64::from(size).div_ceil(4096)
}

fn time(ns: u64) -> u8 {
    bucket(ns / 2048)
}

/// A moving average that starts with its first value, in integers as the specification has it.
fn average(values: impl Iterator<Item = u64>, shift: u32) -> u64 {
    let mut kept = 0u64;
    for value in values {
        kept = if kept == 0 { value << shift } else { kept + value - (kept >> shift) };
    }
    kept >> shift
}

impl Slow {
    fn written(&self) -> u64 {
        self.arrived.iter().filter(|io| !io.read).map(|io| pages(io.size)).sum()
    }

    fn all_pages(&self) -> u64 {
        self.live.iter().map(|io| pages(io.size)).sum()
    }

    fn describe(&self, now: u64, offset: u64, size: u32) -> [u8; WATCH_FEATURES] {
        let reads: Vec<&Io> = self.live.iter().filter(|io| io.read).collect();
        let ages: Vec<u64> = reads.iter().map(|io| now - io.at_ns).collect();
        let done: Vec<(u64, u64)> =
            self.done.iter().filter(|(io, _)| io.read).map(|&(io, at)| (at, at - io.at_ns)).collect();
        let last = self.arrived.iter().rfind(|io| io.read);
        let ago = |k: usize| done.len().checked_sub(k).map_or(BUCKET_MAX, |i| time(now - done[i].0));
        let page_ns = average(self.done.iter().map(|(io, at)| ((at - io.at_ns) << 4) / io.ahead.max(1)), 4);
        let end = last.map_or(0, |io| io.offset + u64::from(io.size));
        [
            bucket(pages(size)),
            bucket(reads.len() as u64),
            bucket((self.live.len() - reads.len()) as u64),
            bucket(reads.iter().map(|io| pages(io.size)).sum()),
            time(ages.iter().copied().max().unwrap_or(0)),
            time(ages.iter().sum()),
            ago(1),
            last.map_or(BUCKET_MAX, |io| time(now - io.at_ns)),
            if done.len() < 4 { 0 } else { time(done[done.len() - 4..].iter().map(|d| d.1).min().unwrap_or(0)) },
            time(average(done.iter().map(|d| d.1), 2)),
            time(average(done.iter().map(|d| d.1), 5)),
            ago(8),
            bucket(offset.abs_diff(end) / 4096),
            time((page_ns * (self.all_pages() + pages(size)).min(65535)) >> 4),
            self.slow.map_or(BUCKET_MAX, |(at, _)| bucket((now - at) / 32768)),
            bucket(self.written() - self.slow.map_or(0, |(_, written)| written)),
        ]
    }
}

#[derive(Clone, Debug)]
enum Event {
    Arrive(bool, u64, u32),
    Complete(prop::sample::Index),
    Withdraw(prop::sample::Index),
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let gap = prop_oneof![Just(0u64), 0..5_000u64, 0..3_000_000u64, 0..3_000_000_000u64];
    let arrive = (any::<bool>(), 0..1u64 << 40, prop_oneof![1..70_000u32, 1..=u32::MAX, Just(4096), Just(4097)]);
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
        let mut watch = Watch::new(inflection_ns);
        let mut slow = Slow { inflection_ns, ..Slow::default() };
        let (mut now, mut places) = (0u64, Vec::new());
        for (gap, event) in events {
            now += gap;
            let (offset, size) = (now.wrapping_mul(0x9e37_79b9) >> 8, (now % 300_000) as u32 + 1);
            prop_assert_eq!(watch.describe(now, offset, size), slow.describe(now, offset, size));
            match event {
                Event::Arrive(read, offset_bytes, size_bytes) => {
                    let op = if read { Op::Read } else { Op::Write };
                    let place = watch.arrive(now, &Request { offset_bytes, size_bytes, op });
                    let ahead = slow.all_pages() + pages(size_bytes);
                    let io = Io { id: slow.arrived.len(), at_ns: now, read, offset: offset_bytes, size: size_bytes, ahead };
                    slow.arrived.push(io);
                    slow.live.push(io);
                    places.push((io.id, place));
                }
                Event::Complete(index) if !places.is_empty() => {
                    let (id, place) = places.swap_remove(index.index(places.len()));
                    watch.complete(place, now);
                    watch.complete(place, now);
                    let at = slow.live.iter().position(|io| io.id == id).expect("live");
                    let io = slow.live.remove(at);
                    slow.done.push((io, now));
                    if io.read && now - io.at_ns > slow.inflection_ns {
                        slow.slow = Some((now, slow.written()));
                    }
                }
                Event::Withdraw(index) if !places.is_empty() => {
                    let (id, place) = places.swap_remove(index.index(places.len()));
                    watch.withdraw(place);
                    slow.live.retain(|io| io.id != id);
                }
                _ => {}
            }
            prop_assert_eq!(watch.in_flight(), slow.live.len());
        }
    }

    #[test]
    fn buckets_never_fall_and_keep_a_quarter_octave(value in any::<u64>(), more in 0..1u64 << 20) {
        prop_assert!(bucket(value) <= bucket(value.saturating_add(more)) && bucket(value) <= BUCKET_MAX);
        if (4..1 << 16).contains(&value) {
            prop_assert!(bucket(value * 5 / 4 + 1) > bucket(value) && bucket(value * 2) == bucket(value) + 4);
        }
    }

    #[test]
    fn the_score_is_the_base_and_one_leaf_of_each_tree(
        parts in prop::collection::vec((any::<[u8; 3]>(), any::<[u8; 3]>(), any::<[i16; 8]>()), 0..=TREES),
        base in -(1 << 30)..=1i32 << 30,
        features in any::<[u8; WATCH_FEATURES]>(),
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
