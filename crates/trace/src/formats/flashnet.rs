// SPDX-License-Identifier: MIT OR Apache-2.0
//! FlashNet profiles of a real NVMe drive: seven columns without header,
//! `ts_record_ms,latency_us,op (1 read, 0 write),size_bytes,offset_bytes,ts_submit_ms,size_done_bytes`.
//!
//! Rows have the order of recording; the I/O arrived at `ts_submit_ms`. An incomplete I/O counts as failed: it keeps
//! its arrival, but its duration is not used as a latency.

use super::{all_lines, commas, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, decimal, integer, op_digit, time, whole};

pub(crate) const FORMAT: Format = Format {
    name: "flashnet",
    about: "ts_record_ms,latency_us,op (1 read, 0 write),size_bytes,offset_bytes,ts_submit_ms,size_done_bytes",
    has_latency: true,
    clock: Clock::Own,
    fit,
    open: text_source!("flashnet", Flashnet),
};

struct Flashnet;

impl LineFormat for Flashnet {
    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        time(fields.comma(), "ts_record_ms", 6)?;
        let latency_ns = time(fields.comma(), "latency_us", 3)?;
        let op = op_digit(fields.comma(), "op", 1)?;
        let size = whole(fields.comma(), "size_bytes")?;
        let offset = whole(fields.comma(), "offset_bytes")?;
        let arrive_ns = time(fields.comma(), "ts_submit_ms", 6)?;
        let done = whole(fields.comma(), "size_done_bytes")?;
        if fields.comma().is_some() {
            return Err(Bad::new("columns", line, "has more than seven columns"));
        }
        let mut latency = Some(latency_ns);
        if done != size {
            out.skip("latency of an I/O not done in full");
            latency = None;
        }
        out.record(arrive_ns, latency, op, offset, size, 0)
    }
}

fn fit(head: &Head) -> Fit {
    all_lines(head, 0, |line| {
        let f = commas(line);
        f.len() == 7
            && [0, 5].iter().all(|&i| f[i].contains(&b'.') && decimal(f[i], 6).is_some())
            && matches!(f[2], b"0" | b"1")
            && [1, 3, 4, 6].iter().all(|&i| integer(f[i]).is_some())
    })
}
