// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that answer later, the abilities that some of them have beside that, and the clock of a run.

use crate::{Nanos, Request};

/// How a request ended at its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The data moved.
    Done,
    /// An I/O error.
    Failed,
    /// The device refused the request, because it predicted that it would be slow.
    Revoked,
    /// The device gave the request up, as it was asked to.
    Cancelled,
}

/// The end of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The name under which it was submitted.
    pub token: u64,
    /// When it ended: never before it was submitted.
    pub at_ns: Nanos,
    /// How.
    pub end: End,
}

/// A device that takes requests and answers later: a model in virtual time or a drive behind a driver.
///
/// Calls come with `now` never decreasing. The caller names each request by a token and may use the token again once the
/// request has ended. A device keeps these laws:
///
/// - A request ends at most once, after its submit, under the token of its submit. One that never ends is lost.
/// - [`Device::poll`] hands over all that ended by `now`, in the order of time, and nothing that ends later.
/// - Nothing ends before the time that [`Device::next_due`] told last, unless a later submit or cancel causes it.
pub trait Device {
    /// Hands one request to the device. What ended by `now` should have been polled before.
    fn submit(&mut self, now: Nanos, token: u64, request: &Request);

    /// When to poll next: no later than the next end. Nothing may have ended by then, since a device may ask to be polled for its
    /// own work. `None` while nothing is due; a device in real time, which cannot know, answers `None` until something has ended.
    fn next_due(&mut self) -> Option<Nanos>;

    /// Adds what has ended by `now` to `out`.
    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>);

    /// Asks the device to give a request up. It may end the request as [`End::Cancelled`] or go on as if not asked, which is
    /// what the default does.
    fn cancel(&mut self, _now: Nanos, _token: u64) {}

    /// The device's foresight, where it has any. Real devices have none.
    fn foresight(&self) -> Option<&dyn Foresight> {
        None
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn submit(&mut self, now: Nanos, token: u64, request: &Request) {
        (**self).submit(now, token, request);
    }

    fn next_due(&mut self) -> Option<Nanos> {
        (**self).next_due()
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
        (**self).poll(now, out);
    }

    fn cancel(&mut self, now: Nanos, token: u64) {
        (**self).cancel(now, token);
    }

    fn foresight(&self) -> Option<&dyn Foresight> {
        (**self).foresight()
    }
}

/// What becomes of a request, where that is known in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Completes at this time.
    Done(Nanos),
    /// Fails with an I/O error at this time.
    Error(Nanos),
    /// Never answers.
    Lost,
}

/// Knows what would become of a request. An ability of some models, for what a host cannot do: the oracle, counterfactuals,
/// and counting false revokes.
pub trait Foresight {
    /// What would become of this request if it were submitted now. Leaves later answers as they were.
    fn peek(&self, now: Nanos, request: &Request) -> Outcome;
}

/// A model in virtual time that tells at submission when it will answer, because nothing that arrives later changes that. An
/// adapter makes a [`Device`] of it (`linnet_sim::Modelled`). Calls come with `now` never decreasing.
pub trait LatencyModel {
    /// Takes one request and tells what becomes of it.
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome;

    /// The model's foresight, where it has any.
    fn foresight(&self) -> Option<&dyn Foresight> {
        None
    }
}

impl<M: LatencyModel + ?Sized> LatencyModel for Box<M> {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        (**self).submit(now, request)
    }

    fn foresight(&self) -> Option<&dyn Foresight> {
        (**self).foresight()
    }
}

/// Why [`Clock::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The time has come, or a device may have answered.
    Ready,
    /// Neither yet, after a while: a chance to see whether the run should stop.
    Idle,
    /// Nothing is due and nothing can come.
    Never,
}

/// The time of a run: virtual, or the wall's.
pub trait Clock {
    /// The time now; never decreases.
    fn now(&mut self) -> Nanos;

    /// Lets time pass until `due`, or until a device may have answered; without `due`, until a device may have answered.
    fn wait(&mut self, due: Option<Nanos>) -> Waited;
}
