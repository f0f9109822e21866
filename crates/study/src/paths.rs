// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a path selector may score its paths: one policy whose parts are switches, so that each part's worth is seen.
//!
//! Kernel developers disagree about these parts (NVMe's `latency` policy under review, dm's historical-service-time,
//! md's read balance): whether each CPU keeps averages of its own, whether large and small I/Os share an average, how
//! many I/Os are measured, whether the score counts I/Os in flight, and how old the score may be when it is used.
//!
//! All variants average read latencies with weight 1/8, treat a path without an average as the fastest, and send a read
//! to an idle path that has answered none for a second, so that a path can show that it has recovered. Counts of I/Os
//! in flight are shared by all CPUs, as they are in NVMe's queue-depth policy.

use linnet_array::{Ask, Choice, Completion, Policy, Submit};
use linnet_core::Budget;
use linnet_sim::Chance;
use linnet_types::Nanos;

/// Share of a new latency in an average: one part in this many.
const WEIGHT: f64 = 8.0;
/// An idle path that has answered no read for this long is tried.
const SILENCE_NS: Nanos = 1_000_000_000;
/// Credits of all paths together, if paths take turns by shares.
const CREDITS: f64 = 64.0;
/// Upper bounds of the size classes, but for the last, which has none.
const CLASS_BYTES: [u32; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// The parts of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOptions {
    /// CPUs, each with averages of its own; 1 means shared averages. A read is on any of them with the same
    /// probability.
    pub cpus: usize,
    /// One average for each of five size classes, instead of one for all.
    pub size_classes: bool,
    /// One read in so many enters an average.
    pub sample_every: u32,
    /// The score is the average x (I/Os in flight + 1), instead of the average.
    pub in_flight: bool,
    /// Paths get reads in proportion to the inverse of their average, instead of all to the path with the lowest score.
    pub shares: bool,
    /// How often the averages are copied to where decisions read them; 0 means always current.
    pub refresh_ns: Nanos,
}

impl Default for PathOptions {
    /// Shared averages of every read, always current, weighted by I/Os in flight.
    fn default() -> Self {
        PathOptions { cpus: 1, size_classes: false, sample_every: 1, in_flight: true, shares: false, refresh_ns: 0 }
    }
}

/// Averages of one path on one CPU, ns; 0 is unknown.
type Averages = [f64; CLASS_BYTES.len() + 1];

#[derive(Clone, Copy, Default)]
struct Seen {
    averages: Averages,
    /// What decisions read.
    published: Averages,
    since_sample: u32,
    credits: u32,
}

/// The policy.
pub struct PathScores {
    options: PathOptions,
    /// By CPU, then by device.
    seen: Vec<Vec<Seen>>,
    last_answer_ns: Vec<Nanos>,
    next_refresh_ns: Nanos,
    /// The CPUs of completions. Which CPU measures a read does not depend on the read.
    of_completion: Chance,
    turn: usize,
}

impl PathScores {
    /// For this many devices. Zero CPUs count as one, and so does a sample of every zeroth read.
    pub fn new(options: PathOptions, devices: usize, seed: u64) -> PathScores {
        let options = PathOptions { cpus: options.cpus.max(1), sample_every: options.sample_every.max(1), ..options };
        PathScores {
            options,
            seen: vec![vec![Seen::default(); devices]; options.cpus],
            last_answer_ns: vec![0; devices],
            next_refresh_ns: 0,
            of_completion: Chance::new(seed),
            turn: 0,
        }
    }

    fn class(&self, size_bytes: u32) -> usize {
        if self.options.size_classes { CLASS_BYTES.iter().filter(|&&most| size_bytes > most).count() } else { 0 }
    }

    fn refresh(&mut self, now_ns: Nanos) {
        if now_ns < self.next_refresh_ns {
            return;
        }
        self.next_refresh_ns = now_ns + self.options.refresh_ns;
        for seen in self.seen.iter_mut().flatten() {
            seen.published = seen.averages;
        }
    }

    fn by_shares(&mut self, ask: &Ask<'_>, cpu: usize, class: usize) -> usize {
        let seen = &mut self.seen[cpu];
        if ask.candidates().all(|device| seen[device].credits == 0) {
            let unknown = ask.candidates().any(|device| seen[device].published[class] == 0.0);
            let share = |seen: &Seen| if unknown { 1.0 } else { 1.0 / seen.published[class] };
            let total: f64 = ask.candidates().map(|device| share(&seen[device])).sum();
            for device in ask.candidates() {
                seen[device].credits = ((CREDITS * share(&seen[device]) / total) as u32).max(1);
            }
        }
        let chosen = ask.least(|device| (seen[device].credits == 0, (device + seen.len() - self.turn) % seen.len()));
        seen[chosen].credits = seen[chosen].credits.saturating_sub(1);
        chosen
    }
}

