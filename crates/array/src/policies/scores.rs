// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the trees of each device say of a read, and which candidate they prefer.

use crate::{Ask, Learned};
use linnet_core::{Candidate, Latencies, REPLICAS_MAX, Trees, WATCH_FEATURES, preferred};
use linnet_types::Nanos;

/// A device is probed after this many times `age_ns`. Its features age by themselves, so that a tenth of it gained nothing.
const PROBE_AGES: u64 = 100;
/// One that is asked alone is believed for this many when it says slow. Trees that have seen a stall go on seeing it in a
/// device that is silent since, and nobody compares it with the others.
const REVOKE_AGES: u64 = 5;
/// The quantile of [`linnet_core::LATENCY_SHARES`] that a read is given before it is hedged: the 95th percentile.
const PATIENCE: usize = 2;

pub(super) struct Scores {
    trees: Vec<Option<Trees>>,
    latencies: Vec<Option<Latencies>>,
}

impl Scores {
    pub(super) fn new(learned: &[Learned]) -> Scores {
        Scores {
            trees: learned.iter().map(|device| device.trees).collect(),
            latencies: learned.iter().map(|device| device.latencies).collect(),
        }
    }

    /// True when trees speak for the device.
    pub(super) fn know(&self, device: usize) -> bool {
        self.trees[device].is_some()
    }

    fn describe(ask: &Ask<'_>, device: usize) -> Option<[u8; WATCH_FEATURES]> {
        let watch = ask.devices[device].watch.as_ref()?;
        Some(watch.describe(ask.now_ns, ask.request.offset_bytes, ask.request.size_bytes))
    }

    /// Log-odds that this read would be slow on the device, times [`linnet_core::TREE_ONE`]; 0 without trees.
    pub(super) fn score(&self, ask: &Ask<'_>, device: usize) -> i32 {
        match (&self.trees[device], Self::describe(ask, device)) {
            (Some(trees), Some(features)) => trees.score(&features),
            _ => 0,
        }
    }

    /// The score, and how long the read should take with a chance of 95 %, where that was learned.
    pub(super) fn judge(&self, ask: &Ask<'_>, device: usize) -> Option<(i32, Option<Nanos>)> {
        let (trees, features) = (self.trees[device].as_ref()?, Self::describe(ask, device)?);
        let score = trees.score(&features);
        let within = self.latencies[device].as_ref().map(|table| table.predict(score, &features)[PATIENCE].into());
        Some((score, within))
    }

    /// The best candidate and its score.
    pub(super) fn best(&self, ask: &Ask<'_>) -> (usize, i32) {
        let (mut candidates, mut devices) = ([Candidate::default(); REPLICAS_MAX], [ask.next; REPLICAS_MAX]);
        for (k, device) in ask.candidates().enumerate() {
            let view = &ask.devices[device];
            devices[k] = device;
            candidates[k] = Candidate {
                ewma_ns: view.ewma_ns,
                in_flight: view.in_flight,
                score: self.score(ask, device),
                eligible: true,
                ..Candidate::default()
            };
        }
        let best = preferred(linnet_core::Policy::Best, &candidates).unwrap_or(0);
        (devices[best], candidates[best].score)
    }

    /// True when nobody has read from the device for so long that this read should, as a probe.
    pub(super) fn is_forgotten(ask: &Ask<'_>, device: usize) -> bool {
        Self::is_silent(ask, device, PROBE_AGES)
    }

    /// True when a slow score is not to be believed any more: this read should go there as a probe instead of being revoked.
    pub(super) fn has_expired(ask: &Ask<'_>, device: usize) -> bool {
        Self::is_silent(ask, device, REVOKE_AGES)
    }

    fn is_silent(ask: &Ask<'_>, device: usize, ages: u64) -> bool {
        let view = &ask.devices[device];
        let age_ns = ask.now_ns.saturating_sub(view.learnt_ns);
        view.in_flight == 0 && !view.probing && age_ns > ask.config.age_ns.saturating_mul(ages)
    }
}
