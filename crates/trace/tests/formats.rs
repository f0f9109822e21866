// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests every text format, on rows written from the definitions of the formats.

use crate::common;

use crate::common::{io, read, refused, temporary};
use linnet_trace::{FORMATS, Options, detect, format_named, read_all};
use linnet_types::Op::{Read, Write};

#[test]
fn five_columns_in_their_units() {
    let records = read("replay-ms-bytes", "0.000 0 200626176 4096 0\n223.412 3 3159347200 36864 1\n");
    assert_eq!(
        records,
        [io(0, Write, 200_626_176, 4096, 0, None), io(223_412_000, Read, 3_159_347_200, 36_864, 3, None)]
    );
    let records = read("replay-ms-sectors", "0.000 5 10 16 1\n0.221 5 20 8 0\n");
    assert_eq!(records, [io(0, Read, 5120, 8192, 5, None), io(221_000, Write, 10_240, 4096, 5, None)]);
    let records = read("replay-us-sectors", "0 0 10 2 1\n979 0 20 128 1\n");
    assert_eq!(records[1], io(979_000, Read, 10_240, 65_536, 0, None));
    let records = read("disksim", "7961.833 0 8 8 0\n7961.900 1 16 8 3\n");
    assert_eq!(records, [io(0, Write, 4096, 4096, 0, None), io(67_000, Read, 8192, 4096, 1, None)]);
    let records = read("mqsim", "11413000 0 657728 16 1\n11565001 1 31244784 64 0\n");
    assert_eq!(records[1], io(152_001, Write, 31_244_784 * 512, 32_768, 1, None));
}

#[test]
fn traces_with_latency() {
    let records = read("flashnet", "0.000,84,0,4096,90648576,0.101,4096\n0.000,71,1,8192,31408128,0.051,8192\n");
    assert_eq!(
        records,
        [io(0, Read, 31_408_128, 8192, 0, Some(71_000)), io(50_000, Write, 90_648_576, 4096, 0, Some(84_000))]
    );
    let records = read(
        "msr-cambridge",
        "128166372003061629,src1,1,Read,8192,512,12345\n128166372003061639,src1,1,Write,0,4096,100\n",
    );
    assert_eq!(records, [io(0, Read, 8192, 512, 1, Some(1_234_500)), io(1000, Write, 0, 4096, 1, Some(10_000))]);
    let rows = "Timestamp,Response,IOType,LUN,Offset,Size\n1455592511.153034,0.000398,R,4,1024,4096\n1455592511.153035,,W,4,0,512\n";
    let records = read("systor17", rows);
    assert_eq!(records, [io(0, Read, 1024, 4096, 4, Some(398_000)), io(1000, Write, 0, 512, 4, None)]);
    let rows = "t_ns,op,lba_512,sectors,phase,latency_ns\n5,R,2,8,m,69802\n9,W,0,16,p,\n";
    assert_eq!(read("workload-csv", rows), [io(0, Read, 1024, 4096, 0, Some(69_802)), io(4, Write, 0, 8192, 0, None)]);
}

#[test]
fn cloud_traces() {
    let records = read("alibaba", "0,R,126703644672,4096,1577808000000626\n7,W,512,8192,1577808000000700\n");
    assert_eq!(records, [io(0, Read, 126_703_644_672, 4096, 0, None), io(74_000, Write, 512, 8192, 7, None)]);
    let records = read("tencent", "1538323199,10714336,16,0,1063\n1538323200,8,8,1,1063\n");
    assert_eq!(
        records,
        [io(0, Read, 10_714_336 * 512, 8192, 1063, None), io(1_000_000_000, Write, 4096, 4096, 1063, None)]
    );
    let records = read("spc", "0,20941264,8192,W,0.551706,\n1,20939840,4096,r,0.554041\n");
    assert_eq!(
        records,
        [io(0, Write, 20_941_264 * 512, 8192, 0, None), io(2_335_000, Read, 20_939_840 * 512, 4096, 1, None)]
    );
    let records = read("cloudphysics", "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,4096,8\n");
    assert_eq!(records, [io(0, Write, 42_932_745 * 512, 512, 0, None), io(1_000_000_000, Read, 4096, 4096, 0, None)]);
}

