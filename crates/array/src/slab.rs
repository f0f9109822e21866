// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests in flight, in slots that are reused, and the tokens by which drivers identify them.
//!
//! A token contains the generation of its slot. The generation changes when the slot is reused, so a late answer or
//! timer matches nothing and is dropped. A slot holds one flight per replica, because a request is at each device at
//! most once at a time.

use std::ops::{Deref, DerefMut};

use crate::probing::Draw;
use linnet_types::{Nanos, Op, Request};

pub use linnet_core::REPLICAS_MAX;

/// A set of replicas of one request; bit k is the k-th device, counted from the primary.
pub(crate) type Mask = u8;

const GENERATION_BITS: u32 = 28;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

fn pack(slot: usize, generation: u32, low: u32) -> u64 {
    (slot as u64) << 32 | u64::from(generation & GENERATION_MASK) << 4 | u64::from(low)
}

/// Identifies one copy of a request on one device, as long as the request lives. Fits an io_uring `user_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyId(pub u64);

impl CopyId {
    /// A small number that is unique among live copies.
    pub(crate) fn index(self) -> usize {
        (self.0 >> 32) as usize * REPLICAS_MAX + (self.0 as usize & (REPLICAS_MAX - 1))
    }
}

/// Identifies a timer that the array requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId(pub u64);

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// Hedge copy k, if it is still in flight.
    Hedge(usize),
    /// Ask for the next replica.
    Retry,
    /// Check for copies past their time limit. The slot number selects reads (0) or writes (1).
    Limit,
    /// Look for reads that have become late. The slot number is 0.
    Late,
}

const RETRY: u32 = 8;
const LIMIT: u32 = 9;
const LATE: u32 = 10;

impl TimerId {
    pub(crate) fn new(slot: usize, generation: u32, alarm: Alarm) -> Self {
        let low = match alarm {
            Alarm::Hedge(k) => k as u32,
            Alarm::Retry => RETRY,
            Alarm::Limit => LIMIT,
            Alarm::Late => LATE,
        };
        TimerId(pack(slot, generation, low))
    }

    pub(crate) fn alarm(self) -> Option<Alarm> {
        match (self.0 & 15) as u32 {
            RETRY => Some(Alarm::Retry),
            LIMIT => Some(Alarm::Limit),
            LATE => Some(Alarm::Late),
            k if k < RETRY => Some(Alarm::Hedge(k as usize)),
            _ => None,
        }
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 >> 32) as usize
    }
}

/// One copy of a request on its device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    /// Its record in the device's replica.
    pub core: linnet_core::Flight,
    /// I/Os in flight at the device before this copy.
    pub in_flight: u32,
}

/// One request, and its copies at the replicas. A flight is written only when its copy is submitted.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    state: State,
    pub flights: [Flight; REPLICAS_MAX],
}

impl Deref for Slot {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// State of a request, without its flights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub request: Request,
    pub tag: u64,
    pub arrive_ns: Nanos,
    pub generation: u32,
    /// Requests of this slot from this generation on arrived after the last [`Slab::reset`].
    since: u32,
    pub stream: u32,
    /// Row of the placement.
    pub row: u32,
    /// Live, or free for reuse.
    pub live: bool,
    /// The caller has been answered; copies may still be in flight.
    pub answered: bool,
    /// A retry timer is set.
    pub waiting: bool,
    /// Its copy in flight may become late ([`crate::Policy::hedge_due`]).
    pub may_be_late: bool,
    /// A hedge was sent or is no longer wanted.
    pub hedged: bool,
    /// A copy succeeded (writes to all replicas).
    pub succeeded: bool,
    /// Copies that a device accepted.
    pub copies: u8,
    /// Replicas that hold or held a copy.
    pub submitted: Mask,
    /// Replicas that were revoked, also those that hold a copy since then: who reads this leaves `submitted` out.
    pub refused: Mask,
    /// Replicas with a copy in flight.
    pub flying: Mask,
    /// Copies submitted because the policy predicted that they will be fast.
    pub predicted_fast: Mask,
    /// Copies that are hedges.
    pub hedges: Mask,
    /// Copies that were submitted by [`crate::Config::probe_share`].
    pub sampled: Mask,
    /// Result of the first draw for this read.
    pub drawn: Draw,
}

impl State {
    fn vacant() -> Self {
        State {
            request: Request::new(Op::Read, 0, 1),
            tag: 0,
            arrive_ns: 0,
            generation: 0,
            since: 0,
            stream: 0,
            row: 0,
            live: false,
            answered: false,
            waiting: false,
            may_be_late: false,
            hedged: false,
            succeeded: false,
            copies: 0,
            submitted: 0,
            refused: 0,
            flying: 0,
            predicted_fast: 0,
            hedges: 0,
            sampled: 0,
            drawn: Draw::None,
        }
    }

    pub(crate) fn copy_id(&self, slot: usize, k: usize) -> CopyId {
        CopyId(pack(slot, self.generation, k as u32))
    }

    /// Which counters have this request: 0 if it arrived since the last [`Slab::reset`], 1 if before it.
    pub(crate) fn set(&self) -> usize {
        self.set_of(self.generation)
    }

    /// The same of a request that had the slot in this generation.
    fn set_of(&self, generation: u32) -> usize {
        // The generations before `since` are the half of all that lies behind it.
        usize::from(generation.wrapping_sub(self.since) & GENERATION_MASK > GENERATION_MASK / 2)
    }
}

/// All slots.
#[derive(Clone, Debug)]
pub(crate) struct Slab {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// Requests in flight for which memory is allocated at the start.
const ROOM: usize = 1024;

impl Slab {
    pub(crate) fn new() -> Self {
        Slab { slots: Vec::with_capacity(ROOM), free: Vec::with_capacity(ROOM) }
    }

