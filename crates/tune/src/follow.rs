// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are read too seldom to be judged by their own reads, and follow their control group.
//!
//! A file among thousands fills no window of its own: the tables of a large database would keep the device's value for
//! ever. So where the reads of a group are random, and none of its files is read in order, little evidence is enough for
//! a file: jumps in two looks. What the files that followed cost then is compared with what they cost before.
//!
//! Those that began together get their own values back where that rose. Files that followed before were found right, and
//! one file of which little is known says nothing of them. All get them back where runs and scans lose more by the
//! group's value than random reads gain: a dump of many small tables would read each of them with it before its own reads
//! say otherwise. Then none follows for a while, longer each time.

use std::time::Duration;

use linnet_core::ReadGovernor;

use crate::feature::Features;
use crate::govern::WINDOW;
use crate::observe::Counts;
use crate::rule::{Class, DEFAULT_KIB, Decider, Verdict};

/// None follows while a file of the group is scanned, and for so long after.
const ORDER: Duration = Duration::from_secs(2);
/// A scan brings at least so many pages between two jumps, and as many as so many readaheads of the default or less.
/// Touching what is in memory may look like one, since a fault maps the pages around it.
const SCAN_PAGES: u64 = 32;
const SCAN_READAHEADS: u64 = 4;
/// Looks in which a file jumped. In one, its header and its end may have been read before a scan.
const LOOKS_MIN: u32 = 2;
/// What a look counts for in gain and loss, after another one.
const MEMORY: f64 = 0.75;
/// Followers are judged after so many demands, and not before a window's length has passed.
const JUDGED_MIN: u64 = 64;
/// How long none follows after that was for the worse; twice as long each time, up to a limit. As for a single file.
const HOLD: Duration = Duration::from_nanos(ReadGovernor::HOLD_NS);
const HOLD_MAX: Duration = Duration::from_nanos(ReadGovernor::HOLD_NS_MAX);

/// Files that follow are to leave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dismissal {
    pub(crate) why: String,
    /// Those of this trial; None: all.
    trial: Option<u64>,
}

/// What one file has to do with its group.
#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    /// It has a value of its own.
    #[default]
    Apart,
    /// It has the group's value by this trial, since this look or soon after.
    Follows { trial: u64, from: Duration },
    /// It followed, and is to get its own value back; why.
    Leaves(String),
}

/// A file, as its group sees it.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// Its reads since it was last scanned, kept longer than a window; not those under the group's value.
    counts: Counts,
    /// Of these, the looks that were random.
    random: Counts,
    /// Looks of these in which it jumped.
    looks: u32,
    place: Place,
    /// Its own reads spoke against a change.
    stays: bool,
}

impl Follower {
    /// It has a value by its own evidence, or its own value again.
    pub(crate) fn reset(&mut self) {
        *self = Follower { stays: self.stays, ..Follower::default() };
    }

    /// Its own reads spoke against a change: from now on it follows nobody.
    pub(crate) fn stay(&mut self) {
        self.stays = true;
        self.reset();
    }

    /// A value could not be set. Leaving is tried again.
    pub(crate) fn refused(&mut self) {
        if self.leaves().is_none() {
            self.reset();
        }
    }

    pub(crate) fn follows(&self) -> bool {
        matches!(self.place, Place::Follows { .. })
    }

    /// It gets the group's value in this trial.
    pub(crate) fn follow_trial(&mut self, trial: u64, from: Duration) {
        self.place = Place::Follows { trial, from };
    }

    /// It is among those who are to leave.
    pub(crate) fn is_dismissed(&self, dismissal: &Dismissal) -> bool {
        matches!(self.place, Place::Follows { trial, .. } if dismissal.trial.is_none_or(|one| one == trial))
    }

    /// It is to get its own value back.
    pub(crate) fn leave(&mut self, why: &str) {
        self.place = Place::Leaves(why.to_owned());
    }

    /// Why it is to get its own value back; None where it is not.
    pub(crate) fn leaves(&self) -> Option<&str> {
        if let Place::Leaves(why) = &self.place { Some(why) } else { None }
    }

