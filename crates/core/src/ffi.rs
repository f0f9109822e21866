// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this crate uses of `core/linnet.h`, as C declares it.

use std::ffi::c_void;

use crate::Tracker;

pub const E_SHAPE: i32 = -1;
pub const E_RANGE: i32 = -2;
pub const E_INPUT: i32 = -4;

pub const LAYERS_MAX: usize = 8;
pub const SIZE_MAX: usize = 4096;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Source {
    pub inputs: u32,
    pub outputs: u32,
    pub weight_bytes: u32,
    pub weights: *const u8,
    pub biases: *const u8,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Layer {
    pub inputs: u32,
    pub outputs: u32,
    pub stride: u32,
    pub width: u8,
    pub by_input: u8,
    pub narrow: u8,
    pub spare: u8,
    pub weights: *const c_void,
    pub biases: *const c_void,
}

#[repr(C)]
pub struct Network {
    pub layer_count: u32,
    pub inputs: u32,
    pub outputs: u32,
    pub input_max: u32,
    pub row_max: u32,
    pub width: u32,
    pub memory_size: usize,
    pub scratch_size: usize,
    pub dense: *const Dense,
    pub layers: [Layer; LAYERS_MAX],
}

const _: () = assert!(size_of::<Source>() == 32 && size_of::<Layer>() == 32);
const _: () = assert!(size_of::<Network>() == 48 + 32 * LAYERS_MAX);

/// Table of loops for one instruction set; only its address is used here.
#[repr(C)]
pub struct Dense {
    _functions: [*const c_void; 2],
}

unsafe extern "C" {
    pub fn linnet_tracker_init(tracker: *mut Tracker);
    pub fn linnet_tracker_arrive(tracker: *mut Tracker, size_bytes: u32) -> u32;
    pub fn linnet_tracker_complete_write(tracker: *mut Tracker, size_bytes: u32);
    pub fn linnet_tracker_complete_read(tracker: *mut Tracker, size_bytes: u32, latency_ns: u64, snapshot: u32);
    pub fn linnet_tracker_withdraw(tracker: *mut Tracker, size_bytes: u32);
    pub fn linnet_tracker_digits(tracker: *const Tracker, snapshot: u32, digits: *mut u8);

    pub fn linnet_network_work_size(layers: *const Source, layer_count: u32) -> usize;
    pub fn linnet_network_plan(
        network: *mut Network,
        layers: *const Source,
        layer_count: u32,
        input_max: u32,
        work: *mut c_void,
        work_size: usize,
    ) -> i32;
    pub fn linnet_network_place(
        network: *mut Network,
        layers: *const Source,
        memory: *mut c_void,
        memory_size: usize,
    ) -> i32;
    pub fn linnet_network_logits(
        network: *const Network,
        inputs: *const u8,
        scratch: *mut c_void,
        logits: *mut i128,
    ) -> i32;
    pub fn linnet_network_score(
        network: *const Network,
        inputs: *const u8,
        scratch: *mut c_void,
        score: *mut i64,
    ) -> i32;

    #[cfg(target_arch = "x86_64")]
    pub static linnet_dense_avx2: Dense;
    #[cfg(target_arch = "x86_64")]
    pub static linnet_dense_avx512: Dense;
    pub static linnet_dense_portable: Dense;
}