    pub(crate) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, tag: u64, arrive_ns: Nanos, stream: u32, row: u32, request: Request) -> usize {
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => {
                self.slots.push(Slot { state: State::vacant(), flights: [Flight::default(); REPLICAS_MAX] });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[index];
        let (generation, since) = (slot.generation, slot.since);
        slot.state = State { request, tag, arrive_ns, generation, since, stream, row, live: true, ..State::vacant() };
        index
    }

    /// From now on the requests so far have a set of counters of their own.
    pub(crate) fn reset(&mut self) {
        for slot in &mut self.slots {
            slot.since = (slot.generation + u32::from(slot.live)) & GENERATION_MASK;
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        debug_assert!(slot.live && slot.flying == 0 && !slot.waiting);
        slot.live = false;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(index as u32);
    }

    pub(crate) fn get(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    pub(crate) fn at(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    /// The slot and replica of a copy that is in flight, or `None` if it is no longer.
    pub(crate) fn copy(&self, id: CopyId) -> Option<(usize, usize)> {
        let (index, k) = ((id.0 >> 32) as usize, (id.0 & 15) as usize);
        let slot = self.slots.get(index)?;
        let current = slot.live && slot.generation == (id.0 >> 4) as u32 & GENERATION_MASK;
        (current && k < REPLICAS_MAX && slot.flying & (1 << k) != 0).then_some((index, k))
    }

    /// Which counters have a copy, also one that has ended.
    pub(crate) fn set_of(&self, id: CopyId) -> usize {
        self.slots.get((id.0 >> 32) as usize).map_or(0, |slot| slot.set_of((id.0 >> 4) as u32 & GENERATION_MASK))
    }

    /// True if the request that the timer was set for is still live.
    pub(crate) fn is_current(&self, id: TimerId) -> bool {
        self.slots
            .get(id.slot())
            .is_some_and(|slot| slot.live && slot.generation == (id.0 >> 4) as u32 & GENERATION_MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_dies_with_its_request() {
        let mut slab = Slab::new();
        let read = Request::new(Op::Read, 0, 4096);
        let index = slab.insert(7, 0, 0, 0, read);
        slab.at(index).flying = 1 << 5;
        let id = slab.at(index).copy_id(index, 5);
        let timer = TimerId::new(index, slab.at(index).generation, Alarm::Retry);
        assert_eq!(slab.copy(id), Some((index, 5)));
        assert_eq!(timer.alarm(), Some(Alarm::Retry));
        slab.at(index).flying = 0;
        assert_eq!(slab.copy(id), None, "the copy has ended");
        assert!(slab.is_current(timer));
        slab.remove(index);
        assert_eq!(slab.insert(8, 0, 0, 0, read), index, "slots are used again");
        slab.at(index).flying = 1 << 5;
        assert_eq!(slab.copy(id), None);
        assert!(!slab.is_current(timer));
        assert_eq!(slab.copy(CopyId(u64::MAX)), None, "a token from nowhere");
    }

    #[test]
    fn a_token_names_one_copy_or_timer_of_one_generation() {
        let mut slab = Slab::new();
        let read = Request::new(Op::Read, 0, 4096);
        for slot in 0..3 {
            assert_eq!(slab.insert(slot, 0, 0, 0, read), slot as usize);
        }
        let (mut copies, mut timers) = (std::collections::HashSet::new(), std::collections::HashSet::new());
        for (slot, generation) in [(0, 0), (1, 0), (1, 1), (2, 0x0ABC_DEF0), (2, GENERATION_MASK)] {
            slab.at(slot).generation = generation;
            slab.at(slot).flying = 0xff;
            let other = (slot, (generation + 1) & GENERATION_MASK);
            for k in 0..REPLICAS_MAX {
                let copy = slab.get(slot).copy_id(slot, k);
                assert!(copies.insert(copy));
                assert_eq!((slab.copy(copy), copy.index()), (Some((slot, k)), slot * REPLICAS_MAX + k));
                assert_eq!(slab.copy(CopyId(copy.0 | 8)), None, "no replica has this number");
                slab.at(slot).flying = !(1 << k);
                assert_eq!(slab.copy(copy), None, "it is not in flight");
                (slab.at(slot).flying, slab.at(slot).generation) = (0xff, other.1);
                assert_eq!(slab.copy(copy), None, "of another generation");
                slab.at(slot).generation = generation;
            }
            let hedges = (0..REPLICAS_MAX).map(Alarm::Hedge);
            for alarm in hedges.chain([Alarm::Retry, Alarm::Limit, Alarm::Late]) {
                let timer = TimerId::new(slot, generation, alarm);
                assert!(timers.insert(timer));
                assert_eq!((timer.alarm(), timer.slot(), slab.is_current(timer)), (Some(alarm), slot, true));
                assert!(!slab.is_current(TimerId::new(slot, other.1, alarm)));
            }
        }
        assert_eq!(TimerId(11).alarm(), None);
        assert!(!slab.is_current(TimerId::new(3, 0, Alarm::Retry)), "no such slot");
        // Generations wrap, and the last slot that became free is used first.
        slab.at(2).flying = 0;
        slab.at(0).flying = 0;
        assert_eq!(slab.live(), 3);
        slab.remove(0);
        slab.remove(2);
        assert_eq!((slab.live(), slab.get(2).generation, slab.get(0).generation), (1, 0, 1));
        assert!(!slab.is_current(TimerId::new(2, 0, Alarm::Retry)), "it is free");
        assert_eq!((slab.insert(9, 0, 0, 0, read), slab.get(2).tag, slab.live()), (2, 9, 2));
    }
}