    /// Its own reads do not contradict a group that reads at random.
    fn agrees(&self, decider: &dyn Decider) -> bool {
        let seen = Features::of(&self.counts, true);
        self.place == Place::Apart
            && !self.stays
            && self.looks >= LOOKS_MIN
            && seen.added >= ReadGovernor::ADDED_MIN
            && decider.decide(&seen).is_some_and(|verdict| verdict.class == Class::Random)
    }
}

/// Random reads of the files that followed: before, and since, until that is judged.
#[derive(Debug, Default)]
struct Trial {
    number: u64,
    began: Duration,
    before: Counts,
    after: Counts,
}

/// A group, as its files see it.
#[derive(Debug)]
pub(crate) struct Leader {
    trial: Trial,
    /// When a file was last read in order.
    ordered: Option<Duration>,
    /// What the files that follow gain and lose by its value, in pages; older looks count less.
    gain: f64,
    loss: f64,
    hold: Duration,
    hold_until: Duration,
}

/// Pages for each one demanded, at the value in force.
fn cost(counts: &Counts, decider: &dyn Decider) -> f64 {
    let seen = Features::of(counts, true);
    seen.added_per_page + decider.jump_pages() * seen.batches_per_page
}

/// What was read of a file in one look.
#[derive(Clone, Copy)]
pub(crate) struct Reads<'a> {
    /// This look, and the one before it.
    pub(crate) now: Duration,
    pub(crate) since: Duration,
    pub(crate) counts: &'a Counts,
    pub(crate) verdict: &'a Verdict,
    /// Its value, and its own one.
    pub(crate) kib: u32,
    pub(crate) own_kib: u32,
    /// What bringing something from elsewhere costs, in pages.
    pub(crate) jump_pages: f64,
    /// KiB of a page.
    pub(crate) page_kib: u32,
}

impl Reads<'_> {
    /// They bring the file in order.
    fn is_scan(&self) -> bool {
        let readahead = u64::from(self.kib.min(DEFAULT_KIB) / self.page_kib);
        matches!(self.verdict.class, Class::Sequential | Class::Reverse)
            && self.counts.added >= (self.counts.jumps + 1) * SCAN_PAGES.max(SCAN_READAHEADS * readahead)
    }

    /// What bringing the same runs costs with a value, in pages: those brought, and each time that it asks for some.
    fn cost_with(&self, kib: u32) -> f64 {
        let pages = f64::from(kib) / f64::from(self.page_kib);
        let (pieces, value) = (self.counts.batches.max(1) as f64, pages.max(1.0));
        let run = self.counts.added as f64 / pieces;
        pieces * (run.max(value) + self.jump_pages * (run / value).max(1.0))
    }

    /// What its own value would cost more, in pages; below 0, what it would cost less.
    fn gain(&self) -> f64 {
        if self.counts.added > 0 { self.cost_with(self.own_kib) - self.cost_with(self.kib) } else { 0.0 }
    }
}

impl Leader {
    pub(crate) fn new(now: Duration) -> Leader {
        // Files may have followed this group before it was forgotten.
        let number = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let trial = Trial { number, ..Trial::default() };
        Leader { trial, ordered: None, gain: 0.0, loss: 0.0, hold: HOLD, hold_until: now }
    }

    /// Takes in what was read of a file in one look.
    pub(crate) fn note(&mut self, reads: Reads, file: &mut Follower) {
        let Reads { now, since, counts, verdict, .. } = reads;
        // The look in which its value was set has reads from before.
        let trial = match file.place {
            Place::Follows { trial, from } if since > from => Some(trial),
            _ => None,
        };
        if trial.is_some() {
            self.gain += reads.gain().max(0.0);
            self.loss += (-reads.gain()).max(0.0);
        }
        if reads.is_scan() {
            self.ordered = Some(now);
            (file.counts, file.random, file.looks) = (Counts::default(), Counts::default(), 0);
            return;
        }
        let is_random = verdict.class == Class::Random;
        if !file.follows() {
            file.counts = file.counts.plus(*counts);
            file.looks += u32::from(counts.jumps > 0);
            if is_random {
                file.random = file.random.plus(*counts);
            }
            return;
        }
        if trial == Some(self.trial.number) && is_random {
            // Whether its value could be set was not known before.
            self.trial.before = self.trial.before.plus(std::mem::take(&mut file.random));
            self.trial.after = self.trial.after.plus(*counts);
        }
    }

