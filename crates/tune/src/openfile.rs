// SPDX-License-Identifier: MIT OR Apache-2.0
//! The setter of an open file's value, from outside the process that holds it open (`lend.rs`). What gives the value also
//! takes back what the owner advised; therefore files with advice are never touched (`Descriptor::advice`).

use std::collections::{HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fstat, open};

use crate::error::{Error, Result};
use crate::host::Host;
use crate::journal::{At, FileEntry, Journal, process_started};
use crate::lend::{HELD_MAX, Held, Lent, advise, hold, let_go};
use crate::mounts::{Dev, mounts};
use crate::observe::Observer;

/// f_mode: the owner advised RANDOM.
pub(crate) const MODE_RANDOM: u32 = 0x1000;
/// f_mode: the owner advised NOREUSE (from 6.3 on).
const MODE_NOREUSE: u32 = 0x0080_0000;
/// f_flags: reads go past the page cache. The number is the architecture's: 64-bit ARM has another one than x86.
pub(crate) const FLAG_DIRECT: u32 = OFlags::DIRECT.bits();

/// A file, as the kernel numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The file system.
    pub dev: Dev,
    /// The file in it.
    pub inode: u64,
}

impl FileId {
    /// The file at a path. stat numbers each subvolume of btrfs like a file system; what is mounted has the number.
    pub fn at(path: &Path) -> Result<FileId> {
        let failed =
            |error: rustix::io::Errno| Error::File { path: path.to_owned(), doing: "look at", source: error.into() };
        let open = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let stat = fstat(&open).map_err(failed)?;
        let host = Host::default();
        let info = host.text(format!("/proc/self/fdinfo/{}", open.as_raw_fd())).unwrap_or_default();
        let id: Option<u32> = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
        let mount = id.and_then(|id| mounts(&host, "self").into_iter().find(|mount| mount.id == id));
        let dev = mount.map_or_else(|| Dev::from_stat(stat.st_dev), |mount| mount.dev);
        Ok(FileId { dev, inode: stat.st_ino })
    }

    /// An open file, by stat alone.
    #[cfg(test)]
    pub(crate) fn of(open: &std::fs::File) -> FileId {
        let stat = fstat(open).expect("its numbers");
        FileId { dev: Dev::from_stat(stat.st_dev), inode: stat.st_ino }
    }

    /// False in journals of earlier versions: their device is 0:0, which no file system has.
    pub(crate) fn has_dev(self) -> bool {
        self.dev != Dev { major: 0, minor: 0 }
    }

    /// True where stat's numbers can be this file's. A file system without a block device may tell another number, as
    /// btrfs does for each subvolume, but always one without; so this is for what may have happened to a descriptor since
    /// the kernel listed it, and not to find out which file it means.
    pub(crate) fn may_be(self, st_dev: u64, inode: u64) -> bool {
        let told = Dev::from_stat(st_dev);
        let is_there = match self.dev {
            _ if !self.has_dev() => true,
            Dev { major: 0, .. } => told.major == 0,
            dev => told == dev,
        };
        is_there && inode == self.inode
    }
}

/// True for the value that the owner's advice SEQUENTIAL gives a file of a device with `device_kib`.
pub(crate) fn is_sequential(value_kib: u32, device_kib: u32) -> bool {
    device_kib > 0 && value_kib == 2 * device_kib
}

/// An open file of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The file.
    pub file: FileId,
    /// Control group of the process.
    pub cgroup: u64,
    /// The process.
    pub process: u32,
    /// Its number for the file.
    pub fd: u32,
    /// f_mode.
    pub mode: u32,
    /// f_flags.
    pub flags: u32,
    /// Of the file; 0 where it is not known.
    pub size_bytes: u64,
    /// The value now.
    pub value_kib: u32,
}

