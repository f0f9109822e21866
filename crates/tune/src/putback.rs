// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the values of open files back, by the journal.

use std::collections::{HashMap, HashSet};

use crate::bdi::has_server;
use crate::error::Result;
use crate::host::Host;
use crate::journal::{FileEntry, Journal, process_started};
use crate::lend::{HELD_MAX, Lent, advise, hold, let_go};
use crate::observe::Observer;
use crate::openfile::{Descriptor, Outcome, list};

/// Compares the journal with the descriptors that its files have now, as the kernel lists them. Where the owner has given
/// advice since, or somebody else a value, theirs stands. A descriptor that is not in the list is closed, or means another
/// file by now. One that a fork, a duplicate or a message made of one of ours has our value too, and is noted like it. An
/// error where descriptors cannot be listed.
pub fn compare(host: &Host, journal: &mut Journal, observer: &mut dyn Observer) -> Result<()> {
    if !journal.files.is_empty() {
        let open = list(observer, &journal.files.ids())?;
        compare_with(host, journal, &open);
    }
    Ok(())
}

fn compare_with(host: &Host, journal: &mut Journal, open: &[Descriptor]) {
    // Where files were being set when a run ended, the device's entry has the values that they may have.
    let lent: HashMap<&str, &[u32]> = journal.devices.iter().map(|d| (&d.knob[..], &d.written_kib[..])).collect();
    let has_ours = |entry: &FileEntry, d: &Descriptor| {
        let is_lent = || lent.get(&entry.knob[..]).is_some_and(|values| values.contains(&d.value_kib));
        d.advice(0, true).is_none() && (entry.is_value(d.value_kib) || is_lent())
    };
    let (mut ours, mut copies) = (HashSet::new(), Vec::new());
    for d in open {
        let at = (d.process, d.fd);
        match journal.files.get(at, d.file) {
            Some(own) if has_ours(own, d) => {
                ours.insert(at);
            }
            Some(_) => {}
            None => {
                let Some(like) = journal.files.of(d.file).find(|entry| has_ours(entry, d)) else { continue };
                let Some(started) = process_started(host, d.process) else { continue };
                copies.push(FileEntry { process: d.process, started, fd: d.fd, ..like.clone() });
            }
        }
    }
    // The list names the file system, which journals of earlier versions do not: their files are compared by stat's
    // numbers when they are held.
    journal.files.retain(|entry| ours.contains(&entry.at()) || !entry.file.has_dev());
    copies.into_iter().for_each(|copy| journal.files.insert(copy));
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
/// no other one's files waiting; the last error is given. `compared` is what `compare` gave: where nobody could see what
/// the owners have advised since, the files stay as they are, for putting a value back takes advice away.
pub fn restore(host: &Host, journal: &mut Journal, compared: Result<()>) -> Result<Restored> {
    let mut restored = Restored::default();
    if let Err(unseen) = compared {
        if host.numbers_processes() {
            journal.drop_closed();
            journal.save()?;
        }
        if !journal.files.is_empty() {
            let many = journal.files.len();
            restored.refused.push(format!(
                "{many} open files keep our values until they are closed, because nobody sees whether their owners have \
                 advised since: {unseen}"
            ));
        }
        return Ok(restored);
    }
    let is_there = |entry: &FileEntry| host.has(&*entry.knob);
    journal.files.retain(|entry| is_there(entry) && process_started(host, entry.process) == Some(entry.started));
    // Those of a server last, in the order of the values, so that each is written to a device once.
    let mut left: Vec<FileEntry> = journal.files.iter().cloned().collect();
    left.sort_by_cached_key(|entry| (has_server(&entry.knob), entry.knob.clone(), entry.original_kib));
    let mut problem = None;
    for of_knob in left.chunk_by(|a, b| a.knob == b.knob) {
        let given = put_back(host, of_knob.iter().collect(), journal, &mut restored);
        // A device that went away meanwhile took its files with it.
        problem = given.err().filter(|_| is_there(&of_knob[0])).or(problem);
    }
    journal.files.retain(is_there);
    journal.save()?;
    problem.map_or(Ok(restored), Err)
}

/// Puts files of one device back. Somebody who writes the device's value in the middle only delays that.
fn put_back(host: &Host, mut left: Vec<&FileEntry>, journal: &mut Journal, restored: &mut Restored) -> Result<()> {
    let knob = &*left[0].knob;
    for _ in 0..TRIES {
        let (mut outcome, mut holding) = (Outcome::default(), Outcome::default());
        let values = left.iter().map(|entry| entry.original_kib);
        let lent = Lent::begin(knob, host.number(knob)?, values, journal)?;
        let mut given = Ok(());
        let mut waiting = Vec::new();
        for some in left.chunks(HELD_MAX) {
            if given.is_err() || outcome.rival_kib.is_some() {
                waiting.extend_from_slice(some);
                continue;
            }
            let (mut held, mut of) = (Vec::new(), Vec::new());
            for entry in some {
                let file = hold(knob, entry.at(), entry.file, entry.original_kib, journal, &mut holding);
                if let Some((file, _)) = file {
                    held.push(file);
                    of.push(*entry);
                }
            }
            given = advise(host, &lent, &mut held, journal, &mut outcome);
            for (file, entry) in held.iter().zip(of) {
                if file.got_kib.is_some() {
                    restored.files += 1;
                    journal.files.remove(file.at);
                } else {
                    waiting.push(entry);
                }
            }
            let_go(knob, held);
        }
        restored.refused.append(&mut holding.refused);
        lent.end(host, journal, given)?;
        left = waiting;
        if left.is_empty() || outcome.rival_kib.is_none() {
            restored.refused.append(&mut outcome.refused);
            return Ok(());
        }
    }
    restored.refused.push(format!("{} open files: somebody keeps writing {knob}", left.len()));
    Ok(())
}

/// So often files are put back while somebody writes their device.
const TRIES: u32 = 5;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::lend::duplicate;
    use crate::mounts::Dev;
    use crate::observe::Sight;
    use crate::openfile::{FileId, MODE_RANDOM};
    use crate::tuner::tests::Listing;

    use std::os::fd::AsRawFd;

    const FILE: FileId = FileId { dev: Dev { major: 254, minor: 1 }, inode: 12 };
    const DESCRIPTOR: Descriptor =
        Descriptor { file: FILE, cgroup: 1, process: 0, fd: 3, mode: 0x1f, flags: 0, size_bytes: 0, value_kib: 128 };

    /// A file that we have open, whose value in the journal is ours; None where we cannot duplicate our descriptors.
    /// `knob` holds 128.
    pub(crate) fn opened(host: &Host, knob: &str) -> Option<(std::fs::File, FileEntry)> {
        let own = std::process::id();
        host.replace("/proc/.keep", "").expect("written");
        // It is there already where another file was opened.
        let _ = std::os::unix::fs::symlink(format!("/proc/{own}"), host.path(format!("/proc/{own}")));
        host.replace(knob, "128").expect("written");
        let open = std::fs::File::open("/proc/self/exe").expect("our own program");
        let fd = u32::try_from(open.as_raw_fd()).expect("positive");
        let file = FileId::of(&open);
        if !matches!(duplicate((own, fd), file), Ok(Some(_))) {
            eprintln!("skipped: pidfd_getfd on ourselves is refused here");
            return None;
        }
        let (process, knob) = (own, knob.into());
        let started = process_started(host, own).expect("we run");
        let (original_kib, written_kib, stands_kib) = (64, 8, None);
        Some((open, FileEntry { process, started, fd, file, knob, original_kib, written_kib, stands_kib }))
    }

    #[test]
    fn what_one_device_refuses_keeps_no_files_of_others_waiting() {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        host.stuck = Some("/sys/a");
        let mut journal = Journal::open(&host).expect("empty");
        let mut held = Vec::new();
        for knob in ["/sys/a", "/sys/b"] {
            let Some((open, entry)) = opened(&host, knob) else { return };
            held.push(open);
            journal.note_file(entry);
        }
        let error = restore(&host, &mut journal, Ok(())).expect_err("one refuses").to_string();
        assert!(error.contains("/sys/a: cannot write"), "{error}");
        let left: Vec<&str> = journal.files.iter().map(|entry| &entry.knob[..]).collect();
        assert_eq!(left, ["/sys/a"]);
    }

    #[test]
    fn files_are_put_back_on_a_file_system_that_is_full_since() {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        let mut journal = Journal::open(&host).expect("empty");
        let Some((_open, entry)) = opened(&host, "/sys/a") else { return };
        journal.note_file(entry);
        journal.save().expect("saved");
        let bytes =
            |name| std::fs::metadata(host.path(format!("/run/linnet/tune/journal.{name}"))).expect("there").len();
        host.room = Some(bytes("json") + bytes("spare"));
        let mut journal = Journal::open(&host).expect("journal");
        assert_eq!(restore(&host, &mut journal, Ok(())).expect("restored").files, 1);
        assert!(Journal::open(&host).expect("journal").is_empty());
        // Without that room nothing is lent, for a crash would leave the device with a file's value.
        let Some((_open, entry)) = opened(&host, "/sys/a") else { return };
        host.room = Some(0);
        let mut journal = Journal::open(&host).expect("journal");
        journal.note_file(entry.clone());
        restore(&host, &mut journal, Ok(())).expect_err("full");
        assert!(journal.files.iter().eq([&entry]) && journal.devices.is_empty());
    }

    #[test]
    fn a_device_that_goes_away_takes_its_files_with_it() {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        host.fleeting = Some("/sys/a");
        let mut journal = Journal::open(&host).expect("empty");
        let Some((_open, entry)) = opened(&host, "/sys/a") else { return };
        journal.note_file(entry);
        let restored = restore(&host, &mut journal, Ok(())).expect("nothing to put back");
        assert_eq!((restored.files, restored.refused.len()), (0, 0));
        assert!(!host.has("/sys/a") && Journal::open(&host).expect("journal").is_empty());
    }

    #[test]
    fn a_file_of_another_file_system_with_the_same_number_is_not_ours() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let mut journal = Journal::open(&host).expect("empty");
        let Some((_open, entry)) = opened(&host, "/sys/a") else { return };
        let Dev { major, minor } = entry.file.dev;
        for dev in [Dev { major: major + 1, minor }, Dev { major: 254, minor: minor + 1 }] {
            journal.note_file(FileEntry { file: FileId { dev, ..entry.file }, ..entry.clone() });
            assert_eq!(
                restore(&host, &mut journal, Ok(())).expect("restored").files,
                0,
                "its owner's advice would be gone"
            );
            assert!(journal.is_empty());
        }
        // Journals of earlier versions do not say which file system.
        for dev in [entry.file.dev, Dev { major: 0, minor: 0 }] {
            journal.note_file(FileEntry { file: FileId { dev, ..entry.file }, ..entry.clone() });
            assert_eq!(restore(&host, &mut journal, Ok(())).expect("restored").files, 1);
        }
    }

    #[test]
    fn what_the_owner_advised_since_stands_and_a_copy_of_ours_is_found() {
        let host = Host::default();
        let mut journal = Journal::unsaved(&host);
        let own = std::process::id();
        let started = process_started(&host, own).expect("we run");
        let entry = |fd, written_kib| FileEntry {
            process: own,
            started,
            fd,
            file: FILE,
            knob: "k".into(),
            original_kib: 128,
            written_kib,
            stands_kib: None,
        };
        for fd in 3..8 {
            journal.note_file(entry(fd, 8));
        }
        journal.note_file(FileEntry { stands_kib: Some(256), ..entry(8, 1024) });
        let open = |fd, value_kib| Descriptor { process: own, fd, value_kib, ..DESCRIPTOR };
        let open = [
            open(3, 8),
            Descriptor { mode: MODE_RANDOM, ..open(4, 8) },
            open(5, 256),
            open(8, 256),
            open(20, 8),
            open(21, 128),
            Descriptor { file: FileId { inode: 99, ..FILE }, ..open(22, 8) },
        ];
        compare_with(&host, &mut journal, &open);
        let mut left: Vec<u32> = journal.files.iter().map(|entry| entry.fd).collect();
        left.sort_unstable();
        // 4 was advised RANDOM and 5 SEQUENTIAL; 6 and 7 are not listed, so they mean other files; 20 is a copy.
        assert_eq!(left, [3, 8, 20]);
        assert!(journal.files.iter().all(|entry| entry.original_kib == 128));
        // What a journal of an earlier version has is in no list, for it does not say which file system.
        let without = FileId { dev: Dev { major: 0, minor: 0 }, ..FILE };
        journal.note_file(FileEntry { file: without, ..entry(9, 8) });
        compare_with(&host, &mut journal, &[]);
        assert_eq!(journal.files.iter().map(|entry| entry.fd).collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn a_file_that_the_kernel_does_not_list_is_left_alone_although_stat_s_numbers_may_be_its() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let mut journal = Journal::open(&host).expect("empty");
        let Some((_, entry)) = opened(&host, "/sys/a") else { return };
        // Files in memory are on no block device, and the journal's file is on another file system without one.
        let open = rustix::fs::memfd_create("linnet", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory");
        let (fd, stat) =
            (u32::try_from(open.as_raw_fd()).expect("positive"), rustix::fs::fstat(&open).expect("numbers"));
        let Dev { major, minor } = Dev::from_stat(stat.st_dev);
        let file = FileId { dev: Dev { major, minor: minor + 1 }, inode: stat.st_ino };
        assert!(major == 0 && file.may_be(stat.st_dev, stat.st_ino));
        journal.note_file(FileEntry { file, fd, ..entry });
        let mut lister = Listing(Sight { descriptors: true, ..Sight::default() }, Vec::new());
        let compared = compare(&host, &mut journal, &mut lister);
        assert_eq!(restore(&host, &mut journal, compared).expect("restored").files, 0);
        assert!(journal.is_empty());
    }

    #[test]
    fn what_a_run_that_was_killed_may_have_set_is_ours() {
        let host = Host::default();
        let mut journal = Journal::unsaved(&host);
        let entry = |fd, written_kib, stands_kib| FileEntry {
            process: std::process::id(),
            started: 1,
            fd,
            file: FILE,
            knob: "k".into(),
            original_kib: 128,
            written_kib,
            stands_kib,
        };
        // It was about to set 1024, of which the device makes 256; the second file still had 8.
        journal.note_device("k", 128, 1024);
        journal.note_device("k", 128, 256);
        journal.note_file(entry(3, 1024, None));
        journal.note_file(entry(4, 1024, Some(8)));
        journal.note_file(entry(5, 1024, None));
        let open = [(3, 256), (4, 8), (5, 512)];
        let open = open.map(|(fd, value_kib)| Descriptor { process: std::process::id(), fd, value_kib, ..DESCRIPTOR });
        compare_with(&host, &mut journal, &open);
        assert_eq!(journal.files.iter().map(|entry| entry.fd).collect::<Vec<_>>(), [3, 4], "512 is somebody else's");
    }
}
