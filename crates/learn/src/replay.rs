// SPDX-License-Identifier: MIT OR Apache-2.0
//! Visits a recorded device's arrivals and completions in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linnet_types::IoRecord;

/// An event; the number is the record's index in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The I/O reaches the device.
    Arrive(usize),
    /// The device completes the I/O.
    Complete(usize),
}

/// Visits arrivals and completions of one device's records, which may come in any order. At equal times completions
/// precede arrivals (`spec/features.md`). Arrivals at one time are in the order of the input, completions at one time
/// in the order of arrival.
///
/// The completion of a record without a latency is unknown. It would be pending for ever, and its end must not be
/// guessed, so it is skipped.
pub fn in_time_order(records: &[IoRecord], mut visit: impl FnMut(Event)) {
    let mut order: Vec<usize> = (0..records.len()).filter(|&i| records[i].latency_ns.is_some()).collect();
    order.sort_by_key(|&i| records[i].arrive_ns);
    let mut pending = BinaryHeap::new();
    for (turn, &index) in order.iter().enumerate() {
        let record = &records[index];
        while let Some(&Reverse((done_ns, _, done))) = pending.peek()
            && done_ns <= record.arrive_ns
        {
            pending.pop();
            visit(Event::Complete(done));
        }
        visit(Event::Arrive(index));
        let done_ns = record.arrive_ns.saturating_add(record.latency_ns.unwrap_or(0));
        pending.push(Reverse((done_ns, turn, index)));
    }
    while let Some(Reverse((_, _, done))) = pending.pop() {
        visit(Event::Complete(done));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_types::Op;
    use proptest::prelude::*;

    fn record(arrive_ns: u64, latency_ns: Option<u64>) -> IoRecord {
        IoRecord { latency_ns, ..IoRecord::new(arrive_ns, Op::Read, 0, 4096) }
    }

    fn events(records: &[IoRecord]) -> Vec<Event> {
        let mut events = Vec::new();
        in_time_order(records, |event| events.push(event));
        events
    }

    #[test]
    fn completions_come_first_at_equal_times() {
        use Event::{Arrive, Complete};
        let records = [record(10, Some(5)), record(0, Some(10)), record(5, None), record(0, Some(0))];
        let expected = [Arrive(1), Arrive(3), Complete(3), Complete(1), Arrive(0), Complete(0)];
        assert_eq!(events(&records), expected);
    }

    proptest! {
        #[test]
        fn each_known_io_arrives_and_completes_once_in_order(
            ios in prop::collection::vec((0u64..50, prop::option::of(0u64..50)), 0..60)
        ) {
            let records: Vec<IoRecord> = ios.iter().map(|&(a, l)| record(a, l)).collect();
            let mut arrived = vec![0; ios.len()];
            let mut completed = vec![0; ios.len()];
            let mut clock = 0;
            for event in events(&records) {
                let at = match event {
                    Event::Arrive(i) => {
                        arrived[i] += 1;
                        // Everything that has completed by now has been visited.
                        for (k, r) in records.iter().enumerate() {
                            let done = r.arrive_ns + r.latency_ns.unwrap_or(0);
                            let before = arrived[k] == 1 && completed[k] == 0 && k != i;
                            prop_assert!(!(before && done < records[i].arrive_ns));
                        }
                        records[i].arrive_ns
                    }
                    Event::Complete(i) => {
                        completed[i] += 1;
                        prop_assert_eq!(arrived[i], 1);
                        records[i].arrive_ns + records[i].latency_ns.unwrap()
                    }
                };
                prop_assert!(at >= clock);
                clock = at;
            }
            let known: Vec<i32> = ios.iter().map(|io| i32::from(io.1.is_some())).collect();
            prop_assert_eq!(&arrived, &known);
            prop_assert_eq!(&completed, &known);
        }
    }
}