    /// Who of those who follow are to leave, and why; None where none is.
    pub(crate) fn judge(&mut self, now: Duration, decider: &dyn Decider) -> Option<Dismissal> {
        let is_wrong = self.loss > self.gain;
        (self.gain, self.loss) = (MEMORY * self.gain, MEMORY * self.loss);
        if is_wrong {
            let why = "runs and scans of files that followed their group lose more than random reads gain";
            return Some(Dismissal { why: self.dismiss(now, why), trial: None });
        }
        let Trial { number, began, before, after } = &self.trial;
        let number = *number;
        let is_over = Features::of(after, true).accesses >= JUDGED_MIN && now >= *began + WINDOW;
        if !is_over || before.pages == 0 {
            return None;
        }
        let (before, after) = (cost(before, decider), cost(after, decider));
        if after > ReadGovernor::COST_MAX * before {
            let why = format!("cost rose from {before:.2} to {after:.2} pages for each demanded");
            return Some(Dismissal { why: self.dismiss(now, &why), trial: Some(number) });
        }
        self.renew();
        None
    }

    /// Ends what the group said, and gives the reason to those who follow.
    fn dismiss(&mut self, now: Duration, why: &str) -> String {
        let hold = self.hold;
        (self.hold_until, self.hold) = (now + hold, (2 * hold).min(HOLD_MAX));
        (self.gain, self.loss) = (0.0, 0.0);
        self.renew();
        format!("{why}; none follows for {} s", hold.as_secs())
    }

    fn renew(&mut self) {
        self.trial = Trial { number: self.trial.number + 1, ..Trial::default() };
    }

