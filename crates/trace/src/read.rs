// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a trace: as a stream in the order of the file, or whole and sorted by arrival.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use linnet_types::{IoRecord, Nanos};

use crate::error::{Bad, Error};
use crate::format::{Clock, Format, Opening, Source, count, detect_input, format_named};
use crate::formats::blktrace;
use crate::input::{Input, damage};
use crate::teller::{Callback, Teller};

/// Longest time span of a trace, from its earliest record to its latest; a record outside it has an invalid time.
pub const SPAN_MAX_NS: u64 = 400 * 86_400 * 1_000_000_000;
/// Longest latency: what a signed 64-bit column of another tool holds.
pub const LATENCY_MAX_NS: Nanos = i64::MAX as Nanos;
/// Records between two progress reports.
pub(crate) const PROGRESS_EVERY: u64 = 1 << 16;

/// The earliest and the latest arrival of the records so far, in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span(Option<(Nanos, Nanos)>);

impl Span {
    /// Takes an arrival. False, and the span stays as it was, if it would be longer than [`SPAN_MAX_NS`].
    pub fn take(&mut self, arrive_ns: Nanos) -> bool {
        let (first, last) = self.0.unwrap_or((arrive_ns, arrive_ns));
        let (first, last) = (first.min(arrive_ns), last.max(arrive_ns));
        let fits = last - first <= SPAN_MAX_NS;
        if fits {
            self.0 = Some((first, last));
        }
        fits
    }
}

/// Progress of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the stored files read so far.
    pub bytes: u64,
    /// Total bytes of the stored files.
    pub total_bytes: u64,
    /// Records so far; between two calls for records, those of the first.
    pub records: u64,
}

/// Where the tenant of a record comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantFrom {
    /// The trace; 0 if its format has no column for it.
    #[default]
    Trace,
    /// The number of the device: each device or volume is one tenant.
    Device,
}

/// How to read.
#[derive(Default)]
pub struct Options {
    /// Name of the format ([`crate::FORMATS`]); `None` detects it.
    pub format: Option<String>,
    /// Leave out and count invalid records instead of failing; the counts are `malformed` and `truncated`.
    pub lenient: bool,
    /// Where the tenant of a record comes from.
    pub tenant_from: TenantFrom,
    /// Read only the records of this device; the others are counted as `another device`.
    pub device: Option<u32>,
    /// Most records of a whole trace, and where that limit comes from. [`read_all`] refuses longer ones, so that it
    /// does not run out of memory.
    pub records_max: Option<(u64, &'static str)>,
    /// Called every 65,536 records, and every 16 MiB that hold none, with the progress; returns whether to continue.
    pub progress: Option<Callback>,
}

impl Options {
    /// Reads as this format.
    pub fn format(name: &str) -> Options {
        Options { format: Some(name.to_string()), ..Options::default() }
    }
}

/// A whole trace, sorted by arrival (stable); the first record arrives at 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The I/Os.
    pub records: Vec<IoRecord>,
    /// The file or directory that was read.
    pub source: PathBuf,
    /// Name of the format that was used.
    pub format: &'static str,
    /// What was left out, counted by reason.
    pub skipped: BTreeMap<String, u64>,
    /// How many events in the file came after one with a later time.
    pub reordered: u64,
    /// Time of the first record on the clock of the trace.
    pub origin_ns: Nanos,
    /// What this clock is.
    pub clock: Clock,
    /// Warnings for the user of the trace.
    pub warnings: Vec<String>,
}

/// Records in the order of the file, with the times of the file (not rebased, not sorted). Memory is bounded; for event
/// traces (blkparse, blktrace) it grows with the number of I/Os that wait for their completion.
pub struct Records {
    source: Box<dyn Source>,
    format: &'static Format,
    path: PathBuf,
    files: Vec<PathBuf>,
    teller: Teller,
    count: u64,
    span: Span,
    lenient: bool,
    tenant_from: TenantFrom,
    device: Option<u32>,
    records_max: Option<(u64, &'static str)>,
    far: u64,
    others: u64,
    finished: bool,
}

impl Records {
    /// The format that is used.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The file or directory that is read.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was left out so far, counted by reason.
    pub fn skipped(&self) -> BTreeMap<String, u64> {
        let mut skipped = self.source.report().skipped;
        if self.far > 0 {
            count(&mut skipped, "absurd time", self.far);
        }
        if self.others > 0 {
            count(&mut skipped, "another device", self.others);
        }
        skipped
    }

    /// How many events so far came after one with a later time.
    pub fn reordered(&self) -> u64 {
        self.source.report().reordered
    }

    /// What the times are of.
    pub fn clock(&self) -> Clock {
        self.source.report().clock.unwrap_or(self.format.clock)
    }

    /// Warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.source.report().warnings
    }

    /// What asks whether to go on, for work on the records after the last one is read.
    pub(crate) fn teller(&self) -> Teller {
        self.teller.clone()
    }

