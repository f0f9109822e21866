// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a file in the order of their arrival, in bounded memory.
//!
//! Most traces are written in that order, or nearly: a log of completions is out of order by as many I/Os as were in
//! flight. So records pass through a reordering buffer of fixed size, which fails at a record that comes later than it
//! can mend. What reads a file then sorts it on disk (`spill.rs`). What can begin again tries without a buffer first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use linnet_types::{IoRecord, Nanos};

use crate::error::Error;
use crate::format::Clock;
use crate::memory;
use crate::read::{Options, Records, open};
use crate::spill::Spilled;

/// Records that may pass an earlier one in the file.
pub(crate) const REORDERED_MAX: usize = 1 << 16;

/// How records get into order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By<'a> {
    /// As they come, which fails with [`Error::Disorder`] at the first that comes after a later one.
    Itself,
    /// By a buffer, which fails with [`Error::Disorder`] at a trace that it cannot sort.
    Buffer,
    /// By runs, sorted one by one and stored in a file without a name in this directory, with this much memory
    /// ([`crate::memory::share`]).
    Runs(&'a Path, u64),
}

/// Does work on the records of a file by their arrival, the cheapest way that it allows: as they come, through a buffer,
/// or through runs in the directory for temporary files. A trace in the order of completions shows it by its first
/// records, so that to begin again costs little. A file that cannot be read twice goes through runs at once.
pub(crate) fn through<T>(path: &Path, work: &mut dyn FnMut(By<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let share = memory::share(path, 1)?;
    if path.is_file() || path.is_dir() {
        for by in [By::Itself, By::Buffer] {
            match work(by) {
                Err(Error::Disorder { .. }) => {}
                done => return done,
            }
        }
    }
    work(By::Runs(&std::env::temp_dir(), share))
}

/// Folds the records of a trace, at their own times, in the order of their arrival and in flat memory. `options` makes
/// the options of a reading, and `start` what `take` takes them into: a trace that is out of order is begun again, and
/// one that is far out of order is sorted in the directory for temporary files.
///
/// # Errors
/// Those of [`crate::open`], [`Error::Empty`] or [`Error::Memory`].
pub fn fold<T>(
    path: &Path,
    options: &mut dyn FnMut() -> Options,
    start: impl Fn() -> T,
    take: impl Fn(&mut T, &IoRecord),
) -> Result<(T, About), Error> {
    through(path, &mut |by| {
        let mut records = Ordered::open(path, options(), by)?;
        let mut made = start();
        let mut empty = true;
        for record in records.by_ref() {
            take(&mut made, &record?);
            empty = false;
        }
        let about = records.about();
        if empty { Err(about.empty(path)) } else { Ok((made, about)) }
    })
}

/// What the reader of a file said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Name of the format that was used.
    pub format: &'static str,
    /// What was left out, counted by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Warnings for the user of the trace.
    pub warnings: Vec<String>,
    /// What its times are of.
    pub clock: Clock,
}

impl About {
    pub(crate) fn of(records: &Records) -> About {
        About {
            format: records.format().name,
            skipped: records.skipped(),
            warnings: records.warnings(),
            clock: records.clock(),
        }
    }

    /// The error of a file without a record.
    pub(crate) fn empty(&self, path: &Path) -> Error {
        let skipped = &self.skipped;
        let why = if skipped.is_empty() { "no record".to_string() } else { format!("all was left out: {skipped:?}") };
        Error::Empty { path: path.to_path_buf(), why }
    }
}

/// Records by arrival; those of one moment in the order of the file, as after a stable sort.
pub(crate) enum Ordered {
    Checked(Box<Checked>),
    Buffered(Box<Buffered>),
    Spilled(Box<Spilled>),
}

impl Ordered {
    /// Opens a file. [`By::Runs`] reads all of it here.
    pub fn open(path: &Path, options: Options, by: By<'_>) -> Result<Ordered, Error> {
        let records = open(path, options)?;
        Ok(match by {
            By::Itself => Ordered::Checked(Box::new(Checked { records, place: 0, last_ns: 0 })),
            By::Buffer => Ordered::Buffered(Box::new(Buffered::new(records))),
            By::Runs(folder, bytes) => Ordered::Spilled(Box::new(Spilled::sort(records, folder, bytes)?)),
        })
    }