    /// True where a file agrees with a group that reads at random. It follows from now on.
    pub(crate) fn takes(&mut self, now: Duration, decider: &dyn Decider, file: &mut Follower) -> bool {
        let is_ordered = self.ordered.is_some_and(|then| now < then + ORDER);
        let takes = !is_ordered && now >= self.hold_until && file.agrees(decider);
        if takes {
            if self.trial.after.pages == 0 {
                self.trial.began = now;
            }
            file.follow_trial(self.trial.number, now);
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// `n` single pages at random, which brought so much in so many pieces.
    fn random(n: u64, added: u64, batches: u64) -> Counts {
        Counts { accesses: n, pages: n, jumps: n, added, batches, ..Counts::default() }
    }

    /// One cold read.
    fn one() -> Counts {
        random(1, 32, 1)
    }

    fn scan() -> Counts {
        Counts { accesses: 64, pages: 1024, forward: 64, added: 1024, batches: 1, ..Counts::default() }
    }

    fn reads<'a>(ms: u64, kib: u32, counts: &'a Counts, verdict: &'a Verdict) -> Reads<'a> {
        let since = at(ms.saturating_sub(1));
        Reads { now: at(ms), since, counts, verdict, kib, own_kib: 128, jump_pages: 8.0, page_kib: 4 }
    }

    fn note(leader: &mut Leader, ms: u64, counts: Counts, file: &mut Follower) {
        let verdict = Rule::default().decide(&Features::of(&counts, true)).expect("a verdict");
        let kib = if file.follows() { 8 } else { 128 };
        leader.note(reads(ms, kib, &counts, &verdict), file);
    }

    fn takes(leader: &mut Leader, ms: u64, file: &mut Follower) -> bool {
        leader.takes(at(ms), &Rule::default(), file)
    }

    fn judge(leader: &mut Leader, ms: u64) -> Option<String> {
        leader.judge(at(ms), &Rule::default()).map(|dismissal| dismissal.why)
    }

    /// A file that has these reads behind it, one look each.
    fn file(leader: &mut Leader, reads: &[Counts]) -> Follower {
        let mut file = Follower::default();
        reads.iter().for_each(|counts| note(leader, 1_000, *counts, &mut file));
        file
    }

    impl Follower {
        fn is_in(&self, leader: &Leader) -> bool {
            matches!(self.place, Place::Follows { trial, .. } if trial == leader.trial.number)
        }
    }

    #[test]
    fn jumps_in_two_looks_are_enough() {
        let pages = |jumps, pages| Counts { pages, ..random(jumps, 32 * jumps, jumps) };
        for (reads, agrees, why) in [
            (&[one(), one()][..], true, "however far apart"),
            (&[one()], false, "a scan begins with one jump"),
            (&[random(2, 64, 2)], false, "a header and the end of a file"),
            (&[random(5, 8, 1), random(5, 8, 1)], false, "most of it is in memory"),
            (&[one(), one(), scan()], false, "it is scanned"),
            (&[scan(), one(), one()], true, "it was scanned"),
            (&[pages(1, 2), pages(1, 30), pages(1, 2), pages(1, 30)], false, "runs, taken together"),
        ] {
            let mut leader = Leader::new(at(0));
            let mut file = file(&mut leader, reads);
            assert_eq!(takes(&mut leader, 9_000, &mut file), agrees, "{why}");
            assert_eq!(file.follows(), agrees);
        }
        let mut leader = Leader::new(at(0));
        let slow = Counts { accesses: 1, pages: 4, forward: 1, added: 4, ..Counts::default() };
        let began = Counts { jumps: 1, forward: 0, ..slow };
        let mut file = file(&mut leader, &[&[began][..], &[slow; 40], &[began], &[slow; 40]].concat());
        assert!(!takes(&mut leader, 9_000, &mut file), "a slow scan that went to another CPU");
    }

    #[test]
    fn a_scan_brings_what_it_reads() {
        let is = |kib, counts: Counts| {
            let verdict = Rule::default().decide(&Features::of(&counts, true)).expect("a verdict");
            reads(0, kib, &counts, &verdict).is_scan()
        };
        let large = Counts { accesses: 1, pages: 256, jumps: 1, added: 256, batches: 1, ..Counts::default() };
        assert!(is(128, scan()) && is(8, scan()) && is(128, large) && is(8, large), "one read of 1 MiB, too");
        let around = Counts { accesses: 4, pages: 60, jumps: 1, forward: 3, ..Counts::default() };
        assert!(!is(8, Counts { added: 2, ..around }), "faults map what is in memory around them");
        assert!(!is(128, Counts { added: 32, ..around }) && !is(512, Counts { added: 128, ..around }));
        assert!(is(65_536, Counts { added: 1024, ..scan() }), "of a device with 64 MiB, too");
        assert!(!is(8, random(100, 200, 100)) && !is(128, random(100, 3_200, 100)));
    }

    #[test]
    fn values_are_counted_in_pages_of_the_machine() {
        let verdict = Rule::default().decide(&Features::of(&scan(), true)).expect("a verdict");
        let (two, many) = (random(1, 2, 1), Counts { added: 100, jumps: 1, ..scan() });
        let large = |kib, counts| Reads { page_kib: 64, ..reads(0, kib, counts, &verdict) };
        assert_eq!(large(64, &two).gain(), -8.0, "two pages of 64 KiB in one piece or in two");
        assert_eq!(large(8, &two).gain(), -8.0, "no piece is smaller than a page");
        assert!(large(128, &many).is_scan(), "50 readaheads of 128 KiB");
        assert!(!reads(0, 128, &many, &verdict).is_scan(), "three");
    }

    #[test]
    fn none_follows_while_another_file_is_read_in_order() {
        let mut leader = Leader::new(at(0));
        let mut file = file(&mut leader, &[one(), one()]);
        note(&mut leader, 5_000, scan(), &mut Follower::default());
        assert!(!takes(&mut leader, 6_900, &mut file));
        assert!(judge(&mut leader, 6_900).is_none(), "it did not follow");
        assert!(takes(&mut leader, 7_000, &mut file));
    }

    #[test]
    fn all_leave_where_one_of_them_is_read_in_order_and_wait_longer_each_time() {
        let mut leader = Leader::new(at(0));
        let mut now = 1_000;
        for seconds in [30, 60, 120, 240, 480, 480] {
            let mut file = file(&mut leader, &[one(), one()]);
            assert!(takes(&mut leader, now, &mut file), "{seconds}");
            note(&mut leader, now + 250, scan(), &mut file);
            let why = judge(&mut leader, now + 250).expect("a reason");
            assert!(why.ends_with(&format!("than random reads gain; none follows for {seconds} s")), "{why}");
            assert!(judge(&mut leader, now + 500).is_none(), "once");
            file.leave(&why);
            file.refused();
            assert_eq!(file.leaves(), Some(&why[..]), "until it has its own value");
            file.reset();
            [one(), one()].iter().for_each(|counts| note(&mut leader, now, *counts, &mut file));
            assert!(!takes(&mut leader, now + 249 + 1000 * seconds, &mut file), "held");
            now += 250 + 1000 * seconds;
        }
    }

    #[test]
    fn runs_lose_by_a_small_value_and_random_reads_gain() {
        let verdict = Rule::default().decide(&Features::of(&scan(), true)).expect("a verdict");
        let gain = |added, batches| reads(0, 8, &random(1, added, batches), &verdict).gain();
        assert_eq!(gain(2, 1), 30.0, "40 pages and 10");
        assert_eq!(gain(20, 1), -60.0, "40 and 100");
        assert_eq!(gain(1024, 1), -3840.0, "1,280 and 5,120");
        assert_eq!(gain(6, 0), 10.0, "40 and 30: what extends an earlier piece");
        assert_eq!(gain(0, 0), 0.0, "all was in memory");
    }

    #[test]
    fn scans_among_many_random_reads_are_no_reason_to_leave() {
        // A scan of 1,024 pages asks for 512 pieces instead of 32, at 8 pages each: 3,840 pages. A random read saves 30.
        for (random_reads, leaves) in [(127, true), (129, false)] {
            let mut leader = Leader::new(at(0));
            let mut first = file(&mut leader, &[one(), one()]);
            let mut second = file(&mut leader, &[one(), one()]);
            assert!(takes(&mut leader, 2_000, &mut first) && takes(&mut leader, 2_000, &mut second));
            note(&mut leader, 2_250, random(random_reads, 2 * random_reads, random_reads), &mut first);
            note(&mut leader, 2_250, scan(), &mut second);
            assert_eq!(judge(&mut leader, 2_250).is_some(), leaves, "{random_reads}");
        }
    }

    #[test]
    fn those_who_followed_are_judged_by_their_own_random_reads() {
        let judged = |before: Counts, after: &[Counts]| {
            let mut leader = Leader::new(at(0));
            let mut refused = file(&mut leader, &[random(400, 12_800, 400), one()]);
            assert!(takes(&mut leader, 2_000, &mut refused));
            refused.refused();
            let half = Counts { accesses: before.accesses / 2, pages: before.pages / 2, ..before };
            let half = Counts { jumps: half.pages, added: before.added / 2, batches: before.batches / 2, ..half };
            let mut follower = file(&mut leader, &[half, half]);
            assert!(takes(&mut leader, 2_000, &mut follower));
            after.iter().for_each(|counts| note(&mut leader, 2_250, *counts, &mut follower));
            assert!(judge(&mut leader, 2_900).is_none(), "too soon");
            judge(&mut leader, 3_100)
        };
        let runs = Counts { accesses: 64, pages: 640, jumps: 40, added: 640, batches: 40, ..Counts::default() };
        assert!(judged(random(2, 64, 2), &[random(100, 200, 100)]).is_none(), "40 pages for each, then 10");
        let why = judged(random(100, 320, 10), &[random(100, 120, 60)]).expect("most of it was used later");
        assert!(why.starts_with("cost rose from 4.00 to 6.00 pages for each demanded; none"), "{why}");
        assert!(judged(random(100, 320, 10), &[random(60, 72, 36)]).is_none(), "too few to say");
        assert!(judged(random(100, 320, 10), &[runs, random(100, 120, 60)]).is_some(), "runs are no measure");
    }

    #[test]
    fn what_was_read_before_a_value_was_set_is_no_loss_and_no_cost() {
        let verdict = Rule::default().decide(&Features::of(&one(), true)).expect("a verdict");
        let counts = random(100, 3_200, 100);
        let reads = |since| Reads { since: at(since), ..reads(2_250, 8, &counts, &verdict) };
        for (since, left) in [(2_000, false), (2_001, true)] {
            let mut leader = Leader::new(at(0));
            let mut follower = file(&mut leader, &[one(), one()]);
            assert!(takes(&mut leader, 2_000, &mut follower));
            leader.note(reads(since), &mut follower);
            assert_eq!(judge(&mut leader, 2_250).is_some(), left, "{since}");
            assert!(left || judge(&mut leader, 3_100).is_none(), "nor is it what following costs");
            assert_eq!(leader.trial.after.pages, 0);
        }
    }

    #[test]
    fn cost_before_is_of_random_reads_too() {
        let mut leader = Leader::new(at(0));
        let run = Counts { accesses: 6, pages: 24, jumps: 1, forward: 5, added: 32, batches: 1, ..Counts::default() };
        let single = random(2, 2, 2);
        let mut follower = file(&mut leader, &[run, single, single]);
        assert!(takes(&mut leader, 2_000, &mut follower), "28 pages, 5 jumps");
        note(&mut leader, 2_250, random(100, 100, 100), &mut follower);
        assert_eq!(judge(&mut leader, 3_100), None, "single pages cost as much as before");
    }

    #[test]
    fn a_file_that_followed_a_group_before_it_was_forgotten_is_in_no_trial() {
        let mut leader = Leader::new(at(0));
        let mut follower = file(&mut leader, &[one(), one()]);
        assert!(takes(&mut leader, 2_000, &mut follower));
        note(&mut leader, 2_250, one(), &mut follower);
        let mut leader = Leader::new(at(70_000));
        note(&mut leader, 70_250, random(100, 200, 100), &mut follower);
        assert_eq!(judge(&mut leader, 72_000), None);
    }

    #[test]
    fn a_trial_that_passed_is_over_and_the_next_one_is_judged_again() {
        let mut leader = Leader::new(at(0));
        let mut first = file(&mut leader, &[one(), one()]);
        assert!(takes(&mut leader, 2_000, &mut first));
        note(&mut leader, 2_250, random(100, 200, 100), &mut first);
        assert!(judge(&mut leader, 3_100).is_none() && !first.is_in(&leader));
        note(&mut leader, 3_250, random(100, 200, 100), &mut first);
        let mut second = file(&mut leader, &[random(50, 160, 5), random(50, 160, 5)]);
        assert!(takes(&mut leader, 3_500, &mut second));
        note(&mut leader, 4_000, random(100, 120, 60), &mut second);
        let dismissal = leader.judge(at(4_600), &Rule::default()).expect("it costs more");
        assert!(dismissal.why.contains("from 4.00 to 6.00"));
        assert!(second.is_dismissed(&dismissal) && !first.is_dismissed(&dismissal), "the first was found right");
        note(&mut leader, 4_750, scan(), &mut first);
        let dismissal = leader.judge(at(4_750), &Rule::default()).expect("a scan");
        assert!(first.is_dismissed(&dismissal) && second.is_dismissed(&dismissal), "all");
    }

    #[test]
    fn a_file_whose_own_change_was_taken_back_follows_nobody() {
        let mut leader = Leader::new(at(0));
        let mut file = Follower::default();
        file.stay();
        file.reset();
        [one(), one()].iter().for_each(|counts| note(&mut leader, 1_000, *counts, &mut file));
        assert!(!takes(&mut leader, 9_000, &mut file));
    }
}
