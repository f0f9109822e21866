// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threshold rule for NFS. A run's length decides, as on disks; what differs is the distance.
//!
//! - In order: as much as the path takes, found by trial (`path.rs`). The kernel's 128 KiB leave a far server idle.
//! - Runs: twice the run, bounded by latency times rate instead of by 128 KiB. Bytes that arrive within a latency are
//!   cheaper than another round trip.
//! - Random: 8 KiB, as on disks. Each fault waits for a round trip anyway, and bytes that nobody wants fill the link.

use std::cell::RefCell;
use std::time::Duration;

use crate::feature::Features;
use crate::govern::JUMP_PAGES;
use crate::nfs::path::{Path, level};
use crate::rule::{Class, DEFAULT_KIB, Decider, FileReads, LADDER_KIB, Rule, Verdict, certainty, scattered};

/// Largest value for files that nobody has seen: one of them may be read at random, and waits for all of it at each
/// fault until it is set itself.
const UNSEEN_MAX_KIB: u32 = 512;
/// What a jump costs at most, in KiB, however long the path.
const JUMP_MAX_KIB: f64 = 2048.0;

/// The rule, and the path that it knows.
#[derive(Debug)]
pub struct NfsRule {
    rule: Rule,
    path: RefCell<Path>,
}

impl NfsRule {
    /// For a mount with this path.
    pub fn new(path: Path) -> NfsRule {
        NfsRule { rule: Rule::default(), path: RefCell::new(path) }
    }

    /// For a machine whose pages have `page_kib` KiB.
    #[cfg(test)]
    pub(crate) fn of_pages(path: Path, page_kib: u32) -> NfsRule {
        NfsRule { rule: Rule::of_pages(page_kib), ..NfsRule::new(path) }
    }

    /// What is known of the path now.
    pub fn path(&self) -> Path {
        self.path.borrow().clone()
    }

    /// No value is smaller: a page.
    pub(crate) fn least_kib(&self) -> u32 {
        self.rule.page_kib()
    }

    fn runs_kib(&self, run_pages: f64, product_kib: f64) -> u32 {
        let wanted = 2.0 * f64::from(self.rule.page_kib()) * run_pages;
        let bound = product_kib.max(f64::from(DEFAULT_KIB));
        let step = LADDER_KIB.into_iter().find(|kib| f64::from(*kib) >= wanted.min(bound));
        step.unwrap_or_else(|| level(wanted.min(bound)))
    }
}

impl Decider for NfsRule {
    fn name(&self) -> &str {
        "rule"
    }

    fn decide(&self, features: &Features) -> Option<Verdict> {
        let Features { run_pages, reverse_share, accesses, .. } = *features;
        if accesses == 0 {
            return None;
        }
        let path = self.path.borrow();
        let (class, kib, confidence) = if run_pages <= self.rule.random_pages() {
            (Class::Random, self.rule.random_kib(), scattered(features))
        } else if run_pages < self.rule.sequential_pages() {
            (Class::Runs, self.runs_kib(run_pages, path.product_kib()), scattered(features))
        } else {
            let class = if reverse_share > 0.5 { Class::Reverse } else { Class::Sequential };
            (class, path.scan_kib(), certainty(accesses))
        };
        let trial =
            if path.is_trying() && matches!(class, Class::Sequential | Class::Reverse) { ", a trial" } else { "" };
        let why = format!(
            "{}{trial}: {run_pages:.1} pages between jumps, {accesses} demands; a read takes {:.2} ms, up to {:.1} MB/s \
             came",
            class.name(),
            1e3 * features.rpcs.latency().unwrap_or_else(|| path.latency()),
            path.rate_max().max(features.rpcs.rate()) / 1e6,
        );
        Some(Verdict { class, kib: Some(kib), confidence, why })
    }

    fn ordered_kib(&self, original_kib: u32) -> u32 {
        // Files that nobody has seen are no place for a trial.
        let proven = self.path.borrow().proven_kib();
        proven.map_or(original_kib, |kib| kib.min(UNSEEN_MAX_KIB)).max(original_kib.max(DEFAULT_KIB))
    }

