// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring of records from one thread to another without locks, and a sampler of events (`core/ring.c`).

use std::cell::UnsafeCell;
use std::sync::Arc;

use crate::{Error, ffi};

struct Shared {
    ring: UnsafeCell<Aligned>,
    words: usize,
    _memory: Vec<u64>,
}

/// Aligned to its own cache lines.
#[repr(C, align(64))]
struct Aligned(ffi::Ring);

// SAFETY: there is one producer and one consumer, as the C ring requires; its counters are atomic, and each side writes
// only its own part of the struct.
unsafe impl Send for Shared {}
// SAFETY: as for Send.
unsafe impl Sync for Shared {}

impl Shared {
    fn raw(&self) -> *mut ffi::Ring {
        self.ring.get().cast()
    }
}

/// The side that puts records.
pub struct Producer(Arc<Shared>);
/// The side that takes records.
pub struct Consumer(Arc<Shared>);

/// A ring of `capacity` records, a power of two up to 2^24, of `record_words` words of 8 bytes, 1 to 64.
pub fn ring(capacity: usize, record_words: usize) -> Result<(Producer, Consumer), Error> {
    let (Ok(slots), Ok(words)) = (u32::try_from(capacity), u32::try_from(record_words)) else {
        return Err(Error::Shape(format!("a ring of {capacity} records of {record_words} words")));
    };
    let mut memory = vec![0u64; if slots > 1 << 24 || words > 64 { 0 } else { capacity * record_words }];
    // SAFETY: zeros are a valid `ffi::Ring`; the memory's size is passed.
    let shared = unsafe {
        let mut raw: ffi::Ring = std::mem::zeroed();
        if ffi::linnet_ring_init(&mut raw, slots, words, memory.as_mut_ptr(), memory.len()) < 0 {
            return Err(Error::Shape(format!(
                "a ring of {capacity} records of {record_words} words, where a power of two up to 2^24 and 1 to 64 are \
                 allowed"
            )));
        }
        Arc::new(Shared { ring: UnsafeCell::new(Aligned(raw)), words: record_words, _memory: memory })
    };
    Ok((Producer(shared.clone()), Consumer(shared)))
}

impl Producer {
    /// Returns true, or false if the ring is full and the record is lost.
    ///
    /// # Panics
    /// If the record does not have the ring's size.
    pub fn put(&mut self, record: &[u64]) -> bool {
        assert_eq!(record.len(), self.0.words, "words of a record");
        // SAFETY: the only producer, by `&mut self`; the length was checked.
        unsafe { ffi::linnet_ring_put(self.0.raw(), record.as_ptr()) != 0 }
    }

    /// Records lost so far.
    pub fn lost(&self) -> u64 {
        // SAFETY: an atomic load.
        unsafe { ffi::linnet_ring_lost(self.0.raw()) }
    }
}

impl Consumer {
    /// Returns true and the oldest record in `record`, or false if the ring is empty.
    ///
    /// # Panics
    /// If the record does not have the ring's size.
    pub fn take(&mut self, record: &mut [u64]) -> bool {
        assert_eq!(record.len(), self.0.words, "words of a record");
        // SAFETY: the only consumer, by `&mut self`; the length was checked.
        unsafe { ffi::linnet_ring_take(self.0.raw(), record.as_mut_ptr()) != 0 }
    }

    /// Records waiting now.
    pub fn waiting(&self) -> u64 {
        // SAFETY: atomic loads.
        unsafe { ffi::linnet_ring_waiting(self.0.raw()) }
    }

    /// Records that the producer lost so far.
    pub fn lost(&self) -> u64 {
        // SAFETY: an atomic load.
        unsafe { ffi::linnet_ring_lost(self.0.raw()) }
    }
}

/// Keeps a given share of events, chosen by a seeded generator (`struct linnet_sampler`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Sampler {
    seen: u64,
    kept: u64,
    seed: u64,
    share_ppm: u32,
    spare: u32,
}

impl Sampler {
    /// Keeps `share_ppm` events per million.
    pub fn new(share_ppm: u32, seed: u64) -> Result<Sampler, Error> {
        let mut sampler = Sampler { seen: 0, kept: 0, seed: 0, share_ppm: 0, spare: 0 };
        // SAFETY: the struct has the layout of `struct linnet_sampler`.
        if unsafe { ffi::linnet_sampler_init(&mut sampler, share_ppm, seed) } < 0 {
            return Err(Error::Input(format!("a share of {share_ppm} millionths; at most 1000000")));
        }
        Ok(sampler)
    }

    /// True to keep this event.
    pub fn keep(&mut self) -> bool {
        // SAFETY: as in `new`.
        unsafe { ffi::linnet_sampler_keep(self) != 0 }
    }

    /// Events so far, and those kept.
    pub fn counts(&self) -> (u64, u64) {
        (self.seen, self.kept)
    }
}
