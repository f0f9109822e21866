// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of a drive in memory: pages of 4 KiB in chunks of 16.
//!
//! A page is allocated when something is written to it, so that random writes of 4 KiB take little more than their own
//! size. The table holds chunks, so that a long range needs one look-up and one lock for every 64 KiB; and a chunk that
//! was written at once is one piece, because one copy of 64 KiB is faster than 16 of 4 KiB.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::io::Errno;

pub const PAGE_BYTES: usize = 4 << 10;
/// Pages of a chunk.
const PAGES: usize = 16;
pub const CHUNK_BYTES: usize = PAGES * PAGE_BYTES;
/// Number of locks for the chunks, so that connections rarely contend.
const SHARDS: usize = 64;
/// What the process still has is asked for again when the data has grown by this much.
const STEP_BYTES: u64 = 16 << 20;
/// What the data leaves of it, to all that is not data: requests, replies, threads.
const SPARE_BYTES: u64 = 64 << 20;

type Page = [u8; PAGE_BYTES];
type Chunks = HashMap<u64, Chunk>;

enum Chunk {
    Pages([Option<Box<Page>>; PAGES]),
    /// All pages, [`CHUNK_BYTES`] in one piece.
    Whole(Box<[u8]>),
}

/// Tells how many bytes of memory the process may still take; `None` if it cannot tell.
pub type Left = fn() -> Option<u64>;

pub struct Memory {
    shards: Vec<RwLock<Chunks>>,
    pages: AtomicU64,
    left: Option<Left>,
    /// Up to this many pages there is room, as `left` said.
    fitting_pages: AtomicU64,
}

/// Splits a range at multiples of `unit`: which one, offset in it, length.
fn parts(offset: u64, size: u64, unit: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let (end, unit) = (offset + size, unit as u64);
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let inside = at % unit;
            let size = (unit - inside).min(end - at);
            let part = (at / unit, inside as usize, size as usize);
            at += size;
            part
        })
    })
}

/// The same for a part of a chunk: page, offset in it, length.
fn pages(inside: usize, size: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    parts(inside as u64, size as u64, PAGE_BYTES).map(|(page, at, size)| (page as usize, at, size))
}

impl Memory {
    pub fn new(left: Option<Left>) -> Memory {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Memory { shards, pages: AtomicU64::new(0), left, fitting_pages: AtomicU64::new(0) }
    }

    fn reading(&self, chunk: u64) -> RwLockReadGuard<'_, Chunks> {
        self.shards[chunk as usize % SHARDS].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self, chunk: u64) -> RwLockWriteGuard<'_, Chunks> {
        self.shards[chunk as usize % SHARDS].write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn read(&self, offset_bytes: u64, mut into: &mut [u8]) {
        for (chunk, inside, size) in parts(offset_bytes, into.len() as u64, CHUNK_BYTES) {
            let (now, rest) = into.split_at_mut(size);
            into = rest;
            match self.reading(chunk).get(&chunk) {
                Some(held) => held.read(inside, now),
                None => now.fill(0),
            }
        }
    }

    /// # Errors
    /// There is no memory left. Some of the data may have been written, as on a drive that fails.
    pub fn write(&self, offset_bytes: u64, mut from: &[u8]) -> io::Result<()> {
        for (chunk, inside, size) in parts(offset_bytes, from.len() as u64, CHUNK_BYTES) {
            let (now, rest) = from.split_at(size);
            from = rest;
            self.put(chunk, inside, size, Some(now))?;
        }
        Ok(())
    }

    /// Writes zeros, and takes memory for them as for other data.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub fn zero(&self, offset_bytes: u64, size_bytes: u64) -> io::Result<()> {
        parts(offset_bytes, size_bytes, CHUNK_BYTES)
            .try_for_each(|(chunk, inside, size)| self.put(chunk, inside, size, None))
    }

    /// Writes to one chunk; no data means zeros.
    fn put(&self, chunk: u64, inside: usize, size: usize, from: Option<&[u8]>) -> io::Result<()> {
        let mut shard = self.writing(chunk);
        if let Some(held) = shard.get_mut(&chunk) {
            self.reserve(pages(inside, size).filter(|&(page, ..)| !held.has(page)).count() as u64)?;
            held.put(inside, size, from);
            return Ok(());
        }
        self.reserve(pages(inside, size).count() as u64)?;
        let fresh = if size == CHUNK_BYTES {
            Chunk::Whole(from.map_or_else(|| vec![0; CHUNK_BYTES].into(), Box::from))
        } else {
            let mut fresh = Chunk::Pages(Default::default());
            fresh.put(inside, size, from);
            fresh
        };
        shard.insert(chunk, fresh);
        Ok(())
    }

    /// Makes a range read as zeros, and frees the pages that it covers.
    pub fn clear(&self, offset_bytes: u64, size_bytes: u64) {
        let mut freed = 0;
        for (chunk, inside, size) in parts(offset_bytes, size_bytes, CHUNK_BYTES) {
            let mut shard = self.writing(chunk);
            let Some(held) = shard.get_mut(&chunk) else { continue };
            let before = held.count();
            let after = if size == CHUNK_BYTES { 0 } else { held.clear(inside, size) };
            if after == 0 {
                shard.remove(&chunk);
            }
            freed += before - after;
        }
        let pages = self.pages.fetch_sub(freed, Relaxed) - freed;
        // What was freed may be taken by others. It is asked for again when it is needed again.
        self.fitting_pages.fetch_min(pages + STEP_BYTES / PAGE_BYTES as u64, Relaxed);
    }

    /// Where the state at this offset ends, and whether it is a hole there.
    pub fn state(&self, at: u64) -> (u64, bool) {
        let chunk = at / CHUNK_BYTES as u64;
        let first = (at % CHUNK_BYTES as u64) as usize / PAGE_BYTES;
        let (end, hole) = match self.reading(chunk).get(&chunk) {
            None => (PAGES, true),
            Some(held) => {
                let there = held.has(first);
                ((first..PAGES).find(|&page| held.has(page) != there).unwrap_or(PAGES), !there)
            }
        };
        (chunk * CHUNK_BYTES as u64 + (end * PAGE_BYTES) as u64, hole)
    }

    /// Counts pages that are about to be allocated, if there is room for them.
    fn reserve(&self, count: u64) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let pages = self.pages.fetch_add(count, Relaxed) + count;
        let Some(left) = self.left.filter(|_| pages > self.fitting_pages.load(Relaxed)) else { return Ok(()) };
        if left().is_some_and(|bytes| bytes < SPARE_BYTES + STEP_BYTES) {
            self.pages.fetch_sub(count, Relaxed);
            return Err(Errno::NOSPC.into());
        }
        self.fitting_pages.store(pages + STEP_BYTES / PAGE_BYTES as u64, Relaxed);
        Ok(())
    }

    /// Bytes of the pages.
    pub fn bytes(&self) -> u64 {
        self.pages.load(Relaxed) * PAGE_BYTES as u64
    }
}

