// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device as others see it.

use std::cell::RefCell;

use linnet_sim::Chance;
use linnet_types::{Device, Nanos, Op, Outcome, Request};

use crate::cause::Cause;
use crate::machine::Machine;
use crate::params::{Error, PAGE_BYTES, Params};
use crate::stats::Stats;

/// A modelled SSD in virtual time. A clone is a snapshot.
///
/// It never fails a request and never loses one. Offsets beyond [`Ssd::capacity_bytes`] wrap around it.
#[derive(Clone, Debug)]
pub struct Ssd {
    // A peek runs the timers that are due, which the next call would do first anyway; nothing else of it remains.
    machine: RefCell<Machine>,
    seed: u64,
}

impl Ssd {
    /// A new, empty device. The same parameters and seed give the same answers.
    ///
    /// # Errors
    /// What [`Params::validate`] refuses.
    pub fn new(params: &Params, seed: u64) -> Result<Ssd, Error> {
        params.validate()?;
        Ok(Ssd { machine: RefCell::new(Machine::new(params, seed)), seed })
    }

    /// Makes it a device in long use: every logical page written, then overwritten at random until garbage collection
    /// runs at a steady write amplification. The device is idle at time 0 after it, its statistics are zero, and what it held is forgotten.
    pub fn precondition(&mut self) {
        let machine = self.machine.get_mut();
        *machine = Machine::new(&machine.params.clone(), self.seed);
        machine.precondition(Chance::new(self.seed).fork(3));
    }

    /// Bytes that the host sees.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.machine.borrow().geometry.logical_pages) * u64::from(PAGE_BYTES)
    }

    /// The settings it was built with.
    pub fn params(&self) -> Params {
        self.machine.borrow().params.clone()
    }

    /// Least latency of a read of this size: that of an idle device.
    pub fn unloaded_read_ns(&self, size_bytes: u32) -> Nanos {
        self.machine.borrow().unloaded_read_ns(size_bytes)
    }

    /// Counters since the device was built or preconditioned.
    pub fn stats(&self) -> Stats {
        let machine = self.machine.borrow();
        let mut stats = machine.stats.clone();
        stats.wear = machine.ftl.wear();
        for (busy_ns, die) in stats.die_busy_ns.iter_mut().zip(&machine.dies) {
            *busy_ns = die.busy_ns;
        }
        stats
    }

    /// Checks that every logical page is in exactly one place and that all counts add up. Takes time proportional to capacity.
    ///
    /// # Errors
    /// What does not agree; it would be a defect of the model.
    pub fn check(&self) -> Result<(), String> {
        self.machine.borrow().check()
    }

    /// [`Device::submit`] that also tells what the request waited for.
    pub fn submit_explained(&mut self, now: Nanos, request: &Request) -> (Nanos, Cause) {
        let mut cause = Cause::default();
        let done = self.serve(now, request, Some(&mut cause));
        (done, cause)
    }

    #[inline]
    fn serve(&mut self, now: Nanos, request: &Request, cause: Option<&mut Cause>) -> Nanos {
        let machine = self.machine.get_mut();
        debug_assert!(now >= machine.stats.now_ns, "calls come with time never decreasing");
        machine.stats.now_ns = now;
        machine.advance(now);
        match request.op {
            Op::Read => machine.read(now, request, cause),
            Op::Write => machine.write(now, request, cause),
        }
    }
}

impl Device for Ssd {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        Outcome::Done(self.serve(now, request, None))
    }

    fn peek(&self, now: Nanos, request: &Request) -> Outcome {
        let mut machine = self.machine.borrow_mut();
        machine.advance(now);
        Outcome::Done(machine.peek(now, request))
    }
}
