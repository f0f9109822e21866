// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way to an NFS server: how long a read takes, how much comes, and how much readahead scans need there.
//!
//! A scan keeps about one readahead value in flight, so it gets value / latency bytes per second until the link or the
//! server is full. Below that point more readahead brings more; above it only queues. Where the point lies is not
//! visible from one value: the latency of a full link contains its queue. So the value is tried four times larger, and
//! stays where scans get a tenth more. Otherwise the one before returns, and the next attempt waits.
//!
//! Where the value is what limits scans, four times as much brings far more than a tenth. Such a gain shows within some
//! round trips, and the next step follows at once: the way from the default to what a far server takes is three steps,
//! and with a second for each of them a short scan would be over. A small gain is judged on whole windows.
//!
//! Where a larger value brings less, an even larger one may still bring more. A server that reads from a disk takes reads
//! that come together for random ones, until they are so large that each of them fills its disk. So the next step is
//! tried, too, before the value returns.
//!
//! A gain is one for all who read on the way (`others.rs`). A step that costs others more than it brings is taken back;
//! when they have gone it is tried again. Where they come later, smaller values are tried, on whole windows: a stream
//! first uses up what it has ahead. By the same measure a smaller value stays where the larger one is not worth a tenth
//! more.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::nfs::others::{Measure, Others};
use crate::nfs::rpc::Rpcs;
use crate::openfile::FileId;
use crate::rule::DEFAULT_KIB;

/// Least and largest value for scans, in KiB. Beyond 8 MiB one scan evicts what others read.
pub const SCAN_MIN_KIB: u32 = DEFAULT_KIB;
/// See `SCAN_MIN_KIB`.
pub const SCAN_MAX_KIB: u32 = 8192;

const WINDOW: Duration = Duration::from_secs(1);
const STEP: u32 = 4;
/// Of two values, the larger one must bring so many times more.
const GAIN: f64 = 1.1;
/// A gain of so many times is believed after a sample instead of a window.
const CLEAR: f64 = 1.5;
/// Least length of a sample. The first one has no other to be compared with, and takes two.
const SAMPLE: Duration = Duration::from_millis(100);
/// And so many reads one after the other: readahead takes some round trips to grow to a new value.
const SAMPLE_TRIPS: f64 = 16.0;
/// A loss of the scans is believed after so many samples.
const LOSS_SAMPLES: u32 = 2;
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

/// What came since the window began.
#[derive(Debug, Clone, Default)]
struct Window {
    all: BTreeMap<FileId, Rpcs>,
    /// Files that were scanned, with their reads under the value for scans; and the bytes of scans under another one.
    scans: BTreeMap<FileId, Rpcs>,
    stray_bytes: u64,
    /// Of looks in which scans' bytes came: what others do without a scan is no measure of it.
    others: Others,
    /// Others' reads of the look that runs.
    beside: Vec<(FileId, u32, Rpcs)>,
    /// Time of the looks in which scans' bytes came. Between its bursts a reader asks for nothing, whatever the value.
    active: Duration,
}

/// Files' reads together, and their bytes per second in a time.
fn together(files: &BTreeMap<FileId, Rpcs>, elapsed: Duration) -> (Rpcs, f64) {
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let sum = files.values().fold(Rpcs::default(), |sum, file| sum.plus(*file));
    (sum, files.values().map(|file| Rpcs { elapsed_ns, ..*file }.rate()).sum())
}

impl Window {
    /// What it says so far of this value for scans; None where no scan was answered.
    fn measure(&self, scan_kib: u32) -> Option<Measure> {
        let (scans, rate) = together(&self.scans, self.active);
        Some(Measure {
            kib: scan_kib,
            rate,
            scans: self.scans.len(),
            latency: scans.latency()?,
            others: self.others.waits(self.active.as_secs_f64()),
        })
    }

    /// Bytes of scans, under any value.
    fn ordered_bytes(&self) -> u64 {
        self.stray_bytes + self.scans.values().map(|file| file.bytes).sum::<u64>()
    }

    /// A look is over.
    fn end_look(&mut self, scanned: bool) {
        for (file, kib, rpcs) in std::mem::take(&mut self.beside) {
            if scanned {
                self.others.note(file, kib, &rpcs);
            }
        }
    }

