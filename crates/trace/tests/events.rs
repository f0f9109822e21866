// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests event traces: blkparse text and binary blktrace, and events that have no partner.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::common::{Folder, io, refused, temporary};
use linnet_trace::{Options, Trace, read_all, read_files};
use linnet_types::Op::{Read, Write};

const SDB: u32 = 8 << 20 | 16;

fn blkparse(lines: &[&str]) -> Trace {
    let file = temporary("blkparse", (lines.join("\n") + "\n").as_bytes());
    let trace = read_all(file.path(), Options::default()).unwrap();
    assert_eq!(trace.format, "blkparse");
    trace
}

#[test]
fn an_io_arrives_when_it_is_issued() {
    let trace = blkparse(&[
        "  8,16   0        1     0.000000000  4020  Q   R 64 + 8 [java]",
        "  8,16   0        2     0.000001581  4020  G   R 64 + 8 [java]",
        "  8,16   0        3     0.000003650  4020  U   N [java] 1",
        "  8,16   0        4     0.000003858  4020  I  RS 64 + 8 [java]",
        "  8,16   0        5     0.000005462  4020  D  RS 64 + 8 [java]",
        "  8,16   1        1     0.000007000  4020  D  WS 64 + 16 [java]",
        "  8,16   0        6     0.013163464     0  C  RS 64 + 8 [0]",
        "  8,16   1        2     0.000009000     0  C  WS 64 + 16 [0]",
        "CPU0 (sdb):",
        " Reads Queued:           1,        4KiB\t Writes Queued:           1,        8KiB",
    ]);
    // The completion of the read has a later time than the write's, although it comes before it in the file.
    assert_eq!(
        trace.records,
        [io(0, Read, 32_768, 4096, SDB, Some(13_158_002)), io(1538, Write, 32_768, 8192, SDB, Some(2000))]
    );
    assert!(trace.skipped.is_empty() && trace.warnings.is_empty(), "{trace:?}");
    assert_eq!(trace.reordered, 1);
}

#[test]
fn what_does_not_pair_is_counted_and_never_guessed() {
    let trace = blkparse(&[
        "8,0 0 1 0.000001000 1 C R 8 + 8 [0]",       // issued before the trace began
        "8,0 0 2 0.000002000 1 D R 16 + 8 [a]",      // its completion is lost ...
        "8,0 0 3 0.000003000 1 D R 16 + 8 [a]",      // ... because here it is issued again
        "8,0 0 4 0.000004000 1 C R 16 + 8 [0]",      // 1 us
        "8,0 0 5 0.000005000 1 D W 32 + 8 [a]",      // never completes
        "8,0 0 6 0.000006000 1 D R 64 + 8 [a]",      //
        "8,0 0 7 0.000007000 1 C R 64 + 16 [0]",     // another I/O's completion
        "8,0 0 8 0.000008000 1 D R 128 + 16 [a]",    //
        "8,0 0 9 0.000009000 1 C R 128 + 8 [0]",     // first half
        "8,0 0 10 0.000011000 1 C R 136 + 8 [0]",    // second half: 3 us in all
        "8,0 0 11 0.000012000 1 D R 256 + 8 [a]",    //
        "8,0 0 12 0.000013000 1 R R 256 + 8 [0]",    // requeued
        "8,0 0 13 0.000014000 1 D R 256 + 8 [a]",    //
        "8,0 0 14 0.000016000 1 C R 256 + 8 [0]",    // 2 us
        "8,0 0 15 0.000017000 1 D R 512 + 8 [a]",    //
        "8,0 0 16 0.000017000 1 C R 512 + 8 [0]",    // no time has passed
        "8,0 0 17 0.000018000 1 D D 0 + 2048 [a]",   //
        "8,0 0 18 0.000019000 1 C D 0 + 2048 [0]",   // discard
        "8,0 0 19 0.000020000 1 C FN 0 [0]",         // flush
        "8,0 0 20 0.000021000 1 C N 0 [0]",          // neither read nor write: a flush may look like this
        "8,0 0 21 0.000022000 1 C WS 0 [0]",         // no data
        "8,0 0 22 0.000023000 1 C WS 0 (  120) [0]", // the same, with its duration
        "8,0 0 23 0.000024000 1 D R 36 (12 00 00 00 24 ..) [a]", // passthrough
        "8,0 0 24 0.000025000 1 C R (12 00 00 00 24 ..) [0]",
        "8,0 0 25 0.000026000 1 C W [0]", // its bytes were not recorded
    ]);
    let count = |reason: &str| trace.skipped.get(reason).copied().unwrap_or(0);
    assert_eq!(count("completion without issue"), 1);
    assert_eq!(count("no completion (issued again)"), 1);
    assert_eq!(count("no completion"), 1);
    assert_eq!(count("completion larger than issue"), 1);
    assert_eq!(count("no time between issue and completion"), 1);
    assert_eq!((count("requeued"), count("discard"), count("flush"), count("zero size")), (1, 1, 2, 2));
    assert_eq!(count("passthrough command"), 2);
    let latencies: Vec<(u64, Option<u64>)> =
        trace.records.iter().map(|r| (r.offset_bytes / 512, r.latency_ns)).collect();
    assert_eq!(
        latencies,
        [(16, None), (16, Some(1000)), (32, None), (64, None), (128, Some(3000)), (256, Some(2000)), (512, None)]
    );
}

