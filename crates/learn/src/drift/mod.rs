// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drift handling: detects that a device no longer behaves as its model learned, and retrains without replacing a
//! better model.
//!
//! A state machine without I/O, threads or clock. It receives the I/Os of one device in the order of time, keeps the
//! most recent ones, and returns events. Fits are returned as [`Job`]s, which the caller runs on any thread. The same
//! input and options give the same events.
//!
//! 1. The first window of reads trains the first model, which then serves.
//! 2. Reads are compared with a reference ([`Monitor`]). When an alarm is raised, half a window of reads that arrive
//!    after it is collected, and a candidate is fitted to these, because earlier reads describe the old behaviour.
//! 3. The candidate runs in the shadow: it scores reads that arrive after its window, without effect. After half a
//!    window both models are compared on these reads, and the candidate takes over only if it leads.
//! 4. The old model then runs in the shadow. It returns if it leads in one of two comparisons of half a window each;
//!    otherwise it is dropped.
//! 5. By then, or when the candidate was rejected, a whole window of reads has arrived since the alarm. A second
//!    candidate is fitted to it and must pass the same comparisons. If it fails too, retraining does not help: the
//!    model stays, and a new reference is collected.
//!
//! **Merit**, by which models are compared, is the mean of ROC-AUC (which matters to policies that rank replicas) and
//! of balanced accuracy (which matters to policies that revoke). Slow means above the inflection point of the compared
//! reads themselves, so neither model is evaluated by its own threshold. A model leads if its merit is higher by the
//! margin on all the reads compared, and higher on the mean of eight successive parts of them by Student's t at the
//! one-sided level 0.1: neighbouring reads are correlated, so the parts are the sample. Between equal models one
//! comparison in ten would swap for nothing if the margin were also met; the same rule for the return of the old model
//! limits the harm.
//!
//! A live device never shows false revokes, and a read that was sent elsewhere gives no information about this device:
//! pass only I/Os that the device served. A policy that revokes many reads should probe (`linnet-array`,
//! `probe_share`).

mod alarm;
mod log;
mod model_slot;
mod scheme;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use linnet_measure::roc_auc_integers;
use linnet_types::{Nanos, Request};

pub use alarm::{Alarms, CHECK_BLOCKS, Check, Monitor, REFERENCE_BLOCKS};
pub use log::{Candidate, Job, Log, labels};
pub use model_slot::ModelSlot;
pub use scheme::{LinnOsScheme, LinnetScheme, Scheme};

use crate::error::{Error, require};
use crate::evaluate::figures;
use crate::inflection::InflectionOptions;

/// Comparisons that a new model must pass before the old one is dropped.
const TRIALS: u32 = 2;
/// Parts of a comparison.
const PARTS: usize = 8;
/// One-sided critical value of Student's t with 7 degrees of freedom: 0.1.
const T_LEAD: f64 = 1.415;

/// How drift is handled.
#[derive(Clone, Debug, PartialEq)]
pub struct DriftOptions {
    /// Reads that the first model is trained on, 480..=1e8. Candidates train on half as many, and comparisons use half
    /// as many.
    pub window: usize,
    /// Lead in merit at which a candidate takes over, or an old model returns; 0..=1.
    pub margin: f64,
    /// Minimum length of a block of reads that alarms compare; should exceed the device's own cycles.
    pub block_ns: Nanos,
    /// The search for inflection points.
    pub inflection: InflectionOptions,
}

impl Default for DriftOptions {
    fn default() -> Self {
        DriftOptions {
            window: 6_000,
            margin: 0.02,
            block_ns: 250_000_000,
            inflection: InflectionOptions { ios: 200_000, ..InflectionOptions::default() },
        }
    }
}

/// Comparison of two models on the same reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Reads compared.
    pub reads: usize,
    /// Merit of the model that served.
    pub serving: f64,
    /// Merit of the model in the shadow.
    pub shadow: f64,
    /// t of its lead over the parts; infinite if all parts agree to the bit.
    pub t: f64,
}

impl Verdict {
    /// Whether the model in the shadow leads.
    pub fn leads(&self, margin: f64) -> bool {
        self.shadow - self.serving >= margin && self.t >= T_LEAD
    }
}

/// Events that the end of a read may cause.
pub enum DriftEvent<S: Scheme> {
    /// A check against the reference was made. If an alarm is raised, a candidate will follow.
    Checked(Check),
    /// Run this job, and report with [`Drift::trained`] or [`Drift::untrained`]. I/Os may be reported meanwhile.
    Fit(Job<S>),
    /// The candidate serves now.
    Swapped(Verdict),
    /// The candidate did not lead and was dropped.
    Rejected(Verdict),
    /// The old model serves again.
    RolledBack(Verdict),
    /// The new model passed a comparison with the old one.
    Kept(Verdict),
}

