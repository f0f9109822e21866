// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the four outcomes of a decision, and computes shares from them.

use std::ops::AddAssign;

/// Counts of decisions, by what the I/O was or would have been. Every figure is a share in 0..=1, and 0 if nothing was
/// counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Confusion {
    /// Submitted, and fast.
    pub fast_submitted: u64,
    /// Submitted, but slow.
    pub false_submits: u64,
    /// Revoked, but would have been fast.
    pub false_revokes: u64,
    /// Revoked, and would have been slow.
    pub slow_revoked: u64,
}

impl Confusion {
    /// Counts one decision.
    pub fn record(&mut self, slow: bool, revoked: bool) {
        match (slow, revoked) {
            (false, false) => self.fast_submitted += 1,
            (true, false) => self.false_submits += 1,
            (false, true) => self.false_revokes += 1,
            (true, true) => self.slow_revoked += 1,
        }
    }

    /// All decisions counted.
    pub fn total(&self) -> u64 {
        self.fast() + self.slow()
    }

    /// Decisions about fast I/Os.
    pub fn fast(&self) -> u64 {
        self.fast_submitted + self.false_revokes
    }

    /// Decisions about slow I/Os.
    pub fn slow(&self) -> u64 {
        self.slow_revoked + self.false_submits
    }

    /// Share of correct decisions.
    pub fn accuracy(&self) -> f64 {
        share(self.fast_submitted + self.slow_revoked, self.total())
    }

    /// Share of fast I/Os. This is the accuracy of always submitting, so an accuracy means little without it.
    pub fn base_rate(&self) -> f64 {
        share(self.fast(), self.total())
    }

    /// Mean of two shares: correct decisions among fast I/Os, and among slow I/Os. If one class is missing, the share
    /// of the other.
    pub fn balanced_accuracy(&self) -> f64 {
        let fast = share(self.fast_submitted, self.fast());
        let slow = share(self.slow_revoked, self.slow());
        match (self.fast(), self.slow()) {
            (_, 0) => fast,
            (0, _) => slow,
            _ => (fast + slow) / 2.0,
        }
    }

    /// False submits as a share of ALL I/Os, as in LinnOS, figure 10.
    pub fn false_submit(&self) -> f64 {
        share(self.false_submits, self.total())
    }

    /// False revokes as a share of ALL I/Os, as in LinnOS, figure 10.
    pub fn false_revoke(&self) -> f64 {
        share(self.false_revokes, self.total())
    }
}

impl AddAssign for Confusion {
    fn add_assign(&mut self, other: Self) {
        self.fast_submitted += other.fast_submitted;
        self.false_submits += other.false_submits;
        self.false_revokes += other.false_revokes;
        self.slow_revoked += other.slow_revoked;
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn always_submit_scores_the_base_rate() {
        let mut confusion = Confusion::default();
        for i in 0..100 {
            confusion.record(i % 10 == 0, false);
        }
        assert_eq!(confusion.accuracy(), 0.9);
        assert_eq!(confusion.base_rate(), 0.9);
        assert_eq!(confusion.balanced_accuracy(), 0.5);
        assert_eq!(confusion.false_submit(), 0.1);
        assert_eq!(confusion.false_revoke(), 0.0);
    }

    #[test]
    fn one_class_or_none() {
        assert_eq!(Confusion::default().accuracy(), 0.0);
        assert_eq!(Confusion::default().balanced_accuracy(), 0.0);
        let slow_only = Confusion { slow_revoked: 3, false_submits: 1, ..Default::default() };
        assert_eq!(slow_only.balanced_accuracy(), 0.75);
        let fast_only = Confusion { fast_submitted: 1, false_revokes: 3, ..Default::default() };
        assert_eq!(fast_only.balanced_accuracy(), 0.25);
    }

    proptest! {
        #[test]
        fn shares_add_up(rows in prop::collection::vec(any::<(bool, bool)>(), 1..100), cut in 0usize..100) {
            let mut all = Confusion::default();
            let mut parts = [Confusion::default(); 2];
            for (i, &(slow, revoked)) in rows.iter().enumerate() {
                all.record(slow, revoked);
                parts[usize::from(i >= cut)].record(slow, revoked);
            }
            let mut sum = parts[0];
            sum += parts[1];
            prop_assert_eq!(sum, all);
            prop_assert_eq!(all.total(), rows.len() as u64);
            prop_assert!((all.accuracy() + all.false_submit() + all.false_revoke() - 1.0).abs() < 1e-12);
        }
    }
}
