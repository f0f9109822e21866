// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the tuner on the many files of a database, which follow their group.

use std::cell::RefCell;

use super::*;

/// As many files as a large database has, each open once. A file has 8 KiB once it was asked for.
struct Database {
    sight: Sight,
    open: Vec<Descriptor>,
    /// Files that are mapped with advice, and whether only a look `soon` finds them.
    advised: Rc<RefCell<(Advised, bool)>>,
}

impl Observer for Database {
    fn sight(&self) -> &Sight {
        &self.sight
    }
    fn look(&mut self) -> Result<Vec<Sample>> {
        Ok(Vec::new())
    }
    fn descriptors(&mut self, files: &[FileId]) -> Result<Vec<Descriptor>> {
        let of_them = self.open.iter_mut().filter(|d| files.contains(&d.file));
        Ok(of_them.map(|d| Descriptor { value_kib: std::mem::replace(&mut d.value_kib, 8), ..d.clone() }).collect())
    }
    fn advised(&mut self, soon: bool) -> Result<Rc<Advised>> {
        let (advised, only_soon) = &*self.advised.borrow();
        Ok(Rc::new(if soon || !only_soon { advised.clone() } else { Advised::new() }))
    }
}

/// One look.
type Read = Vec<Sample>;

/// What is decided on files 0 to 999 of a database, of which 100 are read in each look, in turns: every file once in
/// 2.5 s. `each` changes what a look sees; file 1000 is another one.
fn decisions_on_a_database(looks: u64, value_kib: u32, each: impl Fn(u64, &mut Read)) -> Vec<Event> {
    let (_root, host) = host();
    host.replace("/sys/class/bdi/8:0/read_ahead_kb", &value_kib.to_string()).expect("written");
    let open = |k: u32| {
        let file = FileId { dev: DEV, inode: 1000 + u64::from(k) };
        Descriptor { file, cgroup: 1, process: 100, fd: k, mode: 0x1f, flags: 0, size_bytes: 0, value_kib }
    };
    let sight = all_seen();
    let mut observer = Database { sight, open: (0..=1000).map(open).collect(), advised: Rc::default() };
    let rule = Rule::default();
    let mut tuner = dry_run(&host, &rule, &mut observer);
    let (mut events, mut small) = (Vec::new(), HashSet::new());
    for look in 4..4 + looks {
        let read = |k: u64| {
            let brings = if small.contains(&file(k % 1000).inode) { 2 } else { 32 };
            Sample { file: file(k % 1000), ..random(Reader::Own, 1, brings) }
        };
        let mut samples: Read = (100 * look..100 * look + 100).map(read).collect();
        each(look, &mut samples);
        let told = tuner.tick(Duration::from_millis(250 * look), &samples).expect("a look");
        let named = |event: &Event| event.file.as_ref()?.strip_prefix("inode ")?.parse::<u64>().ok();
        small.extend(told.iter().filter(|event| event.to_kib == Some(8)).filter_map(named));
        events.extend(told);
    }
    events
}

fn file(k: u64) -> FileId {
    FileId { dev: DEV, inode: 1000 + k }
}

/// 4 MiB in order.
fn scan(k: u64) -> Sample {
    let counts = Counts { accesses: 64, pages: 1024, forward: 64, added: 1024, ..Counts::default() };
    Sample { file: file(k), counts, ..random(Reader::Own, 1, 32) }
}

#[test]
fn files_that_are_read_too_seldom_follow_their_group() {
    let events = decisions_on_a_database(60, 128, |_, _| {});
    assert_eq!(events.len(), 1000, "each file once, after two reads");
    assert!(events.iter().all(|e| (e.kind, e.to_kib) == ("decision", Some(8)) && e.confidence > 0.85), "{events:?}");
    assert!(events[0].why.starts_with("read at random like the other files of its group: random"), "{}", events[0].why);
    // The group's reads are random all the same: 500 pages, 100 jumps.
    let some = Counts { accesses: 25, pages: 400, forward: 25, added: 400, ..Counts::default() };
    let beside_a_scan = |until: u64| {
        let each = move |look, samples: &mut Read| {
            if look < until {
                samples.push(Sample { counts: some, ..scan(1000) });
            }
        };
        decisions_on_a_database(60, 128, each).len()
    };
    assert_eq!((beside_a_scan(100), beside_a_scan(4)), (0, 1000));
}

