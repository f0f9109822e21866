// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our own workload CSV. The header names the columns, in any order. Required: `t_ns`, `op` (R or W), `lba_512` and
//! `sectors`. Optional: `latency_ns` (may be empty), `device`, `tenant`, and `offset_bytes` and `size_bytes`, which
//! override the sector columns. Other columns are not read.

use super::{commas, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, Found, LineFormat, Out, SECTOR_BYTES, op_digit, op_word, time, whole, whole32};

pub(crate) const FORMAT: Format = Format {
    name: "workload-csv",
    about: "header t_ns,op,lba_512,sectors[,device][,tenant][,latency_ns][,...]",
    has_latency: true,
    clock: Clock::Shared,
    fit: |head: &Head| {
        let names = head.lines.first().map_or_else(Vec::new, |l| commas(l));
        if names.contains(&&b"t_ns"[..]) && names.contains(&&b"op"[..]) { Fit::Yes } else { Fit::No }
    },
    open: text_source!("workload-csv", Workload::default()),
};

#[derive(Clone, Copy, PartialEq)]
enum Column {
    Time,
    Op,
    Lba,
    Sectors,
    Offset,
    Size,
    Latency,
    Device,
    Tenant,
    Other,
}

#[derive(Default)]
struct Workload {
    columns: Vec<Column>,
}

impl LineFormat for Workload {
    fn header(&mut self, line: &[u8]) -> Result<bool, Bad> {
        for name in commas(line) {
            let column = match name {
                b"t_ns" => Column::Time,
                b"op" => Column::Op,
                b"lba_512" => Column::Lba,
                b"sectors" => Column::Sectors,
                b"offset_bytes" => Column::Offset,
                b"size_bytes" => Column::Size,
                b"latency_ns" => Column::Latency,
                b"device" => Column::Device,
                b"tenant" => Column::Tenant,
                _ => Column::Other,
            };
            if column != Column::Other && self.columns.contains(&column) {
                return Err(Bad::new("header", name, "names a column twice"));
            }
            self.columns.push(column);
        }
        let has = |column| self.columns.contains(&column);
        let places = (has(Column::Lba) || has(Column::Offset)) && (has(Column::Sectors) || has(Column::Size));
        if has(Column::Time) && has(Column::Op) && places {
            Ok(true)
        } else {
            Err(Bad::new("header", line, "lacks one of t_ns, op, lba_512 (or offset_bytes), sectors (or size_bytes)"))
        }
    }

    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        let (mut arrive_ns, mut op, mut device, mut tenant, mut latency_ns) = (0, None, 0, 0, None);
        let (mut lba, mut sectors, mut offset, mut size) = (0, 0, None, None);
        for column in &self.columns {
            let field = fields.comma();
            if field.is_none() {
                return Err(Bad::new("columns", line, "has fewer columns than the header"));
            }
            match column {
                Column::Time => arrive_ns = time(field, "t_ns", 0)?,
                Column::Op if matches!(field, Some(b"0" | b"1")) => op = Some(op_digit(field, "op", 0)?),
                Column::Op => op = Some(op_word(field, "op")?),
                Column::Lba => lba = whole(field, "lba_512")?,
                Column::Sectors => sectors = whole(field, "sectors")?,
                Column::Offset => offset = Some(whole(field, "offset_bytes")?),
                Column::Size => size = Some(whole(field, "size_bytes")?),
                Column::Latency if field == Some(b"") => {}
                Column::Latency => latency_ns = Some(time(field, "latency_ns", 0)?),
                Column::Device => device = whole32(field, "device")?,
                Column::Tenant => tenant = whole32(field, "tenant")?,
                Column::Other => {}
            }
        }
        if fields.comma().is_some() {
            return Err(Bad::new("columns", line, "has more columns than the header"));
        }
        let bytes =
            |n: u64, name| n.checked_mul(SECTOR_BYTES).ok_or_else(|| Bad::of(name, n, "sectors overflow 64 bits"));
        let offset_bytes = offset.map_or_else(|| bytes(lba, "lba_512"), Ok)?;
        let size_bytes = size.map_or_else(|| bytes(sectors, "sectors"), Ok)?;
        let op = op.ok_or_else(|| Bad::new("op", line, "is missing"))?;
        out.found(Found { arrive_ns, latency_ns, op, offset_bytes, size_bytes, device, tenant })
    }
}
