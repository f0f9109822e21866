// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of the published pipelines of LinnOS and Heimdall. Each one is a switch, off by default, to measure its
//! effect on the reported figures (`docs/design/defects.md`).

use linnet_core::Tracker;
use linnet_learn::{Error, Event, HISTORY, TrainingSet, in_time_order};
use linnet_types::{IoRecord, Nanos};

/// Defects that are switched on. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defects {
    /// Both: rows are shuffled before they are split, so that neighbours of a test read were trained on.
    pub random_split: bool,
    /// Both: the thresholds of the labels come from all rows, including test rows.
    pub threshold_over_all: bool,
    /// Both, as Heimdall reports them: the area under the curve of hard decisions, which is balanced accuracy.
    pub hard_auc: bool,
    /// Heimdall: the noise filter also removes test rows.
    pub test_filtered: bool,
    /// Heimdall: the history consists of the reads submitted last, including latencies of reads that have not
    /// completed.
    pub look_ahead: bool,
    /// Heimdall: an I/O leaves the queue at its own submission, so the queue counts I/Os that arrived at the same time.
    pub queue_by_submit: bool,
    /// LinnOS: training counts pages of reads and writes, serving only those of reads.
    pub serving_reads_only: bool,
    /// LinnOS: serving pairs a latency with the pages outstanding at its completion instead of its arrival.
    pub snapshot_at_completion: bool,
    /// LinnOS: serving does not count the arriving read's own pages.
    pub serving_without_self: bool,
    /// LinnOS: arrival times of the training rows are truncated to milliseconds.
    pub millisecond_times: bool,
}

impl Defects {
    /// Every name that [`Defects::parse`] knows.
    pub const NAMES: [&str; 10] = [
        "random-split",
        "threshold-over-all",
        "hard-auc",
        "test-filtered",
        "look-ahead",
        "queue-by-submit",
        "serving-reads-only",
        "snapshot-at-completion",
        "serving-without-self",
        "millisecond-times",
    ];

    /// The defects with these names.
    ///
    /// # Errors
    /// [`Error::Setting`] for an unknown name.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Defects, Error> {
        let mut defects = Defects::default();
        for name in names {
            let switch = match name {
                "random-split" => &mut defects.random_split,
                "threshold-over-all" => &mut defects.threshold_over_all,
                "hard-auc" => &mut defects.hard_auc,
                "test-filtered" => &mut defects.test_filtered,
                "look-ahead" => &mut defects.look_ahead,
                "queue-by-submit" => &mut defects.queue_by_submit,
                "serving-reads-only" => &mut defects.serving_reads_only,
                "snapshot-at-completion" => &mut defects.snapshot_at_completion,
                "serving-without-self" => &mut defects.serving_without_self,
                "millisecond-times" => &mut defects.millisecond_times,
                _ => {
                    let range = "random-split, threshold-over-all, hard-auc, test-filtered, look-ahead, \
                                 queue-by-submit, serving-reads-only, snapshot-at-completion, \
                                 serving-without-self or millisecond-times";
                    return Err(Error::Setting { name: "defect", value: name.into(), range });
                }
            };
            *switch = true;
        }
        Ok(defects)
    }
}

/// The rows that a published implementation would have when it serves: the defects change the input of its tracker. All
/// rows are labelled fast; without a defect they equal those of [`TrainingSet::from_records`].
///
/// # Errors
/// Those of [`TrainingSet::from_records`].
pub(crate) fn served(records: &[IoRecord], defects: &Defects) -> Result<TrainingSet, Error> {
    let honest = TrainingSet::from_records(records, Nanos::MAX)?;
    if !(defects.serving_reads_only || defects.serving_without_self || defects.snapshot_at_completion) {
        return Ok(honest);
    }
    let mut set = TrainingSet { dropped: honest.dropped, ..TrainingSet::default() };
    set.dropped.warm_up = 0;
    let mut tracker = Tracker::new();
    let mut snapshots = vec![0u32; records.len()];
    in_time_order(records, |event| {
        let (Event::Arrive(index) | Event::Complete(index)) = event;
        let IoRecord { op, size_bytes, arrive_ns, latency_ns, .. } = records[index];
        let latency_ns = latency_ns.unwrap_or(0);
        if defects.serving_reads_only && !op.is_read() {
            return;
        }
        match event {
            Event::Arrive(_) => {
                let before = tracker.pending_pages();
                let with_self = tracker.arrive(size_bytes);
                let snapshot = if defects.serving_without_self { before } else { with_self };
                snapshots[index] = snapshot;
                if op.is_read() && tracker.history_len() < HISTORY {
                    set.dropped.warm_up += 1;
                } else if op.is_read() {
                    set.push(&tracker.digits(snapshot), arrive_ns, latency_ns, Nanos::MAX);
                }
            }
            Event::Complete(_) => {
                let now = tracker.pending_pages();
                let snapshot = if defects.snapshot_at_completion { now } else { snapshots[index] };
                tracker.complete(op, size_bytes, latency_ns, snapshot);
            }
        }
    });
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_is_its_own_switch() {
        let one = |name| Defects::parse([name]).unwrap();
        for (k, name) in Defects::NAMES.iter().enumerate() {
            assert_ne!(one(name), Defects::default());
            assert!(Defects::NAMES[..k].iter().all(|other| one(other) != one(name)));
            assert!(Defects::parse(["x"]).unwrap_err().to_string().contains(name));
        }
    }
}
