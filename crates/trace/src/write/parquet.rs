// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the canonical Parquet form (`spec/trace-record.md`) in row groups.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use linnet_files::Links;
use linnet_types::{IoRecord, Nanos};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::readable::Readable;
use super::target::Target;
use crate::error::Error;
use crate::format::Clock;
use crate::formats::canonical::{FORMAT_KEY, ORIGIN_KEY, SKIPPED_KEY, VERSION, VERSION_KEY};
use crate::memory::growth;
use crate::read::Trace;

const SCHEMA: &str = "message trace {
    required int64 arrive_ns (integer(64,false));
    required int32 op (integer(8,false));
    required int64 offset_bytes (integer(64,false));
    required int32 size_bytes (integer(32,false));
    required int32 device (integer(32,false));
    optional int64 latency_ns (integer(64,false));
    required int32 tenant (integer(32,false));
}";

/// Records of a row group: 50 MB while it is collected, and half as much again while it is written.
const GROUP_RECORDS: usize = 1 << 20;
/// What a record takes then.
type Grouped = (IoRecord, [u64; 3]);

/// What a Parquet trace states about its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Name of the source format, or how the records were made.
    pub source_format: String,
    /// What was left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// When its time 0 was on a clock that other traces share; none where there is no such clock.
    pub origin_ns: Option<Nanos>,
}

/// Writes records as canonical Parquet, in the given order.
pub struct ParquetWriter {
    target: Target,
    writer: SerializedFileWriter<File>,
    group: Vec<IoRecord>,
    readable: Readable,
}

impl ParquetWriter {
    /// Starts a file. No file exists under `path` before [`ParquetWriter::finish`].
    pub fn create(path: &Path) -> Result<ParquetWriter, Error> {
        ParquetWriter::create_with(path, Links::Follow)
    }

    /// [`ParquetWriter::create`] with a rule for symbolic links at `path`.
    pub fn create_with(path: &Path, links: Links) -> Result<ParquetWriter, Error> {
        let target = Target::create(path, links)?;
        let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema above"));
        let level = ZstdLevel::try_new(3).expect("a level of zstd");
        let properties = Arc::new(WriterProperties::builder().set_compression(Compression::ZSTD(level)).build());
        let file = target.handle()?;
        let writer = SerializedFileWriter::new(file, schema, properties).map_err(|e| target.failed(io_error(e)))?;
        Ok(ParquetWriter { target, writer, group: Vec::new(), readable: Readable::default() })
    }

    pub(super) fn is_through(&self) -> bool {
        self.target.is_through()
    }

    /// Adds one record.
    ///
    /// # Errors
    /// A full disk, or a value that the readers refuse.
    pub fn push(&mut self, record: &IoRecord) -> Result<(), Error> {
        self.readable.take(record)?;
        if self.group.len() == self.group.capacity() {
            let more = growth::<Grouped>(self.target.path(), self.group.len(), GROUP_RECORDS)?;
            self.group.reserve_exact(more);
        }
        self.group.push(*record);
        if self.group.len() == GROUP_RECORDS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.group.is_empty() {
            return Ok(());
        }
        let written = write_group(&mut self.writer, &self.group);
        self.group.clear();
        written.map_err(|e| self.target.failed(io_error(e)))
    }

    /// Completes the file and renames it to its final name.
    pub fn finish(mut self, about: &Metadata) -> Result<(), Error> {
        self.flush()?;
        let mut note =
            |key: String, value: &str| self.writer.append_key_value_metadata(KeyValue::new(key, value.to_string()));
        note(VERSION_KEY.into(), VERSION);
        note(FORMAT_KEY.into(), &about.source_format);
        if let Some(origin_ns) = about.origin_ns {
            note(ORIGIN_KEY.into(), &origin_ns.to_string());
        }
        for (reason, count) in &about.skipped {
            note(format!("{SKIPPED_KEY}{reason}"), &count.to_string());
        }
        self.writer.close().map_err(|e| self.target.failed(io_error(e)))?;
        self.target.commit()
    }
}

fn io_error(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    }
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("the schema has seven columns");
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

fn write_group(writer: &mut SerializedFileWriter<File>, records: &[IoRecord]) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let long = |of: fn(&IoRecord) -> u64| records.iter().map(|r| of(r) as i64).collect::<Vec<i64>>();
    let short = |of: fn(&IoRecord) -> u32| records.iter().map(|r| of(r) as i32).collect::<Vec<i32>>();
    column::<Int64Type>(&mut group, &long(|r| r.arrive_ns), None)?;
    column::<Int32Type>(&mut group, &short(|r| r.op as u32), None)?;
    column::<Int64Type>(&mut group, &long(|r| r.offset_bytes), None)?;
    column::<Int32Type>(&mut group, &short(|r| r.size_bytes), None)?;
    column::<Int32Type>(&mut group, &short(|r| r.device), None)?;
    let levels: Vec<i16> = records.iter().map(|r| i16::from(r.latency_ns.is_some())).collect();
    let latencies: Vec<i64> = records.iter().filter_map(|r| r.latency_ns.map(|l| l as i64)).collect();
    column::<Int64Type>(&mut group, &latencies, Some(&levels))?;
    column::<Int32Type>(&mut group, &short(|r| r.tenant), None)?;
    group.close()?;
    Ok(())
}

/// Writes a whole trace as canonical Parquet.
pub fn write_parquet(path: &Path, trace: &Trace) -> Result<(), Error> {
    let mut writer = ParquetWriter::create(path)?;
    for record in &trace.records {
        writer.push(record)?;
    }
    let origin_ns = (trace.clock == Clock::Shared).then_some(trace.origin_ns);
    writer.finish(&Metadata { source_format: trace.format.to_string(), skipped: trace.skipped.clone(), origin_ns })
}
