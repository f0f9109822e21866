// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open files of the journal, found by descriptor and by file: a database may have a hundred thousand.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::mounts::Dev;
use crate::openfile::FileId;

/// An open file whose value we changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The process that holds it open.
    pub process: u32,
    /// When that process began, in ticks since boot: its number may be used again.
    pub started: u64,
    /// Its descriptor.
    pub fd: u32,
    /// The file, as the observer numbers it, to see whether the descriptor still means it. Its device is 0:0 in journals
    /// of earlier versions.
    pub file: FileId,
    /// The knob of the device that holds the file. Those of one device share it.
    pub knob: Arc<str>,
    /// Its value before.
    pub original_kib: u32,
    /// The value that we asked for last.
    pub written_kib: u32,
    /// The value that it got last, which the device may bound; None before it got one.
    pub stands_kib: Option<u32>,
}

/// A descriptor: process and number.
pub type At = (u32, u32);

impl FileEntry {
    /// The descriptor.
    pub fn at(&self) -> At {
        (self.process, self.fd)
    }

    /// True for a value that we gave it.
    pub fn is_value(&self, kib: u32) -> bool {
        kib == self.written_kib || Some(kib) == self.stands_kib
    }
}

/// An entry as it is written down.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    process: u32,
    started: u64,
    fd: u32,
    #[serde(borrow, default = "no_device")]
    dev: Cow<'a, str>,
    inode: u64,
    #[serde(borrow)]
    knob: Cow<'a, str>,
    original_kib: u32,
    written_kib: u32,
    stands_kib: Option<u32>,
}

/// What journals of earlier versions say.
fn no_device() -> Cow<'static, str> {
    "0:0".into()
}

impl<'a> From<&'a FileEntry> for Row<'a> {
    fn from(entry: &'a FileEntry) -> Row<'a> {
        let FileEntry { process, started, fd, file, ref knob, original_kib, written_kib, stands_kib } = *entry;
        let (dev, knob) = (file.dev.to_string().into(), Cow::Borrowed(&knob[..]));
        Row { process, started, fd, dev, inode: file.inode, knob, original_kib, written_kib, stands_kib }
    }
}

impl Row<'_> {
    /// The entry; None where its device is none.
    fn entry(self) -> Option<FileEntry> {
        let Row { process, started, fd, dev, inode, knob, original_kib, written_kib, stands_kib } = self;
        let (file, knob) = (FileId { dev: Dev::parse(&dev)?, inode }, Arc::from(&knob[..]));
        Some(FileEntry { process, started, fd, file, knob, original_kib, written_kib, stands_kib })
    }
}

/// One entry for each descriptor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    all: BTreeMap<At, FileEntry>,
    of: BTreeSet<(FileId, At)>,
    knobs: BTreeSet<Arc<str>>,
}

impl Files {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All, by process and descriptor.
    pub fn iter(&self) -> impl Iterator<Item = &FileEntry> {
        self.all.values()
    }

    /// That of a descriptor, if it still means the file.
    pub fn get(&self, at: At, file: FileId) -> Option<&FileEntry> {
        self.all.get(&at).filter(|entry| entry.file == file)
    }

    /// Those of a file.
    pub fn of(&self, file: FileId) -> impl Iterator<Item = &FileEntry> {
        let all = (file, (u32::MIN, u32::MIN))..=(file, (u32::MAX, u32::MAX));
        self.of.range(all).filter_map(|(_, at)| self.all.get(at))
    }

    /// The files.
    pub fn ids(&self) -> Vec<FileId> {
        let mut files: Vec<FileId> = self.of.iter().map(|(file, _)| *file).collect();
        files.dedup();
        files
    }

    /// Adds an entry, in the place of one of the same descriptor.
    pub fn insert(&mut self, mut entry: FileEntry) {
        self.remove(entry.at());
        match self.knobs.get(&entry.knob) {
            Some(known) => entry.knob = known.clone(),
            None => drop(self.knobs.insert(entry.knob.clone())),
        }
        self.of.insert((entry.file, entry.at()));
        self.all.insert(entry.at(), entry);
    }

    /// Removes that of a descriptor.
    pub fn remove(&mut self, at: At) {
        if let Some(old) = self.all.remove(&at) {
            self.of.remove(&(old.file, at));
        }
    }