/// Writes data, or zeros if there is none.
fn copy(into: &mut [u8], from: Option<&[u8]>) {
    match from {
        Some(from) => into.copy_from_slice(from),
        None => into.fill(0),
    }
}

impl Chunk {
    fn has(&self, page: usize) -> bool {
        match self {
            Chunk::Pages(slots) => slots[page].is_some(),
            Chunk::Whole(_) => true,
        }
    }

    fn count(&self) -> u64 {
        (0..PAGES).filter(|&page| self.has(page)).count() as u64
    }

    fn read(&self, inside: usize, into: &mut [u8]) {
        let slots = match self {
            Chunk::Pages(slots) => slots,
            Chunk::Whole(bytes) => return into.copy_from_slice(&bytes[inside..inside + into.len()]),
        };
        let mut done = 0;
        for (page, at, size) in pages(inside, into.len()) {
            copy(&mut into[done..done + size], slots[page].as_ref().map(|page| &page[at..at + size]));
            done += size;
        }
    }

    fn put(&mut self, inside: usize, size: usize, from: Option<&[u8]>) {
        let slots = match self {
            Chunk::Pages(slots) => slots,
            Chunk::Whole(bytes) => return copy(&mut bytes[inside..inside + size], from),
        };
        let mut done = 0;
        for (page, at, size) in pages(inside, size) {
            let from = from.map(|from| &from[done..done + size]);
            match (&mut slots[page], from.map(<&Page>::try_from)) {
                // A page that is written whole for the first time is copied, not zeroed before.
                (slot @ None, Some(Ok(whole))) => *slot = Some(Box::new(*whole)),
                (slot, _) => copy(&mut slot.get_or_insert_with(|| Box::new([0; PAGE_BYTES]))[at..at + size], from),
            }
            done += size;
        }
    }

