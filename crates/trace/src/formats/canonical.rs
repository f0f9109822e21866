// SPDX-License-Identifier: MIT OR Apache-2.0
//! The canonical Parquet form (`spec/trace-record.md`), read row group by row group.
//!
//! Columns are found by name. Each may have 32-bit or 64-bit integers, so that tables of other tools with the right
//! names and units can be read. A column of another type, as of dates or decimal numbers, a nested or missing column, an invalid null and a negative value are
//! errors that name the column. Latencies may be doubles.
//!
//! The Parquet library panics on some damaged files, because it trusts sizes and page kinds, and allocates what they
//! state. Sizes and counts are checked before they are used (`pages.rs`); other panics are caught and become errors, so
//! that a bad trace cannot crash the process.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use linnet_types::{IoRecord, Nanos};
use parquet::basic::{Compression, Type};
use parquet::column::reader::ColumnReader;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::error::{At, Error};
use crate::format::{Clock, Fit, Format, Head, Opening, Report, Source, count};
use crate::formats::columns::{self, Batch, Kind};
use crate::formats::pages;
use crate::input::Input;
use crate::memory;
use crate::teller::Teller;
use crate::text::Out;

/// Names of the columns, in the order in which they are written.
pub(crate) const COLUMNS: [&str; 7] = ["arrive_ns", "op", "offset_bytes", "size_bytes", "device", LATENCY, TENANT];
/// The column that may have nulls.
const LATENCY: &str = "latency_ns";
/// The column that version 2 added.
const TENANT: &str = "tenant";
/// The version that is written.
pub(crate) const VERSION: &str = "2";
/// The previous version, without tenants.
const VERSION_1: &str = "1";
/// Key of the version in the file's metadata.
pub(crate) const VERSION_KEY: &str = "linnet.trace.version";
/// Key of the source's format name.
pub(crate) const FORMAT_KEY: &str = "linnet.trace.source_format";
/// The name there of records that were made, not recorded.
pub(crate) const MADE: &str = "linnet";
/// Key of the time 0 on a clock that other traces share, ns.
pub(crate) const ORIGIN_KEY: &str = "linnet.trace.origin_ns";
/// Prefix of the keys that count what was left out.
pub(crate) const SKIPPED_KEY: &str = "linnet.trace.skipped.";

/// Longest footer: 160,000 columns of row groups, of 100 bytes each.
const FOOTER_BYTES_MAX: u64 = 16 << 20;
/// Bytes that a byte of the footer takes in memory, at most.
const FOOTER_GROWTH: u64 = 64;
/// Rows that one byte of a file may stand for; real files have a row or two. It bounds the time that a small file
/// takes.
const ROWS_A_BYTE: u64 = 4096;
const BATCH: usize = 1 << 16;

pub(crate) const FORMAT: Format = Format {
    name: "parquet",
    about: "canonical Parquet: arrive_ns, op, offset_bytes, size_bytes, device, latency_ns, tenant",
    has_latency: true,
    clock: Clock::Shared,
    fit: |head: &Head| if head.bytes.starts_with(b"PAR1") { Fit::Yes } else { Fit::No },
    open,
};

/// Calls the library on unchecked data, and turns a panic into an error. The reader is not used again after an error.
fn guarded<T>(path: &Path, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(Error::Parquet { path: path.to_path_buf(), problem: "damaged: its pages do not fit its metadata".into() })
    })
}

/// Where the pages of a column begin, and their bytes.
fn range(column: &ColumnChunkMetaData) -> (i64, i64) {
    // As the library reads it.
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    (start, column.compressed_size())
}

/// Refuses column chunks that do not lie inside the file.
fn check_sizes(reader: &SerializedFileReader<File>, file_bytes: u64) -> Result<(), String> {
    for (index, group) in reader.metadata().row_groups().iter().enumerate() {
        for column in group.columns() {
            let (start, length) = range(column);
            let inside =
                start >= 0 && length >= 0 && start.checked_add(length).is_some_and(|end| end as u64 <= file_bytes);
            if !inside {
                let name = column.column_path().string();
                return Err(format!(
                    "row group {index}: column {name} lies outside the file ({start} + {length} bytes)"
                ));
            }
        }
    }
    Ok(())
}

/// Refuses columns of the record that are compressed otherwise than with snappy or zstd, whose decoders stop at the size
/// that a page states. The library's for gzip and brotli do not, so that a small file could take all memory.
fn check_codecs(reader: &SerializedFileReader<File>, places: &[Option<usize>]) -> Result<(), String> {
    for group in reader.metadata().row_groups() {
        for (name, place) in COLUMNS.iter().zip(places) {
            let Some(codec) = place.map(|place| group.column(place).compression()) else { continue };
            if !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)) {
                let codec = codec.to_string();
                let codec = codec.split('(').next().unwrap_or(&codec);
                return Err(format!(
                    "column {name} is compressed with {codec}; zstd, snappy and none are read: write the table again \
                     with one of them"
                ));
            }
        }
    }
    Ok(())
}

