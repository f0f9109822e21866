// SPDX-License-Identifier: MIT OR Apache-2.0
//! How both engines bring a new device into the state after long use: they overwrite it at random, in windows, until
//! the write amplification of two successive windows is the same, and the drive has collected as many superblocks, or
//! blocks, as it has: with much spare space it overwrites its data several times before it collects any.

/// Overwrites in a window, as a share of the logical space.
pub(crate) const WINDOW_SHARE: f64 = 0.25;
/// Overwrites have 1, 2, 4 ... pages, all sizes equally likely: 4 KiB to 128 KiB, 42 KiB on average, as in block
/// traces. With single pages, every large read would be scattered over many dies.
pub(crate) const EXTENTS: u64 = 6;
/// Windows count as the same if their write amplification differs by less than this share.
pub(crate) const ALIKE: f64 = 0.02;
/// Maximum number of windows from then on: two and a half times the logical space.
pub(crate) const WINDOWS_MAX: u32 = 10;

/// How far a drive's garbage collection came to a steady state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settled {
    /// Pages that were overwritten: of 4 KiB, and of the flash for the queued engine.
    pub pages: u64,
    /// Write amplification of the last whole window; 0 if there was none.
    pub amplification: f64,
    /// Whether it was that of the window before; otherwise the limit came first, or the writes ended.
    pub steady: bool,
}