#[test]
fn fio_logs() {
    let v3 = "fio version 3 iolog\n2 /dev/a add\n872 /dev/a open\n878 /dev/a write 0 16384\n888 /dev/b read 4096 512\n900 /dev/a trim 0 4096\n901 /dev/a close\n";
    assert_eq!(read("fio-iolog", v3), [io(0, Write, 0, 16_384, 0, None), io(10_000, Read, 4096, 512, 1, None)]);
    let v2 = "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 0 4096\n/dev/a wait 250 0\n/dev/a write 8192 4096\n/dev/a sync 0 0\n/dev/a close\n";
    let path = temporary("v2", v2.as_bytes());
    let trace = read_all(path.path(), Options::default()).unwrap();
    assert_eq!(trace.records, [io(0, Read, 0, 4096, 0, None), io(250_000, Write, 8192, 4096, 0, None)]);
    assert_eq!(trace.skipped["flush"], 1);
}

#[test]
fn other_logs_of_fio_are_named() {
    for rows in ["0, 100000, 0, 4096, 0\n1, 100001, 1, 4096, 8192\n", "500, 31, 0, 0\n1000, 29, 2, 0\n"] {
        let path = temporary("series", rows.as_bytes());
        let message = detect(path.path()).unwrap_err().to_string();
        assert!(message.contains("fio log") && message.contains("--write_iolog"), "{message}");
    }
}

#[test]
fn disks_of_two_hosts_are_two_devices() {
    let row = |host: &str, disk: u32| format!("128166372003061629,{host},{disk},Read,0,4096,100\n");
    let devices = |rows: &[(&str, u32)]| {
        let rows: String = rows.iter().map(|&(host, disk)| row(host, disk)).collect();
        read("msr-cambridge", &rows).iter().map(|record| record.device).collect::<Vec<_>>()
    };
    assert_eq!(devices(&[("usr", 2), ("usr", 0), ("usr", 70_000)]), [2, 0, 70_000], "of one host, as in the file");
    assert_eq!(devices(&[("usr", 0), ("web", 0), ("usr", 1), ("web", 1)]), [0, 1 << 16, 1, 1 << 16 | 1]);
    let clash = row("usr", 1 << 16) + &row("web", 0);
    assert!(refused("msr-cambridge", &clash).contains("line 2: field DiskNumber: `65536`"));
}

#[test]
fn detection_names_what_it_cannot_tell_apart() {
    let ambiguous = |rows: &str, candidates: [&str; 2]| {
        let path = temporary("ambiguous", rows.as_bytes());
        let message = detect(path.path()).unwrap_err().to_string();
        assert!(candidates.iter().all(|c| message.contains(c)) && message.contains("--format"), "{message}");
    };
    // 20,000 units apart: 50 I/Os per second if us, 50,000 if ns.
    ambiguous("0 0 8 8 1\n20000 0 16 9 1\n40000 0 24 8 0\n", ["replay-us-sectors", "mqsim"]);
    // 512 may be bytes or sectors.
    ambiguous("0.000 0 512 512 1\n0.100 0 1024 1024 1\n", ["replay-ms-bytes", "replay-ms-sectors"]);
    let damaged = "0.000 0 512 4096 1\n0.100 0 1024 8192 1\n0.200 0 1025 4096 1\n";
    ambiguous(damaged, ["replay-ms-bytes", "replay-ms-sectors"]);
    ambiguous(&damaged.replace("4096 1", "4096 7"), ["replay-ms-bytes", "replay-ms-sectors"]);
    ambiguous(&damaged.replace("0.", ""), ["replay-ms-bytes", "replay-us-sectors"]);
    // The user's choice decides.
    let path = temporary("override", b"0 0 8 8 1\n20000 0 16 9 1\n");
    assert_eq!(read_all(path.path(), Options::format("mqsim")).unwrap().records[1].arrive_ns, 20_000);
    assert_eq!(read_all(path.path(), Options::format("replay-us-sectors")).unwrap().records[1].arrive_ns, 20_000_000);
    assert!(format_named("floppy").unwrap_err().to_string().contains("msr-cambridge"));
    assert!(FORMATS.iter().all(|f| format_named(f.name).is_ok()));
}

