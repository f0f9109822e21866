// SPDX-License-Identifier: MIT OR Apache-2.0
//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, no header. Timestamp and ResponseTime
//! count 100 ns (Windows file time, from 1601), Offset and Size bytes, Type is Read or Write.
//!
//! Disks of different hosts are different devices: the device is `host << 16 | DiskNumber`, with hosts numbered from 0 in
//! order of appearance. So in a trace of one host it is the number of the disk.

use super::{Names, all_lines, commas, is_op_word, text_source};
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, integer, op_word, present, time, whole, whole32};

/// Decimal places from 100 ns to 1 ns.
const TICK_PLACES: u32 = 2;

pub(crate) const FORMAT: Format = Format {
    name: "msr-cambridge",
    about: "Timestamp (100 ns),Hostname,DiskNumber,Type,Offset,Size,ResponseTime (100 ns)",
    has_latency: true,
    clock: Clock::Shared,
    fit,
    open: text_source!("msr-cambridge", Msr::default()),
};

/// Bits of the number of a disk, where there are several hosts.
const DISK_BITS: u32 = 16;

#[derive(Default)]
struct Msr {
    hosts: Names,
    /// Highest disk so far.
    disk_max: u32,
}

impl Msr {
    fn device(&mut self, host: &[u8], disk: u32) -> Result<u32, Bad> {
        let host = self.hosts.number("Hostname", host)?;
        self.disk_max = self.disk_max.max(disk);
        if host > 0 && self.disk_max >> DISK_BITS > 0 {
            return Err(Bad::of("DiskNumber", self.disk_max, "is above 65,535, in a trace of several hosts"));
        }
        Ok(host << DISK_BITS | disk)
    }
}

impl LineFormat for Msr {
    fn header(&mut self, line: &[u8]) -> Result<bool, Bad> {
        Ok(line.starts_with(b"Timestamp,"))
    }

    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        let mut fields = Fields::new(line);
        let arrive_ns = time(fields.comma(), "Timestamp", TICK_PLACES)?;
        let host = present(fields.comma(), "Hostname")?;
        let disk = whole32(fields.comma(), "DiskNumber")?;
        let op = op_word(fields.comma(), "Type")?;
        let offset = whole(fields.comma(), "Offset")?;
        let size = whole(fields.comma(), "Size")?;
        let latency_ns = time(fields.comma(), "ResponseTime", TICK_PLACES)?;
        if fields.comma().is_some() {
            return Err(Bad::new("columns", line, "has more than seven columns"));
        }
        let device = self.device(host, disk)?;
        out.record(arrive_ns, Some(latency_ns), op, offset, size, device)
    }
}

fn fit(head: &Head) -> Fit {
    let skip = usize::from(head.lines.first().is_some_and(|l| l.starts_with(b"Timestamp,Hostname")));
    all_lines(head, skip, |line| {
        let f = commas(line);
        f.len() == 7 && is_op_word(f[3]) && [0, 2, 4, 5, 6].iter().all(|&i| integer(f[i]).is_some())
    })
}
