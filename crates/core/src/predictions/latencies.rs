// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency quantiles of a read, predicted from the score of its trees and one feature (`core/latencies.c`).

use super::Prediction;
use crate::{BUCKET_MAX, Error, INFLIGHT_FEATURES, ffi};

/// The shares of the predicted quantiles.
pub const LATENCY_SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];
/// Bins of scores.
pub const SCORE_BINS: usize = 16;
/// Bins of the feature.
pub const FEATURE_BINS: usize = 8;

/// Quantiles of each bin, in ns: by bin of scores, bin of the feature, and share.
pub type LatencyBins = [[[u32; LATENCY_SHARES.len()]; FEATURE_BINS]; SCORE_BINS];

/// Latency quantiles in bins of scores and of one feature: 2,628 bytes (`struct linnet_latencies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Latencies {
    score_edges: [i32; SCORE_BINS - 1],
    feature: u8,
    feature_edges: [u8; FEATURE_BINS - 1],
    bins: LatencyBins,
}

impl Latencies {
    /// A table. The bin of a value is the number of edges below it; unused bins follow edges of `i32::MAX`, or of
    /// [`BUCKET_MAX`]. `u32::MAX` ns means that or more.
    ///
    /// # Errors
    /// [`Error::Shape`] for a feature out of its range, edges that descend, or quantiles that descend within a bin or
    /// from one bin of scores to the next.
    pub fn new(
        score_edges: [i32; SCORE_BINS - 1],
        feature: u8,
        feature_edges: [u8; FEATURE_BINS - 1],
        bins: LatencyBins,
    ) -> Result<Latencies, Error> {
        let made = Latencies { score_edges, feature, feature_edges, bins };
        // SAFETY: `Latencies` has the layout of `struct linnet_latencies`; so below.
        if unsafe { ffi::linnet_latencies_check(&made) } < 0 {
            return Err(Error::Shape(format!(
                "feature {feature} is above {}, an edge is above {BUCKET_MAX}, or edges or latencies descend",
                INFLIGHT_FEATURES - 1
            )));
        }
        Ok(made)
    }

    /// The quantiles of the latency, in ns, of a read with this score and these features, for [`LATENCY_SHARES`].
    pub fn predict(&self, score: i32, features: &[u8; INFLIGHT_FEATURES]) -> &[u32; LATENCY_SHARES.len()] {
        // SAFETY: the feature was checked by `new` or by the reader of model files; C returns a row of `bins`, which
        // has as many numbers.
        unsafe { &*ffi::linnet_latencies_predict(self, score, features.as_ptr()).cast() }
    }

    /// The feature that is the second key.
    pub fn feature(&self) -> u8 {
        self.feature
    }
}

impl Prediction for Latencies {
    fn name(&self) -> &'static str {
        "latencies"
    }

    fn part(&self) -> u32 {
        ffi::PART_LATENCIES
    }

    fn numbers(&self, score: i32, features: &[u8; INFLIGHT_FEATURES]) -> &[u32] {
        self.predict(score, features)
    }

    fn write(&self, file: &mut Vec<u8>) {
        self.score_edges.iter().for_each(|edge| file.extend(edge.to_le_bytes()));
        file.push(self.feature);
        file.extend(self.feature_edges);
        self.bins.as_flattened().as_flattened().iter().for_each(|ns| file.extend(ns.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edges at 0, 10, 20, ... and at 0, 8, 16, ...; every number encodes its position.
    fn table() -> Latencies {
        let bins =
            std::array::from_fn(|s| std::array::from_fn(|f| std::array::from_fn(|k| (1000 * s + 10 * f + k) as u32)));
        Latencies::new(std::array::from_fn(|i| 10 * i as i32), 3, std::array::from_fn(|i| 8 * i as u8), bins).unwrap()
    }

    #[test]
    fn a_value_is_in_the_bin_of_the_edges_below_it() {
        let table = table();
        for (score, bin) in [(i32::MIN, 0), (0, 0), (1, 1), (10, 1), (11, 2), (140, 14), (141, 15), (i32::MAX, 15)] {
            for value in 0..=BUCKET_MAX {
                let mut features = [63; INFLIGHT_FEATURES];
                features[3] = value;
                let column = usize::from(value.div_ceil(8)).min(FEATURE_BINS - 1);
                let first = (1000 * bin + 10 * column) as u32;
                assert_eq!(table.predict(score, &features), &[0, 1, 2, 3, 4].map(|k| first + k), "{score} {value}");
            }
        }
    }

    #[test]
    fn what_descends_is_refused() {
        let good = table();
        let with = |change: fn(&mut Latencies)| {
            let mut bad = good;
            change(&mut bad);
            Latencies::new(bad.score_edges, bad.feature, bad.feature_edges, bad.bins)
        };
        assert_eq!(with(|_| {}), Ok(good));
        for change in [
            (|t| t.score_edges[14] = 129) as fn(&mut Latencies),
            |t| t.feature = 16,
            |t| t.feature_edges[6] = 64,
            |t| t.feature_edges[1] = 17,
            |t| t.bins[0][0][4] = 2,
            |t| t.bins[15][7][0] = 0,
        ] {
            assert!(with(change).is_err());
        }
    }
}
