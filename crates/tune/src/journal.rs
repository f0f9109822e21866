// SPDX-License-Identifier: MIT OR Apache-2.0
//! What we changed, written down before we change it, so that everything can be put back: on exit, or at the next start
//! where there was no exit. The lock beside it keeps a second tuner away.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

use crate::error::{Error, Result};
use crate::host::Host;
use crate::mounts::{Dev, mounts};
use crate::openfile::FileId;

mod device;
mod files;
mod lock;
mod store;

pub(crate) use device::sequence;
pub use device::{DeviceEntry, Mounted};
pub use files::{At, FileEntry, Files};
pub use lock::Lock;
use store::JOURNAL;

/// Fewer files are not looked through for closed ones.
const FILES_MIN: usize = 256;
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A mount that we placed over another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountEntry {
    /// Where.
    pub point: String,
    /// Device number of the mount below, as `MAJOR:MINOR`.
    pub below: String,
    /// Its read size in bytes.
    pub below_rsize: u32,
    /// The read size that ours was asked for.
    pub rsize: u32,
    /// Device number of ours; None where it is not known.
    pub ours: Option<String>,
}

/// The record of what is changed now.
#[derive(Debug)]
pub struct Journal {
    host: Host,
    /// False in a dry run: a tuner may run beside it, and the file is that one's.
    is_kept: bool,
    /// How many entries of files were left when those of closed files were dropped last.
    pruned: usize,
    /// By knob, what its device had while files were set. Files that were opened in between have it too. It is not saved.
    lent: HashMap<String, BTreeSet<u32>>,
    /// Devices, one entry each.
    pub devices: Vec<DeviceEntry>,
    /// Open files, one entry for each descriptor.
    pub files: Files,
    /// Mounts of ours.
    pub mounts: Vec<MountEntry>,
}

/// The journal as it is written down.
#[derive(Serialize, Deserialize)]
struct Whole<D, F, M> {
    /// Which start of the machine it belongs to. It is there in every journal, be it as null.
    #[serde(deserialize_with = "Option::deserialize")]
    boot: Option<String>,
    #[serde(default)]
    devices: D,
    #[serde(default)]
    files: F,
    #[serde(default)]
    mounts: M,
}

impl Whole<Vec<DeviceEntry>, Files, Vec<MountEntry>> {
    fn read(text: &str) -> serde_json::Result<Self> {
        // A list would do for a struct whose fields may be missing.
        if !text.starts_with('{') {
            return Err(serde::de::Error::custom("the journal is no JSON object"));
        }
        serde_json::from_str(text)
    }
}

impl Journal {
    /// An empty one that is never written down.
    pub fn unsaved(host: &Host) -> Journal {
        let (lent, devices, files, mounts) = Default::default();
        Journal { host: host.clone(), is_kept: false, pruned: 0, lent, devices, files, mounts }
    }

    /// The journal of an earlier run, or an empty one. A journal from before the machine started says nothing any more. An
    /// error where it cannot be told whether it is one: what it notes may still stand.
    pub fn open(host: &Host) -> Result<Journal> {
        let mut journal = Journal { is_kept: true, ..Journal::unsaved(host) };
        if !host.has(JOURNAL) {
            return Ok(journal);
        }
        let whole = Whole::read(&host.read(JOURNAL)?).map_err(|error| Error::Format {
            path: host.path(JOURNAL),
            what: format!("{error}; compare the values with `linnet tune doctor`, then delete the file"),
        })?;
        let boot = match host.read(BOOT) {
            Err(error) if whole.boot.is_some() => {
                let what = format!("it is not known whether the machine has started again since: {error}");
                return Err(Error::Format { path: host.path(JOURNAL), what });
            }
            boot => boot.ok(),
        };
        if whole.boot == boot {
            (journal.devices, journal.files, journal.mounts) = (whole.devices, whole.files, whole.mounts);
        }
        Ok(journal)
    }

