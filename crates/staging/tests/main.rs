// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants on a file. Where the machine has no io_uring, or the file system no direct I/O, tests say so and end.

use std::fs::{File, OpenOptions, read, remove_file};
use std::path::{Path, PathBuf};

use linnet_staging::{Drive, Error, Ran, colocate};
use linnet_tenant::Tenant;
use linnet_types::{IoRecord, Op};

const MS: u64 = 1_000_000;
const SIZE: u64 = 32 << 20;
const PART: usize = 2 << 20;

/// A file of zeros, removed at the end.
struct Staged(PathBuf);

impl Staged {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("staging-{name}-{}", std::process::id()));
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        Staged(path)
    }

    fn drive(&self, writable: bool) -> Option<Drive> {
        match Drive::open(&self.0, writable) {
            Err(Error::Open { source, .. }) if source.raw_os_error() == Some(22) => {
                println!("skipped: no direct I/O in {}", self.0.display());
                None
            }
            drive => Some(drive.unwrap()),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = remove_file(&self.0);
    }
}

/// I/Os every so many nanoseconds for 300 ms.
fn ios(op: Op, every_ns: u64, size_bytes: u32) -> Vec<IoRecord> {
    let at = |n: u64| IoRecord::new(n * every_ns, op, n * 7 * 4096, size_bytes);
    (0..300 * MS / every_ns).map(at).collect()
}

fn run(drive: &Drive, tenants: &[(&[IoRecord], usize)]) -> Result<Option<Ran>, Error> {
    let tenants: Vec<_> = tenants.iter().map(|&(ios, depth)| Tenant { ios, depth }).collect();
    let found = colocate(drive, &tenants, 100 * MS, 200 * MS, || true);
    if let Err(Error::Ring(error)) = &found {
        println!("skipped: {error}");
        return Ok(None);
    }
    found
}

#[test]
fn what_completes_in_the_measured_time_is_counted() {
    let file = Staged::new("counted");
    let Some(drive) = file.drive(true) else { return };
    let (reads, writes) = (ios(Op::Read, MS, 4096), ios(Op::Write, 5 * MS, 8192));
    let Some(ran) = run(&drive, &[(&reads, 8), (&writes, 8), (&[], 1)]).unwrap() else { return };
    let [read, written] = &ran.outcomes[0].ops;
    // 200 arrive; a slow disk delays some to the end, and a busy machine some of the 100 before them into this time.
    assert!((50..=300).contains(&read.ios), "{}", read.ios);
    assert_eq!(read.bandwidth_mean, read.ios as f64 * 4096.0 / 0.2);
    assert!(read.latency_mean_us > 0.0 && read.latency_p99_us >= read.latency_p90_us);
    assert!(written.ios == 0 && written.latency_mean_us.is_nan());
    let written = &ran.outcomes[1].ops[1];
    assert!((1..=60).contains(&written.ios), "{}", written.ios);
    assert!(ran.outcomes[2].is_idle() && ran.late_us_p99 >= 0.0);
}

#[test]
fn writes_stay_in_their_part() {
    let file = Staged::new("parts");
    let Some(drive) = file.drive(true) else { return };
    assert_eq!(drive.part_bytes(), PART as u64);
    // Sizes that are no multiple of the block, and one that would cross the end of the part.
    let mut writes = ios(Op::Write, MS, 5000);
    writes[0].offset_bytes = PART as u64 - 512;
    let Some(_) = run(&drive, &[(&[], 1), (&writes, 4)]).unwrap() else { return };
    let bytes = read(&file.0).unwrap();
    assert!(bytes[..PART].iter().all(|&byte| byte == 0), "the first part belongs to another");
    assert!(bytes[2 * PART..].iter().all(|&byte| byte == 0), "so do the others");
    assert!(bytes[2 * PART - 4096..2 * PART].iter().any(|&byte| byte != 0), "the last block was written");
}

