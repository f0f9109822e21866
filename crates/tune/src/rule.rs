// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deciders: from the features of a window to a value. The threshold rule is the baseline that every model has to beat, and
//! the default as long as none does.

use crate::feature::Features;

/// Values that are set, in KiB.
pub const LADDER_KIB: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];
/// The kernel's default, which suits scans.
pub const DEFAULT_KIB: u32 = 128;

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

/// Decides on a window.
pub trait Decider {
    /// Name for explanations.
    fn name(&self) -> &str;
    /// What to do; None where the window says too little.
    fn decide(&self, features: &Features) -> Option<Verdict>;
}

/// The rule: a run's length decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Up to so many pages between jumps reads are random.
    pub random_pages: f64,
    /// From so many pages on they are in order.
    pub sequential_pages: f64,
    /// The value for random reads.
    pub random_kib: u32,
}

impl Default for Rule {
    fn default() -> Self {
        Rule { random_pages: 6.0, sequential_pages: 48.0, random_kib: 8 }
    }
}

/// The smallest value of the ladder that holds `kib`.
pub fn on_ladder(kib: f64) -> u32 {
    LADDER_KIB.into_iter().find(|level| f64::from(*level) >= kib).unwrap_or(LADDER_KIB[LADDER_KIB.len() - 1])
}

/// Certainty that grows with what was seen: 4 observations give 0.6, 16 give 0.8, 100 give 0.92.
pub(crate) fn certainty(observations: u64) -> f64 {
    1.0 - 0.8 / (observations.max(1) as f64).sqrt()
}

/// Pages that one read in vain must bring to be proof enough: 16 MiB.
const WASTED_PAGES: f64 = 4096.0;

/// Certainty that reads are scattered. Where each brings many megabytes of which next to nothing is used, two are enough:
/// more would take seconds.
pub(crate) fn scattered(features: &Features) -> f64 {
    let counted = certainty(features.jumps);
    let each = features.added as f64 / features.jumps.max(1) as f64;
    let wasted = features.jumps >= 2 && each >= WASTED_PAGES && features.used_share < 0.02;
    if wasted { counted.max(0.86) } else { counted }
}

impl Decider for Rule {
    fn name(&self) -> &str {
        "rule"
    }

    fn decide(&self, features: &Features) -> Option<Verdict> {
        let Features { run_pages, reverse_share, accesses, .. } = *features;
        if accesses == 0 {
            return None;
        }
        let (class, kib, confidence) = if run_pages <= self.random_pages {
            (Class::Random, Some(self.random_kib), scattered(features))
        } else if run_pages < self.sequential_pages {
            (Class::Runs, Some(on_ladder(2.0 * run_pages).min(DEFAULT_KIB)), scattered(features))
        } else if reverse_share > 0.5 {
            (Class::Reverse, None, certainty(accesses))
        } else {
            (Class::Sequential, None, certainty(accesses))
        };
        let why = format!(
            "{}: {run_pages:.1} pages between jumps, {accesses} demands, {:.0} % of the pages read were used",
            class.name(),
            100.0 * features.used_share,
        );
        Some(Verdict { class, kib, confidence, why })
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
        assert_eq!([0.0, 8.0, 9.0, 128.0, 129.0, 1e9].map(on_ladder), [8, 8, 16, 128, 256, 2048]);
    }
}
