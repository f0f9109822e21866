// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the tracker with a slow model that keeps every I/O and prints numbers as text.

use crate::common::Slow;
use linnet_core::Tracker;
use linnet_types::Op;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Arrive(Op, u32),
    Complete(prop::sample::Index, u64),
    Withdraw(prop::sample::Index),
}

fn event() -> impl Strategy<Value = Event> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write)];
    let size = prop_oneof![1..70_000u32, 1..=u32::MAX / 64, Just(4096), Just(4097)];
    let latency = prop_oneof![0..20_000_000u64, any::<u64>(), Just(999), Just(9_999_999), Just(10_000_000)];
    prop_oneof![
        4 => (op, size).prop_map(|(op, size)| Event::Arrive(op, size)),
        3 => (any::<prop::sample::Index>(), latency).prop_map(|(i, l)| Event::Complete(i, l)),
        1 => any::<prop::sample::Index>().prop_map(Event::Withdraw),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_slow_model(events in prop::collection::vec(event(), 0..200)) {
        let (mut tracker, mut slow, mut live) = (Tracker::new(), Slow::default(), Vec::new());
        for event in events {
            match event {
                Event::Arrive(op, size) => {
                    slow.pending.push(size);
                    let snapshot = tracker.arrive(size);
                    prop_assert_eq!(snapshot, slow.pages());
                    prop_assert_eq!(tracker.digits(snapshot).to_vec(), slow.digits(snapshot));
                    live.push((op, size, snapshot));
                }
                Event::Complete(at, latency_ns) if !live.is_empty() => {
                    let (op, size, snapshot) = live.swap_remove(at.index(live.len()));
                    tracker.complete(op, size, latency_ns, snapshot);
                    slow.leave(size);
                    if op.is_read() {
                        slow.reads.push((snapshot, latency_ns));
                    }
                }
                Event::Withdraw(at) if !live.is_empty() => {
                    let (_, size, _) = live.swap_remove(at.index(live.len()));
                    tracker.withdraw(size);
                    slow.leave(size);
                }
                _ => {}
            }
            prop_assert_eq!(tracker.pending_pages(), slow.pages());
            prop_assert_eq!(tracker.history_len() as usize, slow.reads.len().min(4));
        }
    }
}

#[test]
fn counts_stop_at_their_ends() {
    let mut tracker = Tracker::new();
    tracker.arrive(4096);
    tracker.withdraw(8192);
    assert_eq!(tracker.pending_pages(), 0);
    for _ in 0..5000 {
        tracker.arrive(u32::MAX);
    }
    assert_eq!(tracker.pending_pages(), u32::MAX);
}
