// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads of a tenant. Synthetic ones have the properties that the gray-box paper varies (section 3), drawn at random or
//! set.

use std::fmt;

use linnet_sim::Chance;
use linnet_types::{IoRecord, Nanos, Op};

/// What a tenant offers to a drive.
pub trait Offer: fmt::Debug {
    /// Its I/Os on a space of `space_bytes`, by arrival, without an end. The seed decides when it is active, too.
    fn ios(&self, space_bytes: u64, seed: u64) -> Box<dyn Iterator<Item = IoRecord> + '_>;
    /// Whether any of them is a write.
    fn writes(&self) -> bool;
    /// Mean rate, I/Os per second.
    fn rate(&self) -> f64;
    /// Maximum of I/Os outstanding; more wait in the tenant.
    fn depth(&self) -> usize;
    /// Size of its largest I/O, bytes.
    fn size_most(&self) -> u32;

    /// The I/Os that arrive until `end_ns`.
    fn records(&self, end_ns: Nanos, space_bytes: u64, seed: u64) -> Vec<IoRecord> {
        self.ios(space_bytes, seed).take_while(|record| record.arrive_ns < end_ns).collect()
    }
}

/// A synthetic load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Mean rate, I/Os per second.
    pub rate: f64,
    /// Share of reads.
    pub reads: f64,
    /// Sizes in bytes that are equally likely.
    pub sizes: Vec<u32>,
    /// Share of the I/Os at random offsets; the others continue the one before.
    pub random: f64,
    /// Share of the random offsets that are not multiples of the page, but of 512 bytes.
    pub unaligned: f64,
    /// Maximum of I/Os outstanding; more wait in the tenant.
    pub depth: usize,
    /// Length of a burst and the pause behind it; 0 for a steady load.
    pub period_ns: Nanos,
    /// Share of the period in which the load is active.
    pub active: f64,
    /// Gaps are exponential; otherwise they are equal, as fio's are.
    pub poisson: bool,
}

impl Load {
    /// A load whose mean bandwidth is `share` of `peak_bytes_per_s`.
    pub fn draw(chance: &mut Chance, share: f64, peak_bytes_per_s: f64) -> Load {
        const SIZES: [u32; 10] = [512, 2048, 4096, 4096, 6144, 8192, 16_384, 32_768, 65_536, 131_072];
        let sizes: Vec<u32> = (0..=chance.below(3)).map(|_| SIZES[chance.below(10) as usize]).collect();
        let mean = sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / sizes.len() as f64;
        let pick = |chance: &mut Chance, values: &[f64]| values[chance.below(values.len() as u64) as usize];
        let reads = pick(chance, &[0.0, 0.05, 0.3, 0.5, 0.7, 0.9, 1.0, 1.0]);
        let bursty = chance.happens(0.5);
        Load {
            // Small I/Os cost a drive more than their bytes.
            rate: share * peak_bytes_per_s / mean.max(4096.0),
            reads,
            sizes,
            random: pick(chance, &[0.0, 0.1, 0.5, 0.9, 1.0, 1.0]),
            unaligned: pick(chance, &[0.0, 0.0, 0.0, 0.3, 1.0]),
            depth: 1 << (1 + chance.below(7)),
            period_ns: if bursty { 50_000_000 * (1 + chance.below(10)) } else { 0 },
            active: if bursty { 0.15 + 0.7 * chance.unit() } else { 1.0 },
            poisson: chance.happens(0.5),
        }
    }
}

impl Offer for Load {
    fn ios(&self, space_bytes: u64, seed: u64) -> Box<dyn Iterator<Item = IoRecord> + '_> {
        let mut chance = Chance::new(seed);
        let phase_ns = if self.period_ns > 0 { chance.below(self.period_ns) } else { 0 };
        let active_ns = if self.period_ns > 0 { self.period_ns as f64 * self.active } else { f64::INFINITY };
        // Time runs only while the load is active, at a rate that makes up for the pauses.
        let gap_ns = 1e9 * self.active.clamp(0.01, 1.0) / self.rate;
        let (mut busy_ns, mut next) = (chance.unit() * gap_ns, chance.below(space_bytes / 4096) * 4096);
        let arrival = move || {
            let at = if active_ns.is_finite() {
                let round = (busy_ns / active_ns).floor();
                round * self.period_ns as f64 + (busy_ns - round * active_ns)
            } else {
                busy_ns
            };
            let size = self.sizes[chance.below(self.sizes.len() as u64) as usize];
            let op = if chance.happens(self.reads) { Op::Read } else { Op::Write };
            if chance.happens(self.random) {
                next = chance.below(space_bytes / 4096) * 4096;
                if chance.happens(self.unaligned) {
                    next += 512 * (1 + chance.below(7));
                }
            }
            if next + u64::from(size) > space_bytes {
                next = 0;
            }
            // The trace begins within a period.
            let record = (at as Nanos >= phase_ns).then(|| IoRecord::new(at as Nanos - phase_ns, op, next, size));
            next += u64::from(size);
            busy_ns += if self.poisson { chance.exponential(gap_ns) } else { gap_ns };
            record
        };
        Box::new(std::iter::repeat_with(arrival).flatten())
    }

    fn writes(&self) -> bool {
        self.reads < 1.0
    }

    fn rate(&self) -> f64 {
        self.rate
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn size_most(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
}
