// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queued engine: a queue per chip and an arbiter per channel, advanced event by event.
//!
//! [`crate::Ssd`] answers at submission, which needs timelines. Some behaviour is not known at submission, because what
//! arrives later changes it: a channel that transfers read data before it sends commands, chips that take turns, a GC
//! that locks the pages it moves. This engine models these. It is meant for comparisons with simulators such as MQSim,
//! and follows its rules: static placement, each page programmed at once on its plane, garbage collection plane by
//! plane.
//!
//! - A chip serves one command at a time for all its dies: the next one starts when every page read has left the
//!   registers.
//! - A channel carries one transfer at a time. Data read from chips goes first, in the order it became ready; commands
//!   (and the data of programs) go only when no data waits. This causes convoys: under load all chips of a channel read
//!   together, then queue for the channel together, and the array time is not hidden. It is the cause of the tail of
//!   pure reads.
//! - A command includes jobs for the other planes of the die that wait at the same page number (multi-plane).
//! - Reads go before programs. Garbage collection goes before both, unless it is preemptible.

mod cache;
mod chips;
mod device;
mod engine;
mod flash;
mod gc;
mod host;
mod params;
mod precondition;
mod waiting;

pub use device::Served;
pub use engine::{QueuedSsd, QueuedStats};
pub use params::{QueuedParams, VictimPolicy};
