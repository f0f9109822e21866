// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use proptest::prelude::*;

fn io(arrive_ns: Nanos, latency_ns: Option<Nanos>, size_bytes: u32, op: Op) -> IoRecord {
    IoRecord { latency_ns, ..IoRecord::new(arrive_ns, op, 0, size_bytes) }
}

fn read(arrive_us: u64, latency_us: u64) -> IoRecord {
    io(arrive_us * 1000, Some(latency_us * 1000), 4096, Op::Read)
}

#[test]
fn a_row_worked_by_hand() {
    // Four reads, one after the other, then a read of three pages during a write of two pages.
    let mut records = vec![read(0, 80), read(100, 90), read(200, 12_345), read(20_000, 7)];
    records.push(io(30_000_000, Some(50_000), 8192, Op::Write));
    records.push(io(30_000_000, Some(100_000), 12_288, Op::Read));
    records.push(io(30_100_000, Some(100_001), 4096, Op::Read));
    let set = TrainingSet::from_records(&records, 100_000).unwrap();
    assert_eq!(set.len(), 2);
    assert_eq!(set.dropped, Dropped { warm_up: 4, ..Default::default() });
    let digits: String = set.row(0).iter().map(|d| char::from(b'0' + d)).collect();
    assert_eq!(digits, ["001", "001", "001", "001", "005", "0080", "0090", "9999", "0007"].concat());
    // The write and the read of three pages complete when the last read arrives: completions come first.
    let digits: String = set.row(1).iter().map(|d| char::from(b'0' + d)).collect();
    assert_eq!(digits, ["001", "001", "001", "005", "001", "0090", "9999", "0007", "0100"].concat());
    assert_eq!(set.slow, [false, true]);
    assert_eq!(set.latency_ns, [100_000, 100_001]);
    assert_eq!(set.arrive_ns, [30_000_000, 30_100_000]);
}

#[test]
fn ios_without_latency_are_counted_and_not_pending() {
    let mut records: Vec<IoRecord> = (0..6).map(|i| read(i * 1000, 50)).collect();
    let clean = TrainingSet::from_records(&records, 0).unwrap();
    records.insert(0, io(1, None, 1 << 20, Op::Write));
    records.push(io(2, None, 4096, Op::Read));
    records.push(io(3, None, 4096, Op::Read));
    let set = TrainingSet::from_records(&records, 0).unwrap();
    assert_eq!(set.digits, clean.digits);
    assert_eq!(set.dropped, Dropped { warm_up: 4, reads_without_latency: 2, writes_without_latency: 1 });
}

/// spec/decision.md: a latency equal to the inflection point is fast, in every set of rows and after relabelling.
#[test]
fn a_read_that_takes_just_the_inflection_point_is_fast() {
    const INFLECTION_US: u64 = 300;
    let latency_us = [100, 100, 100, 100, INFLECTION_US, INFLECTION_US, 100];
    let mut records: Vec<IoRecord> =
        latency_us.iter().zip(0..).map(|(&latency_us, i)| read(10_000 * i, latency_us)).collect();
    records[5].latency_ns = records[5].latency_ns.map(|ns| ns + 1);
    let inflection_ns = 1000 * INFLECTION_US;
    let mut set = TrainingSet::from_records(&records, inflection_ns).unwrap();
    assert_eq!(set.slow, [false, true, false]);
    set.relabel(inflection_ns + 1);
    assert_eq!(set.slow, [false, false, false]);
    set.relabel(inflection_ns - 1);
    assert_eq!(set.slow, [true, true, false]);
    let inflight_set = crate::InflightSet::from_records(&records, inflection_ns, Default::default()).unwrap();
    assert_eq!(inflight_set.slow[4..], [false, true, false]);
    // The in-flight tracker's time since a slow read: none after the first read, which is fast; known after the second.
    assert_eq!([5, 6].map(|row| inflight_set.features[row][14] == 63), [true, false]);
}

