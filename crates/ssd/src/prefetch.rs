// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hint to the processor that an entry of a large table will be wanted soon. The maps of a 64 GiB device take 130 MB, so that
//! each look-up misses the caches; with a hint some requests ahead, the misses overlap.

/// Asks for the cache line of an entry. Out of range, or where there is no such instruction, it does nothing.
#[inline(always)]
pub(crate) fn prefetch<T>(table: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(entry) = table.get(at) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint reads and writes nothing, and the address is that of an entry. SSE, which brings it, is part of x86_64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, at);
}
