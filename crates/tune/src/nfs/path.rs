// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way to an NFS server: how long a read takes, how much comes, and how much readahead scans need there.
//!
//! A scan keeps about one readahead value in flight, so it gets value / latency bytes per second until the link or the
//! server is full. Below that point more readahead brings more; above it only queues. Where the point lies is not visible
//! from one value: the latency of a full link contains its queue. So the value is tried four times larger, and stays where
//! scans get a tenth more. Otherwise the one before returns, and the next attempt waits.
//!
//! Where the value is what limits scans, four times as much brings far more than a tenth. Such a gain shows within some
//! round trips, and the next step follows at once: the way from the default to what a far server takes is three steps, and
//! with a second for each of them a short scan would be over. A small gain is judged on whole windows.

use std::time::Duration;

use crate::nfs::rpc::Rpcs;
use crate::rule::DEFAULT_KIB;

/// Least and largest value for scans, in KiB. Beyond 8 MiB one scan evicts what others read.
pub const SCAN_MIN_KIB: u32 = DEFAULT_KIB;
/// See `SCAN_MIN_KIB`.
pub const SCAN_MAX_KIB: u32 = 8192;

const WINDOW: Duration = Duration::from_secs(1);
const STEP: u32 = 4;
/// A larger value must bring so many times more.
const GAIN: f64 = 1.1;
/// A gain of so many times is believed after a sample instead of a window.
const CLEAR: f64 = 1.5;
/// Least length of a sample. The first one has no other to be compared with, and takes two.
const SAMPLE: Duration = Duration::from_millis(100);
/// And so many reads one after the other: readahead takes some round trips to grow to a new value.
const SAMPLE_TRIPS: f64 = 16.0;
/// So many windows of a trial must fall short. The first one begins while readahead still grows to the new value.
const SHORT_MAX: u32 = 2;
/// A window in which a larger share of the scans' bytes came under another value says nothing of this one.
const STRAYS: f64 = 0.1;
/// Scans that get less, in bytes per second, are limited by their reader.
const RATE_MIN: f64 = 256.0 * 1024.0;
/// What a window counts for in the share of scans, after another one.
const MEMORY: f64 = 0.8;
const HOLD: Duration = Duration::from_secs(60);
const HOLD_MAX: Duration = Duration::from_secs(960);
/// A trial that cannot be measured ends: the reader stopped, or its files may not be set.
const TRIAL_MAX: Duration = Duration::from_secs(10);

/// What scans got at one value.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measure {
    kib: u32,
    rate: f64,
    latency: f64,
}

/// The state of one mount's path.
#[derive(Debug, Clone)]
pub struct Path {
    began: Option<Duration>,
    scans: Rpcs,
    stray_bytes: u64,
    all: Rpcs,
    scan_kib: u32,
    settled: Option<Measure>,
    trial: Option<Duration>,
    /// Scans have the value that is tried.
    arrived: bool,
    /// Windows of the trial that fell short.
    short: u32,
    hold_until: Duration,
    hold: Duration,
    latency: f64,
    rate_max: f64,
    ordered_bytes: f64,
    all_bytes: f64,
    measures: bool,
}

impl Path {
    /// A path whose mount has `kib`. Where `measures` is false nothing is set, so that a trial would show nothing: the
    /// value then follows from rate and latency alone.
    pub fn new(kib: u32, measures: bool) -> Path {
        Path {
            began: None,
            scans: Rpcs::default(),
            stray_bytes: 0,
            all: Rpcs::default(),
            scan_kib: kib.max(SCAN_MIN_KIB),
            settled: None,
            trial: None,
            arrived: false,
            short: 0,
            hold_until: Duration::ZERO,
            hold: HOLD,
            latency: 0.0,
            rate_max: 0.0,
            ordered_bytes: 0.0,
            all_bytes: 0.0,
            measures,
        }
    }

    /// The value for scans.
    pub fn scan_kib(&self) -> u32 {
        self.scan_kib
    }

    /// True while a larger value is being tried.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// True where scans were measured and the value for them stands.
    pub fn is_settled(&self) -> bool {
        self.settled.is_some() && self.trial.is_none()
    }

    /// The last value at which scans were measured and that stands; None before the first measurement.
    pub fn proven_kib(&self) -> Option<u32> {
        self.settled.map(|measure| measure.kib)
    }

    /// Time of a read in the last window that had one, in seconds.
    pub fn latency(&self) -> f64 {
        self.latency
    }

    /// Most bytes per second that came in a window.
    pub fn rate_max(&self) -> f64 {
        self.rate_max
    }

    /// Latency times rate, in KiB: what is in flight at the highest rate that was seen.
    pub fn product_kib(&self) -> f64 {
        self.latency * self.rate_max / 1024.0
    }

    /// The share of what came lately that scans read; 0 where nothing came.
    pub fn ordered_share(&self) -> f64 {
        if self.all_bytes > 0.0 { self.ordered_bytes / self.all_bytes } else { 0.0 }
    }

