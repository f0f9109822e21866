// SPDX-License-Identifier: MIT OR Apache-2.0
//! From file to file in flat memory: the same as reading whole, whatever the order, and nothing is left of a failure.

use std::path::{Path, PathBuf};

use crate::common::{Folder, io};
use linnet_trace::{
    BLOCK_RECORDS, Change, Error, MergedTenants, Options, convert, fold, merge, read_all, read_sample, rerate,
    write_csv,
};
use linnet_types::{IoRecord, Op};

fn write(folder: &Folder, name: &str, records: &[IoRecord]) -> PathBuf {
    let path = folder.path().join(name);
    write_csv(&path, records).unwrap();
    path
}

/// Out of order by more than the buffer of 2^16 records mends.
const FAR: u64 = 70_000;

/// Records of several tenants, one in ten of which comes `disorder` places late.
fn made(n: u64, disorder: u64) -> Vec<IoRecord> {
    let latency = |i: u64| (!i.is_multiple_of(5)).then_some(i % 977 + 1);
    (0..n)
        .map(|i| {
            let at = if i.is_multiple_of(10) { i.saturating_sub(disorder) } else { i };
            let r =
                io(at * 1000, if i.is_multiple_of(3) { Op::Write } else { Op::Read }, i * 4096, 4096, 0, latency(i));
            IoRecord { tenant: (i % 4) as u32, device: (i % 2) as u32, ..r }
        })
        .collect()
}

fn run(from: &[PathBuf], to: &Path, change: Change) -> Result<linnet_trace::Converted, Error> {
    convert(from, to, change, &mut |_| Options::default(), &mut || true)
}

fn records(path: &Path) -> Vec<IoRecord> {
    read_all(path, Options::default()).unwrap().records
}

#[test]
fn a_conversion_is_the_whole_trace_in_order() {
    let folder = Folder::new();
    for (n, disorder, ending) in [(20_000, 0, "parquet"), (20_000, 50, "csv"), (80_000, FAR, "parquet")] {
        let path = write(&folder, "in.csv", &made(n, disorder));
        let out = folder.path().join("out").with_extension(ending);
        let done = run(std::slice::from_ref(&path), &out, Change::None).unwrap();
        assert_eq!((done.records, done.tenants, done.formats.as_slice()), (n, 4, ["workload-csv"].as_slice()));
        assert_eq!(records(&out), records(&path), "{disorder} out of order, to {ending}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
}

#[test]
fn a_fold_takes_the_whole_trace_in_order() {
    let folder = Folder::new();
    for disorder in [0, 50, FAR - 10_000, FAR] {
        let path = write(&folder, "in.csv", &made(80_000, disorder));
        let (all, about) = fold(&path, &mut Options::default, Vec::new, |all, r| all.push(*r)).unwrap();
        assert!(all == records(&path), "{disorder} out of order");
        assert_eq!((about.format, about.skipped.len()), ("workload-csv", 0));
    }
    let path = folder.file("none.csv", b"t_ns,op,offset_bytes,size_bytes\n5,R,0,0\n");
    let none = fold(&path, &mut Options::default, || (), |_, _| ()).unwrap_err().to_string();
    assert!(none.contains("none.csv: the trace holds no I/O") && none.contains("zero size"), "{none}");
}

/// A pipe cannot be read twice, so its records are sorted in runs at once.
#[test]
fn a_fold_takes_a_pipe() {
    let folder = Folder::new();
    let path = write(&folder, "in.csv", &made(2000, 1500));
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (from, to) = (path.clone(), pipe.clone());
    let writer = std::thread::spawn(move || std::fs::write(to, std::fs::read(from).unwrap()).unwrap());
    let (all, _) = fold(&pipe, &mut Options::default, Vec::new, |all, r| all.push(*r)).unwrap();
    writer.join().unwrap();
    assert!(all == records(&path));
}

fn rates_and_merges(n: u64, disorder: u64) {
    let folder = Folder::new();
    let paths = [write(&folder, "a.csv", &made(n, disorder)), write(&folder, "b.csv", &made(19_000, 0))];
    let whole = paths.each_ref().map(|path| records(path));
    let slices = [whole[0].as_slice(), whole[1].as_slice()];
    let out = folder.path().join("out.parquet");
    for (change, tenants) in [(MergedTenants::OneEach, 2), (MergedTenants::Kept, 8)] {
        let done = run(&paths, &out, Change::Merge(change)).unwrap();
        assert_eq!((done.records, done.tenants), (n + 19_000, tenants));
        assert_eq!(records(&out), merge(&slices, change).unwrap());
    }
    run(&paths[..1], &out, Change::Rate(2.0)).unwrap();
    assert_eq!(records(&out), rerate(&whole[0], 2.0).unwrap());
    run(&paths[..1], &out, Change::Rate(1.0)).unwrap();
    assert_eq!(records(&out), whole[0]);
}

#[test]
fn rates_and_merges_are_those_of_whole_traces() {
    rates_and_merges(20_000, 10);
}

#[test]
#[ignore = "slow: make test-slow"]
fn rates_and_merges_sort_what_no_buffer_mends() {
    rates_and_merges(80_000, FAR);
}

#[test]
fn failures_leave_what_was_there() {
    let folder = Folder::new();
    let good = write(&folder, "good.csv", &made(100, 0));
    let bad = folder.file("bad.csv", b"t_ns,op,lba_512,sectors,latency_ns\n5,R,2,8,69802\n6,X,2,8,1\n");
    let out = folder.file("out.csv", b"old");
    let failures = [
        run(&[bad], &out, Change::None),
        run(std::slice::from_ref(&good), &out, Change::Rate(0.0)),
        run(std::slice::from_ref(&good), &out, Change::Rate(1e-300)),
        run(&[good.clone(), good.clone()], &out, Change::None),
        run(&[], &out, Change::None),
    ];
    for failed in failures {
        failed.unwrap_err();
        assert_eq!(std::fs::read(&out).unwrap(), b"old");
    }
    let stopped = write(&folder, "long.csv", &made(70_000, 0));
    let failed = convert(&[stopped], &out, Change::None, &mut |_| Options::default(), &mut || false);
    assert!(matches!(failed, Err(Error::Stopped { .. })));
    assert!(matches!(run(&[good], &folder.path().join("out.txt"), Change::None), Err(Error::Ending { .. })));
    assert_eq!(std::fs::read(&out).unwrap(), b"old");
}

#[test]
fn a_factor_is_refused_by_the_length_of_the_whole_trace() {
    let folder = Folder::new();
    let days = [0, 10, 20, 50].map(|day| io(day * 86_400_000_000_000, Op::Read, 0, 4096, 0, None));
    let path = write(&folder, "in.csv", &days);
    let out = folder.path().join("out.csv");
    // At this factor the third record is too late already; the fourth says what fits.
    let refused = run(std::slice::from_ref(&path), &out, Change::Rate(0.03)).unwrap_err().to_string();
    assert!(refused.contains("at least 0.1250") && !out.exists(), "{refused}");
    run(std::slice::from_ref(&path), &out, Change::Rate(0.125)).unwrap();
    assert_eq!(records(&out).last().unwrap().arrive_ns, linnet_trace::SPAN_MAX_NS);
}

/// The message says that the target is as it was where that is true.
#[test]
fn an_error_of_a_pipe_does_not_say_that_nothing_was_written() {
    let folder = Folder::new();
    let long = write(&folder, "long.csv", &made(70_000, 0));
    let pipe = folder.path().join("pipe.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::io::Read::read(&mut std::fs::File::open(pipe).unwrap(), &mut [0; 100]).unwrap()
    });
    let failed = run(std::slice::from_ref(&long), &pipe, Change::None).unwrap_err();
    assert!(matches!(failed, Error::Write { kept: false, .. }), "{failed}");
    assert!(failed.to_string().contains("Broken pipe") && !failed.to_string().contains("as it was"), "{failed}");
    assert_eq!(reader.join().unwrap(), 100);
    let absent = folder.path().join("no/such/out.csv");
    let failed = run(&[long], &absent, Change::None).unwrap_err().to_string();
    assert!(failed.contains("as it was"), "{failed}");
}

/// Opened a second time, it would wait for another writer.
#[test]
fn parquet_from_a_pipe_is_refused_at_once() {
    let folder = Folder::new();
    let path = folder.path().join("in.parquet");
    run(&[write(&folder, "in.csv", &made(100, 0))], &path, Change::None).unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            // The reader may leave before it has everything.
            let _ = std::fs::copy(path, pipe);
        }
    });
    let refused = linnet_trace::read_all(&pipe, Options::default()).unwrap_err().to_string();
    assert!(refused.contains("comes from a pipe"), "{refused}");
    writer.join().unwrap();
}