#[test]
fn an_error_names_file_line_field_and_text() {
    let message = refused("alibaba", "0,R,0,4096,1\n0,R,0,forty,2\n0,R,0,4096,3\n");
    for word in [".trace", "line 2", "length", "forty", "alibaba"] {
        assert!(message.contains(word), "{word} is missing in: {message}");
    }
    assert!(refused("spc", "0,1,8192,X,0.5\n").contains("opcode"));
    assert!(refused("msr-cambridge", "99999999999999999999,h,0,Read,0,1,1\n").contains("Timestamp"));
    assert!(refused("replay-ms-bytes", "0.0 0 0 4096 1 9\n").contains("fifth"));
    assert!(refused("replay-ms-bytes", "0.0 0 0 5000000000 1\n0.1 0 0 1 1\n").contains("4 GiB"));
    assert!(refused("alibaba", "0,R,18446744073709551000,4096,1\n0,R,0,1,1\n").contains("8 EiB"));
    assert!(refused("tencent", "1,2\n").contains("missing"));
    assert!(refused("fio-iolog", "fio version 9 iolog\n").contains("header"));
    assert!(refused("workload-csv", "t_ns,op\n1,R\n").contains("lba_512"));
    let path = temporary("op", b"0.0 0 0 8192 1\n0.1 0 0 8192 7\n0.2 0 0 8192 1\n");
    let message = read_all(path.path(), Options::default()).unwrap_err().to_string();
    assert!(message.contains("line 2: field op: `7`"), "{message}");
    assert!(refused("alibaba", "0,R,0,4096,1577808000000626\n0,R,0,4096,5\n").contains("400 days"));
    assert!(refused("alibaba", "0,R,0,4096,0\n0,R,0,4096,34560000000001\n").contains("400 days"));
    assert_eq!(read("alibaba", "0,R,0,4096,0\n0,R,0,4096,34560000000000\n").len(), 2);
}

#[test]
fn the_order_of_a_file_does_not_decide_whether_its_times_are_too_far_apart() {
    let rows = |days: [u64; 3]| days.map(|day| format!("0,R,0,4096,{}\n", day * 86_400_000_000)).concat();
    for days in [[0, 399, 798], [399, 0, 798], [399, 798, 0], [798, 0, 399]] {
        assert!(refused("alibaba", &rows(days)).contains("more than 400 days"), "{days:?}");
    }
    for days in [[0, 399, 400], [399, 0, 400], [400, 399, 0]] {
        assert_eq!(read("alibaba", &rows(days)).len(), 3);
    }
}

#[test]
fn a_latency_that_no_writer_takes_is_refused() {
    let most = i64::MAX as u64;
    let rows = |latency: u64| format!("t_ns,op,lba_512,sectors,latency_ns\n0,R,0,8,{latency}\n5,R,0,8,100\n");
    assert_eq!(read("workload-csv", &rows(most))[0].latency_ns, Some(most));
    for latency in [most + 1, u64::MAX] {
        let message = refused("workload-csv", &rows(latency));
        assert!(message.contains("line 2: field latency") && message.contains(&latency.to_string()), "{message}");
        let file = temporary("latency", rows(latency).as_bytes());
        let trace = read_all(file.path(), Options { lenient: true, ..Options::default() }).unwrap();
        assert_eq!((trace.records.len(), trace.skipped["malformed"]), (1, 1));
    }
    // 2^64 ns and little less, in units of 100 ns.
    let row = "128166372003061629,usr,0,Read,7014609920,24576,184467440737095516\n";
    assert!(refused("msr-cambridge", row).contains("line 1: field latency"));
}

