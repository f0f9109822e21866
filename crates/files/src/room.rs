// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much memory this process may still take: what the machine, its control groups and its resource limits leave. And
//! how much may hold files that another one reads.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Limit files of a control group are at most this deep.
const DEPTH_MAX: usize = 64;

/// Entries of memory.stat for pages that a group drops before it runs out: those of files that were not used lately, and
/// those of all files.
const IDLE_FILES: &[&str] = &["inactive_file"];
const FILES: &[&str] = &["inactive_file", "active_file"];

/// Memory that may be taken, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// The limit, as words that follow "fit".
    pub limit: &'static str,
}

/// The room of this process now; `None` where nothing says.
pub fn room() -> Option<Room> {
    room_of(Path::new("/"), getrlimit(Resource::As).current, getrlimit(Resource::Data).current)
}

/// The room as the files below `root` say, with these limits of the address space and of its private part.
fn room_of(root: &Path, address_space: Option<u64>, data: Option<u64>) -> Option<Room> {
    let read = |name: &str| fs::read_to_string(root.join(name)).ok();
    let machine = read("proc/meminfo").as_deref().and_then(meminfo);
    let machine = machine.map(|bytes| Room { bytes, limit: "the memory that is available (MemAvailable)" });
    // Pages: the first number is those of the address space, the sixth those that are private and writable.
    let statm = read("proc/self/statm").unwrap_or_default();
    let used = |field: usize| {
        let pages = statm.split_whitespace().nth(field).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
    };
    let left = |most: u64, field: usize, limit| Room { bytes: most.saturating_sub(used(field)), limit };
    let space = address_space.map(|most| left(most, 0, "the limit of the address space (RLIMIT_AS, ulimit -v)"));
    let data = data.map(|most| left(most, 5, "the limit of private memory (RLIMIT_DATA, ulimit -d)"));
    let group = read("proc/self/cgroup").and_then(|text| group(root, &text, IDLE_FILES));
    let group = group.map(|bytes| Room { bytes, limit: "the memory limit of the control group" });
    [machine, space, data, group].into_iter().flatten().min_by_key(|room| room.bytes)
}

/// Bytes that may hold pages of files for a process whose `/proc/PID/cgroup` has `groups`, on the machine whose files lie
/// below `root`: what it and the groups above it may use, less what they use for other things. `None` where nothing says,
/// as where its groups cannot be seen.
pub fn room_for_files(root: &Path, groups: &str) -> Option<u64> {
    let is_there = |kind: &Kind, path: &Path| path.as_os_str().is_empty() || root.join(kind.base).join(path).is_dir();
    let hidden = memory_groups(groups).any(|(kind, path)| !is_there(kind, path));
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok().as_deref().and_then(meminfo)?;
    (!hidden).then(|| group(root, groups, FILES).map_or(machine, |bytes| bytes.min(machine)))
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Where a version of control groups has its files.
struct Kind {
    base: &'static str,
    limits: &'static [&'static str],
    usage: &'static str,
}

const VERSION_2: Kind = Kind { base: "sys/fs/cgroup", limits: &["memory.max", "memory.high"], usage: "memory.current" };
const VERSION_1: Kind =
    Kind { base: "sys/fs/cgroup/memory", limits: &["memory.limit_in_bytes"], usage: "memory.usage_in_bytes" };

/// The groups of a `/proc/PID/cgroup` that may limit memory. Beside version 1, which has the controller, the tree of
/// version 2 lies elsewhere and limits nothing.
fn memory_groups(text: &str) -> impl Iterator<Item = (&'static Kind, &Path)> {
    let is_old = text.lines().any(|line| line.split(':').nth(1).is_some_and(has_memory));
    text.lines().filter_map(move |line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let kind = match controllers {
            "" if !is_old => &VERSION_2,
            _ if has_memory(controllers) => &VERSION_1,
            _ => return None,
        };
        Some((kind, Path::new(path.trim_start_matches('/'))))
    })
}

fn has_memory(controllers: &str) -> bool {
    controllers.split(',').any(|one| one == "memory")
}

