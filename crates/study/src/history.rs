// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows and networks with a history of more or fewer than LinnOS's four reads, to study its Table 3. Networks that
//! serve always use four.
//!
//! The core's tracker computes every digit, and keeps four reads. For a longer history, each completed read is given to
//! a new tracker as its only read, and the seven digits that describe it there are kept. With four the rows are those
//! of [`TrainingSet`](linnet_learn::TrainingSet).

use std::collections::VecDeque;

use linnet_core::{DIGITS, FloatNetwork, Network, Tracker, TrainOptions, train, train_f32};
use linnet_learn::{Error, Event, in_time_order, require};
use linnet_types::{IoRecord, Nanos, Op, is_slow};

/// Position of the newest read and of the pages outstanding in a tracker's digits.
const NEWEST_PAGES: std::ops::Range<usize> = 9..12;
const NOW: std::ops::Range<usize> = 12..15;
const NEWEST_LATENCY: std::ops::Range<usize> = 27..31;
/// Digits of one remembered read, and of the pages outstanding.
const DIGITS_A_READ: usize = 7;
const DIGITS_NOW: usize = 3;

/// Rows of one device with a history of any length, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HistorySet {
    /// Digits of a row: seven for each remembered read and three; 31 for four reads.
    pub inputs: usize,
    /// The rows: pages of the remembered reads from the oldest, pages now, latencies from the oldest.
    pub digits: Vec<u8>,
    /// The read took longer than the inflection point.
    pub slow: Vec<bool>,
}

impl HistorySet {
    /// Replays the records of one device and keeps the features that a tracker with this history, 1..=64 reads, would
    /// give for each read that arrived after as many reads had completed.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn from_records(records: &[IoRecord], history: usize, inflection_ns: Nanos) -> Result<HistorySet, Error> {
        require((1..=64).contains(&history), "history", history, "1 to 64 reads")?;
        let mut set = HistorySet { inputs: DIGITS_NOW + DIGITS_A_READ * history, ..HistorySet::default() };
        let mut tracker = Tracker::new();
        let mut known: VecDeque<[u8; DIGITS]> = VecDeque::with_capacity(history);
        let mut snapshots = vec![0u32; records.len()];
        in_time_order(records, |event| match event {
            Event::Arrive(index) => {
                let record = &records[index];
                snapshots[index] = tracker.arrive(record.size_bytes);
                if let (Op::Read, Some(latency_ns), true) = (record.op, record.latency_ns, known.len() == history) {
                    known.iter().for_each(|entry| set.digits.extend(&entry[NEWEST_PAGES]));
                    set.digits.extend(&tracker.digits(snapshots[index])[NOW]);
                    known.iter().for_each(|entry| set.digits.extend(&entry[NEWEST_LATENCY]));
                    set.slow.push(is_slow(latency_ns, inflection_ns));
                }
            }
            Event::Complete(index) => {
                let record = &records[index];
                let latency_ns = record.latency_ns.unwrap_or(0);
                tracker.complete(record.op, record.size_bytes, latency_ns, snapshots[index]);
                if record.op.is_read() {
                    if known.len() == history {
                        known.pop_front();
                    }
                    let mut alone = Tracker::new();
                    alone.complete(Op::Read, 0, latency_ns, snapshots[index]);
                    known.push_back(alone.digits(0));
                }
            }
        });
        Ok(set)
    }
}

/// Trains a network on rows of digits of any length, with LinnOS's training, and rounds it to three decimals.
///
/// # Errors
/// Those of the core.
pub fn train_rows(
    options: &TrainOptions,
    inputs: usize,
    digits: &[u8],
    slow: &[bool],
    progress: &mut dyn FnMut(usize, f32) -> bool,
) -> Result<Network, Error> {
    let float: FloatNetwork = if inputs == DIGITS {
        train(options, digits, slow, progress)?
    } else {
        let rows: Vec<f32> = digits.iter().map(|&digit| f32::from(digit)).collect();
        let targets: Vec<f32> = slow.iter().flat_map(|&slow| if slow { [0.0, 1.0] } else { [1.0, 0.0] }).collect();
        train_f32(options, inputs, &rows, 2, &targets, progress)?
    };
    Ok(float.quantise(3)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_learn::TrainingSet;

    fn records() -> Vec<IoRecord> {
        let mut chance = linnet_sim::Chance::new(4);
        let mut now = 0;
        (0..600)
            .map(|_| {
                now += chance.below(60_000);
                let latency_ns = Some(50_000 + chance.below(400_000));
                let size_bytes = 4096 * (1 + chance.below(300) as u32);
                let op = if chance.happens(0.7) { Op::Read } else { Op::Write };
                IoRecord { latency_ns, ..IoRecord::new(now, op, 0, size_bytes) }
            })
            .collect()
    }

    #[test]
    fn four_remembered_reads_are_the_rows_of_linnos() {
        let records = records();
        let set = HistorySet::from_records(&records, 4, 200_000).unwrap();
        let same = TrainingSet::from_records(&records, 200_000).unwrap();
        assert_eq!((set.inputs, set.slow.len()), (DIGITS, same.len()));
        assert_eq!((set.digits, set.slow), (same.digits, same.slow));
    }

    /// spec/decision.md: a latency equal to the inflection point is fast.
    #[test]
    fn a_read_that_takes_just_the_inflection_point_is_fast() {
        let latencies_ns = [100, 100, 100, 100, 300, 301, 100];
        let io = |(&latency_ns, i): (&Nanos, Nanos)| IoRecord {
            latency_ns: Some(latency_ns),
            ..IoRecord::new(1_000 * i, Op::Read, 0, 4096)
        };
        let records: Vec<IoRecord> = latencies_ns.iter().zip(0..).map(io).collect();
        assert_eq!(HistorySet::from_records(&records, 4, 300).unwrap().slow, [false, true, false]);
    }

    #[test]
    fn a_longer_history_ends_in_the_shorter_one() {
        let records = records();
        let long = HistorySet::from_records(&records, 10, 200_000).unwrap();
        let four = HistorySet::from_records(&records, 4, 200_000).unwrap();
        assert_eq!(long.inputs, 73);
        let (long, four): (Vec<_>, Vec<_>) = (long.digits.chunks(73).collect(), four.digits.chunks(31).collect());
        let late = four.len() - long.len();
        assert!(late > 0);
        for (a, b) in long.iter().zip(&four[late..]) {
            assert_eq!(a[18..33], b[..15], "pages of the last four and now");
            assert_eq!(a[57..], b[15..], "latencies of the last four");
        }
        assert!(HistorySet::from_records(&records, 0, 1).is_err());
    }

    #[test]
    fn digits_as_floats_train_to_the_same_network() {
        let records = records();
        let set = HistorySet::from_records(&records, 4, 200_000).unwrap();
        let options = TrainOptions { hidden: vec![8], epochs: 2, ..TrainOptions::default() };
        let own = train_rows(&options, set.inputs, &set.digits, &set.slow, &mut |_, _| true).unwrap();
        let rows: Vec<f32> = set.digits.iter().map(|&digit| f32::from(digit)).collect();
        let targets: Vec<f32> = set.slow.iter().flat_map(|&slow| [f32::from(!slow), f32::from(slow)]).collect();
        let same = train_f32(&options, DIGITS, &rows, 2, &targets, &mut |_, _| true).unwrap().quantise(3).unwrap();
        assert_eq!(own.layers(), same.layers());
    }
}
