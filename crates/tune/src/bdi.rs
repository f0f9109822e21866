// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backing devices: what holds a readahead value. A disk has one for all its partitions and file systems, and NFS, FUSE
//! and btrfs have one for each file system.

use crate::error::{Error, Result};
use crate::host::Host;
use crate::mounts::{Dev, Mount, mounts};

/// What kind of backing device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A block device.
    Block,
    /// A mount of NFS.
    Nfs,
    /// A mount of FUSE.
    Fuse,
    /// A file system of btrfs, over one disk or several.
    Btrfs,
    /// Another file system with a value of its own: CIFS, Ceph, 9p.
    Other,
}

impl Kind {
    /// As in the doctor's rows.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Block => "block",
            Kind::Nfs => "nfs",
            Kind::Fuse => "fuse",
            Kind::Btrfs => "btrfs",
            Kind::Other => "other",
        }
    }

    fn of(fs: &str) -> Kind {
        match fs {
            "nfs" | "nfs4" => Kind::Nfs,
            "btrfs" => Kind::Btrfs,
            _ if fs == "fuse" || fs.starts_with("fuse.") || fs == "fuseblk" => Kind::Fuse,
            _ => Kind::Other,
        }
    }
}

/// One backing device.
#[derive(Debug, Clone)]
pub struct Bdi {
    /// Name below /sys/class/bdi: `254:0`, `0:45`, `btrfs-1`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// A block device's name: `vda`.
    pub disk: Option<String>,
    /// Mounts whose files it holds.
    pub mounts: Vec<Mount>,
}

impl Bdi {
    /// The file that holds the value. A disk has it twice; to write the one of its queue stops all of its I/O for a
    /// moment (`queue_attr_store`, from 6.11 on).
    pub fn knob(&self, host: &Host) -> String {
        let own = format!("/sys/class/bdi/{}/read_ahead_kb", self.name);
        if host.has(&own) { own } else { self.shown_knob(host) }
    }

    /// The file as operators know it.
    pub fn shown_knob(&self, host: &Host) -> String {
        let queue = self.disk.as_ref().map(|disk| format!("/sys/block/{disk}/queue/read_ahead_kb"));
        match queue {
            Some(queue) if host.has(&queue) => queue,
            _ => format!("/sys/class/bdi/{}/read_ahead_kb", self.name),
        }
    }

    /// The value now, in KiB.
    pub fn value_kib(&self, host: &Host) -> Result<u32> {
        host.number(self.knob(host))
    }

    /// What an operator calls it: the disk, or the mount point.
    pub fn target(&self) -> String {
        match (&self.disk, self.mounts.first()) {
            (Some(disk), _) => format!("/dev/{}", disk.replace('!', "/")),
            (None, Some(mount)) => mount.point.clone(),
            (None, None) => self.name.clone(),
        }
    }
}

/// The disk of a block device's number: itself, or what the partition is part of.
fn disk_of(host: &Host, dev: Dev) -> Option<String> {
    let place = host.follow(format!("/sys/dev/block/{dev}"))?;
    let name = |path: &std::path::Path| path.file_name()?.to_str().map(str::to_owned);
    if host.has(place.join("partition")) { name(place.parent()?) } else { name(&place) }
}

/// The btrfs file system that has this disk or partition, by its name below /sys/fs/btrfs.
fn btrfs_with(host: &Host, disk: &str) -> Option<String> {
    let mut systems = host.names("/sys/fs/btrfs").into_iter();
    systems.find(|id| host.has(format!("/sys/fs/btrfs/{id}/devices/{disk}")))
}

/// The backing device of a btrfs file system, where the kernel names it.
fn bdi_of_btrfs(host: &Host, id: &str) -> Option<String> {
    let bdi = host.follow(format!("/sys/fs/btrfs/{id}/bdi"))?;
    Some(bdi.file_name()?.to_str()?.to_owned())
}

/// The backing device of a btrfs file system that has `source` among its disks.
fn btrfs_of(host: &Host, source: &str) -> Option<String> {
    let disk = host.follow(source).unwrap_or_else(|| source.into());
    bdi_of_btrfs(host, &btrfs_with(host, disk.file_name()?.to_str()?)?)
}

