// SPDX-License-Identifier: MIT OR Apache-2.0
//! How both engines bring a new device into the state after long use: they overwrite it at random, in windows, until
//! the write amplification of two successive windows is the same.

/// Overwrites in a window, as a share of the logical space.
pub(crate) const WINDOW_SHARE: f64 = 0.25;
/// Overwrites have 1, 2, 4 ... pages, all sizes equally likely: 4 KiB to 128 KiB, 42 KiB on average, as in block
/// traces. With single pages, every large read would be scattered over many dies.
pub(crate) const EXTENTS: u64 = 6;
/// Windows count as the same if their write amplification differs by less than this share.
pub(crate) const ALIKE: f64 = 0.02;
/// Maximum number of windows: two and a half times the logical space.
pub(crate) const WINDOWS_MAX: u32 = 10;
