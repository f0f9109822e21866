// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares what Rust declares of the C core with what bindgen makes of the headers: signatures, fields, offsets, sizes
//! and constants. Both are Rust source, so both are read by [`source`] and resolved to the same [`types`].

pub mod compare;
pub mod layout;
pub mod source;
pub mod types;
