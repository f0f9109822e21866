// SPDX-License-Identifier: MIT OR Apache-2.0
//! CloudPhysics CSV: `version,time,op,size,lbn`, time in whole seconds, op a SCSI opcode in hex, size in bytes, lbn in
//! sectors.

use super::{text_source, vscsi};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, present, sectors, time, whole};

const HEADER: &[u8] = b"version,time,op,size,lbn";

pub(crate) const FORMAT: Format = Format {
    name: "cloudphysics",
    about: "header version,time,op,size,lbn: s, SCSI opcode in hex, bytes, sectors",
    has_latency: false,
    clock: Clock::Own,
    fit,
    open: text_source!("cloudphysics", CloudPhysics),
};

struct CloudPhysics;

impl LineFormat for CloudPhysics {
    fn header(&mut self, line: &[u8]) -> Result<bool, Bad> {
        Ok(line.trim_ascii() == HEADER)
    }

    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        whole(fields.comma(), "version")?;
        let arrive_ns = time(fields.comma(), "time", 9)?;
        let text = present(fields.comma(), "op")?;
        let opcode = std::str::from_utf8(text)
            .ok()
            .and_then(|t| u8::from_str_radix(t, 16).ok())
            .ok_or_else(|| Bad::new("op", text, "is not a SCSI opcode in hex"))?;
        let size = whole(fields.comma(), "size")?;
        let offset = sectors(fields.comma(), "lbn")?;
        if fields.comma().is_some() {
            return Err(Bad::new("columns", line, "has more than five columns"));
        }
        match vscsi::op(opcode) {
            Some(op) => out.record(arrive_ns, None, op, offset, size, 0),
            None => {
                out.skip("other SCSI command");
                Ok(())
            }
        }
    }
}

fn fit(head: &Head) -> Fit {
    if head.lines.first().is_some_and(|l| l.trim_ascii() == HEADER) { Fit::Yes } else { Fit::No }
}
