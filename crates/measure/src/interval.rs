// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes confidence intervals of a share.

/// The two-sided quantile of the standard normal for 95 %.
pub const Z_95: f64 = 1.959_964;

/// Wilson's score interval (JASA 22, 1927) for a share, from `hits` in `trials`; `z` as in [`Z_95`]. It keeps its
/// confidence level for shares near 0 and 1, where the normal approximation does not. (0, 1) if there were no trials.
pub fn wilson(hits: u64, trials: u64, z: f64) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    let n = trials as f64;
    let (share, square) = (hits as f64 / n, z * z);
    let middle = share + square / (2.0 * n);
    let reach = z * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
    let scale = 1.0 + square / n;
    (((middle - reach) / scale).max(0.0), ((middle + reach) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_solved_by_hand() {
        // The ends p are the solutions of |3/10 - p| = z sqrt(p (1 - p) / 10).
        let (low, high) = wilson(3, 10, Z_95);
        for end in [low, high] {
            assert!(((0.3 - end).abs() - Z_95 * (end * (1.0 - end) / 10.0).sqrt()).abs() < 1e-12);
        }
        assert!(low < 0.3 && high > 0.3);
    }

    #[test]
    fn the_ends_of_the_scale() {
        assert_eq!(wilson(0, 0, Z_95), (0.0, 1.0));
        let (low, high) = wilson(0, 100, Z_95);
        assert!(low == 0.0 && high > 0.03 && high < 0.04);
        let (low, high) = wilson(100, 100, Z_95);
        assert!(high == 1.0 && low < 0.97 && low > 0.96);
    }
}
