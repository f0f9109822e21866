// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF observer: loads `bpf/readahead.bpf.c`, which was compiled when we were, and reads its counters.
//!
//! The programs sit on tracepoints and functions; what the running kernel lacks is named in `Sight`. Fields are
//! found by the kernel's own type information, so one object serves all kernels whose page cache has folios and says so
//! where pages are added: from 5.17 on. It was tried on 6.1, 6.12 and 6.18.

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use aya::maps::HashMap as BpfHashMap;
use aya::programs::{Iter, Program};
use aya::{Btf, Ebpf, EbpfLoader};

use crate::advised::{Advised, MapAdvice};
use crate::clock::processor_time;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::mounts::Dev;
use crate::nfs::rpc::Rpcs;
use crate::observe::counted::{ADVISED, Counted, Found, Key, cells, cells_max};
use crate::observe::lost::{skipped, sum};
use crate::observe::{Lost, Observer, Reader, Sample, Sight};
use crate::openfile::{Descriptor, FLAG_DIRECT, FileId};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/readahead.bpf.o"));

/// What is to be seen, whether it tells what is demanded, and the programs that show it with what they sit on, the best
/// one first.
type Event = (&'static str, bool, &'static [(&'static str, &'static str)]);
const EVENTS: [Event; 7] = [
    ("which pages are brought into memory", false, &[("add", "mm_filemap_add_to_page_cache")]),
    ("which pages read() demands", true, &[("read_function", "filemap_read"), ("get_pages", "mm_filemap_get_pages")]),
    (
        "which pages mappings find in memory",
        true,
        &[("map_pages", "mm_filemap_map_pages"), ("map_function", "filemap_map_pages")],
    ),
    ("which pages mappings demand", true, &[("fault", "mm_filemap_fault"), ("fault_function", "filemap_fault")]),
    (
        "which reads use a value of the owner's",
        false,
        &[("sync_reader", "page_cache_sync_ra"), ("sync_reader_function", "page_cache_sync_ra")],
    ),
    (
        "which scans use a value of the owner's",
        false,
        &[("async_reader", "page_cache_async_ra"), ("async_reader_function", "page_cache_async_ra")],
    ),
    (
        "which faults use a value of the owner's",
        false,
        &[("fault_reader", "page_cache_ra_order"), ("fault_reader_function", "page_cache_ra_order")],
    ),
];
/// Places of `lost`, as in readahead.h.
const LOST_EVENTS: u32 = 0;
const LOST_ADVICE: u32 = 1;
/// Files in one question for descriptors: `WANTED_MAX` of readahead.h.
const WANTED_MAX: usize = 4096;
/// All mappings are walked through so often, or less where that takes long: one part in so many of the time.
const WALK: Duration = Duration::from_secs(2);
const WALK_SHARE: u32 = 1000;
/// And one part in so many where a file is about to be set.
const WALK_SHARE_SOON: u32 = 20;

/// Files that are mapped with advice, as the last walk found them.
#[derive(Default)]
struct Walk {
    ended: Option<Instant>,
    took: Duration,
    found: Rc<Advised>,
}

/// The running observer. Dropping it detaches the programs.
pub struct Bpf {
    ebpf: Ebpf,
    sight: Sight,
    counted: Counted,
    /// None where the kernel does not show mappings.
    walk: Option<Walk>,
    page_kib: u32,
    /// The one file system that is observed.
    only: Option<Dev>,
}

pub(crate) fn refused(what: impl std::fmt::Display) -> Error {
    Error::Observer { what: what.to_string() }
}

/// The whole chain of causes: the outer error alone says little.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    // The verifier's log is long; its last lines say why.
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(4)..].join(" | ")
}

/// What is not seen and why. The observer runs all the same, so its errors' words for that are left out.
pub(crate) fn not_seen(what: &str, reasons: &[Error]) -> String {
    let reasons = reasons.iter().map(|error| match error {
        Error::Observer { what } => what.clone(),
        other => other.to_string(),
    });
    format!("not seen: {what}; {}", reasons.collect::<Vec<_>>().join("; "))
}

fn load(only: Option<Dev>, last_is_end: bool, btf: &Btf) -> Result<Ebpf> {
    let only = only.map_or(0, Dev::to_kernel);
    let last_is_end = u32::from(last_is_end);
    let page_shift = rustix::param::page_size().trailing_zeros();
    EbpfLoader::new()
        .btf(Some(btf))
        .override_global("only_dev", &only, true)
        .override_global("last_is_end", &last_is_end, true)
        .override_global("page_shift", &page_shift, true)
        .override_global("flag_direct", &FLAG_DIRECT, true)
        .map_max_entries("files", cells_max())
        .load(OBJECT)
        .map_err(|error| {
            refused(format!(
                "the BPF object cannot be loaded ({}); it needs root, BPF and Linux 5.17 or later",
                causes(&error)
            ))
        })
}

