// SPDX-License-Identifier: MIT OR Apache-2.0
//! Safe wrapper of the C core: features, tracker, network, trainer, model files.
//!
//! Everything that decides or learns is C (`core/`); this crate owns the memory and checks the shapes.

mod ffi;
mod tracker;

pub use tracker::Tracker;

/// Features of one read: decimal digits (`spec/features.md`).
pub const DIGITS: usize = 31;
