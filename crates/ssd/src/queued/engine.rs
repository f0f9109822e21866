// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event loop, and the state of chips and channels.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use linnet_sim::{Chance, EventQueue};
use linnet_types::Nanos;

use super::cache::Cache;
use super::flash::{Flash, Place};
use super::host::{HostRequest, Link};
use super::params::QueuedParams;
use super::waiting::Waiting;
use crate::cause::{Cause, Mechanism};
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Program,
    Erase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Host,
    /// The read of a read-modify-write.
    Rmw,
    Gc,
}

/// One flash page (or block) to read, program or erase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub kind: Kind,
    pub source: Source,
    pub place: Place,
    /// Number of the page in its block.
    pub number: u32,
    /// Physical page; for an erase, the block.
    pub physical: u32,
    pub page: u32,
    pub sectors: u32,
    /// The host request that waits for this job.
    pub request: u32,
    pub stamp: u64,
    /// A job that becomes ready when this one is done; used for read-modify-write.
    pub then: u32,
    pub queued: Nanos,
    pub issued: Nanos,
    pub ready: Nanos,
    /// How long a read of the host waited until garbage collection had moved its page, before it was queued.
    pub moving_ns: Nanos,
    /// What the chip did between `queued` and `issued`.
    pub waited: [(Mechanism, Nanos); 2],
}

pub(super) const NO_JOB: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A request reaches the controller, with its data if it is a write.
    Arrived(u32),
    /// A channel has transferred commands (and the data of programs).
    Sent(u32),
    /// The array operation of a die is done. The event is stale if the chip's generation differs.
    Array { chip: u32, die: u32, generation: u32 },
    /// A page has left its chip.
    Out { channel: u32, job: u32 },
    /// A page of a read is available from DRAM.
    Hit(u32),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Die {
    pub jobs: Vec<u32>,
    pub end: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct Chip {
    /// What runs; `None` if idle. A read runs until its last page has left.
    pub running: Option<Kind>,
    pub active_dies: u32,
    pub pages_to_send: u32,
    pub dies: Vec<Die>,
    /// Jobs and remaining time of suspended operations, by die.
    pub suspended: Vec<(u32, Vec<u32>, Nanos)>,
    pub suspended_kind: Kind,
    pub generation: u32,
    /// Host reads, GC reads, host programs, GC programs, erases.
    pub queues: [Waiting; 5],
    /// The last operation that was not a host read, and the last command of any kind; used to explain waits.
    pub last_internal: (Mechanism, Nanos, Nanos),
    pub last_read: (Nanos, Nanos),
    pub busy_ns: Nanos,
}

pub(super) const HOST_READS: usize = 0;
pub(super) const GC_READS: usize = 1;
pub(super) const HOST_PROGRAMS: usize = 2;
pub(super) const GC_PROGRAMS: usize = 3;
pub(super) const ERASES: usize = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    pub busy: bool,
    pub turn: u32,
    /// Pages in registers that wait for the channel: of host reads, and of garbage collection.
    pub out: [VecDeque<u32>; 2],
    pub busy_ns: Nanos,
}

/// Counters of the queued model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedStats {
    /// Host reads and writes that completed.
    pub completed: u64,
    /// Flash pages written by the host, including those replaced in the buffer.
    pub host_page_writes: u64,
    /// Flash pages programmed for the host.
    pub host_programs: u64,
    /// Flash pages read by garbage collection.
    pub gc_reads: u64,
    /// Flash pages programmed by garbage collection.
    pub gc_programs: u64,
    /// Flash pages programmed for the first time.
    pub first_programs: u64,
    /// Victim blocks collected.
    pub gc_runs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages read because a write was partial.
    pub rmw_reads: u64,
    /// Read commands. A multi-plane command reads several pages.
    pub read_commands: u64,
    /// Flash pages read.
    pub pages_read: u64,
    /// Pages of reads that were in the write buffer.
    pub buffer_hits: u64,
    /// Host reads whose last page waited for garbage collection or an erase.
    pub reads_behind_gc: u64,
    /// How often a read suspended a program or an erase.
    pub suspensions: u64,
    /// Events processed.
    pub events: u64,
    /// Lowest and highest number of erases of a block.
    pub wear: (u32, u32),
}

impl QueuedStats {
    /// Write amplification: flash pages programmed, divided by those programmed for the host. `None` before the first of
    /// these.
    pub fn waf(&self) -> Option<f64> {
        (self.host_programs > 0).then(|| (self.host_programs + self.gc_programs) as f64 / self.host_programs as f64)
    }

    /// The same, without the programs that filled pages for the first time.
    pub fn waf_after_first_fill(&self) -> f64 {
        let host = self.host_programs.saturating_sub(self.first_programs);
        if host == 0 { 1.0 } else { (host + self.gc_programs) as f64 / host as f64 }
    }
}