#[test]
fn a_log_of_fio_names_devices_as_they_come() {
    let folder = Folder::new();
    let mut made = made(40, 0);
    made[7].arrive_ns += 1;
    let path = write(&folder, "in.csv", &made);
    let out = folder.path().join("out.iolog");
    let done = run(std::slice::from_ref(&path), &out, Change::None).unwrap();
    let lost =
        [("latency_ns not held by iolog", 32), ("tenant not held by iolog", 30), ("arrive_ns cut to whole us", 1)];
    assert_eq!(done.skipped, lost.map(|(reason, records)| (reason.to_string(), records)).into());
    let (read, wanted) = (records(&out), records(&path));
    assert_eq!(read.len(), wanted.len());
    for (read, wanted) in read.iter().zip(&wanted) {
        assert_eq!((read.offset_bytes, read.size_bytes, read.op), (wanted.offset_bytes, wanted.size_bytes, wanted.op));
        assert_eq!(read.arrive_ns / 1000, wanted.arrive_ns / 1000);
    }
    assert!(std::fs::read_to_string(&out).unwrap().contains(" device1 open\n"));
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_sample_is_blocks_of_the_whole() {
    let folder = Folder::new();
    for disorder in [0, FAR] {
        let path = write(&folder, "in.csv", &made(100_000, disorder));
        let whole = records(&path);
        let sampled = |most| read_sample(&path, &mut Options::default, most).unwrap();
        let all = sampled(100_000);
        assert_eq!((all.every, all.total, &all.trace.records), (1, 100_000, &whole));
        for (most, every) in [(99_999, 2), (40_960, 4), (1, 16)] {
            let part = sampled(most);
            let block = BLOCK_RECORDS as usize;
            let wanted: Vec<IoRecord> = whole.chunks(block).step_by(every).flatten().copied().collect();
            assert_eq!((part.every, part.trace.records == wanted), (every as u64, true), "at most {most}");
            assert!(part.trace.records.len() <= block.max(most as usize));
        }
    }
}
