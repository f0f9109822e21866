// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies that look at a few replicas drawn at random.
//!
//! - **power-of-two**: of two replicas drawn at random, the one with fewer I/Os in flight (Mitzenmacher, "The power of two
//!   choices in randomized load balancing", IEEE TPDS 2001).
//! - **prequal**: Prequal (Wydrowski, Kleinberg, Rumble, Archer, "Load is not what you should balance: introducing
//!   Prequal", NSDI 2024). Each read probes three replicas drawn at random for their requests in flight (RIF) and for
//!   their latency, the median of recent answers at about that RIF. A pool keeps the last 16 probes. By the hot-cold
//!   lexicographic rule (section 4) a probe is hot if its RIF exceeds the quantile 2^-0.25 = 0.84 of the RIFs of recent
//!   probes. A read goes to the cold probe with the lowest latency; if all are hot, to the one with the lowest RIF. A
//!   probe is used once, and after each read the worst probe leaves the pool, which alternates between the oldest and
//!   the hottest or slowest. A probe older than a second leaves too.
//!
//!   Where we differ: drives answer no probes, so a probe reads the host's own counts and samples of the replica, and
//!   costs no I/O. With an answer at once a probe is not late, which is to the policy's advantage. With fewer than two
//!   probes in the pool, Prequal draws a replica at random; so do we.

use std::collections::VecDeque;

use crate::{Ask, Choice, Completion, Policy, Submit};
use linnet_core::{Budget, REPLICAS_MAX};
use linnet_sim::Chance;
use linnet_types::Nanos;

/// Two different candidates drawn at random; the same one twice if there is only one.
fn two(ask: &Ask<'_>, chance: &mut Chance) -> [usize; 2] {
    let count = ask.count() as u64;
    let first = chance.below(count);
    let second = if count < 2 { first } else { (first + 1 + chance.below(count - 1)) % count };
    [first, second].map(|k| ask.candidates().nth(k as usize).unwrap_or(ask.next))
}

pub(crate) struct PowerOfTwo;

impl Policy for PowerOfTwo {
    fn name(&self) -> &str {
        "power-of-two"
    }

    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let [a, b] = two(ask, chance);
        let in_flight = |device: usize| ask.devices[device].in_flight();
        Choice::Submit(Submit::to(if in_flight(b) < in_flight(a) { b } else { a }))
    }
}

/// Probes of each read, in the pool, and their longest life (Prequal, section 5).
const PROBES: usize = 3;
const POOL: usize = 16;
const PROBE_AGE_NS: Nanos = 1_000_000_000;
/// The quantile of RIFs above which a probe is hot.
const HOT: f64 = 0.84;
/// RIFs of recent probes that the quantile is taken of.
const RIFS: usize = 128;
/// Answers of a replica that its latency is taken of, and how far their RIF may be from the current one.
const ANSWERS: usize = 64;
const NEAR: u32 = 2;

/// Copies as many as fit, and returns their number.
fn fill<T>(array: &mut [T], from: impl Iterator<Item = T>) -> usize {
    array.iter_mut().zip(from).map(|(slot, value)| *slot = value).count()
}

/// The upper median of at most [`ANSWERS`] latencies.
fn median(latencies_ns: impl Iterator<Item = Nanos>) -> Option<Nanos> {
    let mut sorted = [0; ANSWERS];
    let count = fill(&mut sorted, latencies_ns);
    (count > 0).then(|| *sorted[..count].select_nth_unstable(count / 2).1)
}

#[derive(Clone, Copy)]
struct Probe {
    device: usize,
    at_ns: Nanos,
    rif: u32,
    latency_ns: Nanos,
}

pub(crate) struct Prequal {
    /// The oldest first.
    pool: VecDeque<Probe>,
    rifs: VecDeque<u32>,
    /// RIF at submission and latency of the last answers of each replica.
    answers: Vec<VecDeque<(u32, Nanos)>>,
    /// The next probe to leave the pool is the oldest one; otherwise the worst.
    oldest_leaves: bool,
}

