// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine that answers at submission: one timeline per die, per channel and per direction of the host link.
//!
//! No event is queued per page: a request is charged against the timelines when it arrives, and internal work (flush, garbage
//! collection, mapping checkpoints) is brought up to date lazily.
//!
//! - Settings: [`params`], [`geometry`]. The drive as others see it: [`ssd`], and its counters and recorded spans: [`stats`], [`spans`].
//! - State: [`machine`] holds one [`die`] and one `line` per resource, the map of pages ([`ftl`]) and the write [`buffer`].
//! - Work: [`serve`] charges requests, [`internal`] the device's own work, [`precondition`] ages a new device.
//! - [`snapshot`] saves and loads a device; [`table`] holds its maps.

mod buffer;
mod die;
mod ftl;
mod geometry;
mod internal;
mod line;
mod machine;
pub(crate) mod params;
mod precondition;
mod serve;
mod snapshot;
mod spans;
mod ssd;
mod stats;
mod table;

pub use params::{Params, ReadPriority};
pub use spans::{Resource, Span};
pub use ssd::Ssd;
pub use stats::{SlowReads, Stats, StreamStats, Wear};
