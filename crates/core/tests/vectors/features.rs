// SPDX-License-Identifier: MIT OR Apache-2.0
//! `features.txt`: the 31 digits of reads.

use std::fmt::Write as _;

use linnet_core::Tracker;
use linnet_sim::Chance;
use linnet_types::Op;

use super::text::digits_text;
use crate::common::{SPDX, Slow, keep, lines};

#[test]
fn features() {
    let mut text = format!(
        "{SPDX}# Events on one tracker, in order; numbers in hex. `start` begins again.\n\
         # arrive SIZE SNAPSHOT / read SIZE LATENCY_NS SNAPSHOT / write SIZE / withdraw SIZE / digits SNAPSHOT DIGITS\n"
    );
    let mut chance = Chance::new(31);
    for case in 0..6u64 {
        writeln!(text, "\nstart").unwrap();
        let (mut slow, mut live) = (Slow::default(), Vec::new());
        for _ in 0..40 {
            if live.is_empty() || chance.happens(0.55) {
                let op = if chance.happens(0.7) { Op::Read } else { Op::Write };
                let size = match case {
                    0 => 4096,
                    1 => [1, 511, 512, 4095, 4096, 4097, 8192][chance.below(7) as usize],
                    2 => 1 << 20,
                    3 => 512 * (1 + chance.below(256) as u32),
                    4 => 32 << 20,
                    _ => 1 + chance.below(70_000) as u32,
                };
                slow.pending.push(size);
                let snapshot = slow.pages();
                writeln!(text, "arrive {size:x} {snapshot:x}").unwrap();
                writeln!(text, "digits {snapshot:x} {}", digits_text(&slow.digits(snapshot))).unwrap();
                live.push((op, size, snapshot));
                continue;
            }
            let (op, size, snapshot) = live.swap_remove(chance.below(live.len() as u64) as usize);
            slow.leave(size);
            if chance.happens(0.15) {
                writeln!(text, "withdraw {size:x}").unwrap();
            } else if op == Op::Write {
                writeln!(text, "write {size:x}").unwrap();
            } else {
                let latency_ns = match chance.below(8) {
                    0 => 999,
                    1 => 9_999_999,
                    2 => 10_000_000,
                    3 => u64::MAX,
                    _ => chance.below(3_000_000),
                };
                writeln!(text, "read {size:x} {latency_ns:x} {snapshot:x}").unwrap();
                slow.reads.push((snapshot, latency_ns));
            }
        }
    }
    keep("features.txt", &text);

    let (mut tracker, mut checked) = (Tracker::new(), 0);
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    for line in lines(&text) {
        match line[..] {
            ["start"] => tracker = Tracker::new(),
            ["arrive", size, snapshot] => {
                assert_eq!(u64::from(tracker.arrive(number(size) as u32)), number(snapshot));
            }
            ["read", size, latency_ns, snapshot] => {
                tracker.complete(Op::Read, number(size) as u32, number(latency_ns), number(snapshot) as u32);
            }
            ["write", size] => tracker.complete(Op::Write, number(size) as u32, 0, 0),
            ["withdraw", size] => tracker.withdraw(number(size) as u32),
            ["digits", snapshot, digits] => {
                assert_eq!(digits_text(&tracker.digits(number(snapshot) as u32)), digits);
                checked += 1;
            }
            _ => panic!("{line:?}"),
        }
    }
    assert!(checked > 100);
}
