// SPDX-License-Identifier: MIT OR Apache-2.0
//! What requests have in common: their pages, where these are stored, and the commands that move no data.

use linnet_types::{Nanos, Op, Request};

use super::ftl::{BUFFERED, NONE};
use super::machine::Machine;
use super::params::PAGE_BYTES;

/// Where a run of a request's pages is stored; the run is served together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Never written: the map alone answers.
    Nowhere,
    Dram,
    Unit(u32),
}

impl Machine {
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

    /// The time at which the request would complete; if that is after `limit`, any time between the two. Changes
    /// nothing, except that timers due by `now` have run.
    pub fn peek(&mut self, now: Nanos, request: &Request, limit: Nanos) -> Nanos {
        match request.op {
            Op::Read => self.peek_read(now, request, limit),
            Op::Write => self.peek_write(now, request),
        }
    }
}
