// SPDX-License-Identifier: MIT OR Apache-2.0
//! Binary blktrace, version 7: one stream of events per CPU, in the byte order of the traced machine.
//!
//! Each event has 48 bytes, followed by `pdu_len` bytes of payload:
//!
//! | bytes | field |
//! |---|---|
//! | 0-3 | magic 0x65617407: "eat" and version 7 |
//! | 4-7 | sequence number |
//! | 8-15 | time, ns |
//! | 16-23 | sector |
//! | 24-27 | bytes |
//! | 28-31 | action: event in the low 16 bits, category flags in the high 16 |
//! | 32-35 | pid |
//! | 36-39 | device: major << 20, minor |
//! | 40-43 | CPU |
//! | 44-45 | error: 0, or what a completion failed with, as the kernel counts errors or negative |
//! | 46-47 | pdu_len |
//!
//! The streams are merged by time and paired (`pairing`). The CPU numbers in the events are not used, so wrong ones do
//! no harm.

use std::path::{Path, PathBuf};

use linnet_types::{IoRecord, Op};

use super::pairing::{Act, Event, Pairing};
use crate::error::{At, Bad, Error};
use crate::format::{Clock, Fit, Format, Head, Opening, Report, Source};
use crate::input::Input;
use crate::text::Out;

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const EVENT_BYTES: usize = 48;

const CATEGORY_WRITE: u32 = 1 << 17;
const CATEGORY_FLUSH: u32 = 1 << 18;
const CATEGORY_PASSTHROUGH: u32 = 1 << 25;
const CATEGORY_NOTIFY: u32 = 1 << 26;
const CATEGORY_DISCARD: u32 = 1 << 29;
/// The low byte of an action; bit 8 marks a control-group id in the payload.
const ACT_MASK: u32 = 0xff;

