// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared by all text formats: fields, and the loop over lines.

use std::collections::{BTreeMap, VecDeque};

use linnet_types::{IoRecord, Nanos, Op};

use crate::error::{At, Bad, Error};
use crate::format::{Report, Source};
use crate::input::Input;
pub(crate) use crate::numbers::{decimal, integer};
use crate::read::LATENCY_MAX_NS;

/// Bytes of a sector, the unit of most traces' offsets.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// An I/O as read from a line of a file.
pub(crate) struct Found {
    pub arrive_ns: Nanos,
    pub latency_ns: Option<Nanos>,
    pub op: Op,
    pub offset_bytes: u64,
    pub size_bytes: u64,
    pub device: u32,
    pub tenant: u32,
}

/// Refuses a latency that no writer takes.
pub(crate) fn check_latency(latency_ns: Option<Nanos>) -> Result<(), Bad> {
    match latency_ns {
        Some(ns) if ns > LATENCY_MAX_NS => Err(Bad::of("latency_ns", ns, "is beyond 2^63 - 1 ns")),
        _ => Ok(()),
    }
}

/// Finished records, and counts of what was left out.
#[derive(Default)]
pub(crate) struct Out {
    ready: VecDeque<IoRecord>,
    skipped: Vec<(&'static str, u64)>,
    pub warnings: Vec<String>,
    latest_ns: Nanos,
    reordered: u64,
}

impl Out {
    /// Counts one event or record that makes no I/O.
    pub fn skip(&mut self, reason: &'static str) {
        self.skip_many(reason, 1);
    }

    pub fn skip_many(&mut self, reason: &'static str, count: u64) {
        match self.skipped.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, n)) => *n = n.saturating_add(count),
            None => self.skipped.push((reason, count)),
        }
    }

    pub fn skipped(&self, reason: &str) -> u64 {
        self.skipped.iter().find(|(known, _)| *known == reason).map_or(0, |(_, n)| *n)
    }

    /// Records the time of an event, to count how many come after a later one.
    pub fn saw(&mut self, time_ns: Nanos) {
        if time_ns < self.latest_ns {
            self.reordered += 1;
        } else {
            self.latest_ns = time_ns;
        }
    }

    /// [`Out::found`] for a format without tenants.
    pub fn record(
        &mut self,
        arrive_ns: Nanos,
        latency_ns: Option<Nanos>,
        op: Op,
        offset_bytes: u64,
        size_bytes: u64,
        device: u32,
    ) -> Result<(), Bad> {
        self.found(Found { arrive_ns, latency_ns, op, offset_bytes, size_bytes, device, tenant: 0 })
    }

    /// Outputs one I/O of the file; sizes, offsets and latencies are checked here for every format.
    pub fn found(&mut self, found: Found) -> Result<(), Bad> {
        let Found { arrive_ns, latency_ns, op, offset_bytes, size_bytes, device, tenant } = found;
        if size_bytes == 0 {
            self.skip("zero size");
            return Ok(());
        }
        let size =
            u32::try_from(size_bytes).map_err(|_| Bad::of("size", size_bytes, "is more than 4 GiB for one I/O"))?;
        if offset_bytes.checked_add(size_bytes).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Bad::of("offset", offset_bytes, "lies beyond 8 EiB"));
        }
        check_latency(latency_ns)?;
        self.saw(arrive_ns);
        self.ready.push_back(IoRecord { arrive_ns, latency_ns, offset_bytes, size_bytes: size, device, tenant, op });
        Ok(())
    }

    /// Outputs an I/O that was checked and counted before (paired events).
    pub fn ready(&mut self, record: IoRecord) {
        self.ready.push_back(record);
    }

    pub fn pop(&mut self) -> Option<IoRecord> {
        self.ready.pop_front()
    }

    pub fn report(&self) -> Report {
        let skipped: BTreeMap<String, u64> = self.skipped.iter().map(|&(why, n)| (why.to_string(), n)).collect();
        Report { skipped, warnings: self.warnings.clone(), reordered: self.reordered, clock: None }
    }
}

