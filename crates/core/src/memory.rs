// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for the C core, with the alignment that it requires.

use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

/// Zeroed heap memory of at least `size` bytes, aligned to 64.
pub struct Memory(Vec<Line>);

impl Memory {
    /// Zeros.
    pub fn new(size: usize) -> Memory {
        Memory(vec![Line([0; 64]); size.div_ceil(64)])
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.0.len() * 64
    }

    /// Pointer to the first byte.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// Scratch up to this size is on the stack: that of 31-256-2 needs 3 KiB.
const STACK: usize = 4096;

thread_local! {
    static HEAP: RefCell<Memory> = RefCell::new(Memory::new(0));
}

/// Runs `work` with scratch of `size` bytes, whose content is undefined. `work` must not call this function.
pub fn with_scratch<T>(size: usize, work: impl FnOnce(*mut c_void) -> T) -> T {
    if size <= STACK {
        let mut stack = MaybeUninit::<[Line; STACK / 64]>::uninit();
        return work(stack.as_mut_ptr().cast());
    }
    HEAP.with_borrow_mut(|heap| {
        if heap.size() < size {
            *heap = Memory::new(size);
        }
        work(heap.as_mut_ptr())
    })
}
