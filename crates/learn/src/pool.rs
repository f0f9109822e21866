// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads for work on all CPUs. They belong to one process: after a fork the child has none of them, and would
//! wait for them without end, so it makes its own.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// A pool and the process that made it.
struct Pool {
    process: u32,
    threads: ThreadPool,
}

/// The pool of this process, or of the one that it was forked from. It is never freed, and no lock guards it: a lock
/// that another thread holds during a fork stays locked in the child.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// Runs work on the threads of this process.
pub fn on_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let process = std::process::id();
    let known = POOL.load(Ordering::Acquire);
    // SAFETY: the pointer is null or comes from Box::leak below, and what it points to is never freed or changed.
    let known = unsafe { known.as_ref() };
    let pool = match known {
        Some(pool) if pool.process == process => pool,
        _ => match ThreadPoolBuilder::new().thread_name(|n| format!("linnet-{n}")).build() {
            Ok(threads) => {
                let made = Box::leak(Box::new(Pool { process, threads }));
                // Two threads may both make one; the second stands, and the first keeps its few idle threads.
                POOL.store(ptr::from_mut(made), Ordering::Release);
                made
            }
            // No thread can be made: the work runs here.
            Err(_) => return work(),
        },
    };
    pool.threads.install(work)
}
