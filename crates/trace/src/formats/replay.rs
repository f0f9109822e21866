// SPDX-License-Identifier: MIT OR Apache-2.0
//! Five columns of numbers, `time device offset size op`, in the units of five families of traces.
//!
//! | name | time | offset, size | op | seen in |
//! |---|---|---|---|---|
//! | `replay-ms-bytes` | ms, decimals | bytes | 1 read, 0 write | cuts of MSR Cambridge |
//! | `replay-ms-sectors` | ms, decimals | sectors | 1 read, 0 write | Microsoft production servers |
//! | `replay-us-sectors` | us, whole | sectors | 1 read, 0 write | the same, prepared for SSDsim |
//! | `disksim` | ms, decimals | sectors | flags, bit 0 read | DiskSim |
//! | `mqsim` | ns, whole | sectors | 1 read, 0 write | MQSim |
//!
//! How the units are detected: times with decimals are in ms. If all offsets and sizes are multiples of 512, they are
//! bytes: read as sectors, every I/O would be a multiple of 256 KiB. Times without decimals are us or ns. The unit that
//! gives a plausible I/O rate (1 to 100,000 per second) is chosen; if both do, the user must name the format. A DiskSim
//! trace whose flags are all 0 or 1 gives the same records as `replay-ms-sectors`.

use super::{EVIDENCE_LINES, share, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, SECTOR_BYTES, decimal, integer, op_digit, time, whole, whole32};
use linnet_types::Op;

/// Mean I/Os per second that are plausible for a trace of one machine.
const PLAUSIBLE_IOPS: std::ops::RangeInclusive<f64> = 1.0..=100_000.0;

pub(crate) const MS_BYTES: Format = Format {
    name: "replay-ms-bytes",
    about: "time_ms device offset_bytes size_bytes op (1 read, 0 write)",
    has_latency: false,
    clock: Clock::Own,
    fit: |head| fit(head, "replay-ms-bytes"),
    open: text_source!("replay-ms-bytes", Replay { places: 6, unit_bytes: 1, flags: false }),
};

pub(crate) const MS_SECTORS: Format = Format {
    name: "replay-ms-sectors",
    about: "time_ms device lba_512 sectors op (1 read, 0 write)",
    has_latency: false,
    clock: Clock::Own,
    fit: |head| fit(head, "replay-ms-sectors"),
    open: text_source!("replay-ms-sectors", Replay { places: 6, unit_bytes: SECTOR_BYTES, flags: false }),
};

pub(crate) const US_SECTORS: Format = Format {
    name: "replay-us-sectors",
    about: "time_us device lba_512 sectors op (1 read, 0 write)",
    has_latency: false,
    clock: Clock::Own,
    fit: |head| fit(head, "replay-us-sectors"),
    open: text_source!("replay-us-sectors", Replay { places: 3, unit_bytes: SECTOR_BYTES, flags: false }),
};

pub(crate) const DISKSIM: Format = Format {
    name: "disksim",
    about: "time_ms device lba_512 sectors flags (bit 0 read)",
    has_latency: false,
    clock: Clock::Own,
    fit: |head| fit(head, "disksim"),
    open: text_source!("disksim", Replay { places: 6, unit_bytes: SECTOR_BYTES, flags: true }),
};

pub(crate) const MQSIM: Format = Format {
    name: "mqsim",
    about: "time_ns device lba_512 sectors op (1 read, 0 write)",
    has_latency: false,
    clock: Clock::Own,
    fit: |head| fit(head, "mqsim"),
    open: text_source!("mqsim", Replay { places: 0, unit_bytes: SECTOR_BYTES, flags: false }),
};

struct Replay {
    /// Decimal places from the unit of time to nanoseconds.
    places: u32,
    unit_bytes: u64,
    flags: bool,
}

impl LineFormat for Replay {
    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        let arrive_ns = time(fields.blank(), "time", self.places)?;
        let device = whole32(fields.blank(), "device")?;
        let offset = whole(fields.blank(), "offset")?;
        let size = whole(fields.blank(), "size")?;
        let op = if self.flags {
            if whole(fields.blank(), "flags")? & 1 == 1 { Op::Read } else { Op::Write }
        } else {
            op_digit(fields.blank(), "op", 1)?
        };
        if let Some(more) = fields.blank() {
            return Err(Bad::new("columns", more, "stands behind the fifth column"));
        }
        let unit = self.unit_bytes;
        let offset_bytes =
            offset.checked_mul(unit).ok_or_else(|| Bad::of("offset", offset, "sectors overflow 64 bits"))?;
        let size_bytes = size.checked_mul(unit).ok_or_else(|| Bad::of("size", size, "sectors overflow 64 bits"))?;
        out.record(arrive_ns, None, op, offset_bytes, size_bytes, device)
    }
}

