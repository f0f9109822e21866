// SPDX-License-Identifier: MIT OR Apache-2.0
//! The SSD model: what an I/O costs on a flash device, in virtual time.
//!
//! A device is a set of timelines (one per die, per channel and per direction of the host link) over a page-mapped
//! flash translation layer. No event is queued per page: a request is charged against the timelines when it arrives, and internal work (flush,
//! garbage collection, mapping checkpoints) is brought up to date lazily. So [`Ssd`] knows when a request will be done at
//! the moment it is submitted, and can tell what it would cost without submitting it ([`linnet_types::Foresight`]).
//!
//! `docs/design/ssd-model.md` lists the mechanisms, the part of the latency tail that each makes, and the limits.

mod buffer;
mod cause;
mod check;
mod die;
mod explain;
mod file;
mod ftl;
mod geometry;
mod internal;
mod machine;
mod params;
mod precondition;
mod presets;
pub mod queued;
mod reference;
mod serve;
mod snapshot;
mod spans;
mod ssd;
mod stats;
mod table;
mod timeline;

pub use cause::{Cause, Mechanism, Source};
pub use check::{Check, check};
pub use explain::{Breakdown, Part, breakdown};
pub use file::DeviceParams;
pub use params::{Error, Params, ReadPriority};
pub use presets::{PRESETS, QUEUED_PRESETS};
pub use reference::{CheckError, Reference};
pub use spans::{Resource, Span};
pub use ssd::Ssd;
pub use stats::{SlowReads, Stats, StreamStats, Wear};
