// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the tuner with readers that are made up.

use super::*;
use crate::advised::MapAdvice;
use crate::journal::FileEntry;
use crate::observe::{Coarse, Reader, Sight};
use crate::openfile::{Descriptor, FileId};
use crate::putback::tests::opened;
use crate::rule::Rule;

#[path = "tuner_group_tests.rs"]
mod groups;

#[path = "tuner_wanted_tests.rs"]
mod wanted;

const DEV: Dev = Dev { major: 8, minor: 0 };
const FILE: FileId = FileId { dev: DEV, inode: 12 };

/// One process that has the file open without advice, and one with. The first one's value is what we set.
struct Readers {
    sight: Sight,
    plain_kib: u32,
}

impl Observer for Readers {
    fn sight(&self) -> &Sight {
        &self.sight
    }
    fn look(&mut self) -> Result<Vec<Sample>> {
        Ok(Vec::new())
    }
    fn descriptors(&mut self, _: &[FileId]) -> Result<Vec<Descriptor>> {
        let value_kib = std::mem::replace(&mut self.plain_kib, 8);
        let plain =
            Descriptor { file: FILE, cgroup: 1, process: 100, fd: 3, mode: 0x1f, flags: 0, size_bytes: 0, value_kib };
        let advised = Descriptor { process: 101, value_kib: 256, ..plain.clone() };
        Ok(vec![plain, advised])
    }
}

fn host() -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().expect("a directory");
    let host = Host::below(root.path());
    host.replace("/sys/block/sda/dev", "8:0").expect("written");
    host.replace("/sys/class/bdi/8:0/read_ahead_kb", "128").expect("written");
    host.replace("/proc/self/mountinfo", "30 1 8:0 / /data rw - ext4 /dev/sda rw").expect("written");
    host.replace("/sys/dev/block/.keep", "").expect("written");
    std::os::unix::fs::symlink("../../block/sda", host.path("/sys/dev/block/8:0")).expect("linked");
    (root, host)
}

/// What an observer sees on a kernel that shows everything.
fn all_seen() -> Sight {
    Sight { files: true, demands: true, descriptors: true, limits: Vec::new() }
}

/// A tuner that says what it would do.
fn dry_run<'a>(host: &Host, rule: &'a Rule, observer: &'a mut dyn Observer) -> Tuner<'a> {
    let options = Options { dry_run: true, ..Options::default() };
    Tuner::start(host, options, rule, observer, &mut |_| true).expect("started")
}

/// `n` random reads that bring `each` pages for one that is used.
fn random(reader: Reader, n: u64, each: u64) -> Sample {
    let counts = Counts {
        accesses: n,
        pages: n,
        jumps: n,
        faults: n,
        added: each * n,
        used: n,
        batches: n,
        ..Counts::default()
    };
    Sample { file: FILE, cgroup: 1, reader, counts, rpcs: Rpcs::default(), processes: Vec::new() }
}

