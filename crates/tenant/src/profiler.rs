// SPDX-License-Identifier: MIT OR Apache-2.0
//! From I/Os to profiles, in one pass and constant memory per tenant.

use std::collections::BTreeMap;

use linnet_types::{IoRecord, Nanos, Op};

use crate::contiguity::{Contiguity, STREAMS_MAX};
use crate::error::Error;
use crate::history::History;
use crate::profile::{DEPTH, DepthFrom, Group, Profile, RANDOM, WindowStd};
use crate::rates::{FEATURE_LEVEL, LEVELS, Rates, Sums};

/// The page of the drive: sizes and offsets that are multiples of it are aligned.
const PAGE_BYTES: u64 = 4096;

/// Parameters of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Width of the windows of the standard deviations: a multiple of 16 ns, 16 us to 1 h. `docs/design/profile.md`
    /// has a study of the width.
    pub window_ns: Nanos,
    /// Latest I/Os of an operation that a sequential I/O may continue: 1..=32.
    pub streams: usize,
    /// Nominal latency of a read without recorded latency, apart from its transfer.
    pub read_nominal_ns: Nanos,
    /// The same of a write.
    pub write_nominal_ns: Nanos,
    /// Nominal transfer, picoseconds per byte: 1,000 is 1 GB/s.
    pub transfer_ps_per_byte: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            window_ns: 100_000_000,
            streams: STREAMS_MAX,
            read_nominal_ns: 100_000,
            write_nominal_ns: 30_000,
            transfer_ps_per_byte: 1000,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        let refuse = |name, value: u64, expected| Err(Error::Option { name, value: value.to_string(), expected });
        if !(16_000..=3_600_000_000_000).contains(&self.window_ns) || !self.window_ns.is_multiple_of(16) {
            return refuse("window_ns", self.window_ns, "give a multiple of 16 from 16,000 to 3,600,000,000,000");
        }
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return refuse("streams", self.streams as u64, "give 1 to 32");
        }
        if self.transfer_ps_per_byte > 1_000_000_000 {
            return refuse("transfer_ps_per_byte", self.transfer_ps_per_byte, "give at most 1,000,000,000");
        }
        Ok(())
    }
}

/// Totals of one operation.
#[derive(Clone, Debug)]
struct OfOp {
    contiguity: Contiguity,
    /// I/Os that had a latency, and its sum.
    timed: u64,
    latency_ns: u128,
}

/// The profile of one tenant, as its I/Os come.
#[derive(Clone, Debug)]
pub struct Profiler {
    options: Options,
    origin_ns: Nanos,
    latest_ns: Nanos,
    reordered: u64,
    totals: [Sums; 4],
    unaligned: [u64; 4],
    ops: [OfOp; 2],
    rates: Rates,
    history: History,
}

