// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of one device from which the features of LinnOS are computed (`core/feature.c`, `spec/features.md`).

use linnet_types::{Nanos, Op};

use crate::{DIGITS, ffi};

/// Completed reads that are remembered.
const HISTORY: usize = 4;

/// The tracker of one device. From every arrival and completion it computes the 31 digits of each arriving read.
///
/// Report completions before arrivals if both have the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tracker {
    pending_pages: u32,
    history_len: u32,
    reads: [u32; HISTORY],
}

impl Tracker {
    /// An idle device without history.
    pub fn new() -> Tracker {
        let mut tracker = Tracker { pending_pages: 0, history_len: 0, reads: [0; HISTORY] };
        // SAFETY: the struct has the layout of `struct linnet_tracker`; so in every call below.
        unsafe { ffi::linnet_tracker_init(&mut tracker) };
        tracker
    }

    /// An I/O arrives. Returns its snapshot: the 4 KiB pages outstanding, reads and writes, including this I/O.
    pub fn arrive(&mut self, size_bytes: u32) -> u32 {
        // SAFETY: the layout is C's, and the reference is exclusive.
        unsafe { ffi::linnet_tracker_arrive(self, size_bytes) }
    }

    /// An I/O completes. A read enters the history, with the `snapshot` that its own arrival returned.
    pub fn complete(&mut self, op: Op, size_bytes: u32, latency_ns: Nanos, snapshot: u32) {
        match op {
            // SAFETY: the layout is C's, and the reference is exclusive.
            Op::Read => unsafe { ffi::linnet_tracker_complete_read(self, size_bytes, latency_ns, snapshot) },
            // SAFETY: as above.
            Op::Write => unsafe { ffi::linnet_tracker_complete_write(self, size_bytes) },
        }
    }

    /// An I/O leaves without completing (revoked, failed, cancelled): its pages are subtracted, the history stays.
    pub fn withdraw(&mut self, size_bytes: u32) {
        // SAFETY: the layout is C's, and the reference is exclusive.
        unsafe { ffi::linnet_tracker_withdraw(self, size_bytes) }
    }

    /// 4 KiB pages outstanding, reads and writes.
    pub fn pending_pages(&self) -> u32 {
        self.pending_pages
    }

    /// Completed reads in the history, 0..=4.
    pub fn history_len(&self) -> u32 {
        self.history_len
    }

    /// The features of an I/O whose arrival returned `snapshot`. Each digit is 0..=9.
    pub fn digits(&self, snapshot: u32) -> [u8; DIGITS] {
        let mut digits = [0; DIGITS];
        // SAFETY: C writes as many digits as the array has.
        unsafe { ffi::linnet_tracker_digits(self, snapshot, digits.as_mut_ptr()) };
        digits
    }
}

impl Default for Tracker {
    fn default() -> Self {
        Tracker::new()
    }
}
