// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of decisions, training and simulation, next to references in the same run.
//!
//! The operator's wheel does not contain it: only a development build of the bindings (feature `bench`) depends on it.
//! [`decide`], [`ssd`] and [`tune`] are behind `linnet bench`; the examples of this crate measure one thing each.

#[cfg(target_arch = "x86_64")]
pub mod decide;
pub mod ssd;
pub mod tune;
