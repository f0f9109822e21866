// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the driver with simultaneous events, and with devices that refuse and cancel.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroUsize;

use super::*;
use crate::{
    CopyId, Error, Input, Observer, Output, Playback, Progress, RunOptions, RunResult, WriteMode, policy, run, run_on,
};
use linnet_sim::{EventQueue, FaultPlan, Faulty, Lawful, VirtualClock, Window};
use linnet_types::{Clock, Device, End, Ended, Request, Waited};

fn go<D: Device>(name: &str, devices: &mut [D], streams: &[&[IoRecord]], config: Config) -> RunResult {
    go_by(name, devices, streams, config, Playback::LOGGED)
}

fn go_by<D: Device>(
    name: &str,
    devices: &mut [D],
    streams: &[&[IoRecord]],
    config: Config,
    playback: Playback,
) -> RunResult {
    let learned = learned(&vec![None; devices.len()]);
    let policy = policy(name, &learned, &config).expect("a known name");
    let options = RunOptions { array: config, playback };
    run(devices, streams, &thresholds(&learned), policy, &options, &mut ()).expect("the run succeeds")
}

#[test]
fn what_ends_at_the_same_time_is_told_in_the_order_of_submits() {
    // The last two end at 1,100; the one to the second device was submitted first. The first sets the timer of limits.
    let streams: [&[IoRecord]; 2] = [&[record(0, Op::Read), record(1_050, Op::Read)], &[record(1_000, Op::Read)]];
    let result = go("baseline", &mut [steady(50, 1), steady(100, 1)], &streams, two_replicas());
    assert_eq!(result.reads.stream, [0, 1, 0]);
}

/// Notes what happens at a time.
struct At(Nanos, Vec<&'static str>);

impl Observer for At {
    fn input(&mut self, now: Nanos, input: &Input) {
        let what = match input {
            Input::Timer(_) => "timer",
            Input::Completed(_) => "completed",
            _ => "other",
        };
        self.1.extend((now == self.0).then_some(what));
    }
}

#[test]
fn what_happens_at_the_same_time_happens_in_the_order_of_submits_and_timers() {
    // One read's hedge is due when the other read completes.
    let learned = learned(&[None, None]);
    for (late, arrive_ns, order) in [(0, 100_000, ["timer", "completed"]), (1, 0, ["completed", "timer"])] {
        let (slow, other) = ([record(0, Op::Read)], [record(arrive_ns, Op::Read)]);
        let (mut devices, mut streams) = ([steady(2_000_000, 1), steady(300_000 - arrive_ns, 1)], [&slow[..], &other]);
        if late == 1 {
            devices.reverse();
            streams.reverse();
        }
        let (mut at, options) =
            (At(300_000, Vec::new()), RunOptions { array: two_replicas(), playback: Playback::default() });
        let policy = policy("hedge-p95", &learned, &options.array).expect("a known name");
        run(&mut devices, &streams, &thresholds(&learned), policy, &options, &mut at).expect("the run succeeds");
        // The other read's own hedge is due then, too, where both arrived at once.
        assert_eq!(at.1[..2], order, "{:?}", at.1);
    }
}

#[test]
fn the_hash_of_a_run_tells_times_and_devices() {
    let hash = |stream: usize, arrive_ns, latency_ns| {
        let mut streams = [&[][..]; 9];
        let read = [record(arrive_ns, Op::Read)];
        streams[stream] = &read;
        let config = Config { replicas: 1, ..Config::default() };
        go("baseline", &mut vec![steady(latency_ns, 1); 9], &streams, config).event_hash
    };
    let mut hashes: Vec<u64> = (0..9).map(|stream| hash(stream, 1_000, 80_000)).collect();
    assert_eq!(hash(0, 1_000, 80_000), hashes[0]);
    hashes.extend([hash(0, 1_001, 80_000), hash(0, 1_001, 79_999), hash(0, 1_000, 80_001)]);
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 12);
}

/// A device that refuses every n-th request, and cancels requests on demand.
struct Fickle {
    latency_ns: Nanos,
    refuses_one_in: u64,
    submits: u64,
    ends: EventQueue<Ended>,
    given_up: Vec<u64>,
}

fn fickle(latency_ns: Nanos, refuses_one_in: u64) -> Lawful<Fickle> {
    Lawful::new(Fickle { latency_ns, refuses_one_in, submits: 0, ends: EventQueue::new(), given_up: Vec::new() })
}

impl Device for Fickle {
    fn submit(&mut self, now: Nanos, token: u64, _request: &Request) {
        self.submits += 1;
        let refuses = self.submits.is_multiple_of(self.refuses_one_in);
        let (at_ns, end) = if refuses { (now, End::Revoked) } else { (now + self.latency_ns, End::Done) };
        self.ends.push(at_ns, Ended { token, at_ns, end });
    }

