// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks an array while it runs: an observer that keeps its own counts.
//!
//! - Each request is answered exactly once, and by the end all are.
//! - A device holds at most one copy of a request at a time, and the array's counts of I/Os in flight and pages pending
//!   agree with the copies in flight.
//! - A read fails only after a copy failed at every replica.
//! - The last replica is never revoked: a read has fewer revokes than replicas.
//! - Time never goes back.
//! - Counters add up.

use std::collections::HashMap;

use linnet_types::{Nanos, Op, Request};

use crate::{Array, CopyId, Counters, Input, Observer, Output, Progress};

/// An observer that checks rules. It collects violations; [`Checker::finish`] returns them.
#[derive(Debug, Default)]
pub struct Checker {
    devices: Vec<Expected>,
    replicas: u32,
    copies: HashMap<CopyId, (usize, u64, Request)>,
    requests: HashMap<u64, Life>,
    now_ns: Nanos,
    answered: [u64; 2],
    failed: [u64; 2],
    broken: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Expected {
    in_flight: u32,
    pages: u32,
}

#[derive(Debug, Clone, Copy)]
struct Life {
    op: Op,
    answers: u32,
    failures: u32,
}

/// Violations that are kept; the first ones are the most useful.
const BROKEN_MAX: usize = 20;

impl Checker {
    /// Checks an array of this many devices, with this many replicas of each stream.
    pub fn new(devices: usize, replicas: usize) -> Self {
        Checker { devices: vec![Expected::default(); devices], replicas: replicas as u32, ..Checker::default() }
    }

    fn rule(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds && self.broken.len() < BROKEN_MAX {
            let now = self.now_ns;
            self.broken.push(format!("at {now} ns: {}", text()));
        }
    }

    /// A copy is no longer in flight.
    fn land(&mut self, copy: CopyId, failed: bool) {
        if let Some((device, tag, request)) = self.copies.remove(&copy) {
            let expected = &mut self.devices[device];
            expected.in_flight -= 1;
            expected.pages -= pages(&request);
            if let Some(life) = self.requests.get_mut(&tag) {
                life.failures += u32::from(failed);
            }
        }
    }

    fn answer(&mut self, tag: u64, op: Op, failed: bool) {
        let Some(life) = self.requests.get_mut(&tag) else {
            return self.rule(false, || format!("request {tag} is answered and never arrived"));
        };
        life.answers += 1;
        let life = *life;
        self.rule(life.answers == 1, || format!("request {tag} is answered {} times", life.answers));
        self.rule(life.op == op, || format!("request {tag} changed its kind"));
        if failed {
            let needed = if op.is_read() { self.replicas } else { 1 };
            self.rule(life.failures >= needed, || {
                format!("request {tag} failed after {} failed copies, {needed} possible", life.failures)
            });
        }
        *(if failed { &mut self.failed } else { &mut self.answered }).get_mut(op as usize).expect("two kinds") += 1;
    }

    /// The result at the end of a run with these counters: all violations, or `Ok`.
    pub fn finish(mut self, counters: &Counters) -> Result<(), Vec<String>> {
        let open = self.requests.values().filter(|life| life.answers == 0).count();
        self.rule(open == 0, || format!("{open} requests never got an answer"));
        let flying = self.copies.len();
        self.rule(flying == 0, || format!("{flying} copies still fly"));
        let c = *counters;
        let reads = self.answered[0] + self.failed[0];
        let writes = self.answered[1] + self.failed[1];
        self.rule((reads, writes) == (c.reads, c.writes), || format!("{reads} reads, {writes} writes answered: {c:?}"));
        let failed = self.failed;
        self.rule(failed == [c.reads_failed, c.writes_failed], || format!("{failed:?} failed: {c:?}"));
        self.rule(c.submits == c.reads + c.writes + c.extra_io + c.extra_writes + c.refusals, || {
            format!("submits do not add up: {c:?}")
        });
        let most = c.reads * u64::from(self.replicas.saturating_sub(1));
        self.rule(c.revokes - c.refusals <= most, || format!("a last replica was revoked: {c:?}"));
        self.rule(c.hedges_won <= c.hedges && c.hedges <= c.extra_io + c.refusals, || {
            format!("hedges do not add up: {c:?}")
        });
        self.rule(c.false_submits + c.false_revokes <= c.predictions, || format!("predictions do not add up: {c:?}"));
        self.rule(c.revokes <= c.predictions + c.refusals, || format!("revokes without a prediction: {c:?}"));
        if self.broken.is_empty() { Ok(()) } else { Err(self.broken) }
    }
}

fn pages(request: &Request) -> u32 {
    request.size_bytes.div_ceil(4096)
}

impl Observer for Checker {
    fn progress(&mut self, _progress: Progress) -> bool {
        self.broken.is_empty()
    }

    fn input(&mut self, now: Nanos, input: &Input) {
        let before = self.now_ns;
        self.rule(now >= before, || format!("time went back to {now}"));
        self.now_ns = now;
        match *input {
            Input::Arrive { tag, request, .. } => {
                let life = Life { op: request.op, answers: 0, failures: 0 };
                let known = self.requests.insert(tag, life).is_some();
                self.rule(!known, || format!("request {tag} arrives twice"));
            }
            Input::Completed(copy) | Input::Revoked(copy) | Input::Cancelled(copy) => self.land(copy, false),
            Input::Failed(copy) => self.land(copy, true),
            Input::Timer(_) => {}
        }
    }

    fn output(&mut self, _now: Nanos, output: &Output) {
        match *output {
            Output::Submit { device, copy, tag, request, .. } => {
                let twice = self.copies.values().any(|&(d, t, _)| (d, t) == (device, tag));
                self.rule(!twice, || format!("device {device} gets request {tag} twice"));
                let known = self.copies.insert(copy, (device, tag, request)).is_some();
                self.rule(!known, || format!("{copy:?} is submitted twice"));
                let late = self.requests.get(&tag).is_none_or(|life| life.answers > 0);
                self.rule(!late, || format!("request {tag} is submitted after its answer"));
                self.devices[device].in_flight += 1;
                self.devices[device].pages += pages(&request);
            }
            Output::Cancel { copy, timed_out: true, .. } => self.land(copy, true),
            Output::Complete { tag, op, .. } => self.answer(tag, op, false),
            Output::Fail { tag, op, .. } => self.answer(tag, op, true),
            Output::Cancel { .. } | Output::SetTimer { .. } => {}
        }
    }

    fn step(&mut self, _now: Nanos, array: &Array) {
        for (device, view) in array.devices().iter().enumerate() {
            let Expected { in_flight, pages } = self.devices[device];
            let pending = view.pending_pages();
            self.rule(view.in_flight() == in_flight, || {
                format!("device {device}: the array counts {} in flight, {in_flight} are", view.in_flight())
            });
            self.rule(pending == pages, || format!("device {device}: the array counts {pending} pages, {pages} are"));
        }
    }
}