enum Phase {
    /// Collects reads that arrived from that time on, for a fit.
    Gather { left: usize, from_ns: Nanos },
    /// A job is running.
    Fitting,
    /// The other slot holds a candidate.
    Shadow,
    /// The other slot holds the previous model.
    Trial { left: u32 },
    /// Alarms are monitored.
    Monitor,
}

/// Drift handling of one device.
pub struct Drift<S: Scheme> {
    scheme: S,
    options: DriftOptions,
    log: Log,
    phase: Phase,
    serving: Option<ModelSlot<S>>,
    other: Option<ModelSlot<S>>,
    /// Reads that both slots scored: latency, score of the serving model, score of the other.
    compared: Vec<(Nanos, i64, i64)>,
    /// In flight: time of arrival, and whether it is a read.
    open: HashMap<u64, (Nanos, bool)>,
    /// The second candidate of an alarm is still possible.
    second: bool,
    /// Another model than at the alarm serves now.
    changed: bool,
}

impl<S: Scheme + Clone> Drift<S> {
    /// A device without a model.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn new(scheme: S, options: DriftOptions) -> Result<Drift<S>, Error> {
        require((480..=100_000_000).contains(&options.window), "window", options.window, "480 to 100,000,000 reads")?;
        require((0.0..=1.0).contains(&options.margin), "margin", options.margin, "0 to 1")?;
        Ok(Drift {
            scheme,
            log: Log::new(options.window),
            phase: Phase::Gather { left: options.window, from_ns: 0 },
            options,
            serving: None,
            other: None,
            compared: Vec::new(),
            open: HashMap::new(),
            second: false,
            changed: false,
        })
    }

    /// An I/O is submitted to the device; `id` identifies it until it ends. Returns the serving model's score of a
    /// read: above 0 slow is more likely. `None` for a write, before the first model, or without enough history.
    pub fn arrive(&mut self, id: u64, now: Nanos, request: &Request) -> Option<i64> {
        self.log.arrive(id, now, request);
        self.open.insert(id, (now, request.op.is_read()));
        if let Some(other) = &mut self.other {
            other.arrive(&self.scheme, id, now, request);
        }
        self.serving.as_mut().and_then(|slot| slot.arrive(&self.scheme, id, now, request))
    }

    /// It completed.
    ///
    /// # Errors
    /// Errors of the search for an inflection point, which a comparison needs.
    pub fn complete(&mut self, id: u64, now: Nanos) -> Result<Option<DriftEvent<S>>, Error> {
        let Some((arrived_ns, is_read)) = self.open.remove(&id) else { return Ok(None) };
        self.log.end(id, now, true);
        let latency_ns = now.saturating_sub(arrived_ns);
        let shadow = self.other.as_mut().and_then(|slot| slot.end(&self.scheme, id, now, Some(latency_ns)));
        let serving = self.serving.as_mut().and_then(|slot| slot.end(&self.scheme, id, now, Some(latency_ns)));
        if !is_read {
            return Ok(None);
        }
        let push = |slot: &mut ModelSlot<S>, score: i64| {
            let slow = slot.is_slow(latency_ns);
            slot.monitor.push(now, score, slow)
        };
        if let (Phase::Shadow, Some(slot), Some(score)) = (&self.phase, &mut self.other, shadow) {
            push(slot, score);
        }
        let check = self.serving.as_mut().zip(serving).and_then(|(slot, score)| push(slot, score));
        if let (Some(serving), Some(shadow)) = (serving, shadow) {
            self.compared.push((latency_ns, serving, shadow));
        }
        self.step(now, arrived_ns, check)
    }

    /// It left without a result to learn from: revoked, failed or cancelled.
    pub fn withdraw(&mut self, id: u64, now: Nanos) {
        if self.open.remove(&id).is_some() {
            self.log.end(id, now, false);
            for slot in self.serving.iter_mut().chain(&mut self.other) {
                slot.end(&self.scheme, id, now, None);
            }
        }
    }

    /// The job was run.
    pub fn trained(&mut self, candidate: Candidate<S::Model>) {
        let slot = ModelSlot::new(&self.scheme, candidate, &self.log, self.block());
        if self.serving.is_none() {
            (self.serving, self.phase) = (Some(slot), Phase::Monitor);
        } else {
            (self.other, self.phase) = (Some(slot), Phase::Shadow);
            self.compared.clear();
        }
    }

    /// The job failed. The model stays; without one, another window is gathered.
    pub fn untrained(&mut self) {
        self.second = false;
        self.settle();
        if self.serving.is_none() {
            self.phase = Phase::Gather { left: self.options.window, from_ns: 0 };
        }
    }

    /// The model that serves, and its inflection point.
    pub fn model(&self) -> Option<(&S::Model, Nanos)> {
        self.serving.as_ref().map(|slot| (&slot.model, slot.inflection_ns))
    }

    fn half(&self) -> usize {
        self.options.window / 2
    }

    fn block(&self) -> (usize, Nanos) {
        (self.options.window / REFERENCE_BLOCKS, self.options.block_ns)
    }

    /// A read has ended. It causes at most one event.
    fn step(&mut self, now: Nanos, arrived_ns: Nanos, check: Option<Check>) -> Result<Option<DriftEvent<S>>, Error> {
        match &mut self.phase {
            Phase::Gather { left, from_ns } => {
                *left = left.saturating_sub(usize::from(arrived_ns >= *from_ns));
                if *left > 0 {
                    return Ok(None);
                }
                let (scheme, log, from_ns) = (self.scheme.clone(), self.log.clone(), *from_ns);
                self.phase = Phase::Fitting;
                let (inflection, least) = (self.options.inflection.clone(), self.half() / 2);
                Ok(Some(DriftEvent::Fit(Job { scheme, log, from_ns, least, inflection })))
            }
            Phase::Fitting => Ok(None),
            Phase::Shadow => {
                let Some(verdict) = self.compare()? else { return Ok(None) };
                if verdict.leads(self.options.margin) {
                    std::mem::swap(&mut self.serving, &mut self.other);
                    (self.changed, self.phase) = (true, Phase::Trial { left: TRIALS });
                    return Ok(Some(DriftEvent::Swapped(verdict)));
                }
                self.settle();
                Ok(Some(DriftEvent::Rejected(verdict)))
            }
            &mut Phase::Trial { left } => {
                let Some(verdict) = self.compare()? else { return Ok(None) };
                if verdict.leads(self.options.margin) {
                    std::mem::swap(&mut self.serving, &mut self.other);
                    self.changed = false;
                    self.settle();
                    return Ok(Some(DriftEvent::RolledBack(verdict)));
                }
                self.phase = Phase::Trial { left: left - 1 };
                if left == 1 {
                    self.settle();
                }
                Ok(Some(DriftEvent::Kept(verdict)))
            }
            Phase::Monitor => {
                if check.is_some_and(|check| check.alarms.any()) {
                    self.phase = Phase::Gather { left: self.half(), from_ns: now };
                    (self.second, self.changed) = (true, false);
                }
                Ok(check.map(DriftEvent::Checked))
            }
        }
    }

    /// Ends the evaluation of a candidate. A second candidate follows the first of an alarm. After that, reads are
    /// monitored again, and if the alarm changed nothing, new reads form the reference.
    fn settle(&mut self) {
        self.other = None;
        if std::mem::take(&mut self.second) {
            self.phase = Phase::Gather { left: 1, from_ns: 0 };
            return;
        }
        self.phase = Phase::Monitor;
        let (block_reads, block_ns) = self.block();
        if let (false, Some(slot)) = (self.changed, &mut self.serving) {
            slot.monitor = Monitor::new(block_reads, block_ns, &[]);
        }
    }

    /// Compares both slots on the reads that both scored, once there are enough of them.
    fn compare(&mut self) -> Result<Option<Verdict>, Error> {
        if self.compared.len() < self.half() {
            return Ok(None);
        }
        let reads = std::mem::take(&mut self.compared);
        let latency_ns: Vec<Nanos> = reads.iter().map(|read| read.0).collect();
        let (_, slow) = labels(&latency_ns, &self.options.inflection)?;
        let scores = |of: fn(&(Nanos, i64, i64)) -> i64| reads.iter().map(of).collect::<Vec<i64>>();
        let (serving, shadow) = (scores(|read| read.1), scores(|read| read.2));
        let part = reads.len().div_ceil(PARTS);
        let parts = serving.chunks(part).zip(shadow.chunks(part)).zip(slow.chunks(part));
        let leads: Vec<f64> = parts.map(|((a, b), slow)| merit(b, slow) - merit(a, slow)).collect();
        Ok(Some(Verdict {
            reads: reads.len(),
            serving: merit(&serving, &slow),
            shadow: merit(&shadow, &slow),
            t: student_one(&leads),
        }))
    }
}

/// Student's t of a sample against 0.
fn student_one(sample: &[f64]) -> f64 {
    let n = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / n;
    let squares: f64 = sample.iter().map(|x| (x - mean) * (x - mean)).sum();
    if mean == 0.0 { 0.0 } else { mean / (squares / (n - 1.0) / n).sqrt() }
}

/// Mean of ROC-AUC and balanced accuracy. 0.5 (no better than chance) if all reads are fast or all are slow.
pub fn merit(scores: &[i64], slow: &[bool]) -> f64 {
    let revoked: Vec<bool> = scores.iter().map(|&score| score > 0).collect();
    let Some(area) = roc_auc_integers(scores, slow) else { return 0.5 };
    (area + figures(slow, &revoked, Some(area)).balanced_accuracy) / 2.0
}
