// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that a device follows the rules of [`Device`].

use std::collections::BTreeMap;

use linnet_types::{Device, Ended, Foresight, Nanos, Request};

/// How many violations are kept; the first ones are the most useful.
const BROKEN_MAX: usize = 20;

/// Wraps a device in virtual time and checks each call. [`Lawful::finish`] returns the violations.
#[derive(Clone, Debug)]
pub struct Lawful<D> {
    device: D,
    /// Submit time of each request in flight, by token.
    inside: BTreeMap<u64, Nanos>,
    now_ns: Nanos,
    /// What `next_due` returned last, unless a request was submitted or cancelled since.
    told: Option<Option<Nanos>>,
    broken: Vec<String>,
}

impl<D: Device> Lawful<D> {
    /// Checks `device`.
    pub fn new(device: D) -> Self {
        Lawful { device, inside: BTreeMap::new(), now_ns: 0, told: None, broken: Vec::new() }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Requests that have not ended.
    pub fn inside(&self) -> usize {
        self.inside.len()
    }

    /// Returns the violations, if there are any.
    pub fn finish(self) -> Result<(), Vec<String>> {
        if self.broken.is_empty() { Ok(()) } else { Err(self.broken) }
    }

    fn rule(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds && self.broken.len() < BROKEN_MAX {
            let now = self.now_ns;
            self.broken.push(format!("at {now} ns: {}", text()));
        }
    }

    fn pass(&mut self, now: Nanos) {
        let before = self.now_ns;
        self.rule(now >= before, || format!("the caller goes back to {now} ns"));
        self.now_ns = now;
    }

    fn check(&mut self, one: &Ended, previous_ns: Nanos) {
        let Ended { token, at_ns, .. } = *one;
        match self.inside.remove(&token) {
            Some(submit_ns) => {
                self.rule(at_ns >= submit_ns, || format!("{token} ends at {at_ns}, before its submit at {submit_ns}"));
            }
            None => self.rule(false, || format!("{token} ends and is not inside: twice, or never submitted")),
        }
        let now = self.now_ns;
        self.rule(at_ns <= now, || format!("{token} ends at {at_ns}, which has not come"));
        self.rule(at_ns >= previous_ns, || format!("{token} ends at {at_ns}, polled after one of {previous_ns}"));
        if let Some(told) = self.told {
            let due = told.is_some_and(|due| due <= at_ns);
            self.rule(due, || format!("{token} ends at {at_ns}, and {told:?} was told to be due"));
        }
    }
}

impl<D: Device> Device for Lawful<D> {
    fn submit(&mut self, now: Nanos, token: u64, request: &Request) {
        self.pass(now);
        self.told = None;
        let before = self.inside.insert(token, now);
        self.rule(before.is_none(), || format!("the caller submits {token} again before it ended"));
        self.device.submit(now, token, request);
    }

    fn next_due(&mut self) -> Option<Nanos> {
        let due = self.device.next_due();
        self.told = Some(due);
        due
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
        self.pass(now);
        let from = out.len();
        self.device.poll(now, out);
        let mut previous_ns = 0;
        for one in &out[from..] {
            self.check(one, previous_ns);
            previous_ns = one.at_ns;
        }
        let due = self.device.next_due();
        self.rule(due.is_none_or(|due| due > now), || format!("{due:?} is still due after a poll at {now}"));
        self.told = Some(due);
    }

    fn cancel(&mut self, now: Nanos, token: u64) {
        self.pass(now);
        self.told = None;
        self.device.cancel(now, token);
    }

    fn foresight(&self) -> Option<&dyn Foresight> {
        self.device.foresight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chance, FaultPlan, Faulty, Modelled, TestDevice};
    use linnet_types::Op;

    fn request(chance: &mut Chance) -> Request {
        let op = if chance.happens(0.6) { Op::Read } else { Op::Write };
        Request::new(op, chance.below(1 << 20) * 4096, 4096 * (1 + chance.below(8) as u32))
    }

    /// Submits at random times, polls when the device asks for it and now and then without being asked.
    fn exercise(device: impl Device, seed: u64) -> Result<(), Vec<String>> {
        let (mut device, mut chance, mut out, mut now) = (Lawful::new(device), Chance::new(seed), Vec::new(), 0);
        for token in 0..2_000 {
            now += chance.below(40_000);
            while let Some(due) = device.next_due().filter(|&due| due <= now) {
                device.poll(due, &mut out);
                if device.next_due() == Some(due) {
                    break;
                }
            }
            if chance.happens(0.2) {
                device.poll(now, &mut out);
            }
            device.submit(now, token, &request(&mut chance));
            if chance.happens(0.1) {
                device.cancel(now, token);
            }
        }
        device.poll(Nanos::MAX, &mut out);
        device.finish()
    }

    #[test]
    fn test_devices_keep_the_laws_with_faults_and_without() {
        let mut chance = Chance::new(5);
        for seed in 0..30 {
            let test_device = || Modelled::new(TestDevice::busy(400_000, 0.5, seed));
            assert_eq!(exercise(test_device(), seed), Ok(()), "seed {seed}");
            let plan = FaultPlan::random(&mut chance, 20_000_000);
            assert_eq!(exercise(Faulty::new(test_device(), plan.clone(), seed), seed), Ok(()), "seed {seed}, {plan:?}");
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Breakage {
        EndsTwice,
        EndsBeforeSubmit,
        EndsTooSoon,
        EndsUnordered,
        EndsUnknown,
        TellsTooLate,
        StaysDue,
    }

    /// A device that sometimes breaks one rule.
    struct Broken(Modelled<TestDevice>, Breakage);

    impl Device for Broken {
        fn submit(&mut self, now: Nanos, token: u64, request: &Request) {
            self.0.submit(now, token, request);
        }

        fn next_due(&mut self) -> Option<Nanos> {
            match self.1 {
                Breakage::TellsTooLate => self.0.next_due().map(|due| due + 1),
                Breakage::StaysDue => self.0.next_due().or(Some(0)),
                _ => self.0.next_due(),
            }
        }

        fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
            let from = out.len();
            self.0.poll(now, out);
            let breakage = self.1;
            match (breakage, out.last_mut()) {
                (Breakage::EndsTwice, Some(one)) => {
                    let again = *one;
                    out.push(again);
                }
                (Breakage::EndsBeforeSubmit, Some(one)) => one.at_ns = 0,
                (Breakage::EndsTooSoon, Some(one)) => one.at_ns = now.saturating_add(1),
                (Breakage::EndsUnknown, Some(one)) => one.token += 1 << 40,
                (Breakage::EndsUnordered, _) => out[from..].reverse(),
                _ => {}
            }
        }
    }

    #[test]
    fn each_broken_law_is_found() {
        use Breakage::*;
        for breakage in [EndsTwice, EndsBeforeSubmit, EndsTooSoon, EndsUnordered, EndsUnknown, TellsTooLate, StaysDue] {
            let device = Broken(Modelled::new(TestDevice::busy(400_000, 0.5, 1)), breakage);
            assert!(exercise(device, 1).is_err(), "{breakage:?} was not found");
        }
    }
}
