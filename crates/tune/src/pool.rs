// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the files of a control group on a device show together.
//!
//! *To order.* A scan of many small files leaves each of them before its own window has ended. Without this, files that
//! random reads left with a small value would be scanned with it, one after another. So a group whose reads, all files
//! together, turn from scattered to ordered gives its idle files the value for ordered reads at once.
//!
//! *To random.* A file among thousands is read too seldom to fill a window of its own: the tables of a large database
//! would keep the device's value for ever. So where a group's reads are random, and none of its files is read in order,
//! two reads at random are evidence enough for a file to follow. What the files that followed cost then is compared
//! with what they cost before; where it rose, they get their own values back.

use std::collections::HashMap;
use std::time::Duration;

use crate::feature::Features;
use crate::govern::{FLOOR, Governor, Proposal, WINDOW};
use crate::observe::Counts;
use crate::rule::{Class, Decider, Verdict};

/// A device by name, and a control group.
pub(crate) type Group = (String, u64);

/// A group does not speak for its files while one of them is read in order, and for so long after.
const ORDER: Duration = Duration::from_secs(2);
/// A file that has jumped so often agrees with its group: a scan begins with one jump.
const JUMPS_MIN: u64 = 2;
/// Fewer pages brought are not worth a change; `ADDED_MIN` of `core/govern.c`.
const ADDED_MIN: u64 = 32;

/// Followers are judged after so many demands, and not before a window's length has passed.
const JUDGED_MIN: u64 = 64;
/// How long a group does not speak for its files after that was for the worse; twice as long each time, up to a limit.
const HOLD: Duration = Duration::from_secs(30);
const HOLD_MAX: Duration = Duration::from_secs(480);

/// What files cost before they followed and since, until that is judged.
#[derive(Default)]
struct Trial {
    number: u64,
    before: Counts,
    after: Counts,
    began: Duration,
}

struct Pool {
    governor: Governor,
    /// Since the last step.
    counts: Counts,
    seen: Duration,
    /// When a file was last read in order.
    ordered: Option<Duration>,
    /// Why its reads are called random, and how certain that is.
    random: Option<(String, f64)>,
    trial: Trial,
    held: Duration,
    hold: Duration,
}

/// What became of a group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its reads are ordered ones now.
    Ordered,
    /// The files that followed it in this trial cost more since.
    Undone(u64),
}

/// What one file's reads say about following its group. Kept longer than a window.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    counts: Counts,
    /// The trial in which it took the group's value.
    trial: Option<u64>,
    /// A change by its own evidence was for the worse: it follows nobody.
    stays: bool,
}

impl Follower {
    /// It followed in this trial.
    pub(crate) fn is_of(&self, trial: u64) -> bool {
        self.trial == Some(trial)
    }

    /// It had a proposal of another kind.
    pub(crate) fn decided(&mut self, taken_back: bool) {
        *self = Follower { stays: self.stays || taken_back, ..Follower::default() };
    }

    /// Its own reads do not contradict a group that reads at random.
    fn agrees(&self, demands: bool) -> bool {
        let seen = Features::of(&self.counts, demands);
        !self.stays && self.trial.is_none() && seen.jumps >= JUMPS_MIN && seen.added >= ADDED_MIN
    }
}

/// Pages for each one demanded, at the value in force.
fn cost(counts: &Counts, demands: bool, decider: &dyn Decider) -> f64 {
    let seen = Features::of(counts, demands);
    seen.added_per_page + decider.jump_pages() * seen.batches_per_page
}

impl Pool {
    fn new(now: Duration, kib: u32) -> Pool {
        Pool {
            governor: Governor::new(now, kib),
            counts: Counts::default(),
            seen: now,
            ordered: None,
            random: None,
            trial: Trial::default(),
            held: now,
            hold: HOLD,
        }
    }

    /// Ends the trial where it is long enough. Where its files cost a quarter more, says so.
    fn judge(&mut self, now: Duration, demands: bool, decider: &dyn Decider) -> Option<(Turn, Proposal)> {
        let Trial { number, before, after, began } = &self.trial;
        if Features::of(after, demands).accesses < JUDGED_MIN || now < *began + WINDOW {
            return None;
        }
        let (number, before, after) = (*number, cost(before, demands, decider), cost(after, demands, decider));
        self.trial = Trial { number: number + 1, ..Trial::default() };
        if after <= 1.25 * before {
            return None;
        }
        let hold = self.hold;
        (self.held, self.hold) = (now + hold, (2 * hold).min(HOLD_MAX));
        let why = format!(
            "cost rose from {before:.2} to {after:.2} pages for each one demanded; none follows for {} s",
            hold.as_secs()
        );
        let to_kib = self.governor.original_kib();
        Some((Turn::Undone(number), Proposal { kind: "rollback", to_kib, why, confidence: 1.0 }))
    }
}

