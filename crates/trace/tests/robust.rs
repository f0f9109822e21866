// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests bad input: no reader may panic, hang or use much memory. Also tests that writing and reading change nothing.

use std::io::Write as _;

use crate::common::{Folder, io};
use linnet_trace::{
    Clock, CsvWriter, Error, FORMATS, FioWriter, Metadata, Options, ParquetWriter, Trace, read_all, write_csv,
    write_fio, write_parquet,
};
use linnet_types::{IoRecord, Op};
use proptest::prelude::*;

/// A small valid file of every format.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let folder = Folder::new();
    let path = folder.path().join("t.parquet");
    let records = [io(0, Op::Read, 0, 4096, 0, Some(7)), io(5, Op::Write, 512, 512, 1, None)];
    let mut writer = ParquetWriter::create(&path).unwrap();
    records.iter().for_each(|r| writer.push(r).unwrap());
    writer.finish(&Metadata::default()).unwrap();
    let mut event = [0u8; 48];
    event[..4].copy_from_slice(&0x6561_7407u32.to_le_bytes());
    event[8] = 9;
    event[24..28].copy_from_slice(&4096u32.to_le_bytes());
    event[28..32].copy_from_slice(&(1u32 << 16 | 7).to_le_bytes());
    let mut vscsi = [0u8; 32];
    vscsi[4..8].copy_from_slice(&512u32.to_le_bytes());
    vscsi[12] = 0x28;
    vscsi[15] = 1;
    let text = |rows: &str| rows.repeat(3).into_bytes();
    vec![
        ("parquet", std::fs::read(&path).unwrap()),
        ("replay-ms-bytes", text("0.000 0 200626176 4096 0\n")),
        ("replay-ms-sectors", text("0.221 5 162947904 16 1\n")),
        ("replay-us-sectors", text("979 0 287641400 128 1\n")),
        ("disksim", text("8346.206 0 6397360 496 3\n")),
        ("mqsim", text("11565000 1 31244784 64 1\n")),
        ("flashnet", text("0.000,84,0,4096,90648576,0.101,4096\n")),
        ("cloudphysics", b"version,time,op,size,lbn\n1,5633898,2a,512,42932745\n".to_vec()),
        ("vscsi", vscsi.repeat(3)),
        (
            "blkparse",
            text("8,16 5 6 0.000011560 18046 D RM 488386593 + 1 [a]\n8,16 5 7 0.001740194 0 C RM 488386593 + 1 [0]\n"),
        ),
        ("blktrace", event.repeat(3)),
        ("msr-cambridge", text("128166372003061629,src1,1,Read,8192,512,12345\n")),
        ("alibaba", text("0,R,126703644672,4096,1577808000000626\n")),
        ("tencent", text("1538323199,10714336,16,0,1063\n")),
        ("spc", text("0,20941264,8192,W,0.551706\n")),
        ("systor17", text("1455592511.153034,0.000398,R,4,1024,4096\n")),
        ("fio-iolog", b"fio version 3 iolog\n2 /dev/a add\n878 /dev/a write 0 16384\n".to_vec()),
        ("workload-csv", b"t_ns,op,lba_512,sectors,latency_ns\n5,R,2,8,69802\n9,W,0,16,\n".to_vec()),
        (
            "linnet-ftrace",
            text(
                " fio-7 [001] ..s1. 9.5: linnet_io: dev=253:0 id=0x1 replica=1 leg=259:0 op=read offset=4096 size=512 arrived_ns=9 latency_ns=7 error=0\n",
            ),
        ),
    ]
}

fn attempt(bytes: &[u8], format: Option<&str>, lenient: bool) -> Result<Trace, Error> {
    thread_local! {
        // One folder for all attempts of a test.
        static FOLDER: Folder = Folder::new();
    }
    let path = FOLDER.with(|folder| folder.file("attempt.trace", bytes));
    read_all(&path, Options { format: format.map(str::to_string), lenient, ..Options::default() })
}

#[test]
fn the_seeds_are_valid_and_cover_the_table() {
    let seeds = seeds();
    for format in FORMATS {
        let (name, bytes) = seeds.iter().find(|(name, _)| *name == format.name).expect(format.name);
        let trace = attempt(bytes, Some(name), false).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!trace.records.is_empty(), "{name}");
    }
}