#[test]
fn blank_lines_may_come_before_a_header() {
    for (format, rows) in [
        ("workload-csv", "t_ns,op,lba_512,sectors\n0,R,0,8\n"),
        ("systor17", "Timestamp,Response,IOType,LUN,Offset,Size\n1.0,0.001,R,0,0,4096\n"),
        (
            "msr-cambridge",
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,u,0,Read,0,512,9\n",
        ),
        ("cloudphysics", "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n"),
        ("alibaba", "device_id,opcode,offset,length,timestamp\n0,R,0,4096,1\n"),
        ("fio-iolog", "fio version 3 iolog\n2 /dev/a add\n878 /dev/a write 0 16384\n"),
    ] {
        let whole = read(format, rows);
        for blank in ["\n", "\r\n\n", "\u{feff}\n"] {
            assert_eq!(read(format, &format!("{blank}{rows}")), whole, "{format} after {blank:?}");
        }
    }
    // A second header is a line like any other.
    assert!(refused("alibaba", "device_id,a\ndevice_id,R,0,4096,1\n").contains("line 2"));
}

#[test]
fn what_is_left_out_is_counted() {
    let path = temporary("zero", b"0.000 0 0 4096 1\n0.100 0 0 0 1\n0.050 0 512 512 0\n");
    let trace = read_all(path.path(), Options::format("replay-ms-bytes")).unwrap();
    assert_eq!(trace.skipped["zero size"], 1);
    assert_eq!(trace.records.len(), 2);
    assert_eq!(trace.reordered, 0);
    let path = temporary("reordered", b"0.100 0 0 4096 1\n0.050 0 512 512 0\n0.100 0 8192 512 0\n");
    let trace = read_all(path.path(), Options::format("replay-ms-bytes")).unwrap();
    assert_eq!(trace.reordered, 1);
    assert_eq!(trace.origin_ns, 50_000);
    // Sorting is stable: the two that arrive at 100 us keep their order.
    assert_eq!(trace.records.iter().map(|r| r.offset_bytes).collect::<Vec<_>>(), [512, 0, 8192]);
    let path = temporary("empty", b"0.100 0 0 0 1\n");
    let message = read_all(path.path(), Options::format("replay-ms-bytes")).unwrap_err().to_string();
    assert!(message.contains("zero size"), "{message}");
}

/// Special cases of single formats in the table of spec/trace-record.md: left out, or kept without latency, and
/// counted.
#[test]
fn each_format_counts_what_it_cannot_use() {
    let counted = |format: &str, rows: &str, reason: &str| {
        let path = temporary(format, rows.as_bytes());
        let trace = read_all(path.path(), Options::format(format)).unwrap();
        assert_eq!(trace.skipped, [(reason.to_string(), 1)].into(), "{format}");
        trace.records.iter().map(|record| record.latency_ns).collect::<Vec<_>>()
    };
    let rows = "version,time,op,size,lbn\n1,1,35,0,8\n1,2,28,4096,8\n";
    assert_eq!(counted("cloudphysics", rows, "other SCSI command"), [None]);
    assert_eq!(
        counted("systor17", "1.5,0.000398,,4,1024,4096\n1.6,0.000398,R,4,0,512\n", "no I/O type"),
        [Some(398_000)]
    );
    assert_eq!(counted("systor17", "1.5,,R,4,1024,4096\n", "latency not recorded"), [None]);
    let rows = "0.000,84,1,4096,0,0.101,512\n0.000,84,1,4096,0,0.102,4096\n";
    assert_eq!(counted("flashnet", rows, "latency of an I/O not done in full"), [None, Some(84_000)]);
    let rows = "fio version 3 iolog\n5 /dev/a read 0 512\n6 /dev/a trim 0 4096\n";
    assert_eq!(counted("fio-iolog", rows, "discard"), [None]);
}

/// Streaming returns the records in the order of the file, with the times of the file.
#[test]
fn a_stream_is_neither_sorted_nor_rebased() {
    let path = temporary("stream", b"0,R,0,4096,1577808000000700\n0,R,0,4096,1577808000000626\n");
    let stream = linnet_trace::open(path.path(), Options::default()).unwrap();
    let times: Vec<u64> = stream.map(|record| record.unwrap().arrive_ns).collect();
    assert_eq!(times, [1_577_808_000_000_700_000, 1_577_808_000_000_626_000]);
}

