// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether what a control group reads will soon be in memory as a whole.
//!
//! Small readahead saves pages that nobody wants, and the room that they take from others. Where all files that are read
//! fit into memory, no page is brought twice: readahead costs at most one reading of what is left, once. Where that takes
//! a moment, it costs less than the demands that it saves later, and the files are left alone. The bound is of reading:
//! files of which only a little is ever wanted lose that moment.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use crate::apply::{Context, Key};
use crate::error::Result;
use crate::groups::Proposed;
use crate::host::Host;
use crate::names::tree;
use crate::openfile::{Descriptor, FileId};
use crate::rule::Class;
use crate::tuner::Track;

/// Readahead may go on for so long. Files that were not read for as long do not count.
const SOON: Duration = Duration::from_secs(2);
/// Of the memory that could hold files, one part of so many may be taken: others read too.
const ROOM_SHARE: u64 = 2;
/// Where one part of so many of the files was brought again, they do not stay in memory.
const AGAIN_SHARE: u64 = 8;

/// Of the files that would get a smaller value for random reads, those that keep theirs, because all that their groups
/// read will soon be in memory. `open`: the descriptors of all that are proposed.
pub(crate) fn soon_held(
    context: &mut Context,
    now: Duration,
    proposals: &[Proposed],
    open: &[Descriptor],
) -> Result<HashSet<Key>> {
    let mut sizes: HashMap<FileId, u64> = open.iter().map(|d| (d.file, d.size_bytes)).collect();
    let lowers = |(_, key, proposal): &&Proposed| {
        let governor = &context.tracks[key].governor;
        let is_ordered = matches!(governor.class(), Some(Class::Sequential | Class::Reverse));
        !key.advised && proposal.kind == "decision" && !is_ordered && proposal.to_kib < governor.current_kib()
    };
    let mut held: HashSet<Key> = proposals.iter().filter(lowers).map(|(_, key, _)| *key).collect();
    held.retain(|key| sizes.get(&key.file).is_some_and(|size| is_soon(&[Part::of(*size, &context.tracks[key], now)])));
    if held.is_empty() {
        return Ok(held);
    }
    let groups: HashSet<u64> = held.iter().map(|key| key.cgroup).collect();
    let is_read = |(key, track): &(&Key, &Track)| groups.contains(&key.cgroup) && now < track.seen + SOON;
    let read: Vec<Key> = context.tracks.iter().filter(is_read).map(|(key, _)| *key).collect();
    let others: HashSet<FileId> = read.iter().map(|key| key.file).filter(|file| !sizes.contains_key(file)).collect();
    let others: Vec<FileId> = others.into_iter().collect();
    sizes.extend(context.observer.descriptors(&others)?.iter().map(|d| (d.file, d.size_bytes)));
    for group in groups {
        // Control groups of version 1 look like one here; their limits differ.
        let is_held = |d: &&Descriptor| held.contains(&Key { file: d.file, cgroup: group, advised: false });
        let readers = open.iter().filter(|d| d.cgroup == group).filter(is_held);
        let readers: HashSet<u32> = readers.map(|d| d.process).collect();
        let room = readers.into_iter().map(|process| room_bytes(context.host, process)).min().unwrap_or(0);
        // What nobody has open any more makes room.
        let of_group = read.iter().filter(|key| key.cgroup == group);
        let parts = of_group.filter_map(|key| Some(Part::of(*sizes.get(&key.file)?, &context.tracks[key], now)));
        if !will_hold(&parts.collect::<Vec<_>>(), room) {
            held.retain(|key| key.cgroup != group);
        }
    }
    Ok(held)
}

/// An open file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    size_bytes: u64,
    brought_bytes: u64,
    /// In this time.
    over: Duration,
}

impl Part {
    fn of(size_bytes: u64, track: &Track, now: Duration) -> Part {
        let page_bytes = rustix::param::page_size() as u64;
        Part { size_bytes, brought_bytes: track.brought * page_bytes, over: now - track.begun }
    }
}

/// True where the rest of these comes soon at the rate at which they came so far. Files are seen when they are read, so
/// the rate of each since then would be too high where many are read in turns.
fn is_soon(parts: &[Part]) -> bool {
    let size: u64 = parts.iter().map(|part| part.size_bytes).sum();
    let left: u64 = parts.iter().map(|part| part.size_bytes.saturating_sub(part.brought_bytes)).sum();
    let brought: u64 = parts.iter().map(|part| part.brought_bytes).sum();
    let over = parts.iter().map(|part| part.over).max().unwrap_or_default();
    size > 0 && left as f64 * over.as_secs_f64() <= brought as f64 * SOON.as_secs_f64()
}

/// True where all of these will soon be in memory, of which so many bytes could hold files.
fn will_hold(parts: &[Part], room_bytes: u64) -> bool {
    let size: u64 = parts.iter().map(|part| part.size_bytes).sum();
    let again: u64 = parts.iter().map(|part| part.brought_bytes.saturating_sub(part.size_bytes)).sum();
    size <= room_bytes / ROOM_SHARE && again <= size / AGAIN_SHARE && is_soon(parts)
}

/// What a control group uses, and may use.
struct Limits {
    limits: &'static [&'static str],
    used: &'static str,
    /// Entries of memory.stat for pages of files, which can make room. Shared memory is not among them.
    files: [&'static str; 2],
}

const VERSION_2: Limits =
    Limits { limits: &["memory.max", "memory.high"], used: "memory.current", files: ["active_file", "inactive_file"] };
const VERSION_1: Limits = Limits {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    files: ["total_active_file", "total_inactive_file"],
};

