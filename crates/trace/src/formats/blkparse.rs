// SPDX-License-Identifier: MIT OR Apache-2.0
//! Default text output of blkparse, complete or reduced to some of its events: `maj,min cpu seq time_s pid action rwbs
//! [sector + sectors] [process]`.
//!
//! A completion ends with `[error]` in the place of the process, after its duration in parentheses if it was measured.
//! Only Q, D, R and C events make I/Os (`pairing`). Flushes and discards are counted once, at their completion. The
//! summary at the end ("CPU0 (sda):" and everything after it) is not read.

use linnet_types::Op;

use super::pairing::{Act, Event, Pairing};
use super::{all_lines, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, SECTOR_BYTES, decimal, integer, present, time, whole};

pub(crate) const FORMAT: Format = Format {
    name: "blkparse",
    about: "text of blkparse: maj,min cpu seq time_s pid action rwbs sector + sectors [process]",
    has_latency: true,
    clock: Clock::Own,
    fit,
    open: text_source!("blkparse", Blkparse::default()),
};

#[derive(Default)]
struct Blkparse {
    pairing: Pairing,
    summary: bool,
}

/// The operation of an I/O, from its flags (`RS`, `WFSM`, `FWS`, `D`, ...).
pub(super) enum Kind {
    Data(Op),
    Discard,
    Flush,
}

fn kind(rwbs: &[u8]) -> Kind {
    if rwbs.contains(&b'D') {
        Kind::Discard
    } else if rwbs.contains(&b'R') {
        Kind::Data(Op::Read)
    } else if rwbs.contains(&b'W') {
        Kind::Data(Op::Write)
    } else {
        Kind::Flush
    }
}

fn device(text: &[u8]) -> Option<u32> {
    let comma = text.iter().position(|&b| b == b',')?;
    let major = u32::try_from(integer(&text[..comma])?).ok().filter(|&m| m < 1 << 12)?;
    let minor = u32::try_from(integer(&text[comma + 1..])?).ok().filter(|&m| m < 1 << 20)?;
    Some(major << 20 | minor)
}

/// The error at the end of a completion, `[5]`, which is a number of 16 bits or negative; 0 where it has none.
fn error(fields: &mut Fields) -> u64 {
    let last = std::iter::from_fn(|| fields.blank()).last();
    let number = last.and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    number.and_then(|text| integer(text.strip_prefix(b"-").unwrap_or(text))).unwrap_or(0)
}

impl LineFormat for Blkparse {
    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        if self.summary {
            return Ok(());
        }
        let mut fields = Fields::new(line);
        let text = present(fields.blank(), "device")?;
        let Some(device) = device(text) else {
            if text.starts_with(b"CPU") || text.starts_with(b"Total") || text.starts_with(b"Throughput") {
                self.summary = true;
                return Ok(());
            }
            return Err(Bad::new("device", text, "is not major,minor"));
        };
        whole(fields.blank(), "cpu")?;
        whole(fields.blank(), "sequence")?;
        let time_ns = time(fields.blank(), "time", 9)?;
        whole(fields.blank(), "pid")?;
        let action = present(fields.blank(), "action")?;
        let act = match action {
            b"Q" => Act::Queue,
            b"D" => Act::Issue,
            b"R" => Act::Requeue,
            b"C" => Act::Complete,
            b"G" | b"I" | b"M" | b"F" | b"P" | b"U" | b"UT" | b"X" | b"A" | b"B" | b"S" | b"T" | b"m" => return Ok(()),
            other => return Err(Bad::new("action", other, "is not an action of blkparse")),
        };
        let rwbs = present(fields.blank(), "rwbs")?;
        let counted = act == Act::Complete;
        let op = match kind(rwbs) {
            Kind::Data(op) => op,
            Kind::Discard | Kind::Flush if !counted => return Ok(()),
            Kind::Discard => {
                out.skip("discard");
                return Ok(());
            }
            Kind::Flush => {
                out.skip("flush");
                return Ok(());
            }
        };
        let place = present(fields.blank(), "sector")?;
        // A passthrough command completes without a sector: its bytes in brackets, if any, and its error.
        if place.starts_with(b"(") || place.starts_with(b"[") {
            if counted {
                out.skip("passthrough command");
            }
            return Ok(());
        }
        let sector = integer(place).ok_or_else(|| Bad::new("sector", place, "is not a whole number"))?;
        match fields.blank() {
            Some(b"+") => {}
            other => {
                // Without a count, there is no data (the duration may be in brackets), or it is the issue of a
                // passthrough command, whose bytes come first.
                let text = other.unwrap_or(b"");
                if text.starts_with(b"(") || text.starts_with(b"[") {
                    if counted {
                        out.skip("zero size");
                    }
                    return Ok(());
                }
                return Err(Bad::new("sectors", text, "should be `+` and a count"));
            }
        }
        let sectors = whole(fields.blank(), "sectors")?;
        let size_bytes =
            sectors.checked_mul(SECTOR_BYTES).ok_or_else(|| Bad::of("sectors", sectors, "overflow 64 bits"))?;
        if size_bytes == 0 {
            if counted {
                out.skip("zero size");
            }
            return Ok(());
        }
        let failed = counted && error(&mut fields) != 0;
        self.pairing.event(&Event { act, time_ns, device, sector, size_bytes, op, failed }, out)
    }

    fn end(&mut self, out: &mut Out) {
        self.pairing.end(out);
    }
}

fn fit(head: &Head) -> Fit {
    // In a short trace the summary may come early.
    let first: Vec<&[u8]> = head.some(0, 20).iter().copied().take_while(|l| !l.starts_with(b"CPU")).collect();
    let is_event = |line: &[u8]| {
        let mut fields = Fields::new(line);
        let mut next = || fields.blank().unwrap_or(b"");
        device(next()).is_some()
            && integer(next()).is_some()
            && integer(next()).is_some()
            && decimal(next(), 9).is_some()
            && integer(next()).is_some()
            && (1..=2).contains(&next().len())
    };
    let events = Head { bytes: head.bytes, lines: first };
    all_lines(&events, 0, is_event)
}
