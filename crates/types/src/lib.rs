// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types and traits that all crates share: records, requests, devices, clocks.
//!
//! The terms are those of `spec/glossary.md`; the fields of [`IoRecord`] are those of `spec/trace-record.md`.

mod device;

pub use device::{Clock, Device, End, Ended, Foresight, LatencyModel, Outcome, Waited};

/// Nanoseconds: a time on a clock that starts at zero, or a duration. Wraps after 584 years.
pub type Nanos = u64;

/// What a revoked read costs before the next replica is asked, if nothing else is said: LinnOS's cost of a failover,
/// including its inference (section 5.3).
pub const FAILOVER_NS: Nanos = 15_000;

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
    /// When the I/O reached the device, counted from the start of the trace.
    pub arrive_ns: Nanos,
    /// From arrival to completion, if the trace has it.
    pub latency_ns: Option<Nanos>,
    /// First byte.
    pub offset_bytes: u64,
    /// Length; at least 1.
    pub size_bytes: u32,
    /// The device, disk or volume number that the trace gives; 0 if it gives none.
    pub device: u32,
    /// The workload that sent the I/O, among those that share a drive; 0 if the trace names none.
    pub tenant: u32,
    /// Read or write.
    pub op: Op,
}

impl IoRecord {
    /// An I/O with only these fields known: device 0, tenant 0, no latency.
    pub const fn new(arrive_ns: Nanos, op: Op, offset_bytes: u64, size_bytes: u32) -> Self {
        IoRecord { arrive_ns, latency_ns: None, offset_bytes, size_bytes, device: 0, tenant: 0, op }
    }

    /// The request that replays this record on a device.
    pub fn request(&self) -> Request {
        Request { offset_bytes: self.offset_bytes, size_bytes: self.size_bytes, tenant: self.tenant, op: self.op }
    }
}

/// A live I/O, as it is submitted to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// First byte. A device smaller than the offset wraps it around its capacity.
    pub offset_bytes: u64,
    /// Length; at least 1.
    pub size_bytes: u32,
    /// The workload that sends the request ([`IoRecord::tenant`]). Devices treat all tenants alike.
    pub tenant: u32,
    /// Read or write.
    pub op: Op,
}

impl Request {
    /// A request of tenant 0, the only tenant if tenants are not distinguished.
    pub const fn new(op: Op, offset_bytes: u64, size_bytes: u32) -> Self {
        Request { offset_bytes, size_bytes, tenant: 0, op }
    }
}

/// What a profiling run measured on one device, apart from its model: the thresholds that policies use.
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
    /// Threshold of HeurSim: the I/Os in flight that an arriving read saw, at the percentile of the inflection point.
    pub queue_inflection: u32,
    /// Median of the I/Os in flight that an arriving read saw.
    pub queue_median: u32,
    /// Lower quartile of the I/Os in flight that an arriving read saw.
    pub queue_lower_quartile: u32,
}

/// Whether a read was slow: its latency is above the inflection point; a latency equal to it is fast
/// (`spec/decision.md`). `linnet_is_slow` is the same rule in the core; `spec/vectors/inflight.txt` checks that both
/// agree.
pub fn is_slow(latency_ns: Nanos, inflection_ns: Nanos) -> bool {
    latency_ns > inflection_ns
}
