// SPDX-License-Identifier: MIT OR Apache-2.0
//! The public interface of the timeline engine.

use std::cell::RefCell;

use linnet_sim::Chance;
use linnet_types::{Foresight, LatencyModel, Nanos, Op, Outcome, Request};

use super::machine::Machine;
use super::params::{PAGE_BYTES, Params};
use super::precondition::Least;
use super::spans::{Resource, Span, SpanLog};
use super::stats::{Stats, StreamStats, Wear};
use crate::cause::Cause;
use crate::error::Error;
use crate::precondition::Settled;

/// A modelled SSD in virtual time. A clone is a snapshot.
///
/// It never fails or loses a request. Offsets beyond [`Ssd::capacity_bytes`] wrap around it.
#[derive(Clone, Debug)]
pub struct Ssd {
    // A peek runs the timers that are due, as the next call would do anyway; it changes nothing else.
    pub(crate) machine: RefCell<Machine>,
    pub(crate) seed: u64,
    streams: Vec<StreamStats>,
}

impl Ssd {
    /// A new, empty device. The same parameters and seed give the same answers.
    ///
    /// # Errors
    /// Settings that [`Params::validate`] refuses.
    pub fn new(params: &Params, seed: u64) -> Result<Ssd, Error> {
        params.validate()?;
        Ok(Ssd::from_machine(Machine::new(params, seed), seed))
    }

    pub(crate) fn from_machine(machine: Machine, seed: u64) -> Ssd {
        Ssd { machine: RefCell::new(machine), seed, streams: Vec::new() }
    }

    /// Simulates long use: writes every logical page, then overwrites at random until garbage collection runs at a
    /// steady write amplification. Afterwards the device is idle at time 0, its statistics are zero, and its previous
    /// contents are lost. Returns how steady that is.
    pub fn precondition(&mut self) -> Settled {
        let machine = self.machine.get_mut();
        *machine = Machine::new(&machine.params.clone(), self.seed);
        self.streams.clear();
        machine.precondition(Chance::new(self.seed).fork(3))
    }

    /// Writes the first bytes of a new drive once, in order; the rest of it stays empty. Whole pages of 4 KiB.
    /// Afterwards the device is idle at time 0, its statistics are zero, and its previous contents are lost.
    pub fn write_once(&mut self, bytes: u64) {
        let machine = self.machine.get_mut();
        *machine = Machine::new(&machine.params.clone(), self.seed);
        let pages = (bytes / u64::from(PAGE_BYTES)).min(machine.geometry.logical_pages.into());
        machine.write_once(pages as u32);
        self.streams.clear();
    }

    /// Overwrites this many pages of 4 KiB at random, as a benchmark does before it measures. Changes the maps only: no
    /// time passes, and what is in the buffer stays there. `go_on` is asked every 65,536 pages; false if it said no.
    pub fn overwrite(&mut self, pages: u64, seed: u64, go_on: &mut dyn FnMut() -> bool) -> bool {
        self.machine.get_mut().overwrite(pages, Chance::new(seed).fork(4), go_on)
    }

    /// Overwrites what these writes do, offset and bytes, of parts of the drive with `space_bytes` in all, until write
    /// amplification of two windows of a quarter of that space is the same, and not before `least` windows. A page that a
    /// write touches is written as a whole. Changes the maps only: no time passes, and what is in the buffer stays
    /// there.
    pub fn overwrite_until_steady(
        &mut self,
        writes: impl Iterator<Item = (u64, u32)>,
        space_bytes: u64,
        least: u32,
    ) -> Settled {
        let machine = self.machine.get_mut();
        let (page, most) = (u64::from(PAGE_BYTES), u64::from(machine.geometry.logical_pages));
        let pages = writes.map(|(offset, size)| {
            let end = (offset + u64::from(size)).div_ceil(page).min(most);
            (offset / page).min(end) as u32..end as u32
        });
        let least = Least { windows: least, erases: 0 };
        machine.overwrite_until_steady(pages, (space_bytes / page).min(most) as u32, least, Vec::new())
    }

