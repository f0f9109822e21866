// SPDX-License-Identifier: MIT OR Apache-2.0
//! Garbage collection of one plane in the queued model.

use super::engine::{Job, Kind, QueuedSsd, Source};
use super::flash::{NONE, Place, Stream};
use super::params::VictimPolicy;

impl QueuedSsd {
    /// Starts collecting a victim block of the plane if the plane has too few free blocks.
    pub(super) fn collect_if_short(&mut self, plane: u32) {
        let state = &self.flash.planes[plane as usize];
        if state.free.len() as u32 >= self.params.gc_start_blocks()
            || state.collecting >= self.params.gc_concurrent_per_plane
        {
            return;
        }
        let Some(block) = self.victim(plane) else { return };
        if self.flash.room(plane) < self.flash.planes[plane as usize].blocks[block as usize].valid.into() {
            return;
        }
        self.stats.gc_runs += 1;
        let entry = &mut self.flash.planes[plane as usize].blocks[block as usize];
        entry.collecting = true;
        let valid = entry.valid;
        self.flash.planes[plane as usize].collecting += 1;
        self.flash.planes[plane as usize].moving += valid;
        let first = self.flash.physical(plane, block, 0);
        let place = self.place_of_plane(plane);
        self.to_move.insert(self.block_number(plane, block), valid);
        if valid == 0 {
            self.queue_erase(place, block);
            return;
        }
        for physical in first..first + self.flash.pages_per_block {
            let page = self.flash.p2l[physical as usize];
            if page == NONE {
                continue;
            }
            // The page is locked until it has been moved.
            self.locked.insert(page, Vec::new());
            let read = Job {
                number: self.flash.number_of(physical),
                physical,
                ..self.job(Kind::Read, Source::Gc, place, page)
            };
            let read = self.new_job(read);
            self.enqueue(read);
        }
    }

    pub(super) fn victim(&mut self, plane: u32) -> Option<u32> {
        let pages = self.flash.pages_per_block;
        let state = &self.flash.planes[plane as usize];
        let now = state.programs;
        let usable = |&number: &u32| {
            let block = &state.blocks[number as usize];
            block.written == pages
                && block.valid < pages
                && !block.collecting
                && block.programming == 0
                && !state.open.contains(&number)
        };
        let blocks = state.blocks.len() as u32;
        let valid = |number: &u32| state.blocks[*number as usize].valid;
        match self.params.gc_policy {
            VictimPolicy::Greedy => (0..blocks).filter(usable).min_by_key(valid),
            VictimPolicy::DChoices => {
                let choices = blocks.ilog2().max(1);
                let drawn: Vec<u32> = (0..choices).map(|_| self.chance.below(blocks.into()) as u32).collect();
                drawn
                    .into_iter()
                    .filter(usable)
                    .min_by_key(valid)
                    .or_else(|| (0..blocks).filter(usable).min_by_key(valid))
            }
            VictimPolicy::CostBenefit => {
                let benefit = |number: &u32| {
                    let block = &state.blocks[*number as usize];
                    let used = f64::from(block.valid) / f64::from(pages);
                    (1.0 - used) * (now - block.stamp + 1) as f64 / (2.0 * used).max(1e-9)
                };
                (0..blocks).filter(usable).max_by(|a, b| benefit(a).total_cmp(&benefit(b)))
            }
        }
    }

    fn place_of_plane(&self, index: u32) -> Place {
        let plane = index % self.params.planes_per_die;
        let die = index / self.params.planes_per_die;
        Place { chip: die / self.params.dies_per_chip, die: die % self.params.dies_per_chip, plane, index }
    }

    fn block_number(&self, plane: u32, block: u32) -> u32 {
        plane * self.params.blocks_per_plane + block
    }

    fn queue_erase(&mut self, place: Place, block: u32) {
        let erase = Job { physical: block, ..self.job(Kind::Erase, Source::Gc, place, NONE) };
        let erase = self.new_job(erase);
        self.enqueue(erase);
    }

    /// Called when a page of a victim block has been read: gives it its new place and queues its program.
    pub(super) fn page_to_move(&mut self, read: &Job) {
        self.flash.planes[read.place.index as usize].moving -= 1;
        let (physical, full) = self.flash.append(read.page, read.place.index, Stream::Relocated);
        self.stats.gc_reads += 1;
        self.stats.gc_programs += 1;
        let program = Job {
            number: self.flash.number_of(physical),
            physical,
            // The block from which the page is moved.
            stamp: u64::from(self.flash.block_of(read.physical).1),
            ..self.job(Kind::Program, Source::Gc, read.place, read.page)
        };
        let program = self.new_job(program);
        self.enqueue(program);
        if full {
            self.collect_if_short(read.place.index);
        }
    }

    /// A page of a victim block has been programmed at its new place.
    pub(super) fn page_moved(&mut self, program: &Job) {
        let block = program.stamp as u32;
        let number = self.block_number(program.place.index, block);
        self.unlock(program.page);
        if let Some(left) = self.to_move.get_mut(&number) {
            *left -= 1;
            if *left == 0 {
                self.queue_erase(program.place, block);
            }
        }
        self.schedule_all();
    }

    /// A block has been erased: writes that waited for a free block continue.
    pub(super) fn erased(&mut self, erase: &Job) {
        let plane = erase.place.index;
        self.to_move.remove(&self.block_number(plane, erase.physical));
        self.stats.erases += 1;
        let state = &mut self.flash.planes[plane as usize];
        let block = &mut state.blocks[erase.physical as usize];
        *block = super::flash::Block { erases: block.erases + 1, ..Default::default() };
        state.free.push_back(erase.physical);
        state.collecting -= 1;
        for destage in std::mem::take(&mut self.starved[plane as usize]) {
            self.destage(destage);
        }
        if (self.flash.planes[plane as usize].free.len() as u32) < self.params.stop_writes_below() {
            self.collect_if_short(plane);
        }
        self.schedule_all();
    }
}
