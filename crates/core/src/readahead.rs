// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readahead of one file (`core/readahead.h`): from counts to features, from features to the rule's verdict, from
//! verdicts to changes. The kernel module `linnet_tune` calls the same functions.

use crate::ffi;

/// Inputs of a model of schema `readahead-1`.
pub const READAHEAD_INPUTS: usize = ffi::READAHEAD_INPUTS;
/// The kernel's default readahead, which suits scans, in KiB.
pub const READAHEAD_DEFAULT_KIB: u32 = ffi::READAHEAD_DEFAULT_KIB;
/// Buckets of log2 of the distance between demands.
pub const DISTANCES: usize = ffi::DISTANCES;
/// Buckets of log2 of a read's pages.
pub const SIZES: usize = ffi::SIZES;

/// Counters of one file, in pages of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReadCounts {
    /// Demands: reads, and faults of mappings.
    pub accesses: u64,
    /// Pages demanded.
    pub pages: u64,
    /// Demands of pages that were demanded just before.
    pub repeats: u64,
    /// Demands that continue a sequence upwards.
    pub forward: u64,
    /// Demands that continue one downwards.
    pub reverse: u64,
    /// Demands elsewhere.
    pub jumps: u64,
    /// Of the demands, those through a mapping.
    pub faults: u64,
    /// Pages brought into memory.
    pub added: u64,
    /// Of those, pages demanded soon after.
    pub used: u64,
    /// Times that pages were brought from elsewhere than where the last ones ended.
    pub batches: u64,
    /// log2 of the distance from the end of a demand to the next.
    pub distance: [u64; DISTANCES],
    /// log2 of the pages of a read.
    pub size: [u64; SIZES],
}

/// Numbers in [`ReadCounts`].
pub const READ_NUMBERS: usize = 10 + DISTANCES + SIZES;

impl ReadCounts {
    /// The counters in the order of the fields.
    pub fn to_array(self) -> [u64; READ_NUMBERS] {
        let mut all = [0; READ_NUMBERS];
        let head = [
            self.accesses,
            self.pages,
            self.repeats,
            self.forward,
            self.reverse,
            self.jumps,
            self.faults,
            self.added,
            self.used,
            self.batches,
        ]; // as in core/reads.h
        all[..10].copy_from_slice(&head);
        all[10..10 + DISTANCES].copy_from_slice(&self.distance);
        all[10 + DISTANCES..].copy_from_slice(&self.size);
        all
    }

    /// Counters from their numbers in the order of the fields.
    pub fn from_array(all: [u64; READ_NUMBERS]) -> ReadCounts {
        let [accesses, pages, repeats, forward, reverse, jumps, faults, added, used, batches, ..] = all;
        let (mut distance, mut size) = ([0; DISTANCES], [0; SIZES]);
        distance.copy_from_slice(&all[10..10 + DISTANCES]);
        size.copy_from_slice(&all[10 + DISTANCES..]);
        ReadCounts { accesses, pages, repeats, forward, reverse, jumps, faults, added, used, batches, distance, size }
    }

    /// What was added since `before`. A counter that went back was reset; all of it is new.
    #[must_use]
    pub fn since(self, before: ReadCounts) -> ReadCounts {
        if self.accesses < before.accesses || self.added < before.added {
            return self;
        }
        let (mut left, right) = (self.to_array(), before.to_array());
        for (l, r) in left.iter_mut().zip(right) {
            *l = l.saturating_sub(r);
        }
        ReadCounts::from_array(left)
    }

    /// True where nothing happened.
    pub fn is_idle(&self) -> bool {
        self.accesses == 0 && self.added == 0 && self.repeats == 0
    }

    /// The sum; no counter passes 2^44.
    #[must_use]
    pub fn plus(mut self, other: ReadCounts) -> ReadCounts {
        // SAFETY: both are valid, and of the size that the core checks.
        unsafe { ffi::linnet_counts_add(&mut self, &other) };
        self
    }
}

/// A window of reads in numbers (`struct linnet_pattern`). Names that end in `_q16` are multiples of 1/65,536.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReadPattern {
    /// Demands that the numbers rest on.
    pub accesses: u64,
    /// Places between which the demands jumped.
    pub jumps: u64,
    /// Pages demanded between two jumps.
    pub run_pages_q16: u64,
    /// Share of demands that continue a sequence.
    pub local_q16: u32,
    /// Of those, the share that goes downwards.
    pub reverse_q16: u32,
    /// Share of distances below 2^5 pages.
    pub near_q16: u32,
    /// Share of distances of 2^10 pages and more.
    pub far_q16: u32,
    /// Entropy of the distances' sizes, 0 to 1.
    pub spread_q16: u32,
    /// Pages of a read(), the middle one, a power of two.
    pub request_pages: u32,
    /// Share of demands through mappings.
    pub mapped_q16: u32,
    /// Share of the pages brought that were demanded soon.
    pub used_q16: u32,
    /// Pages brought for each one demanded.
    pub added_each_q16: u64,
    /// Times that something was brought, for each page demanded.
    pub batches_each_q16: u64,
    /// Pages brought.
    pub added: u64,
}

