// SPDX-License-Identifier: MIT OR Apache-2.0
//! From verdicts to changes, for one file: when a window is full, when a verdict is trusted, and when a change is taken back.
//!
//! A window ends after a second, or sooner where the verdict changes and is certain. A verdict below the floor of confidence
//! waits for more, up to some seconds. After a change the next full window is compared with the one that led to it: where
//! the new value costs more, the old one returns and the file is left alone for a while, longer each time.

use std::time::Duration;

use crate::feature::Features;
use crate::observe::Counts;
use crate::rule::{Class, DEFAULT_KIB, Decider, Verdict};

/// A window's length.
pub const WINDOW: Duration = Duration::from_secs(1);
/// How long an uncertain window may grow.
const WINDOW_MAX: Duration = Duration::from_secs(4);
/// Verdicts below are not acted on.
const FLOOR: f64 = 0.6;
/// Verdicts from here on are acted on at once; between, the next window must agree.
const CERTAIN: f64 = 0.85;
/// Fewer pages read in a window are not worth a change.
const ADDED_MIN: u64 = 32;
/// What bringing something costs beside its pages, in pages: a disk's latency against its throughput.
const SEEK_PAGES: f64 = 8.0;
/// A change is taken back where it costs so many times more.
const WORSE: f64 = 1.25;
const HOLD: Duration = Duration::from_secs(30);
const HOLD_MAX: Duration = Duration::from_secs(480);
/// Two opposite changes within this time are a mixture, not a new phase.
const FLAP: Duration = Duration::from_secs(4);

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
    began: Duration,
    window: Counts,
    class: Option<Class>,
    pending: Option<u32>,
    original_kib: u32,
    current_kib: u32,
    previous_kib: u32,
    changed_at: Option<Duration>,
    cost_before: Option<(Class, f64)>,
    hold_until: Duration,
    hold: Duration,
}

/// What reading costs at the value in force, in pages for each page demanded.
pub fn cost(features: &Features) -> f64 {
    features.added_per_page + SEEK_PAGES * features.batches_per_page
}

impl Governor {
    /// A file that has `kib` when we first see it.
    pub fn new(now: Duration, kib: u32) -> Governor {
        Governor {
            began: now,
            window: Counts::default(),
            class: None,
            pending: None,
            original_kib: kib,
            current_kib: kib,
            previous_kib: kib,
            changed_at: None,
            cost_before: None,
            hold_until: now,
            hold: HOLD,
        }
    }

    /// The value in force.
    pub fn current_kib(&self) -> u32 {
        self.current_kib
    }

    /// The value from before us.
    pub fn original_kib(&self) -> u32 {
        self.original_kib
    }

    /// How the file is read, as far as decided.
    pub fn class(&self) -> Option<Class> {
        self.class
    }

    /// Takes a file's true value in, as its descriptors show it, before the first change.
    pub fn correct(&mut self, kib: u32) {
        if self.changed_at.is_none() {
            self.original_kib = kib;
            self.current_kib = kib;
            self.previous_kib = kib;
        }
    }

    fn close(&mut self, now: Duration) -> Counts {
        self.began = now;
        std::mem::take(&mut self.window)
    }

    /// Takes in what happened since the last call. Proposes at most one change; the caller makes it and says `changed`.
    pub fn step(&mut self, now: Duration, counts: &Counts, demands: bool, decider: &dyn Decider) -> Option<Proposal> {
        self.window = self.window.plus(*counts);
        let age = now.saturating_sub(self.began);
        let features = Features::of(&self.window, demands);
        let verdict = decider.decide(&features);
        let trusted = verdict.as_ref().is_some_and(|v| v.confidence >= FLOOR);
        let early = verdict.as_ref().is_some_and(|v| v.confidence >= CERTAIN && Some(v.class) != self.class);
        if age < WINDOW && !early {
            return None;
        }
        if !trusted {
            if age >= WINDOW_MAX {
                self.close(now);
            }
            return None;
        }
        self.close(now);
        let verdict = verdict?;
        if let Some(back) = self.judge(now, &features, &verdict) {
            return Some(back);
        }
        self.propose(now, &features, &verdict)
    }

    /// After a change: does it cost more than before?
    fn judge(&mut self, now: Duration, features: &Features, verdict: &Verdict) -> Option<Proposal> {
        let (class, before) = self.cost_before?;
        if now < self.changed_at? + WINDOW {
            return None;
        }
        self.cost_before = None;
        let after = cost(features);
        if class != verdict.class || after <= WORSE * before {
            return None;
        }
        self.hold_until = now + self.hold;
        self.hold = (2 * self.hold).min(HOLD_MAX);
        let why = format!(
            "cost rose from {before:.2} to {after:.2} pages for each one demanded; left alone for {} s",
            (self.hold_until - now).as_secs()
        );
        Some(Proposal { kind: "rollback", to_kib: self.previous_kib, why, confidence: verdict.confidence })
    }

    fn propose(&mut self, now: Duration, features: &Features, verdict: &Verdict) -> Option<Proposal> {
        self.class = Some(verdict.class);
        // In order the device's own value is right, unless it is below what the kernel would take.
        let to_kib = verdict.kib.unwrap_or(self.original_kib.max(DEFAULT_KIB));
        if to_kib == self.current_kib || features.added < ADDED_MIN || now < self.hold_until {
            self.pending = None;
            return None;
        }
        let agreed = self.pending == Some(to_kib);
        self.pending = Some(to_kib);
        let flaps = to_kib == self.previous_kib && self.changed_at.is_some_and(|at| now < at + FLAP);
        if (verdict.confidence < CERTAIN || flaps) && !agreed {
            return None;
        }
        self.pending = None;
        self.cost_before = Some((verdict.class, cost(features)));
        Some(Proposal { kind: "decision", to_kib, why: verdict.why.clone(), confidence: verdict.confidence })
    }

    /// The proposal was carried out.
    pub fn changed(&mut self, now: Duration, kib: u32) {
        self.previous_kib = self.current_kib;
        self.current_kib = kib;
        self.changed_at = Some(now);
        self.close(now);
    }

    /// The proposal could not be carried out: ask again only after a while.
    pub fn refused(&mut self, now: Duration, wait: Duration) {
        self.cost_before = None;
        self.hold_until = now + wait;
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

    #[test]
    fn going_back_and_forth_needs_two_windows() {
        let mut governor = Governor::new(at(0), 128);
        assert_eq!(step(&mut governor, 1000, random(500, 32)), Some(8));
        assert_eq!(step(&mut governor, 2000, scan(5000)), None);
        assert_eq!(step(&mut governor, 3000, scan(5000)), Some(128));
    }
}
