// SPDX-License-Identifier: MIT OR Apache-2.0
//! `core/model.h`: models and model files.

use std::ffi::c_void;

use crate::{Latencies, Tracker, Trees};

pub const MODEL_VERSION: u16 = 2;
pub const KIND_ADMISSION: u16 = 1;
pub const PART_NETWORK: u32 = 1;
pub const PART_TREES: u32 = 2;
pub const PART_LATENCIES: u32 = 4;
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

#[derive(Clone, Copy)]
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

#[repr(C)]
pub struct Model {
    pub version: u16,
    pub kind: u16,
    pub schema: u16,
    pub input_max: u16,
    pub layer_count: u32,
    pub queue_inflection: u32,
    pub queue_median: u32,
    pub queue_lower_quartile: u32,
    pub inflection_percentile: u32,
    pub false_submit: u32,
    pub parts: u32,
    pub spare: u32,
    pub inflection_ns: u64,
    pub latency_ns_p95: u64,
    pub latency_ns_p99: u64,
    pub hedge_ns: u64,
    pub rows: u64,
    pub seed: u64,
    pub layers: [Source; LAYERS_MAX],
    pub scales: [i64; LAYERS_MAX],
    pub trees: Trees,
    pub latencies: Latencies,
}

/// Table of loops for one instruction set; only its address is used here.
#[repr(C)]
pub struct Dense {
    _functions: [*const c_void; 4],
}

/// Table of an incremental network's loops for one instruction set; only its address is used here.
#[repr(C)]
pub struct Prune {
    _functions: [*const c_void; 6],
}

#[repr(C)]
pub struct Tables {
    pub network: *const Network,
    pub loops: *const Prune,
    pub near: *const i32,
    pub top: *const i32,
    pub gap: *const i32,
    pub gap_bias: i64,
    pub lanes: u32,
    pub precompute: u32,
    pub packed: *const u64,
    pub words: u32,
    pub pack_bits: u32,
    pub memory_size: usize,
    pub incremental_size: usize,
    pub scratch_size: usize,
}

/// Its memory has the size that its tables give; only its address is used here.
#[repr(C)]
pub struct IncrementalNetwork {
    _opaque: [u8; 0],
}

const _: () = assert!(std::mem::offset_of!(Model, trees) == 88 + 40 * LAYERS_MAX);
const _: () = assert!(size_of::<Source>() == 32 && size_of::<Layer>() == 32);
const _: () = assert!(size_of::<Network>() == 48 + 32 * LAYERS_MAX);
const _: () = assert!(size_of::<Tables>() == 96);

unsafe extern "C" {
    pub fn linnet_trees_check(trees: *const Trees) -> i32;
    pub fn linnet_trees_score(trees: *const Trees, features: *const u8) -> i32;
    #[cfg(target_arch = "x86_64")]
    pub fn linnet_trees_score_avx2(trees: *const Trees, features: *const u8) -> i32;
    pub fn linnet_latencies_check(latencies: *const Latencies) -> i32;
    pub fn linnet_latencies_predict(latencies: *const Latencies, score: i32, features: *const u8) -> *const u32;
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
    pub fn linnet_tables_plan(tables: *mut Tables, network: *const Network, loops: *const Prune) -> i32;
    pub fn linnet_tables_place(tables: *mut Tables, memory: *mut c_void, memory_size: usize) -> i32;
    pub fn linnet_incremental_init(
        net: *mut IncrementalNetwork,
        size: usize,
        tables: *const Tables,
        tracker: *const Tracker,
    ) -> i32;
    pub fn linnet_incremental_arrive(net: *mut IncrementalNetwork, size_bytes: u32) -> u32;
    pub fn linnet_incremental_withdraw(net: *mut IncrementalNetwork, size_bytes: u32);
    pub fn linnet_incremental_note_read(net: *mut IncrementalNetwork, size_bytes: u32, latency_ns: u64, snapshot: u32);
    pub fn linnet_incremental_behind(net: *const IncrementalNetwork) -> i32;
    pub fn linnet_incremental_catch_up(net: *mut IncrementalNetwork, snapshot: u32);
    pub fn linnet_incremental_snapshot(net: *const IncrementalNetwork, size_bytes: u32) -> u32;
    pub fn linnet_incremental_pending_pages(net: *const IncrementalNetwork) -> u32;
    pub fn linnet_incremental_history_len(net: *const IncrementalNetwork) -> u32;
    pub fn linnet_incremental_tracker(net: *const IncrementalNetwork, tracker: *mut Tracker);
    pub fn linnet_incremental_score(
        net: *const IncrementalNetwork,
        snapshot: u32,
        scratch: *mut c_void,
        score: *mut i64,
    ) -> i32;
    pub fn linnet_incremental_decide(net: *mut IncrementalNetwork, snapshot: u32, scratch: *mut c_void) -> i32;
    pub fn linnet_model_read(bytes: *const u8, size: usize, model: *mut Model, offset: *mut usize) -> i32;
    pub fn linnet_crc32c(bytes: *const u8, size: usize) -> u32;
    #[cfg(target_arch = "x86_64")]
    pub static linnet_dense_avx2: Dense;
    #[cfg(target_arch = "x86_64")]
    pub static linnet_dense_avx512: Dense;
    pub static linnet_dense_portable: Dense;
    #[cfg(target_arch = "x86_64")]
    pub static linnet_prune_avx2: Prune;
    #[cfg(target_arch = "x86_64")]
    pub static linnet_prune_avx512: Prune;
    pub static linnet_prune_portable: Prune;
}
