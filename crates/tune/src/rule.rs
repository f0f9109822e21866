// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deciders: from the features of a window to a value. The threshold rule is the baseline that every model has to beat,
//! and the default as long as none does.

use std::time::Duration;

use linnet_core::{ReadRule, ReadVerdict, Reading, certainty_ppm};

use crate::feature::Features;
use crate::govern::JUMP_PAGES;
use crate::nfs::rpc::Rpcs;
use crate::openfile::FileId;

/// Values that are set, in KiB.
pub const LADDER_KIB: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];
/// The kernel's default, which suits scans.
pub const DEFAULT_KIB: u32 = linnet_core::READAHEAD_DEFAULT_KIB;

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Single pages or small blocks, anywhere.
    Random,
    /// Runs between jumps.
    Runs,
    /// In order.
    Sequential,
    /// Backwards.
    Reverse,
}

impl Class {
    /// The core's reading.
    pub(crate) fn of(reading: Reading) -> Class {
        match reading {
            Reading::Random => Class::Random,
            Reading::Runs => Class::Runs,
            Reading::Sequential => Class::Sequential,
            Reading::Reverse => Class::Reverse,
        }
    }

    /// As the core has it.
    pub(crate) fn reading(self) -> Reading {
        match self {
            Class::Random => Reading::Random,
            Class::Runs => Reading::Runs,
            Class::Sequential => Reading::Sequential,
            Class::Reverse => Reading::Reverse,
        }
    }

    /// As explanations print it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Random => "random",
            Class::Runs => "runs",
            Class::Sequential => "sequential",
            Class::Reverse => "reverse",
        }
    }
}

/// What a decider says of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// How the file is read.
    pub class: Class,
    /// The value for it; None: the one that the device had before us, or the kernel's default where that is smaller.
    pub kib: Option<u32>,
    /// 0 to 1.
    pub confidence: f64,
    /// In words, for the operator.
    pub why: String,
}

/// What became of one file since the last look.
#[derive(Debug, Clone, Copy)]
pub struct FileReads {
    /// The file.
    pub file: FileId,
    /// How it is read, as far as decided.
    pub class: Option<Class>,
    /// Its value.
    pub kib: u32,
    /// What an NFS client sent for it; nothing for files of a local disk.
    pub rpcs: Rpcs,
}

/// Decides on a window.
pub trait Decider {
    /// Name for explanations.
    fn name(&self) -> &str;
    /// What to do; None where the window says too little.
    fn decide(&self, features: &Features) -> Option<Verdict>;
    /// What files begin with on a device where nearly everything is read in order.
    fn ordered_kib(&self, original_kib: u32) -> u32 {
        original_kib.max(DEFAULT_KIB)
    }
    /// What bringing something from elsewhere costs beside its pages, in pages: latency against throughput.
    fn jump_pages(&self) -> f64 {
        JUMP_PAGES
    }
    /// Whether a change for files of this class is taken back where it brings more for each page demanded. A decider
    /// that measures what its changes bring says no.
    fn is_judged(&self, _class: Class) -> bool {
        true
    }
    /// Takes note of each file that was read since the last look.
    fn note(&self, _now: Duration, _reading: &FileReads) {}
}

/// The rule: a run's length decides (`core/verdict.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule(ReadRule);

/// KiB of a page of this machine.
pub(crate) fn page_kib() -> u32 {
    u32::try_from(rustix::param::page_size() / 1024).expect("a small number")
}

impl Default for Rule {
    fn default() -> Rule {
        Rule::of_pages(page_kib())
    }
}

impl Rule {
    /// The rule of a machine whose pages have `page_kib` KiB.
    pub(crate) fn of_pages(page_kib: u32) -> Rule {
        Rule(ReadRule::new(page_kib))
    }

    /// KiB of a page.
    pub(crate) fn page_kib(&self) -> u32 {
        self.0.page_kib
    }

    /// Up to so many pages between jumps reads are random.
    pub(crate) fn random_pages(&self) -> f64 {
        f64::from(self.0.random_pages)
    }

    /// From so many pages on they are in order.
    pub(crate) fn sequential_pages(&self) -> f64 {
        f64::from(self.0.sequential_pages)
    }

    /// What a model's value is for, the value or one page, and how far the model is to be trusted, if it is so sure (0 to 1,
    /// in millionths).
    pub(crate) fn of_model(&self, features: &Features, kib: u32, sure: f64) -> Option<(Class, Option<u32>, f64)> {
        let found = self.0.model_verdict(&features.pattern, kib, (1e6 * sure).round() as u32)?;
        Some((Class::of(found.reading), found.kib, share_of(found.confidence_ppm)))
    }

    /// The value for random reads.
    pub fn random_kib(&self) -> u32 {
        self.0.random_kib
    }
}

/// A share of millionths.
pub(crate) fn share_of(ppm: u32) -> f64 {
    f64::from(ppm) / 1e6
}

