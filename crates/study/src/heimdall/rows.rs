// SPDX-License-Identifier: MIT OR Apache-2.0
//! Training rows in the schema `heimdall-11`: the features that Heimdall's tracker has for each read of a trace.

use linnet_core::{HEIMDALL_FEATURES, Heimdall};
use linnet_learn::{Error, Event, in_time_order};
use linnet_types::{IoRecord, Nanos, Op};

use super::period::Paced;
use crate::defects::Defects;

/// Rows of one device in the order of arrival, one for each read with a latency, from the first; never shuffled.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HeimdallSet {
    /// Features.
    pub features: Vec<[u32; HEIMDALL_FEATURES]>,
    /// Latency and throughput of each read.
    pub paced: Vec<Paced>,
}

impl HeimdallSet {
    /// Replays the records of one device, in any order, through the tracker. Records without a latency are also left
    /// out of the features. Only the defects `look_ahead` and `queue_by_submit` have an effect here: the tracker then
    /// gets events at the wrong times.
    ///
    /// # Errors
    /// [`Error::NoReads`] if no read has a latency.
    pub fn from_records(records: &[IoRecord], defects: &Defects) -> Result<Self, Error> {
        let mut set = HeimdallSet::default();
        let mut tracker = Heimdall::new();
        let mut snapshots = vec![0u32; records.len()];
        let mut last_ns: Nanos = 0;
        in_time_order(records, |event| match event {
            Event::Arrive(index) => {
                let IoRecord { arrive_ns, latency_ns, size_bytes, op, .. } = records[index];
                if defects.queue_by_submit && arrive_ns > last_ns {
                    tracker.clear();
                }
                last_ns = arrive_ns;
                snapshots[index] = tracker.arrive();
                let (Op::Read, Some(latency_ns)) = (op, latency_ns) else { return };
                set.features.push(tracker.features(snapshots[index], size_bytes));
                set.paced.push(Paced::new(size_bytes, latency_ns));
                if defects.look_ahead {
                    tracker.complete(op, size_bytes, latency_ns, snapshots[index]);
                    tracker.arrive();
                }
            }
            Event::Complete(index) => {
                let IoRecord { latency_ns, size_bytes, op, .. } = records[index];
                if defects.queue_by_submit {
                    // It has left the queue; count it again only for its completion.
                    tracker.arrive();
                }
                if defects.look_ahead {
                    tracker.withdraw();
                } else {
                    tracker.complete(op, size_bytes, latency_ns.unwrap_or(0), snapshots[index]);
                }
            }
        });
        if set.is_empty() {
            let without = records.iter().filter(|record| record.op.is_read()).count() as u64;
            return Err(Error::NoReads { records: records.len(), without });
        }
        Ok(set)
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.paced.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.paced.is_empty()
    }

    /// These rows, in this order.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn pick(&self, rows: &[usize]) -> HeimdallSet {
        HeimdallSet {
            features: rows.iter().map(|&row| self.features[row]).collect(),
            paced: rows.iter().map(|&row| self.paced[row]).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(arrive_ns: Nanos, latency_ns: Nanos, op: Op) -> IoRecord {
        IoRecord { latency_ns: Some(latency_ns), ..IoRecord::new(arrive_ns, op, 0, 4096) }
    }

    /// Size, queue, then three queues, latencies, throughputs.
    fn rows(defects: &[&str]) -> Vec<[u32; HEIMDALL_FEATURES]> {
        let defects = Defects::parse(defects.iter().copied()).unwrap();
        // A write is in flight during all reads; the second read arrives before the first completes.
        let records = [io(0, 90, Op::Write), io(10, 40, Op::Read), io(20, 50, Op::Read), io(80, 5, Op::Read)];
        HeimdallSet::from_records(&records, &defects).unwrap().features
    }

    const FIRST: u32 = 102_400_000; // 4096 bytes in 40 ns
    const SECOND: u32 = 81_920_000; // in 50 ns

    #[test]
    fn a_read_is_known_once_it_completes() {
        let expected = [
            [4096, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [4096, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [4096, 2, 3, 2, 0, 50, 40, 0, SECOND, FIRST, 0],
        ];
        assert_eq!(rows(&[]), expected);
    }

    #[test]
    fn look_ahead_knows_latencies_before_they_are() {
        let rows = rows(&["look-ahead"]);
        assert_eq!(rows[1], [4096, 3, 2, 0, 0, 40, 0, 0, FIRST, 0, 0]);
        assert_eq!(rows[2], [4096, 2, 3, 2, 0, 50, 40, 0, SECOND, FIRST, 0]);
    }

    #[test]
    fn queue_by_submit_counts_what_arrives_together() {
        let rows = rows(&["queue-by-submit"]);
        assert_eq!(rows.iter().map(|row| row[1]).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(rows[2], [4096, 1, 1, 1, 0, 50, 40, 0, SECOND, FIRST, 0]);
    }
}
