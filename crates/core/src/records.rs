// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structs of the C core that callers of this crate do not see, with the fields that C declares.
#![allow(missing_docs)] // The headers say what each field is.

use std::ffi::c_void;

use crate::ffi::{LAYERS_MAX, REPLICAS_MAX};
use crate::{Candidate, Latencies, Trees};

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

#[derive(Clone, Copy)]
#[repr(C)]
pub struct FloatShape {
    pub outputs: u32,
    pub activation: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct FloatLayer {
    pub inputs: u32,
    pub outputs: u32,
    pub stride: u32,
    pub wide: u8,
    pub activation: u8,
    pub spare: u16,
    pub weights: usize,
    pub biases: usize,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct FloatNetwork {
    pub layer_count: u32,
    pub inputs: u32,
    pub outputs: u32,
    pub row_max: u32,
    pub value_count: usize,
    pub scratch_size: usize,
    pub values: *mut f32,
    pub loops: *const Loops,
    pub layers: [FloatLayer; LAYERS_MAX],
}

#[repr(C)]
pub struct Rows {
    pub count: u32,
    pub digits: *const u8,
    pub values: *const f32,
    pub classes: *const u8,
    pub targets: *const f32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct TrainOptions {
    pub loss: u32,
    pub optimiser: u32,
    pub batch: u32,
    pub learning_rate: f32,
    pub momentum: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    pub false_submit_weight: f32,
    pub spare: u32,
    pub seed: u64,
}

#[repr(C)]
pub struct Trainer {
    pub options: TrainOptions,
    pub network: *mut FloatNetwork,
    pub row_count: u32,
    pub epoch: u32,
    pub power1: f64,
    pub power2: f64,
    pub gradients: *mut f32,
    pub moments1: *mut f32,
    pub moments2: *mut f32,
    pub rows: *mut f32,
    pub order: *mut u32,
}

/// Table of training loops for one instruction set; only its address is used here.
#[repr(C)]
pub struct Loops {
    _functions: [*const c_void; 4],
}

const _: () = assert!(size_of::<FloatLayer>() == 32 && size_of::<FloatNetwork>() == 48 + 32 * LAYERS_MAX);
const _: () = assert!(size_of::<Rows>() == 40 && size_of::<TrainOptions>() == 48 && size_of::<Trainer>() == 120);

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

const _: () = assert!(size_of::<Model>() == 88 + 40 * LAYERS_MAX + 1416 + 2628 + 4);
const _: () = assert!(size_of::<Source>() == 32 && size_of::<Layer>() == 32);
const _: () = assert!(size_of::<Network>() == 48 + 32 * LAYERS_MAX);

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

const _: () = assert!(size_of::<Tables>() == 96);

/// Its memory has the size that its tables give; only its address is used here.
#[repr(C)]
pub struct IncrementalNetwork {
    _opaque: [u8; 0],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Choice {
    pub replica: u32,
    pub probe: bool,
    pub predicted_fast: bool,
}

#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Decision {
    pub now_ns: u64,
    pub count: u8,
    pub usable: u8,
    pub trees: u8,
    pub networks: u8,
    pub may_revoke: u8,
    pub policy: u8,
    pub by_trees: u8,
    pub verdict: u8,
    pub denied: u8,
    pub asked: u8,
    pub scored: u8,
    pub asks_trees: u8,
    pub in_service: u8,
    pub chosen: u8,
    pub choice: Choice,
    pub expected_ns: u64,
    pub candidates: [Candidate; REPLICAS_MAX],
}

const _: () = assert!(size_of::<Choice>() == 8 && size_of::<Decision>() == 40 + 32 * REPLICAS_MAX);
