// SPDX-License-Identifier: MIT OR Apache-2.0
//! What runs now, without privileges: reads per disk, which large files are memory-mapped, and what the processes that
//! map them read for each major fault.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::bdi::Bdi;
use crate::doctor::mountstats::{Reads, reads};
use crate::host::Host;
use crate::journal::process_started;
use crate::mounts::Dev;

/// Mappings below this are of no interest: libraries and small indexes.
const MAPPED_MIN_BYTES: u64 = 16 << 20;
/// Fewer major faults say nothing.
const FAULTS_MIN: u64 = 20;
/// The doctor takes two seconds, of which it watches one. Looking at the mappings of all processes but the first may take
/// this share of the time that it watches.
const LOOK_SHARE: f64 = 0.7;
/// But as if it watched no less than the first, and no more than the second: nobody can end it while it looks.
const LOOK_AS_IF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// A large memory-mapped file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// The process.
    pub process: u32,
    /// Its name.
    pub command: String,
    /// The file.
    pub path: String,
    /// Mapped bytes.
    pub bytes: u64,
}

#[derive(Debug, Default, Clone)]
struct Counters {
    /// Reads and sectors read, per disk.
    disks: HashMap<String, (u64, u64)>,
    /// By mount point.
    nfs: HashMap<String, Reads>,
    /// Of processes that map large files.
    processes: HashMap<u32, Process>,
}

/// What a process has counted so far.
#[derive(Debug, Clone, Copy)]
struct Process {
    /// When it began, in ticks since boot: its number may be used again.
    started: u64,
    major_faults: u64,
    /// What it read from devices; None where the kernel does not count it.
    read_kib: Option<u64>,
}

/// What happened between two looks, and what is mapped.
#[derive(Debug, Default)]
pub struct Activity {
    before: Counters,
    after: Counters,
    mapped: HashMap<Dev, Vec<Mapped>>,
    /// Processes for whose mappings there was no time, those with the smallest address spaces.
    pub left_out: usize,
}

/// What one device does.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Load {
    /// Reads.
    pub reads: u64,
    /// Mean size of a read in KiB; 0 without reads.
    pub read_kib: f64,
    /// Milliseconds that a read of an NFS server took; None below 20 reads.
    pub latency_ms: Option<f64>,
    /// KiB read for each major fault of the processes that map its large files and none of another disk; None below 20
    /// faults.
    pub kib_per_fault: Option<f64>,
    /// Large files of the device that are mapped, the largest first.
    pub mapped: Vec<Mapped>,
}

impl Process {
    fn of(host: &Host, process: u32) -> Option<Process> {
        let io = host.text(format!("/proc/{process}/io")).unwrap_or_default();
        let read_bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.trim().parse::<u64>().ok());
        Some(Process {
            started: process_started(host, process)?,
            major_faults: host.of_process(process, 12)?,
            read_kib: read_bytes.map(|bytes| bytes / 1024),
        })
    }
}

fn counters(host: &Host, processes: &HashSet<u32>) -> Counters {
    let mut counters = Counters::default();
    for line in host.text("/proc/diskstats").unwrap_or_default().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, disk, reads, _, sectors, ..] = words[..] {
            let number = |text: &str| text.parse().unwrap_or(0);
            counters.disks.insert(disk.to_owned(), (number(reads), number(sectors)));
        }
    }
    counters.nfs = reads(&host.text("/proc/self/mountstats").unwrap_or_default());
    counters.processes =
        processes.iter().filter_map(|process| Some((*process, Process::of(host, *process)?))).collect();
    counters
}

/// The mapping in one line of /proc/PID/maps: `start-end perms offset major:minor inode path`.
fn mapping(line: &str) -> Option<(Dev, u64, &str)> {
    let path = &line[line.find('/')?..];
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let dev = Dev { major: hex(major)?.try_into().ok()?, minor: hex(minor)?.try_into().ok()? };
    (!permissions.contains('x')).then_some((dev, hex(end)?.checked_sub(hex(start)?)?, path))
}

/// Processes, those with the largest address spaces first: a large mapped file makes one large. Kernel threads have none.
fn by_size(host: &Host) -> Vec<u32> {
    let pages = |process: &u32| -> Option<u64> {
        host.text(format!("/proc/{process}/statm"))?.split_whitespace().next()?.parse().ok()
    };
    let all = host.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let mut sized: Vec<(Option<u64>, u32)> = all.map(|process| (pages(&process), process)).collect();
    sized.retain(|(pages, _)| *pages != Some(0));
    sized.sort_by_key(|(pages, process)| (std::cmp::Reverse(*pages), *process));
    sized.into_iter().map(|(_, process)| process).collect()
}

/// Large mapped files by file system, and for how many processes `at_most` was too short.
fn mapped(host: &Host, at_most: Duration) -> (HashMap<Dev, Vec<Mapped>>, usize) {
    let mut found: HashMap<Dev, Vec<Mapped>> = HashMap::new();
    let mut left_out = 0;
    let begun = Instant::now();
    let processes = by_size(host);
    for (looked_at, process) in processes.iter().copied().enumerate() {
        if looked_at > 0 && begun.elapsed() > at_most {
            left_out = processes.len() - looked_at;
            break;
        }
        // Processes of others are not readable without privileges.
        let Some(maps) = host.text(format!("/proc/{process}/maps")) else { continue };
        let mut files: HashMap<(Dev, &str), u64> = HashMap::new();
        for (dev, bytes, path) in maps.lines().filter_map(mapping) {
            *files.entry((dev, path)).or_default() += bytes;
        }
        for ((dev, path), bytes) in files.into_iter().filter(|(_, bytes)| *bytes >= MAPPED_MIN_BYTES) {
            let command = host.text(format!("/proc/{process}/comm")).unwrap_or_default();
            found.entry(dev).or_default().push(Mapped { process, command, path: path.to_owned(), bytes });
        }
    }
    for files in found.values_mut() {
        files.sort_by_key(|file| (std::cmp::Reverse(file.bytes), file.process));
    }
    (found, left_out)
}