#[test]
fn every_truncation_is_read_or_refused() {
    for (name, bytes) in seeds() {
        let mut refused = 0;
        for length in 0..bytes.len() {
            for lenient in [false, true] {
                match attempt(&bytes[..length], Some(name), lenient) {
                    Ok(trace) => assert!(!trace.records.is_empty(), "{name} cut at {length}"),
                    Err(error) => {
                        refused += 1;
                        assert!(error.to_string().contains("attempt.trace"), "{name} cut at {length}: {error}");
                    }
                }
            }
        }
        assert!(refused > 0, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Random bytes, for detection and for every reader.
    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), lenient: bool) {
        let _ = attempt(&bytes, None, lenient);
        for format in FORMATS {
            let _ = attempt(&bytes, Some(format.name), lenient);
        }
    }

    /// Valid files with a few changed bytes, which get further into a reader.
    #[test]
    fn damaged_files_never_panic(
        which in 0..FORMATS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        lenient: bool,
    ) {
        let (name, mut bytes) = seeds().swap_remove(which);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = attempt(&bytes, Some(name), lenient);
        let _ = attempt(&bytes, None, lenient);
    }

    /// Lines of fields that look like numbers, words and separators.
    #[test]
    fn lines_of_tokens_never_panic(
        tokens in prop::collection::vec(
            prop_oneof![
                Just(","), Just(" "), Just("\n"), Just("R"), Just("W"), Just("D"), Just("C"), Just("8,0"), Just("+"), Just("0"), Just("1"),
                Just("4096"), Just("18446744073709551615"), Just("0.5"), Just("1e-5"), Just("1e300"), Just("-1"), Just("read"), Just("wait"),
                Just("999999999999.999999999"), Just("[x]"), Just("("), Just("tenant")
            ],
            0..120,
        ),
        header in prop::sample::select(vec!["", "fio version 2 iolog\n", "fio version 3 iolog\n", "t_ns,op,lba_512,sectors,latency_ns\n"]),
    ) {
        let text = header.to_string() + &tokens.concat();
        for format in FORMATS {
            let _ = attempt(text.as_bytes(), Some(format.name), false);
        }
    }
}

proptest! {
    // Each case writes three files to disk, which takes time.
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn writing_then_reading_changes_nothing(
        rows in prop::collection::vec(
            (0..1u64 << 50, prop::option::of(0..u64::MAX / 2), 0..1u64 << 60, 1..=u32::MAX, any::<[u32; 2]>(), any::<bool>()),
            1..80,
        )
    ) {
        let mut records: Vec<IoRecord> = rows
            .iter()
            .map(|&(at, latency, offset, size, [device, tenant], read)| {
                let op = if read { Op::Read } else { Op::Write };
                IoRecord { tenant, ..io(at, op, offset, size, device, latency) }
            })
            .collect();
        records.sort_by_key(|r| r.arrive_ns);
        let origin = records[0].arrive_ns;
        records.iter_mut().for_each(|r| r.arrive_ns -= origin);
        let folder = Folder::new();
        let (parquet, csv, fio) = (folder.path().join("a.parquet"), folder.path().join("a.csv"), folder.path().join("a.log"));
        let trace = Trace {
            records: records.clone(),
            source: "x".into(),
            format: "alibaba",
            skipped: [("zero size".to_string(), 3)].into(),
            reordered: 0,
            origin_ns: 0,
            clock: Clock::Shared,
            warnings: vec![],
        };
        write_parquet(&parquet, &trace).unwrap();
        let again = read_all(&parquet, Options::default()).unwrap();
        prop_assert_eq!(&again.records, &records);
        prop_assert_eq!(&again.skipped, &trace.skipped);
        write_csv(&csv, &records).unwrap();
        prop_assert_eq!(&read_all(&csv, Options::default()).unwrap().records, &records);
        // fio has one file per device, whole microseconds, no tenant and no latency.
        let one: Vec<IoRecord> = records.iter().map(|r| IoRecord { device: 0, tenant: 0, ..*r }).collect();
        write_fio(&fio, &one, &["/dev/example".to_string()]).unwrap();
        let expected: Vec<IoRecord> =
            one.iter().map(|r| IoRecord { arrive_ns: r.arrive_ns / 1000 * 1000, latency_ns: None, ..*r }).collect();
        prop_assert_eq!(&read_all(&fio, Options::default()).unwrap().records, &expected);
    }
}

#[test]
fn compressed_files_are_read_whatever_their_name() {
    let rows = b"0,R,0,4096,1\n0,W,512,4096,2\n".repeat(1000);
    let plain = attempt(&rows, None, false).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&rows).unwrap();
    let gz = gz.finish().unwrap();
    let zst = zstd::encode_all(&rows[..], 1).unwrap();
    assert_eq!(attempt(&gz, None, false).unwrap().records, plain.records);
    assert_eq!(attempt(&zst, None, false).unwrap().records, plain.records);
    // Several members, one after the other, as `cat a.gz b.gz` makes them.
    assert_eq!(attempt(&gz.repeat(2), None, false).unwrap().records.len(), 4000);
    assert_eq!(attempt(&zst.repeat(2), None, false).unwrap().records.len(), 4000);
    // A frame to be skipped, with the number of bytes that follow.
    let led = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4], &zst[..]].concat();
    assert_eq!(attempt(&led, None, false).unwrap().records, plain.records);
    for cut in [&gz[..gz.len() - 4], &zst[..zst.len() - 4]] {
        let message = attempt(cut, None, false).unwrap_err().to_string();
        assert!(message.contains("compressed file is cut off"), "{message}");
    }
}