#[test]
fn depth_bounds_what_is_outstanding() {
    let file = Staged::new("depth");
    let Some(drive) = file.drive(false) else { return };
    // All at once: each waits for the one before.
    let burst: Vec<_> = (0..2_000_000).map(|n| IoRecord::new(0, Op::Read, n * 4096, 4096)).collect();
    let Some(ran) = run(&drive, &[(&burst, 1), (&burst, 3)]).unwrap() else { return };
    for (outcome, depth) in ran.outcomes.iter().zip([1.0, 3.0]) {
        assert!(outcome.depth > depth / 2.0 && outcome.depth <= depth, "{} of {depth}", outcome.depth);
    }
}

#[test]
fn a_drive_opened_for_reading_is_not_written() {
    let file = Staged::new("reading");
    let Some(drive) = file.drive(false) else { return };
    let (reads, writes) = (ios(Op::Read, MS, 4096), ios(Op::Write, MS, 4096));
    let refused = run(&drive, &[(&reads, 1), (&writes, 1)]).unwrap_err();
    assert!(matches!(refused, Error::Writes { tenant: 1, .. }), "{refused}");
    assert!(drive.fill(|_, _| true).is_err());
    assert!(read(&file.0).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn impossible_drives_and_ios_are_refused() {
    let file = Staged::new("refused");
    let Some(drive) = file.drive(false) else { return };
    let large = [IoRecord::new(0, Op::Read, 0, PART as u32 + 1)];
    assert!(matches!(run(&drive, &[(&large, 1)]), Err(Error::Large { tenant: 0, .. })));
    let huge = [IoRecord::new(0, Op::Read, 0, u32::MAX)];
    assert!(matches!(run(&drive, &[(&huge, 1)]), Err(Error::Large { .. })));
    assert!(matches!(Drive::open(Path::new("/dev/null"), true), Err(Error::Kind { .. })));
    assert!(matches!(Drive::open(Path::new("/nonexistent"), false), Err(Error::Open { .. })));
    File::create(&file.0).unwrap().set_len(1 << 20).unwrap();
    assert!(matches!(Drive::open(&file.0, false), Err(Error::Small { .. })));
}

#[test]
fn an_io_that_fails_ends_the_run_and_is_told() {
    let file = Staged::new("fails");
    let Some(drive) = file.drive(false) else { return };
    OpenOptions::new().write(true).open(&file.0).unwrap().set_len(0).unwrap();
    let reads = ios(Op::Read, MS, 4096);
    match run(&drive, &[(&reads, 4)]) {
        Ok(None) => {}
        other => assert!(other.unwrap_err().to_string().ends_with("read of 4096 bytes at 0: only 0 bytes")),
    }
}

#[test]
fn the_caller_may_end_a_run_and_filling() {
    let file = Staged::new("ended");
    let Some(drive) = file.drive(true) else { return };
    let reads = ios(Op::Read, MS, 4096);
    let tenants = [Tenant { ios: &reads[..], depth: 4 }];
    match colocate(&drive, &tenants, 0, 3_600_000 * MS, || false) {
        Err(Error::Ring(error)) => println!("skipped: {error}"),
        found => assert!(found.unwrap().is_none()),
    }
    assert!(!drive.fill(|_, _| false).unwrap());
}

#[test]
fn filling_writes_every_page_differently() {
    let file = Staged::new("filled");
    let Some(drive) = file.drive(true) else { return };
    let mut told = Vec::new();
    assert!(
        drive
            .fill(|done, all| {
                told.push((done, all));
                true
            })
            .unwrap()
    );
    assert_eq!(told.last(), Some(&(2 * SIZE, 2 * SIZE)));
    // In order, then each block of the second pass once.
    assert_eq!(told.len() as u64, SIZE / (4 << 20) + SIZE / (64 << 10) + 1);
    let bytes = read(&file.0).unwrap();
    let mut pages: Vec<_> = bytes.chunks_exact(4096).collect();
    // Each begins with its number among those written: the second pass left none of the first.
    let number = |page: &[u8]| u64::from_ne_bytes(page[..8].try_into().unwrap());
    assert!(pages.iter().all(|page| number(page) >= SIZE / 4096));
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len() as u64, SIZE / 4096);
}
