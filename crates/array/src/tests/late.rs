// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests when reads are late where all have one hedge delay, and what moves it.

use super::inputs::{READ, submits, timers};
use super::*;
use crate::{Array, CopyId, Output, TimerId};
use linnet_types::{LatencyModel, Outcome};
use std::collections::BTreeSet;

const ONE_DELAY: [&str; 3] = ["linnet-best", "ewma-hedged", "linnet-expected"];

/// Drives whose hedge delay begins at this time.
fn delayed(latency_ns_p95: Nanos) -> Vec<DeviceModel> {
    let thresholds = Thresholds { latency_ns_p95, ..test_thresholds() };
    vec![DeviceModel { thresholds, ..DeviceModel::default() }; 3]
}

/// An array of three drives whose timers expire in time.
struct Timed {
    array: Array,
    timers: BTreeSet<(Nanos, TimerId)>,
    /// Copies of each read, the first one first.
    copies: Vec<Vec<CopyId>>,
}

impl Timed {
    fn new(name: &str, latency_ns_p95: Nanos) -> Timed {
        Timed::with(name, latency_ns_p95, Config::default())
    }

    fn with(name: &str, latency_ns_p95: Nanos, config: Config) -> Timed {
        let learned = delayed(latency_ns_p95);
        let policy = policy(name, &learned, &config).expect("a known name");
        let array = Array::new(config, &thresholds(&learned), policy).expect("settings within their ranges");
        Timed { array, timers: BTreeSet::new(), copies: Vec::new() }
    }

    fn carry_out(&mut self, out: &[Output]) {
        self.timers.extend(timers(out));
        for output in out {
            if let Output::Submit { tag, copy, .. } = *output {
                self.copies[tag as usize].push(copy);
            }
        }
    }

    /// Lets all timers until this time expire.
    fn wait(&mut self, until_ns: Nanos) {
        while let Some(&(at_ns, timer)) = self.timers.first().filter(|(at_ns, _)| *at_ns <= until_ns) {
            self.timers.pop_first();
            let mut out = Vec::new();
            self.array.timer(at_ns, timer, &(), &mut out);
            self.carry_out(&out);
        }
    }

    fn send(&mut self, now: Nanos) -> usize {
        self.send_one(now, &READ)
    }

    fn send_one(&mut self, now: Nanos, request: &Request) -> usize {
        let (read, mut out) = (self.copies.len(), Vec::new());
        self.copies.push(Vec::new());
        self.array.arrive(now, read as u64, 0, request, &(), &mut out);
        self.carry_out(&out);
        read
    }

    fn answer(&mut self, now: Nanos, read: usize, copy: usize) {
        let mut out = Vec::new();
        self.array.completed(now, self.copies[read][copy], &mut out);
        self.carry_out(&out);
    }

    fn delay_ns(&self) -> Nanos {
        self.array.policy().hedge_due(0).expect("all reads have one delay")
    }

    /// Reads that are answered at once, which earn hedges. Returns a time at which no timer is set for any of them.
    fn earn(&mut self) -> Nanos {
        for i in 0..200 {
            self.wait(i * 1_000_000);
            let read = self.send(i * 1_000_000);
            self.answer(i * 1_000_000, read, 0);
        }
        self.wait(201_000_000);
        201_000_000
    }
}

/// Independent answers to which reads are late, and when, as the kernel's target gives them (`kernel/stub/hedges-late.c`),
/// at four percentages: the file begins with that of the default.
#[test]
fn reads_in_flight_together_are_late_as_in_the_target() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/late.txt");
    let text = std::fs::read_to_string(path).expect("the file is there");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let hex = |word: &str| u64::from_str_radix(word, 16).expect("hex");
    for name in ONE_DELAY {
        let mut percents = Vec::new();
        for part in lines.chunk_by(|_, next| !next.starts_with("hedge")) {
            let percent = part[0].strip_prefix("hedge ").map_or(2, hex);
            percents.push(percent);
            let hedges = Rate { per_million: 10_000 * percent as u32, ..Config::default().settings.hedges };
            let config = Config { settings: Settings { hedges, ..Config::default().settings }, ..Config::default() };
            agrees_with(Timed::with(name, 10_000_000, config), part, hex);
        }
        assert_eq!(percents, [2, 7, 34, 49], "{name}");
    }
}