/// With a shorter number at its end, a line that was cut would pass for a record.
#[test]
fn a_compressed_file_that_is_cut_off_keeps_its_whole_lines() {
    let cut = |rows: &[u8]| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        gz.write_all(rows).and_then(|()| gz.flush()).unwrap();
        gz.get_ref().clone()
    };
    let gz = cut(b"t_ns,op,lba_512,sectors,latency_ns\n5,R,2,8,69802\n9,R,2,8,69");
    for format in [None, Some("workload-csv")] {
        let message = attempt(&gz, format, false).unwrap_err().to_string();
        assert!(message.contains("line 3: ") && message.contains("cut off, after 1 records"), "{message}");
        let trace = attempt(&gz, format, true).unwrap();
        assert_eq!(trace.records, [io(0, Op::Read, 1024, 4096, 0, Some(69_802))]);
        assert_eq!(trace.skipped, [("truncated".to_string(), 1)].into());
        assert!(trace.warnings[0].contains("cut off"), "{:?}", trace.warnings);
    }
    let (_, vscsi) = seeds().into_iter().find(|(name, _)| *name == "vscsi").unwrap();
    let message = attempt(&cut(&vscsi[..80]), None, false).unwrap_err().to_string();
    assert!(message.contains("byte 64: ") && message.contains("cut off, after 2 records"), "{message}");
    assert_eq!(attempt(&cut(&vscsi[..80]), None, true).unwrap().skipped, [("truncated".to_string(), 1)].into());
    let message = attempt(&gz[..10], None, false).unwrap_err().to_string();
    assert!(message.contains("cut off before its first record"), "{message}");
}

/// The text seeds whose format is detected, with what they hold.
fn detected() -> Vec<(&'static str, Vec<u8>, Trace)> {
    let text = seeds().into_iter().filter(|(name, _)| !["parquet", "vscsi", "blktrace"].contains(name));
    let read = text.filter_map(|(name, bytes)| attempt(&bytes, None, false).ok().map(|trace| (name, bytes, trace)));
    let found: Vec<_> = read.collect();
    assert_eq!(found.len(), 14, "without replay-us-sectors and mqsim, which three lines do not tell apart");
    found
}

#[test]
fn a_bad_line_is_named_and_does_not_hide_the_format() {
    for (name, bytes, whole) in detected() {
        let second = bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
        let bytes = [&bytes[..second], b"nonsense\n", &bytes[second..]].concat();
        let message = attempt(&bytes, None, false).unwrap_err().to_string();
        assert!(message.contains("line 2: field ") && message.contains(&format!("read as {name}: ")), "{message}");
        let trace = attempt(&bytes, None, true).unwrap();
        assert_eq!(trace.skipped["malformed"], 1, "{name}");
        assert_eq!(trace.records, whole.records, "{name}");
    }
    let message = attempt(b"0,R,0,4096,1\nno\ntrace\n", None, true).unwrap_err().to_string();
    assert!(message.contains("no known trace format") && message.contains("tried were parquet, "), "{message}");
}

#[test]
fn text_of_other_encodings_is_read_or_named() {
    for (name, bytes, whole) in detected() {
        let text = std::str::from_utf8(&bytes).unwrap();
        let marked = format!("\u{feff}{text}");
        let little: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for format in [None, Some(name)] {
            assert_eq!(attempt(marked.as_bytes(), format, false).unwrap().records, whole.records, "{name}");
            for bytes in [&little, &big] {
                let message = attempt(bytes, format, true).unwrap_err().to_string();
                assert!(message.contains("UTF-16"), "{name}: {message}");
            }
        }
    }
}

