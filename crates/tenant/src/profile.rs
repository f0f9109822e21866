// SPDX-License-Identifier: MIT OR Apache-2.0
//! The features of a workload, by name and number.

use linnet_types::{Nanos, Op};

use crate::error::Error;
use crate::history::History;

/// Groups of I/Os, in the order of the features: by operation, and by whether the size is a multiple of the page.
pub const GROUPS: [&str; 4] = ["read_aligned", "read_unaligned", "write_aligned", "write_unaligned"];
/// Features of a group, in order.
pub const PER_GROUP: [&str; 6] =
    ["size_bytes_mean", "rate_mean", "rate_std", "bandwidth_mean", "bandwidth_std", "unaligned_ratio"];
/// Number of features: six for each of the four groups, and three of the whole workload.
pub const FEATURE_COUNT: usize = 27;
/// Names of all features, in the order of every array of them.
pub const FEATURES: [&str; FEATURE_COUNT] = [
    "read_aligned_size_bytes_mean",
    "read_aligned_rate_mean",
    "read_aligned_rate_std",
    "read_aligned_bandwidth_mean",
    "read_aligned_bandwidth_std",
    "read_aligned_unaligned_ratio",
    "read_unaligned_size_bytes_mean",
    "read_unaligned_rate_mean",
    "read_unaligned_rate_std",
    "read_unaligned_bandwidth_mean",
    "read_unaligned_bandwidth_std",
    "read_unaligned_unaligned_ratio",
    "write_aligned_size_bytes_mean",
    "write_aligned_rate_mean",
    "write_aligned_rate_std",
    "write_aligned_bandwidth_mean",
    "write_aligned_bandwidth_std",
    "write_aligned_unaligned_ratio",
    "write_unaligned_size_bytes_mean",
    "write_unaligned_rate_mean",
    "write_unaligned_rate_std",
    "write_unaligned_bandwidth_mean",
    "write_unaligned_bandwidth_std",
    "write_unaligned_unaligned_ratio",
    "depth",
    "read_random_ratio",
    "write_random_ratio",
];

/// Index of the first feature of the whole workload, `depth`.
pub(crate) const DEPTH: usize = 24;
/// Index of `read_random_ratio`; that of writes follows.
pub(crate) const RANDOM: usize = 25;
const GROUP_FEATURES: usize = PER_GROUP.len();

/// Six features of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Group {
    /// Mean size of an I/O, bytes.
    pub size_bytes_mean: f64,
    /// Mean rate, I/Os per second.
    pub rate_mean: f64,
    /// Standard deviation of the rate over windows, I/Os per second.
    pub rate_std: f64,
    /// Mean bandwidth, bytes per second.
    pub bandwidth_mean: f64,
    /// Standard deviation of the bandwidth over windows, bytes per second.
    pub bandwidth_std: f64,
    /// Share of the I/Os whose offset is not a multiple of the page.
    pub unaligned_ratio: f64,
}

impl Group {
    fn to_array(self) -> [f64; GROUP_FEATURES] {
        [
            self.size_bytes_mean,
            self.rate_mean,
            self.rate_std,
            self.bandwidth_mean,
            self.bandwidth_std,
            self.unaligned_ratio,
        ]
    }

    fn of_array(from: &[f64]) -> Group {
        Group {
            size_bytes_mean: from[0],
            rate_mean: from[1],
            rate_std: from[2],
            bandwidth_mean: from[3],
            bandwidth_std: from[4],
            unaligned_ratio: from[5],
        }
    }
}

/// Where the depth of a profile comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DepthFrom {
    /// Every I/O had a latency.
    #[default]
    Measured,
    /// Some I/Os had none: they count with the mean of their operation, or with a nominal latency.
    Estimated,
    /// A job file.
    Declared,
}

impl DepthFrom {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DepthFrom::Measured => "measured",
            DepthFrom::Estimated => "estimated",
            DepthFrom::Declared => "declared",
        }
    }
}

/// Standard deviations of the rates at one width of the windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowStd {
    /// Width of the windows.
    pub window_ns: Nanos,
    /// Complete windows of this width in the sample.
    pub windows: u64,
    /// Standard deviation of the rate of reads, I/Os per second.
    pub read_rate_std: f64,
    /// Standard deviation of the rate of writes, I/Os per second.
    pub write_rate_std: f64,
}

