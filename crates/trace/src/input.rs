// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the bytes of a trace file. gzip and zstd are detected by their magic bytes, whatever the file is called. Lines
//! and binary records come from one buffer of fixed size.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{At, Error};
use crate::gzip::Members;
use crate::teller::Teller;

/// Longest line of a text trace. The longest real ones (blkparse with a process name) have about 120 bytes.
pub(crate) const LINE_MAX: usize = 64 * 1024;
/// How much of a file detection reads, after decompression.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;
const BUFFER_BYTES: usize = 256 * 1024;
/// What some programs put before text in UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";
/// Bytes that show whether text is in UTF-16.
const UTF16_BYTES: usize = 64;

/// True if text begins as UTF-16 does: with its mark, or with every other byte 0.
pub(crate) fn is_utf16(text: &[u8]) -> bool {
    let text = &text[..text.len().min(UTF16_BYTES)];
    let zeros = |from: usize| text.len() > 3 && text.iter().skip(from).step_by(2).all(|&b| b == 0);
    text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") || zeros(0) != zeros(1)
}

/// True for the first bytes of a zstd stream, which may begin with a frame to be skipped (RFC 8878, 3.1).
fn is_zstd(magic: &[u8]) -> bool {
    magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || matches!(magic, [first, 0x2a, 0x4d, 0x18, ..] if (0x50..=0x5f).contains(first))
}

/// The error of a decompressor, with what to do where that is known.
fn advised(error: std::io::Error) -> std::io::Error {
    // A number of zstd's public interface, as the library returns it: frameParameter_windowTooLarge.
    const WINDOW_TOO_LARGE: usize = 0usize.wrapping_sub(16);
    if error.to_string() != zstd::zstd_safe::get_error_name(WINDOW_TOO_LARGE) {
        return error;
    }
    std::io::Error::other(
        "its zstd data need a window of more than 128 MiB, as `zstd --long` makes them; \
         decompress them first, with `zstd -dc --long=31`",
    )
}

/// Counts the bytes read from the file, before decompression, for the progress report.
struct Metered {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Metered {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read(into)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A file as it is, or decompressed.
enum Content<R> {
    Plain(R),
    Unpacked(Box<dyn Read + Send>),
}

/// The content of a file of which the buffer holds the beginning.
fn unpacked<R: Read + Send + 'static>(plain: BufReader<R>) -> std::io::Result<Content<BufReader<R>>> {
    let magic = plain.buffer();
    Ok(if magic.starts_with(&[0x1f, 0x8b]) {
        Content::Unpacked(Box::new(Members::new(plain)))
    } else if is_zstd(magic) {
        Content::Unpacked(Box::new(zstd::stream::read::Decoder::with_buffer(plain)?))
    } else {
        Content::Plain(plain)
    })
}

/// Why a compressed file cannot be read to its end, where its checksum is. `None` for one that can, that is cut off
/// or not compressed, for a pipe, and if the reading is stopped.
pub(crate) fn damage(path: &Path, teller: &Teller) -> Option<std::io::Error> {
    if !path.is_file() {
        return None;
    }
    let mut plain = BufReader::new(File::open(path).ok()?);
    plain.fill_buf().ok()?;
    let Content::Unpacked(mut reader) = unpacked(plain).ok()? else { return None };
    let mut dropped = vec![0; BUFFER_BYTES];
    loop {
        match reader.read(&mut dropped) {
            Ok(n) if n > 0 && teller.read(n as u64) => {}
            Ok(_) => return None,
            Err(error) if error.kind() == ErrorKind::Interrupted && teller.go_on() => {}
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::UnexpectedEof) => return None,
            Err(error) => return Some(advised(error)),
        }
    }
}

