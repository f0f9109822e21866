// SPDX-License-Identifier: MIT OR Apache-2.0
//! The internal work of the device: flush, garbage collection, checkpoints of the map.
//!
//! Each piece of work is done in one of two ways, chosen at random with [`crate::Params::device_wide_share`].
//! Device-wide work occupies all dies at the same time: an episode that delays many reads. Die-by-die work delays few
//! reads at a time, spread over all dies; no history of the device predicts these delays. The maps change at once; the
//! time is charged to the dies and channels.

use linnet_types::Nanos;

use super::die::Run;
use super::ftl::BUFFERED;
use super::machine::{Machine, NEVER, Visit};
use crate::cause::Mechanism;

/// Visits of paced collection that one program unit of host data would cause without any free space. In equilibrium
/// they are as many as the write amplification; a number far above it keeps free space near its target.
const PACED_VISITS_MAX: f64 = 64.0;

/// No work on a die.
const NOTHING: Run = Run { of: Mechanism::GcSingle, units: 0, unit_ns: 1, ready: 0 };

impl Machine {
    /// Adds written pages to the buffer, in order, and starts each flush that becomes due.
    pub fn take_pages(&mut self, now: Nanos, first: u32, count: u32) {
        let unit_pages = self.geometry.unit_pages as usize;
        self.stats.host_write_pages += u64::from(count);
        let (mut page, end) = (first, first + count);
        while page < end {
            if self.ftl.l2p[page as usize] == BUFFERED {
                self.stats.buffer_write_hits += 1;
                page += 1;
                continue;
            }
            if self.filled == 0 {
                self.filling_batch = self.scope.happens(self.params.device_wide_share);
            }
            let (kept, most) = if self.filling_batch {
                (&mut self.buffer.batch, self.watermark_pages)
            } else {
                (&mut self.buffer.eager, unit_pages)
            };
            let room = most.saturating_sub(kept.len()).clamp(1, unit_pages - self.filled as usize);
            let taken = self.ftl.buffer(&self.geometry, page, (end - page).min(room as u32));
            kept.extend(page..page + taken);
            page += taken;
            self.filled += taken;
            if self.filled == self.geometry.unit_pages {
                self.filled = 0;
            }
            if self.flush_due == NEVER {
                self.flush_due = now + self.params.flush_timer_ns;
                self.set_next_due();
            }
            if self.buffer.eager.len() == unit_pages {
                self.destage(now);
            }
            if self.buffer.batch.len() >= self.watermark_pages {
                self.stats.flushes_watermark += 1;
                self.flush(now);
            }
        }
    }

    /// Programs the unit that was collected for immediate destage on the next die.
    fn destage(&mut self, now: Nanos) {
        let mut pages = std::mem::take(&mut self.buffer.eager);
        self.stats.eager_units += 1;
        let unit_ns = self.params.program_ns + self.geometry.channel_unit_ns;
        self.program(now, &pages, Mechanism::FlushSingle, unit_ns);
        pages.clear();
        self.buffer.eager = pages;
        self.after_flush(now);
    }

    /// Programs all pages that wait in the buffer, striped over the dies.
    pub fn flush(&mut self, now: Nanos) {
        self.flush_due = NEVER;
        if !self.buffer.eager.is_empty() {
            self.destage(now);
        }
        self.filled = 0;
        let mut pages = std::mem::take(&mut self.buffer.batch);
        if !pages.is_empty() {
            let geometry = &self.geometry;
            let units = (pages.len() as u32).div_ceil(geometry.unit_pages);
            // A small flush does not touch most dies, so counting it as device-wide would inflate the share.
            let of = if units * 2 >= geometry.dies { Mechanism::FlushWide } else { Mechanism::FlushSingle };
            let on_channel = units.div_ceil(geometry.channels).min(geometry.dies_per_channel);
            let unit_ns = (self.params.program_ns + geometry.channel_unit_ns)
                .max(u64::from(on_channel) * geometry.channel_unit_ns);
            for unit in pages.chunks(self.geometry.unit_pages as usize) {
                self.program(now, unit, of, unit_ns);
            }
            pages.clear();
        }
        self.buffer.batch = pages;
        self.after_flush(now);
    }