    fn is_mixed(&self) -> bool {
        self.stray_bytes as f64 > STRAYS * self.ordered_bytes() as f64
    }
}

/// The state of one mount's path.
#[derive(Debug, Clone)]
pub struct Path {
    began: Option<Duration>,
    /// The last two looks. What a look tells came between them.
    looked: Duration,
    looked_before: Duration,
    /// The last look in which bytes of a scan came.
    counted: Duration,
    /// Bytes of a scan came in the look before.
    scanned: bool,
    window: Window,
    scan_kib: u32,
    settled: Option<Measure>,
    trial: Option<Duration>,
    /// Scans have the value that is tried.
    arrived: bool,
    /// Windows of the trial that fell short.
    short: u32,
    hold_until: Duration,
    hold: Duration,
    /// The last trial ended because of what others lost.
    yielded: bool,
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
            looked: Duration::ZERO,
            looked_before: Duration::ZERO,
            counted: Duration::ZERO,
            scanned: false,
            window: Window::default(),
            scan_kib: kib.max(SCAN_MIN_KIB),
            settled: None,
            trial: None,
            arrived: false,
            short: 0,
            hold_until: Duration::ZERO,
            hold: HOLD,
            yielded: false,
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

    /// True while another value is being tried.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// True where scans were measured and the value for them stands.
    pub fn is_settled(&self) -> bool {
        self.settled.is_some() && self.trial.is_none()
    }

