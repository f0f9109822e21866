// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queued engine beside another simulator: the same requests, and how the answers differ.

mod check;
mod reference;

pub use check::{Check, check};
pub use reference::{CheckError, Reference};
