// SPDX-License-Identifier: MIT OR Apache-2.0
//! The read size of an NFS mount. The kernel refuses another one on a remount, so a second mount of the same export is
//! placed over the first.
//!
//! `nosharecache` gives the second mount its own superblock, and with it its own read size, readahead and page cache.
//! Files that are open stay on the mount below and keep working. The two caches see each other's writes only through
//! the server, when a file is closed and opened; therefore nothing is placed over a mount on which a file is open for
//! writing.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::host::Host;
use crate::journal::{Journal, MountEntry};
use crate::mounts::{Dev, Mount, mounts, top};
use crate::nfs::rsize_bytes;

/// Why no mount was placed, and what the operator can do instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What is in the way.
    pub reason: String,
    /// The line that gives the next mount the read size.
    pub advice: String,
}

/// How many NFS mounts lie at a path, one over the other.
pub fn depth(all: &[Mount], point: &str) -> usize {
    all.iter().filter(|mount| mount.point == point && is_nfs(mount)).count()
}

fn is_nfs(mount: &Mount) -> bool {
    mount.fs == "nfs" || mount.fs == "nfs4"
}

/// The options of a second mount like `below`, with another read size.
fn options(below: &Mount, rsize: u32) -> String {
    let kept = below
        .options
        .split(',')
        .filter(|word| !matches!(*word, "rw" | "ro" | "sharecache" | "nosharecache") && !word.starts_with("rsize="));
    let mut all: Vec<String> = kept.map(str::to_owned).collect();
    all.push(format!("rsize={rsize}"));
    all.push("nosharecache".to_owned());
    all.join(",")
}

fn flags(below: &Mount) -> MountFlags {
    let of = |word: &str| match word {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    let words = below.flags.split(',').chain(below.options.split(',').filter(|word| *word == "ro"));
    words.map(of).fold(MountFlags::empty(), MountFlags::union)
}

/// The line for the next mount.
fn advice(below: &Mount, rsize: u32) -> String {
    format!("at the next mount: mount -t {} -o rsize={rsize} {} {}", below.fs, below.source, below.point)
}

/// Every process, by its number.
fn processes(host: &Host) -> Vec<String> {
    host.names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

/// All mounts of the file system in other mount namespaces, each with a process that sees it: a container has one of its
/// own.
fn elsewhere(host: &Host, processes: &[String], dev: Dev) -> Vec<(String, Mount)> {
    let namespace = |process: &str| host.link(format!("/proc/{process}/ns/mnt"));
    let mut seen: BTreeSet<String> = namespace("self").into_iter().collect();
    let fresh = processes.iter().filter(|process| namespace(process).is_none_or(|found| seen.insert(found)));
    let all = fresh.flat_map(|process| mounts(host, process).into_iter().map(|mount| (process.clone(), mount)));
    all.filter(|(_, mount)| mount.dev == dev).collect()
}

/// A process that has a file of the file system open for writing: its number and descriptor.
fn writer(host: &Host, processes: &[String], ids: &BTreeSet<String>) -> Option<(String, String)> {
    for process in processes {
        for fd in host.names(format!("/proc/{process}/fdinfo")) {
            let Some(text) = host.text(format!("/proc/{process}/fdinfo/{fd}")) else { continue };
            let value = |key: &str| text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()));
            let flags = value("flags:").and_then(|octal| u32::from_str_radix(&octal, 8).ok()).unwrap_or(0);
            if value("mnt_id:").is_some_and(|id| ids.contains(&id)) && flags & 0o3 != 0 {
                return Some((process.clone(), fd));
            }
        }
    }
    None
}

/// A mount inside the one at `point`.
fn inside<'a>(all: &'a [Mount], point: &str) -> Option<&'a Mount> {
    let begins = format!("{}/", point.trim_end_matches('/'));
    all.iter().find(|mount| mount.point.starts_with(&begins))
}

