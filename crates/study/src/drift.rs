// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares three strategies on a trace: a model trained once, one maintained by drift handling, and one that is
//! retrained after every half window.

use std::collections::HashMap;

use linnet_learn::drift::{
    Check, Drift, DriftEvent, DriftOptions, Job, Log, ModelSlot, Scheme, Verdict, labels, merit,
};
use linnet_learn::{Error, Evaluation, Event, figures, in_time_order};
use linnet_measure::roc_auc_integers;
use linnet_types::{IoRecord, Nanos, is_slow};

/// Trained on the first window only; maintained by [`Drift`]; retrained on the last window after every half window and
/// swapped in without a comparison.
pub const STRATEGIES: [&str; 3] = ["once", "drift", "always"];

/// An event of drift handling.
#[derive(Clone, Debug, PartialEq)]
pub enum StudyEvent {
    /// The first model, or a candidate, was fitted.
    Fitted {
        /// Its inflection point.
        inflection_ns: Nanos,
        /// Percentile of the inflection point in its window.
        percentile: f64,
        /// Reads that it was fitted to.
        rows: usize,
    },
    /// A fit failed.
    Failed(String),
    /// An alarm was raised.
    Alarm(Check),
    /// The candidate took over.
    Swapped(Verdict),
    /// The candidate was rejected.
    Rejected(Verdict),
    /// The old model returned.
    RolledBack(Verdict),
    /// The new model passed a comparison.
    Kept(Verdict),
}

/// Figures of half a window of reads, in the order of completion.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyChunk {
    /// Completion times of the first and the last of them.
    pub time_ns: (Nanos, Nanos),
    /// The inflection point of these reads, by which all strategies are evaluated.
    pub inflection_ns: Nanos,
    /// Figures of each of [`STRATEGIES`].
    pub figures: [Evaluation; 3],
    /// Merit of each.
    pub merit: [f64; 3],
    /// Accuracy of each by its own model's inflection point.
    pub own_accuracy: [f64; 3],
}

/// Result of a study of one trace.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DriftStudy {
    /// Evaluated chunks.
    pub chunks: Vec<StudyChunk>,
    /// Events of drift handling with their times.
    pub events: Vec<(Nanos, StudyEvent)>,
    /// Number of checks.
    pub checks: u64,
    /// Checks that had a reference of calibration.
    pub checks_of_calibration: u64,
    /// Reads evaluated.
    pub reads: u64,
    /// Fits of each strategy.
    pub fits: [u64; 3],
}

/// One read: latency, and each strategy's score and own label.
type Evaluated = (Nanos, [i64; 3], [bool; 3]);

struct Study<'w, S: Scheme> {
    scheme: S,
    options: DriftOptions,
    drift: Drift<S>,
    log: Log,
    /// The models of `once` and `always`.
    slots: Option<[ModelSlot<S>; 2]>,
    since_fit: usize,
    reads: Vec<Evaluated>,
    begun_ns: Nanos,
    found: DriftStudy,
    on_progress: &'w mut dyn FnMut(u64) -> bool,
}

/// Replays a device's records, in any order, with all three strategies. Every model decides about every read and
/// nothing is revoked, so that all are tested on the same reads. `on_progress` is called with the number of I/Os done
/// and returns false to stop.
///
/// # Errors
/// [`Error::TooFewRows`] if the trace ends before a chunk is evaluated; [`Error::Interrupted`]; errors of a fit of the
/// other two strategies.
pub fn study_drift<S: Scheme + Clone>(
    scheme: &S,
    records: &[IoRecord],
    options: &DriftOptions,
    on_progress: &mut dyn FnMut(u64) -> bool,
) -> Result<DriftStudy, Error> {
    let mut study = Study {
        drift: Drift::new(scheme.clone(), options.clone())?,
        scheme: scheme.clone(),
        log: Log::new(options.window),
        options: options.clone(),
        slots: None,
        since_fit: 0,
        reads: Vec::new(),
        begun_ns: 0,
        found: DriftStudy::default(),
        on_progress,
    };
    let mut scores: HashMap<usize, [Option<i64>; 3]> = HashMap::new();
    let mut failure = None;
    let mut done = 0u64;
    in_time_order(records, |event| {
        if failure.is_some() {
            return;
        }
        let result = match event {
            Event::Arrive(index) => {
                let score = study.arrive(index, &records[index]);
                scores.insert(index, score);
                Ok(())
            }
            Event::Complete(index) => {
                done += 1;
                let stopped = done.is_multiple_of(1024) && !(study.on_progress)(done);
                let score = scores.remove(&index).unwrap_or_default();
                if stopped { Err(Error::Interrupted) } else { study.complete(index, &records[index], score) }
            }
        };
        failure = result.err();
    });
    if let Some(error) = failure {
        return Err(error);
    }
    if study.found.chunks.is_empty() {
        let rows = records.iter().filter(|record| record.op.is_read() && record.latency_ns.is_some()).count();
        return Err(Error::TooFewRows { purpose: "a drift study", rows, least: options.window * 3 / 2 + 64 });
    }
    Ok(study.found)
}

