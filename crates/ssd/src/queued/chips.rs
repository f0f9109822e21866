// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides what a channel transfers next and what a chip starts next.

use linnet_types::Nanos;

use super::engine::{ERASES, Event, GC_PROGRAMS, GC_READS, HOST_PROGRAMS, HOST_READS, Kind, QueuedSsd, Source};
use crate::cause::Mechanism;

impl QueuedSsd {
    /// Offers an idle channel to its chips, in round-robin order, until one uses it.
    pub(super) fn schedule(&mut self, channel: u32) {
        let chips = self.params.chips_per_channel;
        for _ in 0..chips {
            if self.channels[channel as usize].busy {
                return;
            }
            let turn = self.channels[channel as usize].turn;
            self.serve_chip(channel * chips + turn);
            self.channels[channel as usize].turn = (turn + 1) % chips;
        }
    }

    pub(super) fn channel_of(&self, chip: u32) -> u32 {
        chip / self.params.chips_per_channel
    }

    fn serve_chip(&mut self, chip: u32) {
        let waits = |queue: usize| !self.chips[chip as usize].queues[queue].is_empty();
        let mut choice = [usize::MAX; 2];
        if !self.params.gc_preemptible {
            // Garbage collection comes first, in the order read, program, erase. Host work joins a command if planes
            // are free.
            if waits(GC_READS) {
                choice = [GC_READS, HOST_READS];
            } else if waits(GC_PROGRAMS) {
                choice = [GC_PROGRAMS, HOST_PROGRAMS];
            } else if waits(ERASES) {
                choice = [ERASES, ERASES];
            } else if waits(HOST_READS) {
                choice = [HOST_READS, HOST_READS];
            } else if waits(HOST_PROGRAMS) {
                choice = [HOST_PROGRAMS, HOST_PROGRAMS];
            }
        } else if waits(HOST_READS) {
            choice = [HOST_READS, GC_READS];
        } else if waits(HOST_PROGRAMS) {
            choice = [HOST_PROGRAMS, GC_PROGRAMS];
        } else if let Some(queue) = [GC_READS, GC_PROGRAMS, ERASES].into_iter().find(|&queue| waits(queue)) {
            choice = [queue, queue];
        }
        if choice[0] == usize::MAX {
            return;
        }
        let reads = choice[0] == HOST_READS || choice[0] == GC_READS;
        if self.chips[chip as usize].running.is_some() && !(reads && self.suspend(chip)) {
            return;
        }
        self.send(chip, choice);
    }

    /// Suspends a program or erase with enough time left. Returns false if the chip cannot take a read.
    fn suspend(&mut self, chip: u32) -> bool {
        let now = self.now;
        let at = &mut self.chips[chip as usize];
        let above = match at.running {
            Some(Kind::Program) => self.params.program_suspend_above_ns,
            Some(Kind::Erase) => self.params.erase_suspend_above_ns,
            _ => None,
        };
        let Some(above) = above else { return false };
        // The data must be in the registers, and an operation is suspended only once.
        let sending = self.channels[(chip / self.params.chips_per_channel) as usize].busy;
        let last = at.dies.iter().map(|die| die.end).max().unwrap_or(0);
        if sending || !at.suspended.is_empty() || last < now + above {
            return false;
        }
        at.suspended_kind = at.running.unwrap_or(Kind::Program);
        for (number, die) in (0..).zip(&mut at.dies) {
            if !die.jobs.is_empty() {
                at.suspended.push((number, std::mem::take(&mut die.jobs), die.end.saturating_sub(now)));
            }
        }
        at.active_dies = 0;
        at.generation += 1;
        at.last_internal.2 = now;
        at.running = None;
        self.stats.suspensions += 1;
        true
    }

    fn resume(&mut self, chip: u32) {
        let now = self.now;
        let at = &mut self.chips[chip as usize];
        let generation = at.generation;
        at.running = Some(at.suspended_kind);
        for (number, jobs, left_ns) in std::mem::take(&mut at.suspended) {
            let at = &mut self.chips[chip as usize];
            let die = &mut at.dies[number as usize];
            die.jobs = jobs;
            die.end = now + left_ns;
            at.active_dies += 1;
            at.last_internal = (at.last_internal.0, now, now + left_ns);
            self.at(now + left_ns, Event::Array { chip, die: number, generation });
        }
    }

    /// Sends commands for the jobs in these queues: one command per die, with all planes that share the page number.
    fn send(&mut self, chip: u32, choice: [usize; 2]) {
        let Some(first) = self.chips[chip as usize].queues[choice[0]].first() else { return };
        let channel = self.channel_of(chip);
        let (kind, number) = (self.jobs[first as usize].kind, self.jobs[first as usize].number);
        let mut die = self.jobs[first as usize].place.die;
        let mut sent_by = self.now;
        let byte_pair_ns = u64::from(self.params.channel_ns_per_2_bytes);
        for _ in 0..self.params.dies_per_chip {
            let at = &mut self.chips[chip as usize];
            let mut taken = std::mem::take(&mut at.dies[die as usize].jobs);
            let mut planes = 0u32;
            for queue in choice {
                while (taken.len() as u32) < self.params.planes_per_die && (self.params.multi_plane || planes == 0) {
                    let shared = (planes != 0).then_some(number);
                    let Some((job, plane)) = at.queues[queue].take(die, planes, shared) else { break };
                    planes |= 1 << plane;
                    taken.push(job);
                }
                if choice[0] == choice[1] {
                    break;
                }
            }
            if !taken.is_empty() {
                let (command_ns, array_ns) = match kind {
                    Kind::Read => (self.params.read_command_ns, self.params.read_ns),
                    Kind::Program => (self.params.program_command_ns, self.params.program_ns),
                    Kind::Erase => (self.params.erase_command_ns, self.params.erase_ns),
                };
                sent_by += command_ns * taken.len() as u64;
                if kind == Kind::Program {
                    let sectors: u64 = taken.iter().map(|&job| u64::from(self.jobs[job as usize].sectors)).sum();
                    sent_by += sectors * 256 * byte_pair_ns;
                }
                let end = sent_by + array_ns;
                self.explain_wait(chip, &taken);
                self.began(chip, kind, &taken, end);
                let at = &mut self.chips[chip as usize];
                let generation = at.generation;
                at.active_dies += 1;
                at.running = Some(kind);
                at.dies[die as usize].end = end;
                self.at(end, Event::Array { chip, die, generation });
            }
            self.chips[chip as usize].dies[die as usize].jobs = taken;
            die = (die + 1) % self.params.dies_per_chip;
        }
        let now = self.now;
        let bus = &mut self.channels[channel as usize];
        bus.busy = true;
        bus.busy_ns += sent_by - now;
        self.at(sent_by, Event::Sent(channel));
    }

