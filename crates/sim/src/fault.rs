// SPDX-License-Identifier: MIT OR Apache-2.0
//! Injects faults of storage devices between the caller and a device.
//!
//! Each fault imitates a real fault of drives and links:
//!
//! - **Stall.** The firmware is busy with internal work (a long housekeeping pass, a thermal pause, a link that is
//!   being retrained). The device accepts and serves requests, but sends no answer before the stall ends; then it sends
//!   all of them at once.
//! - **Lost completion.** The device did the work, but the interrupt or the completion entry never came. The caller
//!   never gets an answer; only its own timeout helps.
//! - **Read error.** The error correction could not recover a flash page. The error comes when the data would have
//!   come. Other copies of the data are not affected. Writes do not fail this way: a drive remaps a bad page silently.
//! - **Replica gone and back.** A pulled cable, a crashed host, a controller reset. While the device is gone, requests
//!   fail at once. Requests in flight when it goes fail at that moment. Afterwards it serves as before.
//!
//! A stall delays the answers of the device, so it is applied before the other faults: an answer that a stall delays
//! until the device is gone fails. The plan and (seed, number of the request) determine everything. So a device with
//! foresight keeps it: a peek returns exactly what a submit will do, faults included.

use std::collections::BTreeMap;

use crate::{Chance, EventQueue};
use linnet_types::{Device, End, Ended, Foresight, Nanos, Outcome, Request};

/// An interval of virtual time: from `start_ns`, up to but not including `end_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First nanosecond inside.
    pub start_ns: Nanos,
    /// First nanosecond after.
    pub end_ns: Nanos,
}

impl Window {
    fn holds(&self, at: Nanos) -> bool {
        self.start_ns <= at && at < self.end_ns
    }
}

/// Shortest and longest drawn stall of [`FaultPlan::stalling`].
const STALL_NS: (f64, f64) = (50e6, 1e9);

/// Which faults a device has, and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// When the device sends no answer.
    pub stalls: Vec<Window>,
    /// When the device is gone.
    pub gone: Vec<Window>,
    /// Share of requests whose answer is lost: 0 none, 1 all.
    pub lost_share: f64,
    /// Share of reads that answer with an error: 0 none, 1 all that are not lost.
    pub error_share: f64,
    /// Requests submitted from this time on lose no answer and get no read error. Windows have their own ends.
    pub until_ns: Nanos,
}

impl FaultPlan {
    /// No fault at all.
    pub fn none() -> Self {
        FaultPlan::default()
    }

    /// Draws stalls that begin before `until_ns`: on average so many a minute, at times that do not depend on each other,
    /// of 50 ms to a second, every order of magnitude as often.
    pub fn stalling(chance: &mut Chance, per_minute: f64, until_ns: Nanos) -> Self {
        let mut plan = FaultPlan::none();
        if per_minute <= 0.0 {
            return plan;
        }
        let mut start_ns = chance.exponential(60e9 / per_minute) as Nanos;
        while start_ns < until_ns {
            let length_ns = STALL_NS.0 * (STALL_NS.1 / STALL_NS.0).powf(chance.unit());
            plan.stalls.push(Window { start_ns, end_ns: start_ns + length_ns as Nanos });
            start_ns += 1 + chance.exponential(60e9 / per_minute) as Nanos;
        }
        plan
    }

    /// Draws a plan whose faults all end before `until_ns`: up to three stalls and two absences, each at most a tenth
    /// of that time, up to 1 % of answers lost and up to 5 % read errors. Each kind is left out with probability one
    /// half.
    pub fn random(chance: &mut Chance, until_ns: Nanos) -> Self {
        let stalls = windows(chance, 3, until_ns);
        let gone = windows(chance, 2, until_ns);
        let lost_share = if chance.happens(0.5) { 0.01 * chance.unit() } else { 0.0 };
        let error_share = if chance.happens(0.5) { 0.05 * chance.unit() } else { 0.0 };
        FaultPlan { stalls, gone, lost_share, error_share, until_ns }
    }
}

fn windows(chance: &mut Chance, most: u64, until_ns: Nanos) -> Vec<Window> {
    if until_ns < 20 || chance.happens(0.5) {
        return Vec::new();
    }
    let count = 1 + chance.below(most);
    let mut drawn: Vec<Window> = (0..count)
        .map(|_| {
            let length = 1 + chance.below(until_ns / 10);
            let start_ns = chance.below(until_ns - length);
            Window { start_ns, end_ns: start_ns + length }
        })
        .collect();
    drawn.sort_by_key(|window| window.start_ns);
    drawn
}

