// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual clock, seeded chance, event queue and fault injection.
//!
//! Only this crate owns time and randomness; every other crate is handed them.

mod chance;
mod fault;
mod queue;
mod toy;

pub use chance::Chance;
pub use fault::{FaultCounts, FaultPlan, Faulty, Window};
pub use queue::EventQueue;
pub use toy::Toy;