/// A DiskSim trace whose flags are all 0 or 1 is detected as another format that gives the same records.
#[test]
fn disksim_without_other_flags_reads_the_same() {
    let rows = "7961.833 0 8 8 0\n7961.900 1 16 8 1\n";
    let path = temporary("flags", rows.as_bytes());
    assert_eq!(detect(path.path()).unwrap().name, "replay-ms-sectors");
    let as_format = |name| read_all(path.path(), Options::format(name)).unwrap().records;
    assert_eq!(as_format("disksim"), as_format("replay-ms-sectors"));
}

#[test]
fn lenient_reading_leaves_out_and_counts() {
    let rows = b"0,R,0,4096,1\ngarbage\n0,W,512,4096,2\n0,R,0,40".as_slice();
    let path = temporary("lenient", rows);
    assert!(refused("alibaba", std::str::from_utf8(rows).unwrap()).contains("line 2"));
    let lenient = || Options { lenient: true, ..Options::format("alibaba") };
    let trace = read_all(path.path(), lenient()).unwrap();
    assert_eq!((trace.skipped["malformed"], trace.skipped["truncated"], trace.records.len()), (1, 1, 2));
    let message = refused("alibaba", "0,R,0,4096,1\n0,R,0,40");
    assert!(message.contains("line 2") && message.contains("cut off"), "{message}");
    let path = temporary("far", b"0,R,0,4096,1577808000000626\n0,R,0,4096,5\n");
    let trace = read_all(path.path(), lenient()).unwrap();
    assert_eq!((trace.skipped["absurd time"], trace.records.len()), (1, 1));
    // Even then, a file with only invalid lines is refused after a while, and not with the advice to read leniently.
    let path = temporary("hopeless", "x\n".repeat(5000).as_bytes());
    let hopeless = read_all(path.path(), lenient()).unwrap_err().to_string();
    assert!(message.contains("--lenient") && !hopeless.contains("--lenient"), "{hopeless}");
    let path = temporary("header", b"t_ns,op,op\n1,R,R\n");
    let header = read_all(path.path(), Options { lenient: true, ..Options::format("workload-csv") }).unwrap_err();
    assert!(header.to_string().contains("line 1") && !header.to_string().contains("--lenient"), "{header}");
}

#[test]
fn line_ends_and_blank_lines_do_not_matter() {
    let unix = read("alibaba", "0,R,0,4096,1\n\n0,W,512,4096,2\n");
    assert_eq!(unix, read("alibaba", "0,R,0,4096,1\r\n0, W ,512,4096,2"));
}

#[test]
fn progress_is_reported_and_can_stop() {
    let rows: String = (0..200_000).map(|i| format!("0,R,{},4096,{i}\n", i * 4096)).collect();
    let path = temporary("progress", rows.as_bytes());
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let copy = told.clone();
    let tell = move |p: linnet_trace::Progress| {
        copy.lock().unwrap().push(p);
        true
    };
    read_all(path.path(), Options { progress: Some(Box::new(tell)), ..Options::default() }).unwrap();
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 4);
    assert!(told.windows(2).all(|p| p[0].bytes <= p[1].bytes && p[0].records < p[1].records));
    assert_eq!((told[3].bytes, told[3].total_bytes, told[3].records), (rows.len() as u64, rows.len() as u64, 200_000));
    let stop = Options { progress: Some(Box::new(|_| false)), ..Options::default() };
    assert!(read_all(path.path(), stop).unwrap_err().to_string().contains("stopped"));
}

