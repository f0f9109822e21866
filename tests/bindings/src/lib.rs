// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares Rust's declarations of the C core with the output of bindgen for the headers: signatures, fields, offsets,
//! sizes and constants. Both are Rust source, so [`source`] parses both and resolves them to the same [`types`].

pub mod compare;
pub mod layout;
pub mod source;
pub mod types;
