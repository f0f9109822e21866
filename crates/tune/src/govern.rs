// SPDX-License-Identifier: MIT OR Apache-2.0
//! From verdicts to changes, for one file: when a window is full, when a verdict is trusted, and when a change is taken
//! back.
//!
//! A window ends after a second, or sooner where the verdict changes and is certain. A verdict below the floor of
//! confidence waits for more, up to some seconds. After a change the next full window is compared with the one that led
//! to it: where the new value costs more, the old one returns and the file is left alone for a while, longer each time.
//! The core has the rules (`core/govern.c`), for the kernel module too.

use std::time::Duration;

use linnet_core::{ReadGovernor, ReadPattern, ReadVerdict};

use crate::feature::Features;
use crate::nfs::rpc::Rpcs;
use crate::observe::Counts;
use crate::rule::{Class, Decider, share_of};

/// A window's length.
pub const WINDOW: Duration = Duration::from_nanos(ReadGovernor::WINDOW_NS);

/// What bringing something from elsewhere costs on a disk beside its pages, in pages.
pub const JUMP_PAGES: f64 = ReadGovernor::JUMP_PAGES as f64;

/// A change that should be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// "decision" or "rollback".
    pub kind: &'static str,
    /// The value to set.
    pub to_kib: u32,
    /// Why, in words.
    pub why: String,
    /// 0 to 1.
    pub confidence: f64,
}

/// One file under one control group.
#[derive(Debug)]
pub struct Governor {
    core: ReadGovernor,
    rpcs: Rpcs,
}

