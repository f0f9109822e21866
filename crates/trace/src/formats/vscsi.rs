// SPDX-License-Identifier: MIT OR Apache-2.0
//! VMware vscsiStats traces: little-endian records without file header.
//!
//! Version 1, 32 bytes: u32 serial, u32 length_bytes, u32 scatter-gather entries, u16 command, u16 version, u64 lbn,
//! u64 time_us. Version 2, 40 bytes: u16 command, u16 version, u32 serial, u32 length_bytes, u32 entries, u64 lbn, u64
//! time_us, u64 response time. The high byte of `version` holds the number, the low byte of `command` the SCSI opcode.
//! The unit of version 2's response time is not documented, so it is not read; a warning says so.

use linnet_types::{IoRecord, Op};

use crate::error::{At, Bad, Error};
use crate::format::{Clock, Fit, Format, Head, Opening, Report, Source};
use crate::input::Input;
use crate::text::{Out, SECTOR_BYTES};

pub(crate) const FORMAT: Format = Format {
    name: "vscsi",
    about: "VMware vscsiStats, binary, version 1 (32-byte records) or 2 (40-byte records, response time not read)",
    has_latency: false,
    clock: Clock::Own,
    fit,
    open,
};

/// Read and write commands of 6, 10, 12 and 16 bytes.
pub(crate) fn op(opcode: u8) -> Option<Op> {
    match opcode {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Op::Write),
        _ => None,
    }
}

/// The positions of the fields in a record of one version.
struct Layout {
    version: u8,
    record_bytes: usize,
    length: usize,
    command: usize,
    lbn: usize,
    time: usize,
}

const V1: Layout = Layout { version: 1, record_bytes: 32, length: 4, command: 12, lbn: 16, time: 24 };
const V2: Layout = Layout { version: 2, record_bytes: 40, length: 8, command: 0, lbn: 16, time: 24 };

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Layout {
    fn version_of(&self, record: &[u8]) -> u8 {
        (u16_at(record, self.command + 2) >> 8) as u8
    }

    /// True if the first records (up to 64) have this version.
    fn fits(&self, head: &[u8]) -> bool {
        let mut records = head.chunks_exact(self.record_bytes).take(64).peekable();
        records.peek().is_some()
            && records.all(|r| self.version_of(r) == self.version && u16_at(r, self.command) < 0x100)
    }
}

fn layout(head: &[u8]) -> Option<&'static Layout> {
    [&V1, &V2].into_iter().find(|l| l.fits(head))
}

fn fit(head: &Head) -> Fit {
    let text = head.bytes.iter().take(64).all(|b| (9..127).contains(b));
    if !text && layout(head.bytes).is_some() { Fit::Yes } else { Fit::No }
}

fn open(opening: Opening) -> Result<Box<dyn Source>, Error> {
    let (mut input, lenient) = opening.single()?;
    let path = input.path.clone();
    let mut out = Out::default();
    let head = input.head()?;
    if head.is_empty() {
        return Err(Error::Empty { path, why: "the file is empty".into() });
    }
    let Some(layout) = layout(head) else {
        let bad = Bad::new("version", &head[..head.len().min(20)], "is neither version 1 nor version 2 of vscsiStats");
        return Err(bad.refuse(&path, At::Byte(0), FORMAT.name));
    };
    if layout.version == 2 {
        out.warnings.push("vscsi version 2: response times are left out, because their unit is not documented".into());
    }
    Ok(Box::new(Vscsi { input, layout, out, at: 0, lenient }))
}

struct Vscsi {
    input: Input,
    layout: &'static Layout,
    out: Out,
    at: u64,
    lenient: bool,
}

impl Vscsi {
    fn take(&mut self) -> Result<bool, Error> {
        self.at = self.input.byte_offset();
        let Some(record) = self.input.take(self.layout.record_bytes)? else {
            if self.input.is_cut() && self.out.skipped("truncated") == 0 {
                self.out.skip("truncated");
            }
            return Ok(false);
        };
        let version = self.layout.version_of(record);
        let command = u16_at(record, self.layout.command);
        let size = u64::from(u32_at(record, self.layout.length));
        let lbn = u64_at(record, self.layout.lbn);
        let time_us = u64_at(record, self.layout.time);
        let taken = if version != self.layout.version {
            Err(Bad::of("version", version, "differs from that of the first record"))
        } else {
            match (op(command as u8), lbn.checked_mul(SECTOR_BYTES), time_us.checked_mul(1000)) {
                (None, ..) => {
                    self.out.skip("other SCSI command");
                    Ok(())
                }
                (Some(op), Some(offset), Some(time_ns)) => self.out.record(time_ns, None, op, offset, size, 0),
                (_, None, _) => Err(Bad::of("lbn", lbn, "sectors overflow 64 bits")),
                (_, _, None) => Err(Bad::of("time", time_us, "us overflow 64 bits of nanoseconds")),
            }
        };
        match taken {
            Err(_) if self.lenient => self.out.skip("malformed"),
            Err(bad) => return Err(bad.place(&self.input.path, At::Byte(self.at), FORMAT.name)),
            Ok(()) => {}
        }
        Ok(true)
    }
}

impl Source for Vscsi {
    fn next(&mut self) -> Result<Option<IoRecord>, Error> {
        loop {
            if let Some(record) = self.out.pop() {
                return Ok(Some(record));
            }
            if !self.take()? {
                return Ok(None);
            }
        }
    }

    fn at(&self) -> At {
        At::Byte(self.at)
    }

    fn report(&self) -> Report {
        self.out.report()
    }
}