const _: () = assert!(size_of::<ReadPattern>() == 80 && size_of::<ReadCounts>() == 8 * (10 + DISTANCES + SIZES));

impl ReadPattern {
    /// The numbers of a window. Without `demands`, the pages brought stand for them.
    pub fn of(counts: &ReadCounts, demands: bool) -> ReadPattern {
        let mut pattern = ReadPattern::default();
        // SAFETY: both are valid.
        unsafe { ffi::linnet_pattern_of(counts, i32::from(demands), &mut pattern) };
        pattern
    }

    /// The inputs of a model of schema `readahead-1`.
    pub fn row(&self) -> [f32; READAHEAD_INPUTS] {
        let mut bits = [0; READAHEAD_INPUTS];
        // SAFETY: the array has the size that the core fills.
        unsafe { ffi::linnet_pattern_row(self, bits.as_mut_ptr()) };
        bits.map(f32::from_bits)
    }

    /// Certainty that reads are scattered, in millionths.
    pub fn scattered_ppm(&self) -> u32 {
        // SAFETY: a valid reference.
        unsafe { ffi::linnet_scattered_ppm(self) }
    }
}

/// Certainty that grows with what was seen, in millionths.
pub fn certainty_ppm(observations: u64) -> u32 {
    // SAFETY: a number.
    unsafe { ffi::linnet_certainty_ppm(observations) }
}

/// How a file is read (`enum linnet_reading`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Reading {
    /// Single pages or small blocks, anywhere.
    Random,
    /// Runs between jumps.
    Runs,
    /// In order.
    Sequential,
    /// Backwards.
    Reverse,
}

fn reading_of(number: u32) -> Option<Reading> {
    [Reading::Random, Reading::Runs, Reading::Sequential, Reading::Reverse].get(number as usize).copied()
}

/// What a window asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadVerdict {
    /// How the file is read.
    pub reading: Reading,
    /// The value in KiB; None: the file's own, or the kernel's default where that is smaller.
    pub kib: Option<u32>,
    /// In millionths.
    pub confidence_ppm: u32,
}

impl ReadVerdict {
    fn raw(self) -> ffi::ReadaheadVerdict {
        let ReadVerdict { reading, kib, confidence_ppm } = self;
        ffi::ReadaheadVerdict { reading: reading as u32, kib: kib.unwrap_or(0), confidence_ppm }
    }

    fn of(raw: ffi::ReadaheadVerdict) -> Option<ReadVerdict> {
        let kib = (raw.kib != 0).then_some(raw.kib);
        Some(ReadVerdict { reading: reading_of(raw.reading)?, kib, confidence_ppm: raw.confidence_ppm })
    }
}

/// The rule of thresholds (`struct linnet_rule`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct ReadRule {
    /// Up to so many pages between jumps reads are random.
    pub random_pages: u32,
    /// From so many pages on they are in order.
    pub sequential_pages: u32,
    /// The value for random reads, in KiB.
    pub random_kib: u32,
    /// KiB of a page. No value is smaller.
    pub page_kib: u32,
}

impl ReadRule {
    /// The rule of a machine whose pages have `page_kib` KiB: 4, 16 or 64.
    pub fn new(page_kib: u32) -> ReadRule {
        let mut rule = ReadRule { random_pages: 0, sequential_pages: 0, random_kib: 0, page_kib };
        // SAFETY: a valid reference.
        unsafe { ffi::linnet_rule_init(&mut rule, page_kib) };
        rule
    }

    /// The verdict; None where the window says nothing.
    pub fn decide(&self, pattern: &ReadPattern) -> Option<ReadVerdict> {
        let mut raw = ffi::ReadaheadVerdict::default();
        // SAFETY: valid references.
        let says = unsafe { ffi::linnet_rule_decide(self, pattern, &mut raw) } != 0;
        says.then(|| ReadVerdict::of(raw)).flatten()
    }

    /// The verdict of a model that gives the window this value with this confidence.
    pub fn model_verdict(&self, pattern: &ReadPattern, kib: u32, confidence_ppm: u32) -> Option<ReadVerdict> {
        let mut raw = ffi::ReadaheadVerdict::default();
        // SAFETY: valid references.
        unsafe { ffi::linnet_model_verdict(self, pattern, kib, confidence_ppm, &mut raw) };
        ReadVerdict::of(raw)
    }
}