#[derive(Default)]
pub(crate) struct Pools(HashMap<Group, Pool>);

impl Pools {
    /// Takes in what was counted for one file. `kib` is the device's value, for a group that is new.
    pub(crate) fn add(&mut self, group: &Group, now: Duration, kib: u32, counts: &Counts) {
        let pool = self.0.entry(group.clone()).or_insert_with(|| Pool::new(now, kib));
        pool.counts = pool.counts.plus(*counts);
        pool.seen = now;
    }

    /// Takes in what one file's reads of a look were, as `verdict` has them.
    pub(crate) fn note(
        &mut self,
        group: &Group,
        now: Duration,
        counts: &Counts,
        verdict: &Verdict,
        file: &mut Follower,
    ) {
        let Some(pool) = self.0.get_mut(group) else { return };
        let is_certain = verdict.confidence >= FLOOR;
        if is_certain && matches!(verdict.class, Class::Sequential | Class::Reverse) {
            pool.ordered = Some(now);
        }
        if file.is_of(pool.trial.number) {
            pool.trial.after = pool.trial.after.plus(*counts);
        } else if verdict.class == Class::Random {
            file.counts = file.counts.plus(*counts);
        } else if is_certain {
            file.counts = Counts::default();
        }
    }

    /// The groups that turned, and the value that suits them now. Forgets groups without reads for `idle`.
    pub(crate) fn turned(
        &mut self,
        now: Duration,
        demands: bool,
        decider: &dyn Decider,
        idle: Duration,
    ) -> Vec<(Group, Turn, Proposal)> {
        self.0.retain(|_, pool| now < pool.seen + idle);
        let mut turned = Vec::new();
        for (group, pool) in &mut self.0 {
            turned.extend(pool.judge(now, demands, decider).map(|(turn, why)| (group.clone(), turn, why)));
            let counts = std::mem::take(&mut pool.counts);
            let Some(proposal) = pool.governor.step(now, &counts, demands, decider) else { continue };
            pool.governor.changed(now, proposal.to_kib);
            pool.random = None;
            match pool.governor.class() {
                _ if proposal.kind == "rollback" => {}
                Some(Class::Sequential | Class::Reverse) => turned.push((group.clone(), Turn::Ordered, proposal)),
                Some(Class::Random) => pool.random = Some((proposal.why, proposal.confidence)),
                _ => {}
            }
        }
        turned
    }

