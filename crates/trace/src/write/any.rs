// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace in the form that the name of its file says.

use std::path::Path;

use linnet_files::{Links, STANDARD};
use linnet_types::IoRecord;

use super::{CsvWriter, FioWriter, Metadata, ParquetWriter};
use crate::error::Error;

/// A writer of one of the forms: `.parquet`, `.csv`, `.iolog` or `.log`; `-` is CSV to standard output.
#[allow(clippy::large_enum_variant, reason = "there is one, not many")]
pub enum AnyWriter {
    /// Canonical Parquet.
    Parquet(ParquetWriter),
    /// Workload CSV.
    Csv(CsvWriter),
    /// fio I/O log.
    Fio(FioWriter),
}

impl AnyWriter {
    /// Starts a file. `links` is for Parquet; the others follow links.
    ///
    /// # Errors
    /// [`Error::Ending`], or that the file cannot be written.
    pub fn create(path: &Path, links: Links) -> Result<AnyWriter, Error> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("parquet") => ParquetWriter::create_with(path, links).map(AnyWriter::Parquet),
            _ if path.as_os_str() == STANDARD => CsvWriter::create(path).map(AnyWriter::Csv),
            Some("csv") => CsvWriter::create(path).map(AnyWriter::Csv),
            Some("iolog" | "log") => FioWriter::create(path, &[]).map(AnyWriter::Fio),
            _ => Err(Error::Ending { path: path.to_path_buf() }),
        }
    }

    /// True for a pipe, a device or standard output: what was written cannot be taken back.
    pub fn is_through(&self) -> bool {
        match self {
            AnyWriter::Parquet(writer) => writer.is_through(),
            AnyWriter::Csv(writer) => writer.is_through(),
            AnyWriter::Fio(writer) => writer.is_through(),
        }
    }

    /// Adds one record.
    ///
    /// # Errors
    /// A full disk, a value that the readers refuse, or one that the form cannot hold.
    pub fn push(&mut self, record: &IoRecord) -> Result<(), Error> {
        match self {
            AnyWriter::Parquet(writer) => writer.push(record),
            AnyWriter::Csv(writer) => writer.push(record),
            AnyWriter::Fio(writer) => writer.push(record),
        }
    }

    /// What of the records the form cannot hold, and of how many records. Parquet and CSV hold all
    /// of them.
    pub fn lost(&self) -> Vec<(&'static str, u64)> {
        if let AnyWriter::Fio(writer) = self { writer.lost().collect() } else { Vec::new() }
    }

    /// What a form that does not hold [`Metadata::origin_ns`] loses.
    pub fn clock_lost(&self) -> Option<&'static str> {
        match self {
            AnyWriter::Parquet(_) => None,
            AnyWriter::Csv(_) => Some("shared clock not held by csv"),
            AnyWriter::Fio(_) => Some("shared clock not held by iolog"),
        }
    }

    /// Completes the file and renames it to its final name. Only Parquet keeps `about`.
    ///
    /// # Errors
    /// A full disk, or a file that cannot be put in its place.
    pub fn finish(self, about: &Metadata) -> Result<(), Error> {
        match self {
            AnyWriter::Parquet(writer) => writer.finish(about),
            AnyWriter::Csv(writer) => writer.finish(),
            AnyWriter::Fio(writer) => writer.finish(),
        }
    }
}