    fn step(&mut self) -> Result<Option<IoRecord>, Error> {
        loop {
            let next =
                self.source.next().map_err(|error| or_damage(error, &self.files, &self.teller).after(self.count))?;
            let Some(mut record) = next else {
                self.teller.records(self.count);
                return Ok(None);
            };
            if !self.span.take(record.arrive_ns) {
                if self.lenient {
                    self.far += 1;
                    continue;
                }
                let bad =
                    Bad::of("time", record.arrive_ns, "ns lies more than 400 days from a record before it in the file");
                return Err(bad.place(&self.path, self.source.at(), self.format.name));
            }
            if self.device.is_some_and(|wanted| wanted != record.device) {
                self.others += 1;
                continue;
            }
            if self.tenant_from == TenantFrom::Device {
                record.tenant = record.device;
            }
            self.count += 1;
            if self.count.is_multiple_of(PROGRESS_EVERY) && !self.teller.records(self.count) {
                return Err(Error::Stopped { path: self.path.clone() });
            }
            return Ok(Some(record));
        }
    }
}

impl Iterator for Records {
    type Item = Result<IoRecord, Error>;

    /// Returns `None` after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        match self.step() {
            Ok(Some(record)) => Some(Ok(record)),
            Ok(None) => {
                self.finished = true;
                None
            }
            Err(error) => {
                self.finished = true;
                Some(Err(error))
            }
        }
    }
}

/// Opens a trace for streaming. In a directory, it reads the per-CPU files of binary blktrace. A file `X.blktrace.N` is
/// read together with its siblings.
pub fn open(path: &Path, options: Options) -> Result<Records, Error> {
    let files = blktrace::family(path)?;
    open_as(path, &files, options)
}

/// Opens several files as one trace: per-CPU files of binary blktrace, and no other siblings.
pub fn open_files(paths: &[PathBuf], options: Options) -> Result<Records, Error> {
    let Some(first) = paths.first() else {
        return Err(Error::Argument { name: "files", value: "[]".into(), problem: "give at least one file" });
    };
    open_as(first, paths, options)
}

fn open_as(path: &Path, files: &[PathBuf], options: Options) -> Result<Records, Error> {
    let mut inputs = Vec::with_capacity(files.len());
    for file in files {
        inputs.push(Input::open(file, options.lenient)?);
    }
    let meters = inputs.iter().map(|i| i.meter.clone()).collect();
    let teller = Teller::new(options.progress, meters, inputs.iter().map(|i| i.total_bytes).sum());
    let format = match &options.format {
        Some(name) => format_named(name)?,
        None => detect_input(&mut inputs[0]).map_err(|error| or_damage(error, files, &teller))?,
    };
    for input in &mut inputs {
        input.teller = teller.clone();
    }
    let source = (format.open)(Opening { inputs, lenient: options.lenient })?;
    Ok(Records {
        source,
        format,
        path: path.to_path_buf(),
        files: files.to_vec(),
        teller,
        count: 0,
        span: Span::default(),
        lenient: options.lenient,
        tenant_from: options.tenant_from,
        device: options.device,
        records_max: options.records_max,
        far: 0,
        others: 0,
        finished: false,
    })
}

/// The error of content that is refused, or that the file which holds it is damaged. A decompressor gives what it reads
/// before it knows, at the end of the file, that the checksum is wrong.
fn or_damage(error: Error, files: &[PathBuf], teller: &Teller) -> Error {
    use Error::{Ambiguous, Field, LongLine, Truncated, UnknownFormat, Utf16};
    if !matches!(
        error,
        Ambiguous { .. } | Field { .. } | LongLine { .. } | Truncated { .. } | UnknownFormat { .. } | Utf16 { .. }
    ) {
        return error;
    }
    let found = files.iter().find_map(|path| damage(path, teller).map(|source| (path.clone(), source)));
    found.map_or(error, |(path, source)| Error::Damaged { path, source })
}

/// Reads a whole trace, sorts it by arrival (stable) and rebases it to 0.
///
/// # Errors
/// Those of [`open`], or [`Error::Empty`] if nothing is left after skipping.
pub fn read_all(path: &Path, options: Options) -> Result<Trace, Error> {
    if let Some((most @ 0, limit)) = options.records_max {
        return Err(Error::TooMany { path: path.to_path_buf(), most, limit });
    }
    collect(path, open(path, options)?)
}

/// Reads several files as one trace ([`open_files`]), whole and sorted.
pub fn read_files(paths: &[PathBuf], options: Options) -> Result<Trace, Error> {
    let records = open_files(paths, options)?;
    let path = records.path.clone();
    collect(&path, records)
}

fn collect(path: &Path, mut stream: Records) -> Result<Trace, Error> {
    let mut records = Vec::new();
    let (most, limit) = stream.records_max.unwrap_or((u64::MAX, "64 bits"));
    for record in stream.by_ref() {
        if records.len() as u64 >= most {
            return Err(Error::TooMany { path: path.to_path_buf(), most, limit });
        }
        records.push(record?);
    }
    let skipped = stream.skipped();
    if records.is_empty() {
        let why = if skipped.is_empty() { "no record".to_string() } else { format!("all was left out: {skipped:?}") };
        return Err(Error::Empty { path: path.to_path_buf(), why });
    }
    if !records.is_sorted_by_key(|r: &IoRecord| r.arrive_ns) {
        records.sort_by_key(|r| r.arrive_ns);
    }
    let origin_ns = records[0].arrive_ns;
    for record in &mut records {
        record.arrive_ns -= origin_ns;
    }
    Ok(Trace {
        records,
        source: path.to_path_buf(),
        format: stream.format.name,
        skipped,
        reordered: stream.reordered(),
        origin_ns,
        clock: stream.clock(),
        warnings: stream.warnings(),
    })
}
