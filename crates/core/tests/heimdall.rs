// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the features of Heimdall with a slow model that keeps every I/O, and writes and checks their golden
//! vectors.
//!
//! `LINNET_WRITE_VECTORS=1 cargo test -p linnet-core --test tests heimdall` writes them again.

use std::fmt::Write as _;

use crate::common::{SPDX, keep, lines};
use linnet_core::{HEIMDALL_FEATURES, HEIMDALL_INPUTS, Heimdall, HeimdallScale, throughput};
use linnet_sim::Chance;
use linnet_types::Op;
use proptest::prelude::*;

/// Counts the I/Os in flight and keeps every completed read: snapshot, latency, size.
#[derive(Default)]
struct Slow {
    in_flight: u32,
    reads: Vec<(u32, u64, u32)>,
}

fn capped(value: u128) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Slow {
    fn features(&self, snapshot: u32, size: u32) -> [u32; HEIMDALL_FEATURES] {
        let mut features = [0; HEIMDALL_FEATURES];
        (features[0], features[1]) = (size, snapshot);
        for (i, &(queue, latency_ns, size)) in self.reads.iter().rev().take(3).enumerate() {
            features[2 + i] = queue;
            features[5 + i] = capped(u128::from(latency_ns));
            features[8 + i] = capped(u128::from(size) * 1_000_000 / u128::from(latency_ns.max(1)));
        }
        features
    }
}

fn scaled(value: u32, least: u32, most: u32) -> u128 {
    let range = u128::from(most - least);
    let factor = if range == 0 { 0 } else { (65535u128 << 32).div_ceil(range) };
    (u128::from(value.clamp(least, most) - least) * factor) >> 32
}

fn hex<N: Copy + Into<u64>>(numbers: &[N]) -> String {
    numbers.iter().map(|&n| format!("{:x}", n.into())).collect::<Vec<_>>().join(" ")
}

#[test]
fn vectors() {
    let mut text = format!(
        "{SPDX}# Events on one tracker of heimdall-11, in order; numbers in hex. `start` begins again.\n\
         # arrive SNAPSHOT / read SIZE LATENCY_NS SNAPSHOT / leave / features SNAPSHOT SIZE F x 11\n\
         # scale LEAST x 11 MOST x 11 / inputs F x 11 INPUT x 22\n"
    );
    let mut chance = Chance::new(11);
    for case in 0..4u64 {
        writeln!(text, "\nstart").unwrap();
        let (mut slow, mut live, mut rows) = (Slow::default(), Vec::new(), Vec::new());
        for _ in 0..30 {
            if live.is_empty() || chance.happens(0.55) {
                let size = [4096, 1 + chance.below(70_000) as u32, u32::MAX, 512][case as usize];
                slow.in_flight += 1;
                let features = slow.features(slow.in_flight, size);
                writeln!(text, "arrive {:x}", slow.in_flight).unwrap();
                writeln!(text, "features {:x} {size:x} {}", slow.in_flight, hex(&features)).unwrap();
                rows.push(features);
                live.push((chance.happens(0.7), size, slow.in_flight));
                continue;
            }
            let (is_read, size, snapshot) = live.swap_remove(chance.below(live.len() as u64) as usize);
            slow.in_flight -= 1;
            if !is_read || chance.happens(0.1) {
                writeln!(text, "leave").unwrap();
            } else {
                let latency_ns = [0, 1, u64::MAX, 5 << 32, chance.below(3_000_000)][chance.below(5) as usize];
                writeln!(text, "read {size:x} {latency_ns:x} {snapshot:x}").unwrap();
                slow.reads.push((snapshot, latency_ns, size));
            }
        }
        let bound = |f: fn(u32, u32) -> u32| {
            let mut row = rows[0];
            rows[..rows.len() / 2].iter().for_each(|r| (0..row.len()).for_each(|k| row[k] = f(row[k], r[k])));
            row
        };
        let (least, most) = (bound(u32::min), bound(u32::max));
        writeln!(text, "scale {} {}", hex(&least), hex(&most)).unwrap();
        for row in &rows {
            let bytes: Vec<u32> = (0..HEIMDALL_FEATURES)
                .map(|k| scaled(row[k], least[k], most[k]) as u32)
                .flat_map(|x| [x >> 8, x & 255])
                .collect();
            writeln!(text, "inputs {} {}", hex(row), hex(&bytes)).unwrap();
        }
    }
    keep("heimdall.txt", &text);

    let (mut tracker, mut scale, mut checked) = (Heimdall::new(), HeimdallScale::default(), 0);
    for line in lines(&text) {
        let n: Vec<u64> = line[1..].iter().map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
        let row = |from: usize| std::array::from_fn::<u32, HEIMDALL_FEATURES, _>(|k| n[from + k] as u32);
        match line[0] {
            "start" => tracker = Heimdall::new(),
            "arrive" => assert_eq!(u64::from(tracker.arrive()), n[0]),
            "leave" => tracker.complete(Op::Write, 0, 0, 0),
            "read" => tracker.complete(Op::Read, n[0] as u32, n[1], n[2] as u32),
            "features" => {
                assert_eq!(tracker.features(n[0] as u32, n[1] as u32), row(2));
                checked += 1;
            }
            "scale" => scale = HeimdallScale::new(&row(0), &row(HEIMDALL_FEATURES)).unwrap(),
            _ => {
                let expected: Vec<u8> = n[HEIMDALL_FEATURES..].iter().map(|&x| x as u8).collect();
                assert_eq!(scale.inputs(&row(0)).to_vec(), expected);
                checked += 1;
            }
        }
    }
    assert!(checked > 100);
}