impl Descriptor {
    /// Why we leave this file alone, if there is a reason. SEQUENTIAL advice shows as twice the device's value.
    pub fn advice(&self, device_kib: u32, set_by_us: bool) -> Option<&'static str> {
        if self.mode & MODE_RANDOM != 0 {
            Some("its owner advised RANDOM")
        } else if self.mode & MODE_NOREUSE != 0 {
            Some("its owner advised NOREUSE")
        } else if self.flags & FLAG_DIRECT != 0 {
            Some("it is read past the page cache (O_DIRECT)")
        } else if !set_by_us && is_sequential(self.value_kib, device_kib) {
            Some("its owner advised SEQUENTIAL")
        } else {
            None
        }
    }

    /// The same, where a value that the journal has for this descriptor is ours, and its owner may have advised when the
    /// device still had its value from before us.
    pub fn advice_of_owner(&self, device_kib: u32, original_kib: u32, journal: &Journal) -> Option<&'static str> {
        // Ours as long as it has the value that we gave it: the owner may have advised since.
        let noted = journal.files.get((self.process, self.fd), self.file);
        let plain = self.value_kib == device_kib || noted.is_some_and(|entry| entry.is_value(self.value_kib));
        self.advice(device_kib, plain).or_else(|| self.advice(original_kib, plain))
    }
}

/// The open files that are these files; an error where the observer cannot list any.
pub fn list(observer: &mut dyn Observer, files: &[FileId]) -> Result<Vec<Descriptor>> {
    let sight = observer.sight();
    if !sight.descriptors {
        return Err(Error::Observer { what: sight.limits.join("; ") });
    }
    observer.descriptors(files)
}

/// A value for an open file.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which one.
    pub descriptor: Descriptor,
    /// Value to set.
    pub kib: u32,
}

/// What became of a batch of changes.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Changes that were made.
    pub done: usize,
    /// Files that were closed, or whose process or device went away, in the meantime: nothing to do.
    pub gone: usize,
    /// What the system refused, in words.
    pub refused: Vec<String>,
    /// The files that did not get their value, because the system refused it or a rival came.
    pub unset: Vec<At>,
    /// Somebody else wrote the device's value meanwhile: theirs stands.
    pub rival_kib: Option<u32>,
    /// Values that the device does not take, and those that files got instead.
    pub bounded: Vec<(u32, u32)>,
}

/// Sets values of open files whose device's value is in `knob`. The journal has every change before it is made.
pub fn set(host: &Host, knob: &str, changes: &[Change], journal: &mut Journal) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    match set_all(host, knob, changes, journal, &mut outcome) {
        // The device went away, and its files with it.
        Err(_) if !host.has(knob) => {
            let done = outcome.done;
            Ok(Outcome { done, gone: changes.len() - done, ..Outcome::default() })
        }
        given => given.map(|()| outcome),
    }
}

fn set_all(host: &Host, knob: &str, changes: &[Change], journal: &mut Journal, outcome: &mut Outcome) -> Result<()> {
    let device_kib = host.number(knob)?;
    let (mut noted, mut starts, name) = (Vec::new(), HashMap::new(), Arc::<str>::from(knob));
    for Change { descriptor, kib } in changes {
        let Descriptor { process, fd, file, value_kib, .. } = *descriptor;
        let Some(started) = *starts.entry(process).or_insert_with(|| process_started(host, process)) else {
            outcome.gone += 1;
            continue;
        };
        let original_kib = journal.own_kib(knob, device_kib, file, (process, fd), value_kib);
        let (knob, written_kib, stands_kib) = (name.clone(), *kib, None);
        journal.note_file(FileEntry { process, started, fd, file, knob, original_kib, written_kib, stands_kib });
        noted.push((*kib, file, (process, fd)));
    }
    // Equal values together: each value is written to the device once.
    noted.sort_unstable();
    let lent = Lent::begin(knob, device_kib, noted.iter().map(|(kib, ..)| *kib), journal)?;
    let mut given = Ok(());
    for some in noted.chunks(HELD_MAX) {
        if given.is_ok() && outcome.rival_kib.is_none() {
            given = set_some(host, &lent, some, journal, outcome);
        } else {
            outcome.unset.extend(some.iter().map(|(.., at)| *at));
        }
    }
    for at in &outcome.unset {
        journal.files.missed(*at);
    }
    lent.end(host, journal, given)
}