    /// What a file gets that agrees with its group, where that is less than its `kib`. It follows from now on.
    pub(crate) fn follow(
        &mut self,
        group: &Group,
        now: Duration,
        kib: u32,
        demands: bool,
        file: &mut Follower,
    ) -> Option<Proposal> {
        let pool = self.0.get_mut(group)?;
        let (why, confidence) = pool.random.as_ref()?;
        let to_kib = pool.governor.current_kib();
        let ordered = now < pool.held || pool.ordered.is_some_and(|then| now < then + ORDER);
        if ordered || pool.governor.class() != Some(Class::Random) || kib <= to_kib || !file.agrees(demands) {
            return None;
        }
        if pool.trial.before == Counts::default() {
            pool.trial.began = now;
        }
        pool.trial.before = pool.trial.before.plus(file.counts);
        file.trial = Some(pool.trial.number);
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

    fn turned(pools: &mut Pools, ms: u64, files: &[Counts]) -> Vec<(Turn, u32)> {
        let now = Duration::from_millis(ms);
        files.iter().for_each(|counts| pools.add(&("sda".into(), 7), now, 128, counts));
        let found = pools.turned(now, true, &Rule::default(), Duration::from_secs(60));
        found.into_iter().map(|(_, turn, proposal)| (turn, proposal.to_kib)).collect()
    }

    #[test]
    fn a_group_says_once_that_it_turned_to_order_and_nothing_when_it_turned_to_random() {
        let mut pools = Pools::default();
        assert_eq!(turned(&mut pools, 0, &[random(), random()]), []);
        assert_eq!(turned(&mut pools, 1_250, &[random(), random(), random()]), [], "idle files are never lowered");
        let found: Vec<_> = (0..8).flat_map(|k| turned(&mut pools, 5_000 + 250 * k, &[scan(), scan()])).collect();
        assert_eq!(found, [(Turn::Ordered, 128)], "within two seconds, once");
    }

    #[test]
    fn a_scan_beside_random_reads_is_no_turn() {
        let mut pools = Pools::default();
        turned(&mut pools, 0, &[random(), random()]);
        turned(&mut pools, 1_250, &[random(), random()]);
        let both: Vec<_> = (1..40).flat_map(|k| turned(&mut pools, 5_000 + 250 * k, &[scan(), random()])).collect();
        assert_eq!(both, []);
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

    /// `n` single pages at random, which brought so much in so many pieces.
    fn pages(n: u64, added: u64, batches: u64) -> Counts {
        Counts { accesses: n, pages: n, jumps: n, added, batches, ..Counts::default() }
    }

    fn note(pools: &mut Pools, ms: u64, counts: &Counts, file: &mut Follower) {
        let verdict = Rule::default().decide(&Features::of(counts, true)).expect("a verdict");
        pools.note(&group(), Duration::from_millis(ms), counts, &verdict, file);
    }

    fn follow(pools: &mut Pools, ms: u64, file: &mut Follower) -> Option<u32> {
        let now = Duration::from_millis(ms);
        pools.follow(&group(), now, 128, true, file).map(|proposal| proposal.to_kib)
    }

    /// A group that has decided that it reads at random.
    fn at_random() -> Pools {
        let mut pools = Pools::default();
        turned(&mut pools, 0, &[random(), random()]);
        pools
    }

    #[test]
    fn two_reads_at_random_are_enough_where_the_group_reads_so() {
        let follows = |scanned_at: Option<u64>, reads: &[Counts]| {
            let (mut pools, mut file) = (at_random(), Follower::default());
            if let Some(ms) = scanned_at {
                note(&mut pools, ms, &scan(), &mut Follower::default());
            }
            reads.iter().for_each(|counts| note(&mut pools, 3_000, counts, &mut file));
            follow(&mut pools, 3_000, &mut file)
        };
        let one = pages(1, 32, 1);
        assert_eq!(follows(None, &[one, one]), Some(8), "however far apart");
        assert_eq!(follows(None, &[one]), None, "a scan begins with one jump, too");
        assert_eq!(follows(None, &[pages(5, 8, 1)]), None, "most of it is in memory");
        assert_eq!(follows(Some(1_100), &[one, one]), None, "another file is scanned");
        assert_eq!(follows(Some(1_000), &[one, one]), Some(8), "it was");
        assert_eq!(follows(None, &[one, one, scan()]), None, "it is scanned itself");
    }

    #[test]
    fn a_group_that_does_not_read_at_random_speaks_for_nobody() {
        let follower = || Follower { counts: pages(100, 3_200, 100), ..Follower::default() };
        assert_eq!(follow(&mut Pools::default(), 0, &mut follower()), None);
        let mut pools = Pools::default();
        turned(&mut pools, 0, &[scan()]);
        turned(&mut pools, 1_250, &[scan()]);
        assert_eq!(follow(&mut pools, 9_000, &mut follower()), None);
        assert_eq!(follow(&mut at_random(), 9_000, &mut follower()), Some(8));
        let mut stays = follower();
        stays.decided(true);
        stays.decided(false);
        stays.counts = follower().counts;
        assert_eq!(follow(&mut at_random(), 9_000, &mut stays), None, "its own change was taken back");
    }

    #[test]
    fn those_who_followed_are_judged_by_their_own_cost() {
        let judged = |before: Counts, after: Counts| {
            let (mut pools, mut file) = (at_random(), Follower { counts: before, ..Follower::default() });
            assert_eq!(follow(&mut pools, 2_000, &mut file), Some(8));
            note(&mut pools, 2_250, &after, &mut file);
            assert_eq!(turned(&mut pools, 2_900, &[]), [], "too soon");
            let found = turned(&mut pools, 3_100, &[]);
            assert!(found.is_empty() || found == [(Turn::Undone(0), 128)] && file.is_of(0), "{found:?}");
            let mut next = Follower { counts: before, ..Follower::default() };
            let follows = [30_000, 34_000].map(|ms| follow(&mut pools, ms, &mut next).is_some());
            assert_eq!(follows, if found.is_empty() { [true, false] } else { [false, true] }, "held for 30 s, or done");
            !found.is_empty()
        };
        assert!(!judged(pages(2, 64, 2), pages(100, 200, 100)), "40 pages for each, then 10");
        assert!(judged(pages(100, 320, 10), pages(100, 120, 60)), "4, most of it used later; then 6 without that");
        assert!(!judged(pages(100, 320, 10), pages(60, 72, 36)), "too few to say");
    }
}
