// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the queued engine with another simulator that served the same requests.

mod check;
mod reference;

pub use check::{Check, check};
pub use reference::{CheckError, Reference};