/// Random reads get 8 KiB; beside those, others then read with a value as `beside` shows.
fn events_beside(beside: Reader) -> Vec<Event> {
    let (_root, host) = host();
    let mut observer = Readers { sight: all_seen(), plain_kib: 128 };
    let rule = Rule::default();
    let mut tuner = dry_run(&host, &rule, &mut observer);
    let mut events = Vec::new();
    for look in 4..20 {
        let samples = if look < 5 {
            vec![random(Reader::Own, 200, 32)]
        } else {
            vec![random(Reader::Own, 200, 2), random(beside, 800, 64)]
        };
        events.extend(tuner.tick(Duration::from_millis(250 * look), &samples).expect("a look"));
    }
    events
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn what_those_with_advice_bring_takes_no_value_back() {
    assert_eq!(kinds(&events_beside(Reader::Own)), ["decision", "rollback"], "all on the file's account");
    for advised in [Reader::Advised, Reader::Above(256)] {
        let events = events_beside(advised);
        assert_eq!(kinds(&events), ["decision", "skip"], "{events:?}");
        assert_eq!((events[0].from_kib, events[0].to_kib), (Some(128), Some(8)));
        assert!(events[1].why.starts_with("left alone, its owner advised SEQUENTIAL"), "{}", events[1].why);
    }
    assert_eq!(kinds(&events_beside(Reader::Above(512))), ["decision", "rollback"], "opened under another value");
}

#[test]
fn the_next_look_is_sooner_while_nobody_knows_how_a_file_is_read_as_far_as_looks_are_cheap() {
    let (_root, host) = host();
    let mut observer = Readers { sight: all_seen(), plain_kib: 128 };
    let rule = Rule::default();
    let mut tuner = dry_run(&host, &rule, &mut observer);
    let mut pause = |look: u64, sample: Sample, took_us: u64| {
        tuner.tick(Duration::from_millis(100 * look), &[sample]).expect("a look");
        tuner.pause(Duration::from_micros(took_us)).as_millis()
    };
    assert_eq!(pause(10, random(Reader::Own, 5, 32), 100), 100);
    assert_eq!(pause(11, random(Reader::Own, 5, 32), 1000), 200);
    assert_eq!(pause(12, random(Reader::Own, 5, 32), 10_000), 250);
    assert_eq!(pause(13, random(Reader::Own, 5, 0), 100), 250, "nothing came from the device");
    assert_eq!(pause(14, random(Reader::Advised, 5, 32), 100), 250, "nothing is to be decided");
    assert_eq!(pause(15, random(Reader::Own, 200, 32), 100), 250, "it is decided");
    assert_eq!(pause(16, random(Reader::Own, 5, 32), 100), 250);
}

/// Open files as they are.
pub(crate) struct Listing(pub(crate) Sight, pub(crate) Vec<Descriptor>);

impl Observer for Listing {
    fn sight(&self) -> &Sight {
        &self.0
    }
    fn look(&mut self) -> Result<Vec<Sample>> {
        Ok(Vec::new())
    }
    fn descriptors(&mut self, files: &[FileId]) -> Result<Vec<Descriptor>> {
        Ok(self.1.iter().filter(|d| files.contains(&d.file)).cloned().collect())
    }
}

/// What is decided on a file of so many MiB, on a machine with `memory_mib`, of which random reads bring 25 MiB until each
/// look. Looks are counted in quarters of a second. Beside it `beside` is read in each of them too, if anything.
fn events_on(
    size_mib: u64,
    memory_mib: u64,
    looks: impl IntoIterator<Item = u64>,
    beside: Option<(Descriptor, Counts)>,
) -> Vec<Event> {
    let (_root, host) = host();
    host.replace("/proc/meminfo", &format!("MemAvailable: {} kB", memory_mib * 1024)).expect("written");
    host.replace("/proc/100/cgroup", "0::/\n").expect("written");
    host.replace("/proc/101/cgroup", "0::/small\n").expect("written");
    host.replace("/sys/fs/cgroup/small/memory.max", "1000000").expect("written");
    host.replace("/sys/fs/cgroup/small/memory.current", "0").expect("written");
    let sight = all_seen();
    let mut observer = Listing(sight, vec![of_size(FILE, size_mib)]);
    let mut samples = vec![random(Reader::Own, 200, 32)];
    if let Some((open, counts)) = beside {
        samples.push(Sample { file: open.file, cgroup: open.cgroup, counts, ..samples[0].clone() });
        observer.1.push(open);
    }
    let rule = Rule::default();
    let mut tuner = dry_run(&host, &rule, &mut observer);
    let mut look = |n: u64| tuner.tick(Duration::from_millis(250 * n), &samples).expect("a look");
    let of_file = format!("inode {}", FILE.inode);
    looks.into_iter().flat_map(&mut look).filter(|event| event.file.as_ref() == Some(&of_file)).collect()
}

fn of_size(file: FileId, mib: u64) -> Descriptor {
    let size_bytes = mib << 20;
    Descriptor { file, cgroup: 1, process: 100, fd: 3, mode: 0x1f, flags: 0, size_bytes, value_kib: 128 }
}

#[test]
fn a_file_that_will_soon_be_in_memory_keeps_its_value_until_it_does_not_stay_there() {
    let events = events_on(54, 1000, 4..6, None);
    assert_eq!(kinds(&events), ["skip"], "{events:?}");
    assert!(events[0].why.starts_with("left alone, all that its group reads may soon be in memory (random"));
    assert_eq!(kinds(&events_on(54, 100, 4..6, None)), ["decision"], "more than half of the memory");
    assert_eq!(kinds(&events_on(500, 2000, 4..6, None)), ["decision"], "475 MiB would take 19 s");
    assert_eq!(kinds(&events_on(54, 1000, 4..12, None)), ["skip", "decision"], "it was brought four times");
    assert_eq!(kinds(&events_on(54, 1000, [4, 16, 17], None)), ["skip"], "what came before a rest does not count");
    assert_eq!(kinds(&events_on(54, 1000, [4, 16, 17, 22], None)), ["skip", "decision"], "but for what comes since");
}

#[test]
fn all_files_that_a_group_reads_must_fit_and_come() {
    let other = FileId { dev: DEV, inode: 13 };
    let beside = |mib, cgroup, counts| {
        let process = if cgroup == 1 { 100 } else { 101 };
        let open = Descriptor { cgroup, process, ..of_size(other, mib) };
        kinds(&events_on(54, 1000, 4..6, Some((open, counts)))).join(" ")
    };
    let reads = random(Reader::Own, 10, 32).counts;
    assert_eq!(beside(4, 1, reads), "skip");
    assert_eq!(beside(900, 1, reads), "decision", "the other one does not fit");
    assert_eq!(beside(300, 1, reads), "decision", "nor is it nearly there");
    assert_eq!(beside(900, 2, reads), "skip", "it is read by another group");
    let many = random(Reader::Own, 200, 32).counts;
    assert_eq!(beside(54, 2, many), "skip", "it would come as soon, but its own group has no room");
    let written = Counts { added: 64, batches: 1, ..Counts::default() };
    assert_eq!(beside(900, 1, written), "skip", "it is only written");
}

#[test]
fn a_file_that_cannot_be_set_is_told_once_and_not_as_set() {
    use std::os::fd::AsRawFd;
    let (_root, host) = host();
    let process = std::process::id();
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("our own process");
    host.replace(format!("/proc/{process}/stat"), &stat).expect("written");
    // Advice for a pipe is refused. It is on no block device, so it stands for a file of NFS.
    let knob = "/sys/class/bdi/0:45/read_ahead_kb";
    host.replace(knob, "128").expect("written");
    host.replace("/proc/self/mountinfo", "30 1 0:45 / /data rw - nfs4 server:/ rw").expect("written");
    let (pipe, _end) = std::io::pipe().expect("a pipe");
    let inode = rustix::fs::fstat(&pipe).expect("its number").st_ino;
    let file = FileId { dev: Dev { major: 0, minor: 45 }, inode };
    let fd = u32::try_from(pipe.as_raw_fd()).expect("positive");
    let open = Descriptor { file, cgroup: 1, process, fd, mode: 0x1f, flags: 0, size_bytes: 0, value_kib: 128 };
    let mut observer = Listing(all_seen(), vec![open]);
    let options = Options { scope: Scope::Files, ..Options::default() };
    let rule = Rule::default();
    let mut tuner = Tuner::start(&host, options, &rule, &mut observer, &mut |_| true).expect("started");
    let mut events = Vec::new();
    for look in 4..100 {
        let samples = [Sample { file, ..random(Reader::Own, 200, 32) }];
        events.extend(tuner.tick(Duration::from_millis(250 * look), &samples).expect("a look"));
    }
    assert_eq!(kinds(&events), ["skip"], "{events:?}");
    let skip = &events[0];
    assert_eq!((skip.applied, skip.from_kib, skip.to_kib), (false, Some(128), Some(128)));
    assert!(skip.why.starts_with("left alone, it cannot be set: "), "{}", skip.why);
    assert_eq!(host.number::<u32>(knob).expect("a number"), 128);
}

#[test]
fn files_stay_at_the_end_where_nobody_sees_what_their_owners_have_advised_since() {
    let (_root, host) = host();
    let Some((_open, entry)) = opened(&host, "/sys/class/bdi/8:0/read_ahead_kb") else { return };
    let rule = Rule::default();
    for (descriptors, kind, left) in [(false, "note", 1), (true, "restore", 0)] {
        let FileEntry { process, fd, file, written_kib: value_kib, .. } = entry;
        let open = Descriptor { file, cgroup: 1, process, fd, mode: 0, flags: 0, size_bytes: 0, value_kib };
        let mut observer = Listing(Sight { files: true, descriptors, ..Sight::default() }, vec![open]);
        let mut tuner = Tuner::start(&host, Options::default(), &rule, &mut observer, &mut |_| true).expect("started");
        tuner.journal = Journal::open(&host).expect("empty");
        tuner.journal.note_file(entry.clone());
        let mut told = Vec::new();
        let mut tell = |event: Option<&Event>| {
            told.extend(event.cloned());
            true
        };
        tuner.restore(&mut tell).expect("no error");
        assert_eq!((kinds(&told), tuner.journal.files.len()), (vec![kind], left), "{told:?}");
        tuner.journal.files.remove(entry.at());
        tuner.journal.save().expect("saved");
    }
}

#[test]
fn files_are_set_less_often_where_that_takes_long() {
    let (_root, host) = host();
    let rule = Rule::default();
    for (took, from) in [(99, 1000), (2000, 11_000)] {
        let mut observer = Readers { sight: all_seen(), plain_kib: 128 };
        let mut tuner = dry_run(&host, &rule, &mut observer);
        tuner.files.note_set(Duration::from_secs(1), Duration::from_millis(took));
        let decided = (4..80).find(|look| {
            let samples = [random(Reader::Own, 200, 32)];
            let events = tuner.tick(Duration::from_millis(250 * look), &samples).expect("a look");
            kinds(&events).contains(&"decision")
        });
        let decided = 250 * decided.expect("in the end");
        assert!((from..from + 2000).contains(&decided), "{took} ms: at {decided} ms");
    }
}

#[test]
fn a_tuner_that_sees_no_files_ends_when_it_has_put_back_what_an_earlier_one_left() {
    let (_root, host) = host();
    let (knob, rule) = ("/sys/class/bdi/8:0/read_ahead_kb", Rule::default());
    let mut journal = Journal::open(&host).expect("empty");
    journal.note_device(knob, 512, 128);
    journal.save().expect("saved");
    let mut observer = Coarse::new(&host, "no BPF here".into());
    for once in [false, true] {
        let options = Options { once, ..Options::default() };
        let error = Tuner::start(&host, options, &rule, &mut observer, &mut |_| true).err().expect("it sees nothing");
        assert!(
            error.to_string().starts_with("the observer cannot run: no BPF here; without it nobody sees"),
            "{error}"
        );
    }
    assert_eq!(host.number::<u32>(knob).expect("a number"), 512);
    let (mut said, options) = (Vec::new(), Options { dry_run: true, ..Options::default() });
    let mut tell = |event: &Event| {
        said.push(event.why.clone());
        true
    };
    Tuner::start(&host, options, &rule, &mut observer, &mut tell).expect("a dry run says it");
    assert_eq!((said.len(), &said[0][..]), (3, "no BPF here"));
}

#[test]
fn a_group_that_is_not_there_is_told_at_the_start() {
    let (_root, host) = host();
    host.replace("/sys/fs/cgroup/cgroup.controllers", "io").expect("written");
    host.replace("/sys/fs/cgroup/web.service/cgroup.procs", "").expect("written");
    let rule = Rule::default();
    for (group, said) in [("web.service", false), ("wbe.service", true)] {
        let mut observer = Readers { sight: Sight::default(), plain_kib: 128 };
        let options = Options { dry_run: true, cgroup: Some(group.into()), ..Options::default() };
        let mut notes = Vec::new();
        let mut tell = |event: &Event| {
            notes.push(event.why.clone());
            true
        };
        Tuner::start(&host, options, &rule, &mut observer, &mut tell).expect("started");
        assert_eq!(notes.iter().any(|why| why.contains(&format!("is called {group} now"))), said, "{notes:?}");
        let mut observer = Readers { sight: Sight::default(), plain_kib: 128 };
        let options = Options { dry_run: true, cgroup: Some(group.into()), once: true, ..Options::default() };
        let started = Tuner::start(&host, options, &rule, &mut observer, &mut |_| true).map(drop);
        assert_eq!(matches!(started, Err(Error::Group { name }) if name == group), said, "nobody waits with --once");
    }
}

/// A device of `original` KiB after a window of random reads: what was told of it, and what is told at the end.
fn after_random_reads(original: u32, alone: bool) -> (Vec<Event>, Vec<Event>) {
    let (_root, host) = host();
    host.replace("/sys/block/sda/size", "1000").expect("written");
    host.replace("/sys/class/bdi/8:0/read_ahead_kb", &original.to_string()).expect("written");
    let (mut devices, mut journal) = (Devices::default(), Journal::open(&host).expect("empty"));
    let bdis = bdi::list(&host);
    let at = Duration::from_secs;
    let moves = Moves { dry_run: false, alone, decider: &Rule::default() };
    devices.value_of(&host, &bdis[0], at(0), Rivals::Auto, at(600)).expect("a value");
    devices.count(&bdis[0].name, crate::rule::Class::Random, 1000);
    let set = devices.set(at(2), &moves, &mut journal, &bdis).expect("set");
    let mut told = Vec::new();
    devices.restore(&host, &mut journal, &bdis, &mut |event| told.push(event.clone())).expect("restored");
    (set, told)
}

#[test]
fn a_device_that_goes_away_while_it_is_set_or_put_back_is_no_error() {
    let (_root, mut host) = host();
    let knob = "/sys/class/bdi/8:0/read_ahead_kb";
    let at = Duration::from_secs;
    let rule = Rule::default();
    let moves = Moves { dry_run: false, alone: true, decider: &rule };
    let bdis = bdi::list(&host);
    for fleeting in [None, Some(knob)] {
        host.replace(knob, "128").expect("written");
        host.fleeting = fleeting;
        let (mut devices, mut journal) = (Devices::default(), Journal::open(&host).expect("empty"));
        devices.value_of(&host, &bdis[0], at(0), Rivals::Auto, at(600)).expect("a value");
        devices.count(&bdis[0].name, Class::Random, 1000);
        let set = devices.set(at(2), &moves, &mut journal, &bdis).expect("no error");
        assert_eq!(set.len(), usize::from(fleeting.is_none()), "{set:?}");
        let _ = std::fs::remove_file(host.path(knob));
        devices.restore(&host, &mut journal, &bdis, &mut |event| panic!("told: {event:?}")).expect("no error");
        assert!(Journal::open(&host).expect("journal").is_empty());
    }
}

#[test]
fn a_file_system_that_has_the_number_of_one_that_was_set_keeps_its_value() {
    let (_root, host) = host();
    let (knob, at, rule) = ("/sys/class/bdi/0:45/read_ahead_kb", Duration::from_secs, Rule::default());
    let mounted = |what: &str| {
        host.replace("/proc/self/mountinfo", &format!("30 1 0:45 / /srv rw - {what} rw")).expect("written");
        bdi::list(&host)
    };
    for at_the_end in [false, true] {
        host.replace(knob, "15360").expect("written");
        let (mut devices, mut journal) = (Devices::default(), Journal::open(&host).expect("empty"));
        let bdis = mounted("nfs4 nas:/data");
        let name = bdis.iter().find(|bdi| bdi.name == "0:45").expect("listed");
        devices.value_of(&host, name, at(0), Rivals::Auto, at(600)).expect("a value");
        devices.count("0:45", Class::Random, 1000);
        let moves = Moves { dry_run: false, alone: false, decider: &rule };
        assert_eq!(devices.set(at(2), &moves, &mut journal, &bdis).expect("no error").len(), 1);
        assert_eq!(host.number::<u32>(knob).expect("a number"), 128);
        let bdis = mounted("fuse.sshfs u@h:/");
        let mut told = Vec::new();
        if !at_the_end {
            told = devices.look(&host, at(4), &mut journal, &bdis);
            assert_eq!(devices.original_kib("0:45"), None);
        }
        devices.restore(&host, &mut journal, &bdis, &mut |event| told.push(event.clone())).expect("no error");
        assert!(told[0].why.starts_with("nas:/data (nfs4), which was mounted at /srv and whose value"), "{told:?}");
        assert_eq!((told.len(), told[0].kind, &told[0].target[..]), (1, "note", knob));
        assert_eq!(host.number::<u32>(knob).expect("a number"), 128, "it is the other one's");
        assert!(Journal::open(&host).expect("journal").is_empty());
    }
}

#[test]
fn a_device_s_value_is_put_back_under_the_name_that_operators_know() {
    let (set, told) = after_random_reads(65_536, false);
    assert_eq!((&set[0].target[..], set[0].to_kib), ("/dev/sda", Some(128)));
    assert_eq!((&told[0].target[..], told[0].to_kib), ("/dev/sda", Some(65_536)));
}

#[test]
fn a_device_never_moves_to_half_its_value() {
    for (original, alone, to) in [(512, false, Some(128)), (256, false, None), (16, true, Some(8))] {
        let (set, _) = after_random_reads(original, alone);
        assert_eq!(set.first().and_then(|event| event.to_kib), to, "from {original}");
    }
}

#[test]
fn a_value_of_ours_is_no_advice() {
    let mut journal = Journal::unsaved(&host().1);
    let is_advised = |kib, journal: &Journal| Files::is_advised(Reader::Above(kib), FILE, 128, 65_536, journal);
    assert!(is_advised(256, &journal) && is_advised(131_072, &journal) && !is_advised(512, &journal));
    journal.note_file(FileEntry {
        process: 100,
        started: 1,
        fd: 3,
        file: FILE,
        knob: "k".into(),
        original_kib: 128,
        written_kib: 256,
        stands_kib: None,
    });
    assert!(!is_advised(256, &journal) && is_advised(131_072, &journal));
}

/// What the tuner tells of random reads of a CIFS mount, where the machine has these values of CIFS.
fn told_of_cifs(values: &[&str]) -> Vec<Event> {
    let (_root, host) = host();
    host.replace("/proc/self/mountinfo", "30 1 0:60 / /mnt rw - cifs //server/share rw").expect("written");
    for (number, kib) in values.iter().enumerate() {
        host.replace(format!("/sys/class/bdi/cifs-{number}/read_ahead_kb"), kib).expect("written");
    }
    let mut observer = Readers { sight: all_seen(), plain_kib: 128 };
    let rule = Rule::default();
    let mut tuner = dry_run(&host, &rule, &mut observer);
    let file = FileId { dev: Dev { major: 0, minor: 60 }, ..FILE };
    let mut look =
        |k: u64| tuner.tick(Duration::from_millis(250 * k), &[Sample { file, ..random(Reader::Own, 200, 32) }]);
    (4..20).flat_map(|k| look(k).expect("a look")).collect()
}

#[test]
fn a_mount_whose_value_is_named_by_its_type_is_tuned_where_it_is_known_and_else_told_once() {
    let told = told_of_cifs(&["128"]);
    assert_eq!((kinds(&told), told[0].target.as_str()), (vec!["skip"], "/mnt"), "nobody has it open: {told:?}");
    let told = told_of_cifs(&["128", "128"]);
    assert_eq!(kinds(&told), ["note"], "{told:?}");
    let why = "its files are left alone: the value of /mnt is one of cifs-0, cifs-1, and the kernel does not say which";
    assert_eq!((told[0].target.as_str(), told[0].why.as_str()), ("/mnt", why));
    let told = told_of_cifs(&["4294967296"]);
    assert!(kinds(&told) == ["note"] && told[0].why.contains("4294967296"), "{told:?}");
}

#[test]
fn a_device_that_is_asked_for_must_have_a_value_of_its_own() {
    let (_root, host) = host();
    host.replace("/proc/self/mountinfo", "30 1 0:60 / /mnt rw - cifs //server/share rw").expect("written");
    for number in [2, 3] {
        host.replace(format!("/sys/class/bdi/cifs-{number}/read_ahead_kb"), "128").expect("written");
    }
    let mut observer = Readers { sight: all_seen(), plain_kib: 128 };
    let options = Options { dry_run: true, device: Some("/mnt".into()), ..Options::default() };
    let rule = Rule::default();
    let refused = Tuner::start(&host, options, &rule, &mut observer, &mut |_| true).err().map(|e| e.to_string());
    assert!(refused.as_deref().is_some_and(|why| why.contains("one of cifs-2, cifs-3")), "{refused:?}");
}
