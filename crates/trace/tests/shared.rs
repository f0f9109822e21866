// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real traces, against the figures that their README gives: I/Os, seconds, share of reads, mean sizes, IOPS, latency.

mod common;

use common::shared_traces;
use linnet_trace::{LatencyUs, Options, TraceStats, open, read_all};

/// A row of the README: I/Os, seconds, reads in percent, KiB of a read and a write, IOPS.
type Row = (&'static str, &'static str, u64, f64, f64, f64, f64, f64);

const ROWS: &[Row] = &[
    ("flashnet-nvme/tencent.cut.per_50k.rw_75_25.379.trace.zst", "flashnet", 50_000, 87.0, 75.8, 12.9, 11.3, 575.0),
    (
        "flashnet-nvme/tencent.cut.per_50k.most_rand_iops.537.trace.zst",
        "flashnet",
        50_000,
        54.0,
        82.1,
        8.5,
        11.2,
        926.0,
    ),
    ("flashnet-nvme/tencent.cut.per_50k.rw_60_40.490.trace.zst", "flashnet", 50_000, 147.0, 60.0, 11.6, 12.0, 340.0),
    ("blktrace-satassd-hadoop/eternity9.sdb.DC.blkparse.txt.zst", "blkparse", 105_634, 172.0, 99.2, 288.5, 33.6, 615.0),
    ("blktrace-nvme-ycsb/sample.blkparse.txt.zst", "blkparse", 1_694, 0.68, 100.0, 114.2, 0.0, 2_493.0),
    (
        "msr/msr.cut.per_10k.most_thpt_rand_iops.1006.first6000.trace.zst",
        "replay-ms-bytes",
        6_000,
        0.91,
        72.0,
        4.0,
        55.1,
        6_576.0,
    ),
    ("msr/msr.cut.per_10k.rw_20_80.105.first6000.trace.zst", "replay-ms-bytes", 6_000, 117.9, 28.1, 1.9, 6.4, 51.0),
    ("msr/msr.cut.per_10k.rw_40_60.1370.first6000.trace.zst", "replay-ms-bytes", 6_000, 29.5, 39.4, 4.8, 4.4, 203.0),
    ("msprod/msnfs.first90s.trace.zst", "replay-ms-sectors", 112_886, 90.0, 90.6, 20.8, 9.4, 1_254.0),
    ("msprod/dtrs.first200s.trace.zst", "replay-us-sectors", 73_848, 200.0, 97.6, 56.9, 7.2, 369.0),
    ("mqsim/wsrch-small.trace.zst", "mqsim", 24_783, 60.1, 100.0, 15.1, 8.0, 413.0),
    ("cloudphysics/cloudPhysicsIO.first80000.csv.zst", "cloudphysics", 80_000, 5_634.0, 36.5, 40.4, 35.6, 14.0),
    ("disksim-ssd/ssd-postmark-aligned2.trace.zst", "replay-ms-sectors", 62_257, 490.0, 83.2, 98.8, 833.0, 127.0),
];

/// Half a unit of the last digit that the README prints.
fn near(file: &str, what: &str, got: f64, printed: f64) {
    let digit = if printed < 1.0 {
        0.005
    } else if printed.fract() == 0.0 && printed >= 13.0 {
        0.5
    } else {
        0.05
    };
    // The README's seconds and IOPS were rounded before they were divided.
    assert!(
        (got - printed).abs() <= digit * 1.01 || (got / printed - 1.0).abs() < 5e-4,
        "{file}: {what}: {got}, README {printed}"
    );
}

fn stats(file: &str) -> Option<(TraceStats, &'static str)> {
    let trace = read_all(&shared_traces()?.join(file), Options::default()).unwrap();
    Some((trace.stats(), trace.format))
}