proptest! {
    #[test]
    fn agrees_with_the_slow_model(
        events in prop::collection::vec((0..8u8, any::<prop::sample::Index>(), any::<u32>(), any::<u64>()), 0..200)
    ) {
        let (mut tracker, mut slow, mut live) = (Heimdall::new(), Slow::default(), Vec::new());
        for (kind, at, size, latency_ns) in events {
            if kind < 4 || live.is_empty() {
                slow.in_flight += 1;
                let snapshot = tracker.arrive();
                prop_assert_eq!(snapshot, slow.in_flight);
                prop_assert_eq!(tracker.features(snapshot, size), slow.features(snapshot, size));
                live.push((size, snapshot));
                continue;
            }
            let (size, snapshot) = live.swap_remove(at.index(live.len()));
            slow.in_flight -= 1;
            match kind {
                4 => tracker.withdraw(),
                5 => tracker.complete(Op::Write, size, latency_ns, snapshot),
                _ => {
                    tracker.complete(Op::Read, size, latency_ns, snapshot);
                    slow.reads.push((snapshot, latency_ns, size));
                    let rate = slow.features(0, 0)[8];
                    prop_assert_eq!(throughput(size, latency_ns), rate);
                }
            }
            prop_assert_eq!(tracker.in_flight(), slow.in_flight);
        }
    }

    #[test]
    fn scaling_keeps_order_and_meets_its_ends(
        bounds in prop::array::uniform11((any::<u32>(), any::<u32>())),
        values in prop::array::uniform11((any::<u32>(), any::<u32>())),
    ) {
        let (least, most) = (bounds.map(|(a, b)| a.min(b)), bounds.map(|(a, b)| a.max(b)));
        let scale = HeimdallScale::new(&least, &most).unwrap();
        let joined = |row: &[u32; HEIMDALL_FEATURES]| -> Vec<u128> {
            let inputs: [u8; HEIMDALL_INPUTS] = scale.inputs(row);
            inputs.chunks(2).map(|b| u128::from(b[0]) << 8 | u128::from(b[1])).collect()
        };
        let (a, b) = (joined(&values.map(|(a, b)| a.min(b))), joined(&values.map(|(a, b)| a.max(b))));
        for k in 0..HEIMDALL_FEATURES {
            prop_assert!(a[k] <= b[k]);
            prop_assert_eq!(a[k], scaled(values[k].0.min(values[k].1), least[k], most[k]));
            prop_assert_eq!(joined(&most)[k], if most[k] > least[k] { 65535 } else { 0 });
            prop_assert_eq!(joined(&least)[k], 0);
        }
        let turned = HeimdallScale::new(&most, &least);
        prop_assert_eq!(turned.is_err(), bounds.iter().any(|(a, b)| a != b));
        prop_assert_eq!(HeimdallScale::of([&least, &most]), scale);
    }
}

#[test]
fn scaling_is_exact_around_powers_of_two() {
    for bit in 0..32 {
        for range in [(1 << bit) - 1, 1 << bit, (2u32 << bit).wrapping_sub(1)] {
            for least in [0, 1.min(u32::MAX - range), u32::MAX - range] {
                let most = least + range;
                let scale = HeimdallScale::new(&[least; HEIMDALL_FEATURES], &[most; HEIMDALL_FEATURES]).unwrap();
                for value in [0, least, least + range / 2, most.saturating_sub(1), most, u32::MAX] {
                    let inputs = scale.inputs(&[value; HEIMDALL_FEATURES]);
                    let expected = scaled(value, least, most) as u16;
                    assert!(inputs.chunks(2).all(|pair| pair == expected.to_be_bytes()), "{value} in {least}..={most}");
                }
            }
        }
    }
}

#[test]
fn bounds_of_each_feature_are_checked() {
    for k in 0..HEIMDALL_FEATURES {
        let mut most = [7; HEIMDALL_FEATURES];
        assert!(HeimdallScale::new(&[7; HEIMDALL_FEATURES], &most).is_ok());
        most[k] = 6;
        assert!(HeimdallScale::new(&[7; HEIMDALL_FEATURES], &most).is_err(), "feature {k}");
    }
}

#[test]
fn counts_stop_at_zero() {
    let mut tracker = Heimdall::new();
    tracker.withdraw();
    assert_eq!(tracker.in_flight(), 0);
}