    /// Takes in the reads of one file since the last call. `ordered`: it is read in order, under the value `kib`.
    pub fn note(&mut self, now: Duration, ordered: bool, kib: u32, rpcs: &Rpcs) {
        let began = *self.began.get_or_insert(now);
        if now >= began + WINDOW || self.is_clear(now.saturating_sub(began)) {
            self.close(now, now - began);
        }
        if ordered && kib == self.scan_kib && self.trial.is_some() && !self.arrived {
            // What came before came under the value before.
            self.arrived = true;
            self.began = Some(now);
            (self.scans, self.all, self.stray_bytes) = (Rpcs::default(), Rpcs::default(), 0);
        }
        self.all = self.all.plus(*rpcs);
        if ordered && kib == self.scan_kib {
            self.scans = self.scans.plus(*rpcs);
        } else if ordered {
            self.stray_bytes += rpcs.bytes;
        }
    }

    /// True where what was seen so far needs no whole window: the first measurement, or a trial that clearly pays.
    fn is_clear(&self, elapsed: Duration) -> bool {
        let scans = Rpcs { elapsed_ns: nanoseconds(elapsed), ..self.scans };
        let Some(latency) = scans.latency().filter(|_| self.measures && !self.is_mixed()) else { return false };
        let sample = SAMPLE.max(Duration::from_secs_f64((SAMPLE_TRIPS * latency).min(1.0)));
        match (self.trial, self.settled) {
            (Some(_), Some(before)) => self.arrived && elapsed >= sample && scans.rate() >= CLEAR * before.rate,
            (None, None) => elapsed >= 2 * sample && scans.rate() >= RATE_MIN,
            _ => false,
        }
    }

    fn is_mixed(&self) -> bool {
        self.stray_bytes as f64 > STRAYS * (self.scans.bytes + self.stray_bytes) as f64
    }

    fn close(&mut self, now: Duration, elapsed: Duration) {
        self.began = Some(now);
        let elapsed_ns = nanoseconds(elapsed);
        let mixed = self.is_mixed();
        let all = Rpcs { elapsed_ns, ..std::mem::take(&mut self.all) };
        let scans = Rpcs { elapsed_ns, ..std::mem::take(&mut self.scans) };
        let strays = std::mem::take(&mut self.stray_bytes);
        if let Some(latency) = all.latency() {
            self.latency = latency;
        }
        self.rate_max = self.rate_max.max(all.rate());
        self.ordered_bytes = MEMORY * self.ordered_bytes + (scans.bytes + strays) as f64;
        self.all_bytes = MEMORY * self.all_bytes + all.bytes as f64;
        match scans.latency() {
            Some(latency) if scans.rate() >= RATE_MIN && !mixed => {
                self.step(now, Measure { kib: self.scan_kib, rate: scans.rate(), latency });
            }
            _ if self.trial.is_some_and(|since| now > since + TRIAL_MAX) => self.back(now),
            _ => {}
        }
    }

    fn step(&mut self, now: Duration, seen: Measure) {
        if !self.measures {
            let wanted = 3.0 * self.product_kib();
            self.scan_kib = level(wanted).max(self.scan_kib);
            self.settled = Some(seen);
            return;
        }
        match (self.trial, self.settled) {
            (Some(_), Some(before)) if seen.rate < GAIN * before.rate => {
                self.short += 1;
                if self.short >= SHORT_MAX {
                    self.back(now);
                }
                return;
            }
            (Some(_), _) => self.hold = HOLD,
            // A path that became much slower or faster is another one.
            (None, Some(before)) if now < self.hold_until && same(before.latency, seen.latency) => return,
            (None, _) => {}
        }
        self.settled = Some(seen);
        self.trial = None;
        if seen.kib < SCAN_MAX_KIB {
            self.scan_kib = level(f64::from(seen.kib.saturating_mul(STEP)));
            self.trial = Some(now);
            self.arrived = false;
            self.short = 0;
        } else {
            self.hold_until = now + self.hold;
        }
    }