#[test]
fn an_io_that_failed_has_no_latency() {
    let trace = blkparse(&[
        "8,0 0 1 0.000001000 1 D R 8 + 8 [a]",
        "8,0 0 2 0.000002000 0 C R 8 + 8 [65531]", // -EIO, as the kernel stores it
        "8,0 0 3 0.000003000 1 D R 64 + 8 [a]",
        "8,0 0 4 0.000004000 0 C R 64 + 8 (    1000) [-5]", // with its duration
        "8,0 0 5 0.000005000 1 D R 128 + 16 [a]",
        "8,0 0 6 0.000006000 0 C R 128 + 8 [5]", // its first half
        "8,0 0 7 0.000007000 0 C R 136 + 8 [0]",
        "8,0 0 8 0.000008000 1 D R 256 + 8 [a]",
        "8,0 0 9 0.000009000 0 C R 256 + 8 (    1000) [0]",
        "8,0 0 10 0.000010000 1 D R 512 + 8 [a]",
        "8,0 0 11 0.000011000 0 C R 512 + 8 [7 a]", // no number: not the error
        "8,0 0 12 0.000012000 1 D R 1024 + 8 [5]",  // the name of a process
        "8,0 0 13 0.000013000 0 C R 1024 + 8",      // reduced to fewer columns
    ]);
    let latencies: Vec<_> = trace.records.iter().map(|r| (r.offset_bytes / 512, r.latency_ns)).collect();
    let failed = [(8, None), (64, None), (128, None)];
    assert_eq!(latencies, [&failed[..], &[256, 512, 1024].map(|sector| (sector, Some(1000)))].concat());
    assert_eq!(trace.skipped, [("latency of an I/O that failed".to_string(), 3)].into());
}

#[test]
fn a_binary_io_that_failed_has_no_latency() {
    for (big, error) in [(false, 5), (true, 5), (false, 0xfffb), (true, 0xfffb)] {
        let mut failed = event(big, READ | 8, 2000, 8, 4096, b"");
        let bytes = if big { u16::to_be_bytes(error) } else { u16::to_le_bytes(error) };
        failed[44..46].copy_from_slice(&bytes);
        let events = [
            event(big, READ | 7, 1000, 8, 4096, b""),
            failed,
            event(big, READ | 7, 3000, 16, 4096, b""),
            event(big, READ | 8, 5000, 16, 4096, b""),
        ];
        let folder = Folder::new();
        let trace = read_all(&folder.file("sdb.blktrace.0", &events.concat()), Options::default()).unwrap();
        assert_eq!(trace.records, [io(0, Read, 4096, 4096, SDB, None), io(2000, Read, 8192, 4096, SDB, Some(2000))]);
        assert_eq!(trace.skipped, [("latency of an I/O that failed".to_string(), 1)].into());
    }
}

