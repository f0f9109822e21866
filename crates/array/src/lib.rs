// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replicas and admission policies as a state machine without I/O.
//!
//! [`Array`] is the state machine, [`Policy`] decides, [`run`] drives both on devices in virtual time and [`run_on`] by
//! any clock. Policies are selected by name ([`POLICIES`], [`policy`]).

mod array;
mod check;
mod config;
mod counters;
mod drive;
mod error;
mod output;
mod placement;
mod policies;
mod policy;
mod probing;
mod slab;

#[cfg(test)]
mod tests;

pub use array::Array;
pub use check::{Checker, Revokes};
pub use config::{Config, DEVICES_MAX, WriteMode};
pub use counters::Counters;
pub use drive::{Input, Observer, Playback, Progress, ReadLatencies, RunOptions, RunResult, drive, run, run_on};
pub use error::Error;
pub use output::Output;
pub use placement::Placement;
pub use policies::{DeviceModel, POLICIES, asks_model, hedging_of, is_deployed, missing, policy};
pub use policy::{Ask, Choice, Completion, Hedge, Outlook, Policy, Submit};
pub use probing::{Estimate, Probing};
pub use slab::{CopyId, REPLICAS_MAX, TimerId};
