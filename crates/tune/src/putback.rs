// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the values of open files back, by the journal.

use crate::error::Result;
use crate::host::Host;
use crate::journal::{FileEntry, Journal, process_started};
use crate::openfile::{Descriptor, HELD_MAX, Held, Outcome, duplicate, give};

/// Compares the journal with the descriptors that its files have now. Where the owner has given advice since, or
/// somebody else a value, theirs stands. A descriptor that a fork, a duplicate or a message made of one of ours has our
/// value too, and is noted like it. `stands` knows what a device makes of a value.
pub fn compare(host: &Host, journal: &mut Journal, open: &[Descriptor], stands: &dyn Fn(&str, u32) -> u32) {
    let of = |entry: &FileEntry, d: &Descriptor| (entry.dev, entry.inode) == (d.file.dev, d.file.inode);
    let has_ours = |entry: &FileEntry, d: &Descriptor| {
        d.advice(0, true).is_none() && d.value_kib == stands(&entry.knob, entry.written_kib)
    };
    let noted = std::mem::take(&mut journal.files);
    for d in open {
        let own = |entry: &&FileEntry| of(entry, d) && (entry.process, entry.fd) == (d.process, d.fd);
        if noted.iter().any(|entry| own(&entry)) {
            continue;
        }
        let Some(like) = noted.iter().find(|entry| of(entry, d) && has_ours(entry, d)) else { continue };
        let Some(started) = process_started(host, d.process) else { continue };
        journal.files.push(FileEntry { process: d.process, started, fd: d.fd, ..like.clone() });
    }
    journal.files.extend(noted.into_iter().filter(|entry| {
        let now = open.iter().find(|d| of(entry, d) && (entry.process, entry.fd) == (d.process, d.fd));
        now.is_none_or(|d| has_ours(entry, d))
    }));
}

/// What became of the files in the journal.
#[derive(Debug, Default)]
pub struct Restored {
    /// Files that have their value from before.
    pub files: usize,
    /// What the system refused, in words. These files stay in the journal.
    pub refused: Vec<String>,
}

/// Puts the values of all files in the journal back, as far as they are still open. An entry leaves the journal when its
/// file has its value, or is gone: what an error or a signal interrupts can be done again. What one device refuses keeps
/// no other one's files waiting; the last error is given.
pub fn restore(host: &Host, journal: &mut Journal) -> Result<Restored> {
    let mut restored = Restored::default();
    journal.files.retain(|entry| host.has(&entry.knob) && process_started(host, entry.process) == Some(entry.started));
    // In the order of the values, so that each is written to a device once.
    let mut left = journal.files.clone();
    left.sort_by(|a, b| (&a.knob, a.original_kib).cmp(&(&b.knob, b.original_kib)));
    let mut problem = None;
    for of_knob in left.chunk_by(|a, b| a.knob == b.knob) {
        let all = of_knob.chunks(HELD_MAX).try_for_each(|some| put_back(host, some, journal, &mut restored));
        problem = all.err().or(problem);
    }
    journal.save()?;
    problem.map_or(Ok(restored), Err)
}

/// Puts files of one device back. Somebody who writes the device's value in the middle only delays that.
fn put_back(host: &Host, entries: &[FileEntry], journal: &mut Journal, restored: &mut Restored) -> Result<()> {
    let mut left: Vec<&FileEntry> = entries.iter().collect();
    for _ in 0..TRIES {
        let (mut held, mut of) = (Vec::new(), Vec::new());
        for entry in std::mem::take(&mut left) {
            match duplicate(entry.process, entry.fd, entry.inode) {
                Ok(Some(copy)) => {
                    held.push(Held { kib: entry.original_kib, copy, done: false });
                    of.push(entry);
                }
                Ok(None) => journal.files.retain(|file| file != entry),
                Err(error) => {
                    restored.refused.push(format!("process {}, descriptor {}: {error}", entry.process, entry.fd));
                }
            }
        }
        let mut outcome = Outcome::default();
        let given = give(host, &entries[0].knob, &mut held, journal, &mut outcome);
        for (file, entry) in held.iter().zip(of) {
            if file.done {
                restored.files += 1;
                journal.files.retain(|file| file != entry);
            } else {
                left.push(entry);
            }
        }
        given?;
        if left.is_empty() || outcome.rival_kib.is_none() {
            restored.refused.append(&mut outcome.refused);
            return Ok(());
        }
    }
    let knob = &entries[0].knob;
    restored.refused.push(format!("{} open files: somebody keeps writing {knob}", left.len()));
    Ok(())
}

