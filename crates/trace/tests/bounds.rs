// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs that state more than they have, and traces of any length in flat memory.

mod common;

use common::{Folder, io};
use linnet_files::Links;
use linnet_sim::Chance;
use linnet_trace::{AnyWriter, Metadata, Options, ParquetWriter, SPAN_MAX_NS, read_all, read_sample, stat_file};
use linnet_types::{IoRecord, Op};

fn parquet(folder: &Folder, records: &[IoRecord]) -> std::path::PathBuf {
    let path = folder.path().join("made.parquet");
    let mut writer = ParquetWriter::create(&path).unwrap();
    records.iter().for_each(|r| writer.push(r).unwrap());
    writer.finish(&Metadata::default()).unwrap();
    path
}

#[test]
fn a_dictionary_cannot_claim_more_values_than_it_has_bytes() {
    let folder = Folder::new();
    // Of 30,000 offsets in a dictionary, each with 8 bytes, the number has three bytes in the page header.
    let records: Vec<IoRecord> = (0..60_000).map(|i| io(i, Op::Read, i % 30_000 * 4096, 4096, 0, None)).collect();
    let path = parquet(&folder, &records);
    assert_eq!(read_all(&path, Options::default()).unwrap().records.len(), 60_000);
    let mut bytes = std::fs::read(&path).unwrap();
    // The struct of a dictionary's header begins with its number of values: 30,000 as a zigzag number.
    let wanted = [0x4c, 0x15, 0xe0, 0xd4, 0x03];
    let places: Vec<usize> = (0..bytes.len() - 5).filter(|&at| bytes[at..].starts_with(&wanted)).collect();
    assert!(!places.is_empty(), "the writer makes no such dictionary any more");
    for at in places {
        bytes[at + 2..at + 5].copy_from_slice(&[0xfe, 0xff, 0x7f]);
    }
    std::fs::write(&path, bytes).unwrap();
    let refused = read_all(&path, Options::default()).unwrap_err().to_string();
    assert!(refused.contains("a dictionary of 1048575 values in 240000 bytes"), "{refused}");
}

#[test]
fn what_the_readers_refuse_is_not_written() {
    let folder = Folder::new();
    for name in ["a.parquet", "a.csv", "a.iolog"] {
        let path = folder.path().join(name);
        let mut writer = AnyWriter::create(&path, Links::Follow).unwrap();
        // The first record may be any; 400 days are counted from the earliest.
        let good = io(SPAN_MAX_NS / 2, Op::Read, i64::MAX as u64 - 512, 512, 0, Some(i64::MAX as u64));
        writer.push(&good).unwrap();
        writer.push(&IoRecord { arrive_ns: 0, ..good }).unwrap();
        for bad in [
            IoRecord { offset_bytes: i64::MAX as u64 - 511, ..good },
            IoRecord { offset_bytes: u64::MAX, ..good },
            IoRecord { latency_ns: Some(1 << 63), ..good },
            IoRecord { size_bytes: 0, ..good },
            IoRecord { arrive_ns: SPAN_MAX_NS + 1, ..good },
        ] {
            let refused = writer.push(&bad).unwrap_err().to_string();
            assert!(refused.contains("not be read again") || bad.size_bytes == 0, "{refused}");
        }
        writer.push(&IoRecord { arrive_ns: SPAN_MAX_NS, ..good }).unwrap();
        writer.finish(&Metadata::default()).unwrap();
        let arrivals: Vec<u64> =
            read_all(&path, Options::default()).unwrap().records.iter().map(|r| r.arrive_ns).collect();
        assert_eq!(arrivals, [0, SPAN_MAX_NS / 2, SPAN_MAX_NS], "{name}");
    }
}

#[test]
fn streamed_statistics_are_those_of_the_sorted_trace() {
    let folder = Folder::new();
    let mut chance = Chance::new(7);
    let records: Vec<IoRecord> = (0..200_000u64)
        .map(|i| {
            // Up to 10,000 places out of order.
            let arrive = i * 100_000 + chance.below(1_000_000_000);
            let op = if chance.happens(0.3) { Op::Write } else { Op::Read };
            let latency = chance.happens(0.9).then(|| chance.below(1 << 30));
            IoRecord { tenant: chance.below(5) as u32, ..io(arrive, op, i * 4096, 512 + i as u32, 0, latency) }
        })
        .collect();
    let path = parquet(&folder, &records);
    let whole = read_all(&path, Options::default()).unwrap();
    assert!(!records.is_sorted_by_key(|r| r.arrive_ns));
    let found = stat_file(&path, Options::default()).unwrap().expect("within the limits");
    assert_eq!((found.stats, found.format, found.latency_error), (whole.stats(), "parquet", 0.0));
}

