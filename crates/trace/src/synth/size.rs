// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes with a given mean and largest value.
//!
//! A log-logistic distribution (shape 2: a tail between exponential and Cauchy), rounded up to 4 KiB and cut at the
//! largest size. Bisection finds the scale for the mean. There is one draw per stratum of equal probability, in random
//! order, so that the mean of even a few hundred I/Os is close.

use linnet_sim::Chance;

/// Granularity of sizes. Unaligned I/Os change later, by less than this.
const STEP: f64 = 4096.0;
const SHAPE: f64 = 2.0;
/// Points at which the mean for a scale is computed.
const GRID: usize = 4096;
/// The largest size occurs once if it is at most this share of all bytes.
const LARGEST_SHARE: f64 = 0.2;

fn size_at(scale: f64, u: f64, most: f64) -> f64 {
    let size = scale * (u / (1.0 - u)).powf(1.0 / SHAPE);
    ((size / STEP).ceil() * STEP).clamp(STEP, most)
}

fn mean_of(scale: f64, most: f64) -> f64 {
    (0..GRID).map(|i| size_at(scale, (i as f64 + 0.5) / GRID as f64, most)).sum::<f64>() / GRID as f64
}

fn scale_for(mean: f64, most: f64) -> f64 {
    let (mut low, mut high) = (1.0f64.ln(), (most * 1e4).ln());
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if mean_of(middle.exp(), most) < mean { low = middle } else { high = middle }
    }
    ((low + high) / 2.0).exp()
}

/// `count` sizes in random order: multiples of 4096, none above `most`.
pub(super) fn sizes(count: usize, mean: f64, most: u32, chance: &mut Chance) -> Vec<u32> {
    if count == 0 {
        return Vec::new();
    }
    let bound = f64::from(most);
    let total = mean * count as f64;
    let place_largest = count > 1 && bound <= LARGEST_SHARE * total;
    let body = count - usize::from(place_largest);
    let body_mean = if place_largest { (total - bound) / body as f64 } else { mean };
    let scale = scale_for(body_mean, bound);
    let mut sizes: Vec<u32> =
        (0..body).map(|i| size_at(scale, (i as f64 + chance.unit()) / body as f64, bound) as u32).collect();
    if place_largest {
        sizes.push(most);
    }
    for i in (1..sizes.len()).rev() {
        sizes.swap(i, chance.below(i as u64 + 1) as usize);
    }
    sizes
}
