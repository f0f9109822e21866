// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate are one program: linking one for each file costs more than running them.

mod doctor;
mod find;
mod machine;
mod nr_requests;
mod origins;