/// The fields of one line.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    done: bool,
}

impl<'a> Fields<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        Fields { rest: line, done: false }
    }

    /// Next field before a comma, trimmed.
    pub fn comma(&mut self) -> Option<&'a [u8]> {
        if self.done {
            return None;
        }
        let field = match self.rest.iter().position(|&b| b == b',') {
            Some(comma) => {
                let field = &self.rest[..comma];
                self.rest = &self.rest[comma + 1..];
                field
            }
            None => {
                self.done = true;
                self.rest
            }
        };
        Some(field.trim_ascii())
    }

    /// Next field before a blank.
    pub fn blank(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|b| !matches!(b, b' ' | b'\t'))?;
        let rest = &self.rest[start..];
        let end = rest.iter().position(|b| matches!(b, b' ' | b'\t')).unwrap_or(rest.len());
        self.rest = &rest[end..];
        Some(&rest[..end])
    }
}

/// A required field.
pub(crate) fn present<'a>(field: Option<&'a [u8]>, name: &'static str) -> Result<&'a [u8], Bad> {
    match field {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(Bad::new(name, b"", "is missing")),
    }
}

/// A field that must be an integer.
pub(crate) fn whole(field: Option<&[u8]>, name: &'static str) -> Result<u64, Bad> {
    let text = present(field, name)?;
    integer(text).ok_or_else(|| Bad::new(name, text, "is not a whole number"))
}

/// A field that must be a 32-bit integer.
pub(crate) fn whole32(field: Option<&[u8]>, name: &'static str) -> Result<u32, Bad> {
    let text = present(field, name)?;
    let value = integer(text).ok_or_else(|| Bad::new(name, text, "is not a whole number"))?;
    u32::try_from(value).map_err(|_| Bad::new(name, text, "does not fit 32 bits"))
}

/// A field that must be a time, as nanoseconds; `places` is 9 for seconds, 6 for ms, 3 for us, 0 for ns.
pub(crate) fn time(field: Option<&[u8]>, name: &'static str, places: u32) -> Result<Nanos, Bad> {
    let text = present(field, name)?;
    decimal(text, places).ok_or_else(|| Bad::new(name, text, "is not a time that fits 64 bits of nanoseconds"))
}

/// A count of sectors as bytes.
pub(crate) fn sectors(field: Option<&[u8]>, name: &'static str) -> Result<u64, Bad> {
    let text = present(field, name)?;
    integer(text)
        .and_then(|n| n.checked_mul(SECTOR_BYTES))
        .ok_or_else(|| Bad::new(name, text, "is not a number of 512-byte sectors"))
}

/// A field for read or write, as a word or a letter.
pub(crate) fn op_word(field: Option<&[u8]>, name: &'static str) -> Result<Op, Bad> {
    let text = present(field, name)?;
    match text[0] {
        b'R' | b'r' if text.len() == 1 || text.eq_ignore_ascii_case(b"read") => Ok(Op::Read),
        b'W' | b'w' if text.len() == 1 || text.eq_ignore_ascii_case(b"write") => Ok(Op::Write),
        _ => Err(Bad::new(name, text, "is neither read nor write")),
    }
}

/// A field for read or write, as 1 or 0; `read` is the digit for reads.
pub(crate) fn op_digit(field: Option<&[u8]>, name: &'static str, read: u8) -> Result<Op, Bad> {
    match present(field, name)? {
        [digit @ (b'0' | b'1')] => Ok(if digit - b'0' == read { Op::Read } else { Op::Write }),
        text => Err(Bad::new(name, text, "is neither 0 nor 1")),
    }
}

/// Parses the lines of one text format.
pub(crate) trait LineFormat: Send {
    /// Parses one line that is not empty.
    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad>;

