// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate are one program: linking one for each file costs more than running them.

mod common;
mod devices;
mod label;
mod learned;
mod recorded;
mod trees;
