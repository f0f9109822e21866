// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces from file to file, of any length in flat memory: converted, re-rated or merged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use linnet_files::Links;
use linnet_types::{IoRecord, Nanos};

use crate::error::Error;
use crate::format::{Clock, count};
use crate::formats::canonical::MADE;
use crate::memory;
use crate::merge::{MergedTenants, raises_of};
use crate::order::{By, Merged, Ordered};
use crate::read::Options;
use crate::rerate::Rate;
use crate::write::{AnyWriter, Metadata};

/// Tenants that are counted.
pub const TENANTS_COUNTED_MAX: usize = 1 << 16;
/// Records from one question whether to go on to the next.
const ASKED_EVERY: u64 = 1 << 16;

/// What happens to the records between reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Change {
    /// Nothing: one trace is written in another form.
    #[default]
    None,
    /// Arrival times are divided by this factor, and latencies dropped unless it is 1 ([`crate::rerate()`]).
    Rate(f64),
    /// Several traces become one ([`crate::merge()`]).
    Merge(MergedTenants),
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// Records.
    pub records: u64,
    /// Tenants, counted up to one more than [`TENANTS_COUNTED_MAX`].
    pub tenants: u64,
    /// Name of the format of each file.
    pub formats: Vec<&'static str>,
    /// What was left out of all files, by reason; also what the written form cannot hold, and of how many records.
    pub skipped: BTreeMap<String, u64>,
    /// Warnings for the user of each trace, with the number of its file.
    pub warnings: Vec<(usize, String)>,
}

/// Reads traces, each sorted by arrival and begun at 0, and writes one in the form that the ending of `to` says.
///
/// `options` makes the options of one reading of a file: a trace that is further out of order than a buffer mends is
/// read again and sorted in a file without a name, in the directory of `to`, which takes 40 bytes for each record. So
/// is, without a first attempt, whatever cannot be read or written twice (pipes), and what is merged with its tenants
/// kept, because they must be known before the first record is written. `go_on` is asked every 65,536 records that are
/// written.
///
/// # Errors
/// Those of reading and writing, [`Error::Argument`], or [`Error::Stretched`]. A file is then as it was; a pipe or a
/// device has a part.
pub fn convert(
    from: &[PathBuf],
    to: &Path,
    change: Change,
    options: &mut dyn FnMut(&Path) -> Options,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Converted, Error> {
    if from.is_empty() || (from.len() > 1 && !matches!(change, Change::Merge(_))) {
        let value = from.len().to_string();
        return Err(Error::Argument { name: "files", value, problem: "give one trace, or several to merge" });
    }
    memory::share(&from[0], from.len())?;
    let again = from.iter().all(|path| path.is_file() || path.is_dir());
    let mut writer = AnyWriter::create(to, Links::Follow)?;
    let parent = to.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let spill = if writer.is_through() { std::env::temp_dir() } else { parent.to_path_buf() };
    if again && !writer.is_through() && change != Change::Merge(MergedTenants::Kept) {
        match write(from, writer, change, options, go_on, By::Buffer) {
            Err(Error::Disorder { .. }) => writer = AnyWriter::create(to, Links::Follow)?,
            done => return done,
        }
    }
    let share = memory::share(&from[0], from.len())?;
    write(from, writer, change, options, go_on, By::Runs(&spill, share))
}

/// One trace, begun at 0.
struct Part {
    records: Ordered,
    origin_ns: Option<Nanos>,
}

impl Iterator for Part {
    type Item = Result<IoRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.records.next().map(|record| {
            let mut record = record?;
            record.arrive_ns -= *self.origin_ns.get_or_insert(record.arrive_ns);
            Ok(record)
        })
    }
}