    /// True if a first line names columns; blank ones before it do not count, as in detection.
    fn header(&mut self, _line: &[u8]) -> Result<bool, Bad> {
        Ok(false)
    }

    /// Called after the last line.
    fn end(&mut self, _out: &mut Out) {}
}

/// In lenient reading, the file is refused after this many invalid lines, because it probably has another format.
const MALFORMED_MAX: u64 = 1000;

/// Blank lines in a row; a file with more is no trace. It bounds the time that a compressed file of line ends takes.
const BLANK_MAX: u32 = 1_000_000;

/// A text trace of one format.
pub(crate) struct TextSource<F> {
    input: Input,
    format: F,
    name: &'static str,
    out: Out,
    lenient: bool,
    good: u64,
    blank: u32,
    /// A line was found that is not blank: what follows is no header.
    begun: bool,
    done: bool,
}

impl<F: LineFormat> TextSource<F> {
    pub fn new(input: Input, name: &'static str, lenient: bool, format: F) -> Self {
        TextSource { input, format, name, out: Out::default(), lenient, good: 0, blank: 0, begun: false, done: false }
    }

    fn bad_line(&mut self, bad: Bad) -> Result<(), Error> {
        let at = At::Line(self.input.line_number());
        if !self.input.line_was_terminated() {
            if self.lenient {
                self.out.skip("truncated");
                return Ok(());
            }
            return Err(Error::Truncated {
                path: self.input.path.clone(),
                at,
                what: format!("no line end, and field {}: `{}` {}", bad.field, bad.text, bad.problem),
            });
        }
        let malformed = self.out.skipped("malformed");
        if self.lenient && (malformed < MALFORMED_MAX || malformed < self.good) {
            self.out.skip("malformed");
            return Ok(());
        }
        if self.lenient {
            return Err(bad.refuse(&self.input.path, at, self.name));
        }
        Err(bad.place(&self.input.path, at, self.name))
    }
}

impl<F: LineFormat> Source for TextSource<F> {
    fn next(&mut self) -> Result<Option<IoRecord>, Error> {
        loop {
            if let Some(record) = self.out.pop() {
                return Ok(Some(record));
            }
            if self.done {
                return Ok(None);
            }
            let Some(line) = self.input.next_line()? else {
                self.done = true;
                self.format.end(&mut self.out);
                if self.input.is_cut() {
                    if !self.input.line_was_terminated() {
                        self.out.skip("truncated");
                    }
                    self.out.warnings.push("the compressed file is cut off; what came before was read".into());
                }
                continue;
            };
            if line.is_empty() {
                self.blank += 1;
                if self.blank > BLANK_MAX {
                    let bad = Bad::new("line", b"", "is blank, and so are the 1000000 before it, which is the limit");
                    return Err(bad.refuse(&self.input.path, self.at(), self.name));
                }
                continue;
            }
            self.blank = 0;
            let header = if self.begun { Ok(false) } else { self.format.header(line) };
            self.begun = true;
            let taken = match header {
                Ok(true) => Ok(()),
                Ok(false) => self.format.line(line, &mut self.out),
                // Without its header no line of a file can be read.
                Err(bad) => return Err(bad.refuse(&self.input.path, self.at(), self.name)),
            };
            match taken {
                Ok(()) => self.good += 1,
                Err(bad) => self.bad_line(bad)?,
            }
        }
    }

    fn at(&self) -> At {
        At::Line(self.input.line_number())
    }

    fn report(&self) -> Report {
        self.out.report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lose_their_blanks() {
        let mut fields = Fields::new(b" a , b,,c ");
        let all: Vec<&[u8]> = std::iter::from_fn(|| fields.comma()).collect();
        assert_eq!(all, [&b"a"[..], b"b", b"", b"c"]);
        let mut fields = Fields::new(b"  8,16   5\t 6 ");
        let all: Vec<&[u8]> = std::iter::from_fn(|| fields.blank()).collect();
        assert_eq!(all, [&b"8,16"[..], b"5", b"6"]);
    }
}
