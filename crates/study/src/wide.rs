// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a host can see of one device when a read arrives, in some two hundred numbers: the features of the wide ceiling
//! of `linnet study accuracy`. They need not be cheap, because no decision uses them; they say what a model could know.
//!
//! Groups: the read; the I/Os in flight, their ages and distances, and those on the same pages; the gaps since earlier
//! arrivals and completions; the last sixteen reads one by one; figures of the last 4 to 64 reads; moving averages;
//! counts in windows of 0.1 ms to 1 s; writes; accesses to the same page and region; ages of slow reads. What is not
//! known is not a number.

use std::collections::{HashMap, VecDeque};

use linnet_learn::{Event, in_time_order};
use linnet_types::{IoRecord, Nanos, Op};

const PAGE: u64 = 4096;
const REGION: u64 = 2 << 20;
const KEPT: usize = 64;
const ONE_BY_ONE: usize = 16;
const SPANS: [usize; 5] = [4, 8, 16, 32, 64];
const SHIFTS: [i32; 7] = [1, 2, 3, 4, 5, 6, 7];
const WINDOWS_NS: [Nanos; 9] =
    [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000, 300_000_000, 1_000_000_000];
const AGES_NS: [Nanos; 5] = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000];
const SLOW_NS: [Nanos; 5] = [300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];
const SLOW_RATIOS: [f32; 3] = [2.0, 4.0, 8.0];
const NEAR: [u64; 4] = [64 << 10, 1 << 20, 16 << 20, 128 << 20];

/// One row for each read with a latency, in the order of arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WideSet {
    /// Numbers of a row.
    pub width: usize,
    /// The rows.
    pub values: Vec<f32>,
}

impl WideSet {
    /// Replays the records of one device.
    pub fn from_records(records: &[IoRecord]) -> WideSet {
        let mut set = WideSet::default();
        let mut host = Host::default();
        in_time_order(records, |event| match event {
            Event::Arrive(index) => {
                let record = &records[index];
                if record.op.is_read() {
                    let before = set.values.len();
                    host.describe(records, record, &mut set.values);
                    set.width = set.values.len() - before;
                }
                host.arrive(records, index);
            }
            Event::Complete(index) => host.complete(records, index),
        });
        set
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }
}

/// An I/O that has completed.
#[derive(Clone, Copy)]
struct Done {
    at_ns: Nanos,
    latency_ns: Nanos,
    size_bytes: u32,
    ahead: u32,
}

/// The last access to a page.
#[derive(Clone, Copy)]
struct Access {
    at_ns: Nanos,
    is_read: bool,
}

/// What happened within the last [`WINDOWS_NS`], as sums from the start of the trace.
#[derive(Clone, Copy, Default)]
struct Sums {
    at_ns: Nanos,
    /// Reads, writes, bytes read, bytes written, reads completed, and their latencies.
    counts: [f64; 6],
}

/// Everything that a host remembers.
#[derive(Default)]
struct Host {
    in_flight: Vec<usize>,
    ahead: HashMap<usize, u32>,
    /// The newest first.
    reads: VecDeque<Done>,
    writes: VecDeque<Done>,
    arrivals_ns: VecDeque<Nanos>,
    read_offsets: VecDeque<u64>,
    write_offsets: VecDeque<u64>,
    last_read_ns: Option<Nanos>,
    last_write_ns: Option<Nanos>,
    pages: HashMap<u64, Access>,
    averages: [f32; SHIFTS.len()],
    log_averages: [f32; SHIFTS.len()],
    slow_ns: [Option<Nanos>; SLOW_NS.len()],
    slow_by_ratio_ns: [Option<Nanos>; SLOW_RATIOS.len()],
    sums: VecDeque<Sums>,
    run: u32,
    bytes_written: u64,
}

impl Host {
    fn arrive(&mut self, records: &[IoRecord], index: usize) {
        let record = &records[index];
        let now = record.arrive_ns;
        self.ahead.insert(index, self.in_flight.len() as u32);
        self.in_flight.push(index);
        keep(&mut self.arrivals_ns, now);
        let read = record.op.is_read();
        let last = if read { &mut self.read_offsets } else { &mut self.write_offsets };
        if read {
            let follows = last.front().is_some_and(|&end| end == record.offset_bytes);
            self.run = if follows { self.run + 1 } else { 0 };
            self.last_read_ns = Some(now);
        } else {
            self.last_write_ns = Some(now);
            self.bytes_written += u64::from(record.size_bytes);
        }
        keep(last, record.offset_bytes + u64::from(record.size_bytes));
        for page in pages(record) {
            self.pages.insert(page, Access { at_ns: now, is_read: read });
        }
        let size = f64::from(record.size_bytes);
        self.count(now, if read { [1.0, 0.0, size, 0.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0, size, 0.0, 0.0] });
    }

