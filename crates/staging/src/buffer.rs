// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for direct I/O.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use linnet_sim::Chance;

/// Alignment that direct I/O asks of memory: a page serves every device.
const ALIGN: usize = 4096;

/// Aligned bytes on the heap. The kernel reads and writes them while I/Os run; we look at none of them then.
pub struct Buffer {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to the buffer alone, and `at` is given out as a raw pointer only.
unsafe impl Send for Buffer {}
// SAFETY: nothing is read or written through a shared reference.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Zeros.
    pub fn new(size: usize) -> Buffer {
        let layout = Layout::from_size_align(size.max(1), ALIGN).expect("a size of memory");
        // SAFETY: the layout has a size above 0.
        let at = unsafe { alloc_zeroed(layout) };
        Buffer { at: NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }

    /// Bytes that no drive compresses, which differ from page to page.
    pub fn noise(size: usize) -> Buffer {
        let mut buffer = Buffer::new(size);
        let mut chance = Chance::new(0);
        for word in buffer.bytes().chunks_exact_mut(8) {
            word.copy_from_slice(&chance.bits().to_ne_bytes());
        }
        buffer
    }

    /// For the kernel.
    pub fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// While no I/O runs.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: so many bytes were allocated and set, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at.as_ptr(), self.layout) }
    }
}