    /// What the reader said, up to the record that was returned last.
    pub fn about(&self) -> About {
        match self {
            Ordered::Checked(checked) => About::of(&checked.records),
            Ordered::Buffered(buffered) => About::of(&buffered.records),
            Ordered::Spilled(spilled) => spilled.about().clone(),
        }
    }
}

impl Iterator for Ordered {
    type Item = Result<IoRecord, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Ordered::Checked(checked) => checked.next(),
            Ordered::Buffered(buffered) => buffered.next(),
            Ordered::Spilled(spilled) => spilled.next(),
        }
    }
}

/// Records that should be in order.
pub(crate) struct Checked {
    records: Records,
    place: u64,
    last_ns: Nanos,
}

impl Iterator for Checked {
    type Item = Result<IoRecord, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let found = self.records.next()?;
        if let Ok(record) = &found {
            if record.arrive_ns < self.last_ns {
                return Some(Err(Error::Disorder { path: self.records.path().to_path_buf(), record: self.place }));
            }
            self.last_ns = record.arrive_ns;
            self.place += 1;
        }
        Some(found)
    }
}

/// Records that pass a buffer.
pub(crate) struct Buffered {
    records: Records,
    waiting: Vec<IoRecord>,
    /// The earliest of the records that wait, with their place in the file.
    early: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    place: u64,
    last_ns: Nanos,
}

impl Buffered {
    fn new(records: Records) -> Buffered {
        let early = BinaryHeap::with_capacity(REORDERED_MAX);
        Buffered { records, waiting: Vec::with_capacity(REORDERED_MAX), early, place: 0, last_ns: 0 }
    }

    fn push(&mut self, record: IoRecord, slot: usize) {
        self.early.push(Reverse((record.arrive_ns, self.place, slot)));
        self.place += 1;
    }
}

impl Iterator for Buffered {
    type Item = Result<IoRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.waiting.len() < REORDERED_MAX {
            match self.records.next() {
                Some(Ok(record)) => {
                    self.push(record, self.waiting.len());
                    self.waiting.push(record);
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        let Reverse((_, place, slot)) = self.early.pop()?;
        let found = self.waiting[slot];
        if found.arrive_ns < self.last_ns {
            return Some(Err(Error::Disorder { path: self.records.path().to_path_buf(), record: place }));
        }
        self.last_ns = found.arrive_ns;
        match self.records.next() {
            Some(Ok(record)) => {
                self.waiting[slot] = record;
                self.push(record, slot);
            }
            Some(Err(error)) => return Some(Err(error)),
            None => {}
        }
        Some(Ok(found))
    }
}

/// Streams that are each in order, as one. Of records of one moment, those of the first stream come first.
pub(crate) struct Merged<S> {
    streams: Vec<S>,
    next: BinaryHeap<Reverse<(Nanos, usize)>>,
    heads: Vec<Option<IoRecord>>,
    failed: Option<Error>,
}

impl<S: Iterator<Item = Result<IoRecord, Error>>> Merged<S> {
    pub fn new(streams: Vec<S>) -> Merged<S> {
        let heads = vec![None; streams.len()];
        let mut merged = Merged { next: BinaryHeap::with_capacity(streams.len()), streams, heads, failed: None };
        (0..merged.streams.len()).for_each(|index| merged.pull(index));
        merged
    }

    /// The streams, for what they say at the end.
    pub fn streams(&self) -> &[S] {
        &self.streams
    }

    fn pull(&mut self, index: usize) {
        match self.streams[index].next() {
            Some(Ok(record)) => {
                self.heads[index] = Some(record);
                self.next.push(Reverse((record.arrive_ns, index)));
            }
            Some(Err(error)) => self.failed = Some(error),
            None => self.heads[index] = None,
        }
    }
}

impl<S: Iterator<Item = Result<IoRecord, Error>>> Iterator for Merged<S> {
    /// A record, and the number of its stream.
    type Item = Result<(IoRecord, usize), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.next.clear();
            return Some(Err(error));
        }
        let Reverse((_, index)) = self.next.pop()?;
        let record = self.heads[index].take()?;
        self.pull(index);
        Some(Ok((record, index)))
    }
}
