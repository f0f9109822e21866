// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything of the C core that this crate declares: its functions, statics, constants and private structs, in one
//! module for each header. No other file declares a function of C; `tests/bindings` compares these with the headers.

mod decide;
mod feature;
mod model;
mod place;
mod readahead;
mod train;
mod tune;

pub use decide::*;
pub use feature::*;
pub use model::*;
pub use place::*;
pub use readahead::*;
pub use train::*;
pub use tune::*;

// Errors, of `core/errors.h`.

pub const E_SHAPE: i32 = -1;
pub const E_RANGE: i32 = -2;
pub const E_INPUT: i32 = -4;
pub const E_TRUNCATED: i32 = -5;
pub const E_MAGIC: i32 = -6;
pub const E_VERSION: i32 = -7;
pub const E_LENGTH: i32 = -8;
pub const E_CHECKSUM: i32 = -9;
pub const E_KIND: i32 = -10;
pub const E_SCHEMA: i32 = -11;
pub const E_FIELD: i32 = -12;
