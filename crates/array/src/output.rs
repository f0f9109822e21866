// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of the array to its driver.

use crate::{CopyId, TimerId};
use linnet_types::{Nanos, Op, Request};

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Submit this request to this device, and report its outcome with `copy`.
    Submit {
        /// The device's number.
        device: usize,
        /// Name of the copy.
        copy: CopyId,
        /// The caller's name of the request.
        tag: u64,
        /// What to read or write.
        request: Request,
        /// Whether another replica is left: then a device that predicts its own latency may refuse the read.
        may_revoke: bool,
    },
    /// The answer of this copy is no longer wanted. A driver that can cancel reports [`crate::Array::cancelled`]; one
    /// that cannot ignores this and reports the completion.
    Cancel {
        /// The device's number.
        device: usize,
        /// Name of the copy.
        copy: CopyId,
        /// The copy exceeded its time limit: any report of it will be dropped.
        timed_out: bool,
    },
    /// The request is answered.
    Complete {
        /// The caller's name of the request.
        tag: u64,
        /// Its stream.
        stream: usize,
        /// Its tenant.
        tenant: u32,
        /// Read or write.
        op: Op,
        /// When it arrived.
        arrive_ns: Nanos,
        /// From arrival to answer.
        latency_ns: Nanos,
    },
    /// The request failed at every replica.
    Fail {
        /// The caller's name of the request.
        tag: u64,
        /// Its stream.
        stream: usize,
        /// Its tenant.
        tenant: u32,
        /// Read or write.
        op: Op,
        /// When it arrived.
        arrive_ns: Nanos,
    },
    /// Call [`crate::Array::timer`] with this name at this time or soon after.
    SetTimer {
        /// When.
        at_ns: Nanos,
        /// Name of the timer.
        timer: TimerId,
    },
}