#[test]
fn what_is_too_far_out_of_order_is_left_to_the_whole_trace() {
    let folder = Folder::new();
    let records: Vec<IoRecord> = (0..100_000u64).rev().map(|i| io(i * 1000, Op::Read, 0, 4096, 0, None)).collect();
    assert_eq!(stat_file(&parquet(&folder, &records), Options::default()).unwrap(), None);
}

#[test]
fn blank_lines_without_end_are_refused() {
    let folder = Folder::new();
    let path = folder.path().join("blank.csv");
    std::fs::write(&path, "\n".repeat(1_000_001)).unwrap();
    let refused = read_all(&path, Options::format("msr-cambridge")).unwrap_err().to_string();
    assert!(refused.contains("1000000") && refused.contains("limit"), "{refused}");
    std::fs::write(&path, "\n".repeat(1_000_000)).unwrap();
    assert!(read_all(&path, Options::format("msr-cambridge")).unwrap_err().to_string().contains("no I/O"));
}

#[test]
fn a_long_footer_is_refused_before_it_is_read() {
    let folder = Folder::new();
    let path = folder.path().join("footer.parquet");
    let bytes = [b"PAR1".as_slice(), &[0; 100], &((16u32 << 20) + 1).to_le_bytes(), b"PAR1"].concat();
    std::fs::write(&path, bytes).unwrap();
    let refused = read_all(&path, Options::default()).unwrap_err().to_string();
    assert!(refused.contains("a footer of 16777217 bytes; the limit is 16777216"), "{refused}");
}

#[test]
fn a_sample_that_does_not_fit_is_refused() {
    let folder = Folder::new();
    let records: Vec<IoRecord> = (0..40_000).map(|i| io(i, Op::Read, 0, 4096, 0, None)).collect();
    let path = parquet(&folder, &records);
    let mut options = || Options { records_max: Some((9000, "the limit of a test")), ..Options::default() };
    assert_eq!(read_sample(&path, &mut options, 8192).unwrap().every, 8);
    let refused = read_sample(&path, &mut options, 16_384).unwrap_err().to_string();
    assert!(refused.contains("9000 records that fit the limit of a test"), "{refused}");
    let mut none = || Options { records_max: Some((0, "the limit of a test")), ..Options::default() };
    assert!(read_all(&path, none()).unwrap_err().to_string().contains("0 records that fit"));
    assert!(read_sample(&path, &mut none, 8192).is_err());
}

#[test]
fn the_error_names_the_limit_of_memory() {
    let folder = Folder::new();
    let records: Vec<IoRecord> = (0..10).map(|i| io(i, Op::Read, 0, 4096, 0, None)).collect();
    let options = Options { records_max: Some((9, "the limit of a test")), ..Options::default() };
    let refused = read_all(&parquet(&folder, &records), options).unwrap_err().to_string();
    assert!(refused.contains("9 records that fit the limit of a test"), "{refused}");
}

/// Files of 1.4 and 4.8 KB for which the Parquet library allocated 8.5 GB and took 50 s. A test asserts no timing; it
/// does assert that the address space that was reserved stays small.
#[test]
fn files_that_took_gigabytes_are_refused() {
    let shared = std::env::var_os("LINNET_SHARED")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| "../../../shared".into(), std::path::PathBuf::from)
        .join("reference/hardening");
    let files: Vec<_> = std::fs::read_dir(&shared).into_iter().flatten().flatten().map(|e| e.path()).collect();
    let files: Vec<_> = files.into_iter().filter(|p| p.extension().is_some_and(|e| e == "parquet")).collect();
    if files.is_empty() {
        eprintln!("skipped: no Parquet files in {}", shared.display());
        return;
    }
    // A sanitizer reserves terabytes at the start.
    let before = reserved_kib();
    for path in files {
        for lenient in [false, true] {
            assert!(read_all(&path, Options { lenient, ..Options::default() }).is_err(), "{}", path.display());
        }
    }
    let more = reserved_kib() - before;
    assert!(more < 2 << 20, "{more} KiB were reserved");
}

/// The most address space that this process ever had.
fn reserved_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|line| line.strip_prefix("VmPeak:")?.split_whitespace().next()?.parse().ok()).unwrap()
}