/// Bytes that may hold files which a process reads: what its control group and those above it may use, less what they use
/// for other things. 0 where it cannot be seen.
fn room_bytes(host: &Host, process: u32) -> u64 {
    let Some(text) = host.text(format!("/proc/{process}/cgroup")) else { return 0 };
    let groups = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let first = groups().find(|(controllers, _)| controllers.split(',').any(|one| one == "memory"));
    let (tree, path, names) = match (first, tree(host)) {
        (Some((_, path)), _) => ("/sys/fs/cgroup/memory", path, VERSION_1),
        (None, Some(tree)) => {
            (tree, groups().find(|(none, _)| none.is_empty()).map_or("/", |(_, path)| path), VERSION_2)
        }
        (None, None) => return available_bytes(host),
    };
    let mut room = available_bytes(host);
    for above in Path::new(path).ancestors() {
        let of = |file: &str| host.text(format!("{tree}{}", above.join(file).display()));
        let number = |file: &str| of(file)?.parse::<u64>().ok();
        let limit = names.limits.iter().filter_map(|file| number(file)).min();
        if let Some((limit, used)) = limit.zip(number(names.used)) {
            let stat = of("memory.stat").unwrap_or_default();
            let entries = stat.lines().filter_map(|line| line.split_once(' '));
            let files: u64 =
                entries.filter(|(name, _)| names.files.contains(name)).filter_map(|(_, n)| n.parse::<u64>().ok()).sum();
            room = room.min(limit.saturating_sub(used.saturating_sub(files)));
        }
    }
    room
}

/// What the whole machine could use.
fn available_bytes(host: &Host) -> u64 {
    let text = host.text("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn part(size_mib: u64, brought_mib: u64, over_ms: u64) -> Part {
        let over = Duration::from_millis(over_ms);
        Part { size_bytes: size_mib * MIB, brought_bytes: brought_mib * MIB, over }
    }

    #[test]
    fn what_fits_and_is_nearly_there_will_be_held() {
        assert!(will_hold(&[part(54, 20, 400)], 260 * MIB), "34 MiB at 50 a second");
        assert!(!will_hold(&[part(54, 5, 400)], 260 * MIB), "49 MiB at 12 a second");
        assert!(!will_hold(&[part(54, 20, 400)], 100 * MIB), "more than half of the room");
        assert!(!will_hold(&[part(54, 20, 400), part(900, 1, 400)], 260 * MIB), "the other one does not fit");
        assert!(!will_hold(&[part(54, 20, 400), part(100, 0, 400)], 400 * MIB), "the other one is not nearly there");
        assert!(will_hold(&[part(54, 54, 400)], 260 * MIB), "it is there");
        let turns: Vec<Part> = (1..=20).map(|k| part(2, 1, 100 * k)).collect();
        assert!(will_hold(&turns, 260 * MIB), "20 MiB came in two seconds, and 20 are left");
        let turns: Vec<Part> = (1..=20).map(|k| part(3, 1, 100 * k)).collect();
        assert!(!will_hold(&turns, 260 * MIB), "40 are left, although most came in less than two seconds each");
        assert!(!will_hold(&[part(54, 70, 400)], 260 * MIB), "it does not stay");
        assert!(!will_hold(&[], 260 * MIB) && !will_hold(&[part(0, 1, 400)], 260 * MIB), "its size is not known");
    }

    #[test]
    fn room_is_what_the_tightest_group_leaves_to_files() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let write = |name: &str, text: &str| host.replace(name, text).expect("written");
        let room = || room_bytes(&host, 7);
        write("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");
        assert_eq!(room(), 0, "the process is gone");
        write("/proc/7/cgroup", "");
        assert_eq!(room(), 8_192_000, "no control groups");
        write("/sys/fs/cgroup/cgroup.controllers", "memory");
        write("/proc/7/cgroup", "0::/pod.slice/db\n");
        write("/sys/fs/cgroup/pod.slice/db/memory.max", "max");
        assert_eq!(room(), 8_192_000, "no limit");
        write("/sys/fs/cgroup/pod.slice/memory.max", "1000000");
        write("/sys/fs/cgroup/pod.slice/memory.current", "900000");
        write(
            "/sys/fs/cgroup/pod.slice/memory.stat",
            "anon 1\nfile 750000\ninactive_file 300000\nactive_file 200000\n",
        );
        assert_eq!(room(), 600_000, "of a million, 400,000 are no cached files");
        write("/sys/fs/cgroup/pod.slice/db/memory.high", "500000");
        write("/sys/fs/cgroup/pod.slice/db/memory.current", "100000");
        assert_eq!(room(), 400_000);
    }

    #[test]
    fn room_in_a_control_group_of_version_1() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let write = |name: &str, text: &str| host.replace(name, text).expect("written");
        write("/proc/meminfo", "MemAvailable:    8000 kB\n");
        write("/sys/fs/cgroup/unified/cgroup.controllers", "");
        write("/proc/7/cgroup", "5:blkio:/other\n4:memory:/db\n0::/\n");
        for (group, limit) in [("", "9223372036854771712"), ("/db", "1000000")] {
            write(&format!("/sys/fs/cgroup/memory{group}/memory.limit_in_bytes"), limit);
            write(&format!("/sys/fs/cgroup/memory{group}/memory.usage_in_bytes"), "700000");
            let stat = "inactive_file 1\ntotal_inactive_file 300000\ntotal_active_file 100000\n";
            write(&format!("/sys/fs/cgroup/memory{group}/memory.stat"), stat);
        }
        assert_eq!(room_bytes(&host, 7), 700_000);
    }
}
