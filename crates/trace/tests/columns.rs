// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests Parquet tables of other tools, whose columns have other integers than ours.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{Folder, io};
use linnet_trace::{Change, Error, MergedTenants, Options, convert, read_all};
use linnet_types::{IoRecord, Op};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const NAMES: [&str; 7] = ["arrive_ns", "op", "offset_bytes", "size_bytes", "device", "latency_ns", "tenant"];

/// The types of a column: bits, and what the file says of them.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain32,
    Plain64,
    Signed32,
    Signed64,
    Unsigned32,
    Unsigned64,
    Converted32,
    Converted64,
}

impl Kind {
    fn is_wide(self) -> bool {
        matches!(self, Kind::Plain64 | Kind::Signed64 | Kind::Unsigned64 | Kind::Converted64)
    }

    fn text(self) -> (&'static str, &'static str) {
        match self {
            Kind::Plain32 => ("int32", ""),
            Kind::Plain64 => ("int64", ""),
            Kind::Signed32 => ("int32", " (integer(32,true))"),
            Kind::Signed64 => ("int64", " (integer(64,true))"),
            Kind::Unsigned32 => ("int32", " (integer(32,false))"),
            Kind::Unsigned64 => ("int64", " (integer(64,false))"),
            Kind::Converted32 => ("int32", " (uint_32)"),
            Kind::Converted64 => ("int64", " (uint_64)"),
        }
    }
}

/// A table of these rows, whose columns are all of one kind; an unsigned value is its bits.
fn table(folder: &Folder, kind: Kind, rows: &[[i64; 7]]) -> PathBuf {
    counted_table(folder, kind, rows, &[])
}

/// The same, with counts of what was left out when the file was written.
fn counted_table(folder: &Folder, kind: Kind, rows: &[[i64; 7]], skipped: &[(&str, u64)]) -> PathBuf {
    let path = folder.path().join("t.parquet");
    let (physical, logical) = kind.text();
    let columns: String = NAMES.iter().map(|name| format!("required {physical} {name}{logical};")).collect();
    let schema = Arc::new(parse_message_type(&format!("message trace {{ {columns} }}")).unwrap());
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for at in 0..NAMES.len() {
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<i64> = rows.iter().map(|row| row[at]).collect();
        if kind.is_wide() {
            column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
        } else {
            let values: Vec<i32> = values.iter().map(|&v| v as i32).collect();
            column.typed::<Int32Type>().write_batch(&values, None, None).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    for (reason, count) in skipped {
        let key = format!("linnet.trace.skipped.{reason}");
        writer.append_key_value_metadata(KeyValue::new(key, count.to_string()));
    }
    writer.close().unwrap();
    path
}

/// What is said of a table without rows in which this column has another type.
fn refused_as(folder: &Folder, name: &str, column: &str) -> String {
    let others = NAMES.iter().filter(|&&other| other != name).map(|other| format!("required int64 {other};"));
    let schema = format!("message trace {{ {} {column} }}", others.collect::<String>());
    let path = folder.path().join("empty.parquet");
    let file = std::fs::File::create(&path).unwrap();
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::builder().build())).unwrap().close().unwrap();
    read(&path).unwrap_err().to_string()
}

#[test]
fn a_column_that_is_nested_or_no_plain_integer_is_refused_with_its_name() {
    let folder = Folder::new();
    for name in NAMES {
        for (column, found) in [
            (format!("required group {name} {{ required int64 v; }}"), "a nested column"),
            (format!("optional group {name} {{ optional group a {{ optional int64 b; }} }}"), "a nested column"),
            (
                format!("optional group {name} (list) {{ repeated group list {{ optional int64 element; }} }}"),
                "a nested column",
            ),
            (format!("repeated int64 {name};"), "a nested column"),
            (format!("required float {name};"), "FLOAT"),
            (format!("required binary {name} (string);"), "BYTE_ARRAY"),
            (format!("required int64 {name} (decimal(9,2));"), "INT64 of Decimal"),
            (format!("required int32 {name} (date);"), "INT32 of Date"),
            (format!("required int32 {name} (time_millis);"), "INT32 of TIME_MILLIS"),
            (format!("required int64 {name} (timestamp(micros,true));"), "INT64 of Timestamp"),
            (format!("required int64 {name} (timestamp(nanos,false));"), "INT64 of Timestamp"),
        ] {
            let refused = refused_as(&folder, name, &column);
            let wanted = [format!("column {name}: {found}"), "where a flat integer is expected".into()];
            assert!(wanted.iter().all(|text| refused.contains(text)), "{column}: {refused}");
        }
        for column in [format!("optional int32 {name} (int_16);"), format!("optional boolean {name};")] {
            let refused = refused_as(&folder, name, &column);
            assert!(refused.contains("holds no I/O"), "{column}: {refused}");
        }
    }
    for name in NAMES {
        let refused = refused_as(&folder, name, &format!("optional double {name};"));
        let wanted = if name == "latency_ns" { "holds no I/O" } else { "DOUBLE where a flat integer is expected" };
        assert!(refused.contains(wanted), "{name}: {refused}");
    }
    // Columns of other names may be of any type.
    let refused = refused_as(&folder, "", "optional group more { required double tenant; }");
    assert!(refused.contains("holds no I/O"), "{refused}");
}

const GOOD: [i64; 7] = [5, 0, 4096, 512, 1, 90_000, 2];

fn with(column: usize, value: i64) -> [i64; 7] {
    let mut row = GOOD;
    row[column] = value;
    row
}