impl<S: Scheme + Clone> Study<'_, S> {
    fn arrive(&mut self, index: usize, record: &IoRecord) -> [Option<i64>; 3] {
        let (id, now, request) = (index as u64, record.arrive_ns, record.request());
        self.log.arrive(id, now, &request);
        let drift = self.drift.arrive(id, now, &request);
        let [once, always] = match &mut self.slots {
            Some(slots) => slots.each_mut().map(|slot| slot.arrive(&self.scheme, id, now, &request)),
            None => [None, None],
        };
        [once, drift, always]
    }

    fn complete(&mut self, index: usize, record: &IoRecord, scores: [Option<i64>; 3]) -> Result<(), Error> {
        let latency_ns = record.latency_ns.unwrap_or(0);
        let (id, now) = (index as u64, record.arrive_ns.saturating_add(latency_ns));
        self.log.end(id, now, true);
        for slot in self.slots.iter_mut().flatten() {
            slot.end(&self.scheme, id, now, Some(latency_ns));
        }
        // The label by the model that scored the read, before any swap.
        let by_drift = self.drift.model().is_some_and(|(_, inflection_ns)| is_slow(latency_ns, inflection_ns));
        let event = self.drift.complete(id, now)?;
        if let Some(event) = event {
            self.tell(now, event)?;
        }
        if !record.op.is_read() {
            return Ok(());
        }
        let (Some(slots), [Some(once), Some(drift), Some(always)]) = (&self.slots, scores) else { return Ok(()) };
        let own = [slots[0].is_slow(latency_ns), by_drift, slots[1].is_slow(latency_ns)];
        if self.reads.is_empty() {
            self.begun_ns = now;
        }
        self.reads.push((latency_ns, [once, drift, always], own));
        if self.reads.len() == self.options.window / 2 {
            self.evaluated(now)?;
        }
        self.since_fit += 1;
        if self.since_fit >= self.options.window / 2 {
            self.since_fit = 0;
            self.refit()?;
        }
        Ok(())
    }

    fn tell(&mut self, now: Nanos, event: DriftEvent<S>) -> Result<(), Error> {
        let shown = match event {
            DriftEvent::Checked(check) => {
                self.found.checks += 1;
                self.found.checks_of_calibration += u64::from(check.calibration_error.is_some());
                if !check.alarms.any() {
                    return Ok(());
                }
                StudyEvent::Alarm(check)
            }
            DriftEvent::Fit(job) => match job.run() {
                Ok(candidate) => {
                    self.found.fits[1] += 1;
                    let shown = StudyEvent::Fitted {
                        inflection_ns: candidate.inflection.latency_ns,
                        percentile: candidate.inflection.percentile,
                        rows: candidate.trained.len(),
                    };
                    if self.slots.is_none() {
                        let slot = || ModelSlot::new(&self.scheme, candidate.clone(), &self.log, (1, 0));
                        self.slots = Some([slot(), slot()]);
                        (self.found.fits[0], self.found.fits[2]) = (1, 1);
                    }
                    self.drift.trained(candidate);
                    shown
                }
                Err(error) => {
                    self.drift.untrained();
                    StudyEvent::Failed(error.to_string())
                }
            },
            DriftEvent::Swapped(verdict) => StudyEvent::Swapped(verdict),
            DriftEvent::Rejected(verdict) => StudyEvent::Rejected(verdict),
            DriftEvent::RolledBack(verdict) => StudyEvent::RolledBack(verdict),
            DriftEvent::Kept(verdict) => StudyEvent::Kept(verdict),
        };
        self.found.events.push((now, shown));
        Ok(())
    }

    fn refit(&mut self) -> Result<(), Error> {
        let inflection = self.options.inflection.clone();
        let job = Job { scheme: self.scheme.clone(), log: self.log.clone(), from_ns: 0, least: 1, inflection };
        let slot = ModelSlot::new(&self.scheme, job.run()?, &self.log, (1, 0));
        if let Some(slots) = &mut self.slots {
            slots[1] = slot;
            self.found.fits[2] += 1;
        }
        Ok(())
    }

    fn evaluated(&mut self, now: Nanos) -> Result<(), Error> {
        let reads = std::mem::take(&mut self.reads);
        let latency_ns: Vec<Nanos> = reads.iter().map(|read| read.0).collect();
        let (inflection_ns, slow) = labels(&latency_ns, &self.options.inflection)?;
        let of = |k: usize| reads.iter().map(|read| read.1[k]).collect::<Vec<i64>>();
        let one = |k: usize| {
            let scores = of(k);
            let revoked: Vec<bool> = scores.iter().map(|&score| score > 0).collect();
            figures(&slow, &revoked, roc_auc_integers(&scores, &slow))
        };
        let own =
            |k: usize| reads.iter().filter(|read| (read.1[k] > 0) == read.2[k]).count() as f64 / reads.len() as f64;
        self.found.reads += reads.len() as u64;
        self.found.chunks.push(StudyChunk {
            time_ns: (self.begun_ns, now),
            inflection_ns,
            figures: [0, 1, 2].map(one),
            merit: [0, 1, 2].map(|k| merit(&of(k), &slow)),
            own_accuracy: [0, 1, 2].map(own),
        });
        Ok(())
    }
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