/// How many requests each fault hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Answers delayed by a stall.
    pub stalled: u64,
    /// Answers lost.
    pub lost: u64,
    /// Reads that failed with an error.
    pub read_errors: u64,
    /// Requests that failed because the device was gone.
    pub gone: u64,
}

/// A device with injected faults.
#[derive(Clone, Debug)]
pub struct Faulty<D> {
    device: D,
    plan: FaultPlan,
    chance: Chance,
    /// Requests so far, which is the number of the next one. The number is the token at the inner device.
    requests: u64,
    counts: FaultCounts,
    /// The requests in flight at the inner device, by number.
    inside: BTreeMap<u64, Asked>,
    /// Ends that are already determined, until they are due.
    ends: EventQueue<(u64, End)>,
    /// The first absence that has not begun.
    next_gone: usize,
    ended: Vec<Ended>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    token: u64,
    submit_ns: Nanos,
    is_read: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Stalled,
    Lost,
    ReadError,
    Gone,
}

impl<D: Device> Faulty<D> {
    /// Injects `plan` in front of `device`. The seed determines which requests the shares of the plan hit.
    pub fn new(device: D, mut plan: FaultPlan, seed: u64) -> Self {
        plan.gone.sort_by_key(|window| window.start_ns);
        Faulty {
            device,
            plan,
            chance: Chance::new(seed),
            requests: 0,
            counts: FaultCounts::default(),
            inside: BTreeMap::new(),
            ends: EventQueue::new(),
            next_gone: 0,
            ended: Vec::new(),
        }
    }

    /// How many requests each fault has hit so far. A fault is counted when its request ends, or would have ended.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// The inner device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// True if the device is gone at `now`, so that a request fails at once and never reaches it.
    fn is_gone(&self, now: Nanos) -> bool {
        self.plan.gone.iter().any(|window| window.holds(now))
    }

    /// The answer that the caller gets to request `number`, submitted at `now`, if the inner device answers `outcome`.
    fn disturb(&self, now: Nanos, number: u64, is_read: bool, outcome: Outcome) -> (Outcome, Fault) {
        let (Outcome::Done(due) | Outcome::Error(due)) = outcome else {
            return (outcome, Fault::None);
        };
        let mut at = due;
        for stall in &self.plan.stalls {
            if stall.holds(at) {
                at = stall.end_ns;
            }
        }
        if let Some(window) = self.plan.gone.iter().find(|window| now < window.start_ns && window.start_ns <= at) {
            return (Outcome::Error(window.start_ns), Fault::Gone);
        }
        if now < self.plan.until_ns {
            let drawn = (self.chance.at(number) >> 11) as f64 / (1u64 << 53) as f64;
            if drawn < self.plan.lost_share {
                return (Outcome::Lost, Fault::Lost);
            }
            if is_read && drawn < self.plan.lost_share + self.plan.error_share {
                return (Outcome::Error(at), Fault::ReadError);
            }
        }
        let late = if at == due { Fault::None } else { Fault::Stalled };
        (if matches!(outcome, Outcome::Done(_)) { Outcome::Done(at) } else { Outcome::Error(at) }, late)
    }

    /// Polls the inner device until `until` and determines the answer to each request that ended.
    fn collect(&mut self, until: Nanos) {
        let mut ended = std::mem::take(&mut self.ended);
        self.device.poll(until, &mut ended);
        for one in ended.drain(..) {
            // A request that is not in the map has failed already, when the device went.
            let Some(asked) = self.inside.remove(&one.token) else { continue };
            let outcome = if one.end == End::Failed { Outcome::Error(one.at_ns) } else { Outcome::Done(one.at_ns) };
            let (outcome, fault) = self.disturb(asked.submit_ns, one.token, asked.is_read, outcome);
            self.count(fault);
            match outcome {
                // Refused and cancelled requests move no data, so a data fault does not affect them.
                _ if one.end == End::Revoked || one.end == End::Cancelled => {
                    self.ends.push(one.at_ns, (asked.token, one.end));
                }
                Outcome::Done(at) => self.ends.push(at, (asked.token, End::Done)),
                Outcome::Error(at) => self.ends.push(at, (asked.token, End::Failed)),
                Outcome::Lost => {}
            }
        }
        self.ended = ended;
    }