/// The name below /sys/class/bdi of the device that holds a mount's readahead; None for file systems in memory.
fn bdi_of(host: &Host, mount: &Mount) -> Option<(String, Kind, Option<String>)> {
    if mount.fs == "btrfs" {
        return btrfs_of(host, &mount.source).map(|name| (name, Kind::Btrfs, None));
    }
    // ntfs-3g and its like have a value of their own, although their number is the disk's.
    if let Some(disk) = disk_of(host, mount.dev).filter(|_| mount.fs != "fuseblk") {
        let dev = host.text(format!("/sys/block/{disk}/dev"))?;
        return Some((dev, Kind::Block, Some(disk)));
    }
    // FUSE on a block device and Ceph decorate the number.
    let plain = mount.dev.to_string();
    let names = [format!("{plain}-fuseblk"), plain];
    let name = names.into_iter().find(|name| host.has(format!("/sys/class/bdi/{name}/read_ahead_kb")))?;
    Some((name, Kind::of(&mount.fs), None))
}

/// Every backing device with a value: disks with a size, and mounts that have their own.
pub fn list(host: &Host) -> Vec<Bdi> {
    let mut found: Vec<Bdi> = Vec::new();
    for disk in host.names("/sys/block") {
        let size: u64 = host.number(format!("/sys/block/{disk}/size")).unwrap_or(0);
        let Some(name) = host.text(format!("/sys/block/{disk}/dev")) else { continue };
        if size > 0 && !disk.starts_with("zram") && !disk.starts_with("ram") {
            found.push(Bdi { name, kind: Kind::Block, disk: Some(disk), mounts: Vec::new() });
        }
    }
    for mount in mounts(host, "self") {
        let Some((name, kind, disk)) = bdi_of(host, &mount) else { continue };
        match found.iter_mut().find(|bdi| bdi.name == name) {
            Some(bdi) => bdi.mounts.push(mount),
            None => found.push(Bdi { name, kind, disk, mounts: vec![mount] }),
        }
    }
    found
}

/// What a disk carries instead of a file system of its own, by its name below /sys: devices above it or above one of its
/// partitions, and file systems of btrfs.
pub(crate) fn above(host: &Host, disk: &str) -> Vec<String> {
    let place = format!("/sys/block/{disk}");
    let parts = host.names(&place).into_iter().filter(|name| host.has(format!("{place}/{name}/partition")));
    let mut places = vec![(disk.to_owned(), place.clone())];
    places.extend(parts.map(|name| (name.clone(), format!("{place}/{name}"))));
    let mut found: Vec<String> = Vec::new();
    for (name, place) in places {
        found.extend(host.names(format!("{place}/holders")));
        found.extend(btrfs_with(host, &name).map(|id| bdi_of_btrfs(host, &id).unwrap_or(format!("btrfs {id}"))));
    }
    found.sort();
    found.dedup();
    found
}

/// The backing device that `name` means: a disk or partition (`vda`, `/dev/vda1`, `254:0`) or a mount point.
pub fn find(host: &Host, all: &[Bdi], name: &str) -> Result<Bdi> {
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    // A link such as /dev/disk/by-id/...; a folder that has the name of a disk is none.
    let linked = host.follow(name).filter(|path| path.starts_with("/dev"));
    let linked = linked.and_then(|path| path.file_name()?.to_str().map(str::to_owned));
    let is_disk = |disk: &str| {
        let disk_is = |want: &str| disk == want || host.has(format!("/sys/block/{disk}/{want}/partition"));
        disk_is(short) || linked.as_deref().is_some_and(disk_is)
    };
    all.iter()
        .find(|bdi| {
            bdi.name == name
                || bdi.disk.as_deref().is_some_and(is_disk)
                || bdi
                    .mounts
                    .iter()
                    .any(|mount| mount.point == name.strip_suffix('/').unwrap_or(name) || mount.point == name)
        })
        .cloned()
        .ok_or_else(|| Error::Unknown { name: name.to_owned() })
}

/// The backing device that holds the files of file system `dev`.
pub fn of_files(all: &[Bdi], dev: Dev) -> Option<&Bdi> {
    all.iter().find(|bdi| bdi.mounts.iter().any(|mount| mount.dev == dev))
}