    fn program(&mut self, now: Nanos, pages: &[u32], of: Mechanism, unit_ns: Nanos) {
        while !self.ftl.has_room() {
            self.stats.gc_rounds_foreground += 1;
            if self.params.gc_foreground_only {
                self.gc_is_wide = self.scope.happens(self.params.device_wide_share);
            }
            if self.gc_round(now) && self.params.gc_paced {
                self.visits_owed += f64::from(self.geometry.dies);
            }
        }
        if self.visit_due == NEVER && !self.visits.is_empty() && !self.params.gc_paced {
            self.pace_visits(now);
        }
        let first = self.ftl.place_unit(&self.geometry, pages);
        let unit_ns = self.slc_unit_ns(unit_ns);
        let unit = self.geometry.unit_of(first);
        let die = self.geometry.die_of_unit(unit);
        let end = self.assign(die, Run { of, units: 1, unit_ns, ready: now });
        let channel = &mut self.channels[self.geometry.channel_of(die) as usize];
        let from = channel.stream_until().max(now);
        channel.stream(of, from, from + self.geometry.channel_unit_ns);
        self.buffer.dispatched(unit, pages.len() as u32, end);
        self.stats.flushed_pages += pages.len() as u64;
        self.stats.flash_write_pages += u64::from(self.geometry.unit_pages);
        self.checkpoint_pages += pages.len() as u32;
    }

    fn after_flush(&mut self, now: Nanos) {
        let every = self.params.checkpoint_host_pages;
        while every > 0 && self.checkpoint_pages >= every {
            self.checkpoint_pages -= every;
            self.checkpoint(now);
        }
        self.fold(now);
        if self.params.gc_paced {
            self.pace_collection(now);
        }
        let background = !self.params.gc_foreground_only && !self.params.gc_paced;
        if background && self.gc_due == NEVER && self.ftl.free_pages(&self.geometry) < self.gc_free_pages {
            self.gc_due = self.gc_busy_until.max(now);
        }
        self.set_next_due();
    }

    /// Time to program a unit: `unit_ns`, or less while the SLC cache has room.
    fn slc_unit_ns(&mut self, unit_ns: Nanos) -> Nanos {
        let pages = u64::from(self.geometry.unit_pages);
        if self.slc_pages + pages > self.slc_capacity_pages {
            return unit_ns;
        }
        self.slc_pages += pages;
        unit_ns - (self.params.program_ns - self.params.slc_program_ns)
    }

    /// Copies data from the SLC cache to normal flash, die by die, until the cache is half empty.
    fn fold(&mut self, now: Nanos) {
        if self.slc_pages * 2 <= self.slc_capacity_pages {
            return;
        }
        let unit_ns = self.params.read_ns + self.params.program_ns + 2 * self.geometry.channel_unit_ns;
        while self.slc_pages * 2 > self.slc_capacity_pages {
            for die in 0..self.geometry.dies {
                let work = Run { of: Mechanism::SlcFold, units: 1, unit_ns, ready: now };
                self.visits.push_back(Visit { die, work, programs: NOTHING, erase_ns: 0 });
            }
            let pages = u64::from(self.geometry.row_pages).min(self.slc_pages);
            self.slc_pages -= pages;
            self.stats.slc_folded_pages += pages;
            self.stats.flash_write_pages += pages;
        }
        self.pace_visits(now);
    }

