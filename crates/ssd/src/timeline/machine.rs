// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the device, and the three timers of its internal work.

use std::collections::VecDeque;

use linnet_sim::Chance;
use linnet_types::{Nanos, Request};

use super::buffer::Buffer;
use super::die::{Die, Rules, Run};
use super::ftl::{BUFFERED, DieWork, Ftl, Levelling, NONE};
use super::geometry::Geometry;
use super::line::Timeline;
use super::params::{PAGE_BYTES, Params, ReadPriority};
use super::read::{self, Undo};
use super::stats::Stats;
use super::waits::Answer;
use crate::cause::Mechanism;

/// A timer that is not set.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// Bytes of a transfer that the link serves before it serves another command.
const LINK_CHUNK_BYTES: u64 = 128 << 10;

/// Work of one die that waits for its turn in a round of die-by-die work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub die: u32,
    pub work: Run,
    /// Programs that follow `work` as operations of their own; no units if `work` is all.
    pub programs: Run,
    pub erase_ns: Nanos,
}

/// Where a run of a request's pages is stored; the run is served together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Never written: the map alone answers.
    Nowhere,
    Dram,
    Unit(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub params: Params,
    pub geometry: Geometry,
    pub ftl: Ftl,
    pub buffer: Buffer,
    pub dies: Vec<Die>,
    pub channels: Vec<Timeline>,
    /// The link to the host and the link from it; only the first is used if the link is half-duplex.
    pub links: [Timeline; 2],
    pub link_in: usize,
    pub watermark_pages: usize,
    pub gc_free_pages: u64,
    pub drain_page_ns: f64,

    /// The earliest of the three timers.
    pub next_due: Nanos,
    pub flush_due: Nanos,
    pub gc_due: Nanos,
    pub visit_due: Nanos,
    /// Rounds that the current GC episode still has to run, and whether they are device-wide.
    pub gc_rounds_left: u32,
    pub gc_is_wide: bool,
    /// End of the last device-wide GC round.
    pub gc_busy_until: Nanos,
    pub visits: VecDeque<Visit>,
    /// Mean time between two lots of visits, the time of the last lot, and the resulting pace.
    pub visit_lot_ns: Nanos,
    pub visit_lot_last: Nanos,
    pub visit_gap_ns: Nanos,
    /// Visits that paced collection still owes for the host data written so far.
    pub visits_owed: f64,
    /// When the buffer has room for each of the last [`Params::stalled_writes_max`] writes.
    pub stalled: VecDeque<Nanos>,
    /// When all writes so far would be admitted at [`Params::write_limit_mb_per_s`], and the time that the buffer's
    /// size takes at that rate.
    pub admitted_until: Nanos,
    pub admitted_ahead_ns: Nanos,
    pub work: Vec<DieWork>,

    /// Random numbers that choose between device-wide and die-by-die work.
    pub scope: Chance,
    /// True if the unit that is being collected will join the batch.
    pub filling_batch: bool,
    pub filled: u32,
    pub checkpoint_pages: u32,
    /// Pages in the SLC cache, and its capacity.
    pub slc_pages: u64,
    pub slc_capacity_pages: u64,
    /// Superblocks collected since the last erase that took time.
    pub unerased: u32,
    /// Random numbers for read retry, by the number of the flash read.
    pub retry: Chance,
    pub stats: Stats,
    /// Kept between reads and between peeks to reuse their memory.
    pub runs: Vec<read::Run>,
    pub answers: Vec<Answer>,
    pub undo: Undo,
}

