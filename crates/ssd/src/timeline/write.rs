// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes: the link, the room in the buffer, and the rest of pages that are written in part.

use linnet_types::{Nanos, Request};

use super::ftl::BUFFERED;
use super::line::Gap;
use super::machine::{Home, Machine};
use super::params::PAGE_BYTES;
use crate::cause::{Cause, Mechanism};

impl Machine {
    /// Where a write's data fits on the link, how long the transfer takes, and when the buffer has room for the data.
    fn acknowledge(&self, now: Nanos, request: &Request) -> (Gap, Nanos, Nanos) {
        let arrive = now + self.params.command_ns;
        let link_ns = self.geometry.link_ns(request.size_bytes.into());
        let (_, pages) = self.pages_of(request);
        let gap = self.links[self.link_in].find_command(arrive, link_ns);
        let mut room = self.buffer.room_at(now, pages, self.drain_page_ns);
        if self.params.write_limit_mb_per_s > 0 {
            room = room.max(self.admitted_until.saturating_sub(self.admitted_ahead_ns));
        }
        (gap, link_ns, room)
    }

    /// The time at which the write would complete.
    pub fn peek_write(&mut self, now: Nanos, request: &Request) -> Nanos {
        self.buffer.release(now);
        let (gap, link_ns, room) = self.acknowledge(now, request);
        (gap.start + link_ns).max(room) + self.params.dram_ns + self.params.complete_ns
    }

    pub fn write(&mut self, now: Nanos, request: &Request, cause: Option<&mut Cause>) -> Nanos {
        self.buffer.release(now);
        let (gap, link_ns, room) = self.acknowledge(now, request);
        self.links[self.link_in].reserve_command(now, gap, link_ns);
        let moved = gap.start + link_ns;
        self.stats.writes += 1;
        self.stats.buffer_full_writes += u64::from(room > moved);
        if let Some(cause) = cause {
            cause.add(Mechanism::Link, gap.start - now - self.params.command_ns);
            cause.add(Mechanism::BufferFull, room.saturating_sub(moved));
        }
        if self.params.write_limit_mb_per_s > 0 {
            let bytes = u64::from(request.size_bytes);
            let takes_ns = bytes * 1000 / u64::from(self.params.write_limit_mb_per_s);
            self.admitted_until = self.admitted_until.max(now) + takes_ns;
        }
        if self.params.stalled_writes_max > 0 {
            if self.stalled.len() == self.params.stalled_writes_max as usize {
                self.stalled.pop_front();
            }
            self.stalled.push_back(room);
        }

        let (first, count) = self.pages_of(request);
        let head = request.offset_bytes % u64::from(PAGE_BYTES);
        let tail = (head + u64::from(request.size_bytes)) % u64::from(PAGE_BYTES);
        let whole_until = count - u64::from(tail > 0);
        let mut page = first;
        let mut seen = 0;
        while seen < count {
            let whole = seen < whole_until && (seen > 0 || head == 0);
            let pages = if whole {
                let pages = (whole_until - seen).min(u64::from(self.geometry.logical_pages - page)) as u32;
                self.ftl.join(page, pages);
                pages
            } else if self.params.partial_page_mapping {
                // A page whose data is still in the buffer is completed there, and not split.
                if matches!(self.home(page, now), Home::Unit(_)) {
                    self.ftl.set_split(page, true);
                }
                1
            } else {
                self.complete_page(now, page);
                1
            };
            self.take_pages(now, page, pages);
            seen += u64::from(pages);
            page += pages;
            if page == self.geometry.logical_pages {
                page = 0;
            }
        }
        moved.max(room) + self.params.dram_ns + self.params.complete_ns
    }

    /// Reads the rest of a page for a partial write. The write is acknowledged without waiting for it.
    fn complete_page(&mut self, now: Nanos, page: u32) {
        if let Home::Unit(unit) = self.home(page, now) {
            let part = self.plan(now + self.params.command_ns, unit, 1, 0, self.stats.flash_reads, false);
            self.dies[part.die as usize].read(Mechanism::Rmw, part.arrive, part.start, part.bus_end());
            self.channels[part.channel as usize].reserve(now, part.bus, part.bus_ns);
            self.stats.flash_reads += 1;
            self.stats.rmw_reads += 1;
        }
    }

    /// Discards the pages that lie wholly in the range; those that are in the buffer are not written.
    pub fn trim(&mut self, now: Nanos, offset_bytes: u64, size_bytes: u64) -> Nanos {
        let page = u64::from(PAGE_BYTES);
        let end = offset_bytes.saturating_add(size_bytes) / page;
        let mut dropped = false;
        for page in offset_bytes.div_ceil(page)..end.min(u64::from(self.geometry.logical_pages)) {
            dropped |= self.ftl.trim(&self.geometry, page as u32);
            self.stats.trimmed_pages += 1;
        }
        if dropped {
            let l2p = &self.ftl.l2p;
            self.buffer.batch.retain(|&page| l2p[page as usize] == BUFFERED);
            self.buffer.eager.retain(|&page| l2p[page as usize] == BUFFERED);
        }
        now + self.params.command_ns + self.params.complete_ns
    }

    /// Programs all pages in the buffer, on request of the host. Returns when all data written before is on flash.
    pub fn flush_all(&mut self, now: Nanos) -> Nanos {
        if !self.buffer.batch.is_empty() || !self.buffer.eager.is_empty() {
            self.stats.flushes_explicit += 1;
            self.flush(now);
        }
        self.buffer.drained_at().max(now + self.params.command_ns) + self.params.complete_ns
    }
}