    /// Writes the dirty part of the mapping table. The table has its own space, so only time and pages are counted.
    fn checkpoint(&mut self, now: Nanos) {
        let units = self.params.checkpoint_units_per_die;
        if units == 0 {
            return;
        }
        self.stats.checkpoints += 1;
        self.stats.flash_write_pages += u64::from(units) * u64::from(self.geometry.row_pages);
        let wide = self.scope.happens(self.params.device_wide_share);
        let alone_ns = self.params.program_ns + self.geometry.channel_unit_ns;
        for die in 0..self.geometry.dies {
            if wide {
                let row_ns = alone_ns.max(u64::from(self.geometry.dies_per_channel) * self.geometry.channel_unit_ns);
                // One unit of work instead of `units`: the table is locked until all of it is written.
                let run = Run { of: Mechanism::MapWide, units: 1, unit_ns: u64::from(units) * row_ns, ready: now };
                self.assign(die, run);
            } else {
                let work = Run { of: Mechanism::MapSingle, units: 1, unit_ns: u64::from(units) * alone_ns, ready: now };
                self.visits.push_back(Visit { die, work, programs: NOTHING, erase_ns: 0 });
            }
        }
        if !wide {
            self.pace_visits(now);
        }
    }

    /// Starts an episode of garbage collection, or continues it.
    pub fn gc_timer(&mut self, now: Nanos) {
        self.gc_due = NEVER;
        if self.gc_rounds_left == 0 {
            self.gc_rounds_left = self.params.gc_episode_rounds;
            self.gc_is_wide = self.scope.happens(self.params.device_wide_share);
        }
        while self.gc_rounds_left > 0 {
            self.gc_rounds_left -= 1;
            if !self.gc_round(now) {
                self.gc_rounds_left = 0;
                return;
            }
            if self.gc_is_wide {
                break;
            }
        }
        if !self.gc_is_wide {
            self.pace_visits(now);
        }
        if self.gc_rounds_left > 0 || self.ftl.free_pages(&self.geometry) < self.gc_free_pages {
            self.gc_due = self.gc_busy_until.max(now + 1);
        }
    }

    /// Runs one quantum of garbage collection. False if there was nothing to collect.
    fn gc_round(&mut self, now: Nanos) -> bool {
        self.work.fill(Default::default());
        let Some(round) = self.ftl.collect(&self.geometry, self.params.gc_quantum_rows, &mut self.work) else {
            return false;
        };
        self.stats.gc_moved_pages += u64::from(round.moved);
        self.stats.flash_write_pages += u64::from(round.programs) * u64::from(self.geometry.unit_pages);
        self.stats.erases += u64::from(round.erased);
        self.unerased += u32::from(round.erased);
        let mut erase_ns = 0;
        if self.unerased >= self.params.superblocks_per_erase {
            self.unerased = 0;
            erase_ns = self.params.erase_ns;
        }
        if self.gc_is_wide {
            self.stats.gc_rounds_wide += 1;
            self.gc_wide(now, erase_ns);
        } else {
            self.stats.gc_rounds_single += 1;
            for die in 0..self.geometry.dies {
                let (work, programs) = match self.params.gc_paced {
                    true => self.die_operations(die, now),
                    false => (self.die_run(die, Mechanism::GcSingle, now), NOTHING),
                };
                self.visits.push_back(Visit { die, work, programs, erase_ns });
            }
        }
        true
    }

    /// The round's work on one die as one uninterrupted operation. The data crosses the channel twice.
    fn die_run(&self, die: u32, of: Mechanism, ready: Nanos) -> Run {
        let work = self.work[die as usize];
        let unit_ns = u64::from(work.reads) * self.params.read_ns
            + u64::from(work.programs) * self.params.program_ns
            + 2 * u64::from(work.pages) * self.geometry.channel_page_ns;
        Run { of, units: u32::from(unit_ns > 0), unit_ns: unit_ns.max(1), ready }
    }

    /// The round's work on one die as operations that reads can go between: its reads, and its programs.
    fn die_operations(&self, die: u32, ready: Nanos) -> (Run, Run) {
        let work = self.work[die as usize];
        let of = Mechanism::GcSingle;
        let (reads, read_pages) = match self.params.gc_read_pages {
            0 => (work.reads, self.geometry.unit_pages),
            some => (work.pages.div_ceil(some), some),
        };
        let read_ns = self.params.read_ns + u64::from(read_pages) * self.geometry.channel_page_ns;
        let program_ns = self.params.program_ns + self.geometry.channel_unit_ns;
        (
            Run { of, units: reads, unit_ns: read_ns, ready },
            Run { of, units: work.programs, unit_ns: program_ns, ready },
        )
    }

