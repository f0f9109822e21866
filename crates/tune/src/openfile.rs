// SPDX-License-Identifier: MIT OR Apache-2.0
//! The setter of an open file's value, from outside the process that holds it open.
//!
//! `posix_fadvise(NORMAL)` copies the device's value into the open file, and `pidfd_getfd` gives us the very open file
//! of another process. So: write the value to the device, advise on the duplicate, put the device's value back. That
//! takes some microseconds, in which a file that somebody opens inherits the value. NORMAL also takes back what the
//! owner advised; therefore files with advice are never touched (`Descriptor::advice`).

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Advice, Mode, OFlags, fadvise, fstat, open};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::error::{Error, Result};
use crate::host::Host;
use crate::journal::{FileEntry, Journal, process_started};
use crate::mounts::{Dev, mounts};

/// f_mode: the owner advised RANDOM.
pub(crate) const MODE_RANDOM: u32 = 0x1000;
/// f_mode: the owner advised NOREUSE (from 6.3 on).
const MODE_NOREUSE: u32 = 0x0080_0000;
const FLAG_DIRECT: u32 = 0o40_000;

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
    /// The files that it refused, by process and descriptor.
    pub unset: Vec<(u32, u32)>,
    /// Somebody else wrote the device's value meanwhile: theirs stands.
    pub rival_kib: Option<u32>,
    /// Values that the device does not take, and those that files got instead.
    pub bounded: Vec<(u32, u32)>,
}

/// Duplicates the open file of another process; None where it is closed or means another file now.
pub(crate) fn duplicate(process: u32, fd: u32, inode: u64) -> rustix::io::Result<Option<OwnedFd>> {
    use rustix::io::Errno;
    let gone = |error| match error {
        Errno::SRCH | Errno::BADF | Errno::NOENT | Errno::INVAL => Ok(None),
        error => Err(error),
    };
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let Ok(fd) = i32::try_from(fd) else { return Ok(None) };
    let holder = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(holder) => holder,
        Err(error) => return gone(error),
    };
    let copy = match pidfd_getfd(holder, fd, PidfdGetfdFlags::empty()) {
        Ok(copy) => copy,
        Err(error) => return gone(error),
    };
    Ok((fstat(&copy)?.st_ino == inode).then_some(copy))
}

/// An open file that we hold too, its value to be, and whether it has it.
pub(crate) struct Held {
    pub(crate) kib: u32,
    pub(crate) copy: OwnedFd,
    pub(crate) done: bool,
}

/// Open files that are held at once: a process may have as few as 1,024 descriptors.
pub(crate) const HELD_MAX: usize = 256;

/// Sets values of open files whose device's value is in `knob`. The journal has every change before it is made.
pub fn set(host: &Host, knob: &str, changes: &[Change], journal: &mut Journal) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    // Equal values together: each value is written to the device once.
    let mut sorted: Vec<&Change> = changes.iter().collect();
    sorted.sort_by_key(|change| change.kib);
    if !host.has(knob) {
        // The device went away, and its files with it.
        outcome.gone = sorted.len();
        return Ok(outcome);
    }
    for some in sorted.chunks(HELD_MAX) {
        set_some(host, knob, some, journal, &mut outcome)?;
        if outcome.rival_kib.is_some() {
            break;
        }
    }
    Ok(outcome)
}

fn set_some(host: &Host, knob: &str, changes: &[&Change], journal: &mut Journal, outcome: &mut Outcome) -> Result<()> {
    let (mut held, mut of) = (Vec::new(), Vec::new());
    for change in changes {
        let Descriptor { process, fd, file, value_kib, .. } = change.descriptor;
        let Some(started) = process_started(host, process) else {
            outcome.gone += 1;
            continue;
        };
        match duplicate(process, fd, file.inode) {
            Ok(Some(copy)) => {
                held.push(Held { kib: change.kib, copy, done: false });
                of.push((process, fd));
                let entry = FileEntry {
                    process,
                    started,
                    fd,
                    dev: file.dev,
                    inode: file.inode,
                    knob: knob.to_owned(),
                    original_kib: value_kib,
                    written_kib: change.kib,
                };
                journal.note_file(entry);
            }
            Ok(None) => outcome.gone += 1,
            Err(error) => {
                outcome.refused.push(format!("process {process}, descriptor {fd}: {error}"));
                outcome.unset.push((process, fd));
            }
        }
    }
    let refused = outcome.refused.len();
    let given = give(host, knob, &mut held, journal, outcome);
    // Those that somebody's value kept from being set are set at the next look.
    if outcome.refused.len() > refused {
        outcome.unset.extend(held.iter().zip(of).filter(|(file, _)| !file.done).map(|(_, of)| of));
    }
    given
}

