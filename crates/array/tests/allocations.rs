// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the array allocates nothing under a steady load.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use linnet_array::{Array, Config, CopyId, DeviceModel, Output, POLICIES, policy};
use linnet_types::{Op, Request, Thresholds};

thread_local! {
    /// Allocations of this thread: the test harness allocates on its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the rules of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One request every 10 us; each copy completes 100 us after its submit; timers expire on time. Returns the answers.
fn load(array: &mut Array, from: u64, to: u64, flying: &mut Vec<(u64, CopyId)>, out: &mut Vec<Output>) -> usize {
    let (mut timers, mut answers) = (Vec::with_capacity(1024), 0);
    for tag in from..to {
        let now = tag * 10_000;
        for _ in 0..flying.iter().filter(|(done, _)| *done <= now).count() {
            let (done, copy) = flying.remove(0);
            array.completed(done, copy, out);
        }
        timers.retain(|&(at, timer)| {
            if at <= now {
                array.timer(now, timer, &(), out);
            }
            at > now
        });
        let op = if tag % 5 == 0 { Op::Write } else { Op::Read };
        let request = Request::new(op, tag << 12, 4096);
        array.arrive(now, tag, tag as usize, &request, &(), out);
        for output in out.drain(..) {
            match output {
                Output::Submit { copy, .. } => flying.push((now + 100_000, copy)),
                Output::SetTimer { at_ns, timer } => timers.push((at_ns, timer)),
                Output::Complete { .. } => answers += 1,
                _ => {}
            }
        }
    }
    answers
}

#[test]
fn a_steady_load_allocates_nothing() {
    let thresholds =
        Thresholds { inflection_ns: 90_000, hedge_ns: 50_000, latency_ns_p95: 60_000, ..Default::default() };
    let learned = vec![DeviceModel { thresholds, ..DeviceModel::default() }; 3];
    for name in POLICIES {
        let policy = policy(name, &learned, &Config::default()).expect("known");
        let mut array = Array::new(Config::default(), &[thresholds; 3], policy).expect("default settings");
        let (mut flying, mut out) = (Vec::with_capacity(1024), Vec::with_capacity(1024));
        let answers = load(&mut array, 0, 5_000, &mut flying, &mut out);
        let before = ALLOCATIONS.get();
        let answers = answers + load(&mut array, 5_000, 20_000, &mut flying, &mut out);
        // The one allocation is that of the list of timers in this test.
        assert_eq!(ALLOCATIONS.get() - before, 1, "{name}");
        assert_eq!(array.counters().reads, 16_000, "{name}");
        assert!((19_900..=20_000).contains(&answers), "{name}: {answers} answers, each request has one");
    }
}
