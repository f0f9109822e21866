// SPDX-License-Identifier: MIT OR Apache-2.0
//! `core/decide.h`: the decision on a read.

use std::ffi::{c_char, c_void};

use super::IncrementalNetwork;
use crate::inflight::InflightIo;
use crate::replica::Raw as Replica;
use crate::{Budget, Candidate, Flight, Hedging, Rate, Settings};

/// `LINNET_POLICIES`.
pub const POLICIES: usize = 5;
pub const REPLICAS_MAX: usize = crate::REPLICAS_MAX;
pub const HEDGE_START_NS: u64 = crate::HEDGE_START_NS;

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
    pub by_wait: u8,
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

unsafe extern "C" {
    pub static linnet_policy_names: [*const c_char; POLICIES];
    pub fn linnet_settings_init(settings: *mut Settings);
    pub fn linnet_settings_check(settings: *const Settings) -> i32;
    pub fn linnet_linked_budget_earn(budget: *mut Budget, rate: *const Rate);
    pub fn linnet_linked_budget_take(budget: *mut Budget, rate: *const Rate) -> i32;
    pub fn linnet_linked_hedge_earn(hedge: *mut Hedging, settings: *const Settings);
    pub fn linnet_linked_hedge_due(hedge: *const Hedging, sent_ns: u64) -> u64;
    pub fn linnet_linked_decides_nothing(settings: *const Settings, usable: u32, may_revoke: i32) -> i32;
    pub fn linnet_preferred(policy: u32, candidates: *const Candidate, count: u32) -> u32;
    pub fn linnet_wants_probe(settings: *const Settings, policy: u32, candidate: *const Candidate, now_ns: u64) -> i32;
    pub fn linnet_decision_begin(decision: *mut Decision, settings: *const Settings);
    pub fn linnet_decision_next(decision: *mut Decision, settings: *const Settings, revokes: *mut Budget) -> u32;
    pub fn linnet_copy_begin(decision: *mut Decision, settings: *const Settings);
    pub fn linnet_copy_next(decision: *mut Decision) -> u32;
    pub fn linnet_expected_ns(ewma_ns: u64, in_flight: u32) -> u64;
    pub fn linnet_replica_init(replica: *mut Replica, inflection_ns: u64, ios: *mut InflightIo, places: u32);
    pub fn linnet_replica_grow(replica: *mut Replica, ios: *mut InflightIo, from: u32, places: u32);
    pub fn linnet_replica_set_incremental(replica: *mut Replica, net: *mut IncrementalNetwork);
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
}
