// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side of the queued model: requests, write buffer, link.

use linnet_types::{Nanos, Op, Request};

use super::engine::{Event, Job, Kind, NO_JOB, QueuedSsd, QueuedStats, Source};
use super::flash::{NONE, Stream};
use crate::cause::{Cause, Mechanism};

/// One direction of the host link; first come, first served.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    free: Nanos,
}

impl Link {
    fn carry(&mut self, ready: Nanos, length: Nanos) -> Nanos {
        self.free = self.free.max(ready) + length;
        self.free
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct HostRequest {
    /// The caller's name for the request.
    pub token: u64,
    pub arrival: Nanos,
    op: Op,
    first_sector: u64,
    sectors: u64,
    /// The next sector that a write has to transfer.
    next: u64,
    /// Pages in flight.
    left: u32,
    stalled_since: Nanos,
}

/// A page to be programmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destage {
    page: u32,
    sectors: u64,
    stamp: u64,
    request: u32,
}

/// Work that waits for a page that garbage collection is moving.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiter {
    Read { request: u32, sectors: u32, since: Nanos },
    Write(Destage),
}

const NO_REQUEST: u32 = u32::MAX;

impl QueuedSsd {
    /// Accepts a request that arrives at `now`, after all earlier events.
    pub(super) fn take(&mut self, now: Nanos, token: u64, request: &Request) {
        let now = now.max(self.now);
        self.run_until(now);
        self.now = now;
        let capacity = self.params.capacity_bytes();
        let first_byte = request.offset_bytes % capacity;
        let first_sector = first_byte / 512;
        let sectors = (first_byte % 512 + u64::from(request.size_bytes.max(1))).div_ceil(512);
        let entry = HostRequest {
            token,
            arrival: now,
            op: request.op,
            first_sector,
            sectors,
            next: first_sector,
            left: 0,
            stalled_since: 0,
        };
        let number = match self.free_requests.pop() {
            Some(at) => {
                self.requests[at as usize] = entry;
                at
            }
            None => {
                self.requests.push(entry);
                self.causes.push(Cause::default());
                self.requests.len() as u32 - 1
            }
        };
        let mut at = now + self.params.command_ns;
        if request.op == Op::Write {
            at = self.links[1].carry(at, self.link_ns(sectors));
        }
        self.at(at, Event::Arrived(number));
    }

