// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model of an SSD: the latency of each I/O on a flash device, in virtual time.
//!
//! Two engines model the same kind of device:
//! - `timeline`: [`Ssd`] charges a request against one timeline per die, per channel and per direction of the host
//!   link. It knows at submission when a request will complete. It can also predict the latency of a request without
//!   submitting it ([`linnet_types::Foresight`]).
//! - [`queued`]: [`queued::QueuedSsd`] simulates every operation and answers when it is done.
//!
//! `compare` checks the queued engine against another simulator. Both engines read their settings from parameter files
//! ([`DeviceParams`]); the presets are such files.
//!
//! `docs/design/ssd-model.md` lists the mechanisms, how much of the latency tail each causes, and the limits.

mod cause;
mod compare;
mod error;
mod explain;
mod file;
mod keys;
mod precondition;
mod presets;
pub mod queued;
mod tenants;
mod timeline;

pub use cause::{Cause, Mechanism, Source};
pub use compare::{Check, CheckError, Reference, check};
pub use error::Error;
pub use explain::{Breakdown, Part, breakdown};
pub use file::DeviceParams;
pub use precondition::Settled;
pub use presets::{PRESETS, QUEUED_PRESETS};
pub use tenants::{Tenant, TenantLatencies, run_tenants};
pub use timeline::{Params, ReadPriority, Resource, SlowReads, Span, Ssd, Stats, StreamStats, Wear};

/// Requests, or pages, from one question whether to go on to the next.
const ASKED_EVERY: u64 = 1 << 16;
