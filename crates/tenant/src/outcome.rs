// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a tenant sees of a drive that it shares: the metrics that interference models predict. On modelled drives
//! ([`crate::colocate()`]) and on real ones (`linnet-staging`) they are counted by the same [`Meter`].

use linnet_measure::quantile_unsorted;
use linnet_ssd::{Cause, Mechanism};
use linnet_types::{Nanos, Op};

/// What a tenant saw of one operation, of the I/Os that completed after the warm-up and before the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// I/Os.
    pub ios: u64,
    /// Bytes per second.
    pub bandwidth_mean: f64,
    /// From submission to completion, microseconds. Like the percentiles NaN without I/Os: nothing was measured.
    pub latency_mean_us: f64,
    /// 90th percentile.
    pub latency_p90_us: f64,
    /// 95th percentile.
    pub latency_p95_us: f64,
    /// 99th percentile.
    pub latency_p99_us: f64,
    /// Parts of the mean latency, in microseconds: what each mechanism of the drive made an I/O wait. In the order of
    /// [`Mechanism::ALL`].
    pub wait_us_mean: [f64; Mechanism::ALL.len()],
}

impl Seen {
    fn of(latencies: &mut [Nanos], bytes: u64, waits: &Cause, seconds: f64) -> Seen {
        let count = latencies.len().max(1) as f64;
        let sum: u128 = latencies.iter().map(|&ns| u128::from(ns)).sum();
        let ios = latencies.len() as u64;
        let us = |ns: f64| if ios == 0 { f64::NAN } else { ns / 1000.0 };
        let mut at = |q| us(quantile_unsorted(latencies, q) as f64);
        let (p90, p95, p99) = (at(0.9), at(0.95), at(0.99));
        Seen {
            ios,
            bandwidth_mean: bytes as f64 / seconds,
            latency_mean_us: us(sum as f64 / count),
            latency_p90_us: p90,
            latency_p95_us: p95,
            latency_p99_us: p99,
            wait_us_mean: Mechanism::ALL.map(|mechanism| waits.wait_ns(mechanism) as f64 / count / 1000.0),
        }
    }
}

/// What a tenant saw.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Reads, then writes.
    pub ops: [Seen; 2],
    /// Mean number of I/Os outstanding.
    pub depth: f64,
}

impl Outcome {
    /// Whether no I/O was outstanding at any time that was measured: nothing is known of the tenant. One whose I/Os
    /// waited and did not complete is not idle.
    pub fn is_idle(&self) -> bool {
        self.depth == 0.0
    }
}

/// An I/O that has completed, or whose completion is known.
#[derive(Clone, Copy, Debug)]
pub struct Completed {
    /// When it was handed to the drive.
    pub submit_ns: Nanos,
    /// When the drive was done.
    pub complete_ns: Nanos,
    /// Read or write.
    pub op: Op,
    /// Length.
    pub size_bytes: u32,
    /// What it waited for, where that is known.
    pub cause: Cause,
}

impl Completed {
    /// An I/O of which only the times are known.
    pub fn timed(submit_ns: Nanos, complete_ns: Nanos, op: Op, size_bytes: u32) -> Self {
        Completed { submit_ns, complete_ns, op, size_bytes, cause: Cause::default() }
    }
}

/// Counts a tenant's I/Os.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    latencies: [Vec<Nanos>; 2],
    bytes: [u64; 2],
    waits: [Cause; 2],
    busy_ns: u128,
}

impl Meter {
    /// Counts an I/O of a run that is measured from `from_ns` to `end_ns`: its latency and bytes if it completed then,
    /// and for how long it was outstanding.
    pub fn count(&mut self, io: &Completed, from_ns: Nanos, end_ns: Nanos) {
        self.busy_ns += u128::from(io.complete_ns.min(end_ns).saturating_sub(io.submit_ns.max(from_ns)));
        if io.complete_ns >= from_ns && io.complete_ns < end_ns {
            let op = io.op as usize;
            self.latencies[op].push(io.complete_ns - io.submit_ns);
            self.bytes[op] += u64::from(io.size_bytes);
            self.waits[op].merge(&io.cause);
        }
    }

    /// What was seen in so long a time.
    pub fn outcome(self, measured_ns: Nanos) -> Outcome {
        let seconds = measured_ns.max(1) as f64 / 1e9;
        let [mut reads, mut writes] = self.latencies;
        let ([read, written], [read_waits, write_waits]) = (self.bytes, self.waits);
        Outcome {
            ops: [
                Seen::of(&mut reads, read, &read_waits, seconds),
                Seen::of(&mut writes, written, &write_waits, seconds),
            ],
            depth: self.busy_ns as f64 / (seconds * 1e9),
        }
    }
}
