// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads: what each flash read of a request waits for on its die, its channel and the link.
//!
//! A read has two steps, planning and applying. A peek only plans. If a request has several parts, so that later parts
//! depend on earlier ones, the peek applies each part and then restores the state it changed.

use linnet_types::{Nanos, Request};

use super::die::{Die, Front};
use super::line::{Gap, Reserved, Timeline};
use super::machine::{Home, Machine};
use super::params::{CHANNELS_MAX, PAGE_BYTES, ReadPriority};
use super::waits::Answer;
use crate::cause::{Cause, Mechanism, Source};

/// The part of a read within one program unit; it is one flash read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub die: u32,
    pub channel: u32,
    pub arrive: Nanos,
    pub start: Nanos,
    pub retry_ns: Nanos,
    /// The second flash read of a page that is stored in two pieces.
    pub second_ns: Nanos,
    pub cell_end: Nanos,
    pub bus: Gap,
    pub bus_ns: Nanos,
    pub link: Gap,
    link_ns: Nanos,
}

impl Part {
    #[inline]
    pub fn bus_end(&self) -> Nanos {
        self.bus.start + self.bus_ns
    }

    #[inline]
    pub fn link_end(&self) -> Nanos {
        self.link.start + self.link_ns
    }
}

/// Adjacent pages of a request that are stored in the same place and are read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    home: Home,
    pages: u32,
    /// One of them is stored in two pieces.
    split: bool,
}

/// The state that a peek changed, saved so that it can be restored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Undo {
    /// Before each flash read, so that the first entry of a die is the oldest.
    dies: Vec<(u32, Front)>,
    /// Before the first transfer of each channel.
    channels: Vec<(u32, Reserved)>,
    /// The channels that are kept, one bit each.
    kept: [u64; (CHANNELS_MAX / 64) as usize],
}

impl Undo {
    /// Saves what a part changes of its die and its channel.
    #[inline]
    fn keep(&mut self, part: &Part, die: &Die, channel: &Timeline) {
        self.dies.push((part.die, die.front));
        let (word, bit) = (&mut self.kept[part.channel as usize / 64], 1 << (part.channel % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.channels.push((part.channel, channel.reserved));
        }
    }

    fn restore(&mut self, dies: &mut [Die], channels: &mut [Timeline]) {
        for (die, before) in self.dies.drain(..).rev() {
            dies[die as usize].front = before;
        }
        for (channel, before) in self.channels.drain(..) {
            channels[channel as usize].reserved = before;
        }
        self.kept.fill(0);
    }
}

/// How many of these entries of the map, from the first one on, are of the unit that begins at the physical page `from`.
#[inline(always)]
fn leading(entries: &[u32], from: u32, unit_pages: u32) -> u32 {
    let (eights, rest) = entries.as_chunks::<8>();
    let mut count = 0;
    for eight in eights {
        // A byte for each of eight entries: where a run ends is hard to predict, so there is no branch for each.
        let outside = u64::from_le_bytes(eight.map(|entry| u8::from(entry.wrapping_sub(from) >= unit_pages)));
        count += outside.trailing_zeros() / 8;
        if outside != 0 {
            return count;
        }
    }
    count + rest.iter().take_while(|entry| entry.wrapping_sub(from) < unit_pages).count() as u32
}

impl Machine {
    /// Fills `runs` with where these pages are stored. Adjacent pages in the same place are one run, even across the wrap
    /// at the end of the capacity. Stops at a unit of which `too_late` is true, and returns whether there was one.
    #[inline(always)]
    fn look_up(
        &self,
        now: Nanos,
        (first, count): (u32, u64),
        runs: &mut Vec<Run>,
        too_late: impl Fn(u32) -> bool,
    ) -> bool {
        runs.clear();
        let (mut page, mut left) = (first, count);
        while left > 0 {
            let room = left.min(u64::from(self.geometry.logical_pages - page)) as u32;
            let end = page + room;
            while page < end {
                let entries = &self.ftl.l2p[page as usize..];
                let home = self.home_of(entries[0], now);
                let mut pages = 1;
                if let Home::Unit(unit) = home {
                    if too_late(unit) {
                        return true;
                    }
                    let unit_pages = self.geometry.unit_pages;
                    pages = leading(entries, unit * unit_pages, unit_pages).min(end - page);
                }
                let split = self.ftl.any_split(page, pages);
                page += pages;
                match runs.last_mut() {
                    Some(run) if run.home == home => {
                        run.pages += pages;
                        run.split |= split;
                    }
                    _ => runs.push(Run { home, pages, split }),
                }
            }
            left -= u64::from(room);
            page = 0;
        }
        false
    }

    /// When a read that was submitted at `now` reaches the flash or DRAM. A controller that has stopped fetching
    /// commands takes it once enough of the writes before it have room.
    #[inline]
    fn read_arrives(&self, now: Nanos) -> Nanos {
        let most = self.params.stalled_writes_max as usize;
        let held = if most > 0 && self.stalled.len() == most { self.stalled[0] } else { 0 };
        now.max(held) + self.params.command_ns
    }

