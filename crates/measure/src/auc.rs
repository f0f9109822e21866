// SPDX-License-Identifier: MIT OR Apache-2.0
//! Area under the receiver operating characteristic: the probability that a slow I/O has a higher score than a fast
//! one, where a tie counts half (Mann-Whitney's U divided by the number of pairs). It is meant for scores; on hard
//! decisions it would equal the balanced accuracy.

/// Area under the curve of scores; a higher score means that a slow I/O is more likely. `None` if one of the two
/// classes is missing or a score is not a number. O(n log n).
///
/// # Panics
/// If the slices differ in length.
pub fn roc_auc(scores: &[f64], slow: &[bool]) -> Option<f64> {
    if scores.iter().any(|s| s.is_nan()) {
        return None;
    }
    // Adding zero turns -0.0 into 0.0; total_cmp would order -0.0 below 0.0.
    area(scores, slow, |a, b| (a + 0.0).total_cmp(&(b + 0.0)))
}

/// [`roc_auc`] of integer scores, without rounding.
///
/// # Panics
/// If the slices differ in length.
pub fn roc_auc_integers(scores: &[i64], slow: &[bool]) -> Option<f64> {
    area(scores, slow, Ord::cmp)
}

fn area<T: Copy>(scores: &[T], slow: &[bool], order: impl Fn(&T, &T) -> std::cmp::Ordering) -> Option<f64> {
    assert_eq!(scores.len(), slow.len(), "one label for each score");
    let mut pairs: Vec<(T, bool)> = scores.iter().copied().zip(slow.iter().copied()).collect();
    pairs.sort_unstable_by(|a, b| order(&a.0, &b.0));
    let mut fast_below: u128 = 0;
    let mut slow_total: u128 = 0;
    // Twice the number of pairs in the right order, so that ties stay integers.
    let mut won_twice: u128 = 0;
    for tied in pairs.chunk_by(|a, b| order(&a.0, &b.0).is_eq()) {
        let slow_here = tied.iter().filter(|p| p.1).count() as u128;
        let fast_here = tied.len() as u128 - slow_here;
        won_twice += slow_here * (2 * fast_below + fast_here);
        fast_below += fast_here;
        slow_total += slow_here;
    }
    let all = fast_below * slow_total;
    (all > 0).then(|| won_twice as f64 / (2.0 * all as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn perfect_inverted_and_constant() {
        let slow = [false, false, true, true];
        assert_eq!(roc_auc(&[1.0, 2.0, 3.0, 4.0], &slow), Some(1.0));
        assert_eq!(roc_auc(&[4.0, 3.0, 2.0, 1.0], &slow), Some(0.0));
        assert_eq!(roc_auc(&[5.0; 4], &slow), Some(0.5));
        assert_eq!(roc_auc(&[0.0, -0.0, 0.0, -0.0], &slow), Some(0.5));
        assert_eq!(roc_auc_integers(&[i64::MIN, 0, 0, i64::MAX], &slow), Some(0.875));
    }

    #[test]
    fn nothing_to_rank() {
        assert_eq!(roc_auc(&[], &[]), None);
        assert_eq!(roc_auc(&[1.0, 2.0], &[true, true]), None);
        assert_eq!(roc_auc(&[1.0, 2.0], &[false, false]), None);
        assert_eq!(roc_auc(&[1.0, f64::NAN], &[false, true]), None);
    }

    #[test]
    fn integers_beyond_a_double_keep_their_order() {
        let big = 1i64 << 60;
        assert_eq!(roc_auc_integers(&[big, big + 1], &[false, true]), Some(1.0));
    }

    proptest! {
        #[test]
        fn equals_the_count_over_all_pairs(rows in prop::collection::vec((-5i64..5, any::<bool>()), 0..60)) {
            let scores: Vec<i64> = rows.iter().map(|r| r.0).collect();
            let slow: Vec<bool> = rows.iter().map(|r| r.1).collect();
            let (mut won, mut all) = (0.0, 0.0);
            for a in rows.iter().filter(|r| r.1) {
                for b in rows.iter().filter(|r| !r.1) {
                    all += 1.0;
                    won += if a.0 > b.0 { 1.0 } else if a.0 == b.0 { 0.5 } else { 0.0 };
                }
            }
            let expected = (all > 0.0).then(|| won / all);
            let floats: Vec<f64> = scores.iter().map(|&s| s as f64 / 3.0).collect();
            for got in [roc_auc_integers(&scores, &slow), roc_auc(&floats, &slow)] {
                match (got, expected) {
                    (Some(a), Some(b)) => prop_assert!((a - b).abs() < 1e-12),
                    other => prop_assert!(other == (None, None), "{other:?}"),
                }
            }
        }
    }
}
