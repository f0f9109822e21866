// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traits for devices that answer later, for models that know their answers in advance, and for the clock of a run.

use crate::{Nanos, Request};

/// How a request ended at its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The data moved.
    Done,
    /// An I/O error.
    Failed,
    /// The device refused the request because it predicted that it would be slow.
    Revoked,
    /// The device cancelled the request on demand.
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
/// `now` never decreases from call to call. The caller names each request by a token and may use the token again once
/// the request has ended. A device follows these rules:
///
/// - A request ends at most once, after it was submitted and with the same token. A request that never ends is lost.
/// - [`Device::poll`] returns every request that ended by `now`, in order of time, and none that ends later.
/// - Nothing ends before the time that [`Device::next_due`] returned last, unless a later submit or cancel causes it.
pub trait Device {
    /// Submits one request. The caller should first poll what ended by `now`.
    fn submit(&mut self, now: Nanos, token: u64, request: &Request);

    /// The time of the next poll, which is not after the next end of a request. Nothing may have ended by then, because
    /// a device may ask to be polled for its internal work. `None` if nothing is due, and in a real-time device until a
    /// request has ended.
    fn next_due(&mut self) -> Option<Nanos>;

    /// Appends the requests that have ended by `now` to `out`.
    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>);

    /// Asks the device to cancel a request. The device may end it as [`End::Cancelled`] or ignore the call, which is
    /// the default.
    fn cancel(&mut self, _now: Nanos, _token: u64) {}

    /// The device's foresight, if it has any. Real devices have none.
    fn foresight(&self) -> Option<&dyn Foresight> {
        None
    }
}

/// How and when a request will end, if that is known in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Completes at this time.
    Done(Nanos),
    /// Fails with an I/O error at this time.
    Error(Nanos),
    /// Never answers.
    Lost,
}

/// Answers in advance how a request would end. Only some models can do this. It serves what a host cannot do: the
/// oracle, counterfactuals, and counting false revokes.
pub trait Foresight {
    /// How this request would end if it were submitted now. Does not change later answers.
    fn peek(&self, now: Nanos, request: &Request) -> Outcome;

    /// [`Foresight::peek`] for callers that only need to know how the request ends by `limit`: if it completes later,
    /// the answer may be any time between `limit` and the completion. A model that computes a request part by part can
    /// stop at the first part that is late.
    fn peek_until(&self, now: Nanos, request: &Request, _limit: Nanos) -> Outcome {
        self.peek(now, request)
    }
}

/// A model in virtual time that returns each answer at submission, because nothing that arrives later changes it.
/// `linnet_sim::Modelled` makes a [`Device`] of it. `now` never decreases from call to call.
pub trait LatencyModel {
    /// Submits one request and returns how and when it ends.
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome;

    /// The model's foresight, if it has any.
    fn foresight(&self) -> Option<&dyn Foresight> {
        None
    }
}

/// Why [`Clock::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The time has come, or a device may have answered.
    Ready,
    /// Neither has happened for a while: the caller can check whether the run should stop.
    Idle,
    /// Nothing is due and no device can answer.
    Never,
}

/// The time of a run: virtual or real.
pub trait Clock {
    /// The time now; never decreases.
    fn now(&mut self) -> Nanos;

    /// Lets time pass until `due`, or until a device may have answered; without `due`, until a device may have
    /// answered.
    fn wait(&mut self, due: Option<Nanos>) -> Waited;
}
