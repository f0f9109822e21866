// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices of the journal. A knob is named after a number that another device may have after the first one is gone:
//! so an entry says which disk or which file system had it.

use serde::{Deserialize, Serialize};

use crate::bdi::name_of;
use crate::host::Host;
use crate::mounts::{Dev, Mount, mounts};

/// A device's value that we changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEntry {
    /// The file that holds the value.
    pub knob: String,
    /// What it held before.
    pub original_kib: u32,
    /// Everything we wrote there: one of these is ours, another value is somebody else's.
    pub written_kib: Vec<u32>,
    /// The kernel's number of the disk, which no other disk has had since the machine started; None where it has none.
    #[serde(rename = "diskseq")]
    pub sequence: Option<u64>,
    /// The file system that had the number in the knob's name; None of disks, of file systems whose knobs have names that
    /// the kernel gives once (`btrfs-1`), and in journals of earlier versions.
    pub mount: Option<Mounted>,
}

/// A file system with a value of its own, as mountinfo shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// Its type.
    pub fs: String,
    /// What is mounted: the server, or what a program of FUSE calls it.
    pub source: String,
    /// Where it was mounted, of several places the first.
    pub point: String,
}

impl DeviceEntry {
    /// An entry of the device that has the knob now.
    pub(crate) fn new(host: &Host, knob: &str, original_kib: u32, kib: u32) -> DeviceEntry {
        let sequence = sequence(host, knob);
        let mount = dev_of(knob).and_then(|dev| mounts(host, "self").into_iter().find(|mount| mount.dev == dev));
        let mount = mount.map(|Mount { fs, source, point, .. }| Mounted { fs, source, point });
        DeviceEntry { knob: knob.to_owned(), original_kib, written_kib: vec![kib], sequence, mount }
    }

    /// Why the device that has the knob now is not the one of the entry; None where it is, as far as the entry says.
    /// `mounted` is what is mounted now.
    pub(crate) fn gone(&self, host: &Host, mounted: &[Mount]) -> Option<String> {
        if self.sequence.is_some_and(|known| sequence(host, &self.knob) != Some(known)) {
            return Some(
                "the disk whose value was changed is gone; another one has its number and keeps its value".into(),
            );
        }
        let Mounted { fs, source, point } = self.mount.as_ref()?;
        let dev = dev_of(&self.knob)?;
        let is_there = mounted.iter().any(|now| now.dev == dev && (&now.fs, &now.source) == (fs, source));
        // Any user may choose these for a mount of FUSE, and they go to a terminal.
        let [fs, source, point] = [fs, source, point].map(|text| text.escape_debug());
        (!is_there).then(|| {
            format!(
                "{source} ({fs}), which was mounted at {point} and whose value was changed, is gone; what has its number \
                 now keeps its value"
            )
        })
    }
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

/// The number of the file system that a knob is named after: NFS and FUSE have one that no device has, which is free again
/// after they are unmounted, and FUSE on a block device has that one's.
fn dev_of(knob: &str) -> Option<Dev> {
    let name = name_of(knob)?;
    let of_fuse = name.strip_suffix("-fuseblk");
    Dev::parse(of_fuse.unwrap_or(name)).filter(|dev| dev.major == 0 || of_fuse.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_that_had_a_number_is_noted_and_known_again() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let mounted = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| format!("30 1 {line}")).collect();
            host.replace("/proc/self/mountinfo", &lines.join("\n")).expect("written");
        };
        let of = |name: &str| DeviceEntry::new(&host, &format!("/sys/class/bdi/{name}/read_ahead_kb"), 15_360, 128);
        let gone = |entry: &DeviceEntry| entry.gone(&host, &mounts(&host, "self"));
        let nfs = r"0:45 / /srv/a\040b rw - nfs4 nas:/data rw";
        mounted(&[nfs, "8:1 / /win rw - fuseblk /dev/\u{1b}sda1 rw", "8:0 / /mnt rw - ext4 /dev/sda rw"]);
        let (share, fuse) = (of("0:45"), of("8:1-fuseblk"));
        let noted = Mounted { fs: "nfs4".into(), source: "nas:/data".into(), point: "/srv/a b".into() };
        assert_eq!(share.mount.as_ref(), Some(&noted));
        assert_eq!(fuse.mount.as_ref().map(|mount| &mount.fs[..]), Some("fuseblk"));
        for other in ["8:0", "btrfs-1", "0:46"] {
            assert_eq!(of(other).mount, None, "{other}");
        }
        assert_eq!((gone(&share), gone(&fuse)), (None, None));
        mounted(&["0:45 / /elsewhere rw - nfs4 nas:/data rw"]);
        assert_eq!(gone(&share), None, "the same one in another place");
        let why = gone(&fuse).expect("another one");
        assert!(why.starts_with(r"/dev/\u{1b}sda1 (fuseblk), which "), "{why}");
        for now in [
            &["0:45 / /home/u/far rw - fuse.sshfs u@h:/ rw"][..],
            &["0:45 / /srv/a\\040b rw - nfs4 nas:/other rw"],
            &["0:46 / /srv/a\\040b rw - nfs4 nas:/data rw"],
            &[],
        ] {
            mounted(now);
            let why = gone(&share).expect("another one");
            assert!(why.starts_with("nas:/data (nfs4), which was mounted at /srv/a b "), "{why}");
        }
        assert_eq!(gone(&DeviceEntry { mount: None, ..share }), None, "of an earlier version");
    }
}
