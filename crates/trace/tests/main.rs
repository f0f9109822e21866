// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate are one program: linking one for each file costs more than running them.

mod columns;
mod common;
mod compressed;
mod convert;
mod events;
mod formats;
mod rerate;
mod robust;
mod shared;
mod synth;
mod tenants;