    /// The trial brought too little: the value before it returns.
    fn back(&mut self, now: Duration) {
        if let Some(before) = self.settled {
            self.scan_kib = before.kib;
        }
        self.trial = None;
        self.hold_until = now + self.hold;
        self.hold = (2 * self.hold).min(HOLD_MAX);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn same(a: f64, b: f64) -> bool {
    a < 3.0 * b && b < 3.0 * a
}

/// The least power of two that holds `kib`, within the bounds for scans.
pub(crate) fn level(kib: f64) -> u32 {
    let mut level = SCAN_MIN_KIB;
    while f64::from(level) < kib && level < SCAN_MAX_KIB {
        level *= 2;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A link: a scan gets value / latency, at most `most` bytes per second.
    fn rpcs(kib: u32, latency: f64, most: f64, seconds: f64) -> Rpcs {
        let rate = (f64::from(kib) * 1024.0 / latency).min(most);
        let bytes = (rate * seconds) as u64;
        let reads = bytes / 131_072 + 1;
        Rpcs {
            reads,
            done: reads,
            matched: reads,
            bytes,
            latency_ns: (latency * 1e9) as u64 * reads,
            ..Rpcs::default()
        }
    }

    /// Values that scans have second by second.
    fn run(path: &mut Path, from_ms: u64, seconds: u64, latency: f64, most: f64) -> Vec<u32> {
        let mut values = Vec::new();
        for tick in 1..=seconds * 4 {
            let kib = path.scan_kib();
            path.note(at(from_ms + 250 * tick), true, kib, &rpcs(kib, latency, most, 0.25));
            if values.last() != Some(&path.scan_kib()) {
                values.push(path.scan_kib());
            }
        }
        values
    }

    #[test]
    fn a_long_way_gets_more_and_a_short_one_does_not() {
        let mut far = Path::new(128, true);
        assert_eq!(run(&mut far, 0, 20, 0.005, 1e9), [128, 512, 2048, 8192], "1 GB/s over 5 ms hold 5 MB");
        assert!(far.is_settled());
        let mut near = Path::new(128, true);
        assert_eq!(run(&mut near, 0, 20, 0.0001, 1e9), [128, 512, 128], "128 KiB in 0.1 ms fill the link");
        let mut slow = Path::new(128, true);
        assert_eq!(run(&mut slow, 0, 20, 0.005, 50e6), [128, 512, 2048, 512], "50 MB/s over 5 ms hold 250 KB");
    }

    #[test]
    fn clear_gains_follow_each_other_within_a_second() {
        let mut path = Path::new(128, true);
        let mut seen = Vec::new();
        let mut kib = 128;
        for tick in 1..=50 {
            let now = at(100 * tick);
            path.note(now, true, kib, &rpcs(kib, 0.005, 1e9, 0.1));
            if path.scan_kib() != kib {
                // The file is set at the next look.
                seen.push((100 * tick, path.scan_kib()));
                path.note(now, true, kib, &rpcs(kib, 0.005, 1e9, 0.1));
                kib = path.scan_kib();
            }
        }
        assert_eq!(seen.iter().map(|(_, kib)| *kib).collect::<Vec<_>>(), [512, 2048, 8192]);
        assert!(seen[2].0 <= 1000, "{seen:?}");
    }

    #[test]
    fn a_small_gain_is_judged_on_whole_windows() {
        // 128 KiB in 5 ms are 26 MB/s of 34: 512 KiB bring 1.3 times as much, 2 MiB nothing more.
        let mut path = Path::new(128, true);
        run(&mut path, 0, 1, 0.005, 34e6);
        assert!(path.is_trying() && path.scan_kib() == 512);
        run(&mut path, 1000, 4, 0.005, 34e6);
        assert_eq!(path.proven_kib(), Some(512));
    }

    #[test]
    fn after_a_useless_trial_the_next_one_waits_longer_each_time() {
        let mut path = Path::new(128, true);
        let values = run(&mut path, 0, 59, 0.0001, 1e9);
        assert_eq!(values, [128, 512, 128]);
        let values = run(&mut path, 59_000, 110, 0.0001, 1e9);
        assert_eq!(values, [128, 512, 128], "once more after a minute, then not for two");
    }

    #[test]
    fn a_path_that_changes_is_tried_again_at_once() {
        let mut path = Path::new(128, true);
        run(&mut path, 0, 10, 0.0001, 1e9);
        assert_eq!(run(&mut path, 10_000, 20, 0.005, 1e9), [128, 512, 2048, 8192]);
    }

    #[test]
    fn other_values_and_slow_readers_say_nothing() {
        let mut path = Path::new(128, true);
        for tick in 1..100 {
            path.note(at(250 * tick), true, 64, &rpcs(64, 0.005, 1e9, 0.25));
            path.note(at(250 * tick), false, 8, &rpcs(8, 0.005, 1e9, 0.25));
        }
        assert_eq!((path.scan_kib(), path.is_settled()), (128, false));
        let mut path = Path::new(128, true);
        for tick in 1..100 {
            path.note(at(250 * tick), true, 128, &rpcs(128, 0.005, 1e5, 0.25));
        }
        assert_eq!(path.scan_kib(), 128, "100 KB/s: the reader is what is slow");
    }

    #[test]
    fn a_trial_that_nobody_reads_through_ends() {
        let mut path = Path::new(128, true);
        run(&mut path, 0, 1, 0.005, 1e9);
        assert!(path.is_trying());
        assert_eq!((path.proven_kib(), path.scan_kib()), (Some(512), 2048));
        for tick in 1..60 {
            path.note(at(2000 + 250 * tick), false, 8, &rpcs(8, 0.005, 1e9, 0.25));
        }
        assert!(!path.is_trying() && path.is_settled());
    }

    #[test]
    fn where_nothing_is_set_the_product_gives_the_value() {
        let mut path = Path::new(128, false);
        for tick in 1..20 {
            path.note(at(250 * tick), true, path.scan_kib(), &rpcs(128, 0.005, 1e9, 0.25));
        }
        assert_eq!(path.scan_kib(), 512, "three times 128 KiB");
        assert!((path.product_kib() - 128.0).abs() < 2.0, "{}", path.product_kib());
    }

    #[test]
    fn levels_are_powers_of_two_within_the_bounds() {
        assert_eq!([0.0, 128.0, 129.0, 3000.0, 1e9].map(level), [128, 128, 256, 4096, 8192]);
    }
}