impl Prequal {
    pub(crate) fn new(devices: usize) -> Prequal {
        Prequal {
            pool: VecDeque::with_capacity(POOL + PROBES),
            rifs: VecDeque::with_capacity(RIFS + PROBES),
            answers: vec![VecDeque::with_capacity(ANSWERS + 1); devices],
            oldest_leaves: false,
        }
    }

    /// The median latency of recent answers near this RIF, or of all if none is near; 0 without answers.
    fn latency_ns(&self, device: usize, rif: u32) -> Nanos {
        let answers = self.answers[device].iter();
        let near =
            median(answers.clone().filter(|(at, _)| at.abs_diff(rif) <= NEAR).map(|(_, latency_ns)| *latency_ns));
        near.or_else(|| median(answers.map(|(_, latency_ns)| *latency_ns))).unwrap_or(0)
    }

    fn probe(&mut self, ask: &Ask<'_>, chance: &mut Chance) {
        let mut devices = [0; REPLICAS_MAX];
        let mut left = 0;
        for device in ask.candidates() {
            devices[left] = device;
            left += 1;
        }
        for _ in 0..PROBES.min(left) {
            let drawn = chance.below(left as u64) as usize;
            let device = devices[drawn];
            left -= 1;
            devices[drawn] = devices[left];
            let rif = ask.devices[device].in_flight();
            self.pool.push_back(Probe { device, at_ns: ask.now_ns, rif, latency_ns: self.latency_ns(device, rif) });
            self.rifs.push_back(rif);
        }
        self.rifs.drain(..self.rifs.len().saturating_sub(RIFS));
        self.pool.drain(..self.pool.len().saturating_sub(POOL));
        while self.pool.front().is_some_and(|probe| ask.now_ns - probe.at_ns > PROBE_AGE_NS) {
            self.pool.pop_front();
        }
    }

    /// The RIF above which a probe is hot.
    fn hot(&self) -> u32 {
        let mut rifs = [0; RIFS];
        let count = fill(&mut rifs, self.rifs.iter().copied());
        let rank = (HOT * count as f64) as usize;
        if count == 0 { u32::MAX } else { *rifs[..count].select_nth_unstable(rank).1 }
    }

    /// Cold probes first, by latency; then hot ones, by RIF. The later of equal probes is preferred.
    fn order(&self, hot: u32) -> impl Fn(&(usize, &Probe)) -> (bool, Nanos, usize) {
        move |(place, probe)| {
            let is_hot = probe.rif > hot;
            (is_hot, if is_hot { probe.rif.into() } else { probe.latency_ns }, usize::MAX - place)
        }
    }

    fn take_best(&mut self, ask: &Ask<'_>) -> Option<usize> {
        let order = self.order(self.hot());
        let usable = self.pool.iter().enumerate().filter(|(_, probe)| ask.candidates().any(|d| d == probe.device));
        let place = usable.min_by_key(order).map(|(place, _)| place)?;
        self.pool.remove(place).map(|probe| probe.device)
    }

    fn remove_one(&mut self) {
        self.oldest_leaves = !self.oldest_leaves;
        if self.oldest_leaves {
            self.pool.pop_front();
        } else if let Some((place, _)) = self.pool.iter().enumerate().max_by_key(self.order(self.hot())) {
            self.pool.remove(place);
        }
    }
}

impl Policy for Prequal {
    fn name(&self) -> &str {
        "prequal"
    }

    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        self.probe(ask, chance);
        let chosen = if self.pool.len() < 2 { None } else { self.take_best(ask) };
        self.remove_one();
        Choice::Submit(Submit::to(chosen.unwrap_or_else(|| two(ask, chance)[0])))
    }

    fn completed(&mut self, done: &Completion) {
        if !done.op.is_read() {
            return;
        }
        let answers = &mut self.answers[done.device];
        answers.push_back((done.in_flight, done.latency_ns));
        if answers.len() > ANSWERS {
            answers.pop_front();
        }
    }
}