    fn began(&mut self, chip: u32, kind: Kind, jobs: &[u32], end: Nanos) {
        let host = jobs.iter().any(|&job| self.jobs[job as usize].source == Source::Host);
        let now = self.now;
        let at = &mut self.chips[chip as usize];
        at.busy_ns += end - now;
        match (kind, host) {
            (Kind::Read, true) => {
                self.stats.read_commands += 1;
                self.stats.pages_read += jobs.len() as u64;
                at.last_read = (now, end);
            }
            (Kind::Read, false) | (Kind::Program, false) => at.last_internal = (Mechanism::GcSingle, now, end),
            (Kind::Program, true) => at.last_internal = (Mechanism::FlushSingle, now, end),
            (Kind::Erase, _) => at.last_internal = (Mechanism::EraseSingle, now, end),
        }
    }

    /// Splits the wait of host reads for their chip into the last internal operation, the last read, and the rest,
    /// which is the channel's.
    fn explain_wait(&mut self, chip: u32, jobs: &[u32]) {
        let at = &self.chips[chip as usize];
        let (of, start, end) = at.last_internal;
        let (read_start, read_end) = at.last_read;
        let now = self.now;
        for &job in jobs {
            let entry = &mut self.jobs[job as usize];
            entry.issued = now;
            let overlap = |start: Nanos, end: Nanos| end.min(now).saturating_sub(start.max(entry.queued));
            let internal = overlap(start, end);
            let reads = overlap(read_start, read_end).min(now - entry.queued - internal);
            entry.waited = [(of, internal), (Mechanism::HostRead, reads)];
        }
    }

    /// Called when the channel is free: sends the oldest page that waits, or else offers the channel to the chips.
    pub(super) fn channel_free(&mut self, channel: u32) {
        let bus = &mut self.channels[channel as usize];
        bus.busy = false;
        match bus.out[0].pop_front().or_else(|| bus.out[1].pop_front()) {
            Some(job) => self.start_out(channel, job),
            None => self.schedule(channel),
        }
    }

    fn start_out(&mut self, channel: u32, job: u32) {
        let length = u64::from(self.jobs[job as usize].sectors) * 256 * u64::from(self.params.channel_ns_per_2_bytes);
        let bus = &mut self.channels[channel as usize];
        bus.busy = true;
        bus.busy_ns += length;
        let entry = &mut self.jobs[job as usize];
        // From here on, `ready` is the time that the page waited for the channel.
        entry.ready = self.now - entry.ready;
        self.at(self.now + length, Event::Out { channel, job });
    }

    pub(super) fn array_done(&mut self, chip: u32, die: u32, generation: u32) {
        let at = &mut self.chips[chip as usize];
        if at.generation != generation {
            return;
        }
        let channel = self.channel_of(chip);
        let at = &mut self.chips[chip as usize];
        let mut jobs = std::mem::take(&mut at.dies[die as usize].jobs);
        at.active_dies -= 1;
        if at.running == Some(Kind::Read) {
            at.pages_to_send += jobs.len() as u32;
            for &job in &jobs {
                self.jobs[job as usize].ready = self.now;
                if self.channels[channel as usize].busy {
                    let gc = usize::from(self.jobs[job as usize].source == Source::Gc);
                    self.channels[channel as usize].out[gc].push_back(job);
                } else {
                    self.start_out(channel, job);
                }
            }
            jobs.clear();
        } else {
            if at.active_dies == 0 {
                at.running = None;
            }
            for job in jobs.drain(..) {
                let done = self.jobs[job as usize];
                self.free_jobs.push(job);
                match done.kind {
                    Kind::Erase => self.erased(&done),
                    _ => self.programmed(&done),
                }
            }
            if !self.channels[channel as usize].busy {
                self.schedule(channel);
            }
        }
        self.chips[chip as usize].dies[die as usize].jobs.append(&mut jobs);
    }

    /// Called when a page has left its chip. A read keeps its die until then, because only the last page frees the
    /// chip.
    pub(super) fn page_out(&mut self, channel: u32, job: u32) {
        let done = self.jobs[job as usize];
        self.free_jobs.push(job);
        let chip = done.place.chip;
        let at = &mut self.chips[chip as usize];
        at.pages_to_send -= 1;
        if at.active_dies == 0 && at.pages_to_send == 0 {
            at.running = None;
            at.last_read.1 = self.now;
            if !at.suspended.is_empty() {
                self.resume(chip);
            }
        }
        match done.source {
            Source::Host => self.page_served(done.request, Some(&done)),
            Source::Rmw => self.old_page_read(&done),
            Source::Gc => self.page_to_move(&done),
        }
        self.channel_free(channel);
    }
}
