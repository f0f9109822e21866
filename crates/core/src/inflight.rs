// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of one device that a host can observe while I/Os are in flight (`core/inflight.c`, `spec/features-linnet.md`).

use linnet_types::{Nanos, Op, Request};

use crate::ffi;

/// Features of one read; each is 0..=63.
pub const INFLIGHT_FEATURES: usize = 16;

/// A schema of these features, by its number in model files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Schema {
    /// `linnet-1`.
    #[default]
    Linnet1 = 2,
    /// `linnet-2`: input 9 counts the reads in flight that begin on the same page.
    Linnet2 = 3,
}

impl Schema {
    /// Both, in the order of their numbers.
    pub const ALL: [Schema; 2] = [Schema::Linnet1, Schema::Linnet2];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Schema::Linnet1 => "linnet-1",
            Schema::Linnet2 => "linnet-2",
        }
    }
}
/// The largest value of a feature: the end of its scale, or "not yet".
pub const BUCKET_MAX: u8 = 63;

const DONE: usize = 8;
const LATENCIES: usize = 4;

/// `struct linnet_inflight_io`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct InflightIo {
    arrived_ns: Nanos,
    pages_ahead: u64,
    pages: u32,
    is_read: u16,
    slot: u16,
    older: u32,
    newer: u32,
}

/// `struct linnet_inflight`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Raw {
    inflection_ns: Nanos,
    pages: u64,
    read_pages: u64,
    arrived_sum_ns: u64,
    oldest_arrived_ns: Nanos,
    read_arrived_ns: Nanos,
    read_end_bytes: u64,
    completed: u64,
    done_ns: [Nanos; DONE],
    latency_ns: [Nanos; LATENCIES],
    fast_ns: u64,
    slow_ns: u64,
    page_ns: u64,
    written_pages: u64,
    slow_done_ns: Nanos,
    slow_written_pages: u64,
    reads: u32,
    writes: u32,
    newest_read: u32,
    seen: u32,
    spare: [u32; 2],
    page_reads: PageReads,
}

/// Counts by the hash of a page.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct PageReads([u16; 64]);

impl Default for PageReads {
    fn default() -> Self {
        PageReads([0; 64])
    }
}

/// The bucket of a value on the scale of every feature: four buckets per octave, 0..=63.
pub fn bucket(value: u64) -> u8 {
    // SAFETY: a pure function of its argument.
    unsafe { ffi::linnet_bucket(value) }
}

/// One I/O in flight, from [`InflightTracker::arrive`] to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// The in-flight tracker of one device. From the arrival and end of every I/O it computes the features of a read that
/// arrives now.
///
/// Times come from one clock that never goes back. Report completions before arrivals if both have the same time.
#[derive(Clone, Debug)]
pub struct InflightTracker {
    raw: Raw,
    ios: Vec<InflightIo>,
    in_flight: Vec<bool>,
    free: Vec<u32>,
}

impl InflightTracker {
    /// An idle device without history. Reads above `inflection_ns` are slow.
    pub fn new(inflection_ns: Nanos) -> InflightTracker {
        let mut raw = Raw::default();
        // SAFETY: `Raw` has the layout of `struct linnet_inflight`; so in every call below.
        unsafe { ffi::linnet_inflight_init(&mut raw, inflection_ns) };
        InflightTracker { raw, ios: Vec::new(), in_flight: Vec::new(), free: Vec::new() }
    }

    /// The inflection point that was given to `new`.
    pub fn inflection_ns(&self) -> Nanos {
        self.raw.inflection_ns
    }

    /// I/Os in flight.
    pub fn in_flight(&self) -> usize {
        self.ios.len() - self.free.len()
    }

    /// Reads that have completed.
    pub fn completed(&self) -> u64 {
        self.raw.completed
    }

    /// An I/O is submitted to the device. Keep its place until it ends. Allocates if more are in flight than ever
    /// before.
    pub fn arrive(&mut self, now: Nanos, request: &Request) -> Place {
        let io = self.free.pop().unwrap_or_else(|| {
            self.ios.push(InflightIo::default());
            self.in_flight.push(false);
            self.ios.len() as u32 - 1
        });
        self.in_flight[io as usize] = true;
        let is_read = i32::from(request.op == Op::Read);
        // SAFETY: `io` is in the bounds of `ios`; so are the places in the list, which came from here.
        unsafe {
            ffi::linnet_inflight_arrive(
                &mut self.raw,
                self.ios.as_mut_ptr(),
                io,
                now,
                is_read,
                request.offset_bytes,
                request.size_bytes,
            );
        }
        Place(io)
    }

    /// It completes. A place that is not in flight has no effect.
    pub fn complete(&mut self, place: Place, now: Nanos) {
        if self.end(place) {
            // SAFETY: in flight, so in bounds and in the list.
            unsafe { ffi::linnet_inflight_complete(&mut self.raw, self.ios.as_mut_ptr(), place.0, now) };
        }
    }

    /// It leaves without completing (revoked, failed, cancelled): the history stays. A place that is not in flight has
    /// no effect.
    pub fn withdraw(&mut self, place: Place) {
        if self.end(place) {
            // SAFETY: as in `complete`.
            unsafe { ffi::linnet_inflight_withdraw(&mut self.raw, self.ios.as_mut_ptr(), place.0) };
        }
    }

    fn end(&mut self, place: Place) -> bool {
        let live = self.in_flight.get_mut(place.0 as usize).is_some_and(std::mem::take);
        if live {
            self.free.push(place.0);
        }
        live
    }

    /// The features of a read if it were submitted now.
    pub fn describe(&self, schema: Schema, now: Nanos, offset_bytes: u64, size_bytes: u32) -> [u8; INFLIGHT_FEATURES] {
        let mut features = [0; INFLIGHT_FEATURES];
        let to = features.as_mut_ptr();
        // SAFETY: `features` has room.
        unsafe { ffi::linnet_inflight_describe(&self.raw, schema as u32, now, offset_bytes, size_bytes, to) };
        features
    }
}

impl Default for InflightTracker {
    /// Without an inflection point no read is slow.
    fn default() -> Self {
        InflightTracker::new(Nanos::MAX)
    }
}
