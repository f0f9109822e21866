// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is read, and how: per file and control group with BPF, per disk without.

#[cfg(feature = "bpf")]
mod batch;
#[cfg(feature = "bpf")]
mod bpf;
mod cell;
mod coarse;
#[cfg(feature = "bpf")]
mod counted;
#[cfg(feature = "bpf")]
mod lost;

pub use cell::{Counts, DISTANCES, NUMBERS, SIZES};
pub use coarse::Coarse;

#[cfg(feature = "bpf")]
pub use bpf::{Bpf, EventCost, event_cost};
#[cfg(feature = "bpf")]
pub(crate) use bpf::{causes, not_seen, refused};
#[cfg(feature = "bpf")]
pub(crate) use lost::{skipped, sum};

use std::rc::Rc;

use crate::advised::Advised;
use crate::error::{Error, Result};
use crate::mounts::Dev;
use crate::nfs::rpc::Rpcs;
use crate::openfile::{Descriptor, FileId};

/// With whose value a file is read, as its readers' last readahead showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reader {
    /// The device's, or a smaller one: there is no advice.
    Own,
    /// More than the device's, in KiB: one that we gave, that of a file opened under another value, or advice SEQUENTIAL.
    Above(u32),
    /// One whose owner gave other advice.
    Advised,
}

/// What happened to one file since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The file.
    pub file: FileId,
    /// Who read it.
    pub cgroup: u64,
    /// With whose value.
    pub reader: Reader,
    /// What was counted.
    pub counts: Counts,
    /// What an NFS client sent for it; nothing for files of a local disk.
    pub rpcs: Rpcs,
    /// Processes that read it.
    pub processes: Vec<u32>,
}

/// What an observer sees, and what it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// Each file apart.
    pub files: bool,
    /// Which pages are demanded, beside those that are brought.
    pub demands: bool,
    /// Open files with their value and advice, so that they can be set.
    pub descriptors: bool,
    /// In words, what cannot be seen and why.
    pub limits: Vec<String>,
}

/// What an observer did not count since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Events that found no room: too many files are read at once.
    pub no_room: u64,
    /// Events that came while another one was counted on the same CPU.
    pub skipped: u64,
    /// Mappings with advice that found no room.
    pub advice: u64,
}

impl Lost {
    /// All together.
    pub fn total(self) -> u64 {
        self.no_room + self.skipped + self.advice
    }
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            (self.no_room, "events found no room in the observer: too many files are read at once"),
            (self.skipped, "events came while the observer was at work on that CPU, and are not counted"),
            (self.advice, "mappings with advice found no room, and their advice is not seen"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        f.write_str(&parts.collect::<Vec<_>>().join("; "))
    }
}

/// Observes reads.
pub trait Observer {
    /// What it sees.
    fn sight(&self) -> &Sight;
    /// What happened since the last look.
    fn look(&mut self) -> Result<Vec<Sample>>;
    /// The open files that are these files.
    fn descriptors(&mut self, files: &[FileId]) -> Result<Vec<Descriptor>>;
    /// Files that somebody has mapped with advice. Looking walks through all mappings, and is done when enough time has
    /// passed since; less is enough where a file is about to be set, `soon`.
    fn advised(&mut self, soon: bool) -> Result<Rc<Advised>> {
        let _ = soon;
        Ok(Rc::default())
    }
    /// Observes this file system alone from now on, or all of them. An observer of all stays one. True if it was started
    /// again, with its counts at 0.
    fn watch_only(&mut self, only: Option<Dev>) -> Result<bool> {
        let _ = only;
        Ok(false)
    }
    /// What could not be counted.
    fn lost(&self) -> Result<Lost> {
        Ok(Lost::default())
    }
}

/// The best observer that runs here: BPF, or else the coarse one, which says why.
pub fn best(host: &crate::host::Host, only: Option<Dev>) -> Result<Box<dyn Observer>> {
    match with_bpf(only) {
        Ok(observer) => Ok(observer),
        Err(Error::Observer { what }) => Ok(Box::new(Coarse::new(host, what))),
        Err(other) => Err(other),
    }
}

/// Lists open files, and observes no event.
#[cfg(feature = "bpf")]
pub fn lister() -> Result<Box<dyn Observer>> {
    Ok(Box::new(Bpf::lister()?))
}

/// Lists open files; this build cannot.
#[cfg(not(feature = "bpf"))]
pub fn lister() -> Result<Box<dyn Observer>> {
    with_bpf(None)
}

#[cfg(feature = "bpf")]
fn with_bpf(only: Option<Dev>) -> Result<Box<dyn Observer>> {
    Ok(Box::new(Bpf::start(only)?))
}

#[cfg(not(feature = "bpf"))]
fn with_bpf(_only: Option<Dev>) -> Result<Box<dyn Observer>> {
    Err(Error::Observer { what: "this build has no BPF observer (it was compiled without clang)".into() })
}
