// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the files of a control group on a device show together.
//!
//! A scan of many small files leaves each of them before its own window has ended. Without this, files that random
//! reads left with a small value would be scanned with it, one after another. So a group whose reads, all files
//! together, turn from scattered to ordered gives its idle files the value for ordered reads at once. Where its reads
//! are random, files that are read too seldom follow it (`follow.rs`).

use std::collections::HashMap;
use std::time::Duration;

use crate::feature::Features;
use crate::follow::{Dismissal, Follower, Leader, Reads};
use crate::govern::{Governor, Proposal};
use crate::observe::Counts;
use crate::rule::{Class, Decider, Verdict};

/// A device by name, and a control group.
pub(crate) type Group = (String, u64);

struct Pool {
    governor: Governor,
    /// Since the last step.
    counts: Counts,
    seen: Duration,
    /// Why its reads were called random, and how certain that is.
    random: Option<(String, f64)>,
    leader: Leader,
}

/// What became of a group.
pub(crate) struct Turn {
    pub(crate) group: Group,
    /// Its reads are ordered ones now: the value for them.
    pub(crate) ordered: Option<Proposal>,
    /// The files that followed it and are to leave.
    pub(crate) undone: Option<Dismissal>,
}

/// A decider whose changes are not judged: what its files cost is judged file by file, or by those who followed.
struct Unjudged<'a>(&'a dyn Decider);

impl Decider for Unjudged<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn decide(&self, features: &Features) -> Option<Verdict> {
        self.0.decide(features)
    }
    fn is_judged(&self, _: Class) -> bool {
        false
    }
}

#[derive(Default)]
pub(crate) struct Pools(HashMap<Group, Pool>);

impl Pools {
    /// Takes in what was counted for one file. `kib` is the device's value, for a group that is new.
    pub(crate) fn add(&mut self, group: &Group, now: Duration, kib: u32, counts: &Counts) {
        let new = || Pool {
            governor: Governor::new(now, kib),
            counts: Counts::default(),
            seen: now,
            random: None,
            leader: Leader::new(now),
        };
        let pool = self.0.entry(group.clone()).or_insert_with(new);
        pool.counts = pool.counts.plus(*counts);
        pool.seen = now;
    }

    /// Takes in what was read of one file in a look.
    pub(crate) fn note(&mut self, group: &Group, reads: Reads, file: &mut Follower) {
        if let Some(pool) = self.0.get_mut(group) {
            pool.leader.note(reads, file);
        }
    }

    /// The groups that turned. Forgets groups without reads for `idle`.
    pub(crate) fn turned(&mut self, now: Duration, demands: bool, decider: &dyn Decider, idle: Duration) -> Vec<Turn> {
        self.0.retain(|_, pool| now < pool.seen + idle);
        let mut turned = Vec::new();
        for (group, pool) in &mut self.0 {
            let mut turn = Turn { group: group.clone(), ordered: None, undone: pool.leader.judge(now, decider) };
            let counts = std::mem::take(&mut pool.counts);
            if let Some(proposal) = pool.governor.step(now, &counts, demands, &Unjudged(decider)) {
                pool.governor.changed(now, proposal.to_kib);
                pool.random = None;
                match pool.governor.class() {
                    Some(Class::Random) => pool.random = Some((proposal.why, proposal.confidence)),
                    Some(Class::Sequential | Class::Reverse) => turn.ordered = Some(proposal),
                    _ => {}
                }
            }
            if turn.ordered.is_some() || turn.undone.is_some() {
                turned.push(turn);
            }
        }
        turned
    }