    /// Plans the read of one unit that reaches the flash at `arrive`; `number` is that of the flash read, which
    /// determines its retry.
    #[inline(always)]
    pub(super) fn plan(&self, arrive: Nanos, unit: u32, pages: u32, bytes: u64, number: u64, split: bool) -> Part {
        let chance = self.retry_chance(unit);
        let params = &self.params;
        let die = self.geometry.die_of_unit(unit);
        let read_ns = self.geometry.read_ns(unit);
        let start = self.dies[die as usize].read_start(arrive, self.suspend_ns());
        let bits = self.retry.at(number);
        // The upper 32 bits determine whether there is a retry, the lower ones how many.
        let retry_ns = if ((bits >> 32) as f64) < chance * 4_294_967_296.0 {
            read_ns * (1 + (bits & 0xFFFF_FFFF) % u64::from(params.retry_max))
        } else {
            0
        };
        let second_ns = if split { read_ns } else { 0 };
        let cell_end = start + read_ns + retry_ns + second_ns;
        let bus_ns = u64::from(pages) * self.geometry.channel_page_ns;
        let channel = self.geometry.channel_of(die);
        let bus = self.channels[channel as usize].find(cell_end, bus_ns);
        let link_ns = self.geometry.link_ns(bytes);
        let link = self.links[0].find(bus.start + bus_ns, link_ns);
        Part { die, channel, arrive, start, retry_ns, second_ns, cell_end, bus, bus_ns, link, link_ns }
    }

    /// The cost of suspension, if reads suspend what their die does.
    #[inline]
    fn suspend_ns(&self) -> Option<Nanos> {
        (self.params.read_priority == ReadPriority::Suspend).then_some(self.params.suspend_ns)
    }

    /// Probability of a retry on a unit: it grows with the wear of the superblock.
    #[inline]
    fn retry_chance(&self, unit: u32) -> f64 {
        let growth = self.params.retry_growth_per_1000_erases;
        if growth == 0.0 {
            return self.params.retry_probability;
        }
        let erases = self.ftl.erases_at(&self.geometry, unit * self.geometry.unit_pages);
        (self.params.retry_probability * (1.0 + growth * f64::from(erases) / 1000.0)).min(1.0)
    }

    #[inline]
    fn apply(&mut self, now: Nanos, part: &Part) {
        // The page register is busy until its data has left, so the die is busy too.
        self.dies[part.die as usize].read(Mechanism::HostRead, part.arrive, part.start, part.bus_end());
        self.channels[part.channel as usize].reserve(now, part.bus, part.bus_ns);
        self.links[0].reserve(now, part.link, part.link_ns);
    }

    /// [`Machine::apply`] for a peek: keeps what it changes, and records nothing.
    #[inline]
    fn pretend(&mut self, now: Nanos, part: &Part, undo: &mut Undo) {
        let (die, channel) = (&mut self.dies[part.die as usize], &mut self.channels[part.channel as usize]);
        undo.keep(part, die, channel);
        die.occupy(part.arrive, part.start, part.bus_end());
        channel.occupy(now, part.bus, part.bus_ns);
        self.links[0].occupy(now, part.link, part.link_ns);
    }

    /// Computes a read of these runs, up to the first one that is done after `limit`. Fills `undo` for a peek, and
    /// otherwise [`Machine::answers`], up to the one that determined the time of completion, which is returned.
    #[inline]
    fn walk(
        &mut self,
        now: Nanos,
        request: &Request,
        runs: &[Run],
        limit: Nanos,
        mut undo: Option<&mut Undo>,
    ) -> (Nanos, Walked) {
        let mut walked = Walked::default();
        let arrive = self.read_arrives(now);
        let mut done = arrive;
        let mut answered = 0;
        self.answers.clear();
        let mut left = u64::from(request.size_bytes.max(1));
        let mut first_room = u64::from(PAGE_BYTES) - request.offset_bytes % u64::from(PAGE_BYTES);
        for &Run { home, pages, split } in runs {
            if done + self.params.complete_ns > limit {
                break;
            }
            let bytes = left.min(first_room + u64::from(pages - 1) * u64::from(PAGE_BYTES));
            left -= bytes;
            first_room = u64::from(PAGE_BYTES);
            match home {
                Home::Nowhere => {}
                Home::Dram => {
                    walked.hits += u64::from(pages);
                    let ready = arrive + self.params.dram_ns;
                    let link_ns = self.geometry.link_ns(bytes);
                    let gap = self.links[0].find(ready, link_ns);
                    self.links[0].reserve(now, gap, link_ns);
                    if undo.is_none() {
                        self.answers.push(Answer::Dram { ready, link: gap.start, link_ns });
                    }
                    if gap.start + link_ns > done {
                        done = gap.start + link_ns;
                        answered = self.answers.len();
                    }
                }
                Home::Unit(unit) => {
                    let part =
                        self.plan(arrive, unit, pages, bytes, self.stats.flash_reads + walked.flash_reads, split);
                    walked.split_reads += u64::from(split);
                    walked.flash_reads += 1;
                    walked.retries += u64::from(part.retry_ns > 0);
                    match undo.as_deref_mut() {
                        Some(undo) => self.pretend(now, &part, undo),
                        None => {
                            self.apply(now, &part);
                            self.answers.push(Answer::Flash(part));
                        }
                    }
                    if part.link_end() > done {
                        done = part.link_end();
                        answered = self.answers.len();
                    }
                }
            }
        }
        self.answers.truncate(answered);
        (done + self.params.complete_ns, walked)
    }