    /// Counters so far.
    pub fn stats(&self) -> QueuedStats {
        let mut stats = self.stats.clone();
        let erases = self.flash.planes.iter().flat_map(|plane| plane.blocks.iter().map(|block| block.erases));
        stats.wear = erases.fold((u32::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        stats
    }

    /// Checks that each page has one place, on its plane.
    ///
    /// # Errors
    /// Describes the inconsistency, which is a bug in the model.
    pub fn check(&self) -> Result<(), String> {
        self.flash.check()
    }

    fn link_ns(&self, sectors: u64) -> Nanos {
        sectors * self.params.link_ps_per_sector / 1000
    }

    fn dram_ns(&self, sectors: u64) -> Nanos {
        sectors * self.params.dram_ps_per_sector / 1000
    }

    /// The logical page that holds a sector, and its sectors up to `end`: number of the page, first sector, count.
    fn page_at(&self, sector: u64, end: u64) -> (u32, u32, u32) {
        let per_page = u64::from(self.params.page_bytes / 512);
        let page = (sector / per_page % u64::from(self.params.logical_pages())) as u32;
        let first = sector % per_page;
        (page, first as u32, (per_page - first).min(end - sector) as u32)
    }

    pub(super) fn arrived(&mut self, number: u32) {
        if self.requests[number as usize].op == Op::Read {
            self.read_arrived(number);
        } else if self.stalled.is_empty() {
            self.accept(number);
        } else {
            self.requests[number as usize].stalled_since = self.now.max(1);
            self.stalled.push_back(number);
        }
    }

    fn read_arrived(&mut self, number: u32) {
        let request = self.requests[number as usize];
        let (mut sector, end) = (request.first_sector, request.first_sector + request.sectors);
        while sector < end {
            let (page, first, count) = self.page_at(sector, end);
            sector += u64::from(count);
            self.requests[number as usize].left += 1;
            if self.params.read_from_write_buffer && self.cache.holds(page, mask(first, count)) {
                self.stats.buffer_hits += 1;
                // The data comes after the DRAM access and the fixed overhead, as for a write.
                let at = self.now + self.dram_ns(u64::from(count)) + HIT_NS;
                self.at(at, Event::Hit(number));
            } else if let Some(waiters) = self.locked.get_mut(&page) {
                waiters.push(Waiter::Read { request: number, sectors: count, since: self.now });
            } else {
                self.queue_read(number, page, count, 0);
            }
        }
        self.schedule_all();
    }

    /// Schedules the idle channels that got work. Work is queued first and scheduled later, so that all pages of a
    /// request compete.
    pub(super) fn schedule_all(&mut self) {
        while let Some(channel) = self.touched.pop() {
            if !self.channels[channel as usize].busy {
                self.schedule(channel);
            }
        }
    }

    fn queue_read(&mut self, request: u32, page: u32, sectors: u32, moving_ns: Nanos) {
        let place = self.flash.place(page);
        let mapped = self.flash.l2p[page as usize];
        // A page that was never written is read from an arbitrary page of its plane.
        let number = if mapped == NONE { page % self.flash.pages_per_block } else { self.flash.number_of(mapped) };
        let job = self.job(Kind::Read, Source::Host, place, page);
        let job = self.new_job(Job { number, physical: mapped, sectors, request, moving_ns, ..job });
        self.enqueue(job);
    }

    pub(super) fn job(&self, kind: Kind, source: Source, place: super::flash::Place, page: u32) -> Job {
        Job {
            kind,
            source,
            place,
            number: 0,
            physical: NONE,
            page,
            sectors: self.params.page_bytes / 512,
            request: NO_REQUEST,
            stamp: 0,
            then: NO_JOB,
            queued: 0,
            issued: 0,
            ready: 0,
            moving_ns: 0,
            waited: [(Mechanism::HostRead, 0); 2],
        }
    }

    /// A page of a read is available; with the last page the request is sent to the host.
    pub(super) fn page_served(&mut self, number: u32, job: Option<&Job>) {
        let request = &mut self.requests[number as usize];
        request.left -= 1;
        if request.left > 0 {
            return;
        }
        let request = *request;
        let length = self.link_ns(request.sectors);
        let done = self.links[0].carry(self.now, length);
        let mut cause = Cause::default();
        if let Some(job) = job {
            let mut bus = job.issued - job.queued;
            for (of, ns) in job.waited {
                cause.add(of, ns);
                bus -= ns;
            }
            cause.add(Mechanism::Bus, bus + job.ready);
            cause.add(Mechanism::GcSingle, job.moving_ns);
            let behind_gc = cause.wait_ns(Mechanism::GcSingle) + cause.wait_ns(Mechanism::EraseSingle) > 0;
            self.stats.reads_behind_gc += u64::from(behind_gc);
        }
        cause.add(Mechanism::Link, done - length - self.now);
        self.complete(number, done + self.params.complete_ns, cause);
    }

    fn complete(&mut self, number: u32, at: Nanos, cause: Cause) {
        self.stats.completed += 1;
        self.causes[number as usize] = cause;
        self.ended.push(at, number);
    }

    /// Buffers the pages of a write while more destages are allowed. False if the write has to wait.
    fn accept(&mut self, number: u32) -> bool {
        let buffered = self.params.write_buffer_bytes > 0;
        let request = self.requests[number as usize];
        let end = request.first_sector + request.sectors;
        let mut sector = request.next;
        while sector < end {
            if buffered && self.destaging >= self.destaging_max_sectors {
                if self.requests[number as usize].stalled_since == 0 {
                    self.requests[number as usize].stalled_since = self.now.max(1);
                    self.stalled.push_back(number);
                }
                self.requests[number as usize].next = sector;
                self.schedule_all();
                return false;
            }
            let (page, first, count) = self.page_at(sector, end);
            sector += u64::from(count);
            let sectors = mask(first, count);
            self.stats.host_page_writes += 1;
            if !buffered {
                self.requests[number as usize].left += 1;
                self.destage(Destage { page, sectors, stamp: 0, request: number });
                continue;
            }
            let (stamp, evicted) = self.cache.write(self.now, page, sectors);
            if let Some((page, sectors, stamp)) = evicted {
                self.destaging += u64::from(sectors.count_ones());
                self.destage(Destage { page, sectors, stamp, request: NO_REQUEST });
            }
            if let Some(stamp) = stamp {
                self.destaging += u64::from(count);
                self.destage(Destage { page, sectors, stamp, request: NO_REQUEST });
            }
        }
        if buffered {
            let mut cause = Cause::default();
            if request.stalled_since > 0 {
                cause.add(Mechanism::BufferFull, self.now.saturating_sub(request.stalled_since));
            }
            let at = self.now + self.dram_ns(request.sectors) + HIT_NS + self.params.complete_ns;
            self.complete(number, at, cause);
        }
        self.schedule_all();
        true
    }

    /// Finds a place for a page and queues its program, unless its plane has too few blocks or the page is being moved.
    pub(super) fn destage(&mut self, destage: Destage) {
        let place = self.flash.place(destage.page);
        let plane = place.index as usize;
        let short = (self.flash.planes[plane].free.len() as u32) < self.params.stop_writes_below();
        if short || !self.flash.host_may_write(place.index) {
            // If no collection is running, no block would ever become free, so start one. If no block has an invalid
            // page yet, the write proceeds, and creates one.
            if self.flash.planes[plane].collecting == 0 {
                self.collect_if_short(place.index);
            }
            if self.flash.planes[plane].collecting > 0 || !self.flash.host_may_write(place.index) {
                self.starved[plane].push(destage);
                return;
            }
        }
        if let Some(waiters) = self.locked.get_mut(&destage.page) {
            waiters.push(Waiter::Write(destage));
            return;
        }
        let page = destage.page;
        let old = self.flash.l2p[page as usize];
        let before = self.flash.written[page as usize];
        self.flash.written[page as usize] |= destage.sectors;
        self.stats.first_programs += u64::from(before == 0);
        self.stats.host_programs += 1;
        let kept = before & !destage.sectors;
        let (physical, full) = self.flash.append(page, place.index, Stream::Host);
        let program = Job {
            number: self.flash.number_of(physical),
            physical,
            sectors: destage.sectors.count_ones(),
            request: destage.request,
            stamp: destage.stamp,
            ..self.job(Kind::Program, Source::Host, place, page)
        };
        let program = self.new_job(program);
        if kept != 0 && old != NONE {
            // The rest of the page is read first, then the page is programmed.
            self.stats.rmw_reads += 1;
            let read = Job {
                number: self.flash.number_of(old),
                physical: old,
                sectors: kept.count_ones(),
                then: program,
                ..self.job(Kind::Read, Source::Rmw, place, page)
            };
            let read = self.new_job(read);
            self.enqueue(read);
        } else {
            self.enqueue(program);
        }
        if full {
            self.collect_if_short(place.index);
        }
    }

    pub(super) fn old_page_read(&mut self, read: &Job) {
        self.enqueue(read.then);
    }

    /// A program is done: its slot of the buffer is free, and the work that waited for it continues.
    pub(super) fn programmed(&mut self, job: &Job) {
        let (plane, block) = self.flash.block_of(job.physical);
        let state = &mut self.flash.planes[plane as usize];
        state.blocks[block as usize].programming -= 1;
        // Writes that found every full block still being programmed started no collection.
        if state.blocks[block as usize].programming == 0
            && state.collecting == 0
            && !self.starved[plane as usize].is_empty()
        {
            self.collect_if_short(plane);
        }
        if job.source == Source::Gc {
            self.page_moved(job);
            return;
        }
        if job.request != NO_REQUEST {
            let request = &mut self.requests[job.request as usize];
            request.left -= 1;
            if request.left == 0 {
                self.complete(job.request, self.now + self.params.complete_ns, Cause::default());
            }
            return;
        }
        self.cache.programmed(job.page, job.stamp);
        self.destaging -= u64::from(job.sectors);
        while let Some(&number) = self.stalled.front() {
            if !self.accept(number) {
                break;
            }
            self.stalled.pop_front();
        }
    }

    /// Continues the work that waited for a page that garbage collection has moved.
    pub(super) fn unlock(&mut self, page: u32) {
        for waiter in self.locked.remove(&page).unwrap_or_default() {
            match waiter {
                Waiter::Read { request, sectors, since } => {
                    self.queue_read(request, page, sectors, self.now - since);
                }
                Waiter::Write(destage) => self.destage(destage),
            }
        }
    }
}

/// Fixed overhead of a request that is answered from DRAM, in addition to the copy.
const HIT_NS: Nanos = 362;

pub(super) fn mask(first: u32, count: u32) -> u64 {
    (if count >= 64 { u64::MAX } else { (1 << count) - 1 }) << first
}