/// What is decided on file 1000, which is read at random all the time, and on eight others, which are read at random now
/// and then from the third second on. From look `from` on, file 1000 is mapped with advice, which maybe only a look
/// `soon` finds.
fn decisions_beside(from: u64, only_soon: bool) -> (Vec<Event>, Vec<Event>) {
    let (_root, host) = host();
    let open = |k: u64| Descriptor {
        file: file(k),
        cgroup: 1,
        process: 100,
        fd: u32::try_from(k).expect("small"),
        mode: 0x1f,
        flags: 0,
        size_bytes: 0,
        value_kib: 128,
    };
    let sight = all_seen();
    let advised = Rc::new(RefCell::new((Advised::new(), only_soon)));
    let mut observer = Database { sight, open: (0..8).chain([1000]).map(open).collect(), advised: advised.clone() };
    let rule = Rule::default();
    let mut tuner = dry_run(&host, &rule, &mut observer);
    let mut events = Vec::new();
    for look in 4..60 {
        if look == from {
            advised.borrow_mut().0.insert(file(1000), MapAdvice::Random);
        }
        let read = |k, n| Sample { file: file(k), ..random(Reader::Own, n, 32) };
        let samples = [read(1000, 200), read(look % 8, 1)];
        let samples = if look < 12 { &samples[..1] } else { &samples };
        events.extend(tuner.tick(Duration::from_millis(250 * look), samples).expect("a look"));
    }
    events.into_iter().partition(|event| event.file.as_deref() == Some("inode 2000"))
}

#[test]
fn a_file_that_is_mapped_with_advice_is_left_alone_and_says_nothing_of_others() {
    // The group's window in which the others follow: 200 demands of file 1000 in each look, or the others' own.
    let alone = |events: &[Event]| {
        let mut following = events.iter().filter(|event| event.kind == "decision").peekable();
        assert!(following.peek().is_some(), "{events:?}");
        following.all(|event| event.why.contains(", 4 demands"))
    };
    let (own, others) = decisions_beside(100, false);
    assert_eq!(own[0].kind, "decision");
    assert!(!alone(&others), "{others:?}");
    let (own, others) = decisions_beside(4, false);
    assert_eq!(kinds(&own), ["skip"], "{own:?}");
    assert!(own[0].why.starts_with("left alone, it is mapped with MADV_RANDOM"), "{}", own[0].why);
    assert!(alone(&others), "{others:?}");
    let (own, _) = decisions_beside(4, true);
    assert!(own.is_empty(), "{own:?}");
}

#[test]
fn a_file_that_is_mapped_with_advice_later_gets_its_value_back() {
    let (own, _) = decisions_beside(6, false);
    let mut told: Vec<_> = own.iter().map(|e| (e.kind, e.from_kib, e.to_kib)).collect();
    told.sort_unstable();
    let back = ("rollback", Some(8), Some(128));
    assert_eq!(told, [("decision", Some(128), Some(8)), back, ("skip", Some(128), Some(128))], "{own:?}");
    assert!(own.iter().any(|event| event.why == "it is mapped with MADV_RANDOM"), "{own:?}");
}

/// How many files followed, and how many then left.
fn followed_and_left(events: &[Event], value_kib: u32) -> (usize, usize) {
    let count = |kind, from, to| {
        let is_so = |e: &&Event| (e.kind, e.from_kib, e.to_kib) == (kind, Some(from), Some(to));
        events.iter().filter(is_so).count()
    };
    let found = (count("decision", value_kib, 8), count("rollback", 8, value_kib));
    assert_eq!(found.0 + found.1, events.len(), "{events:?}");
    found
}

#[test]
fn files_that_followed_get_their_value_back_where_they_cost_more() {
    let dear = |look: u64, samples: &mut Read| {
        if look >= 28 {
            samples.iter_mut().for_each(|sample| sample.counts.added = 64);
        }
    };
    assert_eq!(followed_and_left(&decisions_on_a_database(36, 512, dear), 512), (1000, 1000));
    assert_eq!(followed_and_left(&decisions_on_a_database(36, 512, |_, _| {}), 512), (1000, 0));
}