#[test]
fn empty_garbage_and_endless_lines_are_refused_at_once() {
    let message = |bytes: &[u8]| attempt(bytes, None, false).unwrap_err().to_string();
    assert!(message(b"").contains("empty"));
    assert!(message(b"\n\n \n").contains("blank"));
    let noise: Vec<u8> = (0..100_000u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    assert!(message(&noise).contains("binary content"), "{}", message(&noise));
    // A billion bytes without a line end, in 100 kB: refused after the first 64 KiB.
    let mut endless = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    (0..1000).for_each(|_| endless.write_all(&[b'7'; 1_000_000]).unwrap());
    let endless = endless.finish().unwrap();
    // What this thread computed: on a busy machine the clock goes on while it waits for its turn.
    let computed_ns = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let start_ns = computed_ns();
    for format in FORMATS.iter().filter(|f| !["parquet", "vscsi", "blktrace"].contains(&f.name)) {
        let message = attempt(&endless, Some(format.name), true).unwrap_err().to_string();
        assert!(message.contains("line 1") && message.contains("65536"), "{}: {message}", format.name);
    }
    let took_ns = computed_ns() - start_ns;
    assert!(took_ns < 5_000_000_000, "{took_ns} ns");
    let nowhere = read_all(std::path::Path::new("/nonexistent/trace"), Options::default()).unwrap_err().to_string();
    assert!(nowhere.contains("/nonexistent/trace") && nowhere.contains("cannot open"), "{nowhere}");
}

#[test]
fn nothing_is_left_under_the_name_before_the_end() {
    let folder = Folder::new();
    let path = folder.path().join("out");
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();
    let record = io(0, Op::Read, 0, 4096, 0, None);
    let mut parquet = ParquetWriter::create(&path).unwrap();
    parquet.push(&record).unwrap();
    assert!(
        !path.exists() && entries() <= 1,
        "at most a temporary file where the file system lacks files without names"
    );
    drop(parquet);
    assert_eq!(entries(), 0);
    let mut csv = CsvWriter::create(&path).unwrap();
    csv.push(&record).unwrap();
    drop(csv);
    assert_eq!(entries(), 0);
    // A device without a name stops the fio writer, which leaves no file either.
    let mut fio = FioWriter::create(&path, &["/dev/a".to_string()]).unwrap();
    assert!(fio.push(&io(0, Op::Read, 0, 1, 7, None)).unwrap_err().to_string().contains("device"));
    drop(fio);
    assert_eq!(entries(), 0);
    // An existing file stays until the new one is complete.
    std::fs::write(&path, "old").unwrap();
    drop(CsvWriter::create(&path).unwrap());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    write_csv(&path, &[record]).unwrap();
    assert_eq!(read_all(&path, Options::default()).unwrap().records, [record]);
    let message = write_csv(&folder.path().join("no/such/folder.csv"), &[record]).unwrap_err().to_string();
    assert!(message.contains("no/such/folder.csv") && message.contains("cannot write"), "{message}");
    assert!(write_csv(folder.path(), &[record]).is_err());
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_long_trace_spans_row_groups() {
    let folder = Folder::new();
    let path = folder.path().join("long.parquet");
    let mut writer = ParquetWriter::create(&path).unwrap();
    let make = |i: u64| {
        io(
            i * 10,
            if i.is_multiple_of(3) { Op::Write } else { Op::Read },
            i * 512,
            512,
            0,
            i.is_multiple_of(2).then_some(i),
        )
    };
    const N: u64 = (1 << 20) + 70_000;
    (0..N).for_each(|i| writer.push(&make(i)).unwrap());
    writer.finish(&Metadata { source_format: "test".into(), ..Metadata::default() }).unwrap();
    let stream = linnet_trace::open(&path, Options::default()).unwrap();
    let mut count = 0;
    for (i, record) in stream.enumerate() {
        assert_eq!(record.unwrap(), make(i as u64));
        count += 1;
    }
    assert_eq!(count, N);
}

/// Files that `tests/fuzz` found: the Parquet library panics on them.
#[test]
fn found_files_are_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let message = read_all(&path, Options::default()).unwrap_err().to_string();
        assert!(message.contains("parquet: "), "{message}");
        count += 1;
    }
    assert_eq!(count, 3);
}

/// The test below runs this in a process that may write only 64 KiB to a file, as on a full disk. Elsewhere there is no
/// folder, and nothing to do.
#[test]
fn writer_on_a_full_disk() {
    let Some(folder) = std::env::var_os("LINNET_TEST_FOLDER").map(std::path::PathBuf::from) else { return };
    let mut chance = linnet_sim::Chance::new(1);
    let records: Vec<IoRecord> =
        (0..50_000).map(|_| io(chance.bits() >> 20, Op::Read, chance.bits() >> 20, 512, 0, None)).collect();
    let trace = Trace {
        records: records.clone(),
        source: "x".into(),
        format: "alibaba",
        skipped: Default::default(),
        reordered: 0,
        origin_ns: 0,
        clock: Clock::Shared,
        warnings: vec![],
    };
    let results = [
        write_parquet(&folder.join("a.parquet"), &trace),
        write_csv(&folder.join("a.csv"), &records),
        write_fio(&folder.join("a.log"), &records, &["f".into()]),
    ];
    for (result, name) in results.into_iter().zip(["a.parquet", "a.csv", "a.log"]) {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("cannot write"), "{message}");
    }
    println!("all writers were tried");
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let folder = Folder::new();
    let script = "trap '' XFSZ; ulimit -f 128; exec \"$0\" --exact robust::writer_on_a_full_disk --nocapture";
    let child = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("LINNET_TEST_FOLDER", folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("1 passed") && said.contains("all writers were tried"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
