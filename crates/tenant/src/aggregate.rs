// SPDX-License-Identifier: MIT OR Apache-2.0
//! One profile of several workloads on a drive: the gray-box paper, section 4.2, with the misprints of its equation 3
//! corrected (`spec/profile.md`).
//!
//! Every aggregate keeps three laws: the order of the members does not matter, to the bit; the aggregate of one member
//! has its features; and aggregates of aggregates are those of all members, up to rounding.

use linnet_types::Op;

use crate::error::Error;
use crate::history::History;
use crate::profile::{DEPTH, DepthFrom, GROUPS, Group, Profile, RANDOM};

/// A way to make one profile of several.
pub trait Aggregate {
    /// The profile of all members together; of none, that of a workload without I/Os.
    ///
    /// # Errors
    /// [`Error::Histories`] from an aggregate that needs rate histories.
    fn of(&self, members: &[&Profile]) -> Result<Profile, Error>;
}

/// The paper's: variances add, as if the bursts of the members were independent (equation 5).
#[derive(Clone, Copy, Debug, Default)]
pub struct Independent;

/// For members that were recorded together: the covariance of their rates, as far as their histories show it, is added
/// to the variances.
#[derive(Clone, Copy, Debug, Default)]
pub struct Correlated;

impl Aggregate for Independent {
    fn of(&self, members: &[&Profile]) -> Result<Profile, Error> {
        if let [only] = members {
            return Ok((*only).clone());
        }
        let mut whole = Profile {
            ios: members.iter().map(|member| member.ios).sum(),
            duration_ns: members.iter().map(|member| member.duration_ns).max().unwrap_or(0),
            window_ns: members.iter().map(|member| member.window_ns).max().unwrap_or(0),
            windows: members.iter().map(|member| member.windows).min().unwrap_or(0),
            reordered: members.iter().map(|member| member.reordered).sum(),
            depth_from: depth_from(members),
            ..Profile::default()
        };
        for g in 0..GROUPS.len() {
            let groups: Vec<Group> = members.iter().map(|member| member.group(g)).collect();
            let sum = |of: fn(&Group) -> f64| ordered_sum(groups.iter().map(of));
            let rate_mean = sum(|group| group.rate_mean);
            let mean = |of: fn(&Group) -> f64| quotient(sum(of), rate_mean);
            whole.set_group(
                g,
                Group {
                    size_bytes_mean: mean(|group| group.size_bytes_mean * group.rate_mean),
                    rate_mean,
                    rate_std: sum(|group| group.rate_std.powi(2)).sqrt(),
                    bandwidth_mean: sum(|group| group.bandwidth_mean),
                    bandwidth_std: sum(|group| group.bandwidth_std.powi(2)).sqrt(),
                    unaligned_ratio: mean(|group| group.unaligned_ratio * group.rate_mean).min(1.0),
                },
            );
        }
        whole.features[DEPTH] = ordered_sum(members.iter().map(|member| member.depth()));
        for op in [Op::Read, Op::Write] {
            let random = ordered_sum(members.iter().map(|member| member.random_ratio(op) * member.rate(op)));
            let rate = ordered_sum(members.iter().map(|member| member.rate(op)));
            whole.features[RANDOM + op as usize] = quotient(random, rate).min(1.0);
        }
        Ok(whole)
    }
}

impl Aggregate for Correlated {
    fn of(&self, members: &[&Profile]) -> Result<Profile, Error> {
        if let [_] | [] = members {
            return Independent.of(members);
        }
        let missing = || Error::Histories("a profile has no rate history (a declared load, or features alone)".into());
        let histories: Vec<&History> =
            members.iter().map(|member| member.history.as_ref().ok_or_else(missing)).collect::<Result<_, _>>()?;
        let mut together = histories[0].clone();
        for history in &histories[1..] {
            together = together.plus(history)?;
        }
        let mut whole = Independent.of(members)?;
        for g in 0..GROUPS.len() {
            let (rates, bandwidths): (Vec<f64>, Vec<f64>) =
                histories.iter().map(|history| history.variances(g)).unzip();
            let (rate, bandwidth) = together.variances(g);
            let mut group = whole.group(g);
            // What a slot has beyond the slots' own variances is twice the sum of the covariances.
            let with = |deviation: f64, found: f64, own: Vec<f64>| {
                (deviation.powi(2) + found - ordered_sum(own.into_iter())).max(0.0).sqrt()
            };
            group.rate_std = with(group.rate_std, rate, rates);
            group.bandwidth_std = with(group.bandwidth_std, bandwidth, bandwidths);
            whole.set_group(g, group);
        }
        whole.history = Some(together);
        Ok(whole)
    }
}

fn depth_from(members: &[&Profile]) -> DepthFrom {
    let of = |from| members.iter().any(|member| member.depth_from == from);
    match () {
        () if of(DepthFrom::Declared) => DepthFrom::Declared,
        () if of(DepthFrom::Estimated) => DepthFrom::Estimated,
        () => DepthFrom::Measured,
    }
}

/// The sum in ascending order, so that the order of the members does not change its bits.
fn ordered_sum(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.iter().sum()
}

fn quotient(sum: f64, weight: f64) -> f64 {
    if weight > 0.0 { sum / weight } else { 0.0 }
}