/// Refuses a footer whose metadata would take more memory than there is. The library reads it whole.
fn check_footer(file: &File, path: &Path, file_bytes: u64) -> Result<(), Error> {
    let mut end = [0; 8];
    // A file that ends otherwise is for the library to refuse.
    if file_bytes < 8 || file.read_exact_at(&mut end, file_bytes - 8).is_err() || &end[4..] != b"PAR1" {
        return Ok(());
    }
    let length = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if length > FOOTER_BYTES_MAX {
        let problem = format!("a footer of {length} bytes; the limit is {FOOTER_BYTES_MAX}");
        return Err(Error::Parquet { path: path.to_path_buf(), problem });
    }
    memory::fits(path, length * FOOTER_GROWTH)
}

fn open(opening: Opening) -> Result<Box<dyn Source>, Error> {
    let (input, lenient) = opening.single()?;
    let path = input.path.clone();
    guarded(&path, || open_unchecked(input, lenient))
}

fn open_unchecked(input: Input, lenient: bool) -> Result<Box<dyn Source>, Error> {
    let path = input.path.clone();
    let total = input.total_bytes;
    let meter = input.meter.clone();
    let wrong = |problem: String| Error::Parquet { path: path.clone(), problem };
    if input.is_pipe {
        // Opened again, a pipe would wait for another writer.
        return Err(wrong("it comes from a pipe, and Parquet is read from its end; give the name of a file".into()));
    }
    let file = File::open(&path).map_err(|source| Error::Open { path: path.clone(), source })?;
    let again = file.try_clone().map_err(|source| Error::Open { path: path.clone(), source })?;
    check_footer(&again, &path, total)?;
    let reader = SerializedFileReader::new(file)
        .map_err(|e| wrong(format!("not a whole Parquet file ({e}); Parquet cannot be compressed as a whole")))?;
    check_sizes(&reader, total).map_err(wrong)?;
    let about = reader.metadata().file_metadata();
    let out = Out::default();
    let mut counted = Vec::new();
    let mut has_tenants = true;
    // A table of another tool has the times of its source.
    let (mut clock, mut origin_ns) = (None, 0);
    for pair in about.key_value_metadata().into_iter().flatten() {
        let value = pair.value.as_deref().unwrap_or("");
        if pair.key == VERSION_KEY {
            if ![VERSION_1, VERSION].contains(&value) {
                return Err(wrong(format!(
                    "trace version {value}; this reader knows versions {VERSION_1} and {VERSION}"
                )));
            }
            has_tenants = value != VERSION_1;
            clock = clock.or(Some(Clock::Own));
        }
        if pair.key == ORIGIN_KEY {
            origin_ns = value.parse().map_err(|_| wrong(format!("{ORIGIN_KEY} is {value}, no number of ns")))?;
            clock = clock.filter(|clock| *clock == Clock::Made).or(Some(Clock::Shared));
        }
        // What generates, merges or logs modelled devices writes no other format's name.
        if pair.key == FORMAT_KEY && value == MADE {
            clock = Some(Clock::Made);
        }
        if let (Some(reason), Ok(n)) = (pair.key.strip_prefix(SKIPPED_KEY), value.parse::<u64>()) {
            counted.push((reason.to_string(), n));
        }
    }
    let schema = about.schema_descr();
    let mut places = [None; COLUMNS.len()];
    let mut kinds = [Kind::Unsigned; COLUMNS.len()];
    for (index, column) in schema.columns().iter().enumerate() {
        // A leaf of a nested column has the names of all its parents.
        let root = column.path().parts().first();
        let Some(known) = COLUMNS.iter().position(|&c| root.is_some_and(|root| c == root)) else { continue };
        if COLUMNS[known] == TENANT && !has_tenants {
            continue;
        }
        kinds[known] = columns::kind(column, COLUMNS[known] == LATENCY)
            .map_err(|found| wrong(format!("column {}: {found} where a flat integer is expected", COLUMNS[known])))?;
        places[known] = Some(index);
    }
    for (name, place) in COLUMNS.iter().zip(places).take(4) {
        if place.is_none() {
            return Err(wrong(format!("column {name} is missing; it is no trace in the canonical form")));
        }
    }
    check_codecs(&reader, &places).map_err(wrong)?;
    let groups = reader.num_row_groups();
    let rows = reader.metadata().row_groups().iter().map(|g| u64::try_from(g.num_rows()).unwrap_or(0));
    let rows = rows.fold(0u64, u64::saturating_add);
    if rows / ROWS_A_BYTE > total {
        return Err(wrong(format!("{rows} rows in {total} bytes; the limit is {ROWS_A_BYTE} rows a byte")));
    }
    Ok(Box::new(Canonical {
        reader,
        file: again,
        path,
        places,
        kinds,
        columns: vec![],
        group: 0,
        groups,
        left: 0,
        next_row: 0,
        rows: vec![],
        at: 0,
        row: 0,
        lenient,
        out,
        counted,
        clock,
        origin_ns,
        meter,
        teller: input.teller,
        total,
    }))
}

