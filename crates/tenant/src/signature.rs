// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognises a workload: the distance of two profiles, and a short text that near profiles often share.

use crate::profile::{DEPTH, DepthFrom, FEATURES, GROUPS, PER_GROUP, Profile, RANDOM};

/// Two profiles at most this far apart are taken for the same workload: half a doubling of a mean rate or size.
/// `docs/design/profile.md` has a study of it.
pub const SAME_WORKLOAD: f64 = 0.5;
/// Share of a workload's I/Os below which a group is not compared.
const SHARE_MIN: f64 = 0.05;

/// Distance of two profiles: the largest of the differences of their features, each in doublings. Standard deviations
/// count half, since a sample has few bursts, and with their means, since a declared load has none. Ratios count four
/// times their difference. Groups with less than 5 % of the I/Os of both do not count. The depth counts where both are
/// declared: one that was measured depends on the drive, and on who else was there.
pub fn distance(a: &Profile, b: &Profile) -> f64 {
    difference(a, b).0
}

/// [`distance`], and the feature that makes it; None where nothing differs. The rate of all groups together has no
/// feature of its own: the mean rate that differs most stands for it.
pub fn difference(a: &Profile, b: &Profile) -> (f64, Option<&'static str>) {
    let (rates_a, rates_b) = (shares(a), shares(b));
    let (mut most, mut feature) = (0.0, None);
    let mut note = |found: f64, of: usize| {
        if found > most {
            (most, feature) = (found, Some(FEATURES[of]));
        }
    };
    let mut fastest = (0.0, 0);
    for g in 0..GROUPS.len() {
        let (x, y, first) = (a.group(g), b.group(g), g * PER_GROUP.len());
        let moved = (x.rate_mean - y.rate_mean).abs();
        if moved > fastest.0 {
            fastest = (moved, first + 1);
        }
        if rates_a.1[g] < SHARE_MIN && rates_b.1[g] < SHARE_MIN {
            continue;
        }
        for (place, found) in [
            doublings(x.size_bytes_mean, y.size_bytes_mean, 512.0),
            doublings(x.rate_mean, y.rate_mean, 1.0),
            0.5 * doublings(x.rate_mean + x.rate_std, y.rate_mean + y.rate_std, 1.0),
            doublings(x.bandwidth_mean, y.bandwidth_mean, 4096.0),
            0.5 * doublings(x.bandwidth_mean + x.bandwidth_std, y.bandwidth_mean + y.bandwidth_std, 4096.0),
            4.0 * (x.unaligned_ratio - y.unaligned_ratio).abs(),
        ]
        .into_iter()
        .enumerate()
        {
            note(found, first + place);
        }
    }
    note(doublings(rates_a.0, rates_b.0, 1.0), fastest.1);
    for op in 0..2 {
        let share = |rates: &[f64; 4]| rates[2 * op] + rates[2 * op + 1];
        if share(&rates_a.1) >= SHARE_MIN || share(&rates_b.1) >= SHARE_MIN {
            note(4.0 * (a.features[RANDOM + op] - b.features[RANDOM + op]).abs(), RANDOM + op);
        }
    }
    if let (Some(x), Some(y)) = (declared_depth(a), declared_depth(b)) {
        note(doublings(x, y, 1.0), DEPTH);
    }
    (most, feature)
}

/// 18 hexadecimal digits: for each group its rate and mean size, in doublings, then the two random ratios in quarters,
/// the burstiness, and the declared depth in doublings, 00 where it is not declared. Profiles of one workload often
/// share it; [`distance`] decides. Signatures of 16 digits, in older stores, say nothing of the depth.
pub fn signature(profile: &Profile) -> String {
    let (_, shares) = shares(profile);
    let mut text = String::new();
    for (g, &share) in shares.iter().enumerate() {
        let group = profile.group(g);
        let used = share >= SHARE_MIN;
        let rate = if used { (1.0 + group.rate_mean).log2().round() } else { 0.0 };
        let size = if used { (1.0 + group.size_bytes_mean / 512.0).log2().round() } else { 0.0 };
        // 2^31 I/Os per second and 2^23 bytes are the most that two digits and one digit tell apart.
        text += &format!("{:02x}{:01x}", rate.min(255.0) as u8, size.min(15.0) as u8);
    }
    for op in 0..2 {
        text += &format!("{:01x}", (4.0 * profile.features[RANDOM + op]).round() as u8);
    }
    let bursts = (0..GROUPS.len()).filter(|&g| shares[g] >= SHARE_MIN).map(|g| {
        let group = profile.group(g);
        group.rate_std / group.rate_mean.max(1e-9)
    });
    text += &format!("{:02x}", (2.0 * (1.0 + bursts.fold(0.0, f64::max)).log2()).round().min(255.0) as u8);
    let depth = declared_depth(profile).map_or(0.0, |depth| (1.0 + depth).log2().round());
    text + &format!("{:02x}", depth.min(255.0) as u8)
}

/// The depth that a job file states.
fn declared_depth(profile: &Profile) -> Option<f64> {
    (profile.depth_from == DepthFrom::Declared).then(|| profile.features[DEPTH])
}

/// The rate of all groups, and the share of each.
fn shares(profile: &Profile) -> (f64, [f64; 4]) {
    let rates: [f64; 4] = std::array::from_fn(|g| profile.group(g).rate_mean);
    let total: f64 = rates.iter().sum();
    (total, rates.map(|rate| if total > 0.0 { rate / total } else { 0.0 }))
}

/// How many doublings lie between two numbers; differences far below `unit` do not count.
fn doublings(a: f64, b: f64, unit: f64) -> f64 {
    ((a + unit).log2() - (b + unit).log2()).abs()
}