#[test]
fn every_row_of_the_readme() {
    for &(file, format, ios, seconds, read_percent, read_kib, write_kib, iops) in ROWS {
        let Some((s, detected)) = stats(file) else { return };
        assert_eq!(detected, format, "{file}");
        assert_eq!(s.records, ios, "{file}");
        assert_eq!(s.reads + s.writes, ios);
        near(file, "seconds", s.duration_s, seconds);
        near(file, "reads", s.reads as f64 * 100.0 / ios as f64, read_percent);
        near(file, "read KiB", s.read_bytes_mean / 1024.0, read_kib);
        near(file, "write KiB", s.write_bytes_mean / 1024.0, write_kib);
        near(file, "IOPS", s.iops_mean, iops);
        assert!(s.iops_max_10s >= s.iops_mean, "{file}");
    }
}

fn latencies(file: &str, what: &str, got: Option<LatencyUs>, printed: [f64; 4]) {
    let got = got.unwrap();
    for (name, got, printed) in [
        ("p50", got.p50, printed[0]),
        ("p90", got.p90, printed[1]),
        ("p99", got.p99, printed[2]),
        ("p999", got.p999, printed[3]),
    ] {
        // Definitions of a quantile differ by a rank, which shows with few I/Os.
        assert!((got / printed - 1.0).abs() < 0.005, "{file}: {what} {name}: {got}, README {printed}");
    }
}

#[test]
fn latencies_of_real_drives() {
    let rows: [(usize, [f64; 4], [f64; 4]); 4] = [
        (0, [1529.0, 3135.0, 5703.0, 9694.0], [196.0, 1141.0, 3386.0, 8266.0]),
        (1, [1416.0, 3078.0, 4777.0, 8950.0], [171.0, 1137.0, 2768.0, 10_838.0]),
        (2, [1504.0, 2965.0, 5515.0, 11_852.0], [210.0, 1092.0, 2212.0, 3645.0]),
        (3, [3604.0, 11_403.0, 18_479.0, 20_418.0], [1851.0, 6990.0, 13_562.0, 17_559.0]),
    ];
    for (row, reads, writes) in rows {
        let file = ROWS[row].0;
        let Some((s, _)) = stats(file) else { return };
        latencies(file, "read", s.read_latency_us, reads);
        latencies(file, "write", s.write_latency_us, writes);
    }
    let file = ROWS[4].0;
    let Some((s, _)) = stats(file) else { return };
    latencies(file, "read", s.read_latency_us, [141.0, 201.0, 439.0, 2588.0]);
    assert!(s.write_latency_us.is_none());
}

#[test]
fn a_lost_cpu_leaves_a_quarter_without_latency() {
    let Some((s, _)) = stats(ROWS[3].0) else { return };
    assert_eq!(s.reads_with_latency + s.writes_with_latency, 78_772);
    let lost = s.skipped["no completion"] + s.skipped["no completion (issued again)"];
    assert_eq!(lost, 105_634 - 78_772);
    assert!(s.skipped["completion without issue"] > 0);
}

#[test]
fn binary_events_agree_with_the_text_made_of_them() {
    let Some(traces) = shared_traces() else { return };
    let raw =
        read_all(&traces.join("blktrace-satassd-hadoop/raw/eternity9/sdb.blktrace.2.zst"), Options::default()).unwrap();
    assert_eq!(raw.format, "blktrace");
    assert!(raw.records.iter().all(|r| r.device == 8 << 20 | 16));
    let text = read_all(&traces.join(ROWS[3].0), Options::default()).unwrap();
    // Four CPUs' issues are part of all CPUs' issues; the latencies agree wherever both ends lie on those four.
    let mut whole: std::collections::HashMap<(u64, u64), Vec<Option<u64>>> = Default::default();
    for r in &text.records {
        whole.entry((r.arrive_ns + text.origin_ns, r.offset_bytes)).or_default().push(r.latency_ns);
    }
    // The text's clock begins with the first event of all CPUs; find the shift by the first I/O with latency.
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
