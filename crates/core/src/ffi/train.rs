// SPDX-License-Identifier: MIT OR Apache-2.0
//! `core/train.h`: training in floats.

use std::ffi::c_void;

use super::LAYERS_MAX;

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

unsafe extern "C" {
    pub fn linnet_float_plan(
        network: *mut FloatNetwork,
        inputs: u32,
        layers: *const FloatShape,
        layer_count: u32,
    ) -> i32;
    pub fn linnet_float_place(network: *mut FloatNetwork, values: *mut f32, value_count: usize, seed: u64) -> i32;
    pub fn linnet_float_get(network: *const FloatNetwork, layer: u32, weights: *mut f32, biases: *mut f32) -> i32;
    pub fn linnet_float_set(network: *const FloatNetwork, layer: u32, weights: *const f32, biases: *const f32) -> i32;
    pub fn linnet_float_logits(
        network: *const FloatNetwork,
        inputs: *const f32,
        scratch: *mut c_void,
        logits: *mut f32,
    );
    pub fn linnet_trainer_size(network: *const FloatNetwork, row_count: u32) -> usize;
    pub fn linnet_trainer_init(
        trainer: *mut Trainer,
        network: *mut FloatNetwork,
        options: *const TrainOptions,
        row_count: u32,
        memory: *mut c_void,
        memory_size: usize,
    ) -> i32;
    pub fn linnet_trainer_epoch(trainer: *mut Trainer, rows: *const Rows, loss: *mut f64) -> i32;
    pub fn linnet_quantise(values: *const f32, count: usize, scale: f64, integers: *mut i64) -> i32;
    #[cfg(target_arch = "x86_64")]
    pub static linnet_loops_avx2: Loops;
    #[cfg(target_arch = "x86_64")]
    pub static linnet_loops_avx512: Loops;
    pub static linnet_loops_portable: Loops;
}
