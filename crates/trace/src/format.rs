// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of trace formats, and the detection of a format by content.
//!
//! Several formats look alike: five columns of numbers, with time in ms, us or ns and offsets in bytes or sectors. If
//! the content fits several formats, detection reports the candidates; it never guesses.

use std::collections::BTreeMap;
use std::path::Path;

use linnet_types::IoRecord;

use crate::error::{At, Error, shown};
use crate::formats;
use crate::input::{BOM, Input, is_utf16};

/// What a source has left out and its warnings, so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub skipped: BTreeMap<String, u64>,
    pub warnings: Vec<String>,
    pub reordered: u64,
    /// What the times are of, where the file says it and not its format alone.
    pub clock: Option<Clock>,
}

/// Adds to the count of a reason. A file may bring counts of its own, of any size.
pub(crate) fn count(skipped: &mut BTreeMap<String, u64>, reason: &str, more: u64) {
    let of_reason = skipped.entry(reason.to_string()).or_default();
    *of_reason = of_reason.saturating_add(more);
}

/// A stream of records in the order of the file, with the times of the file.
pub(crate) trait Source: Send {
    /// The next record; `None` at the end.
    fn next(&mut self) -> Result<Option<IoRecord>, Error>;
    /// The position of the record that was returned last.
    fn at(&self) -> At;
    fn report(&self) -> Report;
}

/// The opened files of one trace.
pub(crate) struct Opening {
    pub inputs: Vec<Input>,
    pub lenient: bool,
}

impl Opening {
    /// The only file, for a format that has one file.
    pub fn single(mut self) -> Result<(Input, bool), Error> {
        if self.inputs.len() != 1 {
            return Err(Error::Argument {
                name: "files",
                value: self.inputs.len().to_string(),
                problem: "only binary blktrace is one trace in several files; read the others one by one",
            });
        }
        Ok((self.inputs.remove(0), self.lenient))
    }
}

/// How well the beginning of a file matches a format, from the worst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    No,
    /// It may match, but other formats may too; contains the reason.
    Maybe(&'static str),
    /// Most of its lines do; the reader names the others, or leaves them out.
    Mostly,
    Yes,
}

/// The beginning of a file.
pub(crate) struct Head<'a> {
    pub bytes: &'a [u8],
    /// Complete lines, without empty ones.
    pub lines: Vec<&'a [u8]>,
}

impl<'a> Head<'a> {
    fn new(bytes: &'a [u8], whole: bool) -> Self {
        let text = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let mut lines: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
        if !whole && lines.len() > 1 {
            lines.pop();
        }
        let lines = lines.into_iter().map(|l| l.strip_suffix(b"\r").unwrap_or(l)).filter(|l| !l.is_empty()).collect();
        Head { bytes, lines }
    }

    /// At most `most` lines, without the first `skip` ones, which may be a header.
    pub fn some(&self, skip: usize, most: usize) -> &[&'a [u8]] {
        let from = skip.min(self.lines.len());
        &self.lines[from..self.lines.len().min(from + most)]
    }
}

/// Whether the times of a trace can be compared with those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Of this recording alone: another one of the same minutes may have begun earlier or later.
    Own,
    /// Of the host or of the day, which other recordings share.
    Shared,
    /// The records were made, not recorded: traces that were made together begin together.
    Made,
}

/// One trace format.
pub struct Format {
    /// The name for `--format`.
    pub name: &'static str,
    /// Its columns or its source, in one line.
    pub about: &'static str,
    /// True if records may have a latency.
    pub has_latency: bool,
    /// What its times are of.
    pub clock: Clock,
    pub(crate) fit: fn(&Head) -> Fit,
    pub(crate) open: fn(Opening) -> Result<Box<dyn Source>, Error>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every format that can be read.
pub static FORMATS: &[Format] = &[
    formats::canonical::FORMAT,
    formats::replay::MS_BYTES,
    formats::replay::MS_SECTORS,
    formats::replay::US_SECTORS,
    formats::replay::DISKSIM,
    formats::replay::MQSIM,
    formats::flashnet::FORMAT,
    formats::cloudphysics::FORMAT,
    formats::vscsi::FORMAT,
    formats::blkparse::FORMAT,
    formats::blktrace::FORMAT,
    formats::msr::FORMAT,
    formats::alibaba::FORMAT,
    formats::tencent::FORMAT,
    formats::spc::FORMAT,
    formats::systor::FORMAT,
    formats::fio::FORMAT,
    formats::workload::FORMAT,
    formats::ftrace::FORMAT,
];

fn names<'a>(formats: impl IntoIterator<Item = &'a Format>) -> String {
    formats.into_iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

/// The format of this name.
pub fn format_named(name: &str) -> Result<&'static Format, Error> {
    FORMATS
        .iter()
        .find(|f| f.name == name)
        .ok_or_else(|| Error::NoSuchFormat { name: name.to_string(), known: names(FORMATS) })
}

/// Detects the format of a file from its first 64 KiB.
///
/// # Errors
/// [`Error::UnknownFormat`], [`Error::Ambiguous`] with the candidates, [`Error::Empty`], or errors of opening the file.
pub fn detect(path: &Path) -> Result<&'static Format, Error> {
    let mut input = Input::open(path, false)?;
    detect_input(&mut input)
}

pub(crate) fn detect_input(input: &mut Input) -> Result<&'static Format, Error> {
    input.head()?;
    let (whole, cut) = (input.head_is_all(), input.is_cut());
    let path = input.path.clone();
    let bytes = input.head()?;
    if bytes.strip_prefix(BOM).unwrap_or(bytes).iter().all(u8::is_ascii_whitespace) {
        let why = match (bytes.is_empty(), cut) {
            (_, true) => "the compressed file is cut off before its first record",
            (true, false) => "the file is empty",
            (false, false) => "blank lines only",
        };
        return Err(Error::Empty { path, why: why.into() });
    }
    let head = Head::new(bytes, whole && !cut);
    let fits: Vec<(&'static Format, Fit)> = FORMATS.iter().map(|f| (f, (f.fit)(&head))).collect();
    let best = |is: fn(&Fit) -> bool| fits.iter().filter(|(_, fit)| is(fit)).map(|(f, _)| *f).collect::<Vec<_>>();
    let best =
        [best(|fit| *fit == Fit::Yes), best(|fit| *fit == Fit::Mostly), best(|fit| matches!(fit, Fit::Maybe(_)))];
    match best.into_iter().find(|formats| !formats.is_empty()).as_deref() {
        Some([one]) => Ok(one),
        None if is_utf16(bytes) => Err(Error::Utf16 { path }),
        None if formats::fio::is_series(&head) => Err(Error::FioSeries { path }),
        None => {
            let binary = bytes.iter().take(4096).any(|&b| b < 9);
            let why = if binary {
                format!(
                    "binary content of no known trace format (it begins with {:02x?})",
                    &bytes[..bytes.len().min(8)]
                )
            } else {
                format!(
                    "most of its first lines fit no known trace format (the first is `{}`)",
                    shown(head.lines.first().unwrap_or(&&b""[..]))
                )
            };
            Err(Error::UnknownFormat { path, why, known: names(FORMATS) })
        }
        Some(several) => {
            let why = fits
                .iter()
                .find_map(|(_, fit)| if let Fit::Maybe(why) = fit { Some(*why) } else { None })
                .unwrap_or("the columns fit each of them");
            Err(Error::Ambiguous { path, candidates: names(several.iter().copied()), why: why.to_string() })
        }
    }
}