fn read(path: &std::path::Path) -> Result<Vec<IoRecord>, Error> {
    read_all(path, Options::default()).map(|trace| trace.records)
}

#[test]
fn a_negative_value_is_refused_with_its_column() {
    let folder = Folder::new();
    for kind in [Kind::Plain32, Kind::Signed32, Kind::Plain64, Kind::Signed64] {
        for (column, name) in NAMES.iter().enumerate() {
            let path = table(&folder, kind, &[GOOD, with(column, -1)]);
            let refused = read(&path).unwrap_err().to_string();
            let place = format!("row 1: field {name}: `-1` is negative");
            assert!(refused.contains(&place), "{kind:?}: {refused}");
        }
        let wanted = IoRecord { tenant: 2, ..io(0, Op::Read, 4096, 512, 1, Some(90_000)) };
        assert_eq!(read(&table(&folder, kind, &[GOOD])).unwrap(), [wanted], "{kind:?}");
    }
}

#[test]
fn an_unsigned_value_has_all_its_bits() {
    let folder = Folder::new();
    for kind in [Kind::Unsigned32, Kind::Converted32] {
        let rows: Vec<[i64; 7]> = [2, 3, 4, 5, 6].map(|column| with(column, -1)).into();
        let records = read(&table(&folder, kind, &rows)).unwrap();
        let most = u32::MAX;
        assert_eq!((records[0].offset_bytes, records[1].size_bytes), (u64::from(most), most), "{kind:?}");
        let latency_ns = records[3].latency_ns;
        assert_eq!((records[2].device, latency_ns, records[4].tenant), (most, Some(u64::from(most)), most));
    }
    for kind in [Kind::Unsigned64, Kind::Converted64] {
        let path = table(&folder, kind, &[with(0, -2), with(0, -1)]);
        assert_eq!(read(&path).unwrap().iter().map(|r| r.arrive_ns).collect::<Vec<_>>(), [0, 1]);
        for (column, name) in [(2, "offset_bytes"), (3, "size_bytes"), (4, "device"), (5, "latency_ns")] {
            let refused = read(&table(&folder, kind, &[with(column, -1)])).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains("18446744073709551615"), "{kind:?}: {refused}");
        }
    }
}

#[test]
fn lenient_reading_leaves_out_rows() {
    let folder = Folder::new();
    let mut rows = vec![with(5, -1); 70_000];
    rows.extend([GOOD, with(1, 2), with(0, 9), with(3, 0), with(0, 1 << 60)]);
    let path = table(&folder, Kind::Plain64, &rows);
    let strict = read(&path).unwrap_err().to_string();
    assert!(strict.contains("row 0") && strict.contains("--lenient"), "{strict}");
    let lenient = || Options { lenient: true, ..Options::default() };
    let trace = read_all(&path, lenient()).unwrap();
    assert_eq!(trace.records.iter().map(|r| r.arrive_ns).collect::<Vec<_>>(), [0, 4]);
    let skipped = |reason: &str| trace.skipped[reason];
    assert_eq!((skipped("malformed"), skipped("zero size"), skipped("absurd time")), (70_001, 1, 1));
    let out = folder.path().join("out.csv");
    let done = convert(std::slice::from_ref(&path), &out, Change::None, &mut |_| lenient(), &mut || true).unwrap();
    assert_eq!((done.records, done.skipped["malformed"]), (2, 70_001));
    // It is asked whether to go on, although its first batch of rows has no record.
    let stop = Options { progress: Some(Box::new(|_| false)), ..lenient() };
    assert!(matches!(read_all(&path, stop), Err(Error::Stopped { .. })));
}

#[test]
fn a_row_without_bytes_is_left_out_and_counted() {
    let folder = Folder::new();
    for kind in [Kind::Plain32, Kind::Unsigned64] {
        let trace = read_all(&table(&folder, kind, &[with(3, 0), GOOD, with(3, 0)]), Options::default()).unwrap();
        assert_eq!((trace.records.len(), &trace.skipped), (1, &[("zero size".to_string(), 2)].into()), "{kind:?}");
    }
}

#[test]
fn counts_of_what_was_left_out_add_up_and_never_wrap() {
    let folder = Folder::new();
    for (reason, row, device) in [
        ("zero size", with(3, 0), None),
        ("malformed", with(1, 2), None),
        ("absurd time", with(0, 1 << 60), None),
        ("another device", with(4, 9), Some(1)),
    ] {
        for (before, after, twice) in [(41, 42, 84), (u64::MAX, u64::MAX, u64::MAX)] {
            let path = counted_table(&folder, Kind::Plain64, &[GOOD, row], &[(reason, before)]);
            let options = || Options { lenient: true, device, ..Options::default() };
            assert_eq!(read_all(&path, options()).unwrap().skipped, [(reason.to_string(), after)].into());
            let merge = Change::Merge(MergedTenants::OneEach);
            let out = folder.path().join("out.csv");
            let done = convert(&[path.clone(), path], &out, merge, &mut |_| options(), &mut || true).unwrap();
            assert_eq!(done.skipped, [(reason.to_string(), twice)].into());
        }
    }
    // What the written form cannot hold is counted with what an earlier one could not.
    let lost = ("latency_ns not held by iolog", 5);
    let path = counted_table(&folder, Kind::Plain64, &[GOOD], &[lost]);
    let out = folder.path().join("out.iolog");
    let done = convert(&[path], &out, Change::None, &mut |_| Options::default(), &mut || true).unwrap();
    assert_eq!(done.skipped[lost.0], 6);
}
