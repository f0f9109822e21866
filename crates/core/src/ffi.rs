// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of `core/linnet.h` that this crate calls, as C declares them.

use crate::Tracker;

unsafe extern "C" {
    pub fn linnet_tracker_init(tracker: *mut Tracker);
    pub fn linnet_tracker_arrive(tracker: *mut Tracker, size_bytes: u32) -> u32;
    pub fn linnet_tracker_complete_write(tracker: *mut Tracker, size_bytes: u32);
    pub fn linnet_tracker_complete_read(tracker: *mut Tracker, size_bytes: u32, latency_ns: u64, snapshot: u32);
    pub fn linnet_tracker_withdraw(tracker: *mut Tracker, size_bytes: u32);
    pub fn linnet_tracker_digits(tracker: *const Tracker, snapshot: u32, digits: *mut u8);
}