    /// Frees the pages that a part of the chunk covers, and makes the rest of it zeros. Returns how many pages remain.
    fn clear(&mut self, inside: usize, size: usize) -> u64 {
        let covered = |one: usize| pages(inside, size).any(|(page, _, size)| page == one && size == PAGE_BYTES);
        if let Chunk::Whole(bytes) = self
            && (0..PAGES).any(covered)
        {
            let (bytes, _) = bytes.as_chunks::<PAGE_BYTES>();
            *self = Chunk::Pages(std::array::from_fn(|page| (!covered(page)).then(|| Box::new(bytes[page]))));
        }
        for (page, at, size) in pages(inside, size) {
            match self {
                Chunk::Pages(slots) if size == PAGE_BYTES => slots[page] = None,
                Chunk::Pages(slots) => {
                    slots[page].iter_mut().for_each(|page| page[at..at + size].fill(0));
                }
                Chunk::Whole(bytes) => bytes[page * PAGE_BYTES + at..][..size].fill(0),
            }
        }
        self.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_writes_take_their_own_size() {
        let memory = Memory::new(None);
        // Every third page: no two of them are neighbours, and every chunk has some.
        for page in (0..300).step_by(3) {
            memory.write(page * PAGE_BYTES as u64, &[7; PAGE_BYTES]).unwrap();
        }
        assert_eq!(memory.bytes(), 100 * PAGE_BYTES as u64);
        memory.write(PAGE_BYTES as u64 - 1, &[7; 2]).unwrap();
        assert_eq!(memory.bytes(), 101 * PAGE_BYTES as u64, "one of the two was there");
        assert_eq!(memory.state(0), (2 * PAGE_BYTES as u64, false));
        assert_eq!(memory.state(2 * PAGE_BYTES as u64 + 5), (3 * PAGE_BYTES as u64, true));
        assert_eq!(memory.state(1 << 30), ((1 << 30) + CHUNK_BYTES as u64, true));
        memory.clear(1, 1 << 30);
        assert_eq!(memory.bytes(), PAGE_BYTES as u64, "the first page keeps its first byte");
        memory.clear(0, PAGE_BYTES as u64);
        assert_eq!(chunks(&memory), 0);
    }

    fn chunks(memory: &Memory) -> usize {
        memory.shards.iter().map(|shard| shard.read().unwrap().len()).sum()
    }

    #[test]
    fn a_chunk_in_one_piece_gives_back_its_pages() {
        let memory = Memory::new(None);
        let page = PAGE_BYTES as u64;
        let data: Vec<u8> = (0..CHUNK_BYTES).map(|at| (at / PAGE_BYTES + 1) as u8).collect();
        memory.write(0, &data).unwrap();
        memory.clear(page - 1, 2);
        assert_eq!(memory.bytes(), 16 * page, "no page is covered");
        memory.clear(3 * page - 1, 2 * page + 2);
        assert_eq!((memory.bytes(), memory.state(0)), (14 * page, (3 * page, false)));
        let mut expected = data;
        for range in [PAGE_BYTES - 1..PAGE_BYTES + 1, 3 * PAGE_BYTES - 1..5 * PAGE_BYTES + 1] {
            expected[range].fill(0);
        }
        let mut back = vec![9; CHUNK_BYTES];
        memory.read(0, &mut back);
        assert!(back == expected);
        (0..16).for_each(|at| memory.clear(at * page, page));
        assert_eq!((memory.bytes(), chunks(&memory)), (0, 0));
    }

    #[test]
    fn zeros_that_are_written_take_memory() {
        let memory = Memory::new(None);
        memory.write(CHUNK_BYTES as u64, &[7; CHUNK_BYTES]).unwrap();
        memory.zero(100, 2 * CHUNK_BYTES as u64).unwrap();
        assert_eq!(memory.bytes(), (2 * CHUNK_BYTES + PAGE_BYTES) as u64);
        assert_eq!(memory.state(0), (CHUNK_BYTES as u64, false));
        let mut back = vec![1; 2 * CHUNK_BYTES + 100];
        memory.read(0, &mut back);
        assert!(back.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn what_does_not_fit_in_memory_is_refused() {
        static LEFT: AtomicU64 = AtomicU64::new(1 << 30);
        let memory = Memory::new(Some(|| Some(LEFT.load(Relaxed))));
        let step = vec![7; STEP_BYTES as usize];
        memory.write(0, &step).unwrap();
        LEFT.store(SPARE_BYTES, Relaxed);
        let error = memory.write(STEP_BYTES, &step).and_then(|()| memory.write(2 * STEP_BYTES, &step)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(memory.bytes() <= 3 * STEP_BYTES, "at most a step beyond the answer: {}", memory.bytes());
        assert!(memory.zero(1 << 40, 1).is_err());
        memory.write(5, &[8; 9000]).expect("what is there can be written again");
        // There is room again: for a step after a trim, and for more when the answer says so.
        memory.clear(0, STEP_BYTES);
        memory.write(0, &[7; 4096]).unwrap();
        assert!(memory.write(3 * STEP_BYTES, &[&step[..]; 3].concat()).is_err());
        LEFT.store(1 << 30, Relaxed);
        memory.write(3 * STEP_BYTES, &[&step[..]; 3].concat()).unwrap();
        // Nobody can tell.
        assert!(Memory::new(Some(|| None)).write(0, &step).is_ok());
    }
}