fn write(
    from: &[PathBuf],
    mut writer: AnyWriter,
    change: Change,
    options: &mut dyn FnMut(&Path) -> Options,
    go_on: &mut dyn FnMut() -> bool,
    by: By<'_>,
) -> Result<Converted, Error> {
    let mut parts = Vec::with_capacity(from.len());
    for path in from {
        parts.push(Part { records: Ordered::open(path, options(path), by)?, origin_ns: None });
    }
    let mut raises: Vec<u32> = (0..from.len() as u32).collect();
    if change == Change::Merge(MergedTenants::Kept) {
        let highest = parts.iter().map(|part| match &part.records {
            Ordered::Spilled(spilled) => spilled.highest_tenant(),
            Ordered::Checked(_) | Ordered::Buffered(_) => 0,
        });
        raises = raises_of(highest)?;
    }
    let rate = if let Change::Rate(factor) = change { Some(Rate::new(factor)?) } else { None };
    let mut merged = Merged::new(parts);
    let mut counts = vec![0; from.len()];
    let mut tenants = BTreeSet::new();
    let mut written: u64 = 0;
    while let Some(next) = merged.next() {
        let (mut record, part) = next?;
        counts[part] += 1;
        match (change, &rate) {
            (Change::Merge(MergedTenants::OneEach), _) => {
                record = IoRecord { tenant: raises[part], latency_ns: None, ..record };
            }
            (Change::Merge(MergedTenants::Kept), _) => {
                record = IoRecord { tenant: raises[part] + record.tenant, latency_ns: None, ..record };
            }
            (_, Some(rate)) => match rate.apply(&record) {
                Some(rated) => record = rated,
                None => return Err(rate.stretched(last_ns(record.arrive_ns, &mut merged, &from[part], go_on)?)),
            },
            _ => {}
        }
        if tenants.len() <= TENANTS_COUNTED_MAX {
            tenants.insert(record.tenant);
        }
        writer.push(&record)?;
        written += 1;
        if written.is_multiple_of(ASKED_EVERY) && !go_on() {
            return Err(Error::Stopped { path: from[part].clone() });
        }
    }
    let mut done = Converted {
        records: written,
        tenants: tenants.len() as u64,
        formats: Vec::new(),
        skipped: BTreeMap::new(),
        warnings: Vec::new(),
    };
    let mut made = matches!(change, Change::Merge(_));
    let mut clock = None;
    for (index, part) in merged.streams().iter().enumerate() {
        let about = part.records.about();
        if counts[index] == 0 {
            return Err(about.empty(&from[index]));
        }
        about.skipped.iter().for_each(|(reason, records)| count(&mut done.skipped, reason, *records));
        made |= about.clock == Clock::Made;
        clock = Some(about.clock);
        done.formats.push(about.format);
        done.warnings.extend(about.warnings.into_iter().map(|text| (index, text)));
    }
    let source_format = if made { MADE } else { done.formats[0] };
    let origin_ns = match (clock, merged.streams()) {
        (Some(Clock::Shared), [part]) if !made => part.origin_ns,
        _ => None,
    };
    let origin_ns = origin_ns.map(|ns| rate.map_or(ns, |rate| rate.origin(ns)));
    let mut lost = writer.lost();
    if let Some(reason) = writer.clock_lost().filter(|_| origin_ns.is_some_and(|ns| ns > 0)) {
        lost.push((reason, written));
    }
    let (source_format, skipped) = (source_format.to_string(), done.skipped.clone());
    writer.finish(&Metadata { source_format, skipped, origin_ns })?;
    lost.into_iter().for_each(|(reason, records)| count(&mut done.skipped, reason, records));
    Ok(done)
}

/// When the last record of the trace at `path` arrives, which was read up to one at `seen_ns`.
fn last_ns(
    seen_ns: Nanos,
    rest: &mut Merged<Part>,
    path: &Path,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Nanos, Error> {
    let mut last_ns = seen_ns;
    for (next, count) in rest.by_ref().zip(1u64..) {
        last_ns = next?.0.arrive_ns;
        if count.is_multiple_of(ASKED_EVERY) && !go_on() {
            return Err(Error::Stopped { path: path.to_path_buf() });
        }
    }
    Ok(last_ns)
}
