// SPDX-License-Identifier: MIT OR Apache-2.0
//! Alibaba block traces: `device_id,opcode (R or W),offset_bytes,length_bytes,timestamp_us`.

use super::{all_lines, commas, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, integer, op_word, time, whole, whole32};

pub(crate) const FORMAT: Format = Format {
    name: "alibaba",
    about: "device_id,opcode (R, W),offset_bytes,length_bytes,timestamp_us",
    has_latency: false,
    clock: Clock::Shared,
    fit,
    open: text_source!("alibaba", Alibaba),
};

struct Alibaba;

impl LineFormat for Alibaba {
    fn header(&mut self, line: &[u8]) -> Result<bool, Bad> {
        Ok(line.starts_with(b"device_id,"))
    }

    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        let device = whole32(fields.comma(), "device_id")?;
        let op = op_word(fields.comma(), "opcode")?;
        let offset = whole(fields.comma(), "offset")?;
        let size = whole(fields.comma(), "length")?;
        let arrive_ns = time(fields.comma(), "timestamp", 3)?;
        if fields.comma().is_some() {
            return Err(Bad::new("columns", line, "has more than five columns"));
        }
        out.record(arrive_ns, None, op, offset, size, device)
    }
}

fn fit(head: &Head) -> Fit {
    let skip = usize::from(head.lines.first().is_some_and(|l| l.starts_with(b"device_id,")));
    all_lines(head, skip, |line| {
        let f = commas(line);
        f.len() == 5
            && matches!(f[1], b"R" | b"W" | b"r" | b"w")
            && [0, 2, 3, 4].iter().all(|&i| integer(f[i]).is_some())
    })
}