/// On a tracepoint, or on a function's begin or end. Kernels for amd64 allow functions, those for 64-bit ARM from 6.4 on.
fn attach(ebpf: &mut Ebpf, program: &str, on: &str, btf: &Btf) -> Result<()> {
    let attached = match ebpf.program_mut(program).expect("in the object") {
        Program::BtfTracePoint(program) => program.load(on, btf).and_then(|()| program.attach()).map(drop),
        Program::FEntry(program) => program.load(on, btf).and_then(|()| program.attach()).map(drop),
        Program::FExit(program) => program.load(on, btf).and_then(|()| program.attach()).map(drop),
        other => unreachable!("{program} is a {:?}", other.prog_type()),
    };
    attached.map_err(|error| refused(format!("{on}: {}", causes(&error))))
}

fn iterator<'a>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut Iter {
    ebpf.program_mut(name).expect("in the object").try_into().expect("an iterator")
}

/// Whether mm_filemap_get_pages gives the page after the last one. One page of our own program is read to see.
fn gives_end(btf: &Btf) -> bool {
    let probe = || -> Option<bool> {
        let mut ebpf = load(None, false, btf).ok()?;
        attach(&mut ebpf, "get_pages", "mm_filemap_get_pages", btf).ok()?;
        let mut page = [0; 4096];
        std::fs::File::open("/proc/self/exe").ok()?.read_exact_at(&mut page, 0).ok()?;
        let own = std::process::id();
        let cells = cells(&ebpf).ok()?;
        let ours = cells.iter().find(|cell| cell.process == own && cell.start == 0 && cell.counts.accesses == 1)?;
        Some(ours.end == 2)
    };
    probe().unwrap_or(false)
}

impl Bpf {
    /// Loads and attaches everything that the kernel has tracepoints for. `only`: one file system.
    pub fn start(only: Option<Dev>) -> Result<Bpf> {
        let btf = Btf::from_sys_fs().map_err(|error| {
            refused(format!("the kernel gives no type information, /sys/kernel/btf/vmlinux ({error})"))
        })?;
        let mut ebpf = load(only, gives_end(&btf), &btf)?;
        let mut sight = Sight { files: true, demands: true, descriptors: true, limits: Vec::new() };
        let mut whole_reads = false;
        for (what, demands, programs) in EVENTS {
            let mut reasons = Vec::new();
            let shown = programs.iter().find(|(program, on)| {
                attach(&mut ebpf, program, on, &btf).map_err(|error| reasons.push(error)).is_ok()
            });
            match shown {
                Some(("get_pages", _)) => {
                    sight.limits.push(not_seen("some pages of reads that wait for others to bring the rest", &reasons));
                }
                Some(("read_function", _)) => whole_reads = true,
                Some(_) => {}
                None if programs[0].0 == "add" => return Err(reasons.remove(0)),
                None => {
                    sight.demands &= !demands;
                    sight.limits.push(not_seen(what, &reasons));
                }
            }
        }
        // Before 6.5 splice is a read like others, as it is for mm_filemap_get_pages.
        if whole_reads {
            let _ = attach(&mut ebpf, "splice_function", "filemap_splice_read", &btf);
        }
        Ok(Bpf { only, ..Bpf::with_iterator(ebpf, sight, &btf)? })
    }

    /// Only lists open files, and observes no event.
    pub fn lister() -> Result<Bpf> {
        let btf = Btf::from_sys_fs().map_err(|error| refused(causes(&error)))?;
        let ebpf = load(None, false, &btf)?;
        Bpf::with_iterator(ebpf, Sight { descriptors: true, ..Sight::default() }, &btf)
    }

    fn with_iterator(mut ebpf: Ebpf, mut sight: Sight, btf: &Btf) -> Result<Bpf> {
        if !Host::default().numbers_processes() {
            sight.descriptors = false;
            let what = "processes have other numbers here than the kernel gives, only devices are set: start the container \
                        with the PID namespace of the machine (--pid=host)";
            sight.limits.push(what.into());
        }
        if let Err(error) = iterator(&mut ebpf, "descriptors").load("task_file", btf) {
            sight.descriptors = false;
            sight.limits.push(format!("open files cannot be listed, only devices are set: {}", causes(&error)));
        }
        let loaded = iterator(&mut ebpf, "mappings").load("task_vma", btf);
        if let Err(error) = &loaded {
            sight.limits.push(not_seen("advice by madvise", &[refused(causes(error))]));
        }
        let walk = loaded.is_ok().then(Walk::default);
        let page_kib = u32::try_from(rustix::param::page_size() / 1024).expect("a small number");
        Ok(Bpf { ebpf, sight, counted: Counted::new()?, walk, page_kib, only: None })
    }
}

