// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the files of a control group on a device show together.
//!
//! A scan of many small files leaves each of them before its own window has ended. Without this, files that random
//! reads left with a small value would be scanned with it, one after another. So a group whose reads, all files
//! together, turn from scattered to ordered gives its idle files the value for ordered reads at once. It never lowers a
//! value: random reads come back to each file, so that its own evidence is soon there, and a short scan beside them is
//! not harmed.

use std::collections::HashMap;
use std::time::Duration;

use crate::govern::{Governor, Proposal};
use crate::observe::Counts;
use crate::rule::{Class, Decider};

/// A device by name, and a control group.
pub(crate) type Group = (String, u64);

struct Pool {
    governor: Governor,
    /// Since the last step.
    counts: Counts,
    seen: Duration,
}

#[derive(Default)]
pub(crate) struct Pools(HashMap<Group, Pool>);

impl Pools {
    /// Takes in what was counted for one file. `kib` is the device's value, for a group that is new.
    pub(crate) fn add(&mut self, group: Group, now: Duration, kib: u32, counts: &Counts) {
        let new = || Pool { governor: Governor::new(now, kib), counts: Counts::default(), seen: now };
        let pool = self.0.entry(group).or_insert_with(new);
        pool.counts = pool.counts.plus(*counts);
        pool.seen = now;
    }

    /// The groups whose reads turned to ordered ones, and the value that suits them. Forgets groups without reads for
    /// `idle`.
    pub(crate) fn turned_to_order(
        &mut self,
        now: Duration,
        demands: bool,
        decider: &dyn Decider,
        idle: Duration,
    ) -> Vec<(Group, Proposal)> {
        self.0.retain(|_, pool| now < pool.seen + idle);
        let mut turned = Vec::new();
        for (group, pool) in &mut self.0 {
            let counts = std::mem::take(&mut pool.counts);
            let Some(proposal) = pool.governor.step(now, &counts, demands, decider) else { continue };
            pool.governor.changed(now, proposal.to_kib);
            let ordered = matches!(pool.governor.class(), Some(Class::Sequential | Class::Reverse));
            if ordered && proposal.kind == "decision" {
                turned.push((group.clone(), proposal));
            }
        }
        turned
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
        files.iter().for_each(|counts| pools.add(("sda".into(), 7), now, 128, counts));
        let found = pools.turned_to_order(now, true, &Rule::default(), Duration::from_secs(60));
        found.into_iter().map(|(_, proposal)| proposal.to_kib).collect()
    }

    #[test]
    fn a_group_says_once_that_it_turned_to_order_and_nothing_when_it_turned_to_random() {
        let mut pools = Pools::default();
        let none = Vec::<u32>::new();
        assert_eq!(turned(&mut pools, 0, &[random(), random()]), none);
        assert_eq!(turned(&mut pools, 1_250, &[random(), random(), random()]), none, "values are never lowered");
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
}