    /// Bytes that the host sees.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.machine.borrow().geometry.logical_pages) * u64::from(PAGE_BYTES)
    }

    /// Share of its reserve of free pages that the drive has: below 1 it collects garbage, at 0 the host waits for that.
    pub fn free_share(&self) -> f64 {
        let machine = self.machine.borrow();
        machine.ftl.free_pages(&machine.geometry) as f64 / machine.gc_free_pages.max(1) as f64
    }

    /// The device's settings.
    pub fn params(&self) -> Params {
        self.machine.borrow().params.clone()
    }

    /// Nominal service time of a read of this size, in ns: one flash read of [`Params::read_ns`], its pages over the
    /// channel, at most those of a program unit, then all its data over the link. A read above twice this is counted as
    /// slow.
    ///
    /// An idle device takes exactly this for pages that lie in one program unit, if all types of pages take
    /// [`Params::read_ns`]. Pages that lie in several units are read by several dies. Such a read can be faster, since
    /// its first data leaves the channel sooner, by at most the time that a unit's other pages take there. It is slower
    /// where its parts wait for each other.
    pub fn unloaded_read_ns(&self, size_bytes: u32) -> Nanos {
        self.machine.borrow().unloaded_read_ns(size_bytes)
    }

    /// Counters since the device was built or preconditioned.
    pub fn stats(&self) -> Stats {
        let machine = self.machine.borrow();
        let mut stats = machine.stats.clone();
        let wear = machine.ftl.wear();
        stats.wear = (wear.least, wear.most);
        stats.wear_moves = machine.ftl.wear_moves;
        for (busy_ns, die) in stats.die_busy_ns.iter_mut().zip(&machine.dies) {
            *busy_ns = die.busy_ns;
        }
        let ends = machine.dies.iter().map(|die| die.front.ends());
        stats.until_ns = ends.chain([stats.now_ns]).max().unwrap_or(0);
        stats
    }

    /// Checks that every logical page is in exactly one place and that all counts add up. Takes time proportional to
    /// capacity.
    ///
    /// # Errors
    /// Describes the inconsistency, which is a bug in the model.
    pub fn check(&self) -> Result<(), String> {
        self.machine.borrow().check()
    }

    /// [`LatencyModel::submit`] for many requests, whose times must not decrease; appends the completion time of each
    /// to `done`. The answers are the same as one by one; it is faster on large devices because map entries are
    /// prefetched.
    pub fn submit_many(&mut self, requests: &[(Nanos, Request)], done: &mut Vec<Nanos>) {
        const FAR: usize = 24;
        const NEAR: usize = 12;
        done.reserve(requests.len());
        for (n, (now, request)) in requests.iter().enumerate() {
            let machine = self.machine.get_mut();
            if let Some((_, ahead)) = requests.get(n + FAR) {
                machine.ftl.expect_page(machine.first_page(ahead));
            }
            if let Some((_, ahead)) = requests.get(n + NEAR)
                && ahead.op == Op::Write
            {
                machine.ftl.expect_overwrite(machine.first_page(ahead));
            }
            let at = self.serve(*now, request, None);
            done.push(at);
        }
    }

    /// Memory of the maps, in bytes per logical page of 4 KiB.
    pub fn map_bytes_per_page(&self) -> f64 {
        let machine = self.machine.borrow();
        machine.ftl.bytes() as f64 / f64::from(machine.geometry.logical_pages)
    }

    /// Discards the 4 KiB pages that lie wholly in the range (TRIM): they read as never written, and garbage collection
    /// does not move them. A range beyond the capacity is cut off, not wrapped. Returns the time of completion.
    pub fn trim(&mut self, now: Nanos, offset_bytes: u64, size_bytes: u64) -> Nanos {
        let machine = self.machine.get_mut();
        machine.stats.now_ns = now;
        machine.advance(now);
        machine.trim(now, offset_bytes, size_bytes)
    }

    /// Writes the buffer to flash (FLUSH). Returns when all data written before is there.
    pub fn flush(&mut self, now: Nanos) -> Nanos {
        let machine = self.machine.get_mut();
        machine.stats.now_ns = now;
        machine.advance(now);
        machine.flush_all(now)
    }

    /// [`Ssd::submit_explained`] for a stream (a tenant), which has its own counters. Streams are numbered from 0.
    pub fn submit_on(&mut self, stream: u16, now: Nanos, request: &Request) -> (Nanos, Cause) {
        let (done, cause) = self.submit_explained(now, request);
        if self.streams.len() <= usize::from(stream) {
            self.streams.resize(usize::from(stream) + 1, StreamStats::default());
        }
        let slow = request.op == Op::Read && done - now > 2 * self.unloaded_read_ns(request.size_bytes);
        let stats = &mut self.streams[usize::from(stream)];
        let latency = done - now;
        if request.op == Op::Read {
            stats.reads += 1;
            stats.read_bytes += u64::from(request.size_bytes);
            stats.read_latency_ns_sum += u128::from(latency);
            stats.read_latency_ns_max = stats.read_latency_ns_max.max(latency);
            stats.slow_reads += u64::from(slow);
        } else {
            stats.writes += 1;
            stats.write_bytes += u64::from(request.size_bytes);
            stats.write_latency_ns_sum += u128::from(latency);
            stats.write_latency_ns_max = stats.write_latency_ns_max.max(latency);
        }
        (done, cause)
    }

    /// Counters of the streams of [`Ssd::submit_on`], by number.
    pub fn streams(&self) -> &[StreamStats] {
        &self.streams
    }

    /// Distribution of erases over the superblocks.
    pub fn wear(&self) -> Wear {
        self.machine.borrow().ftl.wear()
    }

    /// Starts to record what dies and channels do: the last `spans_per_resource` intervals of each. 0 stops it and
    /// discards them.
    pub fn record_timeline(&mut self, spans_per_resource: usize) {
        let machine = self.machine.get_mut();
        let new = || (spans_per_resource > 0).then(|| Box::new(SpanLog::new(spans_per_resource)));
        machine.dies.iter_mut().for_each(|die| die.log = new());
        machine.channels.iter_mut().for_each(|channel| channel.log = new());
    }

    /// The recorded intervals between two times, by start. Internal work that waits behind reads appears once it has
    /// started.
    pub fn timeline(&self, from: Nanos, to: Nanos) -> Vec<Span> {
        let machine = self.machine.borrow();
        let dies = (0..).zip(&machine.dies).map(|(n, die)| (Resource::Die(n), &die.log));
        let channels = (0..).zip(&machine.channels).map(|(n, channel)| (Resource::Channel(n), &channel.log));
        let mut spans: Vec<Span> = dies
            .chain(channels)
            .filter_map(|(resource, log)| log.as_ref().map(|log| (resource, log)))
            .flat_map(|(resource, log)| log.between(resource, from, to))
            .collect();
        spans.sort_by_key(|span| (span.start_ns, span.resource));
        spans
    }

    /// [`LatencyModel::submit`] that also reports what the request waited for.
    pub fn submit_explained(&mut self, now: Nanos, request: &Request) -> (Nanos, Cause) {
        let mut cause = Cause::default();
        let done = self.serve(now, request, Some(&mut cause));
        (done, cause)
    }

    #[inline]
    fn serve(&mut self, now: Nanos, request: &Request, cause: Option<&mut Cause>) -> Nanos {
        let machine = self.machine.get_mut();
        debug_assert!(now >= machine.stats.now_ns, "calls come with time never decreasing");
        machine.stats.now_ns = now;
        let (first, count) = machine.pages_of(request);
        machine.ftl.expect_pages(first, count);
        machine.advance(now);
        match request.op {
            Op::Read => machine.read(now, request, cause),
            Op::Write => machine.write(now, request, cause),
        }
    }
}

impl LatencyModel for Ssd {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        Outcome::Done(self.serve(now, request, None))
    }

    fn foresight(&self) -> Option<&dyn Foresight> {
        Some(self)
    }
}

impl Foresight for Ssd {
    fn peek(&self, now: Nanos, request: &Request) -> Outcome {
        self.peek_until(now, request, Nanos::MAX)
    }

    fn peek_until(&self, now: Nanos, request: &Request, limit: Nanos) -> Outcome {
        let mut machine = self.machine.borrow_mut();
        machine.advance(now);
        Outcome::Done(match request.op {
            Op::Read => machine.peek_read(now, request, limit),
            Op::Write => machine.peek_write(now, request),
        })
    }
}
