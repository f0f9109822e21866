// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests tenants: the versions of the Parquet form, the CSV column, devices as tenants, merging.

use std::path::{Path, PathBuf};

use crate::common::{io, read, refused, temporary};
use linnet_trace::{
    MergedTenants, Metadata, Options, ParquetWriter, TenantFrom, TraceStats, merge, read_all, stat_file,
};
use linnet_types::IoRecord;
use linnet_types::Op::{Read, Write};

fn golden(version: u8) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/version-{version}.parquet"))
}

/// A golden file with another version number.
fn relabelled(version: u8, label: u8) -> Result<Vec<IoRecord>, String> {
    let mut bytes = std::fs::read(golden(version)).unwrap();
    let key = b"linnet.trace.version";
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap() + key.len();
    // A field header and a length of 1 come before the value.
    assert_eq!(bytes[at + 1..at + 3], [1, b'0' + version]);
    bytes[at + 2] = label;
    let file = temporary("relabelled", &bytes);
    read_all(file.path(), Options::default()).map(|trace| trace.records).map_err(|e| e.to_string())
}

/// The records of both golden files, with these tenants.
fn records(tenants: [u32; 4]) -> Vec<IoRecord> {
    let rows = [
        io(0, Read, 0, 4096, 0, Some(90_000)),
        io(500, Write, 1 << 20, 65_536, 7, None),
        io(500, Read, 4096, 512, u32::MAX, Some(81_500)),
        io(8000, Write, 9_223_372_036_854_770_000, 4096, 2, Some(20_000)),
    ];
    rows.iter().zip(tenants).map(|(r, tenant)| IoRecord { tenant, ..*r }).collect()
}

const TENANTS: [u32; 4] = [3, 0, u32::MAX, 3];

/// `LINNET_WRITE_VECTORS=1 cargo test -p linnet-trace --test tests tenants` writes the file of the current version again.
#[test]
fn every_version_of_the_parquet_form_is_read() {
    if std::env::var_os("LINNET_WRITE_VECTORS").is_some() {
        write_golden();
    }
    let of = |version| read_all(&golden(version), Options::default()).unwrap().records;
    assert_eq!(of(1), records([0; 4]));
    assert_eq!(of(2), records(TENANTS));
    // Version 1 ignores a column of this name; in version 2 it may be missing.
    assert_eq!(relabelled(2, b'1').unwrap(), records([0; 4]));
    assert_eq!(relabelled(1, b'2').unwrap(), records([0; 4]));
    let message = relabelled(2, b'3').unwrap_err();
    assert!(message.contains("trace version 3") && message.contains("1 and 2"), "{message}");
}

fn write_golden() {
    let mut writer = ParquetWriter::create(&golden(2)).unwrap();
    records(TENANTS).iter().for_each(|r| writer.push(r).unwrap());
    writer.finish(&Metadata { source_format: "workload-csv".into(), ..Metadata::default() }).unwrap();
}

#[test]
fn workload_csv_may_name_tenants() {
    let rows = "t_ns,tenant,op,offset_bytes,size_bytes\n5,2,R,0,512\n9,4294967295,W,512,512\n";
    let records = read("workload-csv", rows);
    assert_eq!(records.iter().map(|r| r.tenant).collect::<Vec<_>>(), [2, u32::MAX]);
    let message = refused("workload-csv", "t_ns,tenant,op,offset_bytes,size_bytes\n5,4294967296,R,0,512\n");
    assert!(message.contains("line 2") && message.contains("tenant"), "{message}");
    assert!(refused("workload-csv", "t_ns,tenant,op,tenant,lba_512,sectors\n").contains("twice"));
}

#[test]
fn devices_are_tenants_only_when_the_user_says_so() {
    let file = temporary("volumes", b"3,R,0,4096,1577808000000626\n9,W,512,8192,1577808000000700\n");
    let tenants = |tenant_from| {
        let trace = read_all(file.path(), Options { tenant_from, ..Options::default() }).unwrap();
        trace.records.iter().map(|r| (r.device, r.tenant)).collect::<Vec<_>>()
    };
    assert_eq!(tenants(TenantFrom::Trace), [(3, 0), (9, 0)]);
    assert_eq!(tenants(TenantFrom::Device), [(3, 3), (9, 9)]);
}

#[test]
fn merged_traces_keep_every_io_in_order() {
    let of = |tenant, ats: &[u64]| -> Vec<IoRecord> {
        ats.iter().map(|&at| IoRecord { tenant, ..io(at, Read, u64::from(tenant), 4096, 1, Some(at)) }).collect()
    };
    let first = [of(4, &[0, 10]), of(2, &[20])].concat();
    let (second, third) = (of(0, &[0, 10, 15]), of(7, &[30]));
    let all: [&[IoRecord]; 4] = [&first, &second, &[], &third];
    let told = |tenants| {
        let merged = merge(&all, tenants).unwrap();
        assert!(merged.iter().all(|r| r.latency_ns.is_none() && r.device == 1));
        merged.iter().map(|r| (r.arrive_ns, r.tenant, r.offset_bytes)).collect::<Vec<_>>()
    };
    // The offset identifies the trace of a record.
    let expected = [(0, 0, 4), (0, 1, 0), (10, 0, 4), (10, 1, 0), (15, 1, 0), (20, 0, 2), (30, 3, 7)];
    assert_eq!(told(MergedTenants::OneEach), expected);
    // 0 to 4, then 5, then 6 for the empty trace, then 7 to 14.
    let expected = [(0, 4, 4), (0, 5, 0), (10, 4, 4), (10, 5, 0), (15, 5, 0), (20, 2, 2), (30, 14, 7)];
    assert_eq!(told(MergedTenants::Kept), expected);
    let highest = of(u32::MAX, &[0]);
    assert_eq!(merge(&[&highest], MergedTenants::Kept).unwrap()[0].tenant, u32::MAX);
    let message = merge(&[&highest, &first], MergedTenants::Kept).unwrap_err().to_string();
    assert!(message.contains("tenant = 4") && message.contains("2^32"), "{message}");
}

#[test]
fn tenants_and_devices_are_counted() {
    let of = |numbers: &[u32]| {
        let one = |&n: &u32| IoRecord { tenant: n, device: n / 2, ..io(0, Read, 0, 1, 0, None) };
        let stats = TraceStats::of(&numbers.iter().map(one).collect::<Vec<_>>());
        (stats.tenants, stats.devices)
    };
    assert_eq!((of(&[]), of(&[5, 5]), of(&[1, 0, 1, u32::MAX, 0])), ((0, 0), (1, 1), (3, 2)));
}

#[test]
fn one_device_of_a_trace_is_read_alone() {
    let rows = b"3,R,0,4096,1577808000000626\n9,W,512,8192,1577808000000700\n9,R,0,512,1577808000000900\n";
    let file = temporary("one-device", rows);
    let of = |device| Options { device, ..Options::default() };
    let trace = read_all(file.path(), of(Some(9))).unwrap();
    assert_eq!(trace.records, [io(0, Write, 512, 8192, 9, None), io(200_000, Read, 0, 512, 9, None)]);
    assert_eq!(trace.skipped.get("another device"), Some(&1));
    assert!(!read_all(file.path(), of(None)).unwrap().skipped.contains_key("another device"));
    let devices = |device| stat_file(file.path(), of(device)).unwrap().unwrap().stats.devices;
    assert_eq!((devices(None), devices(Some(9))), (2, 1));
    let message = read_all(file.path(), of(Some(4))).unwrap_err().to_string();
    assert!(message.contains("another device") && message.contains('3'), "{message}");
}