/// A change that should be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadProposal {
    /// The value to set, in KiB.
    pub to_kib: u32,
    /// In millionths.
    pub confidence_ppm: u32,
    /// Of a change that is taken back: the cost before and after, in pages for each one demanded times 65,536, and for
    /// how many nanoseconds the file is left alone.
    pub rollback: Option<(u64, u64, u64)>,
}

/// From verdicts to changes, for one file (`struct linnet_governor`). Times are nanoseconds of one clock.
#[derive(Debug, Clone)]
pub struct ReadGovernor(ffi::Governor);

impl ReadGovernor {
    /// Length of a window, in nanoseconds.
    pub const WINDOW_NS: u64 = ffi::WINDOW_NS;
    /// Fewer pages brought in a window are not worth a change.
    pub const ADDED_MIN: u64 = ffi::ADDED_MIN;
    /// What reading may cost after a change, as a multiple of what it cost before.
    pub const COST_MAX: f64 = 1.0 + 1.0 / ffi::COST_PART as f64;
    /// How long a file is left alone after a change that was for the worse, in nanoseconds; twice as long each time.
    pub const HOLD_NS: u64 = ffi::HOLD_NS;
    /// And no longer.
    pub const HOLD_NS_MAX: u64 = ffi::HOLD_NS_MAX;
    /// What bringing something from elsewhere costs on a disk beside its pages, in pages: latency against throughput.
    pub const JUMP_PAGES: u32 = ffi::JUMP_PAGES;

    /// A file that has `kib` when it is first seen.
    pub fn new(now_ns: u64, kib: u32) -> ReadGovernor {
        let mut raw = ffi::Governor::default();
        // SAFETY: a valid reference.
        unsafe { ffi::linnet_governor_init(&mut raw, now_ns, kib) };
        ReadGovernor(raw)
    }

    /// The value in force.
    pub fn current_kib(&self) -> u32 {
        self.0.current_kib
    }

    /// The value from before us.
    pub fn original_kib(&self) -> u32 {
        self.0.original_kib
    }

    /// How the file is read, as far as decided.
    pub fn reading(&self) -> Option<Reading> {
        reading_of(self.0.reading)
    }

    /// True while it is left alone, after a rollback or a refusal.
    pub fn is_held(&self, now_ns: u64) -> bool {
        now_ns < self.0.hold_until_ns
    }

    /// Takes a file's true value in, before the first change.
    pub fn correct(&mut self, kib: u32) {
        // SAFETY: a valid reference.
        unsafe { ffi::linnet_governor_correct(&mut self.0, kib) };
    }

    /// Adds what happened; returns the whole window.
    pub fn add(&mut self, counts: &ReadCounts) -> &ReadCounts {
        // SAFETY: valid references.
        unsafe { ffi::linnet_counts_add(&mut self.0.window, counts) };
        &self.0.window
    }

    /// What to do about the window, described by `pattern`. The caller makes the change and says `changed`, or
    /// `refused`.
    pub fn step(&mut self, now_ns: u64, pattern: &ReadPattern, verdict: Option<ReadVerdict>) -> Option<ReadProposal> {
        let raw = verdict.map(ReadVerdict::raw);
        let pointer = raw.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut proposal = ffi::Proposal::default();
        // SAFETY: valid references; a null verdict is allowed.
        unsafe { ffi::linnet_governor_step(&mut self.0, now_ns, pattern, pointer, &mut proposal) };
        let ffi::Proposal { change, to_kib, confidence_ppm, cost_before_q16, cost_after_q16, hold_ns, .. } = proposal;
        let rollback = (change == ffi::CHANGE_ROLLBACK).then_some((cost_before_q16, cost_after_q16, hold_ns));
        (change != ffi::CHANGE_NONE).then_some(ReadProposal { to_kib, confidence_ppm, rollback })
    }

    /// The proposal was carried out.
    pub fn changed(&mut self, now_ns: u64, kib: u32) {
        // SAFETY: a valid reference.
        unsafe { ffi::linnet_governor_changed(&mut self.0, now_ns, kib) };
    }

    /// The proposal could not be carried out: ask again only after a while.
    pub fn refused(&mut self, now_ns: u64, wait_ns: u64) {
        // SAFETY: a valid reference.
        unsafe { ffi::linnet_governor_refused(&mut self.0, now_ns, wait_ns) };
    }

    /// What bringing something from elsewhere costs beside its pages, in pages times 65,536; 8 pages unless set. Call
    /// it before `step`. A change is judged at the price at which it was proposed.
    pub fn set_jump_pages_q16(&mut self, jump_pages_q16: u32) {
        self.0.jump_pages_q16 = jump_pages_q16;
    }
}
