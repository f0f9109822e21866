// SPDX-License-Identifier: MIT OR Apache-2.0
//! Training sets: the features that a device's model would have had for each read of a trace, and the read's outcome.

use linnet_core::{DIGITS, Tracker};
use linnet_types::{IoRecord, Nanos, Op, is_slow};

use crate::error::{Error, require};
use crate::inflection::slow_of;
use crate::replay::{Event, in_time_order};

/// Completed reads that the history of a row needs.
pub const HISTORY: u32 = 4;

/// Counts of records that gave no row, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Reads that arrived before four reads had completed. They do contribute to the features of later rows.
    pub warm_up: u64,
    /// Reads without a completion in the trace. They are also left out of the features: an I/O without an end would be
    /// pending for ever, and an end is not guessed. The pending counts of other rows lack them.
    pub reads_without_latency: u64,
    /// Writes without a completion in the trace; left out of the features in the same way.
    pub writes_without_latency: u64,
}

/// Rows of one device in the order of arrival, one for each read, never shuffled and never filtered by outcome.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TrainingSet {
    /// Features, 31 digits a row.
    pub digits: Vec<u8>,
    /// The label: the read took longer than the inflection point.
    pub slow: Vec<bool>,
    /// Latency of each read.
    pub latency_ns: Vec<Nanos>,
    /// Arrival time of each read.
    pub arrive_ns: Vec<Nanos>,
    /// Records that were left out. Both parts of a split have the counts of the whole.
    pub dropped: Dropped,
}

impl TrainingSet {
    /// Replays the records of one device, in any order, through the tracker that serves live reads, and keeps the
    /// features of each read at its arrival. Split a trace of several devices first; `device` of the records is
    /// ignored. I/Os that arrive at one time are taken in the order given: see [`without_ties`](crate::without_ties).
    ///
    /// # Errors
    /// [`Error::NoReads`] if no read has a latency.
    pub fn from_records(records: &[IoRecord], inflection_ns: Nanos) -> Result<Self, Error> {
        let mut set = TrainingSet::default();
        let mut reads = 0u64;
        for record in records {
            match (record.op, record.latency_ns) {
                (Op::Read, Some(_)) => reads += 1,
                (Op::Read, None) => set.dropped.reads_without_latency += 1,
                (Op::Write, None) => set.dropped.writes_without_latency += 1,
                (Op::Write, Some(_)) => {}
            }
        }
        if reads == 0 {
            return Err(Error::NoReads { records: records.len(), without: set.dropped.reads_without_latency });
        }
        set.reserve(reads as usize);
        let mut tracker = Tracker::new();
        let mut snapshots = vec![0u32; records.len()];
        in_time_order(records, |event| match event {
            Event::Arrive(index) => {
                let record = &records[index];
                let snapshot = tracker.arrive(record.size_bytes);
                snapshots[index] = snapshot;
                if let (Op::Read, Some(latency_ns)) = (record.op, record.latency_ns) {
                    if tracker.history_len() < HISTORY {
                        set.dropped.warm_up += 1;
                    } else {
                        set.push(&tracker.digits(snapshot), record.arrive_ns, latency_ns, inflection_ns);
                    }
                }
            }
            Event::Complete(index) => {
                let record = &records[index];
                let latency_ns = record.latency_ns.unwrap_or(0);
                tracker.complete(record.op, record.size_bytes, latency_ns, snapshots[index]);
            }
        });
        Ok(set)
    }

    fn reserve(&mut self, rows: usize) {
        self.digits.reserve_exact(rows * DIGITS);
        self.slow.reserve_exact(rows);
        self.latency_ns.reserve_exact(rows);
        self.arrive_ns.reserve_exact(rows);
    }

    /// Appends a row and labels it.
    ///
    /// # Panics
    /// If there are not 31 digits.
    pub fn push(&mut self, digits: &[u8], arrive_ns: Nanos, latency_ns: Nanos, inflection_ns: Nanos) {
        assert_eq!(digits.len(), DIGITS, "a row has 31 digits");
        self.digits.extend_from_slice(digits);
        self.slow.push(is_slow(latency_ns, inflection_ns));
        self.latency_ns.push(latency_ns);
        self.arrive_ns.push(arrive_ns);
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.slow.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.slow.is_empty()
    }

    /// The features of a row.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, index: usize) -> &[u8] {
        &self.digits[index * DIGITS..(index + 1) * DIGITS]
    }

    /// Appends the rows of another device.
    pub fn append(&mut self, other: TrainingSet) {
        self.digits.extend(other.digits);
        self.slow.extend(other.slow);
        self.latency_ns.extend(other.latency_ns);
        self.arrive_ns.extend(other.arrive_ns);
        self.dropped.warm_up += other.dropped.warm_up;
        self.dropped.reads_without_latency += other.dropped.reads_without_latency;
        self.dropped.writes_without_latency += other.dropped.writes_without_latency;
    }

    /// Labels every row again.
    pub fn relabel(&mut self, inflection_ns: Nanos) {
        self.slow = slow_of(&self.latency_ns, inflection_ns);
    }

    /// These rows, in this order.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn pick(&self, rows: &[usize]) -> TrainingSet {
        let mut picked = TrainingSet { dropped: self.dropped, ..Default::default() };
        picked.reserve(rows.len());
        for &index in rows {
            picked.digits.extend_from_slice(self.row(index));
            picked.slow.push(self.slow[index]);
            picked.latency_ns.push(self.latency_ns[index]);
            picked.arrive_ns.push(self.arrive_ns[index]);
        }
        picked
    }

    /// Splits the rows in two at this share of them, 0..=1: the earlier and the later rows.
    ///
    /// # Panics
    /// If `share` is outside its range.
    pub fn split_at_share(&self, share: f64) -> (TrainingSet, TrainingSet) {
        assert!((0.0..=1.0).contains(&share), "a share is in 0..=1");
        let cut = (self.len() as f64 * share).round() as usize;
        let part = |from: usize, to: usize| TrainingSet {
            digits: self.digits[from * DIGITS..to * DIGITS].to_vec(),
            slow: self.slow[from..to].to_vec(),
            latency_ns: self.latency_ns[from..to].to_vec(),
            arrive_ns: self.arrive_ns[from..to].to_vec(),
            dropped: self.dropped,
        };
        (part(0, cut), part(cut, self.len()))
    }

    /// At most `max_rows` rows, evenly spread over the set: row `i * len / max_rows` for each `i`. Chosen by index
    /// alone, so every period of time keeps its weight.
    pub fn thin(&self, max_rows: usize) -> TrainingSet {
        let rows = max_rows.min(self.len());
        let index = |i: usize| (i as u128 * self.len() as u128 / rows as u128) as usize;
        self.pick(&(0..rows).map(index).collect::<Vec<_>>())
    }
}

/// Checks the share of training rows: both parts must have rows.
///
/// # Errors
/// [`Error::Setting`].
pub fn check_train_share(share: f64) -> Result<(), Error> {
    require(share > 0.0 && share < 1.0, "train_share", share, "above 0 and below 1")
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
