// SPDX-License-Identifier: MIT OR Apache-2.0
//! The predictions of a model: parts of its file behind the trees, each of which gives numbers for a read from the
//! trees' score and the features. Code that treats all of them alike uses [`Predictions::each`]. A new one is a file of
//! this module, a field of [`Predictions`], and its line in `each` and `of`.

mod latencies;

pub use latencies::{FEATURE_BINS, LATENCY_SHARES, Latencies, LatencyBins, SCORE_BINS};

use crate::{INFLIGHT_FEATURES, ffi};

/// A part of a model that predicts numbers of a read.
pub trait Prediction: Send + Sync {
    /// Its name in `spec/model-file.md`.
    fn name(&self) -> &'static str;

    /// Its bit in the `parts` of a model file.
    fn part(&self) -> u32;

    /// The numbers of a read with this score of the trees and these features; always the same count.
    fn numbers(&self, score: i32, features: &[u8; INFLIGHT_FEATURES]) -> &[u32];

    /// Appends its block of a model file.
    fn write(&self, file: &mut Vec<u8>);
}

/// The predictions that a model has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predictions {
    /// Latency quantiles by the score of the trees.
    pub latencies: Option<Latencies>,
}

impl Predictions {
    /// Those that are there, in the order of the file.
    pub fn each(&self) -> impl Iterator<Item = &dyn Prediction> {
        [self.latencies.as_ref().map(|own| own as &dyn Prediction)].into_iter().flatten()
    }

    /// Those of a file as the core has read it.
    pub(crate) fn of(read: &ffi::Model) -> Predictions {
        let has = |part| read.parts & part != 0;
        Predictions { latencies: has(ffi::PART_LATENCIES).then_some(read.latencies) }
    }
}