impl Activity {
    /// Looks twice; `pause` passes the time between, which is `watched`.
    pub fn watch(host: &Host, watched: Duration, pause: impl FnOnce()) -> Activity {
        let [least, most] = LOOK_AS_IF;
        let (mut mapped, left_out) = mapped(host, watched.clamp(least, most).mul_f64(LOOK_SHARE));
        let processes: HashSet<u32> = mapped.values().flatten().map(|file| file.process).collect();
        let before = counters(host, &processes);
        pause();
        let after = counters(host, &processes);
        // Those that ended map nothing any more.
        let started = |of: &Counters, process| of.processes.get(&process).map(|process: &Process| process.started);
        let is_there = |file: &Mapped| started(&before, file.process) == started(&after, file.process);
        mapped.values_mut().for_each(|files| files.retain(is_there));
        Activity { before, after, mapped, left_out }
    }

    /// What the processes that map large files of file systems `devs`, but of no other disk, read for each major fault,
    /// where their disk read `disk_kib`. Whose pages a fault brings is not told, nor how much of a disk's reads are for it.
    fn kib_per_fault(&self, devs: &BTreeSet<Dev>, disk_kib: f64) -> Option<f64> {
        let of = |here: bool| {
            let is_of = move |dev: &Dev| devs.contains(dev) == here && (here || dev.major != 0);
            let files = self.mapped.iter().filter(move |(dev, _)| is_of(dev)).flat_map(|(_, files)| files);
            files.map(|file| file.process).collect::<HashSet<u32>>()
        };
        let (mut faults, mut kib) = (0, Some(0));
        for process in of(true).difference(&of(false)) {
            let (before, after) = (self.before.processes.get(process)?, self.after.processes.get(process)?);
            faults += after.major_faults.saturating_sub(before.major_faults);
            let read = before.read_kib.zip(after.read_kib).map(|(before, after)| after.saturating_sub(before));
            kib = kib.zip(read).map(|(kib, read)| kib + read);
        }
        let kib = kib.map_or(disk_kib, |kib: u64| disk_kib.min(kib as f64));
        (faults >= FAULTS_MIN).then(|| kib / faults as f64)
    }

    /// What one device did.
    pub fn of(&self, bdi: &Bdi) -> Load {
        let mut load = Load::default();
        let disk = bdi.disk.as_deref().unwrap_or("");
        if let (Some(before), Some(after)) = (self.before.disks.get(disk), self.after.disks.get(disk)) {
            load.reads = after.0.saturating_sub(before.0);
            let kib = after.1.saturating_sub(before.1) as f64 / 2.0;
            if load.reads > 0 {
                load.read_kib = kib / load.reads as f64;
            }
            load.kib_per_fault = self.kib_per_fault(&bdi.devs(), kib);
        }
        for mount in &bdi.mounts {
            let (before, after) = (self.before.nfs.get(&mount.point), self.after.nfs.get(&mount.point));
            if let (Some(before), Some(after)) = (before, after) {
                load.reads = after.calls.saturating_sub(before.calls);
                if load.reads >= 20 {
                    let reads = load.reads as f64;
                    load.read_kib = after.bytes.saturating_sub(before.bytes) as f64 / 1024.0 / reads;
                    load.latency_ms = Some(after.round_trip_ms.saturating_sub(before.round_trip_ms) as f64 / reads);
                }
            }
        }
        load.mapped = bdi.devs().iter().filter_map(|dev| self.mapped.get(dev)).flatten().cloned().collect();
        load.mapped.sort_by_key(|file| (std::cmp::Reverse(file.bytes), file.process));
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let (dev, bytes, path) =
            mapping("7f00-7fff0000 r--s 00000000 fe:10 12 /srv/my db/data.mdb").expect("a mapped file");
        assert_eq!((dev, path), (Dev { major: 254, minor: 16 }, "/srv/my db/data.mdb"));
        assert_eq!(bytes, 0x7fff_0000 - 0x7f00);
        assert_eq!(mapping("7f00-7fff r-xp 00000000 fe:10 12 /usr/lib/libc.so"), None);
        assert_eq!(mapping("7f00-7fff rw-p 00000000 00:00 0 [heap]"), None);
    }

    #[test]
    fn those_with_the_largest_address_spaces_are_looked_at_first() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let put = |name: &str, text: &str| host.replace(name, text).expect("written");
        for process in 1000..1020 {
            put(&format!("/proc/{process}/statm"), "9000 100 10 1 0 90 0");
            put(&format!("/proc/{process}/maps"), "7f0000000000-7f0002000000 r--s 00000000 08:00 7 /lib/fonts");
        }
        put("/proc/2/statm", "0 0 0 0 0 0 0");
        put("/proc/9000/statm", "70000000 100 10 1 0 90 0");
        put("/proc/9000/maps", "7f0000000000-7f4000000000 rw-s 00000000 08:00 12 /srv/data.mdb");
        let (found, left_out) = mapped(&host, Duration::ZERO);
        let files: Vec<_> = found.values().flatten().map(|file| (file.process, file.bytes >> 30)).collect();
        assert_eq!((files, left_out), (vec![(9000, 256)], 20));
        let (found, left_out) = mapped(&host, Duration::MAX);
        assert_eq!((found.values().flatten().count(), left_out), (21, 0), "a kernel thread maps nothing");
    }
}