impl Policy for PathScores {
    fn name(&self) -> &str {
        "path-scores"
    }

    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        self.refresh(ask.now_ns);
        let silent = |device: usize| ask.now_ns.saturating_sub(self.last_answer_ns[device]) > SILENCE_NS;
        if let Some(device) = ask.candidates().find(|&device| ask.devices[device].in_flight() == 0 && silent(device)) {
            return Choice::Submit(Submit { probe: true, ..Submit::to(device) });
        }
        let cpu = if self.options.cpus > 1 { chance.below(self.options.cpus as u64) as usize } else { 0 };
        let class = self.class(ask.request.size_bytes);
        let chosen = if self.options.shares {
            self.by_shares(ask, cpu, class)
        } else {
            let seen = &self.seen[cpu];
            ask.least(|device| {
                let weight = if self.options.in_flight { ask.devices[device].in_flight() + 1 } else { 1 };
                (seen[device].published[class] * f64::from(weight), (device + seen.len() - self.turn) % seen.len())
            })
        };
        self.turn = (chosen + 1) % self.last_answer_ns.len();
        Choice::Submit(Submit::to(chosen))
    }

    fn completed(&mut self, done: &Completion) {
        if !done.op.is_read() {
            return;
        }
        self.last_answer_ns[done.device] = done.now_ns;
        let cpu = if self.options.cpus > 1 { self.of_completion.below(self.options.cpus as u64) as usize } else { 0 };
        let class = self.class(done.size_bytes);
        let seen = &mut self.seen[cpu][done.device];
        seen.since_sample += 1;
        let average = &mut seen.averages[class];
        if *average > 0.0 && seen.since_sample < self.options.sample_every {
            return;
        }
        seen.since_sample = 0;
        let latency_ns = done.latency_ns as f64;
        *average = if *average > 0.0 { *average + (latency_ns - *average) / WEIGHT } else { latency_ns };
        // The first average is known at once. Scores of nothing would be equal, and spread reads blindly for a period.
        if seen.published[class] == 0.0 {
            seen.published[class] = *average;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_types::Op;

    fn answered(policy: &mut PathScores, device: usize, size_bytes: u32, latency_ns: Nanos) {
        let done = Completion { now_ns: 1, device, op: Op::Read, size_bytes, latency_ns, in_flight: 0, in_time: false };
        policy.completed(&done);
    }

    #[test]
    fn classes_samples_and_writes() {
        let options = PathOptions { size_classes: true, sample_every: 2, ..PathOptions::default() };
        let mut policy = PathScores::new(options, 2, 0);
        answered(&mut policy, 1, 4 << 10, 800);
        answered(&mut policy, 1, 512 << 10, 8_000);
        assert_eq!(policy.seen[0][1].averages, [800.0, 0.0, 0.0, 0.0, 8_000.0]);
        answered(&mut policy, 1, 4 << 10, 1_600);
        assert_eq!(policy.seen[0][1].averages[0], 800.0, "the second read of two enters");
        answered(&mut policy, 1, 4 << 10, 1_600);
        assert_eq!(policy.seen[0][1].averages[0], 900.0);
        let write = Completion {
            now_ns: 1,
            device: 0,
            op: Op::Write,
            size_bytes: 1,
            latency_ns: 5,
            in_flight: 0,
            in_time: false,
        };
        policy.completed(&write);
        assert_eq!(policy.seen[0][0].averages, [0.0; 5]);
    }

    #[test]
    fn decisions_read_what_was_published() {
        let mut policy = PathScores::new(PathOptions { refresh_ns: 100, ..PathOptions::default() }, 1, 0);
        policy.refresh(0);
        answered(&mut policy, 0, 4_096, 700);
        assert_eq!(policy.seen[0][0].published[0], 700.0, "the first average is known at once");
        answered(&mut policy, 0, 4_096, 1_500);
        policy.refresh(99);
        assert_eq!(policy.seen[0][0].published[0], 700.0);
        policy.refresh(100);
        assert_eq!(policy.seen[0][0].published[0], 800.0);
    }

    #[test]
    fn each_cpu_has_its_own_averages() {
        let mut policy = PathScores::new(PathOptions { cpus: 4, ..PathOptions::default() }, 1, 0);
        for _ in 0..64 {
            answered(&mut policy, 0, 4_096, 700);
        }
        assert!(policy.seen.iter().all(|cpu| cpu[0].averages[0] == 700.0));
    }
}