    /// True where nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.files.is_empty() && self.mounts.is_empty()
    }

    /// Writes the record down. It survives the end of this process, not that of the machine, as do the values. An error
    /// also where there is no room for a next record as long as this: what is changed then could not be put back.
    pub fn save(&self) -> Result<()> {
        if !self.is_kept {
            return Ok(());
        }
        let Journal { devices, files, mounts, .. } = self;
        let whole = Whole { boot: self.host.text(BOOT), devices, files, mounts };
        store::write(&self.host, &serde_json::to_string(&whole).expect("plain values"), self.is_empty())
    }

    /// Notes that a device's value is about to become `kib`. `original_kib` counts only at the first time.
    pub fn note_device(&mut self, knob: &str, original_kib: u32, kib: u32) {
        match self.devices.iter_mut().find(|entry| entry.knob == knob) {
            Some(entry) if entry.written_kib.contains(&kib) => {}
            Some(entry) => entry.written_kib.push(kib),
            None => self.devices.push(DeviceEntry::new(&self.host, knob, original_kib, kib)),
        }
    }

    /// What a device held before us; None where its value is not ours.
    pub fn original_kib(&self, knob: &str) -> Option<u32> {
        self.devices.iter().find(|entry| entry.knob == knob).map(|entry| entry.original_kib)
    }

    /// Notes that an open file's value is about to become `entry.written_kib`.
    pub fn note_file(&mut self, entry: FileEntry) {
        self.prune();
        self.files.note(entry);
    }

    /// Drops files that are closed, but only now and then: processes that come and go would fill the journal.
    fn prune(&mut self) {
        if self.files.len() < FILES_MIN.max(2 * self.pruned) {
            return;
        }
        self.drop_closed();
        self.pruned = self.files.len();
    }

    /// Drops files that are closed.
    pub(crate) fn drop_closed(&mut self) {
        let (mut of, mut mounted) = (None, HashMap::new());
        self.files.retain(|file| {
            // Those of a process follow each other.
            if of.replace(file.process) != Some(file.process) {
                mounted = mounted_by(&self.host, file.process);
            }
            is_open(&self.host, file, &mounted)
        });
    }

    /// Notes that a device has a value of ours for the moment, while files are set.
    pub(crate) fn note_lent(&mut self, knob: &str, kib: u32) {
        self.lent.entry(knob.to_owned()).or_default().insert(kib);
    }

    /// The value of its own of an open file that has `value_kib`, on a device that has `device_kib`. Where the file has a
    /// value of ours, a fork or a duplicate may have made the descriptor of one that is noted; and where the device had it
    /// for a moment, the file was opened then.
    pub(crate) fn own_kib(&self, knob: &str, device_kib: u32, file: FileId, at: At, value_kib: u32) -> u32 {
        let is_ours = |entry: &&FileEntry| entry.is_value(value_kib);
        if let Some(own) = self.files.get(at, file).filter(is_ours) {
            return own.original_kib;
        }
        if value_kib == device_kib {
            return value_kib;
        }
        if let Some(like) = self.files.of(file).find(is_ours) {
            return like.original_kib;
        }
        let is_lent = self.lent.get(knob).is_some_and(|values| values.contains(&value_kib));
        if is_lent { device_kib } else { value_kib }
    }

    /// Forgets a device: its value is the original one again, or somebody else's.
    pub fn forget_device(&mut self, knob: &str) {
        self.devices.retain(|entry| entry.knob != knob);
    }
}

/// Whether the descriptor of an entry is still open, by its process and its file. The kernel tells this of itself; stat
/// asks the file system, whose server may be gone.
fn is_open(host: &Host, file: &FileEntry, mounted: &HashMap<u32, Dev>) -> bool {
    let info = host.text(format!("/proc/{}/fdinfo/{}", file.process, file.fd)).unwrap_or_default();
    let value = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
    let id = value("mnt_id:").and_then(|id| u32::try_from(id).ok());
    // A mount that the process does not see says nothing, nor do journals of earlier versions.
    let dev = id.and_then(|id| mounted.get(&id)).filter(|_| file.file.has_dev());
    process_started(host, file.process) == Some(file.started)
        && value("ino:") == Some(file.file.inode)
        && dev.is_none_or(|dev| *dev == file.file.dev)
}

