// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests statistics against values computed by hand, re-rating, and slices.

use crate::common::io;
use linnet_trace::{
    Error, LatencyTarget, SPAN_MAX_NS, TraceStats, latency_distance, rerate, rerate_to_target, scale_sizes,
    slice_by_time,
};
use linnet_types::{IoRecord, Nanos, Op};

const MS: u64 = 1_000_000;

#[test]
fn statistics_by_hand() {
    // One I/O at each of 0, 10, ..., 190 s, and 30 more within 30 ms after the last of them.
    let mut records: Vec<IoRecord> =
        (0..20).map(|i| io(i * 10_000 * MS, Op::Read, 0, 4096, 0, Some((i + 1) * 1000))).collect();
    records.extend((0..30).map(|i| io(190_000 * MS + i * MS, Op::Write, 0, 512 * (i as u32 + 1), 0, None)));
    let s = TraceStats::of(&records);
    assert_eq!((s.records, s.reads, s.writes), (50, 20, 30));
    assert_eq!((s.read_bytes_mean, s.write_bytes_mean), (4096.0, 512.0 * 15.5));
    assert_eq!((s.read_bytes_max, s.write_bytes_max), (4096, 512 * 30));
    assert_eq!(s.duration_s, 190.029);
    assert_eq!(s.iops_mean, Some(50.0 / 190.029));
    // 31 I/Os within 10 s; the one 10 s earlier is not included, because the window is half open.
    assert_eq!(s.iops_max_10s, Some(3.1));
    let l = s.read_latency_us.unwrap();
    // Nearest rank of 1..=20 us.
    assert_eq!((l.p50, l.p90, l.p95, l.p99, l.p999), (10.0, 18.0, 19.0, 20.0, 20.0));
    assert_eq!(s.write_latency_us, None);

    let short = TraceStats::of(&records[40..50]);
    assert_eq!(short.iops_max_10s, short.iops_mean);
    let one = TraceStats::of(&records[..1]);
    assert_eq!((one.records, one.duration_s, one.iops_mean, one.iops_max_10s), (1, 0.0, None, None));
    assert_eq!(TraceStats::of(&[records[0]; 3]).iops_max_10s, None, "three at once");
    // Eleven I/Os at 0, 1, ..., 10 s: a window holds ten of them.
    let steady: Vec<IoRecord> = (0..11).map(|i| io(i * 1000 * MS, Op::Read, 0, 4096, 0, None)).collect();
    let steady = TraceStats::of(&steady);
    assert_eq!((steady.iops_mean, steady.iops_max_10s), (Some(1.1), Some(1.1)));
    assert_eq!(TraceStats::of(&[]), TraceStats::default());
}

#[test]
fn rerating_divides_times_and_drops_latencies() {
    let records = [io(0, Op::Read, 0, 4096, 0, Some(5)), io(1000, Op::Write, 0, 4096, 0, None)];
    let denser = rerate(&records, 4.0).unwrap();
    assert_eq!(denser, [io(0, Op::Read, 0, 4096, 0, None), io(250, Op::Write, 0, 4096, 0, None)]);
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
        assert!(rerate(&records, factor).unwrap_err().to_string().contains("factor"), "{factor}");
    }
}

/// What is longer than [`SPAN_MAX_NS`] is written and never read again.
#[test]
fn a_factor_that_makes_a_trace_too_long_is_refused() {
    let day = 86_400_000 * MS;
    for (days, factor, fits) in
        [(90, 0.1, "0.2250"), (100, 0.24, "0.2500"), (1, 1e-300, "0.002500"), (700, 1.5, "1.750")]
    {
        let records = [io(0, Op::Read, 0, 4096, 0, None), io(days * day, Op::Read, 0, 4096, 0, None)];
        let refused = rerate(&records, factor).unwrap_err().to_string();
        assert!(refused.contains("400 days") && refused.ends_with(&format!("at least {fits}")), "{refused}");
        let longest = rerate(&records, fits.parse().unwrap()).unwrap()[1].arrive_ns;
        assert!((SPAN_MAX_NS / 1000 * 999..=SPAN_MAX_NS).contains(&longest), "{longest}");
    }
    // A search begins at a factor that fits.
    let records = [io(0, Op::Read, 0, 4096, 0, None), io(100 * day, Op::Read, 0, 4096, 0, None)];
    let target = LatencyTarget::of(&[100_000; 10]).unwrap();
    let mut last = Vec::new();
    let mut baseline = |records: &[IoRecord]| {
        last.push(records[1].arrive_ns);
        server(records)
    };
    let found = rerate_to_target(&records, &target, (0.01, 2.0), &mut baseline).unwrap();
    assert!((found.factor - 0.25).abs() < 1e-9, "{}", found.factor);
    assert!(last.iter().all(|&ns| ns <= SPAN_MAX_NS) && !last.is_empty());
    let refused = rerate_to_target(&records, &target, (0.01, 0.2), &mut server).unwrap_err().to_string();
    assert!(refused.contains("at least 0.2500"), "{refused}");
}

