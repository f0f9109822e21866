// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that all connections of a server may hold together.
//!
//! Each connection has a floor outside of the budget: its usual buffer, and one small request at a time. So clients
//! that hold the whole budget, and read nothing, slow down large requests of others and never stop small ones.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The longest request that a connection may have in flight when the budget is spent.
pub const FLOOR_BYTES: usize = 1 << 20;

/// Bytes that are left of the budget.
#[derive(Debug)]
pub struct Budget {
    left: AtomicUsize,
}

impl Budget {
    pub fn new(bytes: usize) -> Budget {
        Budget { left: AtomicUsize::new(bytes) }
    }

    /// Takes this much, or nothing.
    pub fn take(&self, bytes: usize) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    pub fn give(&self, bytes: usize) {
        self.left.fetch_add(bytes, Relaxed);
    }

    pub fn left(&self) -> usize {
        self.left.load(Relaxed)
    }
}
