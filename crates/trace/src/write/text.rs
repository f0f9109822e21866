// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text writers: our workload CSV, and the fio I/O log that lets fio replay a trace.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use linnet_types::{IoRecord, Op};

use linnet_files::Links;

use super::readable::Readable;
use super::target::Target;
use crate::error::Error;

/// What a fio log cannot hold, each with a count of records that begins at 0.
const LOST: [(&str, u64); 3] =
    [("latency_ns not held by iolog", 0), ("tenant not held by iolog", 0), ("arrive_ns cut to whole us", 0)];

/// Devices of one fio log.
const DEVICES_MAX: usize = 1 << 16;

/// A text file that is being written.
struct Text {
    file: BufWriter<Target>,
    readable: Readable,
}

impl Text {
    fn create(path: &Path) -> Result<Text, Error> {
        let file = BufWriter::with_capacity(256 * 1024, Target::create(path, Links::Follow)?);
        Ok(Text { file, readable: Readable::default() })
    }

    fn is_through(&self) -> bool {
        self.file.get_ref().is_through()
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), Error> {
        let written = self.file.write_fmt(text);
        written.map_err(|e| self.file.get_ref().failed(e))
    }

    fn finish(mut self) -> Result<(), Error> {
        if let Err(error) = self.file.flush() {
            let error = self.file.get_ref().failed(error);
            // Do not write buffered data while unwinding.
            drop(self.file.into_parts());
            return Err(error);
        }
        let (file, _) = self.file.into_parts();
        file.commit()
    }
}

/// Writes `t_ns,op,offset_bytes,size_bytes,device,latency_ns,tenant` (format `workload-csv`).
pub struct CsvWriter {
    text: Text,
    begun: bool,
}

const HEADER: &str = "t_ns,op,offset_bytes,size_bytes,device,latency_ns,tenant\n";

impl CsvWriter {
    /// Starts a file. No file exists under `path` before [`CsvWriter::finish`].
    pub fn create(path: &Path) -> Result<CsvWriter, Error> {
        Ok(CsvWriter { text: Text::create(path)?, begun: false })
    }

    /// Writes the header, once. What is written to a pipe cannot be taken back, so it waits for the first record, before
    /// which the input may be refused.
    fn begin(&mut self) -> Result<(), Error> {
        if !self.begun {
            self.begun = true;
            self.text.line(format_args!("{HEADER}"))?;
        }
        Ok(())
    }

    pub(super) fn is_through(&self) -> bool {
        self.text.is_through()
    }

    /// Adds one record.
    ///
    /// # Errors
    /// A full disk, or a value that the readers refuse.
    pub fn push(&mut self, r: &IoRecord) -> Result<(), Error> {
        self.text.readable.take(r)?;
        self.begin()?;
        let op = if r.op == Op::Read { 'R' } else { 'W' };
        let IoRecord { arrive_ns, offset_bytes, size_bytes, device, tenant, .. } = r;
        match r.latency_ns {
            Some(latency) => {
                let text = format_args!("{arrive_ns},{op},{offset_bytes},{size_bytes},{device},{latency},{tenant}\n");
                self.text.line(text)
            }
            None => self.text.line(format_args!("{arrive_ns},{op},{offset_bytes},{size_bytes},{device},,{tenant}\n")),
        }
    }

    /// Completes the file and renames it to its final name.
    pub fn finish(mut self) -> Result<(), Error> {
        self.begin()?;
        self.text.finish()
    }
}

/// Writes a fio I/O log, version 3. Times are cut to whole microseconds; the format has no latencies and tenants.
pub struct FioWriter {
    text: Text,
    /// Names that were given; none if devices get names of their own.
    given: bool,
    /// The name of each device, once the log has it.
    targets: BTreeMap<u32, String>,
    last_us: u64,
    /// [`LOST`], counted.
    lost: [(&'static str, u64); 3],
}

impl FioWriter {
    /// Starts a log. Device `d` of the records becomes `targets[d]`, a file or block device that fio will open. If that
    /// is a real device, fio will write to it. Without targets it becomes `device<d>`, a file where fio runs.
    pub fn create(path: &Path, targets: &[String]) -> Result<FioWriter, Error> {
        if let Some(bad) = targets.iter().find(|t| t.is_empty() || t.contains(char::is_whitespace)) {
            return Err(Error::Argument {
                name: "targets",
                value: bad.clone(),
                problem: "a name must not be empty or hold blanks",
            });
        }
        let mut text = Text::create(path)?;
        text.line(format_args!("fio version 3 iolog\n"))?;
        let given = !targets.is_empty();
        let mut writer = FioWriter { text, given, targets: BTreeMap::new(), last_us: 0, lost: LOST };
        targets.iter().zip(0..).try_for_each(|(name, device)| writer.name(device, name.clone()))?;
        Ok(writer)
    }

    fn name(&mut self, device: u32, name: String) -> Result<(), Error> {
        for action in ["add", "open"] {
            self.text.line(format_args!("{} {name} {action}\n", self.last_us))?;
        }
        self.targets.insert(device, name);
        Ok(())
    }

    pub(super) fn is_through(&self) -> bool {
        self.text.is_through()
    }

    /// Adds one record.
    ///
    /// # Errors
    /// A full disk, a value that the readers refuse, or a device without a target.
    pub fn push(&mut self, r: &IoRecord) -> Result<(), Error> {
        self.text.readable.take(r)?;
        self.last_us = r.arrive_ns / 1000;
        if !self.targets.contains_key(&r.device) {
            if self.given || self.targets.len() == DEVICES_MAX {
                return Err(Error::Argument {
                    name: "device",
                    value: r.device.to_string(),
                    problem: "the log names no target for it",
                });
            }
            self.name(r.device, format!("device{}", r.device))?;
        }
        let lost = [r.latency_ns.is_some(), r.tenant != 0, !r.arrive_ns.is_multiple_of(1000)];
        self.lost.iter_mut().zip(lost).for_each(|((_, records), lost)| *records += u64::from(lost));
        let Some(target) = self.targets.get(&r.device) else { return Ok(()) };
        let op = if r.op == Op::Read { "read" } else { "write" };
        self.text.line(format_args!("{} {target} {op} {} {}\n", self.last_us, r.offset_bytes, r.size_bytes))
    }

    /// What of the records the log does not hold, and of how many.
    pub(super) fn lost(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.lost.into_iter().filter(|(_, records)| *records > 0)
    }

    /// Completes the log and renames it to its final name.
    pub fn finish(mut self) -> Result<(), Error> {
        for target in self.targets.values() {
            self.text.line(format_args!("{} {target} close\n", self.last_us))?;
        }
        self.text.finish()
    }
}

/// Writes all records as workload CSV.
pub fn write_csv(path: &Path, records: &[IoRecord]) -> Result<(), Error> {
    let mut writer = CsvWriter::create(path)?;
    records.iter().try_for_each(|r| writer.push(r))?;
    writer.finish()
}

/// Writes all records as a fio I/O log, version 3 ([`FioWriter`]).
pub fn write_fio(path: &Path, records: &[IoRecord], targets: &[String]) -> Result<(), Error> {
    let mut writer = FioWriter::create(path, targets)?;
    records.iter().try_for_each(|r| writer.push(r))?;
    writer.finish()
}
