// SPDX-License-Identifier: MIT OR Apache-2.0
//! `core/readahead.h`: how a file is read, and the readahead that suits it.

pub const READAHEAD_INPUTS: usize = 8;
pub const READAHEAD_DEFAULT_KIB: u32 = 128;
pub const WINDOW_NS: u64 = 1_000_000_000;
pub const ADDED_MIN: u64 = 32;
pub const COST_PART: u32 = 4;
pub const HOLD_NS: u64 = 30_000_000_000;
pub const HOLD_NS_MAX: u64 = 480_000_000_000;
pub const JUMP_PAGES: u32 = 8;
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
    pub cost_jump_pages_q16: u32,
    pub has_pending: u8,
    pub has_changed: u8,
    pub has_cost: u8,
    pub has_rollback: u8,
    pub spare: [u8; 4],
}

const _: () = assert!(size_of::<Proposal>() == 40 && size_of::<ReadaheadVerdict>() == 12);
const _: () = assert!(size_of::<Governor>() == 80 + size_of::<crate::ReadCounts>());

unsafe extern "C" {
    pub fn linnet_counts_add(to: *mut crate::ReadCounts, from: *const crate::ReadCounts);
    pub fn linnet_pattern_of(counts: *const crate::ReadCounts, demands: i32, pattern: *mut crate::ReadPattern);
    pub fn linnet_pattern_row(pattern: *const crate::ReadPattern, row: *mut u32);
    pub fn linnet_certainty_ppm(observations: u64) -> u32;
    pub fn linnet_scattered_ppm(pattern: *const crate::ReadPattern) -> u32;
    pub fn linnet_rule_init(rule: *mut crate::ReadRule, page_kib: u32);
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