impl Machine {
    /// From validated parameters.
    pub fn new(params: &Params, seed: u64) -> Self {
        let geometry = Geometry::new(params);
        let chance = Chance::new(seed);
        let capacity_pages = params.buffer_bytes / u64::from(PAGE_BYTES);
        let row_ns = (params.program_ns + geometry.channel_unit_ns)
            .max(u64::from(params.dies_per_channel) * geometry.channel_unit_ns);
        // Both times are a second at most.
        let rules = Rules {
            suspend_after_ns: params.suspend_after_ns as u32,
            resume_ns: params.resume_ns as u32,
            by_kind: params.gc_paced,
        };
        let link = Timeline::new(geometry.link_ns(LINK_CHUNK_BYTES));
        Machine {
            ftl: Ftl::new(
                &geometry,
                Levelling { dynamic: params.wear_levelling_dynamic, static_gap: params.wear_levelling_static_gap },
                params.partial_page_mapping,
            ),
            slc_pages: 0,
            slc_capacity_pages: params.slc_cache_bytes / u64::from(PAGE_BYTES),
            buffer: Buffer::new(capacity_pages, geometry.unit_pages),
            dies: vec![Die::new(rules); geometry.dies as usize],
            channels: vec![Timeline::new(geometry.channel_chunk_ns); geometry.channels as usize],
            links: [link.clone(), link],
            link_in: usize::from(!params.link_half_duplex),
            watermark_pages: (capacity_pages as f64 * params.flush_watermark) as usize,
            gc_free_pages: (params.gc_free_superblocks * f64::from(geometry.superblock_pages)) as u64,
            drain_page_ns: row_ns as f64 / f64::from(geometry.row_pages),
            next_due: NEVER,
            flush_due: NEVER,
            gc_due: NEVER,
            visit_due: NEVER,
            gc_rounds_left: 0,
            gc_is_wide: !params.gc_paced,
            gc_busy_until: 0,
            visits: VecDeque::new(),
            visit_lot_ns: 0,
            visit_lot_last: 0,
            visit_gap_ns: 0,
            visits_owed: 0.0,
            stalled: VecDeque::new(),
            admitted_until: 0,
            admitted_ahead_ns: params.buffer_bytes * 1000 / u64::from(params.write_limit_mb_per_s.max(1)),
            work: vec![DieWork::default(); geometry.dies as usize],
            scope: chance.fork(1),
            filling_batch: true,
            filled: 0,
            checkpoint_pages: 0,
            unerased: 0,
            retry: chance.fork(2),
            stats: Stats { die_busy_ns: vec![0; geometry.dies as usize], ..Stats::default() },
            runs: Vec::new(),
            answers: Vec::new(),
            undo: Undo::default(),
            params: params.clone(),
            geometry,
        }
    }

    /// Runs every timer that is due by `now`. Advancing in steps gives the same state as advancing at once, so a peek
    /// may advance.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        while self.next_due <= now {
            let due = self.next_due;
            if due == self.flush_due {
                self.stats.flushes_timer += 1;
                self.flush(due);
            } else if due == self.gc_due {
                self.gc_timer(due);
            } else {
                self.visit(due);
            }
            self.set_next_due();
        }
    }

    pub fn set_next_due(&mut self) {
        self.next_due = self.flush_due.min(self.gc_due).min(self.visit_due);
    }

    /// Pages of a request: the first, and how many. A device smaller than the offset wraps it around its capacity.
    pub fn pages_of(&self, request: &Request) -> (u32, u64) {
        let capacity = u64::from(self.geometry.logical_pages) * u64::from(PAGE_BYTES);
        // Most requests are within the capacity, and a division costs more than this comparison.
        let offset =
            if request.offset_bytes < capacity { request.offset_bytes } else { request.offset_bytes % capacity };
        let page = u64::from(PAGE_BYTES);
        let size = u64::from(request.size_bytes.max(1));
        ((offset / page) as u32, (offset % page + size).div_ceil(page))
    }

    /// First page of a request.
    #[inline]
    pub fn first_page(&self, request: &Request) -> u32 {
        self.pages_of(request).0
    }

    #[inline]
    pub(super) fn home(&self, page: u32, now: Nanos) -> Home {
        self.home_of(self.ftl.l2p[page as usize], now)
    }

    /// Where a page with this entry in the map is stored.
    #[inline]
    pub(super) fn home_of(&self, physical: u32, now: Nanos) -> Home {
        if physical == BUFFERED {
            return Home::Dram;
        }
        if physical == NONE {
            return Home::Nowhere;
        }
        let unit = self.geometry.unit_of(physical);
        if self.buffer.holds(unit, now) { Home::Dram } else { Home::Unit(unit) }
    }

    /// Assigns internal work to a die. Returns when it will end.
    pub fn assign(&mut self, die: u32, run: Run) -> Nanos {
        let die = &mut self.dies[die as usize];
        match self.params.read_priority {
            ReadPriority::None => die.queue(run),
            ReadPriority::OverQueued | ReadPriority::Suspend => {
                die.catch_up(run.ready);
                die.queue_behind_reads(run)
            }
        }
    }

    /// Erases one block per plane of a die, after the work that was assigned before. Returns when it will end.
    pub fn assign_erase(&mut self, die: u32, of: Mechanism, ready: Nanos, erase_ns: Nanos) -> Nanos {
        self.assign(die, Run { of, units: u32::from(erase_ns > 0), unit_ns: erase_ns, ready })
    }

    /// Checks that the pages in the buffer agree with the map, that the maps agree with each other, and that counts add
    /// up.
    pub fn check(&self) -> Result<(), String> {
        self.ftl.check(&self.geometry, &self.buffer.waiting())
    }
}