/// Gives each file its value. They are in the order of their values.
pub(crate) fn give(
    host: &Host,
    knob: &str,
    held: &mut [Held],
    journal: &mut Journal,
    outcome: &mut Outcome,
) -> Result<()> {
    if held.is_empty() {
        return Ok(());
    }
    let base: u32 = host.number(knob)?;
    // While the device's value is not its own, a crash must find it in the journal.
    let standing = journal.devices.clone();
    for file in held.iter() {
        journal.note_device(knob, base, file.kib);
    }
    journal.save()?;
    let given = advise(host, knob, base, held, journal, outcome);
    // Where the device may still have a value of ours, the journal keeps saying so.
    if given.is_ok() || host.number::<u32>(knob).is_ok_and(|now| now == base) {
        journal.devices = standing;
        journal.save()?;
    }
    given
}

/// The same by way of the device, whose value is `base`.
fn advise(
    host: &Host,
    knob: &str,
    base: u32,
    held: &mut [Held],
    journal: &mut Journal,
    outcome: &mut Outcome,
) -> Result<()> {
    let (mut asked, mut stands) = (base, base);
    let mut failed = None;
    for Held { kib, copy, done } in held {
        if *kib != asked {
            // Somebody may have written since: theirs would be lost, so see first.
            let now: u32 = host.number(knob)?;
            if now != stands {
                outcome.rival_kib = Some(now);
                return Ok(());
            }
            asked = *kib;
            match host.set(knob, asked) {
                Ok(value) => stands = value,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            if stands != asked {
                outcome.bounded.push((asked, stands));
                journal.note_device(knob, base, stands);
                if let Err(error) = journal.save() {
                    failed = Some(error);
                    break;
                }
            }
        }
        match fadvise(copy, 0, None, Advice::Normal) {
            Ok(()) => {
                *done = true;
                outcome.done += 1;
            }
            Err(error) => outcome.refused.push(error.to_string()),
        }
    }
    if asked != base {
        let now: u32 = host.number(knob)?;
        if now == stands || failed.is_some() {
            host.write(knob, &base.to_string())?;
        } else {
            outcome.rival_kib = Some(now);
        }
    }
    failed.map_or(Ok(()), Err)
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
    fn the_device_s_value_stands_again_and_the_journal_keeps_the_file() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let knob = "/sys/knob";
        host.replace(knob, "128").expect("written");
        let own = std::process::id();
        let stat = std::fs::read_to_string(format!("/proc/{own}/stat")).expect("our own process");
        host.replace(format!("/proc/{own}/stat"), &stat).expect("written");
        let file = std::fs::File::open(host.path(knob)).expect("a file");
        let mut d = descriptor();
        d.file.inode = file.metadata().expect("metadata").ino();
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
        assert_eq!((noted.files.len(), noted.files[0].original_kib, noted.files[0].written_kib), (1, 128, 8));
        assert_eq!(crate::putback::restore(&host, &mut journal).expect("restored").files, 1);
        assert!(Journal::open(&host).expect("journal").is_empty());
    }

    #[test]
    fn files_of_a_device_that_went_away_are_gone() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let own = std::process::id();
        let stat = std::fs::read_to_string(format!("/proc/{own}/stat")).expect("our own process");
        host.replace(format!("/proc/{own}/stat"), &stat).expect("written");
        let mut journal = Journal::open(&host).expect("empty");
        let open = std::fs::File::open("/proc/self/exe").expect("our own program");
        let mut d = descriptor();
        d.file.inode = std::os::unix::fs::MetadataExt::ino(&open.metadata().expect("metadata"));
        d.fd = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&open)).expect("positive");
        let changes = [Change { descriptor: d, kib: 8 }];
        let outcome = set(&host, "/sys/class/bdi/8:0/read_ahead_kb", &changes, &mut journal).expect("no error");
        assert_eq!((outcome.done, outcome.gone), (0, 1));
        assert!(journal.is_empty());
    }

    #[test]
    fn a_bounded_value_is_no_rival_and_the_device_has_its_own_again() {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        host.bound_kib = Some(256);
        let knob = "/sys/block/vda/queue/read_ahead_kb";
        host.replace(knob, "128").expect("written");
        let mut journal = Journal::open(&host).expect("empty");
        let mut outcome = Outcome::default();
        let copy = || OwnedFd::from(std::fs::File::open("/proc/self/exe").expect("our own program"));
        let mut held = [8, 1024, 1024].map(|kib| Held { kib, copy: copy(), done: false });
        advise(&host, knob, 128, &mut held, &mut journal, &mut outcome).expect("advised");
        assert!(held.iter().all(|file| file.done));
        assert_eq!((outcome.done, outcome.rival_kib), (3, None));
        assert_eq!(outcome.bounded, [(1024, 256)]);
        assert_eq!(journal.devices[0].written_kib, [256], "a crash between finds the value that stands");
        assert_eq!(host.number::<u32>(knob).expect("a number"), 128);
    }
}