    /// The device goes at `start_ns`, and all requests in flight fail.
    fn go(&mut self, start_ns: Nanos) {
        self.collect(start_ns.saturating_sub(1));
        let held: Vec<u64> =
            self.inside.iter().filter(|(_, asked)| asked.submit_ns < start_ns).map(|(&number, _)| number).collect();
        for number in held {
            if let Some(asked) = self.inside.remove(&number) {
                self.count(Fault::Gone);
                self.ends.push(start_ns, (asked.token, End::Failed));
            }
        }
    }

    fn count(&mut self, fault: Fault) {
        match fault {
            Fault::None => {}
            Fault::Stalled => self.counts.stalled += 1,
            Fault::Lost => self.counts.lost += 1,
            Fault::ReadError => self.counts.read_errors += 1,
            Fault::Gone => self.counts.gone += 1,
        }
    }
}

impl<D: Device> Device for Faulty<D> {
    fn submit(&mut self, now: Nanos, token: u64, request: &Request) {
        let number = self.requests;
        self.requests += 1;
        if self.is_gone(now) {
            self.count(Fault::Gone);
            self.ends.push(now, (token, End::Failed));
            return;
        }
        self.inside.insert(number, Asked { token, submit_ns: now, is_read: request.op.is_read() });
        self.device.submit(now, number, request);
    }

    fn next_due(&mut self) -> Option<Nanos> {
        let gone = self.plan.gone.get(self.next_gone).map(|window| window.start_ns);
        let gone = gone.filter(|_| !self.inside.is_empty());
        self.device.next_due().into_iter().chain(self.ends.next_ns()).chain(gone).min()
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
        while let Some(start_ns) = self.plan.gone.get(self.next_gone).map(|window| window.start_ns)
            && start_ns <= now
        {
            self.next_gone += 1;
            self.go(start_ns);
        }
        self.collect(now);
        while self.ends.next_ns().is_some_and(|at| at <= now)
            && let Some((at_ns, (token, end))) = self.ends.pop()
        {
            out.push(Ended { token, at_ns, end });
        }
    }

    fn foresight(&self) -> Option<&dyn Foresight> {
        self.device.foresight().is_some().then_some(self)
    }
}

impl<D: Device> Foresight for Faulty<D> {
    fn peek(&self, now: Nanos, request: &Request) -> Outcome {
        if self.is_gone(now) {
            return Outcome::Error(now);
        }
        let outcome = self.device.foresight().map_or(Outcome::Lost, |device| device.peek(now, request));
        self.disturb(now, self.requests, request.op.is_read(), outcome).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Modelled, TestDevice};
    use linnet_types::Op;

    const READ: Request = Request::new(Op::Read, 0, 4096);
    const WRITE: Request = Request::new(Op::Write, 0, 4096);

    fn faulty(plan: FaultPlan, seed: u64) -> Faulty<Modelled<TestDevice>> {
        Faulty::new(Modelled::new(TestDevice::steady(100, 100)), plan, seed)
    }

    #[test]
    fn stalls_are_as_many_and_as_long_as_asked_for() {
        let (hour, mut chance) = (3_600_000_000_000, Chance::new(3));
        let stalls = FaultPlan::stalling(&mut chance, 6.0, hour).stalls;
        assert!((300..420).contains(&stalls.len()), "{} in an hour", stalls.len());
        assert!(stalls.is_sorted_by_key(|stall| stall.start_ns) && stalls.iter().all(|stall| stall.start_ns < hour));
        let length_ms: Vec<u64> = stalls.iter().map(|stall| (stall.end_ns - stall.start_ns) / 1_000_000).collect();
        assert!(length_ms.iter().all(|ms| (50..=1_000).contains(ms)));
        let short = length_ms.iter().filter(|&&ms| ms < 224).count();
        assert!((0.4..0.6).contains(&(short as f64 / stalls.len() as f64)), "{short} below the geometric mean");
        assert_eq!(FaultPlan::stalling(&mut chance, 0.0, hour), FaultPlan::none());
    }