/// A workload as numbers, and how they were obtained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The features, in the order of [`FEATURES`].
    pub features: [f64; FEATURE_COUNT],
    /// I/Os in the sample; 0 for a declared load.
    pub ios: u64,
    /// Length of the sample; 0 for a declared load.
    pub duration_ns: Nanos,
    /// Width of the windows of the standard deviations.
    pub window_ns: Nanos,
    /// Complete windows in the sample. Below 2 the standard deviations are 0.
    pub windows: u64,
    /// Where the depth comes from.
    pub depth_from: DepthFrom,
    /// I/Os that arrived before the one in front of them in the trace.
    pub reordered: u64,
    /// Rates at other widths of the windows, ascending: the burstiness of the workload by time scale.
    pub by_window: Vec<WindowStd>,
    /// Rates over time; `None` for a declared load.
    pub history: Option<History>,
}

impl Profile {
    /// A profile of these features, of which nothing else is known.
    ///
    /// # Errors
    /// [`Error::Feature`]: a number that is negative or not finite, a ratio above 1, or a group without rate that has
    /// other features.
    pub fn from_features(features: [f64; FEATURE_COUNT]) -> Result<Profile, Error> {
        for (&name, &value) in FEATURES.iter().zip(&features) {
            let refuse = |problem| Err(Error::Feature { name, value, problem });
            if !value.is_finite() || value < 0.0 {
                return refuse("give a finite number that is not negative");
            }
            if name.ends_with("_ratio") && value > 1.0 {
                return refuse("a ratio is at most 1");
            }
        }
        for (g, group) in features[..DEPTH].chunks_exact(GROUP_FEATURES).enumerate() {
            if group[1] > 0.0 {
                continue;
            }
            if let Some(k) = group.iter().position(|&value| value > 0.0) {
                let (name, value) = (FEATURES[g * GROUP_FEATURES + k], group[k]);
                return Err(Error::Feature { name, value, problem: "the group has a rate_mean of 0" });
            }
        }
        Ok(Profile { features, ..Profile::default() })
    }

    /// The features of a group (by the order of [`GROUPS`]).
    ///
    /// # Panics
    /// If there is no such group.
    pub fn group(&self, group: usize) -> Group {
        Group::of_array(&self.features[group * GROUP_FEATURES..(group + 1) * GROUP_FEATURES])
    }

    pub(crate) fn set_group(&mut self, group: usize, values: Group) {
        self.features[group * GROUP_FEATURES..(group + 1) * GROUP_FEATURES].copy_from_slice(&values.to_array());
    }

    /// Mean number of I/Os outstanding.
    pub fn depth(&self) -> f64 {
        self.features[DEPTH]
    }

    /// Share of an operation's I/Os that continue none of the latest ones.
    pub fn random_ratio(&self, op: Op) -> f64 {
        self.features[RANDOM + op as usize]
    }

    /// Mean rate of an operation, I/Os per second: its two groups together.
    pub fn rate(&self, op: Op) -> f64 {
        let first = 2 * op as usize;
        self.group(first).rate_mean + self.group(first + 1).rate_mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_group_and_feature_in_order() {
        let made: Vec<String> =
            GROUPS.iter().flat_map(|group| PER_GROUP.iter().map(move |name| format!("{group}_{name}"))).collect();
        assert_eq!(made, FEATURES[..DEPTH]);
        assert_eq!(FEATURES[DEPTH..], ["depth", "read_random_ratio", "write_random_ratio"]);
    }

    #[test]
    fn impossible_features_are_refused_by_name() {
        for (index, value, problem) in [(1, -1.0, "negative"), (1, f64::NAN, "finite"), (25, 1.5, "at most 1")] {
            let mut features = [0.0; FEATURE_COUNT];
            features[index] = value;
            let text = Profile::from_features(features).unwrap_err().to_string();
            assert!(text.contains(FEATURES[index]) && text.contains(problem), "{text}");
        }
        let mut features = [0.0; FEATURE_COUNT];
        features[12] = 4096.0;
        assert!(Profile::from_features(features).unwrap_err().to_string().contains("rate_mean of 0"));
    }
}