/// Every one of the lines is left out, so that no record comes to ask after.
#[test]
#[ignore = "slow: make test-slow"]
fn a_file_of_nothing_but_skipped_lines_can_be_stopped() {
    let rows = "2 /dev/a sync 0 0\n".repeat(1 << 21);
    let text = format!("fio version 3 iolog\n{rows}2 /dev/a read 0 4096\n");
    assert!(rows.len() > 32 << 20);
    let path = temporary("skipped", text.as_bytes());
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let stop_after = |most: u64| {
        let count = count.clone();
        count.store(0, std::sync::atomic::Ordering::Relaxed);
        let tell = move |_| count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 < most;
        read_all(path.path(), Options { progress: Some(Box::new(tell)), ..Options::default() })
    };
    let trace = stop_after(u64::MAX).unwrap();
    assert_eq!((trace.records.len(), trace.skipped["flush"]), (1, 1 << 21));
    assert!(count.load(std::sync::atomic::Ordering::Relaxed) > 2);
    assert!(matches!(stop_after(1), Err(linnet_trace::Error::Stopped { .. })));
}

#[test]
fn a_trace_larger_than_allowed_is_refused_with_its_name() {
    let path = temporary("large.txt", b"0 0 0 4096 1\n1 0 4096 4096 0\n2 0 8192 4096 1\n");
    let read = |most| {
        let options = Options { records_max: Some((most, "memory")), ..Options::format("replay-ms-bytes") };
        read_all(path.path(), options).map(|trace| trace.records.len())
    };
    assert_eq!(read(3).unwrap(), 3);
    let text = read(2).unwrap_err().to_string();
    assert!(text.contains("more than the 2 records") && text.contains(&path.path().display().to_string()), "{text}");
}

#[test]
fn events_of_the_device_mapper_target() {
    let event = |rest: &str| format!("          <idle>-0       [001] ..s1.  4711.000123: linnet_io: {rest}\n");
    let full = |dev: &str, replica: u32, op: &str, size: u32, arrived: u64, latency: u64, error: i32| {
        event(&format!(
            "dev={dev} id=0x1f replica={replica} leg=259:{replica} op={op} offset=8192 size={size} arrived_ns={arrived} latency_ns={latency} error={error} arrive=1 end=2 probe=0 tracked=1"
        ))
    };
    let text = [
        "# tracer: nop\n#\n".to_string(),
        full("253:0", 0, "read", 4096, 2000, 150_000, 0),
        "  fio-12 [000] .....  4711.1: linnet_decision: dev=253:0 id=0x20 ns=5 sector=1\n".to_string(),
        "CPU:1 [LOST 31 EVENTS]\n".to_string(),
        "CPU:0 [LOST EVENTS]\n".to_string(), // as many as the kernel did not count
        full("253:3", 7, "write", 512, 1000, 90_000, 0),
        full("253:0", 1, "read", 4096, 3000, 10, -5), // failed: its time is no latency
        full("253:0", 1, "write", 0, 3500, 10, 0),    // a flush
    ]
    .concat();
    let file = common::temporary("ftrace", text.as_bytes());
    let trace = read_all(file.path(), Options::default()).unwrap();
    assert_eq!(trace.format, "linnet-ftrace");
    assert_eq!(
        trace.records,
        [
            io(0, Write, 8192, 512, 3 << 4 | 7, Some(90_000)),
            io(1000, Read, 8192, 4096, 0, Some(150_000)),
            io(2000, Read, 8192, 4096, 1, None),
        ]
    );
    assert_eq!(
        trace.skipped,
        [("lost events", 32), ("latency of an I/O that failed", 1), ("zero size", 1)]
            .map(|(k, n)| (k.to_string(), n))
            .into()
    );
    assert_eq!(trace.warnings, ["lost events: the kernel did not say how many 1 times; each counts as one"]);
    for (row, field) in [
        (full("253", 0, "read", 512, 1, 1, 0), "dev"),
        (full("253:0", 16, "read", 512, 1, 1, 0), "replica"),
        (full("253:0", 0, "erase", 512, 1, 1, 0), "op"),
        (event("dev=253:0 replica=0 op=read offset=1 size=512 latency_ns=4 error=0"), "arrived_ns"),
        (event("dev=253:0 nonsense"), "event"),
        ("no event at all\n".to_string(), "line"),
    ] {
        let message = refused("linnet-ftrace", &row);
        assert!(message.contains(field), "{message}");
    }
}
