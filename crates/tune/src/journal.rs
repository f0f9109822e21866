// SPDX-License-Identifier: MIT OR Apache-2.0
//! What we changed, written down before we change it, so that everything can be put back: on exit, or at the next start
//! where there was no exit. The lock beside it keeps a second tuner away.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::host::Host;
use crate::mounts::Dev;

const DIRECTORY: &str = "/run/linnet/tune";
const JOURNAL: &str = "/run/linnet/tune/journal.json";
/// Fewer files are not looked through for closed ones.
const FILES_MIN: usize = 256;
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A device's value that we changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEntry {
    /// The file that holds the value.
    pub knob: String,
    /// What it held before.
    pub original_kib: u32,
    /// Everything we wrote there: one of these is ours, another value is somebody else's.
    pub written_kib: Vec<u32>,
    /// The kernel's number of the disk, which no other disk has had since the machine started; None where it has none.
    pub sequence: Option<u64>,
}

/// The kernel's number of the disk that a knob belongs to.
pub(crate) fn sequence(host: &Host, knob: &str) -> Option<u64> {
    let mut parts = knob.strip_suffix("/read_ahead_kb")?.rsplit('/');
    let of = match (parts.next()?, parts.next()?) {
        ("queue", disk) => format!("/sys/block/{disk}/diskseq"),
        (number, "bdi") => format!("/sys/dev/block/{number}/diskseq"),
        _ => return None,
    };
    host.number(of).ok()
}

/// An open file whose value we changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The process that holds it open.
    pub process: u32,
    /// When that process began, in ticks since boot: its number may be used again.
    pub started: u64,
    /// Its descriptor.
    pub fd: u32,
    /// The file system, as the observer numbers it; 0:0 in journals of earlier versions.
    pub dev: Dev,
    /// The file, to see whether the descriptor still means it.
    pub inode: u64,
    /// The knob of the device that holds the file.
    pub knob: String,
    /// Its value before.
    pub original_kib: u32,
    /// The value that we set last.
    pub written_kib: u32,
}

/// A mount that we placed over another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Where.
    pub point: String,
    /// Device number of the mount below, as `MAJOR:MINOR`.
    pub below: String,
    /// Its read size in bytes.
    pub below_rsize: u32,
    /// The read size that ours was asked for.
    pub rsize: u32,
}

/// The lock that a tuner holds as long as it runs.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub fn take(host: &Host) -> Result<Lock> {
        let path = host.path(format!("{DIRECTORY}/lock"));
        let failed = |source| Error::File { path: path.clone(), doing: "lock", source };
        std::fs::create_dir_all(host.path(DIRECTORY)).map_err(failed)?;
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            return Err(Error::Locked { path, process: holder.trim().parse().unwrap_or(0) });
        }
        file.set_len(0).map_err(failed)?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes()).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

/// The record of what is changed now.
#[derive(Debug)]
pub struct Journal {
    host: Host,
    /// False in a dry run: a tuner may run beside it, and the file is that one's.
    is_kept: bool,
    /// How many entries of files were left when those of closed files were dropped last.
    pruned: usize,
    /// Devices, one entry each.
    pub devices: Vec<DeviceEntry>,
    /// Open files, one entry each.
    pub files: Vec<FileEntry>,
    /// Mounts of ours.
    pub mounts: Vec<MountEntry>,
}

fn number<T: TryFrom<u64>>(value: &Value, key: &str) -> Option<T> {
    value.get(key)?.as_u64()?.try_into().ok()
}

fn device(value: &Value) -> Option<DeviceEntry> {
    let written = value.get("written_kib")?.as_array()?;
    Some(DeviceEntry {
        knob: value.get("knob")?.as_str()?.to_owned(),
        original_kib: number(value, "original_kib")?,
        written_kib: written.iter().map(|v| v.as_u64()?.try_into().ok()).collect::<Option<_>>()?,
        sequence: number(value, "diskseq"),
    })
}

fn file(value: &Value) -> Option<FileEntry> {
    Some(FileEntry {
        process: number(value, "process")?,
        started: number(value, "started")?,
        fd: number(value, "fd")?,
        dev: value.get("dev").and_then(Value::as_str).and_then(Dev::parse).unwrap_or(Dev { major: 0, minor: 0 }),
        inode: number(value, "inode")?,
        knob: value.get("knob")?.as_str()?.to_owned(),
        original_kib: number(value, "original_kib")?,
        written_kib: number(value, "written_kib")?,
    })
}

