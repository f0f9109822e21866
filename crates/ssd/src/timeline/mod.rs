// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine that answers at submission: one timeline per die, per channel and per direction of the host link.
//!
//! There is no event per page: a request is charged against the timelines when it arrives, and internal work (flush,
//! garbage collection, mapping checkpoints) catches up when the next request needs it.
//!
//! - Settings: [`params`], [`geometry`]. Public interface: [`ssd`], with its counters and recorded spans: [`stats`],
//!   [`spans`].
//! - State: [`machine`] holds one [`die`] and one `line` per resource, the map of pages ([`ftl`]) and the write
//!   [`buffer`].
//! - Work: [`read`] and [`write`] charge requests, [`internal`] the device's internal work, [`precondition`] ages a new
//!   device. [`waits`] explains what a read waited for.
//! - [`snapshot`] saves and loads a device; [`table`] stores its maps.

mod buffer;
mod die;
mod ftl;
mod geometry;
mod internal;
mod line;
mod machine;
pub(crate) mod params;
mod precondition;
mod read;
mod snapshot;
mod spans;
mod ssd;
mod stats;
mod table;
mod waits;
mod write;

pub use params::{Params, ReadPriority};
pub use spans::{Resource, Span};
pub use ssd::Ssd;
pub use stats::{SlowReads, Stats, StreamStats, Wear};
