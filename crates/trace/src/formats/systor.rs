// SPDX-License-Identifier: MIT OR Apache-2.0
//! Systor '17 (enterprise VDI): `Timestamp,Response,IOType (R or W),LUN,Offset,Size`, times in seconds with decimals,
//! offsets and sizes in bytes; the first line may be a header. An empty Response is an I/O without latency.

use super::{all_lines, commas, is_op_word, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, decimal, integer, op_word, time, whole, whole32};

pub(crate) const FORMAT: Format = Format {
    name: "systor17",
    about: "Timestamp (s),Response (s),IOType (R, W),LUN,Offset,Size",
    has_latency: true,
    clock: Clock::Shared,
    fit,
    open: text_source!("systor17", Systor),
};

struct Systor;

impl LineFormat for Systor {
    fn header(&mut self, line: &[u8]) -> Result<bool, Bad> {
        Ok(line.starts_with(b"Timestamp,"))
    }

    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        let arrive_ns = time(fields.comma(), "Timestamp", 9)?;
        let latency_ns = match fields.comma() {
            Some(b"") => None,
            text => Some(time(text, "Response", 9)?),
        };
        let op = fields.comma();
        if op == Some(b"") {
            out.skip("no I/O type");
            return Ok(());
        }
        let op = op_word(op, "IOType")?;
        let device = whole32(fields.comma(), "LUN")?;
        let offset = whole(fields.comma(), "Offset")?;
        let size = whole(fields.comma(), "Size")?;
        if fields.comma().is_some() {
            return Err(Bad::new("columns", line, "has more than six columns"));
        }
        if latency_ns.is_none() {
            out.skip("latency not recorded");
        }
        out.record(arrive_ns, latency_ns, op, offset, size, device)
    }
}

fn fit(head: &Head) -> Fit {
    if head.lines.first().is_some_and(|l| l.starts_with(b"Timestamp,Response,IOType,LUN,Offset,Size")) {
        return Fit::Yes;
    }
    all_lines(head, 0, |line| {
        let f = commas(line);
        f.len() == 6
            && decimal(f[0], 9).is_some()
            && (f[1].is_empty() || decimal(f[1], 9).is_some())
            && (f[2].is_empty() || is_op_word(f[2]))
            && [3, 4, 5].iter().all(|&i| integer(f[i]).is_some())
    })
}
