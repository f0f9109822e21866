// SPDX-License-Identifier: MIT OR Apache-2.0
//! Training rows in the schemas `linnet-1` and `linnet-2`: the features that a device's in-flight tracker gives for
//! each read of a trace.

use linnet_core::{INFLIGHT_FEATURES, InflightTracker, Place, Schema};
use linnet_types::{IoRecord, Nanos, Op, is_slow};

use crate::error::Error;
use crate::replay::{Event, in_time_order};

/// Rows of one device in the order of arrival, one for each read with a latency, from the first; never shuffled and
/// never filtered.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InflightSet {
    /// Schema of the features.
    pub schema: Schema,
    /// Features.
    pub features: Vec<[u8; INFLIGHT_FEATURES]>,
    /// The label: the read took longer than the inflection point, or than what [`InflightSet::label`] was given.
    pub slow: Vec<bool>,
    /// Latency of each read.
    pub latency_ns: Vec<Nanos>,
    /// Arrival time of each read, by the clock of its device.
    pub arrive_ns: Vec<Nanos>,
}

impl InflightSet {
    /// Replays the records of one device, in any order, through the in-flight tracker that serves live reads. Records
    /// without a latency are also left out of the features: their end is unknown, and is not guessed. I/Os that arrive
    /// at one time are taken in the order given: see [`without_ties`](crate::without_ties).
    ///
    /// # Errors
    /// [`Error::NoReads`] if no read has a latency.
    pub fn from_records(records: &[IoRecord], inflection_ns: Nanos, schema: Schema) -> Result<Self, Error> {
        let mut set = InflightSet { schema, ..InflightSet::default() };
        let mut inflight = InflightTracker::new(inflection_ns);
        let mut places: Vec<Option<Place>> = vec![None; records.len()];
        in_time_order(records, |event| match event {
            Event::Arrive(index) => {
                let record = &records[index];
                if let (Op::Read, Some(latency_ns)) = (record.op, record.latency_ns) {
                    let (offset_bytes, size_bytes) = (record.offset_bytes, record.size_bytes);
                    set.features.push(inflight.describe(schema, record.arrive_ns, offset_bytes, size_bytes));
                    set.slow.push(is_slow(latency_ns, inflection_ns));
                    set.latency_ns.push(latency_ns);
                    set.arrive_ns.push(record.arrive_ns);
                }
                places[index] = Some(inflight.arrive(record.arrive_ns, &record.request()));
            }
            Event::Complete(index) => {
                let record = &records[index];
                let done_ns = record.arrive_ns.saturating_add(record.latency_ns.unwrap_or(0));
                if let Some(place) = places[index].take() {
                    inflight.complete(place, done_ns);
                }
            }
        });
        if set.is_empty() {
            let without = records.iter().filter(|record| record.op.is_read()).count() as u64;
            return Err(Error::NoReads { records: records.len(), without });
        }
        Ok(set)
    }

    /// Appends the rows of another device. A set without rows takes the schema of what is appended.
    ///
    /// # Panics
    /// If the schemas differ.
    pub fn append(&mut self, mut more: InflightSet) {
        self.schema = if self.is_empty() { more.schema } else { self.schema };
        assert_eq!(self.schema, more.schema, "rows of one schema");
        self.features.append(&mut more.features);
        self.slow.append(&mut more.slow);
        self.latency_ns.append(&mut more.latency_ns);
        self.arrive_ns.append(&mut more.arrive_ns);
    }

    /// Reads above this latency are slow; until this is called, those above the inflection point are.
    pub fn label(&mut self, slow_above_ns: Nanos) {
        for (slow, &latency_ns) in self.slow.iter_mut().zip(&self.latency_ns) {
            *slow = is_slow(latency_ns, slow_above_ns);
        }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.slow.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.slow.is_empty()
    }

    /// These rows, in this order.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn pick(&self, rows: &[usize]) -> InflightSet {
        InflightSet {
            schema: self.schema,
            features: rows.iter().map(|&row| self.features[row]).collect(),
            slow: rows.iter().map(|&row| self.slow[row]).collect(),
            latency_ns: rows.iter().map(|&row| self.latency_ns[row]).collect(),
            arrive_ns: rows.iter().map(|&row| self.arrive_ns[row]).collect(),
        }
    }

    /// Splits the rows in two at this share of them, 0..=1: the earlier and the later rows.
    ///
    /// # Panics
    /// If `share` is outside its range.
    pub fn split_at_share(&self, share: f64) -> (InflightSet, InflightSet) {
        assert!((0.0..=1.0).contains(&share), "a share is in 0..=1");
        let cut = (self.len() as f64 * share).round() as usize;
        (self.part(0, cut), self.part(cut, self.len()))
    }

    /// The last rows, so many or all.
    pub fn last(&self, rows: usize) -> InflightSet {
        self.part(self.len().saturating_sub(rows), self.len())
    }

    fn part(&self, from: usize, to: usize) -> InflightSet {
        InflightSet {
            schema: self.schema,
            features: self.features[from..to].to_vec(),
            slow: self.slow[from..to].to_vec(),
            latency_ns: self.latency_ns[from..to].to_vec(),
            arrive_ns: self.arrive_ns[from..to].to_vec(),
        }
    }
}
