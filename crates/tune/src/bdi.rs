// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backing devices: what holds a readahead value. A disk has one for all its partitions and file systems, and NFS, FUSE
//! and btrfs have one for each file system.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::host::Host;
use crate::mounts::{self, Dev, Mount, mounts, plain, top};

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
    /// Mounts whose files it holds, as far as this process sees them.
    pub mounts: Vec<Mount>,
    /// Numbers of the file systems that may be on a disk: those of its partitions, or its own. A container may have
    /// mounted one of them where this process does not see it.
    pub parts: Vec<Dev>,
    /// Names below /sys/class/bdi of which one is its own, where the kernel does not say which; empty where `name` is it.
    pub among: Vec<String>,
}

impl Bdi {
    /// The file that holds the value. A disk has it twice; to write the one of its queue stops all of its I/O for a
    /// moment (`queue_attr_store`, from 6.11 on).
    pub fn knob(&self, host: &Host) -> String {
        let own = knob_of(&self.name);
        if host.has(&own) { own } else { self.shown_knob(host) }
    }

    /// The files to write it to, as operators know them; several where it is not known which one is its own.
    pub fn shown_knobs(&self, host: &Host) -> Vec<String> {
        let among: Vec<String> = self.among.iter().map(|name| knob_of(name)).collect();
        if among.is_empty() { vec![self.shown_knob(host)] } else { among }
    }

    fn shown_knob(&self, host: &Host) -> String {
        let queue = self.disk.as_ref().map(|disk| format!("/sys/block/{disk}/queue/read_ahead_kb"));
        match queue {
            Some(queue) if host.has(&queue) => queue,
            _ => knob_of(&self.name),
        }
    }

    /// That the file with its value is known. Nothing can be set before.
    pub fn known(&self) -> Result<()> {
        if self.among.is_empty() { Ok(()) } else { Err(self.unknown()) }
    }

    fn unknown(&self) -> Error {
        Error::Among { target: self.target(), names: self.among.clone() }
    }

    /// The value now, in KiB; one that 32 bits do not hold counts as the largest that they do. Where it is one of several,
    /// it is known if all have the same.
    pub fn value_kib(&self, host: &Host) -> Result<u32> {
        let read = |knob| host.number(knob).map(|kib: u64| u32::try_from(kib).unwrap_or(u32::MAX));
        let mut of_each = self.among.iter().map(|name| read(knob_of(name)));
        let Some(first) = of_each.next() else { return read(self.knob(host)) };
        let first = first?;
        if of_each.all(|kib| kib.is_ok_and(|kib| kib == first)) { Ok(first) } else { Err(self.unknown()) }
    }

