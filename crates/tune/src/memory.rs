// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether what a control group reads will soon be in memory as a whole.
//!
//! Small readahead saves pages that nobody wants, and the room that they take from others. Where all files that are read
//! fit into memory, no page is brought twice: readahead costs at most one reading of what is left, once. Where that takes
//! a moment, it costs less than the demands that it saves later, and the files are left alone. The bound is of reading:
//! files of which only a little is ever wanted lose that moment, after each rest.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use linnet_files::room_for_files;

use crate::apply::Key;
use crate::error::Result;
use crate::groups::Proposed;
use crate::host::Host;
use crate::observe::Observer;
use crate::openfile::{Descriptor, FileId};
use crate::rule::Class;
use crate::track::Track;

/// Readahead may go on for so long, for files that were read as lately.
const SOON: Duration = Duration::from_secs(2);
/// Of files that are read for less than this, the rate does not tell yet what will come.
const YOUNG: Duration = Duration::from_secs(1);
/// Of the memory that could hold files, one part of so many may be taken: others read too.
const ROOM_SHARE: u64 = 2;
/// Where files were brought and one part of so many again, they do not stay in memory.
const AGAIN_SHARE: u64 = 8;

/// Of the files that would get a smaller value for random reads or runs, those that keep theirs, because all that their
/// groups read will soon be in memory. `open`: the descriptors of all that are proposed.
pub(crate) fn soon_held(
    host: &Host,
    observer: &mut dyn Observer,
    tracks: &HashMap<Key, Track>,
    now: Duration,
    proposals: &[Proposed],
    open: &[Descriptor],
) -> Result<HashSet<Key>> {
    let mut sizes: HashMap<FileId, u64> = open.iter().map(|d| (d.file, d.size_bytes)).collect();
    let lowers = |(_, key, proposal): &&Proposed| {
        let governor = &tracks[key].governor;
        let is_ordered = matches!(governor.class(), Some(Class::Sequential | Class::Reverse));
        !key.advised && proposal.kind == "decision" && !is_ordered && proposal.to_kib < governor.current_kib()
    };
    let mut held: HashSet<Key> = proposals.iter().filter(lowers).map(|(_, key, _)| *key).collect();
    let size = |key: &Key| sizes.get(&key.file).copied().filter(|size| *size > 0);
    held.retain(|key| size(key).is_some_and(|size| will_come(&[Part::of(&tracks[key], Some(size), now)])));
    if held.is_empty() {
        return Ok(held);
    }
    let groups: HashSet<u64> = held.iter().map(|key| key.cgroup).collect();
    let is_read = |(key, track): &(&Key, &Track)| groups.contains(&key.cgroup) && track.demanded.is_some();
    let read: Vec<(&Key, &Track)> = tracks.iter().filter(is_read).collect();
    let unknown: HashSet<FileId> =
        read.iter().map(|(key, _)| key.file).filter(|file| !sizes.contains_key(file)).collect();
    let unknown: Vec<FileId> = unknown.into_iter().collect();
    sizes.extend(observer.descriptors(&unknown)?.iter().map(|d| (d.file, d.size_bytes)));
    for group in groups {
        let of_group = read.iter().filter(|(key, _)| key.cgroup == group);
        let parts: Vec<Part> =
            of_group.map(|(key, track)| Part::of(track, sizes.get(&key.file).copied(), now)).collect();
        let is_held = |d: &&Descriptor| held.contains(&Key { file: d.file, cgroup: group, advised: false });
        let processes = open.iter().filter(|d| d.cgroup == group).filter(is_held).map(|d| d.process);
        if !will_come(&parts) || !fits(&parts, room_bytes(host, processes)) {
            held.retain(|key| key.cgroup != group);
        }
    }
    Ok(held)
}

