// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of one device from which the features of Heimdall are computed (`core/heimdall.c`,
//! `spec/features-heimdall.md`).

use linnet_types::{Nanos, Op};

use crate::{Error, ffi};

/// Features of one read in the schema `heimdall-11`.
pub const HEIMDALL_FEATURES: usize = 11;
/// Inputs of a network on these features: two bytes for each.
pub const HEIMDALL_INPUTS: usize = 2 * HEIMDALL_FEATURES;
const HISTORY: usize = 3;

/// The tracker of one device (`struct linnet_heimdall`).
///
/// Report completions before arrivals if both have the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Heimdall {
    in_flight: u32,
    queue: [u32; HISTORY],
    latency_ns: [u32; HISTORY],
    throughput: [u32; HISTORY],
}

/// Bounds of each feature over the training rows (`struct linnet_heimdall_scale`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct HeimdallScale {
    least: [u32; HEIMDALL_FEATURES],
    most: [u32; HEIMDALL_FEATURES],
    factor: [u64; HEIMDALL_FEATURES],
}

/// Bytes per millisecond of an I/O; at most 2^32 - 1.
pub fn throughput(size_bytes: u32, latency_ns: Nanos) -> u32 {
    // SAFETY: a pure function of its arguments.
    unsafe { ffi::linnet_heimdall_throughput(size_bytes, latency_ns) }
}

impl Heimdall {
    /// An idle device without history.
    pub fn new() -> Heimdall {
        let mut tracker = Heimdall::default();
        // SAFETY: the struct has the layout of `struct linnet_heimdall`; so in every call below.
        unsafe { ffi::linnet_heimdall_init(&mut tracker) };
        tracker
    }

    /// An I/O arrives. Returns its snapshot: the I/Os in flight, reads and writes, including this one.
    pub fn arrive(&mut self) -> u32 {
        // SAFETY: the layout is C's, and the reference is exclusive.
        unsafe { ffi::linnet_heimdall_arrive(self) }
    }

    /// An I/O completes. A read enters the history, with the `snapshot` that its own arrival returned.
    pub fn complete(&mut self, op: Op, size_bytes: u32, latency_ns: Nanos, snapshot: u32) {
        match op {
            // SAFETY: the layout is C's, and the reference is exclusive.
            Op::Read => unsafe { ffi::linnet_heimdall_complete_read(self, size_bytes, latency_ns, snapshot) },
            // SAFETY: as above.
            Op::Write => unsafe { ffi::linnet_heimdall_leave(self) },
        }
    }

    /// An I/O leaves without completing (revoked, failed, cancelled): the history stays.
    pub fn withdraw(&mut self) {
        // SAFETY: the layout is C's, and the reference is exclusive.
        unsafe { ffi::linnet_heimdall_leave(self) }
    }

    /// All I/Os in flight leave without completing.
    pub fn clear(&mut self) {
        while self.in_flight > 0 {
            self.withdraw();
        }
    }

    /// I/Os in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The features of a read whose arrival returned `snapshot`.
    pub fn features(&self, snapshot: u32, size_bytes: u32) -> [u32; HEIMDALL_FEATURES] {
        let mut features = [0; HEIMDALL_FEATURES];
        // SAFETY: C writes as many features as the array has.
        unsafe { ffi::linnet_heimdall_features(self, snapshot, size_bytes, features.as_mut_ptr()) };
        features
    }
}

impl HeimdallScale {
    /// The scale with these bounds.
    ///
    /// # Errors
    /// [`Error::Input`] if a minimum is above its maximum.
    pub fn new(least: &[u32; HEIMDALL_FEATURES], most: &[u32; HEIMDALL_FEATURES]) -> Result<HeimdallScale, Error> {
        let mut scale = HeimdallScale::default();
        // SAFETY: the struct has the layout of `struct linnet_heimdall_scale`; so below.
        if unsafe { ffi::linnet_heimdall_scale_set(&mut scale, least.as_ptr(), most.as_ptr()) } < 0 {
            return Err(Error::Input("the least of a feature is above its most".into()));
        }
        Ok(scale)
    }

    /// The scale of these rows; without rows it maps everything to 0.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a [u32; HEIMDALL_FEATURES]>) -> HeimdallScale {
        let mut bounds: Option<([u32; HEIMDALL_FEATURES], [u32; HEIMDALL_FEATURES])> = None;
        for row in rows {
            let (least, most) = bounds.get_or_insert((*row, *row));
            for (k, &value) in row.iter().enumerate() {
                least[k] = least[k].min(value);
                most[k] = most[k].max(value);
            }
        }
        let (least, most) = bounds.unwrap_or_default();
        HeimdallScale::new(&least, &most).expect("each least is one of the values, as is its most")
    }

    /// Inputs of a network: each feature as 0..=65535 between its bounds, in two bytes, the high one first.
    pub fn inputs(&self, features: &[u32; HEIMDALL_FEATURES]) -> [u8; HEIMDALL_INPUTS] {
        let mut inputs = [0; HEIMDALL_INPUTS];
        // SAFETY: C reads and writes as many numbers as the arrays have.
        unsafe { ffi::linnet_heimdall_inputs(self, features.as_ptr(), inputs.as_mut_ptr()) };
        inputs
    }
}