impl Profiler {
    /// A profiler whose sample starts at `origin_ns` on the clock of the trace.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub fn new(options: Options, origin_ns: Nanos) -> Result<Profiler, Error> {
        options.check()?;
        Ok(Profiler::checked(options, origin_ns))
    }

    fn checked(options: Options, origin_ns: Nanos) -> Profiler {
        let of_op = OfOp { contiguity: Contiguity::new(options.streams), timed: 0, latency_ns: 0 };
        Profiler {
            options,
            origin_ns,
            latest_ns: origin_ns,
            reordered: 0,
            totals: Default::default(),
            unaligned: [0; 4],
            ops: [of_op.clone(), of_op],
            rates: Rates::new(options.window_ns),
            history: History::new(options.window_ns),
        }
    }

    /// Notes an I/O. One that arrives before the latest counts in the window of the latest.
    #[inline]
    pub fn note(&mut self, io: &IoRecord) {
        let op = io.op as usize;
        let group = 2 * op + usize::from(!u64::from(io.size_bytes).is_multiple_of(PAGE_BYTES));
        self.reordered += u64::from(io.arrive_ns < self.latest_ns);
        self.latest_ns = self.latest_ns.max(io.arrive_ns);
        self.totals[group].ios += 1;
        self.totals[group].bytes += u64::from(io.size_bytes);
        self.unaligned[group] += u64::from(!io.offset_bytes.is_multiple_of(PAGE_BYTES));
        let of_op = &mut self.ops[op];
        of_op.contiguity.note(io.offset_bytes, io.size_bytes, io.device);
        if let Some(latency_ns) = io.latency_ns {
            of_op.timed += 1;
            of_op.latency_ns += u128::from(latency_ns);
        }
        let history = &mut self.history;
        let at_ns = self.latest_ns - self.origin_ns;
        self.rates.note(at_ns, group, io.size_bytes, |window, sums| history.add(window, sums));
    }

    /// The time of the latest arrival on the clock of the trace; the origin before the first.
    pub fn latest_ns(&self) -> Nanos {
        self.latest_ns
    }

    /// Ends the sample at `end_ns` on the clock of the trace, or at the latest arrival if it is later or no end is
    /// given. A sample shorter than a window counts as one window.
    pub fn finish(mut self, end_ns: Option<Nanos>) -> Profile {
        let end_ns = end_ns.unwrap_or(0).max(self.latest_ns) - self.origin_ns;
        let history = &mut self.history;
        self.rates.finish(end_ns, |window, sums| history.add(window, sums));
        let windows = self.rates.windows(FEATURE_LEVEL, end_ns);
        self.history.finish(windows);
        let duration_ns = end_ns.max(self.options.window_ns);
        let seconds = duration_ns as f64 / 1e9;
        let mut profile = Profile {
            ios: self.totals.iter().map(|sums| sums.ios).sum(),
            duration_ns,
            window_ns: self.options.window_ns,
            windows,
            reordered: self.reordered,
            ..Profile::default()
        };
        for (g, sums) in self.totals.iter().enumerate() {
            let (rate_std, bandwidth_std) = self.rates.deviations(g, end_ns);
            profile.set_group(
                g,
                Group {
                    size_bytes_mean: share(sums.bytes, sums.ios),
                    rate_mean: sums.ios as f64 / seconds,
                    rate_std,
                    bandwidth_mean: sums.bytes as f64 / seconds,
                    bandwidth_std,
                    unaligned_ratio: share(self.unaligned[g], sums.ios),
                },
            );
        }
        let mut outstanding_ns = 0.0;
        for (op, of_op) in self.ops.iter().enumerate() {
            let ios = self.totals[2 * op].ios + self.totals[2 * op + 1].ios;
            outstanding_ns += self.latency_sum(op, ios);
            if of_op.timed < ios {
                profile.depth_from = DepthFrom::Estimated;
            }
            profile.features[RANDOM + op] = share(of_op.contiguity.random(), ios);
        }
        // The time average of I/Os outstanding is the sum of their latencies over the length of the sample.
        profile.features[DEPTH] = outstanding_ns / duration_ns as f64;
        profile.by_window = (0..LEVELS)
            .map(|level| {
                let [read_rate_std, write_rate_std] = self.rates.deviations_of_ops(level, end_ns);
                let (window_ns, windows) = (self.rates.width_ns(level), self.rates.windows(level, end_ns));
                WindowStd { window_ns, windows, read_rate_std, write_rate_std }
            })
            .collect();
        profile.history = Some(self.history);
        profile
    }

    /// Sum of the latencies of an operation. Where some are known, the others have their mean; where none is, the
    /// nominal latency.
    fn latency_sum(&self, op: usize, ios: u64) -> f64 {
        let of_op = &self.ops[op];
        if of_op.timed > 0 {
            return of_op.latency_ns as f64 * (ios as f64 / of_op.timed as f64);
        }
        let bytes = self.totals[2 * op].bytes + self.totals[2 * op + 1].bytes;
        let nominal_ns =
            if op == Op::Read as usize { self.options.read_nominal_ns } else { self.options.write_nominal_ns };
        ios as f64 * nominal_ns as f64 + bytes as f64 * self.options.transfer_ps_per_byte as f64 / 1000.0
    }
}

/// `part` per `whole`; 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The profiles of all tenants of a trace. Their samples start with the first I/O of the trace and end together, so
/// that their histories can be added.
#[derive(Clone, Debug)]
pub struct Tenants {
    options: Options,
    origin_ns: Option<Nanos>,
    profilers: Vec<Profiler>,
    numbers: BTreeMap<u32, usize>,
    current: (u32, usize),
}

impl Tenants {
    /// Without I/Os.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub fn new(options: Options) -> Result<Tenants, Error> {
        options.check()?;
        Ok(Tenants {
            options,
            origin_ns: None,
            profilers: Vec::new(),
            numbers: BTreeMap::new(),
            current: (0, usize::MAX),
        })
    }

    /// Notes an I/O of its tenant.
    #[inline]
    pub fn note(&mut self, io: &IoRecord) {
        if self.current.0 != io.tenant || self.current.1 == usize::MAX {
            self.current = (io.tenant, self.place(io));
        }
        self.profilers[self.current.1].note(io);
    }

    #[cold]
    fn place(&mut self, io: &IoRecord) -> usize {
        let origin_ns = *self.origin_ns.get_or_insert(io.arrive_ns);
        let next = self.profilers.len();
        let place = *self.numbers.entry(io.tenant).or_insert(next);
        if place == next {
            self.profilers.push(Profiler::checked(self.options, origin_ns));
        }
        place
    }

    /// The profiles by tenant, ascending. All samples end at `end_ns` on the clock of the trace, or at the latest
    /// arrival of any tenant if it is later or no end is given.
    pub fn finish(self, end_ns: Option<Nanos>) -> Vec<(u32, Profile)> {
        let latest = self.profilers.iter().map(Profiler::latest_ns).max().unwrap_or(0);
        let end_ns = end_ns.unwrap_or(0).max(latest);
        let mut profilers: Vec<Option<Profiler>> = self.profilers.into_iter().map(Some).collect();
        self.numbers
            .into_iter()
            .filter_map(|(tenant, place)| Some((tenant, profilers[place].take()?.finish(Some(end_ns)))))
            .collect()
    }
}