/// A device of the queued model, in virtual time. What arrives later changes its answers, so they are not known at
/// submission: it is a [`linnet_types::Device`] without foresight. A clone is a snapshot. Requests must come in order
/// of arrival. Offsets beyond the capacity wrap around it. Its memory grows with the requests in flight, not with those
/// served.
///
/// The same parameters and requests give the same answers. Only [`super::VictimPolicy::DChoices`] uses random numbers,
/// and its seed is fixed.
#[derive(Clone, Debug)]
pub struct QueuedSsd {
    pub(super) params: QueuedParams,
    pub(super) now: Nanos,
    pub(super) sequence: u64,
    pub(super) events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    pub(super) flash: Flash,
    pub(super) cache: Cache,
    pub(super) chips: Vec<Chip>,
    pub(super) channels: Vec<Channel>,
    pub(super) jobs: Vec<Job>,
    pub(super) free_jobs: Vec<u32>,
    pub(super) requests: Vec<HostRequest>,
    pub(super) free_requests: Vec<u32>,
    /// Writes that wait because too many sectors are being destaged.
    pub(super) stalled: VecDeque<u32>,
    pub(super) destaging: u64,
    pub(super) destaging_max_sectors: u64,
    /// The link to the host, and the link from it.
    pub(super) links: [Link; 2],
    /// Programs that wait for free blocks, by plane.
    pub(super) starved: Vec<Vec<super::host::Destage>>,
    /// Requests that wait for a page that garbage collection moves.
    pub(super) locked: HashMap<u32, Vec<super::host::Waiter>>,
    /// Pages still to move before a block is erased, by plane x blocks + block.
    pub(super) to_move: HashMap<u32, u32>,
    /// Channels that got work since they were last scheduled.
    pub(super) touched: Vec<u32>,
    pub(super) chance: Chance,
    pub(super) stats: QueuedStats,
    /// What the requests waited for, by number.
    pub(super) causes: Vec<Cause>,
    /// Requests that have ended or will end at a known time, and were not polled yet; by the time of the end.
    pub(super) ended: EventQueue<u32>,
}

impl QueuedSsd {
    /// A new, empty device.
    ///
    /// # Errors
    /// Settings that [`QueuedParams::validate`] refuses.
    pub fn new(params: &QueuedParams) -> Result<QueuedSsd, Error> {
        params.validate()?;
        let chip = Chip {
            running: None,
            active_dies: 0,
            pages_to_send: 0,
            dies: vec![Die::default(); params.dies_per_chip as usize],
            suspended: Vec::new(),
            suspended_kind: Kind::Program,
            generation: 0,
            queues: std::array::from_fn(|_| Waiting::new(params.dies_per_chip, params.planes_per_die)),
            last_internal: (Mechanism::FlushSingle, 0, 0),
            last_read: (0, 0),
            busy_ns: 0,
        };
        let buffer_pages = (params.write_buffer_bytes / u64::from(params.page_bytes)) as usize;
        Ok(QueuedSsd {
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            flash: Flash::new(params),
            cache: Cache::new(buffer_pages, params.hot_period_ns),
            chips: vec![chip; (params.channels * params.chips_per_channel) as usize],
            channels: vec![Channel::default(); params.channels as usize],
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            stalled: VecDeque::new(),
            destaging: 0,
            destaging_max_sectors: u64::from(params.destage_pages_max.unwrap_or(params.planes()))
                * u64::from(params.page_bytes / 512),
            links: Default::default(),
            starved: vec![Vec::new(); params.planes() as usize],
            locked: HashMap::new(),
            to_move: HashMap::new(),
            touched: Vec::new(),
            chance: Chance::new(0x6c69_6e6e_6574),
            stats: QueuedStats::default(),
            causes: Vec::new(),
            ended: EventQueue::new(),
            params: params.clone(),
        })
    }

    pub(super) fn at(&mut self, time: Nanos, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    /// Runs all events before `until`.
    pub(super) fn run_until(&mut self, until: Nanos) {
        while let Some(&Reverse((time, _, event))) = self.events.peek() {
            if time >= until {
                break;
            }
            self.step(time, event);
        }
    }

    pub(super) fn step(&mut self, time: Nanos, event: Event) {
        self.events.pop();
        self.now = time;
        self.stats.events += 1;
        match event {
            Event::Arrived(request) => self.arrived(request),
            Event::Sent(channel) => self.channel_free(channel),
            Event::Array { chip, die, generation } => self.array_done(chip, die, generation),
            Event::Out { channel, job } => self.page_out(channel, job),
            Event::Hit(request) => self.page_served(request, None),
        }
    }

    pub(super) fn new_job(&mut self, job: Job) -> u32 {
        match self.free_jobs.pop() {
            Some(at) => {
                self.jobs[at as usize] = job;
                at
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() as u32 - 1
            }
        }
    }

    /// Puts a job in its queue. [`QueuedSsd::schedule`] starts the jobs that can start.
    pub(super) fn enqueue(&mut self, job: u32) {
        let now = self.now;
        let entry = &mut self.jobs[job as usize];
        entry.queued = now;
        let queue = match (entry.kind, entry.source) {
            (Kind::Read, Source::Gc) => GC_READS,
            (Kind::Read, _) => HOST_READS,
            (Kind::Program, Source::Gc) => GC_PROGRAMS,
            (Kind::Program, _) => HOST_PROGRAMS,
            (Kind::Erase, _) => ERASES,
        };
        let (Place { chip, die, plane, .. }, number) = (entry.place, entry.number);
        self.chips[chip as usize].queues[queue].push(die, plane, number, job);
        let channel = self.channel_of(chip);
        if self.touched.last() != Some(&channel) {
            self.touched.push(channel);
        }
    }
}