#[test]
fn a_completion_centuries_later_is_refused() {
    let events = [event(false, READ | 7, 1000, 8, 4096, b""), event(false, READ | 8, 1 << 63 | 1001, 8, 4096, b"")];
    let folder = Folder::new();
    let file = folder.file("sdb.blktrace.0", &events.concat());
    let message = read_all(&file, Options::default()).unwrap_err().to_string();
    assert!(message.contains("byte 48: field latency"), "{message}");
}

#[test]
fn a_stacked_device_arrives_at_its_queue_event() {
    let trace = blkparse(&[
        "253,0 0 1 0.000001000 1 Q R 8 + 8 [a]",
        "253,0 0 2 0.000005000 1 C R 8 + 8 [0]",
        "253,0 0 3 0.000006000 1 Q W 64 + 8 [a]",
    ]);
    assert_eq!(trace.records[0].latency_ns, Some(4000));
    assert_eq!(trace.records[1].latency_ns, None);
    assert!(trace.warnings[0].contains("queue event"), "{:?}", trace.warnings);
}

/// Until its first issue event a device counts as stacked; after that its queue events are ignored.
#[test]
fn queue_events_count_until_the_first_issue_event() {
    let trace = blkparse(&[
        "8,0 0 1 0.000001000 1 Q R 8 + 8 [a]",
        "8,0 0 2 0.000002000 1 C R 8 + 8 [0]",
        "8,0 0 3 0.000003000 1 Q R 64 + 8 [a]",
        "8,0 0 4 0.000005000 1 D R 64 + 8 [a]",
        "8,0 0 5 0.000006000 1 C R 64 + 8 [0]",
        "8,0 0 6 0.000007000 1 Q R 128 + 8 [a]",
    ]);
    assert_eq!(
        trace.records,
        [io(0, Read, 4096, 4096, 8 << 20, Some(1000)), io(4000, Read, 32_768, 4096, 8 << 20, Some(1000))]
    );
    assert!(trace.warnings[0].contains("1 I/Os have no issue event"), "{:?}", trace.warnings);
}

#[test]
fn a_bad_event_is_named() {
    let good = "8,0 0 1 0.000001000 1 D R 8 + 8 [a]\n".repeat(30);
    for (line, field) in [
        ("8-0 0 1 0.1 1 D R 8 + 8 [a]", "device"),
        ("8,0 0 1 now 1 D R 8 + 8 [a]", "time"),
        ("8,0 0 1 0.1 1 ? R 8 + 8 [a]", "action"),
        ("8,0 0 1 0.1 1 D R 8 8 [a]", "sectors"),
        ("8,0 0 1 0.1 1 D R 99999999999999999 + 8 [a]", "sector"),
        ("8,0 0 1 0.1 1 D R 8 + 99999999 [a]", "size"),
    ] {
        let message = refused("blkparse", &format!("{good}{line}\n"));
        assert!(message.contains("line 31") && message.contains(field), "{message}");
    }
}

/// One binary event, in either byte order.
fn event(big: bool, action: u32, time: u64, sector: u64, bytes: u32, pdu: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |value: u64, width: usize| {
        let little = value.to_le_bytes();
        let mut part = little[..width].to_vec();
        if big {
            part.reverse();
        }
        out.extend(part);
    };
    for (value, width) in [
        (0x6561_7407, 4),
        (1, 4),
        (time, 8),
        (sector, 8),
        (u64::from(bytes), 4),
        (u64::from(action), 4),
        (77, 4),
        (u64::from(SDB), 4),
        (3, 4),
        (0, 2),
        (pdu.len() as u64, 2),
    ] {
        put(value, width);
    }
    out.extend(pdu);
    out
}