    /// Numbers of the file systems whose files it holds, or may hold.
    pub fn devs(&self) -> BTreeSet<Dev> {
        self.mounts.iter().map(|mount| mount.dev).chain(self.parts.iter().copied()).collect()
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

/// The file that holds the value of a backing device.
pub(crate) fn knob_of(name: &str) -> String {
    format!("/sys/class/bdi/{name}/read_ahead_kb")
}

/// The name of a backing device whose value a knob below /sys/class/bdi holds.
pub(crate) fn name_of(knob: &str) -> Option<&str> {
    knob.strip_prefix("/sys/class/bdi/")?.strip_suffix("/read_ahead_kb")
}

/// True where a server, be it a program of FUSE on this machine, is asked when files of a knob's device are closed: for
/// all but disks and btrfs.
pub(crate) fn has_server(knob: &str) -> bool {
    name_of(knob).is_some_and(|name| match Dev::parse(name) {
        Some(dev) => dev.major == 0,
        None => !name.starts_with("btrfs-"),
    })
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

/// Of the backing devices `named`, those that the kernel calls by the type of their file systems and a number: `cifs-2`.
/// Where readahead is off for all of them there are none: ZFS, and 9p without a cache, have no use for it.
fn of_type(host: &Host, named: &[String], fs: &str) -> Vec<String> {
    let is_one = |name: &&String| {
        let number = name.strip_prefix(fs).and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let names: Vec<String> = named.iter().filter(is_one).cloned().collect();
    if names.iter().all(|name| host.text(knob_of(name)).is_none_or(|kib| kib == "0")) { Vec::new() } else { names }
}

/// The backing device that has a file system's number, which FUSE on a block device decorates. NFS and FUSE have one.
pub(crate) fn numbered(host: &Host, dev: Dev) -> Option<String> {
    [of_fuse(dev), dev.to_string()].into_iter().find(|name| host.has(knob_of(name)))
}

/// The backing device of FUSE on a block device.
fn of_fuse(dev: Dev) -> String {
    format!("{dev}-fuseblk")
}

/// The partitions of a disk, by their names below its directory `place`.
fn partitions(host: &Host, place: &str) -> impl Iterator<Item = String> {
    host.names(place).into_iter().filter(move |name| host.has(format!("{place}/{name}/partition")))
}

/// Numbers of the file systems that may be on a disk whose own number is `name`.
fn parts_of(host: &Host, disk: &str, name: &str) -> Vec<Dev> {
    let place = format!("/sys/block/{disk}");
    let number = |part: String| Dev::parse(&host.text(format!("{place}/{part}/dev"))?);
    let mut parts: Vec<Dev> = partitions(host, &place).filter_map(number).collect();
    if parts.is_empty() {
        parts.extend(Dev::parse(name));
    }
    // ntfs-3g and its like have a value of their own.
    parts.retain(|dev| !host.has(knob_of(&of_fuse(*dev))));
    parts
}

/// The device that holds a mount's readahead, without its mounts; None for file systems in memory. `mounts` and `named`
/// are all mounts and all backing devices.
fn bdi_of(host: &Host, mount: &Mount, mounts: &[Mount], named: &[String]) -> Option<Bdi> {
    let bdi = |name, kind, disk| Bdi { name, kind, disk, mounts: Vec::new(), parts: Vec::new(), among: Vec::new() };
    let kind = Kind::of(&mount.fs);
    if kind == Kind::Btrfs
        && let Some(name) = btrfs_of(host, &mount.source)
    {
        return Some(bdi(name, kind, None));
    }
    // ntfs-3g and its like have a value of their own, although their number is the disk's.
    if let Some(disk) = disk_of(host, mount.dev).filter(|_| mount.fs != "fuseblk") {
        let dev = host.text(format!("/sys/block/{disk}/dev"))?;
        return Some(bdi(dev, Kind::Block, Some(disk)));
    }
    if let Some(name) = numbered(host, mount.dev) {
        return Some(bdi(name, kind, None));
    }
    // Others have a name of their own.
    let number = mount.dev.to_string();
    // The number in such a name is not that of the mount, so it must be the only one.
    let is_alone = || mounts.iter().all(|other| other.fs != mount.fs || other.dev == mount.dev);
    match &of_type(host, named, &mount.fs)[..] {
        [] => None,
        [one] if is_alone() => Some(bdi(one.clone(), kind, None)),
        several => Some(Bdi { among: several.to_vec(), ..bdi(number, kind, None) }),
    }
}

/// Every backing device with a value: disks with a size, and mounts that have their own.
pub fn list(host: &Host) -> Vec<Bdi> {
    let mut found: Vec<Bdi> = Vec::new();
    for disk in host.names("/sys/block") {
        let size: u64 = host.number(format!("/sys/block/{disk}/size")).unwrap_or(0);
        let Some(name) = host.text(format!("/sys/block/{disk}/dev")) else { continue };
        if size > 0 && !disk.starts_with("zram") && !disk.starts_with("ram") {
            let parts = parts_of(host, &disk, &name);
            found.push(Bdi { name, kind: Kind::Block, disk: Some(disk), mounts: Vec::new(), parts, among: Vec::new() });
        }
    }
    let (mounts, named) = (mounts(host, "self"), host.names("/sys/class/bdi"));
    for mount in &mounts {
        let Some(bdi) = bdi_of(host, mount, &mounts, &named) else { continue };
        match found.iter_mut().find(|known| known.name == bdi.name) {
            Some(known) => known.mounts.push(mount.clone()),
            None => found.push(Bdi { mounts: vec![mount.clone()], ..bdi }),
        }
    }
    found
}

/// What a disk carries instead of a file system of its own, by its name below /sys: devices above it or above one of its
/// partitions, and file systems of btrfs.
pub(crate) fn above(host: &Host, disk: &str) -> Vec<String> {
    let place = format!("/sys/block/{disk}");
    let mut places = vec![(disk.to_owned(), place.clone())];
    places.extend(partitions(host, &place).map(|name| (name.clone(), format!("{place}/{name}"))));
    let mut found: Vec<String> = Vec::new();
    for (name, place) in places {
        found.extend(host.names(format!("{place}/holders")));
        found.extend(btrfs_with(host, &name).map(|id| bdi_of_btrfs(host, &id).unwrap_or(format!("btrfs {id}"))));
    }
    found.sort();
    found.dedup();
    found
}

/// What a name means.
#[derive(Debug, Clone)]
pub struct Meant {
    /// The device that holds the value.
    pub bdi: Bdi,
    /// The one file system that is meant of those on a disk: that of a partition or a mount point. None: all.
    pub dev: Option<Dev>,
}

/// What `name` means: a disk or partition (`vda`, `/dev/vda1`, `254:0`), or the mount that is seen at a mount point.
pub fn meant(host: &Host, all: &[Bdi], name: &str) -> Result<Meant> {
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    // A link such as /dev/disk/by-id/...; a folder that has the name of a disk is none.
    let linked = host.follow(name).filter(|path| path.starts_with("/dev"));
    let linked = linked.and_then(|path| path.file_name()?.to_str().map(str::to_owned));
    let words = [Some(short), linked.as_deref()];
    for bdi in all {
        let disk = bdi.disk.as_deref();
        if bdi.name == name || disk.is_some_and(|disk| words.contains(&Some(disk))) {
            return Ok(Meant { bdi: bdi.clone(), dev: None });
        }
        let part = |word: &str| Some(format!("/sys/block/{}/{word}", disk?));
        let parts = words.into_iter().flatten().filter_map(part);
        if let Some(part) = parts.into_iter().find(|part| host.has(format!("{part}/partition"))) {
            let dev = Dev::parse(&host.read(format!("{part}/dev"))?);
            return Ok(Meant { bdi: bdi.clone(), dev });
        }
    }
    let mounts = mounts::read(host, "self")?;
    let mount = top(&mounts, plain(name)).ok_or_else(|| Error::Unknown { name: name.to_owned() })?;
    let own = all.iter().find(|bdi| bdi.mounts.contains(mount)).cloned();
    let bdi = own.ok_or_else(|| Error::NoValue { point: mount.point.clone(), fs: mount.fs.clone() })?;
    let dev = (bdi.kind == Kind::Block).then_some(mount.dev);
    Ok(Meant { bdi, dev })
}

/// The backing device that `name` means.
pub fn find(host: &Host, all: &[Bdi], name: &str) -> Result<Bdi> {
    Ok(meant(host, all, name)?.bdi)
}

/// The backing device that holds the files of file system `dev`, also where it is mounted only in other mount namespaces.
pub fn of_files(all: &[Bdi], dev: Dev) -> Option<&Bdi> {
    let mounted = all.iter().find(|bdi| bdi.mounts.iter().any(|mount| mount.dev == dev));
    mounted.or_else(|| all.iter().find(|bdi| bdi.parts.contains(&dev)))
}
