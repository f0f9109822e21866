// SPDX-License-Identifier: MIT OR Apache-2.0
//! `core/feature.h`: features, and the trackers that compute them.

use crate::inflight::{InflightIo, Raw as InflightTracker};
use crate::{Heimdall, HeimdallScale, Tracker};

unsafe extern "C" {
    pub fn linnet_tracker_init(tracker: *mut Tracker);
    pub fn linnet_tracker_arrive(tracker: *mut Tracker, size_bytes: u32) -> u32;
    pub fn linnet_tracker_complete_write(tracker: *mut Tracker, size_bytes: u32);
    pub fn linnet_tracker_complete_read(tracker: *mut Tracker, size_bytes: u32, latency_ns: u64, snapshot: u32);
    pub fn linnet_tracker_withdraw(tracker: *mut Tracker, size_bytes: u32);
    pub fn linnet_tracker_digits(tracker: *const Tracker, snapshot: u32, digits: *mut u8);
    pub fn linnet_bucket(value: u64) -> u8;
    pub fn linnet_inflight_init(inflight: *mut InflightTracker, inflection_ns: u64);
    pub fn linnet_inflight_arrive(
        inflight: *mut InflightTracker,
        ios: *mut InflightIo,
        io: u32,
        now_ns: u64,
        is_read: i32,
        offset_bytes: u64,
        size_bytes: u32,
    );
    pub fn linnet_inflight_complete(inflight: *mut InflightTracker, ios: *mut InflightIo, io: u32, now_ns: u64);
    pub fn linnet_inflight_withdraw(inflight: *mut InflightTracker, ios: *mut InflightIo, io: u32);
    pub fn linnet_inflight_describe(
        inflight: *const InflightTracker,
        schema: u32,
        now_ns: u64,
        offset_bytes: u64,
        size_bytes: u32,
        features: *mut u8,
    );
    pub fn linnet_heimdall_init(tracker: *mut Heimdall);
    pub fn linnet_heimdall_arrive(tracker: *mut Heimdall) -> u32;
    pub fn linnet_heimdall_leave(tracker: *mut Heimdall);
    pub fn linnet_heimdall_complete_read(tracker: *mut Heimdall, size_bytes: u32, latency_ns: u64, snapshot: u32);
    pub fn linnet_heimdall_throughput(size_bytes: u32, latency_ns: u64) -> u32;
    pub fn linnet_heimdall_features(tracker: *const Heimdall, snapshot: u32, size_bytes: u32, features: *mut u32);
    pub fn linnet_heimdall_scale_set(scale: *mut HeimdallScale, least: *const u32, most: *const u32) -> i32;
    pub fn linnet_heimdall_inputs(scale: *const HeimdallScale, features: *const u32, inputs: *mut u8);
}