    /// Removes those for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&FileEntry) -> bool) {
        let gone: Vec<At> = self.iter().filter(|entry| !keep(entry)).map(FileEntry::at).collect();
        gone.into_iter().for_each(|at| self.remove(at));
    }

    /// Notes that a value is about to be asked for. Of a descriptor that is noted already, its value before stays.
    pub(super) fn note(&mut self, entry: FileEntry) {
        let known = self.all.get_mut(&entry.at());
        match known.filter(|old| (old.started, old.file) == (entry.started, entry.file)) {
            Some(old) => old.written_kib = entry.written_kib,
            None => self.insert(entry),
        }
    }

    /// A descriptor got a value.
    pub(crate) fn got(&mut self, at: At, kib: u32) {
        if let Some(entry) = self.all.get_mut(&at) {
            entry.stands_kib = Some(kib);
        }
    }

    /// A descriptor did not get the value that was noted: it has the one before.
    pub(crate) fn missed(&mut self, at: At) {
        match self.all.get_mut(&at) {
            Some(FileEntry { stands_kib: Some(stands), written_kib, .. }) => *written_kib = *stands,
            _ => self.remove(at),
        }
    }
}

impl Serialize for Files {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(Row::from))
    }
}

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Files, D::Error> {
        from.deserialize_seq(Rows)
    }
}

struct Rows;

impl<'de> Visitor<'de> for Rows {
    type Value = Files;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of open files")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Files, A::Error> {
        let mut files = Files::default();
        while let Some(row) = rows.next_element::<Row<'de>>()? {
            files.insert(row.entry().ok_or_else(|| A::Error::custom("a file's device is no MAJOR:MINOR"))?);
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(process: u32, fd: u32, inode: u64) -> FileEntry {
        FileEntry {
            process,
            started: 70,
            fd,
            file: FileId { dev: Dev { major: 254, minor: 1 }, inode },
            knob: "k".into(),
            original_kib: 128,
            written_kib: 8,
            stands_kib: None,
        }
    }

    #[test]
    fn a_descriptor_has_one_entry_and_a_file_has_those_of_all_its_descriptors() {
        let mut files = Files::default();
        for (process, fd, inode) in [(7, 3, 12), (7, 4, 12), (8, 3, 13)] {
            files.note(entry(process, fd, inode));
        }
        files.note(FileEntry { original_kib: 8, written_kib: 64, ..entry(7, 3, 12) });
        let fds = |files: &Files, inode| files.of(entry(0, 0, inode).file).map(FileEntry::at).collect::<Vec<_>>();
        assert_eq!((files.len(), fds(&files, 12), fds(&files, 13)), (3, vec![(7, 3), (7, 4)], vec![(8, 3)]));
        let first = files.get((7, 3), entry(0, 0, 12).file).expect("noted");
        assert_eq!((first.original_kib, first.written_kib), (128, 64));
        // The descriptor means another file by now, or another process has the number.
        files.note(entry(7, 3, 13));
        files.note(FileEntry { started: 99, original_kib: 32, ..entry(7, 4, 12) });
        assert_eq!((fds(&files, 12), fds(&files, 13)), (vec![(7, 4)], vec![(7, 3), (8, 3)]));
        assert_eq!(files.get((7, 4), entry(0, 0, 12).file).map(|entry| entry.original_kib), Some(32));
        assert!(files.get((7, 3), entry(0, 0, 12).file).is_none());
        files.retain(|entry| entry.process != 7);
        assert_eq!((files.len(), files.ids()), (1, vec![entry(0, 0, 13).file]));
    }

    #[test]
    fn files_of_a_device_share_its_name_also_when_they_are_read() {
        let mut files = Files::default();
        for fd in 0..100 {
            files.insert(FileEntry { knob: ["a", "b"][fd as usize % 2].into(), ..entry(7, fd, 12) });
        }
        let text = serde_json::to_string(&files).expect("plain values");
        let read: Files = serde_json::from_str(&text).expect("as it was written");
        assert_eq!(read, files);
        for files in [files, read] {
            let names: BTreeSet<_> = files.iter().map(|entry| (&entry.knob[..], entry.knob.as_ptr())).collect();
            assert_eq!(names.len(), 2);
        }
    }

    #[test]
    fn what_was_not_set_has_the_value_before() {
        let mut files = Files::default();
        let at = (7, 3);
        files.note(entry(7, 3, 12));
        files.missed(at);
        assert!(files.is_empty(), "it has its own");
        files.note(entry(7, 3, 12));
        files.got(at, 8);
        files.note(FileEntry { written_kib: 1024, ..entry(7, 3, 12) });
        let values = |files: &Files| [8, 256, 1024].map(|kib| files.iter().all(|entry| entry.is_value(kib)));
        assert_eq!(values(&files), [true, false, true], "either, as long as it is not known");
        files.got(at, 256);
        assert_eq!(values(&files), [false, true, true], "the device bounds it");
        files.note(FileEntry { written_kib: 8, ..entry(7, 3, 12) });
        files.missed(at);
        assert_eq!(values(&files), [false, true, false]);
    }
}