/// Bytes that may hold what these processes read. Control groups of version 1 look like one here; their limits differ.
fn room_bytes(host: &Host, processes: impl Iterator<Item = u32>) -> u64 {
    let processes: HashSet<u32> = processes.collect();
    let groups: HashSet<String> =
        processes.into_iter().filter_map(|process| host.text(format!("/proc/{process}/cgroup"))).collect();
    groups.iter().map(|text| room_for_files(&host.path("/"), text).unwrap_or(0)).min().unwrap_or(0)
}

/// A file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    size_bytes: u64,
    brought_bytes: u64,
    /// In this time.
    over: Duration,
    /// It was read lately.
    is_busy: bool,
}

impl Part {
    /// What nobody has open has no size to be seen. Where it is mapped and read just now, what came of it counts; else it
    /// makes room.
    fn of(track: &Track, size_bytes: Option<u64>, now: Duration) -> Part {
        let brought = track.brought * rustix::param::page_size() as u64;
        let (size_bytes, brought_bytes) = match size_bytes {
            Some(size) => (size, brought),
            None if track.demanded == Some(now) => (brought, brought),
            None => (0, 0),
        };
        let is_busy = track.demanded.is_some_and(|moment| now < moment + SOON);
        Part { size_bytes, brought_bytes, over: now - track.begun, is_busy }
    }

    fn left_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.brought_bytes)
    }
}

/// True where the rest of those that are busy comes soon, at the rate at which it came so far, or may: a query that looks
/// for rows of one table here and there, then everywhere, begins slowly, and to wait costs little where all of it fits.
/// Files are seen when they are read, so the rate of each since then would be too high where many are read in turns.
fn will_come(parts: &[Part]) -> bool {
    let unfinished = || parts.iter().filter(|part| part.is_busy && part.left_bytes() > 0);
    let left: u64 = unfinished().map(Part::left_bytes).sum();
    let brought: u64 = unfinished().map(|part| part.brought_bytes).sum();
    let over = unfinished().map(|part| part.over).max().unwrap_or_default();
    over < YOUNG || left as f64 * over.as_secs_f64() <= brought as f64 * SOON.as_secs_f64()
}

