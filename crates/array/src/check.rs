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
//!
//! With the array's settings ([`Checker::of`], for runs in virtual time) also:
//!
//! - A copy is cancelled at its time limit: not before, and none is in flight after it.
//! - Hedges, and revokes by policies that have a budget of them, keep within their budgets.
//! - Where every device holds every block and nothing is revoked, a replica that is out of service gets no read while
//!   another one is left; when its time is over, it gets one read until that has ended.

use std::collections::HashMap;

use linnet_core::Rate;
use linnet_types::{Nanos, Op, Request};

use crate::{Array, Config, CopyId, Counters, Input, Observer, Output, Progress};

/// An observer that checks rules. It collects violations; [`Checker::finish`] returns them.
#[derive(Debug, Default)]
pub struct Checker {
    devices: Vec<Expected>,
    replicas: u32,
    copies: HashMap<CopyId, Copy>,
    rules: Option<Rules>,
    requests: HashMap<u64, Life>,
    /// As the array says it: policies may have a budget of their own.
    hedge_rate: Option<Rate>,
    now_ns: Nanos,
    answered: [u64; 2],
    failed: [u64; 2],
    broken: Vec<String>,
}

/// What depends on the array's settings.
#[derive(Debug, Clone)]
struct Rules {
    config: Config,
    revokes: Revokes,
    /// Every device holds every block.
    everywhere: bool,
}

/// What a policy may revoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revokes {
    /// Nothing, and it sends a read elsewhere only if it fails.
    None,
    /// What its budget pays for.
    Budget,
    /// Anything.
    Any,
}

#[derive(Debug, Clone, Copy)]
struct Copy {
    device: usize,
    tag: u64,
    request: Request,
    submitted_ns: Nanos,
}

#[derive(Debug, Default, Clone, Copy)]
struct Expected {
    in_flight: u32,
    pages: u32,
    /// Copies that failed since the last read that succeeded, or write while only writes had failed.
    errors: u32,
    /// Some of them were reads.
    reads_failed: bool,
    /// Out of service until then; the next read is its probe.
    out_until_ns: Nanos,
    backoff_ns: Nanos,
    probe: Option<CopyId>,
}

#[derive(Debug, Clone, Copy)]
struct Life {
    op: Op,
    answers: u32,
    failures: u32,
    /// Devices that got a copy.
    tried: u64,
}

/// How a copy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Withdrawn,
    Failed,
    TimedOut,
}

/// Violations that are kept; the first ones are the most useful.
const BROKEN_MAX: usize = 20;

impl Checker {
    /// Checks an array of this many devices, with this many replicas of each stream.
    pub fn new(devices: usize, replicas: usize) -> Self {
        Checker { devices: vec![Expected::default(); devices], replicas: replicas as u32, ..Checker::default() }
    }

    /// [`Checker::new`] with the rules that depend on the settings.
    pub fn of(config: &Config, devices: usize, revokes: Revokes) -> Self {
        let rules = Rules { config: *config, revokes, everywhere: config.replicas == devices };
        Checker { rules: Some(rules), ..Checker::new(devices, config.replicas) }
    }

    fn rule(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds && self.broken.len() < BROKEN_MAX {
            let now = self.now_ns;
            self.broken.push(format!("at {now} ns: {}", text()));
        }
    }

    /// A copy is no longer in flight.
    fn land(&mut self, copy: CopyId, end: End) {
        let Some(Copy { device, tag, request, submitted_ns }) = self.copies.remove(&copy) else { return };
        let expected = &mut self.devices[device];
        expected.in_flight -= 1;
        expected.pages -= pages(&request);
        let failed = matches!(end, End::Failed | End::TimedOut);
        let probe = expected.probe == Some(copy);
        if let Some(life) = self.requests.get_mut(&tag) {
            life.failures += u32::from(failed);
        }
        let (now_ns, Some(Rules { config, .. })) = (self.now_ns, &self.rules) else { return };
        let limit_ns = if request.op.is_read() { config.read_timeout_ns } else { config.write_timeout_ns };
        if end == End::Completed {
            if request.op.is_read() || !expected.reads_failed {
                let Expected { in_flight, pages, .. } = *expected;
                *expected = Expected { in_flight, pages, ..Expected::default() };
            }
        } else if probe && end == End::Withdrawn {
            expected.out_until_ns = now_ns;
        } else if failed {
            expected.errors += 1;
            expected.reads_failed |= request.op.is_read();
            if expected.errors == config.settings.errors_max || probe {
                let absence_ns = if expected.backoff_ns > 0 { expected.backoff_ns } else { config.settings.out_ns };
                expected.out_until_ns = now_ns + absence_ns;
                expected.backoff_ns = (2 * absence_ns).min(config.settings.out_ns_max);
            }
        }
        let flew_ns = now_ns - submitted_ns;
        let in_time = if end == End::TimedOut { flew_ns == limit_ns } else { flew_ns <= limit_ns };
        self.rule(in_time, || format!("request {tag} ended after {flew_ns} ns ({end:?}), its limit is {limit_ns} ns"));
    }

