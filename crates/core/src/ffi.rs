// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this crate uses of `core/linnet.h`, as C declares it.

use std::ffi::c_void;

use crate::replica::Raw as Replica;
use crate::watch::Watched;
use crate::{Budget, Candidate, Flight, Hedging, Latencies, Rate, Settings, Tracker, Trees};

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
    pub watch_schema: u32,
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

const _: () = assert!(size_of::<Model>() == 88 + 40 * LAYERS_MAX + 1412 + 2628);
const _: () = assert!(size_of::<Source>() == 32 && size_of::<Layer>() == 32);
const _: () = assert!(size_of::<Network>() == 48 + 32 * LAYERS_MAX);

/// Table of loops for one instruction set; only its address is used here.
#[repr(C)]
pub struct Dense {
    _functions: [*const c_void; 4],
}

/// Table of a judge's loops for one instruction set; only its address is used here.
#[repr(C)]
pub struct Sift {
    _functions: [*const c_void; 6],
}

#[repr(C)]
pub struct Tables {
    pub network: *const Network,
    pub loops: *const Sift,
    pub near: *const i32,
    pub top: *const i32,
    pub gap: *const i32,
    pub gap_bias: i64,
    pub lanes: u32,
    pub way: u32,
    pub packed: *const u64,
    pub words: u32,
    pub pack_bits: u32,
    pub memory_size: usize,
    pub judge_size: usize,
    pub scratch_size: usize,
}

const _: () = assert!(size_of::<Tables>() == 96);

/// Lies in memory of the size that its tables name; only its address is used here.
#[repr(C)]
pub struct Judge {
    _opaque: [u8; 0],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Choice {
    pub replica: u32,
    pub probe: bool,
    pub judged: bool,
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
    pub in_service: u8,
    pub chosen: u8,
    pub choice: Choice,
    pub candidates: [Candidate; REPLICAS_MAX],
}

const _: () = assert!(size_of::<Choice>() == 8 && size_of::<Decision>() == 32 + 32 * REPLICAS_MAX);

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
    pub fn linnet_replica_init(replica: *mut Replica, inflection_ns: u64, ios: *mut Watched, places: u32);
    pub fn linnet_replica_grow(replica: *mut Replica, ios: *mut Watched, from: u32, places: u32);
    pub fn linnet_replica_set_judge(
        replica: *mut Replica,
        judge: *mut Judge,
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
        now_ns: u64,
        offset_bytes: u64,
        size_bytes: u32,
        features: *mut u8,
    );
    pub fn linnet_judge_describe(judge: *mut Judge, size_bytes: u32, scratch: *mut c_void, candidate: *mut Candidate);
    pub fn linnet_hedge_init(hedge: *mut Hedging, settings: *const Settings, delay_ns: u64);
    pub fn linnet_hedge_ask(hedge: *mut Hedging, settings: *const Settings) -> i32;
    pub fn linnet_hedge_answered(hedge: *mut Hedging, latency_ns: u64);

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

    pub fn linnet_tables_plan(tables: *mut Tables, network: *const Network, loops: *const Sift) -> i32;
    pub fn linnet_tables_place(tables: *mut Tables, memory: *mut c_void, memory_size: usize) -> i32;
    pub fn linnet_judge_init(judge: *mut Judge, size: usize, tables: *const Tables, tracker: *const Tracker) -> i32;
    pub fn linnet_judge_arrive(judge: *mut Judge, size_bytes: u32) -> u32;
    pub fn linnet_judge_withdraw(judge: *mut Judge, size_bytes: u32);
    pub fn linnet_judge_note_read(judge: *mut Judge, size_bytes: u32, latency_ns: u64, snapshot: u32);
    pub fn linnet_judge_behind(judge: *const Judge) -> i32;
    pub fn linnet_judge_catch_up(judge: *mut Judge, snapshot: u32);
    pub fn linnet_judge_snapshot(judge: *const Judge, size_bytes: u32) -> u32;
    pub fn linnet_judge_pending_pages(judge: *const Judge) -> u32;
    pub fn linnet_judge_history_len(judge: *const Judge) -> u32;
    pub fn linnet_judge_tracker(judge: *const Judge, tracker: *mut Tracker);
    pub fn linnet_judge_score(judge: *const Judge, snapshot: u32, scratch: *mut c_void, score: *mut i64) -> i32;
    pub fn linnet_judge_decide(judge: *mut Judge, snapshot: u32, scratch: *mut c_void) -> i32;

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
    pub static linnet_sift_avx2: Sift;
    #[cfg(target_arch = "x86_64")]
    pub static linnet_sift_avx512: Sift;
    pub static linnet_sift_portable: Sift;
}
