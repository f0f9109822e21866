// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes which share of the possible gain a policy reaches.

/// Share of the possible gain: the gain of `value` over the baseline, divided by the gain of the oracle. 0 at the
/// baseline, 1 at the oracle, negative if worse than the baseline, above 1 if better than the (greedy) oracle. `None`
/// if the oracle gains nothing or a figure is not finite.
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