#[test]
fn nothing_to_learn_from_is_an_error() {
    let message = |records: &[IoRecord]| TrainingSet::from_records(records, 0).unwrap_err().to_string();
    assert!(message(&[]).contains("none of 0 records"));
    let without = message(&[io(0, None, 4096, Op::Read), io(0, Some(1), 4096, Op::Write)]);
    assert!(without.contains("none of 2 records") && without.contains("1 reads lack"), "{without}");
    // Too short for a history: no rows, all counted.
    let short = TrainingSet::from_records(&[read(0, 1), read(1, 1)], 0).unwrap();
    assert!(short.is_empty());
    assert_eq!(short.dropped.warm_up, 2);
}

fn traces() -> impl Strategy<Value = Vec<IoRecord>> {
    let one = (0u64..2_000_000, prop::option::weighted(0.9, 0u64..20_000_000), 1u32..100_000, any::<bool>());
    prop::collection::vec(one, 1..120).prop_map(|ios| {
        let op = |is_read| if is_read { Op::Read } else { Op::Write };
        ios.into_iter().map(|(at, latency, size, is_read)| io(at, latency, size, op(is_read))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_read_is_a_row_or_is_counted(records in traces(), inflection_ns in 0u64..20_000_000) {
        let reads = records.iter().filter(|r| r.op.is_read()).count();
        let Ok(set) = TrainingSet::from_records(&records, inflection_ns) else {
            prop_assert!(records.iter().all(|r| !r.op.is_read() || r.latency_ns.is_none()));
            return Ok(());
        };
        let dropped = set.dropped.warm_up + set.dropped.reads_without_latency;
        prop_assert_eq!(set.len() + dropped as usize, reads);
        prop_assert_eq!(set.digits.len(), set.len() * DIGITS);
        prop_assert!(set.digits.iter().all(|&d| d <= 9));
        prop_assert!(set.arrive_ns.is_sorted());
        for i in 0..set.len() {
            prop_assert_eq!(set.slow[i], set.latency_ns[i] > inflection_ns);
            // The I/O itself is among the pending pages.
            prop_assert!(set.row(i)[12..15] != [0, 0, 0]);
        }
    }

    #[test]
    fn input_order_does_not_matter(mut records in traces(), seed: u64) {
        // Distinct arrival times, so that time alone gives the order.
        for (i, record) in records.iter_mut().enumerate() {
            record.arrive_ns = record.arrive_ns * 128 + i as u64;
        }
        let set = TrainingSet::from_records(&records, 1000).ok();
        let mut chance = linnet_sim::Chance::new(seed);
        for i in (1..records.len()).rev() {
            records.swap(i, chance.below(i as u64 + 1) as usize);
        }
        prop_assert_eq!(TrainingSet::from_records(&records, 1000).ok(), set);
    }

    #[test]
    fn splits_keep_order_and_lose_nothing(records in traces(), share in 0.0f64..=1.0) {
        let Ok(set) = TrainingSet::from_records(&records, 1000) else { return Ok(()) };
        let (early, late) = set.split_at_share(share);
        prop_assert_eq!([&early.digits[..], &late.digits[..]].concat(), set.digits.clone());
        prop_assert_eq!([&early.slow[..], &late.slow[..]].concat(), set.slow.clone());
        prop_assert_eq!([&early.latency_ns[..], &late.latency_ns[..]].concat(), set.latency_ns.clone());
        prop_assert!(early.arrive_ns.last() <= late.arrive_ns.first() || late.is_empty());
    }

    #[test]
    fn labels_never_turn_back(records in traces(), a in 0u64..20_000_000, b in 0u64..20_000_000) {
        let Ok(mut set) = TrainingSet::from_records(&records, a.min(b)) else { return Ok(()) };
        let low = set.slow.clone();
        set.relabel(a.max(b));
        prop_assert!(low.iter().zip(&set.slow).all(|(low, high)| low >= high));
    }

    #[test]
    fn thinning_keeps_rows_whole_and_in_order(records in traces(), max_rows in 0usize..200) {
        let Ok(set) = TrainingSet::from_records(&records, 1000) else { return Ok(()) };
        let thin = set.thin(max_rows);
        prop_assert_eq!(thin.len(), max_rows.min(set.len()));
        let mut from = 0;
        for i in 0..thin.len() {
            let same = |k: &usize| set.row(*k) == thin.row(i) && set.latency_ns[*k] == thin.latency_ns[i];
            let found = (from..set.len()).find(same);
            prop_assert!(found.is_some());
            from = found.unwrap() + 1;
        }
    }
}