/// What the group of a `/proc/PID/cgroup` and those above it leave, of version 2 or 1.
fn group(root: &Path, text: &str, droppable: &[&str]) -> Option<u64> {
    let mut least = None;
    for (kind, path) in memory_groups(text) {
        let base = root.join(kind.base);
        // Inside a container the path may be that of the host; then only the top is there.
        for at in path.ancestors().take(DEPTH_MAX) {
            if let Some(bytes) = left(&base.join(at), kind, droppable) {
                least = Some(least.map_or(bytes, |least: u64| least.min(bytes)));
            }
        }
    }
    least
}

/// What one group leaves; pages of files that it can drop count as free.
fn left(group: &Path, kind: &Kind, droppable: &[&str]) -> Option<u64> {
    let number = |name: &&str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = kind.limits.iter().filter_map(number).min()?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let entry = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok();
        stat.lines().find_map(value)
    };
    // Of version 1 the entries without "total" leave out the groups below.
    let cached = |name: &&str| entry(&format!("total_{name}")).or_else(|| entry(name));
    let droppable: u64 = droppable.iter().filter_map(cached).sum();
    Some(limit.saturating_sub(number(&kind.usage)?.saturating_sub(droppable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("linnet-room-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_tightest_limit_counts() {
        let root = machine(
            "v2",
            &[
                ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    8000 kB\n"),
                ("proc/self/statm", "100 1 1 1 0 1 0\n"),
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/memory.max", "3000000\n"),
                ("sys/fs/cgroup/a/memory.current", "2500000\n"),
                ("sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 500000\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/b/memory.current", "1\n"),
            ],
        );
        let group = Room { bytes: 1_000_000, limit: "the memory limit of the control group" };
        assert_eq!(room_of(&root, None, None), Some(group));
        assert_eq!(room_of(&root, Some(2_000_000), None), Some(group));
        let page = rustix::param::page_size() as u64;
        let space = room_of(&root, Some(100 * page + 600_000), None).unwrap();
        assert_eq!(space.bytes, 600_000);
        assert!(space.limit.contains("RLIMIT_AS"));
        let data = room_of(&root, Some(200 * page + 600_000), Some(page + 40_000)).unwrap();
        assert_eq!(data.bytes, 40_000);
        assert!(data.limit.contains("RLIMIT_DATA"));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn all_files_of_a_group_make_room_for_files() {
        let files = [
            ("proc/meminfo", "MemAvailable: 8000 kB\n"),
            ("sys/fs/cgroup/a/memory.max", "3000000\n"),
            ("sys/fs/cgroup/a/memory.high", "2900000\n"),
            ("sys/fs/cgroup/a/memory.current", "2500000\n"),
            ("sys/fs/cgroup/a/memory.stat", "inactive_file 500000\nactive_file 200000\nactive_file_of 9\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "6000\n"),
            ("sys/fs/cgroup/memory/c/memory.usage_in_bytes", "5000\n"),
            (
                "sys/fs/cgroup/memory/c/memory.stat",
                "inactive_file 1\ntotal_inactive_file 2000\ntotal_active_file 1000\n",
            ),
        ];
        let root = machine("files", &files);
        for (groups, bytes) in [
            ("0::/a/b\n", Some(1_100_000)),
            ("0::/\n", Some(8_192_000)),
            ("", Some(8_192_000)),
            ("0::/a/gone\n", None),
            ("0::/../x\n", None),
            ("4:memory:/c\n0::/not/seen\n", Some(4_000)),
        ] {
            assert_eq!(room_for_files(&root, groups), bytes, "{groups}");
        }
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(room_for_files(Path::new("/nonexistent"), "0::/\n"), None);
    }

    #[test]
    fn older_groups_and_none_count_too() {
        let files = [
            ("proc/meminfo", "MemAvailable: 8000 kB\n"),
            ("proc/self/cgroup", "5:cpu,memory:/docker/x\n1:cpuset:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "6000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "7000\n"),
        ];
        let root = machine("v1", &files);
        assert_eq!(room_of(&root, None, None).unwrap().bytes, 0);
        fs::remove_dir_all(&root).unwrap();
        let root = machine("none", &files[..1]);
        assert_eq!(room_of(&root, None, None).unwrap().bytes, 8_192_000);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(room_of(Path::new("/nonexistent"), None, None), None);
        assert!(room().is_some());
    }
}