fn set_some(
    host: &Host,
    lent: &Lent,
    some: &[(u32, FileId, At)],
    journal: &mut Journal,
    outcome: &mut Outcome,
) -> Result<()> {
    let (mut held, mut seen, mut twins) = (Vec::new(), HashMap::new(), HashSet::new());
    for (kib, file, at) in some.iter().copied() {
        let Some((copy, dev)) = hold(lent.knob(), at, file, kib, journal, outcome) else { continue };
        if *seen.entry(file).or_insert(dev) != dev {
            twins.insert(file);
        }
        held.push((file, copy));
    }
    if let Some(file) = twins.iter().next() {
        // btrfs uses the same inode numbers in each subvolume. The kernel's events do not say which subvolume is read.
        outcome.refused.push(format!("several files of {} have the number {}, in subvolumes", file.dev, file.inode));
    }
    let (of_twins, held): (Vec<_>, Vec<_>) = held.into_iter().partition(|(file, _)| twins.contains(file));
    let [of_twins, mut held] = [of_twins, held].map(|all| all.into_iter().map(|(_, file)| file).collect::<Vec<Held>>());
    outcome.unset.extend(of_twins.iter().map(|file| file.at));
    let_go(lent.knob(), of_twins);
    let given = advise(host, lent, &mut held, journal, outcome);
    for file in &held {
        match file.got_kib {
            Some(kib) => journal.files.got(file.at, kib),
            None => outcome.unset.push(file.at),
        }
    }
    let_go(lent.knob(), held);
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Descriptor {
        Descriptor {
            file: FileId { dev: Dev { major: 254, minor: 1 }, inode: 12 },
            cgroup: 1,
            process: std::process::id(),
            fd: 3,
            mode: 0x1f,
            flags: 0,
            size_bytes: 0,
            value_kib: 128,
        }
    }

    #[test]
    fn advised_files_are_left_alone() {
        let plain = descriptor();
        assert_eq!(plain.advice(128, false), None);
        let advised = |change: fn(&mut Descriptor)| {
            let mut d = descriptor();
            change(&mut d);
            d.advice(128, false)
        };
        assert_eq!(advised(|d| d.mode |= MODE_RANDOM), Some("its owner advised RANDOM"));
        assert_eq!(advised(|d| d.mode |= MODE_NOREUSE), Some("its owner advised NOREUSE"));
        assert_eq!(advised(|d| d.value_kib = 256), Some("its owner advised SEQUENTIAL"));
        assert!(advised(|d| d.flags |= FLAG_DIRECT).is_some());
        let ours = Descriptor { value_kib: 256, ..plain };
        assert_eq!(ours.advice(128, true), None, "a value of ours is no advice");
    }

    #[test]
    fn a_value_that_the_journal_has_is_no_advice_until_it_changes() {
        let root = tempfile::tempdir().expect("a directory");
        let mut journal = Journal::unsaved(&Host::below(root.path()));
        let d = Descriptor { value_kib: 256, ..descriptor() };
        let sequential = Some("its owner advised SEQUENTIAL");
        assert_eq!(d.advice_of_owner(128, 128, &journal), sequential);
        assert_eq!(d.advice_of_owner(8, 128, &journal), sequential, "advised before the device was set");
        assert_eq!(d.advice_of_owner(256, 128, &journal), None, "the device has the same");
        let (process, fd, file, knob) = (d.process, d.fd, d.file, "k".into());
        let (started, original_kib, written_kib, stands_kib) = (7, 128, 256, Some(256));
        journal.note_file(FileEntry { process, started, fd, file, knob, original_kib, written_kib, stands_kib });
        assert_eq!(d.advice_of_owner(128, 128, &journal), None, "it is ours");
        assert_eq!(Descriptor { value_kib: 512, ..d.clone() }.advice_of_owner(256, 128, &journal), sequential);
        assert_eq!(Descriptor { fd: 4, ..d }.advice_of_owner(128, 128, &journal), sequential, "another descriptor");
    }

    #[test]
    fn stat_s_numbers_are_a_file_s_where_its_file_system_can_tell_them() {
        let number = |major, minor| rustix::fs::makedev(major, minor);
        let may_be = |dev, told, inode| FileId { dev, inode: 12 }.may_be(told, inode);
        let (disk, none) = (Dev { major: 254, minor: 1 }, Dev { major: 0, minor: 0 });
        assert!(may_be(disk, number(254, 1), 12) && !may_be(disk, number(254, 1), 13));
        assert!(!may_be(disk, number(254, 2), 12) && !may_be(disk, number(0, 1), 12), "another file system");
        let btrfs = Dev { major: 0, minor: 31 };
        assert!(may_be(btrfs, number(0, 31), 12) && may_be(btrfs, number(0, 47), 12), "a subvolume has a number");
        assert!(!may_be(btrfs, number(254, 1), 12) && !may_be(btrfs, number(0, 47), 13));
        assert!(may_be(none, number(254, 1), 12) && !may_be(none, number(254, 1), 13), "of an earlier version");
    }

    #[test]
    fn the_kernel_s_own_flags_show_o_direct() {
        // Each architecture has a number of its own for it.
        let exe = std::env::current_exe().expect("our own program");
        let direct = match open(&exe, OFlags::RDONLY | OFlags::DIRECT, Mode::empty()) {
            Ok(direct) => direct,
            Err(error) => return eprintln!("skipped: {} cannot be opened with O_DIRECT: {error}", exe.display()),
        };
        let flags = rustix::fs::fcntl_getfl(&direct).expect("its flags").bits();
        assert!(Descriptor { flags, ..descriptor() }.advice(128, false).is_some_and(|why| why.contains("O_DIRECT")));
        let plain = open(&exe, OFlags::RDONLY, Mode::empty()).expect("open");
        let flags = rustix::fs::fcntl_getfl(&plain).expect("its flags").bits();
        assert_eq!(Descriptor { flags, ..descriptor() }.advice(128, false), None);
    }

    #[test]
    fn the_device_s_value_stands_again_and_the_journal_keeps_the_file() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let knob = "/sys/knob";
        host.replace(knob, "128").expect("written");
        let own = std::process::id();
        let stat = std::fs::read_to_string(format!("/proc/{own}/stat")).expect("our own process");
        host.replace(format!("/proc/{own}/stat"), &stat).expect("written");
        let file = std::fs::File::open(host.path(knob)).expect("a file");
        let mut d = descriptor();
        d.file = FileId::of(&file);
        d.fd = u32::try_from(file.as_raw_fd()).expect("positive");
        let closed = Change { descriptor: Descriptor { fd: 1_000_000, ..d.clone() }, kib: 8 };
        let other = Change { descriptor: Descriptor { process: 4_000_000, ..d.clone() }, kib: 8 };
        let mut journal = Journal::open(&host).expect("empty");
        let changes = [Change { descriptor: d, kib: 8 }, closed, other];
        let outcome = set(&host, knob, &changes, &mut journal).expect("set");
        if !outcome.refused.is_empty() {
            eprintln!("skipped: pidfd_getfd on ourselves is refused here: {:?}", outcome.refused);
            return;
        }
        assert_eq!((outcome.done, outcome.gone, outcome.rival_kib), (1, 2, None));
        assert_eq!(host.number::<u32>(knob).expect("a number"), 128);
        let noted = Journal::open(&host).expect("journal");
        assert!(noted.devices.is_empty());
        let values = noted.files.iter().map(|entry| (entry.original_kib, entry.written_kib, entry.stands_kib));
        assert_eq!(values.collect::<Vec<_>>(), [(128, 8, Some(8))]);
        assert_eq!(crate::putback::restore(&host, &mut journal, Ok(())).expect("restored").files, 1);
        assert!(Journal::open(&host).expect("journal").is_empty());
    }

    #[test]
    fn files_of_a_device_that_went_away_are_gone() {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        let own = std::process::id();
        let stat = std::fs::read_to_string(format!("/proc/{own}/stat")).expect("our own process");
        host.replace(format!("/proc/{own}/stat"), &stat).expect("written");
        let mut journal = Journal::open(&host).expect("empty");
        let open = std::fs::File::open("/proc/self/exe").expect("our own program");
        let mut d = descriptor();
        d.file = FileId::of(&open);
        d.fd = u32::try_from(open.as_raw_fd()).expect("positive");
        let changes = [Change { descriptor: d, kib: 8 }];
        let knob = "/sys/class/bdi/8:0/read_ahead_kb";
        let outcome = set(&host, knob, &changes, &mut journal).expect("no error");
        assert_eq!((outcome.done, outcome.gone), (0, 1));
        assert!(journal.is_empty());
        // Or just when it is to lend its value.
        host.replace(knob, "128").expect("written");
        host.fleeting = Some(knob);
        let outcome = set(&host, knob, &changes, &mut journal).expect("no error");
        assert_eq!((outcome.done, outcome.gone, outcome.unset.len()), (0, 1, 0));
        assert!(!host.has(knob) && journal.is_empty() && Journal::open(&host).expect("journal").is_empty());
    }
}