/// What forbids a mount over `below`.
fn obstacle(host: &Host, all: &[Mount], below: &Mount) -> Option<String> {
    if below.root != "/" {
        return Some(format!("only {} of the file system is mounted there", below.root));
    }
    if let Some(hidden) = inside(all, &below.point) {
        return Some(format!("it would hide the mount at {}", hidden.point));
    }
    if let Some(other) = all.iter().find(|mount| mount.dev == below.dev && mount.id != below.id) {
        return Some(format!("the file system is mounted at {} too, and two caches could disagree", other.point));
    }
    let processes = processes(host);
    let elsewhere = elsewhere(host, &processes, below.dev);
    let is_like_ours = |mount: &Mount| (&mount.root, &mount.point) == (&below.root, &below.point) && mount.follows;
    if let Some((process, other)) = elsewhere.iter().find(|(_, mount)| !is_like_ours(mount)) {
        let Mount { root, point, .. } = other;
        return Some(format!(
            "process {process} sees {root} of the file system at {point}, where a mount here does not appear, and two \
             caches could disagree"
        ));
    }
    let ids = elsewhere.iter().map(|(_, mount)| mount).chain([below]).map(|mount| mount.id.to_string()).collect();
    writer(host, &processes, &ids).map(|(process, fd)| {
        format!(
            "process {process} has a file there open for writing (descriptor {fd}), which two caches could disagree on"
        )
    })
}

/// Places a mount with read size `rsize` over the topmost one at `point`. The journal has it before. Gives the new
/// mount.
pub fn place(host: &Host, journal: &mut Journal, point: &str, rsize: u32) -> Result<Mount, Refused> {
    let all = mounts(host, "self");
    let Some(below) = top(&all, point).filter(|mount| is_nfs(mount)) else {
        return Err(Refused { reason: format!("{point} is no NFS mount"), advice: String::new() });
    };
    let refused = |reason: String| Refused { reason, advice: advice(below, rsize) };
    if let Some(reason) = obstacle(host, &all, below) {
        return Err(refused(reason));
    }
    let root = |path: &str| std::fs::metadata(path).map(|found| found.ino());
    let inode = root(point).map_err(|error| refused(format!("{point}: {error}")))?;
    journal.mounts.push(MountEntry {
        point: point.to_owned(),
        below: below.dev.to_string(),
        below_rsize: rsize_bytes(below).unwrap_or(0),
        rsize,
        ours: None,
    });
    if let Err(error) = journal.save() {
        journal.mounts.pop();
        return Err(refused(error.to_string()));
    }
    let data = CString::new(options(below, rsize)).map_err(|error| refused(error.to_string()))?;
    let placed = mount(below.source.as_str(), point, below.fs.as_str(), flags(below), data.as_c_str());
    let failed = |journal: &mut Journal, reason: String| match take_off(host, journal, point) {
        Taken::Stays(why) => Err(refused(format!("{reason}; {why}"))),
        _ => Err(refused(reason)),
    };
    if let Err(error) = placed {
        journal.mounts.pop();
        let saved = journal.save().map_or_else(|error| format!(" ({error})"), |()| String::new());
        return Err(refused(format!("the kernel refuses a second mount: {error}{saved}")));
    }
    let now = mounts(host, "self");
    let Some(new) = top(&now, point).filter(|new| new.dev != below.dev).cloned() else {
        return failed(journal, "the kernel gave the same file system again".into());
    };
    if let Some(entry) = journal.mounts.last_mut() {
        entry.ours = Some(new.dev.to_string());
    }
    if let Err(error) = journal.save() {
        return failed(journal, error.to_string());
    }
    if root(point).ok() != Some(inode) {
        return failed(journal, "the new mount has another root directory".into());
    }
    if rsize_bytes(&new) == rsize_bytes(below) {
        let bytes = rsize_bytes(&new).unwrap_or(0);
        return failed(journal, format!("the server gives no more than {} KiB at a time", bytes / 1024));
    }
    // New files shall begin with what they begin with now.
    let knob = |dev: Dev| format!("/sys/class/bdi/{dev}/read_ahead_kb");
    if let Some(kib) = host.text(knob(below.dev)) {
        let _ = host.write(knob(new.dev), &kib);
    }
    Ok(new)
}

