// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words and traits shared by every crate: records, requests, devices, clocks.
//!
//! The terms are those of `spec/glossary.md`; the fields of [`IoRecord`] are those of `spec/trace-record.md`.

mod device;

pub use device::{Clock, Device, End, Ended, Foresight, LatencyModel, Outcome, Waited};

/// Nanoseconds: a point on a clock that starts at zero, or a length of time. Wraps after 584 years.
pub type Nanos = u64;

/// What an I/O does. Readers count every other kind (flush, discard) as skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Reads data.
    Read = 0,
    /// Writes data.
    Write = 1,
}

impl Op {
    /// True for [`Op::Read`].
    pub fn is_read(self) -> bool {
        self == Op::Read
    }
}

/// One I/O of a trace (`spec/trace-record.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoRecord {
    /// When the I/O reached the device, from the start of the trace.
    pub arrive_ns: Nanos,
    /// From arrival to completion, where the trace carries it.
    pub latency_ns: Option<Nanos>,
    /// First byte.
    pub offset_bytes: u64,
    /// Length; at least 1.
    pub size_bytes: u32,
    /// The device, disk or volume number that the trace gives; 0 where it gives none.
    pub device: u32,
    /// The workload that the I/O belongs to, among those that share a drive; 0 where the trace names none.
    pub tenant: u32,
    /// Read or write.
    pub op: Op,
}

impl IoRecord {
    /// An I/O of which nothing else is known: device 0, tenant 0, no latency.
    pub const fn new(arrive_ns: Nanos, op: Op, offset_bytes: u64, size_bytes: u32) -> Self {
        IoRecord { arrive_ns, latency_ns: None, offset_bytes, size_bytes, device: 0, tenant: 0, op }
    }

    /// The part of a record that a device is asked to serve.
    pub fn request(&self) -> Request {
        Request { offset_bytes: self.offset_bytes, size_bytes: self.size_bytes, tenant: self.tenant, op: self.op }
    }
}

/// A live I/O, as it is handed to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// First byte. A device smaller than the offset wraps it around its capacity.
    pub offset_bytes: u64,
    /// Length; at least 1.
    pub size_bytes: u32,
    /// The workload that asks ([`IoRecord::tenant`]). Devices serve all alike.
    pub tenant: u32,
    /// Read or write.
    pub op: Op,
}

impl Request {
    /// A request of tenant 0, the one tenant where nobody tells them apart.
    pub const fn new(op: Op, offset_bytes: u64, size_bytes: u32) -> Self {
        Request { offset_bytes, size_bytes, tenant: 0, op }
    }
}

/// What was learned of one device from a profiling run, apart from its model: the thresholds that policies use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Thresholds {
    /// The latency that splits fast reads from slow ones on this device and workload.
    pub inflection_ns: Nanos,
    /// 95th percentile of read latency.
    pub latency_ns_p95: Nanos,
    /// 99th percentile of read latency.
    pub latency_ns_p99: Nanos,
    /// Hedge delay of LinnOS+HL: the read latency at percentile min(95, 100 - false-submit %) (LinnOS, section 4.4).
    pub hedge_ns: Nanos,
    /// I/Os in flight that an arriving read saw, at the inflection point's percentile (HeurSim's threshold).
    pub queue_inflection: u32,
    /// Median of the I/Os in flight that an arriving read saw.
    pub queue_median: u32,
    /// Lower quartile of the I/Os in flight that an arriving read saw.
    pub queue_lower_quartile: u32,
}

/// The truth of a read: slow is above the inflection point, and a latency equal to it is fast (`spec/decision.md`). The core's
/// own is `linnet_is_slow`; `spec/vectors/inflight.txt` holds both to the same answers.
pub fn is_slow(latency_ns: Nanos, inflection_ns: Nanos) -> bool {
    latency_ns > inflection_ns
}
