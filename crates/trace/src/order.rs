// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a file in the order of their arrival, in bounded memory.
//!
//! Most traces are written in that order, or nearly: a log of completions is out of order by as many I/Os as were in
//! flight. So records pass through a reordering buffer of fixed size, which fails at a record that comes later than it
//! can mend. What reads a file then sorts it on disk (`spill.rs`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use linnet_types::{IoRecord, Nanos};

use crate::error::Error;
use crate::read::{Options, Records, open};
use crate::spill::Spilled;

/// Records that may pass an earlier one in the file.
pub(crate) const REORDERED_MAX: usize = 1 << 16;

/// How records get into order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By<'a> {
    /// By a buffer, which fails with [`Error::Disorder`] at a trace that it cannot sort.
    Buffer,
    /// By runs, sorted one by one and stored in a file without a name in this directory, with this much memory
    /// ([`crate::memory::share`]).
    Runs(&'a Path, u64),
}

/// What the reader of a file said about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct About {
    pub format: &'static str,
    pub skipped: BTreeMap<String, u64>,
    pub warnings: Vec<String>,
}

impl About {
    pub fn of(records: &Records) -> About {
        About { format: records.format().name, skipped: records.skipped(), warnings: records.warnings() }
    }

    /// The error of a file without a record.
    pub fn empty(&self, path: &Path) -> Error {
        let skipped = &self.skipped;
        let why = if skipped.is_empty() { "no record".to_string() } else { format!("all was left out: {skipped:?}") };
        Error::Empty { path: path.to_path_buf(), why }
    }
}

/// Records by arrival; those of one moment in the order of the file, as after a stable sort.
pub(crate) enum Ordered {
    Buffered(Box<Buffered>),
    Spilled(Box<Spilled>),
}

impl Ordered {
    /// Opens a file. [`By::Runs`] reads all of it here.
    pub fn open(path: &Path, options: Options, by: By<'_>) -> Result<Ordered, Error> {
        let records = open(path, options)?;
        Ok(match by {
            By::Buffer => Ordered::Buffered(Box::new(Buffered::new(records))),
            By::Runs(folder, bytes) => Ordered::Spilled(Box::new(Spilled::sort(records, folder, bytes)?)),
        })
    }

    /// What the reader said, up to the record that was returned last.
    pub fn about(&self) -> About {
        match self {
            Ordered::Buffered(buffered) => About::of(&buffered.records),
            Ordered::Spilled(spilled) => spilled.about().clone(),
        }
    }
}

impl Iterator for Ordered {
    type Item = Result<IoRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Ordered::Buffered(buffered) => buffered.next(),
            Ordered::Spilled(spilled) => spilled.next(),
        }
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