    pub fn read(&mut self, now: Nanos, request: &Request, cause: Option<&mut Cause>) -> Nanos {
        let (first, count) = self.pages_of(request);
        let mut runs = std::mem::take(&mut self.runs);
        self.look_up(now, (first, count), &mut runs, |_| false);
        let held_ns = self.read_arrives(now) - now - self.params.command_ns;
        let (done, walked) = self.walk(now, request, &runs, Nanos::MAX, None);
        self.runs = runs;
        let stats = &mut self.stats;
        stats.reads += 1;
        stats.host_read_pages += count;
        stats.flash_reads += walked.flash_reads;
        stats.buffer_read_hits += walked.hits;
        stats.retries += walked.retries;
        stats.split_reads += walked.split_reads;
        let slow = done - now > 2 * self.unloaded_read_ns(request.size_bytes);
        if slow || cause.is_some() {
            let found = self.explain(held_ns);
            if slow {
                let counters = &mut self.stats.slow_reads;
                match found.main_source() {
                    Some(Source::DeviceWide) => counters.device_wide += 1,
                    Some(Source::SingleDie) => counters.single_die += 1,
                    Some(Source::Retry) => counters.retry += 1,
                    Some(Source::Queueing) | None => {
                        counters.queueing += 1;
                        let own_ns = found.wait_ns(Mechanism::OwnParts);
                        counters.own_parts += u64::from(2 * own_ns > found.source_ns(Source::Queueing));
                    }
                }
            }
            if let Some(cause) = cause {
                *cause = found;
            }
        }
        done
    }

    /// [`crate::Ssd::unloaded_read_ns`].
    pub fn unloaded_read_ns(&self, size_bytes: u32) -> Nanos {
        let params = &self.params;
        let pages = u64::from(size_bytes.div_ceil(PAGE_BYTES)).clamp(1, u64::from(self.geometry.unit_pages));
        let flash_ns = params.read_ns + pages * self.geometry.channel_page_ns;
        params.command_ns + flash_ns + self.geometry.link_ns(size_bytes.into()) + params.complete_ns
    }

    /// The time at which the read would complete; if that is after `limit`, any time between the two.
    pub fn peek_read(&mut self, now: Nanos, request: &Request, limit: Nanos) -> Nanos {
        let (first, count) = self.pages_of(request);
        if count == 1 {
            let bytes = request.size_bytes.max(1).into();
            let arrive = self.read_arrives(now);
            let end = match self.home(first, now) {
                Home::Nowhere => arrive,
                Home::Dram => {
                    let link_ns = self.geometry.link_ns(bytes);
                    self.links[0].find(arrive + self.params.dram_ns, link_ns).start + link_ns
                }
                Home::Unit(unit) => {
                    let split = self.ftl.is_split(first);
                    self.plan(arrive, unit, 1, bytes, self.stats.flash_reads, split).link_end()
                }
            };
            return end + self.params.complete_ns;
        }
        // No flash read starts before its die is free, so a look at the dies often suffices.
        let arrive = self.read_arrives(now);
        let mut runs = std::mem::take(&mut self.runs);
        let late = self.look_up(now, (first, count), &mut runs, |unit| {
            let die = &self.dies[self.geometry.die_of_unit(unit) as usize];
            let start = die.read_start(arrive, self.suspend_ns());
            start + self.geometry.read_ns(unit) + self.params.complete_ns > limit
        });
        let mut done = limit.saturating_add(1);
        if !late {
            let mut undo = std::mem::take(&mut self.undo);
            let link = self.links[0].reserved;
            (done, _) = self.walk(now, request, &runs, limit, Some(&mut undo));
            self.links[0].reserved = link;
            undo.restore(&mut self.dies, &mut self.channels);
            self.undo = undo;
        }
        self.runs = runs;
        done
    }
}

/// What a read used, for the statistics.
#[derive(Default)]
struct Walked {
    flash_reads: u64,
    hits: u64,
    retries: u64,
    split_reads: u64,
}