    fn complete(&mut self, records: &[IoRecord], index: usize) {
        let record = &records[index];
        let latency_ns = record.latency_ns.unwrap_or(0);
        let now = record.arrive_ns.saturating_add(latency_ns);
        self.in_flight.retain(|&own| own != index);
        let ahead = self.ahead.remove(&index).unwrap_or(0);
        let done = Done { at_ns: now, latency_ns, size_bytes: record.size_bytes, ahead };
        if record.op != Op::Read {
            keep(&mut self.writes, done);
            return;
        }
        let latency = latency_ns as f32;
        for (slow, least) in self.slow_ns.iter_mut().zip(SLOW_NS) {
            if latency_ns > least {
                *slow = Some(now);
            }
        }
        for (slow, ratio) in self.slow_by_ratio_ns.iter_mut().zip(SLOW_RATIOS) {
            if self.averages[4] > 0.0 && latency > ratio * self.averages[4] {
                *slow = Some(now);
            }
        }
        for (k, shift) in SHIFTS.into_iter().enumerate() {
            let weight = if self.reads.is_empty() { 1.0 } else { 0.5f32.powi(shift) };
            self.averages[k] += weight * (latency - self.averages[k]);
            self.log_averages[k] += weight * (latency.max(1.0).ln() - self.log_averages[k]);
        }
        keep(&mut self.reads, done);
        self.count(now, [0.0, 0.0, 0.0, 0.0, 1.0, latency_ns as f64]);
    }

    /// Adds to the sums, and forgets what is older than the longest window.
    fn count(&mut self, at_ns: Nanos, by: [f64; 6]) {
        let mut counts = self.sums.back().map_or([0.0; 6], |sums| sums.counts);
        counts.iter_mut().zip(by).for_each(|(count, by)| *count += by);
        self.sums.push_back(Sums { at_ns, counts });
        let longest = WINDOWS_NS[WINDOWS_NS.len() - 1];
        while self.sums.len() > 1 && self.sums[1].at_ns + longest < at_ns {
            self.sums.pop_front();
        }
    }

    fn describe(&self, records: &[IoRecord], read: &IoRecord, row: &mut Vec<f32>) {
        let now = read.arrive_ns;
        self.this_read(read, row);
        self.outstanding(records, read, row);
        self.gaps(now, row);
        self.history(now, row);
        self.windows(now, row);
        self.written(now, row);
        self.places(records, read, row);
        row.extend(self.slow_ns.iter().chain(&self.slow_by_ratio_ns).map(|&at| age(now, at)));
    }

    fn this_read(&self, read: &IoRecord, row: &mut Vec<f32>) {
        let (size, offset) = (u64::from(read.size_bytes), read.offset_bytes);
        row.extend([size as f32, (size.max(1) as f32).log2(), offset as f32, pages(read).count() as f32]);
        row.extend([PAGE, 64 << 10, 1 << 20, REGION].map(|unit| (offset % unit) as f32));
    }

    /// The I/Os in flight: how many, how old, how far away, and on the same pages.
    fn outstanding(&self, records: &[IoRecord], read: &IoRecord, row: &mut Vec<f32>) {
        let now = read.arrive_ns;
        for read_side in [true, false] {
            let own: Vec<&IoRecord> =
                self.in_flight.iter().map(|&k| &records[k]).filter(|other| other.op.is_read() == read_side).collect();
            let ages = || own.iter().map(|other| (now - other.arrive_ns) as f32);
            row.push(own.len() as f32);
            row.push(own.iter().map(|other| other.size_bytes as f32).sum());
            row.push(own.iter().map(|other| pages(other).count() as f32).sum());
            row.push(own.iter().map(|other| other.size_bytes as f32).fold(0.0, f32::max));
            row.extend([ages().fold(f32::NAN, f32::max), ages().fold(f32::NAN, f32::min)]);
            row.push(ages().sum::<f32>() / own.len() as f32);
            row.extend(AGES_NS.map(|least| ages().filter(|&age| age > least as f32).count() as f32));
            let shared: Vec<&&IoRecord> = own.iter().filter(|other| shares_page(read, other)).collect();
            row.push(shared.len() as f32);
            row.push(shared.iter().map(|other| other.size_bytes as f32).sum());
            row.push(shared.iter().map(|other| (now - other.arrive_ns) as f32).fold(f32::NAN, f32::max));
            row.extend(NEAR.map(|most| own.iter().filter(|other| distance(read, other) < most).count() as f32));
            row.push(own.iter().map(|other| distance(read, other) as f32).fold(f32::NAN, f32::min));
        }
    }

