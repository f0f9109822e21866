// SPDX-License-Identifier: MIT OR Apache-2.0
//! A large table of numbers with random access. The two maps of a 64 GiB device take 130 MB, so nearly every access
//! misses the processor's caches and, with pages of 4 KiB, the TLB too. The table asks Linux for huge pages, and an
//! entry can be prefetched.

use std::ops::{Deref, DerefMut};

/// How many entries, in eights, [`Table::number`] prefetches ahead: as many as fit in the first cache beside others.
const AHEAD: usize = 8;

/// A table of fixed length.
#[derive(Debug)]
pub(crate) struct Table(Vec<u32>);

impl Table {
    /// `length` times `value`.
    pub fn filled(length: usize, value: u32) -> Table {
        let mut table = Table::reserved(length);
        table.0.resize(length, value);
        table
    }

    /// Memory for a table. Asks for huge pages before the memory is touched, because pages already in use stay small.
    fn reserved(length: usize) -> Table {
        let mut table = Vec::with_capacity(length);
        advise(table.spare_capacity_mut());
        Table(table)
    }

    /// Prefetches the cache line of an entry, or of nothing that matters if out of range. Does nothing on processors
    /// without such an instruction.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads and writes nothing, and no address makes it fail. SSE is part of x86_64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.0.as_ptr().wrapping_add(at).cast()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    /// Prefetches these entries, with two prefetches if they are neighbours.
    #[inline]
    pub fn prefetch_all(&self, entries: &[u32]) {
        if let (Some(&first), Some(&last)) = (entries.first(), entries.last())
            && last.wrapping_sub(first) as usize == entries.len() - 1
        {
            self.prefetch(first as usize);
            self.prefetch(last as usize);
        } else {
            entries.iter().for_each(|&entry| self.prefetch(entry as usize));
        }
    }
}

impl Table {
    /// Gives these entries the numbers from `first` on, in order.
    pub fn number(&mut self, entries: &[u32], first: u32) {
        let (eights, rest) = entries.as_chunks::<8>();
        let mut next = first;
        for (at, eight) in eights.iter().enumerate() {
            if let Some(later) = eights.get(at + AHEAD) {
                later.iter().for_each(|&entry| self.prefetch(entry as usize));
            }
            // Mostly they are neighbours, which are written together.
            let neighbours = (eight[0]..).zip(eight).fold(true, |all, (entry, &one)| all & (entry == one));
            if neighbours && let Some(place) = self.0[eight[0] as usize..].first_chunk_mut::<8>() {
                *place = std::array::from_fn(|i| next + i as u32);
            } else {
                (next..).zip(eight).for_each(|(number, &entry)| self.0[entry as usize] = number);
            }
            next += 8;
        }
        (next..).zip(rest).for_each(|(number, &entry)| self.0[entry as usize] = number);
    }
}

impl Clone for Table {
    fn clone(&self) -> Table {
        let mut table = Table::reserved(self.0.len());
        table.0.extend_from_slice(&self.0);
        table
    }
}

impl Deref for Table {
    type Target = [u32];

    #[inline(always)]
    fn deref(&self) -> &[u32] {
        &self.0
    }
}

impl DerefMut for Table {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.0
    }
}

/// Asks for huge pages for all whole pages of this memory. If the kernel refuses, the table is only slower. Miri has no
/// `madvise`.
fn advise(memory: &mut [std::mem::MaybeUninit<u32>]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        let page = rustix::param::page_size();
        let bytes = size_of_val(memory);
        let skipped = memory.as_ptr().align_offset(page) * size_of::<u32>();
        let length = bytes.saturating_sub(skipped) / page * page;
        if length > 0 {
            let first = memory.as_mut_ptr().cast::<u8>().wrapping_add(skipped);
            // SAFETY: the pages are within borrowed memory, and this advice does not change contents.
            let _ = unsafe { madvise(first.cast(), length, Advice::LinuxHugepage) };
        }
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = memory;
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn holds_what_it_was_filled_with_whatever_its_size() {
        // The last is for huge pages; Miri would take minutes for it.
        for length in [0, 1, 1023, 1024, 1025, if cfg!(miri) { 4096 } else { 5 << 20 }] {
            let mut table = Table::filled(length, 7);
            assert!(table.len() == length && table.iter().all(|&entry| entry == 7));
            if let Some(last) = table.last_mut() {
                *last = 9;
            }
            let copy = table.clone();
            assert_eq!(*copy, *table);
            copy.prefetch(length);
            copy.prefetch_all(&[0, 1]);
            copy.prefetch_all(&[0, length as u32 / 2]);
        }
    }
}