    fn next_due(&mut self) -> Option<Nanos> {
        self.ends.next_ns()
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
        while self.ends.next_ns().is_some_and(|at| at <= now)
            && let Some((_, one)) = self.ends.pop()
        {
            match self.given_up.iter().position(|&token| token == one.token) {
                // A cancelled request ended when it was cancelled.
                Some(at) if one.end != End::Cancelled => drop(self.given_up.swap_remove(at)),
                _ => out.push(one),
            }
        }
    }

    fn cancel(&mut self, now: Nanos, token: u64) {
        self.ends.push(now, Ended { token, at_ns: now, end: End::Cancelled });
        self.given_up.push(token);
    }
}

#[test]
fn what_a_device_refuses_goes_to_the_next() {
    let mut devices = [fickle(80_000, 3), fickle(200_000, 1 << 40)];
    let reads: Vec<IoRecord> = (0..9).map(|i| record(i * 1_000_000, Op::Read)).collect();
    let result = go("baseline", &mut devices, &[&reads], two_replicas());
    let refused = 15_000 + 200_000;
    assert_eq!(result.reads.latency_ns, [80_000, 80_000, refused].repeat(3));
    assert_eq!((result.counters.refusals, result.counters.revokes, result.log[1].len()), (3, 3, 3));
    assert_eq!(result.log[0].iter().filter(|one| one.latency_ns.is_none()).count(), 3);
    for device in devices {
        assert_eq!((device.inside(), device.finish()), (0, Ok(())));
    }
}

#[test]
fn a_device_that_can_cancel_is_asked_to() {
    let mut devices = [fickle(2_000_000, 1 << 40), fickle(80_000, 1 << 40)];
    let reads: Vec<IoRecord> = (0..5).map(|i| record(i * 3_000_000, Op::Read)).collect();
    let result = go("clone", &mut devices, &[&reads], two_replicas());
    assert_eq!(result.reads.latency_ns, [80_000; 5]);
    assert_eq!(result.counters.extra_io, 5);
    assert!(result.log[0].iter().all(|one| one.latency_ns.is_none()), "the losers are given up");
    assert!(result.end_ns < 13_000_000, "nothing waits for them: {}", result.end_ns);
    for device in devices {
        assert_eq!((device.inside(), device.finish()), (0, Ok(())));
    }
}

/// A device that asks to be polled for its own work: at this time, and at intervals after it.
struct Upkeep {
    own: Modelled<TestDevice>,
    at_ns: Nanos,
    every_ns: Nanos,
}

impl Device for Upkeep {
    fn submit(&mut self, now: Nanos, token: u64, request: &Request) {
        self.own.submit(now, token, request);
    }

    fn next_due(&mut self) -> Option<Nanos> {
        Some(self.own.next_due().map_or(self.at_ns, |due| due.min(self.at_ns)))
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Ended>) {
        self.at_ns = self.at_ns.max(now + self.every_ns);
        self.own.poll(now, out);
    }
}

#[test]
fn a_log_waits_for_answers_after_their_time_limit_and_for_nothing_else() {
    let config = Config { read_timeout_ns: 1_000_000, ..two_replicas() };
    let learned = learned(&[None, None]);
    // The second copy is submitted one limit and one failover after the first; its limit ends the read.
    for (log, until_ns) in [(true, 1_015_000 + 2_000_000), (false, 1_015_000 + 1_000_000)] {
        let policy = policy("baseline", &learned, &config).expect("a known name");
        let mut devices = [2_000_000, 2_000_000].map(|ns| Upkeep {
            own: steady(ns, 1),
            at_ns: 1_000_000_000,
            every_ns: 1_000_000_000,
        });
        let (mut clock, options) =
            (VirtualClock::new(), RunOptions { array: config, playback: Playback { log, ..Playback::default() } });
        let reads = [record(0, Op::Read)];
        let result = run_on(&mut clock, &mut devices, &[&reads], &thresholds(&learned), policy, &options, &mut ());
        let result = result.expect("the run succeeds");
        assert_eq!((result.end_ns, clock.now(), result.counters.timeouts), (2_015_000, until_ns, 2));
        assert!(result.log.iter().flatten().all(|one| one.latency_ns == Some(2_000_000)));
    }
}

/// Stops a run when it is first told of progress.
struct Impatient;

impl Observer for Impatient {
    fn progress(&mut self, _progress: Progress) -> bool {
        false
    }
}

