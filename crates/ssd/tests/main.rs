// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate are one program: linking one for each file costs more than running them.

mod amplification;
mod mechanisms;
mod pinned;
mod properties;
mod queued;
mod references;
mod service;
mod tail;
