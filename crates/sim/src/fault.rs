// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of storage devices, injected between the caller and a device.
//!
//! Each fault imitates something that drives and links do:
//!
//! - **Stall.** The firmware is busy with itself (a long housekeeping pass, a thermal pause, a link that is being
//!   retrained). Requests are accepted and served inside, but no answer leaves before the stall ends; then all of them
//!   leave at once.
//! - **Lost completion.** The device did the work and the interrupt or the completion entry never came. The caller
//!   hears nothing, ever; only its own time limit helps.
//! - **Read error.** The error correction gave up on a flash page. The answer comes when the data would have, and says
//!   so. Another copy of the data is not affected. Writes do not fail this way: a drive remaps a bad page silently.
//! - **Replica gone and back.** A pulled cable, a crashed host, a controller reset. While it is gone, requests fail at
//!   once; requests that it held when it went fail at that moment; later it serves again as if nothing had been.
//!
//! A stall delays what a device answers, so it is applied before the others: an answer that was held back into a time
//! when the device is gone fails. Everything is decided by the plan and by (seed, number of the request), so that a peek
//! foretells exactly what a submit will do, faults included.

use crate::Chance;
use linnet_types::{Device, Nanos, Outcome, Request};

/// A stretch of virtual time: from `start_ns`, up to but not including `end_ns`.
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

/// Which faults a device has, and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// When no answer leaves the device.
    pub stalls: Vec<Window>,
    /// When the device is not there.
    pub gone: Vec<Window>,
    /// Share of requests whose answer is lost: 0 none, 1 all.
    pub lost_share: f64,
    /// Share of reads that answer with an error: 0 none, 1 all that are not lost.
    pub error_share: f64,
    /// Requests handed over from this time on lose no answer and read no error. Windows end by themselves.
    pub until_ns: Nanos,
}

impl FaultPlan {
    /// No fault at all.
    pub fn none() -> Self {
        FaultPlan::default()
    }

    /// Draws a plan whose faults all end before `until_ns`: up to three stalls and two absences of at most a tenth of
    /// that time each, up to 1 % of answers lost and up to 5 % read errors. Each kind is absent half of the time.
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

/// How many requests met which fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Answers held back by a stall.
    pub stalled: u64,
    /// Answers lost.
    pub lost: u64,
    /// Reads that failed with an error.
    pub read_errors: u64,
    /// Requests that failed because the device was gone.
    pub gone: u64,
}

/// A device with faults in front of it.
#[derive(Clone, Debug)]
pub struct Faulty<D> {
    device: D,
    plan: FaultPlan,
    chance: Chance,
    requests: u64,
    counts: FaultCounts,
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
    /// Puts `plan` in front of `device`. The seed decides which requests the shares of the plan hit.
    pub fn new(device: D, plan: FaultPlan, seed: u64) -> Self {
        Faulty { device, plan, chance: Chance::new(seed), requests: 0, counts: FaultCounts::default() }
    }

    /// How many requests met which fault so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// The device behind the faults.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// True when the device is gone at `now`, so that a request fails at once and never reaches it.
    fn is_gone(&self, now: Nanos) -> bool {
        self.plan.gone.iter().any(|window| window.holds(now))
    }

    /// What the caller hears when the device itself answers `outcome` to its request of `now`.
    fn disturb(&self, now: Nanos, request: &Request, outcome: Outcome) -> (Outcome, Fault) {
        let Outcome::Done(due) = outcome else {
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
            let drawn = (self.chance.at(self.requests) >> 11) as f64 / (1u64 << 53) as f64;
            if drawn < self.plan.lost_share {
                return (Outcome::Lost, Fault::Lost);
            }
            if request.op.is_read() && drawn < self.plan.lost_share + self.plan.error_share {
                return (Outcome::Error(at), Fault::ReadError);
            }
        }
        (Outcome::Done(at), if at == due { Fault::None } else { Fault::Stalled })
    }
}

impl<D: Device> Device for Faulty<D> {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        let (outcome, fault) = if self.is_gone(now) {
            (Outcome::Error(now), Fault::Gone)
        } else {
            let answer = self.device.submit(now, request);
            self.disturb(now, request, answer)
        };
        self.requests += 1;
        match fault {
            Fault::None => {}
            Fault::Stalled => self.counts.stalled += 1,
            Fault::Lost => self.counts.lost += 1,
            Fault::ReadError => self.counts.read_errors += 1,
            Fault::Gone => self.counts.gone += 1,
        }
        outcome
    }

    fn peek(&self, now: Nanos, request: &Request) -> Outcome {
        if self.is_gone(now) {
            return Outcome::Error(now);
        }
        self.disturb(now, request, self.device.peek(now, request)).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;
    use linnet_types::Op;

    const READ: Request = Request::new(Op::Read, 0, 4096);
    const WRITE: Request = Request::new(Op::Write, 0, 4096);

    fn steady() -> Toy {
        Toy::steady(100, 100)
    }

    #[test]
    fn a_stall_holds_every_answer_until_it_ends() {
        let plan = FaultPlan { stalls: vec![Window { start_ns: 1000, end_ns: 5000 }], ..FaultPlan::none() };
        let mut device = Faulty::new(steady(), plan, 0);
        assert_eq!(device.submit(800, &READ), Outcome::Done(900));
        assert_eq!(device.submit(950, &READ), Outcome::Done(5000));
        assert_eq!(device.submit(3000, &READ), Outcome::Done(5000));
        assert_eq!(device.submit(5000, &READ), Outcome::Done(5100));
        assert_eq!(device.counts(), FaultCounts { stalled: 2, ..FaultCounts::default() });
    }

    #[test]
    fn a_gone_replica_fails_what_it_held_and_comes_back() {
        let plan = FaultPlan { gone: vec![Window { start_ns: 1000, end_ns: 2000 }], ..FaultPlan::none() };
        let mut device = Faulty::new(steady(), plan, 0);
        assert_eq!(device.submit(950, &READ), Outcome::Error(1000));
        assert_eq!(device.submit(1500, &WRITE), Outcome::Error(1500));
        assert_eq!(device.submit(2000, &READ), Outcome::Done(2100));
        assert_eq!(device.counts().gone, 2);
    }

    #[test]
    fn shares_are_met_and_stop() {
        let plan = FaultPlan { lost_share: 0.1, error_share: 0.2, until_ns: 10_000_000, ..FaultPlan::none() };
        let mut device = Faulty::new(steady(), plan, 3);
        for i in 0..10_000u64 {
            device.submit(i * 1000, if i % 2 == 0 { &READ } else { &WRITE });
        }
        let counts = device.counts();
        assert!((900..1100).contains(&counts.lost), "{counts:?}");
        assert!((900..1100).contains(&counts.read_errors), "reads are half of the requests: {counts:?}");
        for i in 10_000..12_000u64 {
            assert!(matches!(device.submit(i * 1000, &READ), Outcome::Done(_)));
        }
    }

    #[test]
    fn a_peek_foretells_the_submit() {
        let mut chance = Chance::new(11);
        for seed in 0..20 {
            let plan = FaultPlan::random(&mut chance, 1_000_000);
            let mut device = Faulty::new(Toy::busy(100_000, 0.5, seed), plan, seed);
            let mut now = 0;
            for i in 0..500 {
                now += chance.below(5000);
                let request = if i % 3 == 0 { &WRITE } else { &READ };
                let foretold = device.peek(now, request);
                assert_eq!(device.submit(now, request), foretold);
            }
        }
    }
}
