// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a run is asked for, what it tells meanwhile, and what it returns.

use std::num::NonZeroUsize;

use linnet_types::{IoRecord, Nanos};

use crate::{Config, Counters};

/// How to run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunOptions {
    /// The array.
    pub array: Config,
    /// When requests arrive, and what is kept.
    pub playback: Playback,
}

/// When the requests of records arrive, and what is kept of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Playback {
    /// Closed loop: so many requests are in flight, and the next of all streams, in the order of time, is sent when one
    /// ends. The records' times have no other meaning then. Default: each request arrives at the time of its record.
    pub closed_loop: Option<NonZeroUsize>,
    /// Requests of records before this time are served, but are in no result: neither in the counters nor among the
    /// latencies. The policy's averages and the devices' queues are then those of a system that runs. Default 0: all
    /// are.
    pub warm_up_ns: Nanos,
    /// Keep a record of every I/O as its device saw it.
    pub log: bool,
}

impl Playback {
    /// At the times of the records, with a record of every I/O.
    pub const LOGGED: Playback = Playback { closed_loop: None, warm_up_ns: 0, log: true };
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// I/Os that arrived.
    pub done: u64,
    /// I/Os of the whole run.
    pub total: u64,
    /// The run's time.
    pub now_ns: Nanos,
}

/// Reads in the order in which they ended; one entry in each list per read. A read that failed at every replica, or ran
/// into its time limits, counts with the time until it was given up, and at least with the time limit of one copy:
/// without it, the tail would look short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadLatencies {
    /// From arrival at the array to the end, including revokes, failovers and hedges.
    pub latency_ns: Vec<Nanos>,
    /// When the read arrived.
    pub arrive_ns: Vec<Nanos>,
    /// The stream it belongs to.
    pub stream: Vec<u16>,
    /// The tenant that sent the read.
    pub tenant: Vec<u32>,
}

impl ReadLatencies {
    pub(super) fn push(&mut self, stream: usize, tenant: u32, arrive_ns: Nanos, latency_ns: Nanos) {
        self.latency_ns.push(latency_ns);
        self.arrive_ns.push(arrive_ns);
        self.stream.push(stream as u16);
        self.tenant.push(tenant);
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunResult {
    /// Latencies of reads as users saw them, of those that arrived after the warm-up.
    pub reads: ReadLatencies,
    /// Counts of the requests that arrived after the warm-up.
    pub counters: Counters,
    /// When the first request after the warm-up arrived.
    pub measured_from_ns: Nanos,
    /// Hash of all inputs and outputs of the array, with their order and times.
    pub event_hash: u64,
    /// Time of the last event.
    pub end_ns: Nanos,
    /// Every I/O as its device saw it, by device, in the order of submission; empty unless requested. `arrive_ns` is
    /// the time of the submit; the latency is missing if the device did not complete the I/O. Training data for
    /// `linnet-learn`.
    pub log: Vec<Vec<IoRecord>>,
}