    /// A read goes to a device.
    fn reads(&mut self, device: usize, tag: u64, copy: CopyId) {
        let Some(Rules { config, revokes: Revokes::None, everywhere: true }) = &self.rules else { return };
        let (now_ns, limit) = (self.now_ns, config.settings.errors_max);
        let out = |expected: &Expected| expected.errors >= limit && now_ns < expected.out_until_ns;
        let tried = self.requests.get(&tag).map_or(0, |life| life.tried);
        let other = (0..self.devices.len()).find(|&k| k != device && tried >> k & 1 == 0 && !out(&self.devices[k]));
        let own = self.devices[device];
        self.rule(!out(&own) || other.is_none(), || {
            format!("request {tag} is sent to device {device}, which is out of service; device {other:?} is not")
        });
        if own.errors >= limit && !out(&own) {
            self.devices[device].out_until_ns = now_ns + own.backoff_ns;
            self.devices[device].probe = Some(copy);
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
        if let Some(Rules { config, revokes, .. }) = self.rules.clone() {
            let within = |used: u64, rate: Rate| {
                let earned = u128::from(c.reads) * u128::from(rate.per_million) + u128::from(rate.burst) * 1_000_000;
                u128::from(used) * 1_000_000 <= earned
            };
            let hedges = self.hedge_rate.unwrap_or(config.hedge_budget);
            self.rule(within(c.hedges, hedges), || format!("more hedges than their budget: {c:?}"));
            let own = c.revokes - c.refusals;
            let allowed = match revokes {
                Revokes::None => own == 0,
                Revokes::Budget => within(own, config.settings.revokes),
                Revokes::Any => true,
            };
            self.rule(allowed, || format!("more revokes than their budget: {c:?}"));
        }
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
                let life = Life { op: request.op, answers: 0, failures: 0, tried: 0 };
                let known = self.requests.insert(tag, life).is_some();
                self.rule(!known, || format!("request {tag} arrives twice"));
            }
            Input::Completed(copy) => self.land(copy, End::Completed),
            Input::Revoked(copy) | Input::Cancelled(copy) => self.land(copy, End::Withdrawn),
            Input::Failed(copy) => self.land(copy, End::Failed),
            Input::Timer(_) => {}
        }
    }

    fn output(&mut self, _now: Nanos, output: &Output) {
        match *output {
            Output::Submit { device, copy, tag, request, .. } => {
                let twice = self.copies.values().any(|copy| (copy.device, copy.tag) == (device, tag));
                self.rule(!twice, || format!("device {device} gets request {tag} twice"));
                if request.op.is_read() {
                    self.reads(device, tag, copy);
                }
                let submitted_ns = self.now_ns;
                let known = self.copies.insert(copy, Copy { device, tag, request, submitted_ns }).is_some();
                self.rule(!known, || format!("{copy:?} is submitted twice"));
                let late = self.requests.get(&tag).is_none_or(|life| life.answers > 0);
                self.rule(!late, || format!("request {tag} is submitted after its answer"));
                if let Some(life) = self.requests.get_mut(&tag) {
                    life.tried |= 1u64.checked_shl(device as u32).unwrap_or(0);
                }
                self.devices[device].in_flight += 1;
                self.devices[device].pages += pages(&request);
            }
            Output::Cancel { copy, timed_out: true, .. } => self.land(copy, End::TimedOut),
            Output::Complete { tag, op, .. } => self.answer(tag, op, false),
            Output::Fail { tag, op, .. } => self.answer(tag, op, true),
            Output::Cancel { .. } | Output::SetTimer { .. } => {}
        }
    }

    fn step(&mut self, _now: Nanos, array: &Array) {
        self.hedge_rate = Some(array.hedge_rate());
        for (device, view) in array.devices().iter().enumerate() {
            let Expected { in_flight, pages, .. } = self.devices[device];
            let pending = view.pending_pages();
            self.rule(view.in_flight() == in_flight, || {
                format!("device {device}: the array counts {} in flight, {in_flight} are", view.in_flight())
            });
            self.rule(pending == pages, || format!("device {device}: the array counts {pending} pages, {pages} are"));
        }
    }
}
