// SPDX-License-Identifier: MIT OR Apache-2.0
//! UMass / SPC traces (Financial, WebSearch): `ASU,LBA,size_bytes,opcode (r or w),timestamp_s`, LBA in sectors; any
//! further columns are not read.

use super::{all_lines, commas, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, decimal, integer, op_word, sectors, time, whole, whole32};

pub(crate) const FORMAT: Format = Format {
    name: "spc",
    about: "UMass SPC: ASU,LBA,size_bytes,opcode (r, w),timestamp_s[,...]",
    has_latency: false,
    clock: Clock::Own,
    fit,
    open: text_source!("spc", Spc),
};

struct Spc;

impl LineFormat for Spc {
    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        let device = whole32(fields.comma(), "ASU")?;
        let offset = sectors(fields.comma(), "LBA")?;
        let size = whole(fields.comma(), "size")?;
        let op = op_word(fields.comma(), "opcode")?;
        let arrive_ns = time(fields.comma(), "timestamp", 9)?;
        out.record(arrive_ns, None, op, offset, size, device)
    }
}

fn fit(head: &Head) -> Fit {
    all_lines(head, 0, |line| {
        let f = commas(line);
        f.len() >= 5
            && [0, 1, 2].iter().all(|&i| integer(f[i]).is_some())
            && matches!(f[3], b"R" | b"W" | b"r" | b"w")
            && decimal(f[4], 9).is_some()
    })
}