struct Canonical {
    reader: SerializedFileReader<File>,
    file: File,
    path: PathBuf,
    places: [Option<usize>; COLUMNS.len()],
    kinds: [Kind; COLUMNS.len()],
    columns: Vec<Option<ColumnReader>>,
    group: usize,
    groups: usize,
    /// Rows of the open row group not yet read.
    left: usize,
    /// The first row that was not read.
    next_row: u64,
    /// Records of the rows that were read, with their rows; the next one to return is at `at`.
    rows: Vec<(u64, IoRecord)>,
    at: usize,
    /// The row that was returned last.
    row: u64,
    lenient: bool,
    out: Out,
    /// Counts of what was left out when the file was written.
    counted: Vec<(String, u64)>,
    clock: Option<Clock>,
    /// Added to every time of the file.
    origin_ns: Nanos,
    meter: std::sync::Arc<std::sync::atomic::AtomicU64>,
    teller: Teller,
    total: u64,
}

impl Canonical {
    fn wrong(&self, problem: String) -> Error {
        Error::Parquet { path: self.path.clone(), problem }
    }

    /// Reads the next batch of rows; false at the end.
    fn batch(&mut self) -> Result<bool, Error> {
        while self.left == 0 {
            if self.group == self.groups {
                return Ok(false);
            }
            let group = self.reader.get_row_group(self.group).map_err(|e| self.wrong(e.to_string()))?;
            self.left = usize::try_from(group.metadata().num_rows())
                .map_err(|_| self.wrong(format!("row group {}: negative number of rows", self.group)))?;
            let mut pages_bytes = 0;
            for (name, place) in COLUMNS.iter().zip(self.places) {
                let Some(column) = place.map(|p| group.metadata().column(p)) else { continue };
                let (start, bytes) = range(column);
                let width = if matches!(column.column_type(), Type::INT64 | Type::DOUBLE) { 8 } else { 4 };
                // A dictionary of booleans does not exist; whatever claims to be one is refused.
                let width = if column.column_type() == Type::BOOLEAN { u64::MAX } else { width };
                pages_bytes += pages::check(&self.file, start as u64, bytes as u64, self.left as u64, width)
                    .map_err(|problem| self.wrong(format!("row group {}: column {name}: {problem}", self.group)))?;
            }
            self.columns.clear();
            memory::fits(&self.path, 2 * pages_bytes)?;
            for place in self.places {
                let column = place.map(|p| group.get_column_reader(p)).transpose();
                self.columns
                    .push(column.map_err(|e| Error::Parquet { path: self.path.clone(), problem: e.to_string() })?);
            }
            self.group += 1;
            let read = self.total * self.group as u64 / self.groups as u64;
            self.meter.store(read, std::sync::atomic::Ordering::Relaxed);
        }
        let rows = self.left.min(BATCH);
        let mut tables: [Option<Vec<Option<u64>>>; COLUMNS.len()] = Default::default();
        for (index, column) in self.columns.iter_mut().enumerate() {
            let Some(reader) = column else { continue };
            tables[index] =
                Some(columns::values(reader, rows, self.kinds[index]).map_err(|problem| Error::Parquet {
                    path: self.path.clone(),
                    problem: format!("row group {}: column {}: {problem}", self.group - 1, COLUMNS[index]),
                })?);
        }
        self.left -= rows;
        self.rows.clear();
        self.at = 0;
        let batch = Batch { tables, kinds: &self.kinds, origin_ns: self.origin_ns };
        for (row, number) in (0..rows).zip(self.next_row..) {
            match batch.record(row) {
                Ok(Some(record)) => self.rows.push((number, record)),
                Ok(None) => self.out.skip("zero size"),
                Err(_) if self.lenient => self.out.skip("malformed"),
                Err(bad) => return Err(bad.place(&self.path, At::Row(number), FORMAT.name)),
            }
        }
        self.next_row += rows as u64;
        if !self.teller.go_on() {
            return Err(Error::Stopped { path: self.path.clone() });
        }
        Ok(true)
    }
}

impl Source for Canonical {
    fn next(&mut self) -> Result<Option<IoRecord>, Error> {
        while self.at == self.rows.len() {
            let path = self.path.clone();
            if !guarded(&path, || self.batch())? {
                return Ok(None);
            }
        }
        let (row, record) = self.rows[self.at];
        self.at += 1;
        self.row = row;
        self.out.saw(record.arrive_ns);
        Ok(Some(record))
    }

    fn at(&self) -> At {
        At::Row(self.row)
    }

    fn report(&self) -> Report {
        let mut report = Report { clock: self.clock, ..self.out.report() };
        for (reason, n) in &self.counted {
            count(&mut report.skipped, reason, *n);
        }
        report
    }
}
