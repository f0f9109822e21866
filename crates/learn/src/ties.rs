// SPDX-License-Identifier: MIT OR Apache-2.0
//! I/Os that arrive at one time.

use linnet_sim::mixed;
use linnet_types::IoRecord;

/// The records by arrival, those of one time in an order that is a hash of `seed` and of their places in `records`,
/// which are sorted by arrival; `None` if no two arrive at one time.
///
/// Recorders list I/Os as they complete. Features count the I/Os that arrived before, so in that order those of one
/// time would tell which of them was slow.
pub fn without_ties(records: &[IoRecord], seed: u64) -> Option<Vec<IoRecord>> {
    if records.is_sorted_by(|a, b| a.arrive_ns < b.arrive_ns) {
        return None;
    }
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_cached_key(|&place| (records[place].arrive_ns, mixed(place as u64, seed)));
    Some(order.into_iter().map(|place| records[place]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_types::Op;

    #[test]
    fn only_the_order_of_those_of_one_time_is_drawn() {
        let record = |i: u64| IoRecord { latency_ns: Some(i), ..IoRecord::new(i / 100, Op::Read, i * 4096, 4096) };
        let records: Vec<IoRecord> = (0..1_000).map(record).collect();
        let drawn = without_ties(&records, 1).unwrap();
        assert!(drawn.is_sorted_by_key(|r| r.arrive_ns));
        let rising = drawn.windows(2).filter(|w| w[0].latency_ns < w[1].latency_ns).count();
        assert!((400..600).contains(&rising), "{rising}");
        assert_ne!(without_ties(&records, 2).unwrap(), drawn);
        let mut back = drawn;
        back.sort_by_key(|r| r.latency_ns);
        assert_eq!(back, records);
    }

    #[test]
    fn without_ties_nothing_moves() {
        let records: Vec<IoRecord> = (0..10).map(|i| IoRecord::new(i, Op::Read, 0, 4096)).collect();
        assert_eq!(without_ties(&records, 0), None);
        assert_eq!(without_ties(&[], 0), None);
    }
}