#[test]
fn sizes_scale_to_whole_sectors() {
    let records =
        [io(0, Op::Read, 0, 4096, 0, None), io(1, Op::Read, 0, 512, 0, None), io(2, Op::Read, 0, u32::MAX, 0, None)];
    let sizes =
        |factor, most| scale_sizes(&records, factor, most).unwrap().iter().map(|r| r.size_bytes).collect::<Vec<_>>();
    assert_eq!(sizes(2.0, 1 << 20), [8192, 1024, 1 << 20]);
    assert_eq!(sizes(0.1, 1 << 20), [512, 512, 1 << 20]);
    assert!(scale_sizes(&records, 1.0, 100).is_err());
}

#[test]
fn slices_have_equal_time_and_lose_nothing() {
    let records: Vec<IoRecord> = (0..1000u64).map(|i| io(500 + i * i, Op::Read, i * 512, 512, 0, Some(i))).collect();
    for n in [1, 2, 3, 7] {
        let slices = slice_by_time(&records, n);
        assert_eq!(slices.len(), n);
        let together: Vec<u64> = slices.iter().flatten().map(|r| r.offset_bytes).collect();
        assert_eq!(together, records.iter().map(|r| r.offset_bytes).collect::<Vec<_>>());
        let span = 999 * 999 / n as u64 + 2;
        assert!(slices.iter().flatten().all(|r| r.arrive_ns < span && r.latency_ns.is_some()));
    }
    assert_eq!(slice_by_time(&[], 3), vec![Vec::new(); 3]);
    assert_eq!(slice_by_time(&records[..1], 2).iter().map(Vec::len).collect::<Vec<_>>(), [1, 0]);
}

/// A single server that takes 100 us: the textbook device whose latency grows with the rate.
fn server(records: &[IoRecord]) -> Result<Vec<Nanos>, Error> {
    let mut free = 0;
    let answered = records.iter().map(|r| {
        free = r.arrive_ns.max(free) + 100_000;
        free - r.arrive_ns
    });
    Ok(answered.collect())
}

#[test]
fn the_factor_behind_a_target_is_found_again() {
    let mut chance = linnet_sim::Chance::new(4);
    let mut at = 0.0;
    let records: Vec<IoRecord> = (0..20_000)
        .map(|_| {
            at += chance.exponential(1e6);
            io(at as u64, Op::Read, 0, 4096, 0, None)
        })
        .collect();
    for wanted in [3.0, 8.0] {
        let target = LatencyTarget::of(&server(&rerate(&records, wanted).unwrap()).unwrap()).unwrap();
        let found = rerate_to_target(&records, &target, (1.0 / 64.0, 64.0), &mut server).unwrap();
        assert!((found.factor / wanted - 1.0).abs() < 0.02, "{} for {wanted}", found.factor);
        assert!(found.distance < 0.03, "{}", found.distance);
        let again = latency_distance(&server(&found.records).unwrap(), &target).unwrap();
        assert_eq!((found.distance, found.bias), again);
    }
    // A target that is faster than the device: the lowest rate is the best possible, and the bias shows it.
    let target = LatencyTarget::of(&[10_000; 100]).unwrap();
    let found = rerate_to_target(&records, &target, (0.5, 64.0), &mut server).unwrap();
    assert_eq!((found.factor, found.bias > 2.0), (0.5, true));
    assert!(rerate_to_target(&records, &target, (2.0, 1.0), &mut server).is_err());
    assert!(rerate_to_target(&records, &target, (1.0, 2.0), &mut |_| Ok(vec![])).is_err());
    let stopped = || Error::Stopped { path: "made".into() };
    let found = rerate_to_target(&records, &target, (1.0, 2.0), &mut |_| Err(stopped()));
    assert!(matches!(found, Err(Error::Stopped { .. })));
    assert!(LatencyTarget::of(&[]).is_none());
}