#[test]
fn an_observer_is_asked_also_while_nothing_arrives() {
    let config = Config { replicas: 1, ..Config::default() };
    let learned = learned(&[None]);
    let reads = [record(0, Op::Read), record(1_000_000_000, Op::Read)];
    let policy = policy("baseline", &learned, &config).expect("a known name");
    let mut devices = [Upkeep { own: steady(80_000, 1), at_ns: 0, every_ns: 1_000 }];
    let options = RunOptions { array: config, playback: Playback::default() };
    let stopped = run(&mut devices, &[&reads], &thresholds(&learned), policy, &options, &mut Impatient);
    assert_eq!(stopped, Err(Error::Interrupted { done: 1, total: 2 }));
}

#[test]
fn streams_are_as_many_as_a_result_can_name() {
    let most = vec![&[][..]; usize::from(u16::MAX)];
    assert_eq!(go("baseline", &mut [steady(1, 1), steady(1, 1)], &most, two_replicas()).counters.reads, 0);
    let learned = learned(&[None, None]);
    let policy = policy("baseline", &learned, &two_replicas()).expect("a known name");
    let options = RunOptions { array: two_replicas(), playback: Playback::default() };
    let (mut devices, streams) = ([steady(1, 1), steady(1, 1)], vec![&[][..]; usize::from(u16::MAX) + 1]);
    let refused = run(&mut devices, &streams, &thresholds(&learned), policy, &options, &mut ());
    assert!(refused.expect_err("too many").to_string().contains("65535 streams"));
}

#[test]
fn what_arrives_in_the_warm_up_is_served_and_in_no_result() {
    // The tested device answers after 80 us, so the third read is still in flight when the warm-up ends.
    let stream: Vec<IoRecord> =
        (0..10).map(|n| record(n * 50_000, if n % 4 == 3 { Op::Write } else { Op::Read })).collect();
    let go = |warm_up_ns| {
        let playback = Playback { warm_up_ns, ..Playback::LOGGED };
        go_by("ewma-hedged", &mut [steady(80_000, 1), steady(80_000, 1)], &[&stream, &[]], two_replicas(), playback)
    };
    let (whole, part, none) = (go(0), go(150_001), go(450_001));
    assert_eq!((whole.reads.latency_ns.len(), whole.counters.reads, whole.counters.writes), (8, 8, 2));
    assert_eq!((part.counters.reads, part.counters.writes), (5, 1));
    assert_eq!(part.reads.arrive_ns, whole.reads.arrive_ns[3..]);
    assert_eq!(part.reads.latency_ns, whole.reads.latency_ns[3..]);
    assert_eq!((part.counters.submits, part.log.clone(), part.event_hash), (6, whole.log, whole.event_hash));
    assert_eq!((none.reads.latency_ns.len(), none.counters), (0, crate::Counters::default()));
}

/// What happens to the copies of each request.
#[derive(Default)]
struct Copies {
    tags: HashMap<CopyId, u64>,
    timed_out: HashSet<CopyId>,
    /// By tag: copies submitted, timed out, and answered after that.
    seen: BTreeMap<u64, [u64; 3]>,
}

impl Copies {
    fn count(&mut self, copy: CopyId, kind: usize) {
        self.seen.entry(self.tags[&copy]).or_default()[kind] += 1;
    }
}

impl Observer for Copies {
    fn input(&mut self, _now: Nanos, input: &Input) {
        if let &Input::Completed(copy) = input
            && self.timed_out.contains(&copy)
        {
            self.count(copy, 2);
        }
    }

    fn output(&mut self, _now: Nanos, output: &Output) {
        match *output {
            Output::Submit { copy, tag, .. } => {
                self.tags.insert(copy, tag);
                self.count(copy, 0);
            }
            Output::Cancel { copy, timed_out: true, .. } => {
                self.timed_out.insert(copy);
                self.count(copy, 1);
            }
            _ => {}
        }
    }
}

#[test]
fn what_a_backlog_of_the_warm_up_does_later_is_not_counted() {
    // Only the first device answers within the time limit. Reads are revoked, given up, hedged and answered while others
    // arrive.
    let stream: Vec<IoRecord> =
        (0..80).map(|n| record(n * 50_000, if n % 5 == 4 { Op::Write } else { Op::Read })).collect();
    let config = Config { replicas: 3, read_timeout_ns: 300_000, write_mode: WriteMode::All, ..Config::default() };
    let learned = learned(&vec![Some(revokes_always()); 3]);
    for name in ["linnos+hl", "clone", "ewma-hedged"] {
        let mut all = crate::Counters::default();
        for first in 0..80 {
            let playback = Playback { warm_up_ns: first * 50_000, ..Playback::LOGGED };
            let options = RunOptions { array: config, playback };
            let policy = policy(name, &learned, &config).expect("a known name");
            let (mut devices, mut copies) =
                ([60_000, 400_000, 400_000].map(|ns| steady(ns, 400_000)), Copies::default());
            let c = run(&mut devices, &[&stream], &thresholds(&learned), policy, &options, &mut copies)
                .expect("the run succeeds")
                .counters;
            let seen = copies.seen.range(first..).fold([0; 3], |sum, (_, own)| [0, 1, 2].map(|i| sum[i] + own[i]));
            assert_eq!([c.submits, c.timeouts, c.late], seen, "{name} from {first}");
            assert_eq!((c.reads + c.writes, c.extra_writes), (80 - first, 2 * c.writes));
            assert_eq!(c.submits, c.reads + c.writes + c.extra_io + c.extra_writes);
            assert!(c.revokes <= 2 * c.reads && c.hedges.max(c.reads_failed) <= c.reads, "{c:?}");
            if first == 0 {
                all = c;
            }
        }
        assert!(all.timeouts.min(all.late).min(all.extra_io) > 0, "{name}: {all:?}");
        assert_eq!(all.revokes > 0, name == "linnos+hl", "{all:?}");
    }
}