pub(crate) const FORMAT: Format = Format {
    name: "blktrace",
    about: "binary blktrace version 7, either byte order: a file X.blktrace.N with its siblings, or a directory of them",
    has_latency: true,
    clock: Clock::Shared,
    fit: |head: &Head| if order(head.bytes).is_ok() { Fit::Yes } else { Fit::No },
    open,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// The byte order of an event, from its magic; otherwise the value found instead of the magic.
fn order(event: &[u8]) -> Result<Order, u32> {
    let Some(bytes) = event.first_chunk::<4>() else { return Err(0) };
    let (little, big) = (u32::from_le_bytes(*bytes), u32::from_be_bytes(*bytes));
    match MAGIC | VERSION {
        magic if magic == little => Ok(Order::Little),
        magic if magic == big => Ok(Order::Big),
        _ => Err(little),
    }
}

/// Splits `X.blktrace.N`, with or without a compression suffix, into X and N.
fn stem(path: &Path) -> Option<(Vec<u8>, u32)> {
    const WORD: &[u8] = b".blktrace.";
    let name = path.file_name()?.as_encoded_bytes();
    let name = name.strip_suffix(b".zst").or_else(|| name.strip_suffix(b".gz")).unwrap_or(name);
    let at = name.windows(WORD.len()).rposition(|w| w == WORD)?;
    let cpu = std::str::from_utf8(&name[at + WORD.len()..]).ok()?;
    Some((name[..at].to_vec(), cpu.parse().ok()?))
}

/// The files that a path means: the file itself, all siblings of an `X.blktrace.N`, or all such files of a directory.
pub(crate) fn family(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Open { path: path.to_path_buf(), source };
    let directory = path.is_dir();
    let own = stem(path);
    if !directory && own.is_none() {
        return Ok(vec![path.to_path_buf()]);
    }
    let folder =
        if directory { path } else { path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")) };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let candidate = entry.map_err(failed)?.path();
        if let Some((stem, cpu)) = stem(&candidate)
            && own.as_ref().is_none_or(|(wanted, _)| *wanted == stem)
        {
            files.push((stem, cpu, candidate));
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(if directory {
            Error::Empty { path: path.to_path_buf(), why: "the directory has no file X.blktrace.N".into() }
        } else {
            failed(std::io::ErrorKind::NotFound.into())
        });
    }
    Ok(files.into_iter().map(|(_, _, file)| file).collect())
}

/// One event, decoded.
struct Raw {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    error: u16,
}

/// One per-CPU file, with its next event decoded.
struct Stream {
    input: Input,
    order: Option<Order>,
    at: u64,
    head: Option<Raw>,
}

impl Stream {
    /// Decodes the next event and skips its payload.
    fn advance(&mut self) -> Result<(), Error> {
        self.at = self.input.byte_offset();
        let path = self.input.path.clone();
        self.head = None;
        let Some(event) = self.input.take(EVENT_BYTES)? else { return Ok(()) };
        let found = order(event);
        let expected = *self.order.get_or_insert(found.unwrap_or(Order::Little));
        if found != Ok(expected) {
            let word = found.err().unwrap_or_default();
            let problem = if word & 0xffff_ff00 == MAGIC || word.swap_bytes() & 0xffff_ff00 == MAGIC {
                "is another version of blktrace than 7"
            } else {
                "is not the magic word of a blktrace event"
            };
            return Err(Bad::of("magic", format_args!("{word:#010x}"), problem).refuse(
                &path,
                At::Byte(self.at),
                FORMAT.name,
            ));
        }
        let u32_at = |at: usize| {
            let bytes = event[at..at + 4].try_into().expect("four bytes");
            if expected == Order::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
        };
        let u64_at = |at: usize| {
            let bytes = event[at..at + 8].try_into().expect("eight bytes");
            if expected == Order::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
        };
        let u16_at = |at: usize| {
            let bytes = [event[at], event[at + 1]];
            if expected == Order::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
        };
        let pdu = u16_at(46);
        let raw = Raw {
            time_ns: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action: u32_at(28),
            device: u32_at(36),
            error: u16_at(44),
        };
        if pdu > 0 && self.input.take(usize::from(pdu))?.is_none() && !self.input.accept_cut() {
            return Err(Error::Truncated {
                path,
                at: At::Byte(self.at),
                what: format!("its payload of {pdu} bytes is missing"),
            });
        }
        self.head = Some(raw);
        Ok(())
    }
}

fn open(opening: Opening) -> Result<Box<dyn Source>, Error> {
    let mut streams = Vec::new();
    for input in opening.inputs {
        let mut stream = Stream { input, order: None, at: 0, head: None };
        stream.advance()?;
        streams.push(stream);
    }
    let mut source = Blktrace {
        streams,
        pairing: Pairing::default(),
        out: Out::default(),
        at: 0,
        ended: false,
        lenient: opening.lenient,
    };
    let count = source.streams.len();
    let empty = source.streams.iter().filter(|s| s.head.is_none()).count();
    if empty == count {
        let path = source.streams[0].input.path.clone();
        return Err(Error::Empty { path, why: "no event in any of its files".into() });
    }
    if empty > 0 {
        source.out.warnings.push(format!("{empty} of {count} per-CPU files are empty"));
    }
    Ok(Box::new(source))
}

struct Blktrace {
    streams: Vec<Stream>,
    pairing: Pairing,
    out: Out,
    at: u64,
    ended: bool,
    lenient: bool,
}

impl Blktrace {
    fn take(&mut self, raw: &Raw) -> Result<(), Bad> {
        let act = raw.action & ACT_MASK;
        if raw.action & CATEGORY_NOTIFY != 0 {
            self.out.skip("notify event");
            return Ok(());
        }
        let act = match act {
            1 => Act::Queue,
            6 => Act::Requeue,
            7 => Act::Issue,
            8 => Act::Complete,
            2..=5 | 9..=19 => return Ok(()),
            _ => return Err(Bad::of("action", format_args!("{:#010x}", raw.action), "is not an event of blktrace")),
        };
        let counted = act == Act::Complete;
        let other = if raw.action & CATEGORY_PASSTHROUGH != 0 {
            Some("passthrough command")
        } else if raw.action & CATEGORY_DISCARD != 0 {
            Some("discard")
        } else if raw.bytes == 0 {
            Some(if raw.action & CATEGORY_FLUSH != 0 { "flush" } else { "zero size" })
        } else {
            None
        };
        if let Some(reason) = other {
            if counted {
                self.out.skip(reason);
            }
            return Ok(());
        }
        let op = if raw.action & CATEGORY_WRITE != 0 { Op::Write } else { Op::Read };
        let event = Event {
            act,
            time_ns: raw.time_ns,
            device: raw.device,
            sector: raw.sector,
            size_bytes: u64::from(raw.bytes),
            op,
            failed: counted && raw.error != 0,
        };
        self.pairing.event(&event, &mut self.out)
    }
}

impl Source for Blktrace {
    fn next(&mut self) -> Result<Option<IoRecord>, Error> {
        loop {
            if let Some(record) = self.out.pop() {
                return Ok(Some(record));
            }
            let earliest =
                (0..self.streams.len()).filter_map(|i| self.streams[i].head.as_ref().map(|raw| (raw.time_ns, i))).min();
            let Some((_, index)) = earliest else {
                if self.ended {
                    return Ok(None);
                }
                self.ended = true;
                self.pairing.end(&mut self.out);
                let cut = self.streams.iter().filter(|s| s.input.is_cut()).count();
                if cut > 0 {
                    self.out.skip_many("truncated", cut as u64);
                }
                continue;
            };
            self.at = self.streams[index].at;
            let raw = self.streams[index].head.take().expect("the stream with the earliest event");
            if let Err(bad) = self.take(&raw) {
                if !self.lenient {
                    return Err(bad.place(&self.streams[index].input.path, At::Byte(self.at), FORMAT.name));
                }
                self.out.skip("malformed");
            }
            self.streams[index].advance()?;
        }
    }

    fn at(&self) -> At {
        At::Byte(self.at)
    }

    fn report(&self) -> Report {
        self.out.report()
    }
}