    /// Adds the share of collection that a unit of host data owes, and spreads it over the time to the next unit.
    fn pace_collection(&mut self, now: Nanos) {
        let since = now - self.visit_lot_last;
        self.visit_lot_last = now;
        self.visit_lot_ns = if self.visit_lot_ns == 0 { since } else { (31 * self.visit_lot_ns + since) / 32 };
        let missing = 1.0 - self.ftl.free_pages(&self.geometry) as f64 / self.gc_free_pages as f64;
        self.visits_owed += PACED_VISITS_MAX * missing.max(0.0);
        if self.visits_owed >= 1.0 {
            self.visit_gap_ns = (self.visit_lot_ns as f64 / self.visits_owed) as Nanos;
            if self.visit_due == NEVER {
                self.visit_due = now;
            }
            self.set_next_due();
        }
    }

    /// Runs the round's work on all dies in lock step: superblocks are read and programmed row by row, so every die is
    /// busy until the slowest die or channel is done.
    fn gc_wide(&mut self, now: Nanos, erase_ns: Nanos) {
        let channels = self.geometry.channels;
        let mut round_ns = 1;
        for channel in 0..channels {
            let mut transfer_ns = 0;
            for die in (channel..self.geometry.dies).step_by(channels as usize) {
                round_ns = round_ns.max(self.die_run(die, Mechanism::GcWide, now).unit_ns);
                transfer_ns += 2 * u64::from(self.work[die as usize].pages) * self.geometry.channel_page_ns;
            }
            round_ns = round_ns.max(transfer_ns);
            self.channels[channel as usize].stream(Mechanism::GcWide, now, now + transfer_ns);
        }
        for die in 0..self.geometry.dies {
            let mut end = self.assign(die, Run { of: Mechanism::GcWide, units: 1, unit_ns: round_ns, ready: now });
            if erase_ns > 0 {
                end = self.assign_erase(die, Mechanism::EraseWide, now, erase_ns);
            }
            self.gc_busy_until = self.gc_busy_until.max(end);
        }
    }

    /// Sets the pace of single-die work after a lot was added: a lot takes about the time between two lots, and never
    /// occupies more than a quarter of the dies at once.
    fn pace_visits(&mut self, now: Nanos) {
        if self.params.gc_paced {
            // Collection and this work share one queue: all of it is owed, and `pace_collection` follows.
            self.visits_owed = self.visits_owed.max(self.visits.len() as f64);
            return;
        }
        let since = now - self.visit_lot_last;
        self.visit_lot_last = now;
        self.visit_lot_ns = if self.visit_lot_ns == 0 { since } else { (3 * self.visit_lot_ns + since) / 4 };
        let dies = self.dies.len();
        // If work accumulates for longer than a few lots, it is done at once, so that the queue is bounded.
        while self.visits.len() > 4 * dies * self.params.gc_episode_rounds as usize {
            self.next_visit(now);
        }
        let longest = self.visits.back().map_or(0, |visit| visit.work.unit_ns);
        self.visit_gap_ns = (self.visit_lot_ns / self.visits.len().max(1) as u64).max(4 * longest / dies as u64);
        if self.visit_due == NEVER {
            self.visit_due = now;
        }
        self.set_next_due();
    }

    fn next_visit(&mut self, now: Nanos) {
        if let Some(visit) = self.visits.pop_front() {
            self.assign(visit.die, Run { ready: now, ..visit.work });
            self.assign(visit.die, Run { ready: now, ..visit.programs });
            self.assign_erase(visit.die, Mechanism::EraseSingle, now, visit.erase_ns);
        }
    }

    pub fn visit(&mut self, now: Nanos) {
        if self.params.gc_paced {
            self.visits_owed -= 1.0;
            if self.visits.is_empty() && !self.gc_round(now) {
                self.visits_owed = 0.0;
            }
        }
        self.next_visit(now);
        let more = if self.params.gc_paced { self.visits_owed >= 1.0 } else { !self.visits.is_empty() };
        self.visit_due = if more { now + self.visit_gap_ns } else { NEVER };
    }
}
