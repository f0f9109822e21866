// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a policy goes from the baseline to the oracle.

/// Share of the possible gain (from baseline to oracle) that `value` reaches: 0 at the baseline, 1 at the oracle, negative when
/// worse than the baseline, above 1 when better than the (greedy) oracle. `None` when there is nothing to gain or a figure is
/// not finite.
pub fn share_of_gap(baseline: f64, oracle: f64, value: f64) -> Option<f64> {
    let share = (baseline - value) / (baseline - oracle);
    (baseline != oracle && share.is_finite()).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_middle_and_nothing() {
        assert_eq!(share_of_gap(10.0, 2.0, 10.0), Some(0.0));
        assert_eq!(share_of_gap(10.0, 2.0, 2.0), Some(1.0));
        assert_eq!(share_of_gap(10.0, 2.0, 4.0), Some(0.75));
        assert_eq!(share_of_gap(10.0, 2.0, 18.0), Some(-1.0));
        assert_eq!(share_of_gap(10.0, 2.0, 0.0), Some(1.25));
        assert_eq!(share_of_gap(10.0, 10.0, 10.0), None);
        assert_eq!(share_of_gap(10.0, 10.0, 9.0), None);
        assert_eq!(share_of_gap(f64::NAN, 10.0, 9.0), None);
        assert_eq!(share_of_gap(10.0, 2.0, f64::INFINITY), None);
    }
}
