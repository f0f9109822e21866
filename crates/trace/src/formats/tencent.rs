// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tencent CBS: `timestamp_s,offset_sectors,size_sectors,op (0 read, 1 write),volume`. Times have whole seconds only.

use super::{all_lines, commas, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, integer, op_digit, sectors, time, whole32};

pub(crate) const FORMAT: Format = Format {
    name: "tencent",
    about: "timestamp_s,offset_sectors,size_sectors,op (0 read, 1 write),volume",
    has_latency: false,
    clock: Clock::Shared,
    fit,
    open: text_source!("tencent", Tencent),
};

struct Tencent;

impl LineFormat for Tencent {
    fn header(&mut self, line: &[u8]) -> Result<bool, Bad> {
        Ok(line.starts_with(b"timestamp,") || line.starts_with(b"Timestamp,"))
    }

    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        let arrive_ns = time(fields.comma(), "timestamp", 9)?;
        let offset = sectors(fields.comma(), "offset")?;
        let size = sectors(fields.comma(), "size")?;
        let op = op_digit(fields.comma(), "op", 0)?;
        let device = whole32(fields.comma(), "volume")?;
        if fields.comma().is_some() {
            return Err(Bad::new("columns", line, "has more than five columns"));
        }
        out.record(arrive_ns, None, op, offset, size, device)
    }
}

fn fit(head: &Head) -> Fit {
    let skip = usize::from(head.lines.first().is_some_and(|l| l.to_ascii_lowercase().starts_with(b"timestamp,offset")));
    all_lines(head, skip, |line| {
        let f = commas(line);
        f.len() == 5 && matches!(f[3], b"0" | b"1") && [0, 1, 2, 4].iter().all(|&i| integer(f[i]).is_some())
    })
}
