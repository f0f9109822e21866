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
//!   probes in the pool, Prequal draws a replica at random; so do we. There are far fewer replicas than the pool has
//!   places; a pool of three, all of them fresh, was not better on the tuning seeds.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Scene, answer};

    fn choose(policy: &mut dyn Policy, now_ns: Nanos, in_flight: &[u32], chance: &mut Chance) -> usize {
        let scene = Scene::new(in_flight);
        match policy.choose(&scene.ask(now_ns, scene.all()), chance, &mut Budget::default()) {
            Choice::Submit(submit) => submit.replica,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_better_of_two_different_ones_is_taken_and_all_pairs_are_drawn_alike() {
        let mut chance = Chance::new(11);
        for (in_flight, pairs) in
            [(vec![2, 0, 1, 3], [1, 3, 2, 0]), (vec![1, 0], [0, 1, 0, 0]), (vec![7], [1, 0, 0, 0])]
        {
            let mut counts = [0; 4];
            for _ in 0..600 {
                counts[choose(&mut PowerOfTwo, 0, &in_flight, &mut chance)] += 1;
            }
            // Pairs of which this one is the better.
            let sum: u32 = pairs.iter().sum();
            for (count, pairs) in counts.into_iter().zip(pairs) {
                let expected = 600 * pairs / sum;
                assert!(if pairs == 0 { count == 0 } else { expected.abs_diff(count) <= 60 }, "{counts:?}");
            }
        }
        // Equals: the first of the draw, which may be each.
        let equals = (0..100).map(|_| choose(&mut PowerOfTwo, 0, &[4, 4], &mut chance)).sum::<usize>();
        assert!((30..70).contains(&equals), "{equals}");
    }

    #[test]
    fn each_read_probes_three_different_replicas_and_every_replica_in_turn() {
        let (mut policy, mut chance, scene) = (Prequal::new(5), Chance::new(1), Scene::new(&[0, 1, 2, 3, 4]));
        let mut probed = [0; 5];
        for now_ns in 0..200 {
            policy.pool.clear();
            policy.probe(&scene.ask(now_ns, 0b11111), &mut chance);
            let devices: Vec<usize> = policy.pool.iter().map(|probe| probe.device).collect();
            assert!(devices.len() == 3 && devices.iter().all(|a| devices.iter().filter(|b| a == *b).count() == 1));
            assert!(policy.pool.iter().all(|probe| probe.rif as usize == probe.device && probe.at_ns == now_ns));
            devices.into_iter().for_each(|device| probed[device] += 1);
        }
        assert!(probed.iter().all(|count| (90..150).contains(count)), "{probed:?}");
        // Of fewer candidates all are probed.
        policy.pool.clear();
        policy.probe(&scene.ask(0, 0b10010), &mut chance);
        let mut devices: Vec<usize> = policy.pool.iter().map(|probe| probe.device).collect();
        devices.sort_unstable();
        assert_eq!(devices, [1, 4]);
    }

    /// A policy with these probes, as device, requests in flight and latency.
    fn pooled(probes: &[(usize, u32, Nanos)]) -> Prequal {
        let probe = |&(device, rif, latency_ns)| Probe { device, at_ns: 0, rif, latency_ns };
        Prequal { pool: probes.iter().map(probe).collect(), ..Prequal::new(3) }
    }

    #[test]
    fn the_pool_keeps_sixteen_probes_for_a_second() {
        let (mut policy, mut chance, scene) = (Prequal::new(3), Chance::new(1), Scene::new(&[0, 0, 0]));
        let ages = |policy: &Prequal| policy.pool.iter().map(|probe| probe.at_ns).collect::<Vec<_>>();
        (0..5).for_each(|now_ns| policy.probe(&scene.ask(now_ns, 7), &mut chance));
        assert_eq!(ages(&policy), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
        policy.probe(&scene.ask(1_000_000_002, 7), &mut chance);
        assert_eq!(ages(&policy)[..9], [2, 2, 2, 3, 3, 3, 4, 4, 4], "a probe of exactly a second stays");
        let mut counts = [0; 3];
        for (n, count) in counts.iter_mut().enumerate() {
            policy.probe(&scene.ask(1_000_000_005 + n as u64, 7), &mut chance);
            *count = policy.pool.len();
        }
        assert_eq!(counts, [6, 9, 12]);
        for expected in [15, 16, 16] {
            policy.probe(&scene.ask(1_000_000_008, 7), &mut chance);
            assert_eq!(policy.pool.len(), expected);
        }
    }

    #[test]
    fn cold_probes_go_by_latency_and_hot_ones_by_their_queue() {
        let scene = Scene::new(&[0; 6]);
        // Of the counts 0 to 99, 84 are below 84: a probe with more is hot.
        let mut policy = pooled(&[(0, 85, 10), (1, 84, 300), (2, 84, 200), (3, 86, 5), (4, 84, 250), (5, 84, 200)]);
        policy.rifs = (0..100).collect();
        let order: Vec<usize> = std::iter::from_fn(|| policy.take_best(&scene.ask(0, 0b111111))).collect();
        assert_eq!(order, [5, 2, 4, 1, 0, 3], "of equal ones the later");
        // Probes of replicas that may not be read stay.
        let mut policy = pooled(&[(0, 0, 10), (1, 0, 300)]);
        assert_eq!((policy.take_best(&scene.ask(0, 6)), policy.pool.len()), (Some(1), 1));
        assert_eq!((policy.take_best(&scene.ask(0, 6)), policy.pool.len()), (None, 1));
        assert_eq!(Prequal::new(3).hot(), u32::MAX, "nothing is hot");
    }

    #[test]
    fn the_oldest_and_the_worst_leave_in_turn() {
        let mut policy = pooled(&[(0, 0, 10), (1, 0, 300), (2, 0, 200), (0, 0, 50), (1, 0, 70)]);
        policy.rifs = (0..100).collect();
        let mut left = || {
            policy.remove_one();
            policy.pool.iter().map(|probe| probe.latency_ns).collect::<Vec<_>>()
        };
        assert_eq!(left(), [300, 200, 50, 70]);
        assert_eq!(left(), [200, 50, 70]);
        assert_eq!(left(), [50, 70]);
        assert_eq!(left(), [50]);
        assert_eq!(left(), []);
        assert_eq!(left(), []);
    }

    #[test]
    fn a_replica_is_as_slow_as_its_recent_answers_at_about_that_queue() {
        let mut policy = Prequal::new(2);
        assert_eq!(policy.latency_ns(0, 5), 0);
        for (latency_ns, met) in [(100, 3), (200, 5), (300, 7), (900, 8), (10, 2)] {
            policy.completed(&answer(0, 0, latency_ns, met));
        }
        assert_eq!(policy.latency_ns(0, 5), 200, "of queues of 3 to 7");
        assert_eq!(policy.latency_ns(0, 50), 200, "of all");
        assert_eq!(policy.latency_ns(0, 10), 900, "of one");
        assert_eq!(policy.latency_ns(0, 8), 900, "of two the higher");
        assert_eq!(policy.latency_ns(1, 5), 0);
        policy.completed(&Completion { op: linnet_types::Op::Write, ..answer(0, 1, 77, 5) });
        assert_eq!(policy.latency_ns(1, 5), 0, "writes tell nothing");
        (0..62).for_each(|_| policy.completed(&answer(0, 0, 1, 1)));
        assert_eq!((policy.latency_ns(0, 10), policy.answers[0].len()), (900, 64), "the last 64 count");
        (0..2).for_each(|_| policy.completed(&answer(0, 0, 1, 1)));
        assert_eq!(policy.latency_ns(0, 10), 1);
    }

    #[test]
    fn with_fewer_than_two_probes_a_replica_is_drawn() {
        let mut chance = Chance::new(5);
        // Of the only candidate there is one probe.
        let mut policy = Prequal::new(3);
        let scene = Scene::new(&[0, 0, 0]);
        let choice = policy.choose(&scene.ask(0, 4), &mut chance, &mut Budget::default());
        assert_eq!((choice, policy.pool.len()), (Choice::Submit(Submit::to(2)), 0));
        // With two, the better one is taken and the other leaves.
        let mut policy = Prequal::new(2);
        policy.completed(&answer(0, 0, 500, 0));
        policy.completed(&answer(0, 1, 400, 0));
        for now_ns in 0..20 {
            assert_eq!(choose(&mut policy, now_ns, &[0, 0], &mut chance), 1);
            assert_eq!(policy.pool.len(), 0);
        }
    }
}
