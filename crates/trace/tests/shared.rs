// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares real traces with the figures of their README: I/Os, seconds, share of reads, mean sizes, IOPS, latency.

use crate::common::shared_traces;
use linnet_trace::{LatencyUs, Options, TraceStats, open, read_all};

/// Files of the README's tables whose figures are checked, with the format that must be detected. The test reads the
/// figures from the README, so that data and figures change together.
const FILES: &[(&str, &str)] = &[
    ("flashnet-nvme/tencent.cut.per_50k.rw_75_25.379.trace", "flashnet"),
    ("flashnet-nvme/tencent.cut.per_50k.most_rand_iops.537.trace", "flashnet"),
    ("flashnet-nvme/tencent.cut.per_50k.rw_60_40.490.trace", "flashnet"),
    (HADOOP, "blkparse"),
    ("blktrace-nvme-ycsb/sample.blkparse.txt", "blkparse"),
    ("msr/msr.cut.per_10k.most_thpt_rand_iops.1006.first6000.trace", "replay-ms-bytes"),
    ("msr/msr.cut.per_10k.rw_20_80.105.first6000.trace", "replay-ms-bytes"),
    ("msr/msr.cut.per_10k.rw_40_60.1370.first6000.trace", "replay-ms-bytes"),
    ("msprod/msnfs.first90s.trace", "replay-ms-sectors"),
    ("msprod/dtrs.first200s.trace", "replay-us-sectors"),
    ("mqsim/wsrch-small.trace", "mqsim"),
    ("cloudphysics/cloudPhysicsIO.first80000.csv", "cloudphysics"),
    ("disksim-ssd/ssd-postmark-aligned2.trace", "replay-ms-sectors"),
];
const HADOOP: &str = "blktrace-satassd-hadoop/eternity9.sdb.DC.blkparse.txt";