const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FLUSH: u32 = 1 << 18;
const PASSTHROUGH: u32 = 1 << 25;

/// Two streams: issues on one CPU, completions on the other.
fn streams(big: bool) -> [Vec<u8>; 2] {
    let first = [
        event(big, NOTIFY, 10, 0, 0, b"kworker\0"),
        event(big, READ | 7, 1000, 8, 4096, b""),
        event(big, READ | 1, 1500, 64, 4096, b""), // a queue event; this device has issues
        event(big, WRITE | 7 | 0x100, 2000, 8, 8192, &[0; 8]), // with a control-group id
        event(big, WRITE | DISCARD | 7, 2500, 8, 8192, b""),
    ];
    let second = [
        event(big, WRITE | 8, 6000, 8, 8192, b""),
        event(big, READ | 8, 9000, 8, 4096, b""),
        event(big, WRITE | DISCARD | 8, 9500, 8, 8192, b""),
    ];
    [first.concat(), second.concat()]
}

fn assert_paired(trace: &Trace) {
    assert_eq!(trace.format, "blktrace");
    assert_eq!(trace.records, [io(0, Read, 4096, 4096, SDB, Some(8000)), io(1000, Write, 4096, 8192, SDB, Some(4000))]);
    assert_eq!(trace.skipped["notify event"], 1);
    assert_eq!(trace.skipped["discard"], 1);
    assert_eq!(trace.skipped.len(), 2, "{:?}", trace.skipped);
}

#[test]
fn per_cpu_files_are_merged_by_time_in_both_byte_orders() {
    for big in [false, true] {
        let folder = Folder::new();
        let [first, second] = streams(big);
        let a = folder.file("sdb.blktrace.0", &first);
        let b = folder.file("sdb.blktrace.10.zst", &zstd::encode_all(&second[..], 1).unwrap());
        folder.file("readme.txt", b"not a trace");
        assert_paired(&read_all(&a, Options::default()).unwrap());
        assert_paired(&read_all(&b, Options::default()).unwrap());
        assert_paired(&read_all(folder.path(), Options::default()).unwrap());
        assert_paired(&read_files(&[b.clone(), a.clone()], Options::default()).unwrap());
        // Only this file: the issues never complete.
        let alone = read_files(&[a], Options::default()).unwrap();
        assert_eq!(alone.skipped["no completion"], 2);
        // The files of another device are not siblings, but they belong to the directory.
        folder.file("sdc.blktrace.0", &first);
        assert_paired(&read_all(&b, Options::default()).unwrap());
        assert!(read_all(folder.path(), Options::default()).unwrap().skipped["notify event"] == 2);
    }
}

#[test]
fn siblings_are_found_whatever_their_name() {
    let folder = Folder::new();
    for (name, bytes) in [b"\xff.blktrace.0", b"\xff.blktrace.1"].into_iter().zip(streams(false)) {
        std::fs::write(folder.path().join(OsStr::from_bytes(name)), bytes).unwrap();
    }
    assert_paired(&read_all(&folder.path().join(OsStr::from_bytes(b"\xff.blktrace.1")), Options::default()).unwrap());
    assert_paired(&read_all(folder.path(), Options::default()).unwrap());
}

#[test]
fn binary_events_that_are_no_ios_are_counted() {
    let events = [
        event(false, READ | 7, 1000, 8, 4096, b""),
        event(false, READ | 6, 1500, 8, 4096, b""), // requeued
        event(false, READ | 7, 2000, 8, 4096, b""),
        event(false, READ | 8, 3000, 8, 4096, b""),
        event(false, READ | PASSTHROUGH | 8, 4000, 0, 36, b"\x12"),
        event(false, WRITE | FLUSH | 8, 5000, 0, 0, b""),
        event(false, WRITE | 8, 6000, 0, 0, b""),
    ];
    let folder = Folder::new();
    let trace = read_all(&folder.file("sdb.blktrace.0", &events.concat()), Options::default()).unwrap();
    assert_eq!(trace.records, [io(0, Read, 4096, 4096, SDB, Some(1000))]);
    let counted = ["requeued", "passthrough command", "flush", "zero size"];
    assert_eq!(trace.skipped, counted.map(|reason| (reason.to_string(), 1)).into());
}