fn agrees_with(mut timed: Timed, lines: &[&str], hex: impl Fn(&str) -> u64) {
    let mut hedges = 0;
    for line in lines.iter().filter(|line| !line.starts_with("hedge")) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| hex(words[at]);
        let (at_ns, read) = (number(1), number(2) as usize);
        timed.wait(at_ns);
        match words[0] {
            "send" => assert_eq!(timed.send(at_ns), read),
            "answer" => timed.answer(at_ns, read, number(3) as usize),
            _ => {
                hedges += number(3);
                assert_eq!(timed.copies[read].len() as u64, 1 + number(3), "{line}");
            }
        }
        if words[0] != "send" {
            assert_eq!(timed.delay_ns(), number(5), "{line}");
        }
    }
    assert_eq!((timed.array.counters().hedges, timed.array.live()), (hedges, 0));
    assert!(hedges > 5);
}

#[test]
fn a_late_read_lengthens_the_delay_once_and_its_answers_do_not_shorten_it() {
    for (name, winner) in ONE_DELAY.into_iter().flat_map(|name| [(name, 0), (name, 1)]) {
        let mut timed = Timed::new(name, 1_000_000);
        let now = timed.earn();
        let (before_ns, read) = (timed.delay_ns(), timed.send(now));
        timed.wait(now + before_ns - 1);
        assert_eq!(timed.copies[read].len(), 1, "{name}: it is not late yet");
        timed.wait(now + before_ns);
        assert_eq!(timed.copies[read].len(), 2, "{name}: it is late");
        // Both copies answer within the longer delay.
        timed.answer(now + before_ns + 1, read, winner);
        timed.answer(now + before_ns + 2, read, 1 - winner);
        assert_eq!(timed.delay_ns(), before_ns + (before_ns * 49).div_ceil(1000), "{name}");
        let longer_ns = timed.delay_ns();
        let read = timed.send(2 * now + before_ns);
        timed.answer(2 * now + before_ns + longer_ns, read, 0);
        assert_eq!(timed.delay_ns(), longer_ns - longer_ns / 1000, "{name}: one in time shortens it once");
    }
}

#[test]
fn a_read_is_late_by_the_delay_of_that_time() {
    let mut timed = Timed::new("ewma-hedged", 1_000_000);
    let now = timed.earn();
    let delay_ns = timed.delay_ns();
    let read = [timed.send(now), timed.send(now)];
    timed.wait(now + delay_ns);
    assert_eq!(read.map(|read| timed.copies[read].len()), [2, 1]);
    let longer_ns = timed.delay_ns();
    timed.wait(now + longer_ns - 1);
    assert_eq!(timed.copies[read[1]].len(), 1, "the first has lengthened the delay");
    timed.wait(now + longer_ns);
    assert_eq!(timed.copies[read[1]].len(), 2);
}

#[test]
fn a_read_above_the_size_is_not_hedged_and_moves_no_delay() {
    for name in ONE_DELAY {
        for (hedge_bytes_max, copies) in [(READ.size_bytes - 1, 1), (READ.size_bytes, 2)] {
            let mut timed = Timed::with(name, 1_000_000, Config { hedge_bytes_max, ..Config::default() });
            let now = timed.earn();
            let (delay_ns, read) = (timed.delay_ns(), timed.send(now));
            timed.wait(now + delay_ns);
            assert_eq!(timed.copies[read].len(), copies, "{name}, {hedge_bytes_max}");
            assert_eq!(timed.delay_ns() == delay_ns, copies == 1, "{name}, {hedge_bytes_max}");
        }
    }
}

