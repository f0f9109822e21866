// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio I/O logs. Version 2: `file action [offset length]`, where `wait` lines have the time, in microseconds after the
//! previous `wait`. Version 3: `time_us file action [offset length]`. Files are numbered in order of appearance.

use linnet_types::Op;

use super::{Names, all_lines, commas, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, integer, present, time, whole};

const VERSION_2: &[u8] = b"fio version 2 iolog";
const VERSION_3: &[u8] = b"fio version 3 iolog";

pub(crate) const FORMAT: Format = Format {
    name: "fio-iolog",
    about: "fio I/O log, version 2 (wait lines) or 3 (time_us file action offset length)",
    has_latency: false,
    clock: Clock::Own,
    fit: |head: &Head| {
        let first = head.lines.first().map_or(&b""[..], |l| l.trim_ascii());
        if first == VERSION_2 || first == VERSION_3 { Fit::Yes } else { Fit::No }
    },
    open: text_source!("fio-iolog", Fio::default()),
};

/// Whether this is a log that fio writes for --write_lat_log, --write_bw_log or --write_iops_log:
/// `ms, value, direction, block size[, offset[, priority[, time of issue]]]`.
pub(crate) fn is_series(head: &Head) -> bool {
    let fit = all_lines(head, 0, |line| {
        let fields = commas(line);
        (4..=7).contains(&fields.len())
            && matches!(fields[2], b"0" | b"1" | b"2")
            && fields[..4].iter().all(|field| integer(field).is_some())
    });
    fit == Fit::Yes
}

#[derive(Default)]
struct Fio {
    version: u8,
    now_ns: u64,
    files: Names,
}

impl LineFormat for Fio {
    fn header(&mut self, line: &[u8]) -> Result<bool, Bad> {
        self.version = match line.trim_ascii() {
            VERSION_2 => 2,
            VERSION_3 => 3,
            other => return Err(Bad::new("header", other, "is not `fio version 2 iolog` or `fio version 3 iolog`")),
        };
        Ok(true)
    }

    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        if self.version == 3 {
            self.now_ns = time(fields.blank(), "time_us", 3)?;
        }
        let file = present(fields.blank(), "file")?;
        let action = present(fields.blank(), "action")?;
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"add" | b"open" | b"close" => {
                self.files.number("file", file)?;
                return Ok(());
            }
            b"wait" if self.version == 2 => {
                let wait_ns = time(fields.blank(), "offset", 3)?;
                let now = self.now_ns.checked_add(wait_ns);
                self.now_ns = now.ok_or_else(|| Bad::new("offset", line, "waits beyond 64 bits of nanoseconds"))?;
                return Ok(());
            }
            b"trim" => {
                out.skip("discard");
                return Ok(());
            }
            b"sync" | b"datasync" | b"sync_file_range" => {
                out.skip("flush");
                return Ok(());
            }
            other => return Err(Bad::new("action", other, "is not an action of this version")),
        };
        let offset = whole(fields.blank(), "offset")?;
        let length = whole(fields.blank(), "length")?;
        let device = self.files.number("file", file)?;
        out.record(self.now_ns, None, op, offset, length, device)
    }
}