#[test]
fn damaged_binary_events_are_named_by_byte() {
    let [first, _] = streams(false);
    let message = |bytes: &[u8]| {
        let folder = Folder::new();
        let file = folder.file("sdb.blktrace.0", bytes);
        read_all(&file, Options::format("blktrace")).unwrap_err().to_string()
    };
    let cut = message(&first[..first.len() - 5]);
    assert!(cut.contains("cut off") && cut.contains("byte 208"), "{cut}");
    let mut bad = first.clone();
    bad[58] ^= 0xff;
    assert!(message(&bad).contains("magic word"), "{}", message(&bad));
    let mut old = first.clone();
    old[56] = 6;
    assert!(message(&old).contains("version"), "{}", message(&old));
    assert!(message(b"").contains("no event"));
    let folder = Folder::new();
    let file = folder.file("sdb.blktrace.0", &first[..first.len() - 5]);
    let trace = read_all(&file, Options { lenient: true, ..Options::default() }).unwrap();
    assert_eq!(trace.skipped["truncated"], 1);
    // A payload that is missing altogether.
    let mut without = first.clone();
    without[208 + 46] = 4;
    assert!(message(&without).contains("payload"), "{}", message(&without));
    let file = folder.file("sdb.blktrace.0", &without);
    let trace = read_all(&file, Options { lenient: true, ..Options::default() }).unwrap();
    assert_eq!(trace.skipped["truncated"], 1);
    assert!(read_all(Folder::new().path(), Options::default()).unwrap_err().to_string().contains("X.blktrace.N"));
}

#[test]
fn vscsi_records_of_both_versions() {
    let v1 = |sn: u32, command: u16, bytes: u32, lbn: u64, time: u64| {
        let mut out = Vec::new();
        out.extend(sn.to_le_bytes());
        out.extend(bytes.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend(command.to_le_bytes());
        out.extend(0x0100u16.to_le_bytes());
        out.extend(lbn.to_le_bytes());
        out.extend(time.to_le_bytes());
        out
    };
    let bytes = [v1(1, 0x28, 4096, 8, 100), v1(2, 0x2a, 512, 16, 150), v1(3, 0x35, 0, 0, 160)].concat();
    let file = temporary("vscsi", &bytes);
    let trace = read_all(file.path(), Options::default()).unwrap();
    assert_eq!(trace.format, "vscsi");
    assert_eq!(trace.records, [io(0, Read, 4096, 4096, 0, None), io(50_000, Write, 8192, 512, 0, None)]);
    assert_eq!(trace.skipped["other SCSI command"], 1);
    let cut = temporary("cut", &bytes[..80]);
    let message = read_all(cut.path(), Options::default()).unwrap_err().to_string();
    assert!(message.contains("byte 64") && message.contains("16 of 32"), "{message}");

    let v2 = |command: u16, bytes: u32, lbn: u64, time: u64| {
        let mut out = Vec::new();
        out.extend(command.to_le_bytes());
        out.extend(0x0200u16.to_le_bytes());
        out.extend(7u32.to_le_bytes());
        out.extend(bytes.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend(lbn.to_le_bytes());
        out.extend(time.to_le_bytes());
        out.extend(55u64.to_le_bytes());
        out
    };
    let file = temporary("vscsi2", &[v2(0x28, 4096, 8, 100), v2(0x2a, 512, 16, 150)].concat());
    let trace = read_all(file.path(), Options::default()).unwrap();
    assert_eq!(trace.records[1], io(50_000, Write, 8192, 512, 0, None));
    assert!(trace.warnings[0].contains("response times"), "{:?}", trace.warnings);
}
