// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device with a queue per chip and an arbiter per channel, advanced event by event.
//!
//! [`crate::Ssd`] answers at submission, which needs timelines. Some behaviour cannot be told at submission, because what
//! arrives later changes it: a channel that moves read data before it sends commands, chips that take turns, a GC that locks
//! the pages it moves. This model has those. It is the one to compare with simulators such as MQSim, whose rules it follows:
//! static placement, each page programmed at once on the plane it belongs to, garbage collection plane by plane.
//!
//! - A chip serves one command at a time for all its dies: nothing else starts until every page it has read is out of its registers.
//! - A channel carries one thing at a time: data read from chips first, in the order it became ready; commands (and the data of
//!   programs) only when none waits. Hence convoys: under load all chips of a channel read together, then queue for the
//!   channel together, and the array time is not hidden. That is where the tail of pure reads comes from.
//! - A command takes along what waits for the other planes of the die at the same page number (multi-plane).
//! - Reads go before programs, garbage collection before both unless it is preemptible.

mod cache;
mod chips;
mod device;
mod engine;
mod flash;
mod gc;
mod host;
mod params;
mod precondition;

pub use device::Served;
pub use engine::{QueuedSsd, QueuedStats};
pub use params::{QueuedParams, VictimPolicy};