/// True where all of these fit into memory, of which so many bytes could hold files, and stay there.
fn fits(parts: &[Part], room_bytes: u64) -> bool {
    let size: u64 = parts.iter().map(|part| part.size_bytes).fold(0, u64::saturating_add);
    let again: u64 = parts.iter().map(|part| part.brought_bytes.saturating_sub(part.size_bytes)).sum();
    size > 0 && size <= room_bytes / ROOM_SHARE && again <= size / AGAIN_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bdi::{Bdi, Kind};
    use crate::govern::Proposal;
    use crate::mounts::Dev;
    use crate::observe::Coarse;

    const MIB: u64 = 1 << 20;

    fn part(size_mib: u64, brought_mib: u64, over_ms: u64) -> Part {
        let over = Duration::from_millis(over_ms);
        Part { size_bytes: size_mib * MIB, brought_bytes: brought_mib * MIB, over, is_busy: true }
    }

    fn will_hold(parts: &[Part], room_mib: u64) -> bool {
        will_come(parts) && fits(parts, room_mib * MIB)
    }

    #[test]
    fn what_fits_and_is_nearly_there_will_be_held() {
        assert!(will_hold(&[part(54, 21, 1_200)], 260), "33 MiB at 17 a second");
        assert!(!will_hold(&[part(54, 15, 1_200)], 260), "39 MiB at 12 a second");
        assert!(will_hold(&[part(54, 0, 999)], 260) && !will_hold(&[part(54, 0, 1_000)], 260), "it has just begun");
        assert!(!will_hold(&[part(54, 20, 400)], 100), "more than half of the room");
        assert!(!will_hold(&[part(54, 20, 400), part(900, 1, 400)], 260), "the other one does not fit");
        assert!(!will_hold(&[part(54, 20, 1_200), part(100, 0, 1_200)], 400), "the other one is not nearly there");
        assert!(will_hold(&[part(54, 54, 400)], 260), "it is there");
        assert!(will_hold(&[part(54, 20, 400), part(1, 1, 60_000)], 260), "the old one has all that it had to bring");
        let idle = Part { is_busy: false, ..part(100, 1, 400) };
        assert!(will_hold(&[part(54, 20, 400), idle], 400), "what is left of the other one does not come");
        assert!(!will_hold(&[part(54, 20, 400), idle], 260), "but it takes room");
        assert!(!will_hold(&[part(54, 70, 400)], 260), "it does not stay");
        assert!(!will_hold(&[], 260) && !will_hold(&[part(0, 0, 400)], 260), "nothing is known");
    }

    #[test]
    fn only_smaller_values_for_scattered_reads_wait() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        host.replace("/proc/meminfo", "MemAvailable: 1000000 kB\n").expect("written");
        host.replace("/proc/7/cgroup", "0::/\n").expect("written");
        let file = FileId { dev: Dev { major: 8, minor: 1 }, inode: 12 };
        let key = Key { file, cgroup: 1, advised: false };
        let bdi = Bdi {
            name: "8:0".into(),
            kind: Kind::Block,
            disk: None,
            mounts: Vec::new(),
            parts: Vec::new(),
            among: Vec::new(),
        };
        let d = Descriptor {
            file,
            cgroup: 1,
            process: 7,
            fd: 3,
            mode: 0x1f,
            flags: 0,
            size_bytes: 10 * MIB,
            value_kib: 64,
        };
        let now = Duration::from_secs(1);
        let track = Track { brought: 2500, demanded: Some(now), ..Track::new(Duration::ZERO, 64) };
        let tracks = HashMap::from([(key, track)]);
        let mut coarse = Coarse::new(&host, String::new());
        let mut holds = |kind, to_kib| {
            let proposal = Proposal { kind, to_kib, why: String::new(), confidence: 1.0 };
            let held =
                soon_held(&host, &mut coarse, &tracks, now, &[(bdi.clone(), key, proposal)], std::slice::from_ref(&d));
            !held.expect("looked").is_empty()
        };
        assert!(holds("decision", 8));
        assert!(!holds("decision", 128), "more is no loss");
        assert!(!holds("rollback", 8), "it cost more");
    }

    #[test]
    fn what_nobody_has_open_counts_while_it_is_read() {
        let at = Duration::from_secs;
        let closed = |demanded| {
            let track = Track { brought: 200_000, demanded: Some(at(demanded)), ..Track::new(at(1), 128) };
            Part::of(&track, None, at(9)).size_bytes
        };
        assert_eq!(closed(9), 200_000 * rustix::param::page_size() as u64, "it is mapped");
        assert_eq!(closed(8), 0, "it makes room");
    }

    #[test]
    fn files_that_are_read_in_turns_come_as_fast_as_they_come_together() {
        let turns = |size| (1..=20).map(|k| part(size, 1, 100 * k)).collect::<Vec<Part>>();
        assert!(will_hold(&turns(2), 260), "20 MiB came in two seconds, and 20 are left");
        assert!(!will_hold(&turns(3), 260), "40 are left, although most came in less than two seconds each");
    }

    #[test]
    fn the_room_is_that_of_the_readers_who_are_there() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let write = |name: &str, text: &str| host.replace(name, text).expect("written");
        write("/proc/meminfo", "MemAvailable:    8000 kB\n");
        write("/proc/7/cgroup", "4:memory:/db\n0::/\n");
        write("/proc/8/cgroup", "4:memory:/\n0::/\n");
        write("/sys/fs/cgroup/memory/db/memory.limit_in_bytes", "700000");
        write("/sys/fs/cgroup/memory/db/memory.usage_in_bytes", "0");
        let room = |processes: &[u32]| room_bytes(&host, processes.iter().copied());
        assert_eq!((room(&[7]), room(&[8]), room(&[8, 7])), (700_000, 8_192_000, 700_000));
        assert_eq!((room(&[8, 9]), room(&[9]), room(&[])), (8_192_000, 0, 0), "one that is gone");
    }
}