/// The file systems that a process sees, by the numbers of their mounts.
fn mounted_by(host: &Host, process: u32) -> HashMap<u32, Dev> {
    mounts(host, &process.to_string()).into_iter().map(|mount| (mount.id, mount.dev)).collect()
}

/// When a process began, in ticks since boot: field 22 of /proc/PID/stat, counted after the name, which may hold
/// blanks.
pub fn process_started(host: &Host, process: u32) -> Option<u64> {
    host.of_process(process, 22)
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
        host.replace("/proc/self/mountinfo", "30 1 0:45 / /mnt rw - nfs4 nas:/data rw").expect("written");
        journal.note_device("/sys/class/bdi/0:45/read_ahead_kb", 15_360, 128);
        assert!(journal.devices[1].mount.is_some());
        let entry = FileEntry {
            process: 7,
            started: 70,
            fd: 3,
            file: FileId { dev: Dev { major: 254, minor: 1 }, inode: 12 },
            knob: "k".into(),
            original_kib: 128,
            written_kib: 8,
            stands_kib: None,
        };
        journal.note_file(entry.clone());
        journal.files.got(entry.at(), 16);
        journal.note_file(FileEntry { original_kib: 8, written_kib: 64, ..entry });
        journal.mounts.push(MountEntry {
            point: "/mnt/a b".into(),
            below: "0:45".into(),
            below_rsize: 65_536,
            rsize: 1 << 20,
            ours: Some("0:46".into()),
        });
        journal.save().expect("saved");
        let again = Journal::open(&host).expect("read");
        assert_eq!(again.mounts, journal.mounts);
        assert_eq!(again.devices, journal.devices);
        assert_eq!((again.devices[0].original_kib, &again.devices[0].written_kib[..]), (128, &[8, 16][..]));
        assert_eq!(again.files, journal.files);
        let file = again.files.iter().next().expect("noted");
        assert_eq!((file.original_kib, file.written_kib, file.stands_kib), (128, 64, Some(16)));
        host.replace(BOOT, "two").expect("written");
        assert!(Journal::open(&host).expect("read").is_empty(), "the machine started again: nothing is ours");
    }

    #[test]
    fn a_journal_is_kept_where_nobody_knows_whether_the_machine_has_started_again() {
        let (_root, host) = machine();
        let mut journal = Journal::open(&host).expect("empty");
        journal.note_device("k", 128, 8);
        journal.save().expect("saved");
        let text = host.read(JOURNAL).expect("there");
        std::fs::remove_file(host.path(BOOT)).expect("there");
        let error = Journal::open(&host).expect_err("unknown").to_string();
        assert!(
            error.contains("journal.json: it is not known whether the machine has started again since: "),
            "{error}"
        );
        assert!(error.contains("boot_id: cannot read"), "{error}");
        assert_eq!(host.read(JOURNAL).expect("there"), text);
        host.replace(BOOT, "one").expect("written");
        assert_eq!(Journal::open(&host).expect("known").devices, journal.devices);
    }

    #[test]
    fn files_that_were_closed_leave_and_those_that_are_open_stay() {
        use std::os::fd::AsRawFd;
        let host = Host::default();
        let mut journal = Journal::unsaved(&host);
        let (own, file) = (std::process::id(), std::fs::File::open("/proc/self/exe").expect("our own program"));
        let open = FileEntry {
            process: own,
            started: process_started(&host, own).expect("we run"),
            fd: u32::try_from(file.as_raw_fd()).expect("positive"),
            file: FileId::of(&file),
            knob: "k".into(),
            original_kib: 128,
            written_kib: 8,
            stands_kib: None,
        };
        journal.note_file(open.clone());
        for fd in 0..10_000 {
            journal.note_file(FileEntry { fd: 1_000_000 + fd, ..open.clone() });
            journal.note_file(FileEntry { process: 1, started: 1, fd, ..open.clone() });
        }
        // The descriptor was used again, for a file with the same number of another file system.
        let dev = Dev { major: open.file.dev.major + 1, ..open.file.dev };
        let other = FileEntry { file: FileId { dev, ..open.file }, ..open.clone() };
        assert!(!is_open(&host, &other, &mounted_by(&host, own)));
        assert!(is_open(&host, &other, &HashMap::new()), "on a mount that its process does not see");
        assert!(journal.files.len() <= FILES_MIN, "{}", journal.files.len());
        assert!(journal.files.iter().any(|entry| *entry == open));
    }

    #[test]
    fn a_value_of_ours_is_no_file_s_own() {
        let (_root, host) = machine();
        let mut journal = Journal::open(&host).expect("empty");
        let of = |inode| FileId { dev: Dev { major: 254, minor: 1 }, inode };
        let noted = FileEntry {
            process: 7,
            started: 70,
            fd: 3,
            file: of(12),
            knob: "k".into(),
            original_kib: 4096,
            written_kib: 8,
            stands_kib: Some(8),
        };
        journal.note_file(noted.clone());
        journal.note_file(FileEntry { fd: 4, original_kib: 64, written_kib: 512, stands_kib: None, ..noted });
        journal.note_lent("k", 16);
        let own = |inode, fd, value_kib| journal.own_kib("k", 4096, of(inode), (7, fd), value_kib);
        assert_eq!([own(12, 3, 8), own(12, 4, 512), own(12, 4, 8)], [4096, 64, 4096], "noted");
        assert_eq!([own(12, 9, 8), own(12, 9, 512)], [4096, 64], "a copy of a noted one");
        assert_eq!(
            [own(13, 3, 16), own(13, 3, 8), own(13, 3, 4096)],
            [4096, 8, 4096],
            "opened while the device had it"
        );
        assert_eq!(journal.own_kib("other", 4096, of(13), (7, 3), 16), 16);
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
        for (text, why) in [
            (r#"{"boot": "one", "devices": [{"knob": "a"}]}"#, "missing field `original_kib`"),
            (r#"{"boot": "one", "devices": 5}"#, "invalid type: integer `5`, expected a sequence"),
            (r#"{"boot": "one", "files": {}}"#, "invalid type: map, expected a list of open files"),
            (r#"{"boot": "one", "files": [7]}"#, "invalid type: integer `7`, expected struct"),
            (r#"{"boot": "one", "mounts": null}"#, "invalid type: null, expected a sequence"),
            (r#"{"boot": 1}"#, "invalid type: integer `1`"),
            ("{}", "missing field `boot`"),
            ("[]", "the journal is no JSON object"),
            ("null", "the journal is no JSON object"),
            ("", "the journal is no JSON object"),
            (r#"{"boot": "one", "devices": []"#, "EOF while parsing"),
        ] {
            host.replace(JOURNAL, text).expect("written");
            let error = Journal::open(&host).expect_err(text).to_string();
            assert!(error.contains(&format!("journal.json: {why}")), "{error}");
            assert!(error.ends_with("; compare the values with `linnet tune doctor`, then delete the file"), "{error}");
            assert_eq!(host.read(JOURNAL).expect("still there"), text);
        }
    }

    #[test]
    fn a_journal_of_an_earlier_version_is_read() {
        let (_root, host) = machine();
        let text = r#"{"boot": "one", "devices": [{"knob": "a", "original_kib": 128, "written_kib": [8, 16]}],
            "files": [{"process": 7, "started": 70, "fd": 3, "inode": 12, "knob": "a", "original_kib": 128, "written_kib": 8}]}"#;
        host.replace(JOURNAL, text).expect("written");
        let journal = Journal::open(&host).expect("read");
        let (knob, written_kib) = ("a".to_owned(), vec![8, 16]);
        let device = DeviceEntry { knob, original_kib: 128, written_kib, sequence: None, mount: None };
        assert_eq!(journal.devices, [device]);
        let file = journal.files.iter().next().expect("noted");
        assert_eq!((file.at(), file.file.has_dev(), file.file.inode, file.stands_kib), ((7, 3), false, 12, None));
        assert!(journal.mounts.is_empty());
    }
}