    fn jump_pages(&self) -> f64 {
        let page_kib = f64::from(self.rule.page_kib());
        (self.path.borrow().product_kib() / page_kib).clamp(JUMP_PAGES, JUMP_PAGES.max(JUMP_MAX_KIB / page_kib))
    }

    /// Scans are measured by the path: their pages come in batches as large as a window, so that the cost of one window
    /// says little.
    fn is_judged(&self, class: Class) -> bool {
        !matches!(class, Class::Sequential | Class::Reverse)
    }

    fn note(&self, now: Duration, reading: &FileReads) {
        // What is not decided yet belongs to no side.
        let Some(class) = reading.class else { return };
        let ordered = matches!(class, Class::Sequential | Class::Reverse);
        self.path.borrow_mut().note(now, reading.file, ordered, reading.kib, &reading.rpcs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::Dev;
    use crate::nfs::rpc::Rpcs;
    use crate::observe::Counts;
    use crate::openfile::FileId;

    fn decide(rule: &NfsRule, pages: u64) -> (Class, Option<u32>) {
        let counts = Counts { accesses: 400, pages: 400 * pages, jumps: 400, added: 400 * pages, ..Counts::default() };
        let verdict = rule.decide(&Features::of(&counts, true)).expect("a verdict");
        (verdict.class, verdict.kib)
    }

    /// 100 MB/s with 5 ms: 500 KB are in flight.
    fn far() -> NfsRule {
        let rule = NfsRule::new(Path::new(128, false));
        let rpcs = Rpcs { matched: 100, latency_ns: 500_000_000, bytes: 25_000_000, ..Rpcs::default() };
        let file = FileId { dev: Dev { major: 0, minor: 50 }, inode: 1 };
        for tick in 0..10 {
            let now = Duration::from_millis(250 * tick);
            rule.note(now, &FileReads { file, class: Some(Class::Runs), kib: 128, rpcs });
        }
        rule
    }

    #[test]
    fn each_way_of_reading_has_its_value() {
        let near = NfsRule::new(Path::new(128, true));
        assert_eq!(decide(&near, 1), (Class::Random, Some(8)));
        assert_eq!(decide(&near, 8), (Class::Runs, Some(64)));
        assert_eq!(decide(&near, 40), (Class::Runs, Some(128)), "bounded as on a disk");
        assert_eq!(decide(&near, 4000), (Class::Sequential, Some(128)));
        assert!(near.decide(&Features::of(&Counts::default(), true)).is_none());
    }

    #[test]
    fn large_pages_make_the_same_bytes() {
        for (page_kib, random_kib, pages) in [(4, 8, 40), (16, 16, 10), (64, 64, 7)] {
            let large = NfsRule { path: far().path, ..NfsRule::of_pages(Path::new(128, false), page_kib) };
            assert_eq!(decide(&large, 1), (Class::Random, Some(random_kib)), "8 KiB, or a page");
            assert_eq!(decide(&large, pages), (Class::Runs, Some(512)), "twice the run, or the product");
            let jump_kib = large.jump_pages() * f64::from(page_kib);
            assert!((jump_kib - 488.0).abs() < 25.0, "{jump_kib}");
        }
    }

    #[test]
    fn a_long_way_allows_more_for_runs_and_makes_jumps_dear() {
        let far = far();
        assert_eq!(decide(&far, 1), (Class::Random, Some(8)));
        assert_eq!(decide(&far, 40), (Class::Runs, Some(512)), "320 KiB are below the product");
        assert!((far.jump_pages() - 122.0).abs() < 1.0, "{}", far.jump_pages());
        assert_eq!(NfsRule::new(Path::new(128, true)).jump_pages(), JUMP_PAGES);
    }

    #[test]
    fn new_files_begin_with_what_is_settled_and_not_with_a_trial() {
        let rule = NfsRule::new(Path::new(128, true));
        assert_eq!((rule.ordered_kib(8), rule.ordered_kib(1024)), (128, 1024));
    }
}
