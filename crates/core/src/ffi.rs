// SPDX-License-Identifier: MIT OR Apache-2.0
//! All functions, statics and constants of the C core that this crate uses. `tests/bindings` compares them with the headers.

use std::ffi::c_void;

use crate::inflight::{InflightIo, Raw as InflightTracker};
pub use crate::records::{
    Decision, Dense, FloatNetwork, FloatShape, IncrementalNetwork, Loops, Model, Network, Prune, Rows, Source, Tables,
    TrainOptions, Trainer,
};
use crate::replica::Raw as Replica;
use crate::{Budget, Candidate, Flight, Hedging, Heimdall, HeimdallScale, Latencies, Rate, Settings, Tracker, Trees};

/// `LINNET_POLICIES`.
pub const POLICIES: usize = 5;

pub const E_SHAPE: i32 = -1;
pub const E_RANGE: i32 = -2;
pub const E_INPUT: i32 = -4;
pub const E_TRUNCATED: i32 = -5;
pub const E_MAGIC: i32 = -6;
pub const E_VERSION: i32 = -7;
pub const E_LENGTH: i32 = -8;
pub const E_CHECKSUM: i32 = -9;
pub const E_KIND: i32 = -10;
pub const E_SCHEMA: i32 = -11;
pub const E_FIELD: i32 = -12;

pub const PART_NETWORK: u32 = 1;
pub const PART_TREES: u32 = 2;
pub const PART_LATENCIES: u32 = 4;

pub const LAYERS_MAX: usize = 8;
pub const SIZE_MAX: usize = 4096;
pub const REPLICAS_MAX: usize = crate::REPLICAS_MAX;

unsafe extern "C" {
    pub static linnet_policy_names: [*const std::ffi::c_char; POLICIES];
    pub fn linnet_settings_init(settings: *mut Settings);
    pub fn linnet_settings_check(settings: *const Settings) -> i32;
    pub fn linnet_linked_budget_earn(budget: *mut Budget, rate: *const Rate);
    pub fn linnet_linked_budget_take(budget: *mut Budget, rate: *const Rate) -> i32;
    pub fn linnet_linked_hedge_earn(hedge: *mut Hedging, settings: *const Settings);
    pub fn linnet_linked_decides_nothing(settings: *const Settings, usable: u32, may_revoke: i32) -> i32;
    pub fn linnet_preferred(policy: u32, candidates: *const Candidate, count: u32) -> u32;
    pub fn linnet_wants_probe(settings: *const Settings, policy: u32, candidate: *const Candidate, now_ns: u64) -> i32;
    pub fn linnet_decision_begin(decision: *mut Decision, settings: *const Settings);
    pub fn linnet_decision_next(decision: *mut Decision, settings: *const Settings, revokes: *mut Budget) -> u32;
    pub fn linnet_expected_ns(ewma_ns: u64, in_flight: u32) -> u64;
    pub fn linnet_replica_init(replica: *mut Replica, inflection_ns: u64, ios: *mut InflightIo, places: u32);
    pub fn linnet_replica_grow(replica: *mut Replica, ios: *mut InflightIo, from: u32, places: u32);
    pub fn linnet_replica_set_incremental(
        replica: *mut Replica,
        net: *mut IncrementalNetwork,
        size: usize,
        tables: *const Tables,
    ) -> i32;
    pub fn linnet_replica_arrive(
        replica: *mut Replica,
        settings: *const Settings,
        flight: *mut Flight,
        now_ns: u64,
        is_read: i32,
        probe: i32,
        offset_bytes: u64,
        size_bytes: u32,
    );
    pub fn linnet_replica_complete(replica: *mut Replica, flight: *const Flight, now_ns: u64) -> u64;
    pub fn linnet_replica_fail(replica: *mut Replica, settings: *const Settings, flight: *const Flight, now_ns: u64);
    pub fn linnet_replica_withdraw(replica: *mut Replica, flight: *const Flight, now_ns: u64);
    pub fn linnet_replica_is_out(replica: *const Replica, now_ns: u64) -> i32;
    pub fn linnet_replica_describe(replica: *const Replica, now_ns: u64, candidate: *mut Candidate);
    pub fn linnet_replica_features(
        replica: *const Replica,
        schema: u32,
        now_ns: u64,
        offset_bytes: u64,
        size_bytes: u32,
        features: *mut u8,
    );
    pub fn linnet_incremental_describe(
        net: *mut IncrementalNetwork,
        size_bytes: u32,
        scratch: *mut c_void,
        candidate: *mut Candidate,
    );
    pub fn linnet_hedge_init(hedge: *mut Hedging, settings: *const Settings, delay_ns: u64);
    pub fn linnet_hedge_ask(
        hedge: *mut Hedging,
        settings: *const Settings,
        candidates: *const Candidate,
        count: u32,
    ) -> i32;
    pub fn linnet_hedge_answered(hedge: *mut Hedging, latency_ns: u64);

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
        ios: *const InflightIo,
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

// core/tune.h

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
    pub words: *mut u64,
    pub capacity: u32,
    pub record_words: u32,
    pub spare1: [u64; 4],
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
const _: () = assert!(size_of::<Normaliser>() == 32 && size_of::<Ring>() == 128 && size_of::<FastTree>() == 1364);
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
    pub fn linnet_cart_fit(
        options: *const CartOptions,
        values: *const f32,
        classes: *const u8,
        rows: u32,
        inputs: u32,
        memory: *mut c_void,
        memory_size: usize,
        nodes: *mut crate::TreeNode,
    ) -> i32;
    pub fn linnet_knob_read(bytes: *const u8, size: usize, knob: *mut Knob, offset: *mut usize) -> i32;
    pub fn linnet_knob_load_normaliser(knob: *const Knob, normaliser: *mut Normaliser, moments: *mut crate::Moments);
    pub fn linnet_knob_load_network(knob: *const Knob, network: *mut Small);
    pub fn linnet_knob_load_tree(knob: *const Knob, nodes: *mut crate::TreeNode);
}

