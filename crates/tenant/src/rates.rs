// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard deviations of rates over windows of several widths, in one pass: each level has windows twice as wide as
//! the level below, and receives a window of that level when it is complete. Sums are exact integers, so neither the
//! order of additions nor a long sample costs precision. Windows without I/Os take no time.

use std::ops::Add;

use linnet_types::Nanos;

/// Widths of windows: 1/16, 1/8, ..., 1, ..., 16 times that of the features.
pub(crate) const LEVELS: usize = 9;
/// The level whose windows the features use.
pub(crate) const FEATURE_LEVEL: usize = 4;

/// I/Os and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// I/Os.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Add for Sums {
    type Output = Sums;

    fn add(self, other: Sums) -> Sums {
        Sums { ios: self.ios + other.ios, bytes: self.bytes + other.bytes }
    }
}

/// First and second moment of a number over windows.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    sum: u64,
    squares: u128,
}

impl Moments {
    fn note(&mut self, value: u64) {
        self.sum += value;
        self.squares += u128::from(value) * u128::from(value);
    }

    /// Standard deviation of the population of `count` windows, per second of `seconds`.
    fn deviation(&self, count: u64, seconds: f64) -> f64 {
        if count < 2 {
            return 0.0;
        }
        let (n, sum) = (u128::from(count), u128::from(self.sum));
        let exact = n.checked_mul(self.squares).and_then(|m| m.checked_sub(sum.checked_mul(sum)?));
        // Beyond 128 bits: a bandwidth above 10^15 bytes per window.
        let spread = exact.map_or_else(
            || (count as f64 * self.squares as f64 - (self.sum as f64).powi(2)).max(0.0),
            |exact| exact as f64,
        );
        spread.sqrt() / count as f64 / seconds
    }
}

/// Standard deviation over values that are sums over `seconds`, per second.
pub(crate) fn deviation(values: impl Iterator<Item = u64>, seconds: f64) -> f64 {
    let mut moments = Moments::default();
    let mut count = 0;
    for value in values {
        moments.note(value);
        count += 1;
    }
    moments.deviation(count, seconds)
}

#[derive(Clone, Debug, Default)]
struct Level {
    /// The window that is open.
    open: [Sums; 4],
    ios: [Moments; 4],
    bytes: [Moments; 4],
    /// Reads and writes, each of both groups together.
    by_op: [Moments; 2],
}

impl Level {
    fn close(&mut self) -> [Sums; 4] {
        let sums = std::mem::take(&mut self.open);
        for (g, sums) in sums.iter().enumerate() {
            self.ios[g].note(sums.ios);
            self.bytes[g].note(sums.bytes);
        }
        for (op, pair) in sums.chunks_exact(2).enumerate() {
            self.by_op[op].note(pair[0].ios + pair[1].ios);
        }
        sums
    }
}

/// Rates of the four groups over windows.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// Width of the narrowest windows.
    base_ns: Nanos,
    /// The open window of the narrowest level.
    index: u64,
    /// Where it ends.
    end_ns: Nanos,
    levels: [Level; LEVELS],
}

impl Rates {
    /// `window_ns` is a multiple of 16.
    pub fn new(window_ns: Nanos) -> Rates {
        let base_ns = window_ns >> FEATURE_LEVEL;
        Rates { base_ns, index: 0, end_ns: base_ns, levels: Default::default() }
    }

    /// Notes an I/O at a time since the start of the sample. A time in a window that was closed counts in the open one.
    /// `closed` receives each complete window of the features that has I/Os, by number.
    #[inline]
    pub fn note(&mut self, at_ns: Nanos, group: usize, bytes: u32, closed: impl FnMut(u64, &[Sums; 4])) {
        if at_ns >= self.end_ns {
            self.advance(at_ns / self.base_ns, closed);
        }
        let open = &mut self.levels[0].open[group];
        open.ios += 1;
        open.bytes += u64::from(bytes);
    }

    fn advance(&mut self, to: u64, mut closed: impl FnMut(u64, &[Sums; 4])) {
        let (mut from, mut until) = (self.index, to);
        self.index = to;
        self.end_ns = to.saturating_add(1).saturating_mul(self.base_ns);
        for level in 0..LEVELS {
            if from == until {
                return;
            }
            let sums = self.levels[level].close();
            if level == FEATURE_LEVEL {
                closed(from, &sums);
            }
            if let Some(wider) = self.levels.get_mut(level + 1) {
                for (to, from) in wider.open.iter_mut().zip(sums) {
                    *to = *to + from;
                }
            }
            (from, until) = (from >> 1, until >> 1);
        }
    }

    /// Ends the sample: windows that end by then are complete.
    pub fn finish(&mut self, end_ns: Nanos, closed: impl FnMut(u64, &[Sums; 4])) {
        let last = end_ns / self.base_ns;
        if last > self.index {
            self.advance(last, closed);
        }
    }

    /// Complete windows of a level at this time.
    pub fn windows(&self, level: usize, end_ns: Nanos) -> u64 {
        (end_ns / self.base_ns) >> level
    }

    /// Width of the windows of a level.
    pub fn width_ns(&self, level: usize) -> Nanos {
        self.base_ns << level
    }

    /// Standard deviations of rate and bandwidth of a group over the windows of the features, per second.
    pub fn deviations(&self, group: usize, end_ns: Nanos) -> (f64, f64) {
        let level = &self.levels[FEATURE_LEVEL];
        let (count, seconds) = (self.windows(FEATURE_LEVEL, end_ns), self.width_ns(FEATURE_LEVEL) as f64 / 1e9);
        (level.ios[group].deviation(count, seconds), level.bytes[group].deviation(count, seconds))
    }

    /// Standard deviation of the rates of reads and of writes over the windows of a level, per second.
    pub fn deviations_of_ops(&self, level: usize, end_ns: Nanos) -> [f64; 2] {
        let (count, seconds) = (self.windows(level, end_ns), self.width_ns(level) as f64 / 1e9);
        self.levels[level].by_op.map(|moments| moments.deviation(count, seconds))
    }
}