/// What the five columns show about their units.
#[derive(Default)]
struct Evidence {
    lines: usize,
    /// Lines of five columns.
    rows: usize,
    decimals: bool,
    /// Rows whose offset and size are multiples of 512.
    of_512: usize,
    size_max: u64,
    /// Rows whose last column is neither 0 nor 1.
    flags: usize,
    /// First and last time, in nanoseconds if the unit is a nanosecond.
    first: u64,
    last: u64,
}

/// The time as text and as a number, offset, size and op of a line of five columns.
fn columns(line: &[u8]) -> Option<(&[u8], [u64; 4])> {
    let mut fields = Fields::new(line);
    let time = fields.blank()?;
    let [device, offset, size, op] = [(); 4].map(|()| fields.blank().and_then(integer));
    let whole = fields.blank().is_none() && device? <= u64::from(u32::MAX);
    whole.then_some((time, [decimal(time, 0)?, offset?, size?, op?]))
}

fn gather(head: &Head) -> Evidence {
    let lines = head.some(0, EVIDENCE_LINES);
    let mut seen = Evidence { lines: lines.len(), ..Evidence::default() };
    for (text, [time, offset, size, op]) in lines.iter().filter_map(|line| columns(line)) {
        seen.decimals |= text.contains(&b'.');
        seen.last = time;
        if seen.rows == 0 {
            seen.first = seen.last;
        }
        seen.of_512 += usize::from(offset % 512 == 0 && size % 512 == 0);
        seen.size_max = seen.size_max.max(size);
        seen.flags += usize::from(op > 1);
        seen.rows += 1;
    }
    seen
}

/// The formats that the first lines of the file may have, and, if there are several, why the format is not certain.
fn candidates(seen: &Evidence) -> (Vec<&'static str>, &'static str) {
    let all_of_512 = seen.of_512 == seen.rows;
    // Of numbers of sectors one in 512 is such a multiple, so this is more likely a damaged row among bytes.
    if !all_of_512 && 2 * seen.of_512 > seen.rows && seen.size_max >= 512 {
        let names = if seen.decimals {
            vec!["replay-ms-bytes", "replay-ms-sectors"]
        } else {
            vec!["replay-ms-bytes", "replay-us-sectors", "mqsim"]
        };
        return (
            names,
            "most sizes and offsets are multiples of 512 and some are not, so they may be bytes or sectors",
        );
    }
    if seen.flags > 0 && seen.decimals && !(all_of_512 && seen.size_max >= 512) {
        return (vec!["disksim"], "");
    }
    if all_of_512 {
        // 4096 sectors are 2 MiB: smaller sizes that are all multiples of 512 may be bytes or sectors.
        if seen.size_max >= 4096 && seen.decimals {
            return (vec!["replay-ms-bytes"], "");
        }
        if seen.decimals {
            return (
                vec!["replay-ms-bytes", "replay-ms-sectors"],
                "every size and offset is a multiple of 512, so they may be bytes or sectors",
            );
        }
        return (
            vec!["replay-ms-bytes", "replay-us-sectors", "mqsim"],
            "times have no decimals and every size and offset is a multiple of 512, so neither unit is certain",
        );
    }
    if seen.decimals {
        return (vec!["replay-ms-sectors"], "");
    }
    let gap = seen.last.saturating_sub(seen.first) as f64 / seen.rows.saturating_sub(1).max(1) as f64;
    let as_us = PLAUSIBLE_IOPS.contains(&(1e6 / gap));
    let as_ns = PLAUSIBLE_IOPS.contains(&(1e9 / gap));
    match (as_us, as_ns) {
        (true, false) => (vec!["replay-us-sectors"], ""),
        (false, true) => (vec!["mqsim"], ""),
        _ => (
            vec!["replay-us-sectors", "mqsim"],
            "times have no decimals, and both us and ns give a possible rate of I/O",
        ),
    }
}

fn fit(head: &Head, name: &str) -> Fit {
    let seen = gather(head);
    let (names, why) = candidates(&seen);
    let fitting = if names == ["disksim"] { seen.rows } else { seen.rows - seen.flags };
    match (share(fitting, seen.lines), names.as_slice()) {
        (share, [one]) if *one == name => share,
        (Fit::Mostly | Fit::Yes, several) if several.len() > 1 && several.contains(&name) => Fit::Maybe(why),
        _ => Fit::No,
    }
}