/// The cells of `file`'s row in the README: name, I/Os, seconds, reads in percent, KiB of a read and of a write, IOPS,
/// and latencies for some files.
fn readme_row(file: &str) -> Option<Vec<String>> {
    let readme = std::fs::read_to_string(shared_traces()?.join("README.md")).unwrap();
    let name = format!("| `{file}` |");
    let row = readme.lines().find(|line| line.starts_with(&name)).unwrap_or_else(|| panic!("no row of {file}"));
    Some(row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
}

/// The numbers in a cell, in order; `-` and words are ignored.
fn numbers(cell: &str) -> Vec<f64> {
    cell.split(|c: char| !c.is_ascii_digit() && c != '.').filter_map(|word| word.parse().ok()).collect()
}

/// Checks that a value is within half a unit of the last digit that the README prints.
fn near(file: &str, what: &str, got: f64, printed: f64) {
    let digit = if printed < 1.0 {
        0.005
    } else if printed.fract() == 0.0 && printed >= 13.0 {
        0.5
    } else {
        0.05
    };
    // The README divided its seconds and IOPS after rounding them.
    assert!(
        (got - printed).abs() <= digit * 1.01 || (got / printed - 1.0).abs() < 5e-4,
        "{file}: {what}: {got}, README {printed}"
    );
}

fn stats(file: &str) -> Option<(TraceStats, &'static str)> {
    let trace = read_all(&shared_traces()?.join(format!("{file}.zst")), Options::default()).unwrap();
    Some((trace.stats(), trace.format))
}

#[test]
#[ignore = "slow: make test-slow"]
fn every_row_of_the_readme() {
    for &(file, format) in FILES {
        let (Some((s, detected)), Some(row)) = (stats(file), readme_row(file)) else { return };
        assert_eq!(detected, format, "{file}");
        let ios = numbers(&row[1])[0];
        assert_eq!(s.records as f64, ios, "{file}");
        assert_eq!(s.reads + s.writes, s.records);
        near(file, "seconds", s.duration_s, numbers(&row[2])[0]);
        near(file, "reads", s.reads as f64 * 100.0 / ios, numbers(&row[3])[0]);
        let kib = numbers(&row[4]);
        near(file, "read KiB", s.read_bytes_mean / 1024.0, kib[0]);
        near(file, "write KiB", s.write_bytes_mean / 1024.0, kib.get(1).copied().unwrap_or(0.0));
        near(file, "IOPS", s.iops_mean.unwrap(), numbers(&row[5])[0]);
        assert!(s.iops_max_10s >= s.iops_mean, "{file}");
    }
}

fn latencies(file: &str, what: &str, got: Option<LatencyUs>, printed: &[f64]) {
    let got = got.unwrap();
    for (name, got, &printed) in [
        ("p50", got.p50, &printed[0]),
        ("p90", got.p90, &printed[1]),
        ("p99", got.p99, &printed[2]),
        ("p999", got.p999, &printed[3]),
    ] {
        // Definitions of a quantile differ by one rank, which matters for few I/Os.
        assert!((got / printed - 1.0).abs() < 0.005, "{file}: {what} {name}: {got}, README {printed}");
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn latencies_of_real_drives() {
    for &(file, _) in &FILES[..5] {
        let (Some((s, _)), Some(row)) = (stats(file), readme_row(file)) else { return };
        // "R 1529/3135/5703/9694; W 196/1141/3386/8266", or only reads, with their maximum.
        let printed = numbers(&row[6]);
        latencies(file, "read", s.read_latency_us, &printed[..4]);
        match printed.get(4..8) {
            Some(writes) => latencies(file, "write", s.write_latency_us, writes),
            None => assert!(s.write_latency_us.is_none()),
        }
    }
}

#[test]
fn lost_completions_leave_issues_without_latency() {
    let (Some((s, _)), Some(row)) = (stats(HADOOP), readme_row(HADOOP)) else { return };
    let labelled = s.reads_with_latency + s.writes_with_latency;
    // The README counted pairs before the issues of the last CPUs were added, so it may differ by a few.
    let printed = numbers(&row[1])[1];
    assert!((labelled as f64 / printed - 1.0).abs() < 0.001, "{labelled} labelled, README {printed}");
    let lost = s.skipped["no completion"] + s.skipped["no completion (issued again)"];
    assert_eq!(lost, s.records - labelled);
    assert!(s.skipped["completion without issue"] > 0);
}

#[test]
fn binary_events_agree_with_the_text_made_of_them() {
    let Some(traces) = shared_traces() else { return };
    let raw =
        read_all(&traces.join("blktrace-satassd-hadoop/raw/eternity9/sdb.blktrace.2.zst"), Options::default()).unwrap();
    assert_eq!(raw.format, "blktrace");
    assert!(raw.records.iter().all(|r| r.device == 8 << 20 | 16));
    let text = read_all(&traces.join(format!("{HADOOP}.zst")), Options::default()).unwrap();
    // The issues of four CPUs are part of those of all CPUs; latencies agree if both events are on those four.
    let mut whole: std::collections::HashMap<(u64, u64), Vec<Option<u64>>> = Default::default();
    for r in &text.records {
        whole.entry((r.arrive_ns + text.origin_ns, r.offset_bytes)).or_default().push(r.latency_ns);
    }
    // The clock of the text starts at the first event of all CPUs; the first I/O with latency gives the shift.
    let (mut found, mut agree) = (0, 0);
    let shift = raw.records.iter().find_map(|r| {
        let same = text
            .records
            .iter()
            .filter(|t| t.offset_bytes == r.offset_bytes && t.latency_ns == r.latency_ns && t.op == r.op);
        let mut same = same.filter(|_| r.latency_ns.is_some());
        let t = same.next()?;
        same.next().is_none().then(|| (r.arrive_ns + raw.origin_ns).wrapping_sub(t.arrive_ns + text.origin_ns))
    });
    let shift = shift.expect("an I/O that stands in both");
    for r in raw.records.iter().filter(|r| r.latency_ns.is_some()) {
        if let Some(others) = whole.get(&((r.arrive_ns + raw.origin_ns).wrapping_sub(shift), r.offset_bytes)) {
            found += 1;
            agree += usize::from(others.contains(&r.latency_ns));
        }
    }
    let labelled = raw.records.iter().filter(|r| r.latency_ns.is_some()).count();
    assert!(
        found * 100 >= labelled * 99 && agree * 100 >= found * 99,
        "{labelled} labelled, {found} in the text, {agree} agree"
    );
}

#[test]
fn a_stream_with_wrong_cpu_numbers_is_read() {
    let Some(traces) = shared_traces() else { return };
    let trace = read_all(&traces.join("blktrace-raw-misc/sample.blktrace.0.zst"), Options::default()).unwrap();
    assert_eq!((trace.records.len(), trace.skipped["notify event"]), (963, 2));
    assert!(trace.records.iter().all(|r| r.latency_ns.is_some()));
}

#[test]
fn csv_and_binary_of_cloudphysics_hold_the_same_ios() {
    let Some(traces) = shared_traces() else { return };
    let csv = read_all(&traces.join("cloudphysics/cloudPhysicsIO.first80000.csv.zst"), Options::default()).unwrap();
    let binary = open(&traces.join("cloudphysics/cloudPhysicsIO.first20000.vscsi.zst"), Options::default()).unwrap();
    assert_eq!(binary.format().name, "vscsi");
    let mut count = 0;
    for (record, other) in binary.zip(&csv.records) {
        let record = record.unwrap();
        assert_eq!(
            (record.op, record.offset_bytes, record.size_bytes),
            (other.op, other.offset_bytes, other.size_bytes)
        );
        count += 1;
    }
    assert_eq!(count, 20_000);
}

#[test]
fn what_is_no_trace_is_refused() {
    let Some(traces) = shared_traces() else { return };
    for file in ["perseus-failslow/cluster_A/host_1/2022-07-31.csv.zst", "README.md"] {
        let message = read_all(&traces.join(file), Options::default()).unwrap_err().to_string();
        assert!(message.contains("no known trace format"), "{message}");
    }
}
