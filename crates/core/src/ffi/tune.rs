// SPDX-License-Identifier: MIT OR Apache-2.0
//! `core/tune.h`: knobs: rings, small networks, decision trees, files of knobs.

use std::ffi::c_void;

use super::{FloatShape, LAYERS_MAX};

pub const SMALL_SIZE_MAX: usize = 256;
pub const KNOB_INPUTS_MAX: usize = 16;
pub const KNOB_LEVELS_MAX: usize = 32;
pub const TREE_LEAF: u16 = 0xffff;
pub const TREE_NODES_MAX: usize = 4095;
pub const TREE_DEPTH_MAX: usize = 64;
pub const TREE_CLASSES_MAX: usize = 256;
pub const FAST_LEAVES_MAX: usize = 32;
pub const FAST_VECTORS_MAX: usize = 16;
pub const CART_ROWS_MAX: usize = 1 << 20;
pub const KIND_KNOB: u16 = 2;
pub const SCHEMA_PRIVATE: u16 = 0x8000;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct SmallLayer {
    pub inputs: u16,
    pub outputs: u16,
    pub activation: u32,
    pub values: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Small {
    pub layer_count: u32,
    pub inputs: u32,
    pub outputs: u32,
    pub value_count: u32,
    pub forward_floats: u32,
    pub train_floats: u32,
    pub values: *mut f32,
    pub momentum: *mut f32,
    pub layers: [SmallLayer; LAYERS_MAX],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct SmallOptions {
    pub loss: u32,
    pub learning_rate: f32,
    pub momentum: f32,
}

#[repr(C)]
pub struct Normaliser {
    pub rows: u64,
    pub refused: u64,
    pub inputs: u32,
    pub memory: u32,
    pub moments: *mut crate::Moments,
}

#[repr(C)]
pub struct Ring {
    pub head: u64,
    pub tail_seen: u64,
    pub lost: u64,
    pub spare0: [u64; 5],
    pub tail: u64,
    pub head_seen: u64,
    pub spare1: [u64; 6],
    pub words: *mut u64,
    pub capacity: u32,
    pub record_words: u32,
    pub spare2: [u64; 6],
}

#[derive(Clone)]
#[repr(C)]
pub struct FastTree {
    pub vectors: u32,
    pub feature: [u8; FAST_VECTORS_MAX],
    pub threshold: [u32; 4 * FAST_VECTORS_MAX],
    pub possible: [[u32; 16]; FAST_VECTORS_MAX],
    pub node: [u16; FAST_LEAVES_MAX],
}

#[repr(C)]
pub struct CartOptions {
    pub depth_max: u32,
    pub leaf_rows: u32,
    pub nodes_max: u32,
    pub classes: u32,
}

#[repr(C)]
pub struct Knob {
    pub schema: u16,
    pub inputs: u16,
    pub levels: u16,
    pub unit: u16,
    pub parts: u32,
    pub layer_count: u32,
    pub node_count: u32,
    pub confidence_ppm: u32,
    pub accuracy_ppm: u32,
    pub memory: u32,
    pub normaliser_rows: u64,
    pub rows: u64,
    pub seed: u64,
    pub moments: *const u8,
    pub network: *const u8,
    pub nodes: *const u8,
    pub values: [u32; KNOB_LEVELS_MAX],
    pub layers: [FloatShape; LAYERS_MAX],
}

const _: () = assert!(size_of::<SmallLayer>() == 12 && size_of::<Small>() == 40 + 12 * LAYERS_MAX);
const _: () = assert!(std::mem::offset_of!(Ring, tail) == 64 && std::mem::offset_of!(Ring, words) == 128);
const _: () = assert!(size_of::<Normaliser>() == 32 && size_of::<Ring>() == 192 && size_of::<FastTree>() == 1364);
const _: () = assert!(size_of::<Knob>() == 80 + 4 * KNOB_LEVELS_MAX + 8 * LAYERS_MAX);

unsafe extern "C" {
    pub fn linnet_ring_init(
        ring: *mut Ring,
        capacity: u32,
        record_words: u32,
        words: *mut u64,
        word_count: usize,
    ) -> i32;
    pub fn linnet_ring_put(ring: *mut Ring, record: *const u64) -> i32;
    pub fn linnet_ring_take(ring: *mut Ring, record: *mut u64) -> i32;
    pub fn linnet_ring_lost(ring: *const Ring) -> u64;
    pub fn linnet_ring_waiting(ring: *const Ring) -> u64;
    pub fn linnet_sampler_init(sampler: *mut crate::Sampler, share_ppm: u32, seed: u64) -> i32;
    pub fn linnet_sampler_keep(sampler: *mut crate::Sampler) -> i32;
    pub fn linnet_normaliser_learn(normaliser: *mut Normaliser, row: *const f32) -> i32;
    pub fn linnet_normaliser_apply(normaliser: *const Normaliser, row: *const f32, z: *mut f32);
    pub fn linnet_small_plan(network: *mut Small, inputs: u32, layers: *const FloatShape, layer_count: u32) -> i32;
    pub fn linnet_small_place(network: *mut Small, values: *mut f32, momentum: *mut f32);
    pub fn linnet_small_start(network: *mut Small, seed: u64);
    pub fn linnet_small_get(network: *const Small, layer: u32, weights: *mut f32, biases: *mut f32) -> i32;
    pub fn linnet_small_set(network: *mut Small, layer: u32, weights: *const f32, biases: *const f32) -> i32;
    pub fn linnet_small_forward(network: *const Small, inputs: *const f32, scratch: *mut f32, outputs: *mut f32);
    pub fn linnet_small_classify(
        network: *const Small,
        inputs: *const f32,
        scratch: *mut f32,
        class_: *mut u32,
        confidence_ppm: *mut u32,
    ) -> i32;
    pub fn linnet_small_check(network: *const Small, options: *const SmallOptions) -> i32;
    pub fn linnet_small_train(
        network: *mut Small,
        options: *const SmallOptions,
        inputs: *const f32,
        targets: *const f32,
        scratch: *mut f32,
        loss: *mut f32,
    ) -> i32;
    pub fn linnet_tree_check(nodes: *const crate::TreeNode, count: u32, inputs: u32, classes: u32, at: *mut u32)
    -> i32;
    pub fn linnet_tree_leaf(nodes: *const crate::TreeNode, row: *const f32) -> *const crate::TreeNode;
    pub fn linnet_fast_tree_init(fast: *mut FastTree, nodes: *const crate::TreeNode, count: u32, inputs: u32) -> i32;
    pub fn linnet_fast_tree_leaf(fast: *const FastTree, row: *const f32) -> u32;
    pub fn linnet_cart_size(rows: u32) -> usize;
    pub fn linnet_cart_begin(
        options: *const CartOptions,
        values: *const f32,
        classes: *const u8,
        rows: u32,
        inputs: u32,
        memory: *mut c_void,
        memory_size: usize,
    ) -> i32;
    pub fn linnet_cart_grow(memory: *mut c_void) -> i32;
    pub fn linnet_cart_end(memory: *mut c_void, nodes: *mut crate::TreeNode) -> i32;
    pub fn linnet_knob_read(bytes: *const u8, size: usize, knob: *mut Knob, offset: *mut usize) -> i32;
    pub fn linnet_knob_load_normaliser(knob: *const Knob, normaliser: *mut Normaliser, moments: *mut crate::Moments);
    pub fn linnet_knob_load_network(knob: *const Knob, network: *mut Small);
    pub fn linnet_knob_load_tree(knob: *const Knob, nodes: *mut crate::TreeNode);
}
