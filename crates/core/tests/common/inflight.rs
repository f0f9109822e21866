// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reference in-flight tracker that keeps all events and recomputes every feature from them
//! (`spec/features-linnet.md`).

/// Inputs of a read.
pub const INPUTS: usize = 16;
/// The end of the scale, and "not yet".
pub const LAST: u8 = 63;
/// Upper limit of a latency in an average.
const LATENCY_MAX: u64 = 1 << 40;

/// One I/O in flight.
#[derive(Clone, Copy)]
pub struct Io {
    pub id: usize,
    pub at_ns: u64,
    pub read: bool,
    pub offset: u64,
    pub size: u32,
    ahead: u64,
}

/// The device, with its ends in order of time.
#[derive(Default)]
pub struct SlowInflightTracker {
    pub inflection_ns: u64,
    pub live: Vec<Io>,
    done: Vec<(Io, u64)>,
    arrived: Vec<Io>,
    /// When a slow read last completed, and how many I/Os had arrived by then.
    slow: Option<(u64, usize)>,
}

fn pages(size: u32) -> u64 {
    u64::from(size).div_ceil(4096)
}

/// The bucket of a value: its position among the lower bounds of the buckets.
pub fn bucket(value: u64) -> u8 {
    let begins = |b: u64| if b < 4 { b } else { (4 + b % 4) << (b / 4 - 1) };
    (1..=u64::from(LAST)).filter(|&b| begins(b) <= value).count() as u8
}

fn time(ns: u64) -> u8 {
    bucket(ns / 2048)
}

/// A moving average that starts with its first value, in integers as the specification defines it.
fn average(values: impl Iterator<Item = u64>, shift: u32) -> u64 {
    let mut kept = 0u64;
    for value in values {
        kept = if kept == 0 { value << shift } else { kept + value - (kept >> shift) };
    }
    kept >> shift
}

impl SlowInflightTracker {
    pub fn new(inflection_ns: u64) -> SlowInflightTracker {
        SlowInflightTracker { inflection_ns, ..SlowInflightTracker::default() }
    }

    /// Submits an I/O and returns its number.
    pub fn arrive(&mut self, now: u64, read: bool, offset: u64, size: u32) -> usize {
        let ahead = self.pages_in_flight() + pages(size);
        let io = Io { id: self.arrived.len(), at_ns: now, read, offset, size, ahead };
        self.arrived.push(io);
        self.live.push(io);
        io.id
    }

    pub fn complete(&mut self, id: usize, now: u64) {
        let io = self.live.remove(self.live.iter().position(|io| io.id == id).expect("live"));
        self.done.push((io, now));
        if io.read && now - io.at_ns > self.inflection_ns {
            self.slow = Some((now, self.arrived.len()));
        }
    }

    pub fn withdraw(&mut self, id: usize) {
        self.live.retain(|io| io.id != id);
    }

    fn pages_in_flight(&self) -> u64 {
        self.live.iter().map(|io| pages(io.size)).sum()
    }

    /// Pages of the writes among the first `arrivals` I/Os.
    fn written(&self, arrivals: usize) -> u64 {
        self.arrived[..arrivals].iter().filter(|io| !io.read).map(|io| pages(io.size)).sum()
    }

    /// The features of `linnet-2`: input 9 counts the reads in flight whose first page has this one's hash.
    pub fn describe2(&self, now: u64, offset: u64, size: u32) -> [u8; INPUTS] {
        let hash = |offset: u64| (offset / 4096).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let same = self.live.iter().filter(|io| io.read && hash(io.offset) == hash(offset)).count();
        let mut features = self.describe(now, offset, size);
        features[9] = bucket(same as u64);
        features
    }

    pub fn describe(&self, now: u64, offset: u64, size: u32) -> [u8; INPUTS] {
        let reads: Vec<&Io> = self.live.iter().filter(|io| io.read).collect();
        let ages: Vec<u64> = reads.iter().map(|io| now - io.at_ns).collect();
        let done: Vec<(u64, u64)> =
            self.done.iter().filter(|(io, _)| io.read).map(|&(io, at)| (at, at - io.at_ns)).collect();
        let last = self.arrived.iter().rfind(|io| io.read);
        let ago = |k: usize| done.len().checked_sub(k).map_or(LAST, |i| time(now - done[i].0));
        let mean = |shift| average(done.iter().map(|d| d.1.min(LATENCY_MAX)), shift);
        let pace = |(io, at): &(Io, u64)| ((at - io.at_ns).min(LATENCY_MAX) << 4) / io.ahead.max(1);
        let page_ns = average(self.done.iter().map(pace), 4);
        let end = last.map_or(0, |io| io.offset + u64::from(io.size));
        [
            bucket(pages(size)),
            bucket(reads.len() as u64),
            bucket((self.live.len() - reads.len()) as u64),
            bucket(reads.iter().map(|io| pages(io.size)).sum()),
            time(ages.iter().copied().max().unwrap_or(0)),
            time(ages.iter().sum()),
            ago(1),
            last.map_or(LAST, |io| time(now - io.at_ns)),
            if done.len() < 4 { 0 } else { time(done[done.len() - 4..].iter().map(|d| d.1).min().unwrap_or(0)) },
            time(mean(2)),
            time(mean(5)),
            ago(8),
            bucket(offset.abs_diff(end) / 4096),
            time((page_ns * (self.pages_in_flight() + pages(size)).min(65_535)) >> 4),
            self.slow.map_or(LAST, |(at, _)| bucket((now - at) / 32_768)),
            bucket(self.written(self.arrived.len()) - self.slow.map_or(0, |(_, arrivals)| self.written(arrivals))),
        ]
    }
}