fn mount(value: &Value) -> Option<MountEntry> {
    Some(MountEntry {
        point: value.get("point")?.as_str()?.to_owned(),
        below: value.get("below")?.as_str()?.to_owned(),
        below_rsize: number(value, "below_rsize")?,
        rsize: number(value, "rsize")?,
    })
}

impl Journal {
    /// An empty one that is never written down.
    pub fn unsaved(host: &Host) -> Journal {
        let (devices, files, mounts) = Default::default();
        Journal { host: host.clone(), is_kept: false, pruned: 0, devices, files, mounts }
    }

    /// The journal of an earlier run, or an empty one. A journal from before the machine started says nothing any more.
    pub fn open(host: &Host) -> Result<Journal> {
        let mut journal = Journal { is_kept: true, ..Journal::unsaved(host) };
        if !host.has(JOURNAL) {
            return Ok(journal);
        }
        let damaged = |what: &str| Error::Format {
            path: host.path(JOURNAL),
            what: format!("{what}; compare the values with `linnet tune doctor`, then delete the file"),
        };
        let text = host.read(JOURNAL)?;
        let whole: Value = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
        if whole["boot"].as_str() != host.text(BOOT).as_deref() {
            return Ok(journal);
        }
        let list = |key: &str| whole[key].as_array().cloned().unwrap_or_default();
        journal.devices = list("devices")
            .iter()
            .map(device)
            .collect::<Option<_>>()
            .ok_or_else(|| damaged("a device lacks a field"))?;
        journal.files =
            list("files").iter().map(file).collect::<Option<_>>().ok_or_else(|| damaged("a file lacks a field"))?;
        journal.mounts =
            list("mounts").iter().map(mount).collect::<Option<_>>().ok_or_else(|| damaged("a mount lacks a field"))?;
        Ok(journal)
    }

    /// True where nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.files.is_empty() && self.mounts.is_empty()
    }

    /// Writes the record down. It survives the end of this process, not that of the machine, as do the values.
    pub fn save(&self) -> Result<()> {
        if !self.is_kept {
            return Ok(());
        }
        let devices: Vec<Value> = self
            .devices
            .iter()
            .map(|d| {
                json!({"knob": d.knob, "original_kib": d.original_kib, "written_kib": d.written_kib,
                       "diskseq": d.sequence})
            })
            .collect();
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|f| {
                json!({"process": f.process, "started": f.started, "fd": f.fd, "dev": f.dev.to_string(),
                       "inode": f.inode, "knob": f.knob,
                       "original_kib": f.original_kib, "written_kib": f.written_kib})
            })
            .collect();
        let mounts: Vec<Value> = self
            .mounts
            .iter()
            .map(|m| json!({"point": m.point, "below": m.below, "below_rsize": m.below_rsize, "rsize": m.rsize}))
            .collect();
        let whole = json!({"boot": self.host.text(BOOT), "devices": devices, "files": files, "mounts": mounts});
        self.host.replace(JOURNAL, &whole.to_string())
    }

    /// Notes that a device's value is about to become `kib`. `original_kib` counts only at the first time.
    pub fn note_device(&mut self, knob: &str, original_kib: u32, kib: u32) {
        match self.devices.iter_mut().find(|entry| entry.knob == knob) {
            Some(entry) if entry.written_kib.contains(&kib) => {}
            Some(entry) => entry.written_kib.push(kib),
            None => {
                let sequence = sequence(&self.host, knob);
                let knob = knob.to_owned();
                self.devices.push(DeviceEntry { knob, original_kib, written_kib: vec![kib], sequence });
            }
        }
    }

    /// Notes that an open file's value is about to become `entry.written_kib`.
    pub fn note_file(&mut self, entry: FileEntry) {
        let same = |old: &&mut FileEntry| {
            (old.process, old.started, old.fd, old.inode) == (entry.process, entry.started, entry.fd, entry.inode)
        };
        match self.files.iter_mut().find(same) {
            Some(old) => old.written_kib = entry.written_kib,
            None => {
                self.prune();
                self.files.push(entry);
            }
        }
    }

    /// Drops files that are closed, now and then: processes that come and go would fill the journal.
    fn prune(&mut self) {
        if self.files.len() < FILES_MIN.max(2 * self.pruned) {
            return;
        }
        let host = self.host.clone();
        self.files.retain(|file| is_open(&host, file));
        self.pruned = self.files.len();
    }

    /// Forgets a device: its value is the original one again, or somebody else's.
    pub fn forget_device(&mut self, knob: &str) {
        self.devices.retain(|entry| entry.knob != knob);
    }
}