/// The pattern with the costs that the core compares: none where changes are not judged by cost.
fn costs(pattern: ReadPattern, judged: bool) -> ReadPattern {
    if judged { pattern } else { ReadPattern { added_each_q16: 0, batches_each_q16: 0, ..pattern } }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Governor {
    /// A file that has `kib` when we first see it.
    pub fn new(now: Duration, kib: u32) -> Governor {
        Governor { core: ReadGovernor::new(ns(now), kib), rpcs: Rpcs::default() }
    }

    /// The value in force.
    pub fn current_kib(&self) -> u32 {
        self.core.current_kib()
    }

    /// The value from before us.
    pub fn original_kib(&self) -> u32 {
        self.core.original_kib()
    }

    /// How the file is read, as far as decided.
    pub fn class(&self) -> Option<Class> {
        self.core.reading().map(Class::of)
    }

    /// True while the file is left alone, after a rollback or a refusal.
    pub fn is_held(&self, now: Duration) -> bool {
        self.core.is_held(ns(now))
    }

    /// Takes a file's true value in, as its descriptors show it, before the first change.
    pub fn correct(&mut self, kib: u32) {
        self.core.correct(kib);
    }

    /// Takes in what an NFS client sent for the file since the last call. Call it before `step`.
    pub fn note_rpcs(&mut self, rpcs: &Rpcs) {
        self.rpcs = self.rpcs.plus(*rpcs);
    }

    /// Takes in what happened since the last call. Proposes at most one change; the caller makes it and says `changed`.
    pub fn step(&mut self, now: Duration, counts: &Counts, demands: bool, decider: &dyn Decider) -> Option<Proposal> {
        let features = Features { rpcs: self.rpcs, ..Features::of(self.core.add(counts), demands) };
        let verdict = decider.decide(&features);
        let asked = verdict.as_ref().map(|verdict| ReadVerdict {
            reading: verdict.class.reading(),
            kib: verdict.kib,
            confidence_ppm: (verdict.confidence.clamp(0.0, 1.0) * 1e6).round() as u32,
        });
        let judged = verdict.as_ref().is_none_or(|verdict| decider.is_judged(verdict.class));
        self.core.set_jump_pages_q16((decider.jump_pages() * 65_536.0) as u32);
        let proposal = self.core.step(ns(now), &costs(features.pattern, judged), asked);
        if self.core.add(&Counts::default()).is_idle() {
            self.rpcs = Rpcs::default();
        }
        let proposal = proposal?;
        let confidence = share_of(proposal.confidence_ppm);
        let Some((before, after, hold)) = proposal.rollback else {
            return Some(Proposal { kind: "decision", to_kib: proposal.to_kib, why: verdict?.why, confidence });
        };
        let why = format!(
            "cost rose from {:.2} to {:.2} pages for each one demanded; left alone for {} s",
            before as f64 / 65_536.0,
            after as f64 / 65_536.0,
            hold / 1_000_000_000
        );
        Some(Proposal { kind: "rollback", to_kib: proposal.to_kib, why, confidence })
    }

    /// The proposal was carried out.
    pub fn changed(&mut self, now: Duration, kib: u32) {
        self.core.changed(ns(now), kib);
        self.rpcs = Rpcs::default();
    }

    /// The proposal could not be carried out: ask again only after a while.
    pub fn refused(&mut self, now: Duration, wait: Duration) {
        self.core.refused(ns(now), ns(wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    fn random(accesses: u64, each: u64) -> Counts {
        Counts {
            accesses,
            pages: accesses,
            jumps: accesses,
            faults: accesses,
            added: each * accesses,
            used: accesses,
            batches: accesses,
            ..Counts::default()
        }
    }

    fn scan(pages: u64) -> Counts {
        Counts {
            accesses: pages / 16,
            pages,
            forward: pages / 16,
            added: pages,
            used: pages,
            batches: 1,
            ..Counts::default()
        }
    }

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn step(governor: &mut Governor, ms: u64, counts: Counts) -> Option<u32> {
        let proposal = governor.step(at(ms), &counts, true, &Rule::default())?;
        governor.changed(at(ms), proposal.to_kib);
        Some(proposal.to_kib)
    }

    #[test]
    fn a_change_is_followed_within_two_seconds_both_ways() {
        let mut governor = Governor::new(at(0), 128);
        assert_eq!(step(&mut governor, 500, random(100, 32)), Some(8), "certain: before the second is over");
        for ms in [1000, 1500, 2000, 2500] {
            assert_eq!(step(&mut governor, ms, random(500, 2)), None);
        }
        assert_eq!(step(&mut governor, 10_000, scan(5000)), Some(128));
        assert_eq!(step(&mut governor, 20_000, random(500, 32)), Some(8));
    }

    #[test]
    fn a_read_of_64_mib_in_each_second_is_understood_at_the_second_one() {
        let mut governor = Governor::new(at(0), 65_536);
        let quiet = Counts { added: 4096, ..Counts::default() };
        assert_eq!(step(&mut governor, 500, random(1, 16_384)), None);
        assert_eq!(step(&mut governor, 1000, quiet), None, "it may be the start of a scan");
        assert_eq!(step(&mut governor, 1500, random(1, 16_384)), Some(8));
    }

    #[test]
    fn a_change_that_costs_more_is_taken_back_and_not_tried_again_soon() {
        let mut governor = Governor::new(at(0), 128);
        // Nearly everything is in memory, and what readahead brings is used later.
        let warm =
            Counts { pages: 50_000, accesses: 50_000, jumps: 50_000, added: 640, batches: 20, ..Counts::default() };
        assert_eq!(step(&mut governor, 1000, warm), Some(8));
        let cold = Counts { added: 1200, batches: 600, ..warm };
        assert_eq!(step(&mut governor, 1500, cold), None);
        let proposal = governor.step(at(2500), &cold, true, &Rule::default()).expect("a rollback");
        assert_eq!((proposal.kind, proposal.to_kib), ("rollback", 128));
        assert!(proposal.why.contains("left alone for 30 s"), "{}", proposal.why);
        governor.changed(at(2500), 128);
        assert_eq!(step(&mut governor, 20_000, random(500, 32)), None);
        assert_eq!(step(&mut governor, 34_000, random(500, 32)), Some(8));
    }

    #[test]
    fn a_rollback_that_is_refused_is_proposed_again_after_the_wait() {
        let mut governor = Governor::new(at(0), 128);
        assert_eq!(step(&mut governor, 1000, random(500, 2)), Some(8));
        let dear = |governor: &mut Governor, ms| governor.step(at(ms), &random(500, 32), true, &Rule::default());
        assert_eq!(dear(&mut governor, 2500).map(|proposal| proposal.kind), Some("rollback"));
        governor.refused(at(2500), at(10_000));
        assert_eq!(dear(&mut governor, 11_000), None);
        let proposal = dear(&mut governor, 12_500).expect("the wait is over");
        assert_eq!((proposal.kind, proposal.to_kib), ("rollback", 128));
        assert!(proposal.why.ends_with("left alone for 30 s"), "{}", proposal.why);
    }

    #[test]
    fn what_reads_nothing_from_the_device_is_left_alone() {
        let mut governor = Governor::new(at(0), 128);
        assert_eq!(step(&mut governor, 1000, Counts { added: 3, ..random(10_000, 0) }), None);
    }

    #[test]
    fn a_scan_on_a_device_below_the_default_gets_the_default() {
        let mut governor = Governor::new(at(0), 8);
        assert_eq!(step(&mut governor, 1000, scan(5000)), Some(128));
        let mut governor = Governor::new(at(0), 65_536);
        assert_eq!(step(&mut governor, 1000, scan(5000)), None, "and is left alone above it");
    }

    /// The rule where the price of a jump changes meanwhile, as on a way to a server that others begin to use.
    struct Priced(f64);

    impl Decider for Priced {
        fn name(&self) -> &str {
            "priced"
        }
        fn decide(&self, features: &Features) -> Option<crate::rule::Verdict> {
            Rule::default().decide(features)
        }
        fn jump_pages(&self) -> f64 {
            self.0
        }
    }

    /// 1,000 pages touched at random, of which some had been brought before.
    fn touched(batches: u64, each: u64) -> Counts {
        Counts { added: batches * each, batches, ..random(1000, 0) }
    }

    fn priced(governor: &mut Governor, ms: u64, jump_pages: f64, counts: Counts) -> Option<&'static str> {
        let proposal = governor.step(at(ms), &counts, true, &Priced(jump_pages))?;
        governor.changed(at(ms), proposal.to_kib);
        Some(proposal.kind)
    }

    #[test]
    fn both_costs_of_a_change_are_at_the_price_when_it_was_made() {
        // 32 pages and 8 for the jump became 2 and 8, although a jump costs 488 pages by now.
        let mut governor = Governor::new(at(0), 128);
        assert_eq!(priced(&mut governor, 1000, JUMP_PAGES, random(500, 32)), Some("decision"));
        assert_eq!(priced(&mut governor, 2500, 488.0, random(500, 2)), None, "10 after 40");
        assert_eq!(governor.current_kib(), 8);
        // And the other way round: 0.5 x 100 + 16 became 100 + 2, although a jump costs little by now.
        let mut governor = Governor::new(at(0), 128);
        assert_eq!(priced(&mut governor, 1000, 100.0, touched(500, 32)), Some("decision"));
        assert_eq!(priced(&mut governor, 2500, JUMP_PAGES, touched(1000, 2)), Some("rollback"), "102 after 66");
    }

    #[test]
    fn each_of_two_changes_soon_after_each_other_has_its_own_price() {
        let mut governor = Governor::new(at(0), 128);
        assert_eq!(priced(&mut governor, 1000, JUMP_PAGES, touched(500, 32)), Some("decision"));
        assert_eq!(priced(&mut governor, 2500, JUMP_PAGES, touched(1000, 2)), None, "10 after 20, and judged");
        let order = Counts { accesses: 400, pages: 6400, forward: 400, added: 6400, batches: 50, ..Counts::default() };
        assert_eq!(priced(&mut governor, 6000, JUMP_PAGES, order), Some("decision"));
        // A second one to 8 KiB within 10 s of the first. At the first one's price it would stand.
        assert_eq!(
            priced(&mut governor, 8000, 100.0, touched(500, 32)),
            None,
            "a mixture, until the next window agrees"
        );
        assert_eq!(priced(&mut governor, 9000, 100.0, touched(500, 32)), Some("decision"));
        assert_eq!(priced(&mut governor, 10_500, 100.0, touched(1000, 2)), Some("rollback"), "102 after 66");
    }

    /// Says what it is told to, for any window.
    struct Told(Class, u32);

    impl Decider for Told {
        fn name(&self) -> &str {
            "told"
        }
        fn decide(&self, _: &Features) -> Option<crate::rule::Verdict> {
            Some(crate::rule::Verdict { class: self.0, kib: Some(self.1), confidence: 0.9, why: String::new() })
        }
    }

    #[test]
    fn another_value_for_scans_is_followed_at_once_and_one_for_random_reads_after_a_window() {
        for (class, counts, follows) in [
            (Class::Sequential, scan(5000), true),
            (Class::Reverse, scan(5000), true),
            (Class::Random, random(100, 32), false),
        ] {
            let mut governor = Governor::new(at(0), 128);
            let proposal = governor.step(at(100), &counts, true, &Told(class, 512)).expect("another way of reading");
            governor.changed(at(100), proposal.to_kib);
            let soon = governor.step(at(200), &counts, true, &Told(class, 2048));
            assert_eq!(soon.map(|proposal| proposal.to_kib), follows.then_some(2048), "{class:?}");
        }
    }

    #[test]
    fn going_back_and_forth_needs_two_windows() {
        let mut governor = Governor::new(at(0), 128);
        assert_eq!(step(&mut governor, 1000, random(500, 32)), Some(8));
        assert_eq!(step(&mut governor, 2000, scan(5000)), None);
        assert_eq!(step(&mut governor, 3000, scan(5000)), Some(128));
    }
}
