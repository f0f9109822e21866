// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong with a trace. Each message names the file, the place, the field and its text, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A place in a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Line, from 1.
    Line(u64),
    /// First byte of a binary record, counted after decompression, from 0.
    Byte(u64),
    /// Row of a table, from 0.
    Row(u64),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Line(n) => write!(f, "line {n}"),
            At::Byte(n) => write!(f, "byte {n}"),
            At::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A trace that must fit in memory has more records than are allowed.
    #[error("{}: holds more than the {most} records that fit {limit}; cut it into parts and take them one by one, or take fewer with --max-records where a command has it", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// Records allowed.
        most: u64,
        /// Where that limit comes from.
        limit: &'static str,
    },
    /// Memory that the work needs is not there.
    #[error("{}: {bytes} bytes of memory are needed for it, more than fit {limit}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// Bytes that are needed.
        bytes: u64,
        /// What limits the memory.
        limit: &'static str,
    },
    /// A record arrives before others that are far before it in the file, so the trace cannot be taken as it comes.
    #[error("{}: record {record} arrives earlier than records more than 65,536 before it; sort the trace by arrival", path.display())]
    Disorder {
        /// The file.
        path: PathBuf,
        /// The record, from 0, of those that were not left out.
        record: u64,
    },
    /// The name of an output does not say in which form to write.
    #[error("{}: unknown ending; write .parquet, .csv or .iolog", path.display())]
    Ending {
        /// The target file.
        path: PathBuf,
    },
    /// The file or directory cannot be opened.
    #[error("{}: cannot open: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Reading or decompressing failed partway.
    #[error("{}: {at}: cannot read on: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Where reading stopped.
        at: At,
        /// The error of the system or the decompressor.
        source: io::Error,
    },
    /// The trace contains no I/O.
    #[error("{}: the trace holds no I/O ({why})", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// A field of a record does not match its format.
    #[error("{}: {at}: field {field}: `{text}` {problem}; {advice}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The record.
        at: At,
        /// The field.
        field: &'static str,
        /// Its text, shortened.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
        /// What to do.
        advice: String,
    },
    /// The last record is cut off.
    #[error("{}: {at}: the last record is cut off ({what}); `linnet trace convert --lenient` leaves it out", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The record.
        at: At,
        /// What is missing.
        what: String,
    },
    /// A compressed file whose content is refused cannot be decompressed to its end, or its checksum is wrong.
    #[error("{}: the compressed file is damaged: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error of the decompressor.
        source: io::Error,
    },
    /// A compressed file ends before its content does.
    #[error("{}: {at}: the compressed file is cut off, after {records} records; `linnet trace convert --lenient` keeps those and leaves out what was cut", path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
        /// Where its content ends.
        at: At,
        /// Records before.
        records: u64,
    },
    /// Text in UTF-16, which no reader takes.
    #[error("{}: text in UTF-16; convert it to UTF-8, as `iconv -f UTF-16 -t UTF-8` does", path.display())]
    Utf16 {
        /// The file.
        path: PathBuf,
    },
    /// A log of fio that lacks what a trace needs.
    #[error("{}: a fio log of latencies, bandwidth or IOPS, which is no trace of I/Os; record one with fio's option --write_iolog", path.display())]
    FioSeries {
        /// The file.
        path: PathBuf,
    },
    /// A line is longer than in any trace format, so the file is probably not a text trace.
    #[error("{}: {at}: longer than {limit} bytes without a line end: not a text trace", path.display())]
    LongLine {
        /// The file.
        path: PathBuf,
        /// The line.
        at: At,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The content matches no known format.
    #[error("{}: {why}; tried were {known}; if it is one of these, name it with --format", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What was seen.
        why: String,
        /// The names of the known formats.
        known: String,
    },
    /// The content matches several formats that would give different records.
    #[error("{}: could be any of {candidates} ({why}); choose one with --format", path.display())]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// The formats that match.
        candidates: String,
        /// Why the format is not certain.
        why: String,
    },
    /// No format has this name.
    #[error("no trace format is called `{name}`; known are {known}")]
    NoSuchFormat {
        /// The name that was given.
        name: String,
        /// The names of the known formats.
        known: String,
    },
    /// A Parquet file is damaged or not in the canonical form.
    #[error("{}: {problem}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the column if there is one.
        problem: String,
    },
    /// Writing failed.
    #[error("{}: cannot write: {source}{}", path.display(), if *kept { "; what stood there is as it was" } else { "" })]
    Write {
        /// The target file, or the directory of what is stored for a while.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
        /// True if the target is as it was. It is not where a pipe or a device had a part of the output before, and
        /// where the file was already put in its place.
        kept: bool,
    },
    /// A factor makes a trace longer than [`crate::SPAN_MAX_NS`].
    #[error(
        "factor = {factor}: stretches the trace beyond 400 days, which no reader takes; give a factor of at least {fits}"
    )]
    Stretched {
        /// The factor on the rate.
        factor: f64,
        /// The least factor that fits, rounded up.
        fits: String,
    },
    /// An argument is out of range.
    #[error("{name} = {value}: {problem}")]
    Argument {
        /// The argument.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        problem: &'static str,
    },
    /// A callback asked to stop.
    #[error("{}: reading was stopped", path.display())]
    Stopped {
        /// The file, or the name of the trace.
        path: PathBuf,
    },
}

impl Error {
    /// This error, met after so many records.
    pub(crate) fn after(self, records: u64) -> Error {
        match self {
            Error::CutOff { path, at, .. } => Error::CutOff { path, at, records },
            other => other,
        }
    }
}

/// A field of a line or record that is invalid; the source adds file and place.
#[derive(Debug)]
pub(crate) struct Bad {
    pub field: &'static str,
    pub text: String,
    pub problem: &'static str,
}

impl Bad {
    pub fn new(field: &'static str, text: &[u8], problem: &'static str) -> Self {
        Bad { field, text: shown(text), problem }
    }

    pub fn of(field: &'static str, value: impl fmt::Display, problem: &'static str) -> Self {
        Bad { field, text: value.to_string(), problem }
    }

    /// The error of a record that lenient reading leaves out.
    pub fn place(self, path: &Path, at: At, format: &str) -> Error {
        let leave = "leave it out by `linnet trace convert --lenient`, ";
        self.advise(path, at, format!("read as {format}: correct the record, {leave}or give another format"))
    }

    /// The error of a record that lenient reading refuses as well.
    pub fn refuse(self, path: &Path, at: At, format: &str) -> Error {
        self.advise(path, at, format!("read as {format}: correct the record, or give another format"))
    }

    fn advise(self, path: &Path, at: At, advice: String) -> Error {
        let Bad { field, text, problem } = self;
        Error::Field { path: path.to_path_buf(), at, field, text, problem, advice }
    }
}

/// At most 60 characters of a text; unprintable characters are escaped.
pub(crate) fn shown(text: &[u8]) -> String {
    const LIMIT: usize = 60;
    let mut out: String = text[..text.len().min(LIMIT)].escape_ascii().to_string();
    if text.len() > LIMIT {
        out.push_str("...");
    }
    out
}