/// Certainty that grows with what was seen: 4 observations give 0.6, 16 give 0.8, 100 give 0.92.
pub(crate) fn certainty(observations: u64) -> f64 {
    share_of(certainty_ppm(observations))
}

/// Certainty that reads are scattered. Where each brings many megabytes of which next to nothing is used, two are
/// enough: more would take seconds.
pub(crate) fn scattered(features: &Features) -> f64 {
    share_of(features.pattern.scattered_ppm())
}

impl Decider for Rule {
    fn name(&self) -> &str {
        "rule"
    }

    fn decide(&self, features: &Features) -> Option<Verdict> {
        let ReadVerdict { reading, kib, confidence_ppm } = self.0.decide(&features.pattern)?;
        let class = Class::of(reading);
        let Features { run_pages, accesses, .. } = *features;
        let why = format!(
            "{}: {run_pages:.1} pages between jumps, {accesses} demands, {:.0} % of the pages read were used",
            class.name(),
            100.0 * features.used_share,
        );
        Some(Verdict { class, kib, confidence: share_of(confidence_ppm), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Counts;

    fn decide(counts: Counts) -> Option<Verdict> {
        Rule::default().decide(&Features::of(&counts, true))
    }

    #[test]
    fn each_way_of_reading_has_its_value() {
        let random = decide(Counts { accesses: 500, pages: 700, jumps: 300, forward: 200, ..Counts::default() });
        let random = random.expect("a verdict");
        assert_eq!((random.class, random.kib), (Class::Random, Some(8)));
        assert!(random.confidence > 0.9);
        let scan = decide(Counts { accesses: 500, pages: 8000, forward: 499, jumps: 1, ..Counts::default() });
        assert_eq!(scan.map(|v| (v.class, v.kib)), Some((Class::Sequential, None)));
        let back =
            decide(Counts { accesses: 500, pages: 800, reverse: 490, forward: 9, jumps: 1, ..Counts::default() });
        assert_eq!(back.map(|v| (v.class, v.kib)), Some((Class::Reverse, None)));
        let runs = decide(Counts { accesses: 500, pages: 1600, jumps: 100, forward: 400, ..Counts::default() });
        assert_eq!(runs.map(|v| (v.class, v.kib)), Some((Class::Runs, Some(32))));
        assert_eq!(decide(Counts::default()), None);
    }

    #[test]
    fn values_are_bytes_whatever_a_page_has_and_no_less_than_a_page() {
        let kib = |page_kib, run_pages: u64| {
            let counts = Counts { accesses: 500, pages: 100 * run_pages, jumps: 100, ..Counts::default() };
            Rule::of_pages(page_kib).decide(&Features::of(&counts, true)).and_then(|verdict| verdict.kib)
        };
        assert_eq!([4, 16, 64].map(|page_kib| kib(page_kib, 8)), [16, 64, 128].map(Some), "half of eight pages");
        assert_eq!([4, 16, 64].map(|page_kib| kib(page_kib, 1)), [8, 16, 64].map(Some));
        let features = Features::of(&Counts { accesses: 500, pages: 500, jumps: 500, ..Counts::default() }, true);
        let of_model = |page_kib| Rule::of_pages(page_kib).of_model(&features, 8, 1.0).expect("a verdict");
        for page_kib in [4, 16, 64] {
            let (class, kib, _) = of_model(page_kib);
            assert_eq!((class, kib), (Class::Random, Some(page_kib.max(8))));
        }
    }

    #[test]
    fn few_observations_are_not_trusted() {
        let one = decide(Counts { accesses: 1, pages: 1, jumps: 1, ..Counts::default() }).expect("a verdict");
        assert!(one.confidence < 0.3);
        let few = decide(Counts { accesses: 5, pages: 5, jumps: 5, ..Counts::default() }).expect("a verdict");
        assert!((0.6..0.7).contains(&few.confidence));
    }

    #[test]
    fn two_reads_that_bring_64_mib_each_for_nothing_are_enough() {
        let huge = |jumps| Counts {
            accesses: jumps,
            pages: jumps,
            jumps,
            added: 16_384 * jumps,
            used: jumps,
            ..Counts::default()
        };
        assert!(decide(huge(1)).expect("a verdict").confidence < 0.6, "one may be the start of a scan");
        assert!(decide(huge(2)).expect("a verdict").confidence > 0.85);
        let scans = Counts { accesses: 2, pages: 2, jumps: 2, added: 32_768, used: 16_384, ..Counts::default() };
        assert!(decide(scans).expect("a verdict").confidence < 0.6, "half of it was used");
    }

    #[test]
    fn values_stay_on_the_ladder() {
        for pages in 1..64 {
            let runs = Counts { accesses: 400, pages: 100 * pages, jumps: 100, forward: 300, ..Counts::default() };
            let kib = decide(runs).expect("a verdict").kib;
            assert!(kib.is_none_or(|kib| LADDER_KIB.contains(&kib) && kib <= DEFAULT_KIB), "{pages} pages: {kib:?}");
        }
    }
}
