// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains the latencies of a range of requests: sums their waits by mechanism.

use linnet_types::Nanos;

use crate::cause::{Cause, Mechanism};

/// The contribution of one mechanism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Which.
    pub mechanism: Mechanism,
    /// Total time that requests of the range waited for it.
    pub wait_ns: u128,
    /// That time divided by the summed latency of the range.
    pub share_of_latency: f64,
    /// Requests of the range that waited for it.
    pub requests: u64,
    /// Requests of the range for which it was the longest wait.
    pub main_of: u64,
}

/// The waits of the requests between two quantiles of latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// Requests in the range.
    pub requests: u64,
    /// Shortest and longest latency in it.
    pub latency_ns: (Nanos, Nanos),
    /// Mean latency.
    pub latency_ns_mean: f64,
    /// Mean latency without waiting. An idle device takes this and the waits for [`Mechanism::OwnParts`].
    pub service_ns_mean: f64,
    /// The mechanisms with a wait above zero, the longest first.
    pub parts: Vec<Part>,
}

/// Explains the requests whose latency lies between two quantiles, `from` and `to` in 0..=1 (`0.99, 1.0` is the slowest
/// 1 %). `None` if the range holds no request. Accepts answers of both engines.
pub fn breakdown(served: &[(Nanos, Cause)], from: f64, to: f64) -> Option<Breakdown> {
    let mut order: Vec<&(Nanos, Cause)> = served.iter().collect();
    order.sort_by_key(|(latency, _)| *latency);
    let place = |share: f64| (share.clamp(0.0, 1.0) * order.len() as f64).floor() as usize;
    let range = order.get(place(from)..place(to)).filter(|range| !range.is_empty())?;
    let mut waits = [0u128; Mechanism::ALL.len()];
    let mut touched = [0u64; Mechanism::ALL.len()];
    let mut mains = [0u64; Mechanism::ALL.len()];
    let mut latency_sum = 0u128;
    for (latency, cause) in range {
        latency_sum += u128::from(*latency);
        for (mechanism, ns) in cause.parts() {
            waits[mechanism as usize] += u128::from(ns);
            touched[mechanism as usize] += 1;
        }
        if let Some(main) = cause.main_mechanism() {
            mains[main as usize] += 1;
        }
    }
    let count = range.len() as f64;
    let waited: u128 = waits.iter().sum();
    let mut parts: Vec<Part> = Mechanism::ALL
        .into_iter()
        .filter(|&mechanism| waits[mechanism as usize] > 0)
        .map(|mechanism| Part {
            mechanism,
            wait_ns: waits[mechanism as usize],
            share_of_latency: waits[mechanism as usize] as f64 / latency_sum.max(1) as f64,
            requests: touched[mechanism as usize],
            main_of: mains[mechanism as usize],
        })
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.wait_ns));
    Some(Breakdown {
        requests: range.len() as u64,
        latency_ns: (range[0].0, range[range.len() - 1].0),
        latency_ns_mean: latency_sum as f64 / count,
        service_ns_mean: latency_sum.saturating_sub(waited) as f64 / count,
        parts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_half_is_explained_by_what_it_waited_for() {
        let mut slow = Cause::default();
        slow.add(Mechanism::GcWide, 300);
        slow.add(Mechanism::Bus, 100);
        let served = [(100, Cause::default()), (500, slow), (100, Cause::default()), (700, slow)];
        let found = breakdown(&served, 0.5, 1.0).unwrap();
        assert_eq!((found.requests, found.latency_ns), (2, (500, 700)));
        assert_eq!((found.latency_ns_mean, found.service_ns_mean), (600.0, 200.0));
        assert_eq!(found.parts[0].mechanism, Mechanism::GcWide);
        assert_eq!((found.parts[0].wait_ns, found.parts[0].requests, found.parts[0].main_of), (600, 2, 2));
        assert_eq!(found.parts[1].main_of, 0);
        assert!((found.parts[0].share_of_latency - 0.5).abs() < 1e-12);
        assert!(breakdown(&served, 0.0, 0.5).unwrap().parts.is_empty());
        assert!(breakdown(&served, 1.0, 1.0).is_none() && breakdown(&[], 0.0, 1.0).is_none());
        assert!(breakdown(&served, 0.9, 0.1).is_none());
    }
}