/// One opened trace file. Readers get the bytes of [`Input::head`] again.
pub(crate) struct Input {
    pub path: PathBuf,
    /// Bytes read so far, as stored.
    pub meter: Arc<AtomicU64>,
    /// Size of the file as stored.
    pub total_bytes: u64,
    /// It can be read only once, from its beginning.
    pub is_pipe: bool,
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `buffer[start]` in the decompressed stream.
    offset: u64,
    line: u64,
    eof: bool,
    terminated: bool,
    lenient: bool,
    cut: bool,
    /// Asked whether to go on, once the trace is open.
    pub teller: Teller,
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path, lenient: bool) -> Result<Input, Error> {
        let path = if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { path };
        let failed = |source| Error::Open { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_dir() {
            return Err(failed(std::io::Error::new(ErrorKind::IsADirectory, "a directory, not a trace file")));
        }
        let meter = Arc::new(AtomicU64::new(0));
        let mut plain = BufReader::with_capacity(128 * 1024, Metered { file, bytes: meter.clone() });
        plain.fill_buf().map_err(failed)?;
        let reader = match unpacked(plain).map_err(failed)? {
            Content::Plain(plain) => Box::new(plain),
            Content::Unpacked(reader) => reader,
        };
        Ok(Input {
            path: path.to_path_buf(),
            meter,
            total_bytes: about.len(),
            is_pipe: !about.is_file(),
            reader,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            offset: 0,
            line: 0,
            eof: false,
            terminated: true,
            lenient,
            cut: false,
            teller: Teller::default(),
        })
    }

    /// The first bytes of the file, at most [`HEAD_BYTES`]. Must be called before anything else is read.
    pub fn head(&mut self) -> Result<&[u8], Error> {
        while !self.eof && self.end - self.start < HEAD_BYTES {
            self.fill(At::Byte((self.end - self.start) as u64))?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + HEAD_BYTES)])
    }

    /// True when [`Input::head`] was the whole file.
    pub fn head_is_all(&self) -> bool {
        self.eof && self.end - self.start <= HEAD_BYTES
    }

    /// True if the file ends early, as far as it was read: a compressed stream, or, in lenient reading, a record.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The end of the file, which is an error if a compressed stream was cut off there and reading is not lenient.
    fn end(&self, at: At) -> Result<(), Error> {
        if self.cut && !self.lenient {
            return Err(Error::CutOff { path: self.path.clone(), at, records: 0 });
        }
        Ok(())
    }

    /// Accepts that the file ends early, if reading is lenient.
    pub fn accept_cut(&mut self) -> bool {
        self.cut |= self.lenient;
        self.cut
    }

    /// Reads more bytes into the buffer and moves the unread ones to its front.
    fn fill(&mut self, at: At) -> Result<(), Error> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.eof = true,
                Ok(n) => {
                    self.end += n;
                    if !self.teller.read(n as u64) {
                        return Err(Error::Stopped { path: self.path.clone() });
                    }
                }
                // A signal, while a pipe is waited for.
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    if self.teller.go_on() {
                        continue;
                    }
                    return Err(Error::Stopped { path: self.path.clone() });
                }
                // What came before is good; the end of it is an error, or not ([`Input::end`]).
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.eof = true;
                    self.cut = true;
                }
                Err(error) => {
                    return Err(Error::Read { path: self.path.clone(), at, source: advised(error) });
                }
            }
            return Ok(());
        }
    }

    /// The next line without its end (`\n` or `\r\n`), or `None` after the last one. A byte order mark is skipped.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, Error> {
        let mut searched = 0;
        let (length, skip) = loop {
            let seen = &self.buffer[self.start..self.end];
            if let Some(found) = memchr::memchr(b'\n', &seen[searched..]) {
                break (searched + found, 1);
            }
            searched = seen.len();
            if searched > LINE_MAX {
                return Err(Error::LongLine { path: self.path.clone(), at: At::Line(self.line + 1), limit: LINE_MAX });
            }
            if self.eof {
                self.end(At::Line(self.line + 1))?;
                self.terminated &= searched == 0;
                // What is left of a line that was cut may pass for a record, with a number that lost its last digits.
                if searched == 0 || self.cut {
                    return Ok(None);
                }
                break (searched, 0);
            }
            self.fill(At::Line(self.line + 1))?;
        };
        if length > LINE_MAX {
            return Err(Error::LongLine { path: self.path.clone(), at: At::Line(self.line + 1), limit: LINE_MAX });
        }
        let begin = self.start;
        self.start += length + skip;
        self.offset += (length + skip) as u64;
        self.line += 1;
        let mut line = &self.buffer[begin..begin + length];
        if self.line == 1 {
            if is_utf16(line) {
                return Err(Error::Utf16 { path: self.path.clone() });
            }
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The next `length` bytes; `None` at the end of the file; an error if fewer are left. At most 64 KiB.
    pub fn take(&mut self, length: usize) -> Result<Option<&[u8]>, Error> {
        debug_assert!(length <= LINE_MAX);
        while self.end - self.start < length && !self.eof {
            self.fill(At::Byte(self.offset))?;
        }
        let left = self.end - self.start;
        if left < length {
            self.end(At::Byte(self.offset))?;
            if left == 0 {
                return Ok(None);
            }
            if self.lenient {
                self.cut = true;
                self.start = self.end;
                return Ok(None);
            }
            return Err(Error::Truncated {
                path: self.path.clone(),
                at: At::Byte(self.offset),
                what: format!("{left} of {length} bytes are there"),
            });
        }
        let begin = self.start;
        self.start += length;
        self.offset += length as u64;
        Ok(Some(&self.buffer[begin..begin + length]))
    }

    /// Number of the line that was returned last, from 1.
    pub fn line_number(&self) -> u64 {
        self.line
    }

    /// Decompressed bytes returned so far.
    pub fn byte_offset(&self) -> u64 {
        self.offset
    }

    /// False if the last line had no line end; it is not returned if it was cut.
    pub fn line_was_terminated(&self) -> bool {
        self.terminated
    }
}