/// Whether the descriptor of an entry is still open, by its process and its file.
fn is_open(host: &Host, file: &FileEntry) -> bool {
    use std::os::unix::fs::MetadataExt;
    let open = host.path(format!("/proc/{}/fd/{}", file.process, file.fd));
    process_started(host, file.process) == Some(file.started)
        && std::fs::metadata(open).is_ok_and(|found| found.ino() == file.inode)
}

/// When a process began, in ticks since boot: field 22 of /proc/PID/stat, counted after the name, which may hold
/// blanks.
pub fn process_started(host: &Host, process: u32) -> Option<u64> {
    let stat = host.text(format!("/proc/{process}/stat"))?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        host.replace(BOOT, "one").expect("written");
        (root, host)
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (_root, host) = machine();
        let mut journal = Journal::open(&host).expect("empty");
        journal.note_device("/sys/block/vda/queue/read_ahead_kb", 128, 8);
        journal.note_device("/sys/block/vda/queue/read_ahead_kb", 8, 16);
        let entry = FileEntry {
            process: 7,
            started: 70,
            fd: 3,
            dev: Dev { major: 254, minor: 1 },
            inode: 12,
            knob: "k".into(),
            original_kib: 128,
            written_kib: 8,
        };
        journal.note_file(entry.clone());
        journal.note_file(FileEntry { original_kib: 8, written_kib: 64, ..entry });
        let below = MountEntry { point: "/mnt/a b".into(), below: "0:45".into(), below_rsize: 65_536, rsize: 1 << 20 };
        journal.mounts.push(below);
        journal.save().expect("saved");
        let again = Journal::open(&host).expect("read");
        assert_eq!(again.mounts, journal.mounts);
        assert_eq!(again.devices, journal.devices);
        assert_eq!((again.devices[0].original_kib, &again.devices[0].written_kib[..]), (128, &[8, 16][..]));
        assert_eq!(again.files, journal.files);
        assert_eq!((again.files[0].original_kib, again.files[0].written_kib), (128, 64));
        host.replace(BOOT, "two").expect("written");
        assert!(Journal::open(&host).expect("read").is_empty(), "the machine started again: nothing is ours");
    }

    #[test]
    fn files_that_were_closed_leave_and_those_that_are_open_stay() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        let host = Host::default();
        let mut journal = Journal::unsaved(&host);
        let (own, file) = (std::process::id(), std::fs::File::open("/proc/self/exe").expect("our own program"));
        let open = FileEntry {
            process: own,
            started: process_started(&host, own).expect("we run"),
            fd: u32::try_from(file.as_raw_fd()).expect("positive"),
            dev: Dev { major: 254, minor: 1 },
            inode: file.metadata().expect("metadata").ino(),
            knob: "k".into(),
            original_kib: 128,
            written_kib: 8,
        };
        journal.note_file(open.clone());
        for fd in 0..10_000 {
            journal.note_file(FileEntry { fd: 1_000_000 + fd, ..open.clone() });
            journal.note_file(FileEntry { started: 1, fd, ..open.clone() });
        }
        assert!(journal.files.len() <= FILES_MIN, "{}", journal.files.len());
        assert_eq!(journal.files[0], open);
    }

    #[test]
    fn a_dry_run_writes_no_journal() {
        let (_root, host) = machine();
        let mut journal = Journal::unsaved(&host);
        journal.note_device("k", 128, 8);
        journal.save().expect("nothing to do");
        assert!(!host.has(JOURNAL));
    }

    #[test]
    fn a_damaged_journal_is_refused() {
        let (_root, host) = machine();
        host.replace(JOURNAL, r#"{"boot": "one", "devices": [{"knob": "a"}]}"#).expect("written");
        let error = Journal::open(&host).expect_err("damaged").to_string();
        assert!(error.contains("journal.json: a device lacks a field"), "{error}");
    }

    #[test]
    fn a_second_tuner_is_refused_while_the_first_lives() {
        let (_root, host) = machine();
        let first = Lock::take(&host).expect("free");
        let error = Lock::take(&host).expect_err("taken").to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        Lock::take(&host).expect("free again");
    }
}