#[test]
fn a_copy_that_takes_the_place_of_a_lost_one_waits_from_its_own_submit() {
    let mut timed = Timed::new("ewma-hedged", 1_000_000);
    let now = timed.earn();
    let (delay_ns, read) = (timed.delay_ns(), timed.send(now));
    let mut out = Vec::new();
    timed.array.failed(now + 1, timed.copies[read][0], &mut out);
    timed.carry_out(&out);
    timed.wait(now + delay_ns);
    let sent_ns = now + 1 + Config::default().failover_ns;
    assert_eq!((timed.copies[read].len(), timed.delay_ns()), (2, delay_ns), "that copy is gone");
    timed.wait(sent_ns + delay_ns - 1);
    assert_eq!(timed.copies[read].len(), 2);
    timed.wait(sent_ns + delay_ns);
    assert_eq!(timed.copies[read].len(), 3, "it is late");
}

#[test]
fn a_delay_without_bounds_sets_a_timer() {
    for (name, at_ns) in ONE_DELAY.map(|name| (name, 1 << 40)).into_iter().chain([("hedge-p95", Nanos::MAX)]) {
        let mut timed = Timed::new(name, Nanos::MAX);
        let (now, mut out) = (Nanos::MAX - (1 << 41), Vec::new());
        timed.copies.push(Vec::new());
        timed.array.arrive(now, 0, 0, &READ, &(), &mut out);
        assert_eq!(submits(&out).len(), 1);
        assert!(timers(&out).iter().any(|&(at, _)| at == now.saturating_add(at_ns)), "{name}: {out:?}");
    }
}

/// A device that serves one read after the other, each for 100 us on average.
struct Queue {
    free_ns: Nanos,
    chance: Chance,
}

impl LatencyModel for Queue {
    fn submit(&mut self, now: Nanos, _request: &Request) -> Outcome {
        self.free_ns = self.free_ns.max(now) + self.chance.exponential(100_000.0) as Nanos;
        Outcome::Done(self.free_ns)
    }
}

/// A burst must not lengthen the delay beyond the latencies that its reads had, after which no read is hedged for long.
#[test]
fn after_a_burst_reads_are_hedged_as_before() {
    let quiet = (0..10_000).map(|i| record(2_000_000_000 + i * 1_000_000, Op::Read));
    let records: Vec<IoRecord> = (0..1_000).map(|_| record(1_000, Op::Read)).chain(quiet).collect();
    for name in ONE_DELAY {
        let learned = delayed(300_000);
        let config = Config::default();
        let policy = policy(name, &learned, &config).expect("a known name");
        let playback = Playback { warm_up_ns: 7_000_000_000, ..Playback::default() };
        let options = RunOptions { array: config, playback };
        let mut devices = [1, 2, 3].map(|seed| Modelled::new(Queue { free_ns: 0, chance: Chance::new(seed) }));
        let result = run(&mut devices, &[&records], &thresholds(&learned), policy, &options, &mut ());
        let c = result.expect("the run succeeds").counters;
        assert_eq!(c.reads, 5_000);
        assert!((75..=125).contains(&c.hedges), "{name}: {} of {} reads are hedged", c.hedges, c.reads);
    }
}

#[test]
fn only_reads_that_may_be_hedged_earn_hedges() {
    let large = Request::new(Op::Read, 0, 2 * READ.size_bytes);
    for name in ONE_DELAY {
        for (earning, copies) in [(READ, 2), (large, 1)] {
            let config = Config { hedge_bytes_max: READ.size_bytes, ..Config::default() };
            let mut timed = Timed::with(name, 10_000_000, config);
            for i in 0..200 {
                let read = timed.send_one(i * 1_000_000, &earning);
                timed.answer(i * 1_000_000, read, 0);
            }
            timed.wait(201_000_000);
            let read = timed.send(201_000_000);
            timed.wait(1_000_000_000);
            assert_eq!(timed.copies[read].len(), copies, "{name}");
        }
    }
}