/// So often files are put back while somebody writes their device.
const TRIES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::Dev;
    use crate::openfile::{FileId, MODE_RANDOM};

    const FILE: FileId = FileId { dev: Dev { major: 254, minor: 1 }, inode: 12 };
    const DESCRIPTOR: Descriptor =
        Descriptor { file: FILE, cgroup: 1, process: 0, fd: 3, mode: 0x1f, flags: 0, size_bytes: 0, value_kib: 128 };

    #[test]
    fn what_one_device_refuses_keeps_no_files_of_others_waiting() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        host.stuck = Some("/sys/a");
        let own = std::process::id();
        let stat = std::fs::read_to_string(format!("/proc/{own}/stat")).expect("our own process");
        host.replace(format!("/proc/{own}/stat"), &stat).expect("written");
        let file = std::fs::File::open("/proc/self/exe").expect("our own program");
        let inode = file.metadata().expect("metadata").ino();
        let fd = u32::try_from(file.as_raw_fd()).expect("positive");
        if !matches!(duplicate(own, fd, inode), Ok(Some(_))) {
            eprintln!("skipped: pidfd_getfd on ourselves is refused here");
            return;
        }
        let mut journal = Journal::open(&host).expect("empty");
        for name in ["a", "b"] {
            host.replace(format!("/sys/{name}"), "128").expect("written");
            let (started, knob) = (process_started(&host, own).expect("we run"), format!("/sys/{name}"));
            let (dev, original_kib, written_kib) = (FILE.dev, 64, 8);
            journal.files.push(FileEntry { process: own, started, fd, dev, inode, knob, original_kib, written_kib });
        }
        let error = restore(&host, &mut journal).expect_err("one refuses").to_string();
        assert!(error.contains("/sys/a: cannot write"), "{error}");
        let left: Vec<&str> = journal.files.iter().map(|entry| &entry.knob[..]).collect();
        assert_eq!(left, ["/sys/a"]);
    }

    #[test]
    fn what_the_owner_advised_since_stands_and_a_copy_of_ours_is_found() {
        let host = Host::default();
        let mut journal = Journal::unsaved(&host);
        let own = std::process::id();
        let started = process_started(&host, own).expect("we run");
        let (dev, inode) = (FILE.dev, FILE.inode);
        let entry = |fd, written_kib| FileEntry {
            process: own,
            started,
            fd,
            dev,
            inode,
            knob: "k".into(),
            original_kib: 128,
            written_kib,
        };
        for fd in 3..8 {
            journal.note_file(entry(fd, 8));
        }
        journal.note_file(entry(8, 1024));
        let open = |fd, value_kib| Descriptor { process: own, fd, value_kib, ..DESCRIPTOR };
        let open = [
            open(3, 8),
            Descriptor { mode: MODE_RANDOM, ..open(4, 8) },
            open(5, 256),
            open(8, 256),
            open(20, 8),
            open(21, 128),
            Descriptor { file: FileId { inode: 99, dev }, ..open(22, 8) },
        ];
        compare(&host, &mut journal, &open, &|_, kib| kib.min(256));
        let mut left: Vec<u32> = journal.files.iter().map(|entry| entry.fd).collect();
        left.sort_unstable();
        // 4 was advised RANDOM and 5 SEQUENTIAL; 6 and 7 are closed, which the restoring finds; 20 is a copy.
        assert_eq!(left, [3, 6, 7, 8, 20]);
        assert!(journal.files.iter().all(|entry| entry.original_kib == 128));
    }
}
