// SPDX-License-Identifier: MIT OR Apache-2.0
//! How both engines bring a new device to the state it has after long use: random overwrites in windows, until two windows in
//! succession have the same write amplification.

/// Overwrites between two looks at write amplification, as a share of the logical space.
pub(crate) const WINDOW_SHARE: f64 = 0.25;
/// Overwrites are of 1, 2, 4 ... pages, each size as likely: 4 KiB to 128 KiB, 42 KiB on average, as block traces have them. Single
/// pages would scatter the neighbours of every large read over as many dies.
pub(crate) const EXTENTS: u64 = 6;
/// Windows whose write amplification differs by less are alike.
pub(crate) const ALIKE: f64 = 0.02;
/// Most windows: two and a half times the logical space.
pub(crate) const WINDOWS_MAX: u32 = 10;