impl Observer for Bpf {
    fn sight(&self) -> &Sight {
        &self.sight
    }

    fn look(&mut self) -> Result<Vec<Sample>> {
        let found = self.counted.look(&self.ebpf)?;
        let page_kib = self.page_kib;
        let samples = found.into_iter().map(|(key, Found { counts, mut processes })| {
            processes.sort_unstable();
            processes.dedup();
            let file = FileId { dev: Dev::from_kernel(key.dev), inode: key.inode };
            let reader = match key.reader {
                0 => Reader::Own,
                ADVISED => Reader::Advised,
                pages => Reader::Above(pages.saturating_mul(page_kib)),
            };
            Sample { file, cgroup: key.cgroup, reader, counts, rpcs: Rpcs::default(), processes }
        });
        Ok(samples.collect())
    }

    fn descriptors(&mut self, wanted: &[FileId]) -> Result<Vec<Descriptor>> {
        let mut found = Vec::new();
        if self.sight.descriptors {
            for some in wanted.chunks(WANTED_MAX) {
                found.extend(self.holders(some)?);
            }
        }
        Ok(found)
    }

    fn advised(&mut self, soon: bool) -> Result<Rc<Advised>> {
        let Some(Walk { ended, took, found }) = &self.walk else { return Ok(Rc::default()) };
        let pause = if soon { *took * WALK_SHARE_SOON } else { WALK.max(*took * WALK_SHARE) };
        if ended.is_some_and(|ended| ended.elapsed() < pause) {
            return Ok(found.clone());
        }
        let begun = Instant::now();
        let found = Rc::new(self.mapped_with_advice()?);
        self.walk = Some(Walk { ended: Some(Instant::now()), took: begun.elapsed(), found: found.clone() });
        Ok(found)
    }

    fn watch_only(&mut self, only: Option<Dev>) -> Result<bool> {
        let is_seen = self.only.is_none() || self.only == only;
        if !is_seen {
            // The file system is a constant of the programs. The old ones see until the new ones do.
            *self = Bpf::start(only)?;
        }
        Ok(!is_seen)
    }

    fn lost(&self) -> Result<Lost> {
        let [no_room, advice] = [LOST_EVENTS, LOST_ADVICE].map(|what| sum(&self.ebpf, "lost", what));
        Ok(Lost { no_room: no_room?, skipped: skipped(&self.ebpf), advice: advice? })
    }
}

impl Bpf {
    /// Descriptors of files that the map `wanted` has room for.
    fn holders(&mut self, wanted: &[FileId]) -> Result<Vec<Descriptor>> {
        let keys: Vec<Key> = wanted
            .iter()
            .map(|file| Key { inode: file.inode, cgroup: 0, dev: file.dev.to_kernel(), reader: 0 })
            .collect();
        let mut map: BpfHashMap<_, Key, u32> =
            BpfHashMap::try_from(self.ebpf.map_mut("wanted").expect("in the object")).expect("its key and value");
        for key in &keys {
            map.insert(key, 1, 0).map_err(|error| refused(format!("too many files at once: {error}")))?;
        }
        let listed = self.iterate("descriptors");
        let mut map: BpfHashMap<_, Key, u32> =
            BpfHashMap::try_from(self.ebpf.map_mut("wanted").expect("in the object")).expect("its key and value");
        for key in &keys {
            let _ = map.remove(key);
        }
        let page_kib = self.page_kib;
        Ok(listed?.chunks_exact(48).map(|record| descriptor(record, page_kib)).collect())
    }

    fn mapped_with_advice(&mut self) -> Result<Advised> {
        self.iterate("mappings")?;
        let map = self.ebpf.map_mut("advised").expect("in the object");
        let mut map: BpfHashMap<_, Key, u32> = BpfHashMap::try_from(map).expect("its key and value");
        let noted: Vec<(Key, u32)> = map.iter().flatten().collect();
        for (key, _) in &noted {
            let _ = map.remove(key);
        }
        let file = |key: Key| FileId { dev: Dev::from_kernel(key.dev), inode: key.inode };
        Ok(noted.into_iter().map(|(key, flags)| (file(key), MapAdvice::of_flags(flags))).collect())
    }