pub const READAHEAD_INPUTS: usize = 8;
pub const DISTANCES: usize = 16;
pub const SIZES: usize = 8;
/// `LINNET_CHANGE_NONE`, of `enum linnet_change`.
pub const CHANGE_NONE: u32 = 0;
pub const CHANGE_ROLLBACK: u32 = 2;

#[derive(Default)]
#[repr(C)]
pub struct ReadaheadVerdict {
    pub reading: u32,
    pub kib: u32,
    pub confidence_ppm: u32,
}

#[derive(Default)]
#[repr(C)]
pub struct Proposal {
    pub change: u32,
    pub to_kib: u32,
    pub confidence_ppm: u32,
    pub spare: u32,
    pub cost_before_q16: u64,
    pub cost_after_q16: u64,
    pub hold_ns: u64,
}

#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Governor {
    pub began_ns: u64,
    pub changed_at_ns: u64,
    pub hold_until_ns: u64,
    pub hold_ns: u64,
    pub cost_before_q16: u64,
    pub window: crate::ReadCounts,
    pub original_kib: u32,
    pub current_kib: u32,
    pub previous_kib: u32,
    pub pending_kib: u32,
    pub reading: u32,
    pub cost_reading: u32,
    pub jump_pages_q16: u32,
    pub has_pending: u8,
    pub has_changed: u8,
    pub has_cost: u8,
    pub spare: u8,
}

const _: () = assert!(size_of::<Proposal>() == 40 && size_of::<ReadaheadVerdict>() == 12);
const _: () = assert!(size_of::<Governor>() == 72 + size_of::<crate::ReadCounts>());

unsafe extern "C" {
    pub fn linnet_counts_add(to: *mut crate::ReadCounts, from: *const crate::ReadCounts);
    pub fn linnet_pattern_of(counts: *const crate::ReadCounts, demands: i32, pattern: *mut crate::ReadPattern);
    pub fn linnet_pattern_row(pattern: *const crate::ReadPattern, row: *mut u32);
    pub fn linnet_certainty_ppm(observations: u64) -> u32;
    pub fn linnet_scattered_ppm(pattern: *const crate::ReadPattern) -> u32;
    pub fn linnet_rule_init(rule: *mut crate::ReadRule);
    pub fn linnet_rule_decide(
        rule: *const crate::ReadRule,
        pattern: *const crate::ReadPattern,
        verdict: *mut ReadaheadVerdict,
    ) -> i32;
    pub fn linnet_model_verdict(
        rule: *const crate::ReadRule,
        pattern: *const crate::ReadPattern,
        kib: u32,
        confidence_ppm: u32,
        verdict: *mut ReadaheadVerdict,
    );
    pub fn linnet_governor_init(governor: *mut Governor, now_ns: u64, kib: u32);
    pub fn linnet_governor_correct(governor: *mut Governor, kib: u32);
    pub fn linnet_governor_step(
        governor: *mut Governor,
        now_ns: u64,
        pattern: *const crate::ReadPattern,
        verdict: *const ReadaheadVerdict,
        proposal: *mut Proposal,
    );
    pub fn linnet_governor_changed(governor: *mut Governor, now_ns: u64, kib: u32);
    pub fn linnet_governor_refused(governor: *mut Governor, now_ns: u64, wait_ns: u64);
}

// core/place.h

pub const KIND_FOREST: u16 = 3;
pub const SCHEMA_PLACE1: u16 = 5;
pub const FOREST_INPUTS_MAX: usize = 254;
pub const FOREST_OUTPUTS_MAX: usize = 64;
pub const FOREST_TREES_MAX: usize = 65536;
pub const FOREST_NODES_MAX: usize = (1 << 24) - 1;
pub const FOREST_NAME: usize = 40;
pub const FOREST_ROWS: usize = 16;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ForestCell {
    pub key: [i32; 7],
    pub exits: u32,
    pub feature: [u8; 8],
    pub cell: u32,
    pub value: u32,
    pub spare: [u32; 4],
}

#[repr(C)]
pub struct ForestFile {
    pub schema: u16,
    pub inputs: u16,
    pub outputs: u32,
    pub tree_count: u32,
    pub node_count: u32,
    pub value_count: u32,
    pub cell_count: u32,
    pub rows: u64,
    pub seed: u64,
    pub names: *const u8,
    pub tree_nodes: *const u8,
    pub features: *const u8,
    pub thresholds: *const u8,
    pub values: *const u8,
}

#[repr(C)]
pub struct Forest {
    pub inputs: u32,
    pub outputs: u32,
    pub roots: *const u32,
    pub cells: *const ForestCell,
    pub values: *const f64,
    pub first: [u32; FOREST_OUTPUTS_MAX + 1],
}

const _: () = assert!(size_of::<ForestCell>() == 64 && size_of::<ForestFile>() == 80);
const _: () = assert!(size_of::<Forest>() == 32 + 4 * (FOREST_OUTPUTS_MAX + 1) + 4);

unsafe extern "C" {
    pub fn linnet_forest_read(bytes: *const u8, size: usize, file: *mut ForestFile, offset: *mut usize) -> i32;
    pub fn linnet_forest_load(
        file: *const ForestFile,
        roots: *mut u32,
        cells: *mut ForestCell,
        values: *mut f64,
        forest: *mut Forest,
    );
    pub fn linnet_forest_predict(
        forest: *const Forest,
        rows: *const f32,
        count: u32,
        scratch: *mut i32,
        out: *mut f64,
    ) -> i32;
}