#[test]
fn in_a_closed_loop_so_many_requests_are_in_flight_in_the_order_of_time() {
    // The streams' times tell which is next, and nothing else.
    let of_times = |times: &[Nanos]| -> Vec<IoRecord> { times.iter().map(|&at_ns| record(at_ns, Op::Read)).collect() };
    let streams = [of_times(&[0, 20, 30]), of_times(&[10, 40])];
    let go = |depth, warm_up_ns| {
        let playback = Playback { closed_loop: NonZeroUsize::new(depth), warm_up_ns, log: true };
        let streams: Vec<&[IoRecord]> = streams.iter().map(Vec::as_slice).collect();
        go_by("baseline", &mut [steady(100, 1), steady(100, 1)], &streams, two_replicas(), playback)
    };
    let times = |result: &RunResult| -> Vec<Vec<Nanos>> {
        result.log.iter().map(|log| log.iter().map(|one| one.arrive_ns).collect()).collect()
    };
    let one = go(1, 0);
    assert_eq!(times(&one), [vec![0, 200, 300], vec![100, 400]]);
    assert_eq!((one.reads.latency_ns.clone(), one.measured_from_ns, one.end_ns), (vec![100; 5], 0, 500));
    assert_eq!(times(&go(2, 0)), [vec![0, 100, 100], vec![0, 200]]);
    assert_eq!(times(&go(9, 0)), [vec![0; 3], vec![0; 2]]);
    // What is measured begins with a record, whose request arrives when one before it has ended.
    let later = go(1, 30);
    assert_eq!((later.reads.arrive_ns, later.counters.reads), (vec![300, 400], 2));
    assert_eq!((later.measured_from_ns, later.event_hash), (300, one.event_hash));
}

/// A clock that wakes the driver a microsecond late, for what is due in the first 100 us.
struct Late(VirtualClock);

impl Clock for Late {
    fn now(&mut self) -> Nanos {
        self.0.now()
    }

    fn wait(&mut self, due: Option<Nanos>) -> Waited {
        self.0.wait(due.map(|due| if due < 100_000 { due + 1_000 } else { due }))
    }
}

#[test]
fn a_late_arrival_counts_as_latency_and_a_late_look_at_the_answer_does_not() {
    let go = |gone: Vec<Window>, read_timeout_ns| {
        let config = Config { replicas: 1, read_timeout_ns, ..Config::default() };
        let mut devices = [Faulty::new(steady(80_000, 1), FaultPlan { gone, ..FaultPlan::none() }, 0)];
        let (learned, reads) = (learned(&[None]), [5_000, 95_000, 300_000].map(|at_ns| record(at_ns, Op::Read)));
        let policy = policy("baseline", &learned, &config).expect("a known name");
        let options = RunOptions { array: config, playback: Playback::LOGGED };
        let mut clock = Late(VirtualClock::new());
        run_on(&mut clock, &mut devices, &[&reads], &thresholds(&learned), policy, &options, &mut ())
            .expect("the run succeeds")
    };
    let result = go(Vec::new(), 1_000_000);
    assert_eq!(result.reads.arrive_ns, [5_000, 95_000, 300_000]);
    assert_eq!(result.reads.latency_ns, [81_000, 81_000, 80_000]);
    let log: Vec<_> = result.log[0].iter().map(|one| (one.arrive_ns, one.latency_ns)).collect();
    assert_eq!(log, [6_000, 96_000, 300_000].map(|at_ns| (at_ns, Some(80_000))), "as the device saw them");
    // A device that is gone fails at once. The driver takes a read up and sees its failure, each a microsecond late.
    let gone = Window { start_ns: 0, end_ns: 1_000_000 };
    let result = go(vec![gone], 1_500);
    assert_eq!(result.reads.arrive_ns, [5_000, 95_000, 300_000]);
    assert_eq!(result.reads.latency_ns, [2_000, 2_000, 1_500], "at least a copy's time limit");
}
