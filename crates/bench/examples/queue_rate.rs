// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures one push and one pop of the event queue, with several numbers of waiting events.
//! `cargo run --release -p linnet-bench --example queue_rate`

use linnet_sim::{Chance, EventQueue};
use std::time::Instant;

fn main() {
    for waiting in [16u64, 64, 256, 1024, 16_384] {
        let mut chance = Chance::new(1);
        let mut queue = EventQueue::new();
        for i in 0..waiting {
            queue.push(chance.below(1_000_000), i);
        }
        let rounds = 5_000_000u64;
        let start = Instant::now();
        let mut sum = 0;
        for _ in 0..rounds {
            let (now, event) = queue.pop().expect("the queue is kept full");
            sum ^= event;
            queue.push(now + chance.below(1_000_000), event);
        }
        let each = start.elapsed().as_nanos() as f64 / rounds as f64;
        println!("{waiting:>6} waiting: {each:6.1} ns per push and pop (check {sum})");
    }
}
