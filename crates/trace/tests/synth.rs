// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares synthetic workloads with the columns of LinnOS, Table 1.

use linnet_trace::TraceStats;
use linnet_trace::synth::{Shape, WORKLOADS, Workload, synth};
use linnet_types::IoRecord;

fn within(name: &str, what: &str, got: f64, wanted: f64, tolerance: f64) {
    let off = (got / wanted - 1.0).abs();
    assert!(off <= tolerance, "{name}: {what} is {got}, should be {wanted} within {:.0} %", tolerance * 100.0);
}

/// Arrivals per 100 ms.
fn tenths(records: &[IoRecord], seconds: usize) -> Vec<f64> {
    let mut counts = vec![0.0; seconds * 10];
    for r in records {
        counts[(r.arrive_ns / 100_000_000) as usize] += 1.0;
    }
    counts
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let cov: f64 = a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb)).sum();
    let var = |v: &[f64], m: f64| v.iter().map(|x| (x - m).powi(2)).sum::<f64>();
    cov / (var(a, ma) * var(b, mb)).sqrt()
}

#[test]
#[ignore = "slow: make test-slow"]
fn every_column_of_table_1_is_met() {
    for w in &WORKLOADS {
        let seconds = w.seconds_for_peak().max(60.0);
        for (device, records) in synth(w.name, seconds, 3, 7).unwrap().iter().enumerate() {
            assert!(records.is_sorted_by_key(|r| r.arrive_ns));
            assert!(records.iter().all(|r| r.device as usize == device && r.arrive_ns < (seconds * 1e9) as u64));
            let s = TraceStats::of(records);
            within(w.name, "IOPS", s.records as f64 / seconds, w.iops_mean, 0.01);
            within(w.name, "peak IOPS", s.iops_max_10s.unwrap(), w.iops_max_10s, 0.05);
            within(w.name, "read share", s.reads as f64 / s.records as f64, w.read_share, 0.01);
            within(w.name, "read size", s.read_bytes_mean, w.read_bytes_mean, 0.03);
            within(w.name, "write size", s.write_bytes_mean, w.write_bytes_mean, 0.03);
            assert_eq!(s.read_bytes_max, w.read_bytes_max, "{}", w.name);
            assert_eq!(s.write_bytes_max, w.write_bytes_max, "{}", w.name);
            let unaligned = records.iter().filter(|r| r.offset_bytes % 4096 != 0).count() as f64 / s.records as f64;
            within(w.name, "unaligned share", unaligned, Shape::default().unaligned_share, 0.1);
            assert!(records.iter().all(|r| r.offset_bytes % 512 == 0 && r.size_bytes % 512 == 0 && r.size_bytes > 0));
            let end = records.iter().map(|r| r.offset_bytes + u64::from(r.size_bytes)).max().unwrap();
            assert!(end <= Shape::default().footprint_bytes, "{end}");
        }
    }
}

#[test]
fn slack_is_low_as_in_section_5_1() {
    for w in &WORKLOADS {
        let records = &synth(w.name, w.seconds_for_peak(), 1, 3).unwrap()[0];
        let slack = records.windows(2).filter(|p| p[1].arrive_ns - p[0].arrive_ns > 3_000_000).count();
        let share = slack as f64 / records.len() as f64;
        assert!(share < 0.05, "{}: {share} of the I/Os come after 3 ms of silence", w.name);
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn bursts_of_devices_coincide_as_much_as_asked() {
    let w = Workload::named("bi-c").unwrap();
    let at = |correlation_wanted: f64| {
        let shape = Shape { correlation: correlation_wanted, ..Shape::default() };
        let of_seed = |seed| {
            let devices = w.generate(100.0, 2, &shape, seed).unwrap();
            correlation(&tenths(&devices[0], 100), &tenths(&devices[1], 100))
        };
        (0..8).map(of_seed).sum::<f64>() / 8.0
    };
    let (none, half, high) = (at(0.0), at(0.5), at(0.95));
    assert!(none < half && half < high, "{none} {half} {high}");
    assert!(high > 0.7, "{high}");
}

#[test]
fn a_seed_names_its_records() {
    let a = synth("az-c", 5.0, 2, 1).unwrap();
    assert_eq!(a, synth("az-c", 5.0, 2, 1).unwrap());
    assert_ne!(a, synth("az-c", 5.0, 2, 2).unwrap());
    assert_ne!(a[0], a[1]);
    // A device's records do not depend on the number of devices.
    assert_eq!(a[0], synth("az-c", 5.0, 1, 1).unwrap()[0]);
}

#[test]
fn places_are_skewed() {
    let records = &synth("az-e", 5.0, 1, 9).unwrap()[0];
    let mut extents = std::collections::HashMap::new();
    for r in records {
        *extents.entry(r.offset_bytes >> 20).or_insert(0u32) += 1;
    }
    let mut counts: Vec<u32> = extents.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let popular: u32 = counts.iter().take((16 << 10) / 5).sum();
    let share = f64::from(popular) / records.len() as f64;
    // A power law of skew 3 gives 58 % to the first fifth; sequential runs follow it.
    assert!((0.5..0.75).contains(&share), "{share}");
}

#[test]
fn what_is_out_of_range_is_refused_by_name() {
    let w = Workload::named("co-c").unwrap();
    let refused = |seconds: f64, devices: usize, shape: Shape, word: &str| {
        let error = w.generate(seconds, devices, &shape, 0).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    refused(f64::NAN, 1, Shape::default(), "seconds");
    refused(-1.0, 1, Shape::default(), "seconds");
    refused(1e12, 1, Shape::default(), "seconds");
    refused(10.0, 0, Shape::default(), "devices");
    refused(10.0, 1, Shape { correlation: 1.5, ..Shape::default() }, "correlation");
    refused(10.0, 1, Shape { footprint_bytes: 1 << 20, ..Shape::default() }, "footprint_bytes");
    refused(10.0, 1, Shape { skew: f64::NAN, ..Shape::default() }, "skew");
    assert!(synth("nobody", 1.0, 1, 0).unwrap_err().to_string().contains("az-c"));
    for seconds in [0.02, 0.5, 9.99, 10.0, 10.01, 25.0] {
        let records = &w.generate(seconds, 1, &Shape::default(), 0).unwrap()[0];
        assert_eq!(records.len() as f64, (113.0 * seconds).round(), "{seconds}");
    }
}