#[test]
fn all_that_followed_get_their_value_back_where_they_are_dumped_and_not_for_a_scan() {
    for (tables, left) in [(1, 0), (8, 1000)] {
        // Each file was last read more than two seconds ago when it is read again.
        let dump = |look: u64, samples: &mut Read| {
            if look == 30 {
                (0..tables).for_each(|k| samples[k] = scan(500 + k as u64));
            }
        };
        assert_eq!(followed_and_left(&decisions_on_a_database(60, 128, dump), 128), (1000, left), "{tables}");
    }
}

#[test]
fn files_that_followed_get_their_value_back_where_they_are_read_in_runs_or_in_order() {
    for (pages, back) in [(20, 1000), (200, 1000), (1, 0)] {
        let each = |look: u64, samples: &mut Read| {
            if look >= 30 {
                samples.iter_mut().for_each(|sample| {
                    let added = pages + 1;
                    sample.counts = Counts { accesses: pages, pages, forward: pages - 1, added, ..sample.counts };
                });
            }
        };
        let events = decisions_on_a_database(60, 128, each);
        let raised = events.iter().filter(|e| (e.from_kib, e.to_kib) == (Some(8), Some(128))).count();
        assert_eq!(raised, back, "{pages}: {events:?}");
    }
}

/// What is proposed at these seconds for a file that has 8 KiB and had 128, and whether it may be forgotten then.
fn proposed_for(mut track: Track, seconds: [u64; 2]) -> [(Vec<u32>, bool); 2] {
    track.governor.changed(Duration::ZERO, 8);
    let key = Key { file: file(0), cgroup: 1, advised: false };
    let mut tracks = HashMap::from([(key, track)]);
    let (_root, host) = host();
    let bdis = bdi::list(&host);
    seconds.map(|seconds| {
        let now = Duration::from_secs(seconds);
        let look = Look { now, since: now, demands: true, decider: &Rule::default(), bdis: &bdis };
        let found = Groups::default().turn(look, &mut tracks, &HashSet::new());
        let kib = found.into_iter().map(|(_, _, proposal)| proposal.to_kib).collect();
        (kib, Groups::may_forget(&tracks[&key], now))
    })
}

#[test]
fn a_file_that_follows_and_is_not_read_any_more_gets_its_value_back() {
    let mut track = Track::new(Duration::ZERO, 128);
    track.follower.follow_trial(0, Duration::ZERO);
    assert_eq!(proposed_for(track, [599, 600]), [(vec![], false), (vec![128], false)]);
}

#[test]
fn a_file_that_was_raised_with_its_group_follows_no_more() {
    let mut track = Track::new(Duration::ZERO, 128);
    track.follower.follow_trial(0, Duration::ZERO);
    track.governor.changed(Duration::ZERO, 128);
    let key = Key { file: file(0), cgroup: 1, advised: false };
    let mut tracks = HashMap::from([(key, track)]);
    let (_root, host) = host();
    let now = Duration::ZERO;
    let look = Look { now, since: now, demands: true, decider: &Rule::default(), bdis: &bdi::list(&host) };
    assert!(Groups::default().turn(look, &mut tracks, &HashSet::new()).is_empty());
    assert!(!tracks[&key].follower.follows() && Groups::may_forget(&tracks[&key], Duration::ZERO));
}

#[test]
fn a_file_whose_value_cannot_be_set_back_is_tried_again() {
    let mut track = Track::new(Duration::ZERO, 128);
    track.follower.leave("it cost more");
    track.refused(Duration::ZERO, Duration::from_secs(10));
    assert_eq!(proposed_for(track, [9, 10]), [(vec![], false), (vec![128], false)]);
    let mut track = Track::new(Duration::ZERO, 128);
    track.follower.leave("it cost more");
    assert_eq!(proposed_for(track, [1199, 1200]), [(vec![128], false), (vec![128], true)], "it may be closed");
}