    fn gaps(&self, now: Nanos, row: &mut Vec<f32>) {
        row.extend([age(now, self.last_read_ns), age(now, self.last_write_ns)]);
        row.extend([1, 2, 4, 8, 16, 32, 64].map(|k| age(now, self.arrivals_ns.get(k - 1).copied())));
        row.extend([1, 2, 4, 8, 16, 32, 64].map(|k| age(now, self.reads.get(k - 1).map(|done| done.at_ns))));
    }

    fn history(&self, now: Nanos, row: &mut Vec<f32>) {
        let known = |k: usize, of: fn(&Done) -> f32| self.reads.get(k).map_or(f32::NAN, of);
        for k in 0..ONE_BY_ONE {
            row.push(known(k, |done| done.latency_ns as f32));
            row.push(known(k, |done| done.ahead as f32));
        }
        for k in 0..ONE_BY_ONE / 2 {
            row.push(known(k, |done| done.size_bytes as f32));
            row.push(known(k, |done| done.latency_ns as f32 / (done.ahead as f32 + 1.0)));
            row.push(age(now, self.reads.get(k).map(|done| done.at_ns)));
        }
        for span in SPANS {
            let latencies = || self.reads.iter().take(span).map(|done| done.latency_ns as f32);
            let count = self.reads.len().min(span) as f32;
            let mean = latencies().sum::<f32>() / count;
            let log_mean = latencies().map(|ns| ns.max(1.0).ln()).sum::<f32>() / count;
            row.extend([mean, log_mean, latencies().fold(f32::NAN, f32::max), latencies().fold(f32::NAN, f32::min)]);
            row.push((latencies().map(|ns| (ns.max(1.0).ln() - log_mean).powi(2)).sum::<f32>() / count).sqrt());
            row.push(latencies().filter(|&ns| ns > 2.0 * self.averages[6]).count() as f32 / count);
        }
        row.extend(self.averages);
        row.extend(self.log_averages);
        row.extend([self.averages[0] / self.averages[4], self.averages[2] / self.averages[6]]);
    }

    fn windows(&self, now: Nanos, row: &mut Vec<f32>) {
        let total = self.sums.back().map_or([0.0; 6], |sums| sums.counts);
        for window in WINDOWS_NS {
            let first = self.sums.partition_point(|sums| sums.at_ns + window < now);
            let before = if first == 0 { [0.0; 6] } else { self.sums[first - 1].counts };
            let within: [f64; 6] = std::array::from_fn(|k| total[k] - before[k]);
            row.extend(within[..5].iter().map(|&count| count as f32));
            row.push((within[5] / within[4]) as f32);
        }
    }

    fn written(&self, now: Nanos, row: &mut Vec<f32>) {
        for k in 0..8 {
            row.push(self.writes.get(k).map_or(f32::NAN, |done| done.latency_ns as f32));
            row.push(age(now, self.writes.get(k).map(|done| done.at_ns)));
        }
        row.extend((0..4).map(|k| self.writes.get(k).map_or(f32::NAN, |done| done.size_bytes as f32)));
        row.extend([64 << 20, 1 << 30].map(|unit: u64| (self.bytes_written % unit) as f32));
    }

