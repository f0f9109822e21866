// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs tenants together on a modelled drive and measures each: the labels of interference models.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linnet_measure::quantile_unsorted;
use linnet_ssd::{Cause, Mechanism, Params, Ssd};
use linnet_types::{IoRecord, Nanos};

/// The drives of the gray-box paper's Table 1, by name, as parameter files.
pub const DRIVES: [(&str, &str); 2] =
    [("nvme", include_str!("../drives/nvme.toml")), ("sata", include_str!("../drives/sata.toml"))];
/// Most tenants of a drive. Each has an equal part of its space.
pub const TENANTS_MAX: usize = 16;

/// The parameters of a drive of this name.
pub fn drive(name: &str) -> Option<Result<Params, linnet_ssd::Error>> {
    DRIVES.iter().find(|(own, _)| *own == name).map(|(_, text)| Params::from_toml(text))
}

/// A tenant of a run.
#[derive(Clone, Copy, Debug)]
pub struct Tenant<'a> {
    /// Its I/Os, by arrival.
    pub records: &'a [IoRecord],
    /// Maximum of its I/Os outstanding; others wait, as in fio.
    pub depth: usize,
}

/// What a tenant saw of one operation, of the I/Os that completed after the warm-up and before the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// I/Os.
    pub ios: u64,
    /// Bytes per second.
    pub bandwidth_mean: f64,
    /// From submission to completion, microseconds; 0 without I/Os.
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
        let mut at = |q| quantile_unsorted(latencies, q) as f64 / 1000.0;
        let (p90, p95, p99) = (at(0.9), at(0.95), at(0.99));
        Seen {
            ios: latencies.len() as u64,
            bandwidth_mean: bytes as f64 / seconds,
            latency_mean_us: sum as f64 / count / 1000.0,
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

#[derive(Default)]
struct State {
    next: usize,
    outstanding: BinaryHeap<Reverse<Nanos>>,
    latencies: [Vec<Nanos>; 2],
    bytes: [u64; 2],
    waits: [Cause; 2],
    busy_ns: u128,
}

impl State {
    /// When the next I/O can be submitted: when it arrives, or when a place is free.
    fn due(&mut self, tenant: &Tenant<'_>, now: Nanos) -> Option<Nanos> {
        let record = tenant.records.get(self.next)?;
        let from = record.arrive_ns.max(now);
        while self.outstanding.peek().is_some_and(|Reverse(done)| *done <= from) {
            self.outstanding.pop();
        }
        if self.outstanding.len() < tenant.depth.max(1) {
            return Some(from);
        }
        self.outstanding.peek().map(|Reverse(done)| (*done).max(from))
    }
}

/// Runs the tenants on a preconditioned drive, whose state changes, until `end_ns`. What completes before `warm_ns` is
/// not measured. `None` if `proceed`, which is called every 4,096 I/Os, returns false.
///
/// # Panics
/// With more tenants than [`TENANTS_MAX`].
pub fn colocate(
    drive: &mut Ssd,
    tenants: &[Tenant<'_>],
    warm_ns: Nanos,
    end_ns: Nanos,
    mut proceed: impl FnMut() -> bool,
) -> Option<Vec<Outcome>> {
    assert!(tenants.len() <= TENANTS_MAX, "{} tenants, where {TENANTS_MAX} are allowed", tenants.len());
    let space = drive.capacity_bytes() / TENANTS_MAX as u64 / 4096 * 4096;
    let mut states: Vec<State> = tenants.iter().map(|_| State::default()).collect();
    let mut queue = BinaryHeap::new();
    for (t, (state, tenant)) in states.iter_mut().zip(tenants).enumerate() {
        queue.extend(state.due(tenant, 0).map(|due| Reverse((due, t))));
    }
    let mut count = 0u64;
    while let Some(Reverse((now, t))) = queue.pop() {
        if now >= end_ns {
            break;
        }
        count += 1;
        if count.is_multiple_of(4096) && !proceed() {
            return None;
        }
        let (state, tenant) = (&mut states[t], &tenants[t]);
        let record = &tenant.records[state.next];
        let mut request = record.request();
        request.offset_bytes = request.offset_bytes % space + t as u64 * space;
        let (done, cause) = drive.submit_explained(now, &request);
        state.next += 1;
        state.outstanding.push(Reverse(done));
        state.busy_ns += u128::from(done.min(end_ns).saturating_sub(now.max(warm_ns)));
        if done >= warm_ns && done < end_ns {
            state.latencies[record.op as usize].push(done - now);
            state.bytes[record.op as usize] += u64::from(record.size_bytes);
            state.waits[record.op as usize].merge(&cause);
        }
        queue.extend(state.due(tenant, now).map(|due| Reverse((due, t))));
    }
    let seconds = end_ns.saturating_sub(warm_ns).max(1) as f64 / 1e9;
    let outcome = |state: State| {
        let [mut reads, mut writes] = state.latencies;
        let ([read, written], [read_waits, write_waits]) = (state.bytes, state.waits);
        Outcome {
            ops: [
                Seen::of(&mut reads, read, &read_waits, seconds),
                Seen::of(&mut writes, written, &write_waits, seconds),
            ],
            depth: state.busy_ns as f64 / (seconds * 1e9),
        }
    };
    Some(states.into_iter().map(outcome).collect())
}
