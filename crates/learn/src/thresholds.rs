// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thresholds of a device that policies use in addition to its model.

use linnet_measure::quantile;
use linnet_types::{IoRecord, Nanos, Op, Thresholds};

use crate::inflection::Inflection;
use crate::replay::{Event, in_time_order};

/// The percentile of read latency after which LinnOS+HL hedges: 95, or 100 minus the false submits in percent if that
/// is lower (LinnOS, section 4.4). `false_submit` is a share of all reads, 0..=1.
pub fn hedge_percentile(false_submit: f64) -> f64 {
    (100.0 - 100.0 * false_submit.clamp(0.0, 1.0)).min(95.0)
}

/// Thresholds of one device from its records (those of the training part if there is a test part). Reads and writes
/// without a latency are left out. Queue lengths are those at the arrival of reads: I/Os in flight, reads and writes,
/// without the arriving read itself.
///
/// Without a read that has a latency, every value except the inflection point is 0.
pub fn thresholds(records: &[IoRecord], inflection: &Inflection, false_submit: f64) -> Thresholds {
    let mut latencies: Vec<Nanos> = Vec::new();
    let mut queues: Vec<u64> = Vec::new();
    let mut in_flight = 0u64;
    in_time_order(records, |event| match event {
        Event::Arrive(index) => {
            if let (Op::Read, Some(latency_ns)) = (records[index].op, records[index].latency_ns) {
                latencies.push(latency_ns);
                queues.push(in_flight);
            }
            in_flight += 1;
        }
        Event::Complete(_) => in_flight -= 1,
    });
    latencies.sort_unstable();
    queues.sort_unstable();
    let queue = |percentile: f64| quantile(&queues, percentile / 100.0).min(u64::from(u32::MAX)) as u32;
    Thresholds {
        inflection_ns: inflection.latency_ns,
        latency_ns_p95: quantile(&latencies, 0.95),
        latency_ns_p99: quantile(&latencies, 0.99),
        hedge_ns: quantile(&latencies, hedge_percentile(false_submit) / 100.0),
        queue_inflection: queue(inflection.percentile),
        queue_median: queue(50.0),
        queue_lower_quartile: queue(25.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflection(percentile: f64, latency_ns: Nanos) -> Inflection {
        Inflection {
            percentile,
            latency_ns,
            boost_ns: 0.0,
            start_percentile: percentile,
            start_latency_ns: latency_ns,
            boost: Vec::new(),
        }
    }

    fn io(arrive_ns: Nanos, latency_ns: Option<Nanos>, op: Op) -> IoRecord {
        IoRecord { latency_ns, ..IoRecord::new(arrive_ns, op, 0, 4096) }
    }

    #[test]
    fn hedging_follows_false_submits_below_p95() {
        assert_eq!(hedge_percentile(0.0), 95.0);
        assert_eq!(hedge_percentile(0.05), 95.0);
        assert_eq!(hedge_percentile(0.08), 92.0);
        assert_eq!(hedge_percentile(2.0), 0.0);
    }

    #[test]
    fn a_staircase_of_reads() {
        // 100 reads arrive together, so read i finds i in flight; a write is in flight during all of them; latencies
        // are 1..=100.
        let mut records = vec![io(0, Some(1_000), Op::Write), io(0, None, Op::Write), io(0, None, Op::Read)];
        records.extend((0..100).map(|i| io(1, Some(i + 1), Op::Read)));
        let thresholds = thresholds(&records, &inflection(90.0, 90), 0.08);
        assert_eq!(
            thresholds,
            Thresholds {
                inflection_ns: 90,
                latency_ns_p95: 95,
                latency_ns_p99: 99,
                hedge_ns: 92,
                queue_inflection: 90,
                queue_median: 50,
                queue_lower_quartile: 25,
            }
        );
    }

    #[test]
    fn no_reads() {
        let thresholds = thresholds(&[io(0, Some(9), Op::Write)], &inflection(90.0, 7), 0.0);
        assert_eq!(thresholds, Thresholds { inflection_ns: 7, ..Default::default() });
    }
}