    /// How near earlier I/Os were, and what was last done to the first page.
    fn places(&self, records: &[IoRecord], read: &IoRecord, row: &mut Vec<f32>) {
        let signed = |end: u64| {
            let apart = read.offset_bytes as f32 - end as f32;
            apart.signum() * (apart.abs() + 1.0).ln()
        };
        row.extend((0..8).map(|k| self.read_offsets.get(k).map_or(f32::NAN, |&end| signed(end))));
        row.extend((0..4).map(|k| self.write_offsets.get(k).map_or(f32::NAN, |&end| signed(end))));
        let region = read.offset_bytes / REGION;
        row.push(self.read_offsets.iter().filter(|&&end| end / REGION == region).count() as f32);
        row.push(self.write_offsets.iter().filter(|&&end| end / REGION == region).count() as f32);
        row.push(self.in_flight.iter().filter(|&&k| records[k].offset_bytes / REGION == region).count() as f32);
        row.push(self.run as f32);
        let last = pages(read).filter_map(|page| self.pages.get(&page)).max_by_key(|access| access.at_ns);
        row.push(age(read.arrive_ns, last.map(|access| access.at_ns)));
        row.push(last.map_or(f32::NAN, |access| f32::from(u8::from(access.is_read))));
    }
}

/// The pages of 4 KiB that an I/O touches.
fn pages(record: &IoRecord) -> std::ops::RangeInclusive<u64> {
    let end = record.offset_bytes + u64::from(record.size_bytes.max(1)) - 1;
    record.offset_bytes / PAGE..=end / PAGE
}

fn shares_page(a: &IoRecord, b: &IoRecord) -> bool {
    let (a, b) = (pages(a), pages(b));
    a.start() <= b.end() && b.start() <= a.end()
}

fn distance(a: &IoRecord, b: &IoRecord) -> u64 {
    a.offset_bytes.abs_diff(b.offset_bytes)
}

fn age(now: Nanos, at: Option<Nanos>) -> f32 {
    at.map_or(f32::NAN, |at| now.saturating_sub(at) as f32)
}

/// Keeps the newest [`KEPT`], the newest first.
fn keep<T>(of: &mut VecDeque<T>, newest: T) {
    of.push_front(newest);
    of.truncate(KEPT);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(arrive_ns: Nanos, op: Op, offset_bytes: u64, latency_ns: Nanos) -> IoRecord {
        IoRecord { latency_ns: Some(latency_ns), ..IoRecord::new(arrive_ns, op, offset_bytes, 4096) }
    }

    /// Place of the reads and of the writes in flight on the same pages.
    const SHARED: [usize; 2] = [8 + 12, 8 + 20 + 12];

    #[test]
    fn a_row_for_each_read_with_more_than_150_numbers() {
        let records = [io(0, Op::Read, 0, 50), io(10, Op::Write, 0, 500), io(20, Op::Read, 8192, 5)];
        let set = WideSet::from_records(&records);
        assert!(set.width >= 150, "{} numbers", set.width);
        assert_eq!(set.values.len(), 2 * set.width);
    }

    #[test]
    fn ios_on_the_same_pages_are_seen_while_they_are_in_flight() {
        let records = [
            io(0, Op::Read, 4096, 100),
            io(10, Op::Write, 4096, 1_000),
            io(50, Op::Read, 4096, 10),  // both are in flight
            io(200, Op::Read, 4096, 10), // the write is
            io(300, Op::Read, 8192, 10), // on another page
        ];
        let set = WideSet::from_records(&records);
        let row = |k: usize| SHARED.map(|at| set.values[k * set.width + at]);
        assert_eq!([row(0), row(1), row(2), row(3)], [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]);
    }

    #[test]
    fn nothing_later_is_known() {
        let mut chance = linnet_sim::Chance::new(7);
        let mut now = 0;
        let mut records: Vec<IoRecord> = (0..400)
            .map(|_| {
                now += 1 + chance.below(60_000);
                let op = if chance.happens(0.7) { Op::Read } else { Op::Write };
                io(now, op, chance.below(64) * 4096, 20_000 + chance.below(400_000))
            })
            .collect();
        let before = WideSet::from_records(&records);
        let (kept, from_ns) = (records[..200].iter().filter(|r| r.op.is_read()).count(), records[200].arrive_ns);
        for record in &mut records {
            // What completes later, and what arrives later, changes.
            if record.arrive_ns + record.latency_ns.unwrap_or(0) > from_ns {
                record.latency_ns = record.latency_ns.map(|ns| 3 * ns);
            }
        }
        let after = WideSet::from_records(&records);
        let bits = |set: &WideSet| set.values[..kept * set.width].iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&before), bits(&after));
        assert_ne!(before.values.len(), kept * before.width);
    }
}