/// What became of a mount of ours.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is gone.
    Off,
    /// It was gone before.
    Gone,
    /// It is there and in the journal, and why.
    Stays(String),
}

/// Takes our mount at `point` off again; files that are open on it stay usable until they are closed. It stays where
/// something else would go with it: what others mounted inside or over it.
pub fn take_off(host: &Host, journal: &mut Journal, point: &str) -> Taken {
    let all = mounts(host, "self");
    let Some(at) = journal.mounts.iter().rposition(|entry| entry.point == point) else { return Taken::Gone };
    let entry = &journal.mounts[at];
    let lies = |dev: &str| all.iter().any(|mount| mount.point == point && mount.dev.to_string() == dev);
    let is_ours = |mount: &&Mount| match &entry.ours {
        Some(ours) => mount.dev.to_string() == *ours,
        // Not noted yet: a second NFS mount over the one from before.
        None => is_nfs(mount) && depth(&all, point) > 1 && mount.dev.to_string() != entry.below && lies(&entry.below),
    };
    let stays = |why: String| Taken::Stays(format!("the mount at {point} stays: {why}"));
    let taken = match top(&all, point) {
        Some(top) if is_ours(&top) => match inside(&all, point) {
            Some(other) => stays(format!("{} is mounted inside", other.point)),
            None if !host.is_real() => Taken::Gone,
            None => {
                let off = unmount(point, UnmountFlags::empty()).or_else(|_| unmount(point, UnmountFlags::DETACH));
                off.map_or_else(|error| stays(error.to_string()), |()| Taken::Off)
            }
        },
        Some(top) if entry.ours.as_deref().is_some_and(lies) => stays(format!("{} is mounted over it", top.source)),
        _ => Taken::Gone,
    };
    if !matches!(taken, Taken::Stays(_)) {
        journal.mounts.remove(at);
        // A journal that cannot be written is reported when it is next needed; the mount is gone.
        let _ = journal.save();
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nfs(id: u32, minor: u32, point: &str) -> Mount {
        Mount {
            id,
            dev: Dev { major: 0, minor },
            root: "/".into(),
            point: point.into(),
            flags: "rw,nosuid,noatime".into(),
            follows: true,
            fs: "nfs4".into(),
            source: "10.0.0.1:/data".into(),
            options: "rw,vers=4.2,rsize=65536,wsize=65536,addr=10.0.0.1,clientaddr=10.0.0.2".into(),
        }
    }

    #[test]
    fn the_second_mount_differs_in_its_read_size_alone() {
        let below = nfs(30, 45, "/mnt");
        let want = "vers=4.2,wsize=65536,addr=10.0.0.1,clientaddr=10.0.0.2,rsize=1048576,nosharecache";
        assert_eq!(options(&below, 1 << 20), want);
        assert_eq!(flags(&below), MountFlags::NOSUID | MountFlags::NOATIME);
        let read_only = Mount { options: "ro,vers=3".into(), ..below };
        assert!(flags(&read_only).contains(MountFlags::RDONLY));
    }

    #[test]
    fn the_topmost_mount_counts() {
        let all = [nfs(30, 45, "/mnt"), nfs(31, 46, "/srv"), nfs(32, 47, "/mnt")];
        assert_eq!(top(&all, "/mnt").map(|mount| mount.id), Some(32));
        assert_eq!((depth(&all, "/mnt"), depth(&all, "/srv"), depth(&all, "/x")), (2, 1, 0));
    }

    #[test]
    fn what_would_be_hidden_or_split_is_an_obstacle() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let below = nfs(30, 45, "/mnt");
        let reason = |all: &[Mount], below: &Mount| obstacle(&host, all, below).unwrap_or_default();
        assert_eq!(reason(std::slice::from_ref(&below), &below), "");
        assert!(reason(&[below.clone(), nfs(31, 46, "/mnt/sub")], &below).contains("hide the mount at /mnt/sub"));
        assert_eq!(reason(&[below.clone(), nfs(31, 46, "/mnt2")], &below), "");
        assert!(reason(&[below.clone(), nfs(31, 45, "/mnt2")], &below).contains("is mounted at /mnt2 too"));
        let part = Mount { root: "/part".into(), ..below.clone() };
        assert!(reason(std::slice::from_ref(&part), &part).contains("only /part"));
        host.replace("/proc/12/fdinfo/3", "pos:\t0\nflags:\t0100000\nmnt_id:\t30\n").expect("written");
        assert_eq!(reason(std::slice::from_ref(&below), &below), "", "a reader is no obstacle");
        // A container has the file system under another number.
        host.replace("/proc/14/mountinfo", "77 1 0:45 / /mnt rw master:3 - nfs4 10.0.0.1:/data rw").expect("written");
        host.replace("/proc/14/fdinfo/9", "pos:\t0\nflags:\t0100001\nmnt_id:\t77\n").expect("written");
        assert!(reason(std::slice::from_ref(&below), &below).contains("process 14 has a file there"));
        host.replace("/proc/14/fdinfo/9", "pos:\t0\nflags:\t0100000\nmnt_id:\t77\n").expect("written");
        host.replace("/proc/12/fdinfo/4", "pos:\t0\nflags:\t0100002\nmnt_id:\t30\n").expect("written");
        assert!(
            reason(std::slice::from_ref(&below), &below)
                .contains("process 12 has a file there open for writing (descriptor 4)")
        );
        // Where a container has only a part of it, or its mounts do not follow ours, it would read through the old cache.
        for line in ["77 1 0:45 /sub /data rw master:3", "77 1 0:45 / /mnt rw"] {
            host.replace("/proc/14/mountinfo", &format!("{line} - nfs4 10.0.0.1:/data rw")).expect("written");
            assert!(reason(std::slice::from_ref(&below), &below).contains("process 14 sees /"), "{line}");
        }
    }

    #[test]
    fn what_is_no_mount_of_ours_stays() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let line = "30 1 0:45 / /mnt rw - nfs4 10.0.0.1:/data rw,rsize=65536";
        host.replace("/proc/self/mountinfo", line).expect("written");
        let mut journal = Journal::open(&host).expect("empty");
        assert_eq!(take_off(&host, &mut journal, "/mnt"), Taken::Gone, "nothing in the journal");
        let entry = MountEntry {
            point: "/mnt".into(),
            below: "0:45".into(),
            below_rsize: 65_536,
            rsize: 1 << 20,
            ours: Some("0:46".into()),
        };
        journal.mounts.push(entry.clone());
        assert_eq!(take_off(&host, &mut journal, "/mnt"), Taken::Gone, "one mount: the one from before us");
        assert!(journal.is_empty());
        // What lies inside would go with ours, and what lies over it is not ours to take.
        let ours = "31 30 0:46 / /mnt rw - nfs4 10.0.0.1:/data rw,rsize=1048576";
        let others = [
            ("32 31 8:1 / /mnt/scratch rw - ext4 /dev/sda1 rw", "/mnt/scratch is mounted inside"),
            ("32 31 8:1 / /mnt rw - ext4 /dev/sda1 rw", "/dev/sda1 is mounted over it"),
        ];
        for (other, why) in others {
            host.replace("/proc/self/mountinfo", &format!("{line}\n{ours}\n{other}")).expect("written");
            journal.mounts = vec![entry.clone()];
            let taken = take_off(&host, &mut journal, "/mnt");
            assert_eq!(taken, Taken::Stays(format!("the mount at /mnt stays: {why}")));
            assert_eq!(journal.mounts, std::slice::from_ref(&entry));
        }
    }
}
