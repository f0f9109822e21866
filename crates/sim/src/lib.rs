// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual clock, seeded random numbers, event queue, devices of latency models, and fault injection.
//!
//! Only this crate owns virtual time and randomness; all other crates get them as arguments.

mod chance;
mod clock;
mod fault;
mod laws;
mod modelled;
mod queue;
mod test_device;

pub use chance::{Chance, mixed};
pub use clock::VirtualClock;
pub use fault::{FaultCounts, FaultPlan, Faulty, Window};
pub use laws::Lawful;
pub use modelled::Modelled;
pub use queue::EventQueue;
pub use test_device::TestDevice;