    /// The last value at which scans were measured and that stands; None before the first measurement.
    pub fn proven_kib(&self) -> Option<u32> {
        self.settled.as_ref().map(|measure| measure.kib)
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
    pub fn note(&mut self, now: Duration, file: FileId, ordered: bool, kib: u32, rpcs: &Rpcs) {
        let is_first = self.looked != now;
        if is_first {
            // In the first look of a scan others were not yet behind it.
            let scanned = self.counted == self.looked;
            self.window.end_look(scanned && self.scanned);
            self.scanned = scanned;
            (self.looked_before, self.looked) = (self.looked, now);
        }
        // Nobody knows since when the first look's reads came.
        let began = *self.began.get_or_insert(now);
        if began == now {
            return;
        }
        // At the first file of a look, the window has all that came until the look before; at the next ones, more. Looks
        // are not equally long: the one after a change is longer.
        let last = self.looked_before;
        if is_first && (last >= began + WINDOW || self.is_clear()) {
            self.close(last, last - began);
        }
        if ordered && kib == self.scan_kib && self.trial.is_some() && !self.arrived {
            // What came before came under the value before.
            self.arrived = true;
            self.began = Some(last);
            self.window = Window::default();
        }
        let window = &mut self.window;
        let all = window.all.entry(file).or_default();
        *all = all.plus(*rpcs);
        if !ordered {
            window.beside.push((file, kib, *rpcs));
            return;
        }
        if rpcs.bytes > 0 && self.counted != now {
            self.counted = now;
            window.active += now.saturating_sub(last);
        }
        let scan = window.scans.entry(file).or_default();
        if kib == self.scan_kib {
            *scan = scan.plus(*rpcs);
        } else {
            window.stray_bytes += rpcs.bytes;
        }
    }

    /// True where what was seen so far needs no whole window: the first measurement, or a trial that clearly pays or
    /// does not.
    fn is_clear(&self) -> bool {
        let seen = self.window.measure(self.scan_kib);
        let Some(seen) = seen.filter(|_| self.measures && !self.window.is_mixed()) else { return false };
        let sample = SAMPLE.max(Duration::from_secs_f64((SAMPLE_TRIPS * seen.latency).min(1.0)));
        let active = self.window.active;
        match (self.trial, &self.settled) {
            (Some(_), Some(before)) if self.arrived && active >= sample => {
                let worth = seen.worth(before);
                let lost = loses(before, &seen) && active >= LOSS_SAMPLES * sample;
                let clear = worth >= CLEAR || (is_shown(before, &seen) && worth <= 1.0 / CLEAR);
                seen.kib > before.kib && (clear || lost)
            }
            (None, None) => active >= 2 * sample && seen.rate >= RATE_MIN,
            _ => false,
        }
    }

    fn close(&mut self, now: Duration, elapsed: Duration) {
        self.began = Some(now);
        let window = std::mem::take(&mut self.window);
        let seen = window.measure(self.scan_kib);
        let seen = seen.filter(|seen| seen.rate >= RATE_MIN && !window.is_mixed());
        let (all, rate) = together(&window.all, elapsed);
        if let Some(latency) = all.latency() {
            self.latency = latency;
        }
        self.rate_max = self.rate_max.max(rate);
        self.ordered_bytes = MEMORY * self.ordered_bytes + window.ordered_bytes() as f64;
        self.all_bytes = MEMORY * self.all_bytes + all.bytes as f64;
        match seen {
            Some(seen) => self.step(now, seen),
            None if self.trial.is_some_and(|since| now > since + TRIAL_MAX) => self.back(now),
            None => {}
        }
    }

    fn step(&mut self, now: Duration, seen: Measure) {
        if !self.measures {
            let wanted = 3.0 * self.product_kib();
            self.scan_kib = level(wanted).max(self.scan_kib);
            self.settled = Some(seen);
            return;
        }
        let mut larger = true;
        match (self.trial, &self.settled) {
            (Some(_), Some(before)) if !is_worth(before, &seen) => {
                self.short += 1;
                let shown = is_shown(before, &seen);
                let yielded = seen.kib > before.kib && gains(before, &seen);
                let further = seen.kib.saturating_mul(STEP);
                if seen.kib == before.kib * STEP && loses(before, &seen) && further <= SCAN_MAX_KIB {
                    self.attempt(now, further);
                } else if shown || self.short >= SHORT_MAX {
                    self.back(now);
                    self.yielded = yielded;
                }
                return;
            }
            (Some(_), before) => {
                self.hold = HOLD;
                larger = before.as_ref().is_none_or(|before| seen.kib > before.kib);
            }
            (None, Some(before)) if before.others.is_empty() && !seen.others.is_empty() && seen.kib > SCAN_MIN_KIB => {
                larger = false;
            }
            (None, Some(_)) if self.yielded && seen.others.is_empty() => {}
            // A path that became much slower or faster is another one.
            (None, Some(before)) if now < self.hold_until && same(before.latency, seen.latency) => return,
            (None, _) => {}
        }
        self.yielded = false;
        let next = if larger { seen.kib.saturating_mul(STEP) } else { seen.kib / STEP };
        let next = level(f64::from(next));
        if next == seen.kib {
            self.trial = None;
            self.hold_until = now + self.hold;
        } else {
            self.attempt(now, next);
        }
        self.settled = Some(seen);
    }

    /// Tries a value.
    fn attempt(&mut self, now: Duration, kib: u32) {
        self.trial = Some(now);
        self.scan_kib = kib;
        self.arrived = false;
        self.short = 0;
    }

    /// The trial brought too little: the value before it returns.
    fn back(&mut self, now: Duration) {
        if let Some(before) = &self.settled {
            self.scan_kib = before.kib;
        }
        self.trial = None;
        self.hold_until = now + self.hold;
        self.hold = (2 * self.hold).min(HOLD_MAX);
    }
}

/// True where a value stays. A smaller one must have changed something: some kernels let a stream keep its window.
fn is_worth(before: &Measure, seen: &Measure) -> bool {
    if seen.kib > before.kib {
        return seen.worth(before) >= GAIN;
    }
    let acts = GAIN * seen.latency <= before.latency || GAIN * seen.rate <= before.rate;
    acts && GAIN * seen.worth(before) >= 1.0
}

/// True where a window shows what a value brings. Readahead has to grow to a larger one, which a gain of the scans
/// proves, and a loss as well: a server may take reads that come together for random ones.
fn is_shown(before: &Measure, seen: &Measure) -> bool {
    seen.kib < before.kib || gains(before, seen) || loses(before, seen)
}

fn loses(before: &Measure, seen: &Measure) -> bool {
    GAIN * seen.rate <= before.rate
}

fn gains(before: &Measure, seen: &Measure) -> bool {
    seen.rate >= GAIN * before.rate
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
mod tests;