    /// What an iterator over all processes writes.
    fn iterate(&mut self, name: &str) -> Result<Vec<u8>> {
        let failed =
            |error: &dyn std::error::Error| refused(format!("{name} of processes cannot be listed: {}", causes(error)));
        let iterator = iterator(&mut self.ebpf, name);
        let link = iterator.attach().map_err(|error| failed(&error))?;
        let link = iterator.take_link(link).map_err(|error| failed(&error))?;
        let mut file = link.into_file().map_err(|error| failed(&error))?;
        let mut bytes = Vec::new();
        loop {
            match file.read_to_end(&mut bytes) {
                Ok(_) => return Ok(bytes),
                // It has gone through a million without writing, and goes on.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }
}

/// `struct open_file` of readahead.h.
fn descriptor(record: &[u8], page_kib: u32) -> Descriptor {
    let wide = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    let word = |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().expect("four bytes"));
    Descriptor {
        file: FileId { dev: Dev::from_kernel(word(24)), inode: wide(0) },
        cgroup: wide(8),
        size_bytes: wide(16),
        process: word(28),
        fd: word(32),
        mode: word(36),
        flags: word(40),
        value_kib: word(44).saturating_mul(page_kib),
    }
}

/// What an event costs: one page is read again and again from memory, without a program, with an empty one, with ours.
#[derive(Debug, Clone, Copy)]
pub struct EventCost {
    /// Nanoseconds of the read itself.
    pub bare_ns: f64,
    /// Nanoseconds that an empty program adds.
    pub empty_ns: f64,
    /// Nanoseconds that the observer's program adds.
    pub ours_ns: f64,
}

/// Processor time of this thread for a read, in nanoseconds: what others run between counts for nothing.
fn read_ns(file: &std::fs::File, reads: u32) -> Result<f64> {
    let mut byte = [0; 1];
    let begun = processor_time();
    for i in 0..reads {
        // Two pages far apart: a repeat of the same page would be the cheapest case.
        let at = u64::from(i % 2) * 65_536;
        file.read_exact_at(&mut byte, at)
            .map_err(|error| refused(format!("a file of our own program cannot be read: {error}")))?;
    }
    Ok((processor_time() - begun).as_nanos() as f64 / f64::from(reads))
}

/// The largest file that our process has mapped: the program, or a library of an interpreter that is small itself.
fn own_file() -> Result<std::fs::File> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(refused)?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let sized = paths.filter_map(|path| Some((std::fs::metadata(path).ok().filter(|m| m.is_file())?.len(), path)));
    let (_, path) = sized.max().ok_or_else(|| refused("no mapped file of our own is found"))?;
    std::fs::File::open(path).map_err(refused)
}

/// Measures the cost of an event. The least of `rounds` counts: what else runs on the machine only adds.
pub fn event_cost(rounds: usize, reads: u32) -> Result<EventCost> {
    let btf = Btf::from_sys_fs().map_err(|error| refused(causes(&error)))?;
    let file = own_file()?;
    let with = |program: &str, on: &str| -> Result<f64> {
        let mut ebpf = load(None, false, &btf)?;
        attach(&mut ebpf, program, on, &btf)?;
        read_ns(&file, reads / 10)?;
        read_ns(&file, reads)
    };
    let program = [("read_function", "filemap_read"), ("get_pages", "mm_filemap_get_pages")]
        .into_iter()
        .find(|(program, on)| with(program, on).is_ok())
        .ok_or_else(|| refused("no program sees reads"))?;
    let (mut bare, mut empty, mut ours) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..rounds.max(1) {
        bare = bare.min(read_ns(&file, reads)?);
        empty = empty.min(with("nothing", "mm_filemap_get_pages")?);
        ours = ours.min(with(program.0, program.1)?);
    }
    Ok(EventCost { bare_ns: bare, empty_ns: empty - bare, ours_ns: ours - bare })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_no_reason_not_to_run() {
        let text = not_seen("which pages read() demands", &[refused("a: no such type"), refused("b: not allowed")]);
        assert_eq!(text, "not seen: which pages read() demands; a: no such type; b: not allowed");
    }

    #[test]
    fn an_open_file_as_the_iterator_writes_it() {
        let wide = [12u64, 34, 5_000_000_000].into_iter().flat_map(u64::to_ne_bytes);
        let words = [Dev { major: 8, minor: 1 }.to_kernel(), 100, 3, 0x1f, 0o40_000, 32];
        let record: Vec<u8> = wide.chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect();
        assert_eq!(record.len(), 48, "of struct open_file");
        let expected = Descriptor {
            file: FileId { dev: Dev { major: 8, minor: 1 }, inode: 12 },
            cgroup: 34,
            size_bytes: 5_000_000_000,
            process: 100,
            fd: 3,
            mode: 0x1f,
            flags: 0o40_000,
            value_kib: 128,
        };
        assert_eq!(descriptor(&record, 4), expected);
    }
}
