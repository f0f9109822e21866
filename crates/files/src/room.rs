// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much memory this process may still take: what the machine, its control groups and its resource limits leave.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Limit files of a control group are at most this deep.
const DEPTH_MAX: usize = 64;

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
    let group = read("proc/self/cgroup").and_then(|text| group(root, &text));
    let group = group.map(|bytes| Room { bytes, limit: "the memory limit of the control group" });
    [machine, space, data, group].into_iter().flatten().min_by_key(|room| room.bytes)
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the group of `/proc/self/cgroup` and those above it leave, of version 2 or 1.
fn group(root: &Path, text: &str) -> Option<u64> {
    let mut least = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (base, limit, usage) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        let base = root.join(base);
        let mut at = Path::new(path.trim_start_matches('/'));
        for _ in 0..DEPTH_MAX {
            // Inside a container the path may be that of the host; then only the top is there.
            if let Some(bytes) = left(&base.join(at), limit, usage) {
                least = Some(least.map_or(bytes, |least: u64| least.min(bytes)));
            }
            let Some(above) = at.parent() else { break };
            at = above;
        }
    }
    least
}

/// What one group leaves; pages of files that it can drop count as free.
fn left(group: &Path, limit: &str, usage: &str) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = number(limit)?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let droppable = cached("total_inactive_file ").or_else(|| cached("inactive_file ")).unwrap_or(0);
    Some(limit.saturating_sub(number(usage)?.saturating_sub(droppable)))
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