    /// Submits the requests at their times, with their index as token, polls when due, and returns the ends.
    fn serve(device: &mut impl Device, asked: &[(Nanos, Request)]) -> Vec<Ended> {
        let mut out = Vec::new();
        for (token, (now, request)) in asked.iter().enumerate() {
            while let Some(due) = device.next_due().filter(|due| due <= now) {
                device.poll(due, &mut out);
            }
            device.submit(*now, token as u64, request);
        }
        while let Some(due) = device.next_due() {
            device.poll(due, &mut out);
        }
        out
    }

    fn ended(token: u64, at_ns: Nanos, end: End) -> Ended {
        Ended { token, at_ns, end }
    }

    #[test]
    fn a_stall_holds_every_answer_until_it_ends() {
        let plan = FaultPlan { stalls: vec![Window { start_ns: 1000, end_ns: 5000 }], ..FaultPlan::none() };
        let mut device = faulty(plan, 0);
        let out = serve(&mut device, &[(800, READ), (950, READ), (3000, READ), (5000, READ)]);
        let expected = [(0, 900), (1, 5000), (2, 5000), (3, 5100)].map(|(token, at)| ended(token, at, End::Done));
        assert_eq!(out, expected);
        assert_eq!(device.counts(), FaultCounts { stalled: 2, ..FaultCounts::default() });
    }

    #[test]
    fn a_gone_replica_fails_what_it_held_and_comes_back() {
        let plan = FaultPlan { gone: vec![Window { start_ns: 1000, end_ns: 2000 }], ..FaultPlan::none() };
        let mut device = faulty(plan, 0);
        let out = serve(&mut device, &[(950, READ), (1500, WRITE), (2000, READ)]);
        assert_eq!(out, [ended(0, 1000, End::Failed), ended(1, 1500, End::Failed), ended(2, 2100, End::Done)]);
        assert_eq!(device.counts().gone, 2);
    }

    #[test]
    fn an_answer_that_a_stall_holds_fails_when_the_device_goes() {
        let plan = FaultPlan {
            stalls: vec![Window { start_ns: 150, end_ns: 900 }],
            gone: vec![Window { start_ns: 500, end_ns: 600 }],
            ..FaultPlan::none()
        };
        assert_eq!(serve(&mut faulty(plan, 0), &[(100, READ)]), [ended(0, 500, End::Failed)]);
    }

    #[test]
    fn shares_are_met_and_stop() {
        let plan = FaultPlan { lost_share: 0.1, error_share: 0.2, until_ns: 10_000_000, ..FaultPlan::none() };
        let mut device = faulty(plan, 3);
        let asked: Vec<_> = (0..12_000u64).map(|i| (i * 1000, if i % 2 == 0 { READ } else { WRITE })).collect();
        let out = serve(&mut device, &asked);
        let counts = device.counts();
        assert!((900..1100).contains(&counts.lost), "{counts:?}");
        assert!((900..1100).contains(&counts.read_errors), "reads are half of the requests: {counts:?}");
        assert_eq!(out.len() as u64, 12_000 - counts.lost);
        let quiet = out.iter().filter(|one| one.token >= 10_000);
        assert!(quiet.clone().count() == 2_000 && quiet.clone().all(|one| one.end == End::Done));
    }

    #[test]
    fn a_peek_tells_the_end() {
        let mut chance = Chance::new(11);
        for seed in 0..20 {
            let plan = FaultPlan::random(&mut chance, 1_000_000);
            let mut device = Faulty::new(Modelled::new(TestDevice::busy(100_000, 0.5, seed)), plan, seed);
            let (mut now, mut told, mut out) = (0, Vec::new(), Vec::new());
            for token in 0..500 {
                now += chance.below(5000);
                let request = if token % 3 == 0 { &WRITE } else { &READ };
                while let Some(due) = device.next_due().filter(|&due| due <= now) {
                    device.poll(due, &mut out);
                }
                match device.foresight().expect("a test device has foresight").peek(now, request) {
                    Outcome::Done(at) => told.push(ended(token, at, End::Done)),
                    Outcome::Error(at) => told.push(ended(token, at, End::Failed)),
                    Outcome::Lost => {}
                }
                device.submit(now, token, request);
            }
            device.poll(Nanos::MAX, &mut out);
            out.sort_by_key(|one| one.token);
            assert_eq!(out, told);
        }
    }
}