    /// What a file gets that agrees with its group, where that is less than its `kib`. It follows from now on.
    /// Without demands the cost of following would not be seen.
    pub(crate) fn follow(
        &mut self,
        group: &Group,
        now: Duration,
        kib: u32,
        demands: bool,
        decider: &dyn Decider,
        file: &mut Follower,
    ) -> Option<Proposal> {
        let pool = self.0.get_mut(group).filter(|pool| demands && pool.governor.class() == Some(Class::Random))?;
        let (why, confidence) = pool.random.as_ref()?;
        let to_kib = pool.governor.current_kib();
        if kib <= to_kib || !pool.leader.takes(now, decider, file) {
            return None;
        }
        let why = format!("read at random like the other files of its group: {why}");
        Some(Proposal { kind: "decision", to_kib, why, confidence: *confidence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    fn random() -> Counts {
        Counts {
            accesses: 50,
            pages: 50,
            jumps: 50,
            faults: 50,
            added: 400,
            used: 50,
            batches: 50,
            ..Counts::default()
        }
    }

    fn scan() -> Counts {
        Counts { accesses: 64, pages: 1024, forward: 64, added: 1024, used: 1024, batches: 1, ..Counts::default() }
    }

    fn turned(pools: &mut Pools, ms: u64, files: &[Counts]) -> Vec<u32> {
        let now = Duration::from_millis(ms);
        files.iter().for_each(|counts| pools.add(&("sda".into(), 7), now, 128, counts));
        let found = pools.turned(now, true, &Rule::default(), Duration::from_secs(60));
        found.into_iter().filter_map(|turn| turn.ordered).map(|proposal| proposal.to_kib).collect()
    }

    #[test]
    fn a_group_says_once_that_it_turned_to_order_and_nothing_when_it_turned_to_random() {
        let mut pools = Pools::default();
        let none = Vec::<u32>::new();
        assert_eq!(turned(&mut pools, 0, &[random(), random()]), none);
        assert_eq!(turned(&mut pools, 1_250, &[random(), random(), random()]), none, "idle files are never lowered");
        let found: Vec<u32> = (0..8).flat_map(|k| turned(&mut pools, 5_000 + 250 * k, &[scan(), scan()])).collect();
        assert_eq!(found, [128], "within two seconds, once");
    }

    #[test]
    fn a_scan_beside_random_reads_is_no_turn() {
        let mut pools = Pools::default();
        turned(&mut pools, 0, &[random(), random()]);
        turned(&mut pools, 1_250, &[random(), random()]);
        let both: Vec<u32> = (1..40).flat_map(|k| turned(&mut pools, 5_000 + 250 * k, &[scan(), random()])).collect();
        assert_eq!(both, Vec::<u32>::new());
    }

    #[test]
    fn groups_without_reads_are_forgotten() {
        let mut pools = Pools::default();
        turned(&mut pools, 0, &[random()]);
        turned(&mut pools, 61_000, &[]);
        assert!(pools.0.is_empty());
    }

    fn group() -> Group {
        ("sda".to_owned(), 7)
    }

    /// A group after these looks, and a file of it with two cold reads at random: the value that it gets.
    fn follow(looks: &[Counts], demands: bool, kib: u32) -> Option<u32> {
        let mut pools = Pools::default();
        looks.iter().enumerate().for_each(|(k, counts)| drop(turned(&mut pools, 1_250 * k as u64, &[*counts])));
        let (now, mut file) = (Duration::from_secs(9), Follower::default());
        let one = Counts { accesses: 1, pages: 1, jumps: 1, added: 32, batches: 1, ..Counts::default() };
        for _ in 0..2 {
            let verdict = Rule::default().decide(&Features::of(&one, true)).expect("a verdict");
            let reads = Reads {
                now,
                since: now,
                counts: &one,
                verdict: &verdict,
                kib: 128,
                own_kib: 128,
                jump_pages: 8.0,
                page_kib: 4,
            };
            pools.note(&group(), reads, &mut file);
        }
        pools.follow(&group(), now, kib, demands, &Rule::default(), &mut file).map(|proposal| proposal.to_kib)
    }

    #[test]
    fn a_file_follows_a_group_that_reads_at_random() {
        assert_eq!(follow(&[random()], true, 128), Some(8));
        assert_eq!(follow(&[random(), scan(), scan(), scan()], true, 128), None, "it did");
        assert_eq!(follow(&[scan(), scan()], true, 128), None);
        assert_eq!(follow(&[], true, 128), None);
        assert_eq!(follow(&[random()], true, 8), None, "it has that value");
        assert_eq!(follow(&[random()], false, 128), None, "the kernel does not tell demands: cost is not seen");
    }

    #[test]
    fn a_group_whose_reads_cost_more_than_before_speaks_on() {
        let warm = Counts { accesses: 5_000, pages: 5_000, jumps: 5_000, added: 640, batches: 20, ..Counts::default() };
        let cold = Counts { added: 160_000, batches: 5_000, ..warm };
        assert_eq!(follow(&[warm, cold, cold, cold], true, 128), Some(8), "another part of the data is read");
    }
}
