// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures nanoseconds per decision of a 31-256-2 network with warm caches: the median of blocks of 64 decisions over
//! a ring of 4,096 inputs, which are uniform digits or the digits of a device with few slow reads. Also the tracker's
//! cost per I/O.

use std::hint::black_box;
use std::time::Instant;

use linnet_core::{DIGITS, Layer, Network, Tracker};
use linnet_sim::Chance;
use linnet_types::Op;

fn network(chance: &mut Chance) -> Network {
    let mut layer = |inputs: usize, outputs: usize| Layer {
        inputs,
        outputs,
        weights: (0..inputs * outputs).map(|_| (chance.normal() * 80.0) as i64).collect(),
        biases: (0..outputs).map(|_| (chance.normal() * 30.0) as i64).collect(),
    };
    let layers = vec![layer(31, 256), layer(256, 2)];
    Network::from_integers(layers, vec![1_000, 1_000_000]).expect("small weights")
}

/// Pages 1 to 64; 92 % of latencies 60 to 400 microseconds, the others 1 to 10 milliseconds.
fn quiet(chance: &mut Chance) -> [u8; DIGITS] {
    let mut tracker = Tracker::new();
    for _ in 0..4 {
        let slow = chance.happens(0.08);
        let us = if slow { 1_000 + chance.below(9_000) } else { 60 + chance.below(340) };
        tracker.complete(Op::Read, 4096, us * 1_000, 1 + chance.below(64) as u32);
    }
    tracker.digits(1 + chance.below(64) as u32)
}

fn median_ns(mut call: impl FnMut(usize)) -> f64 {
    let mut blocks: Vec<u128> = (0..4_001)
        .map(|block| {
            let start = Instant::now();
            for i in 0..64 {
                call(block * 64 + i);
            }
            start.elapsed().as_nanos()
        })
        .collect();
    blocks.sort_unstable();
    blocks[blocks.len() / 2] as f64 / 64.0
}

fn main() {
    let mut chance = Chance::new(1);
    let network = network(&mut chance);
    let uniform: Vec<[u8; DIGITS]> = (0..4_096).map(|_| std::array::from_fn(|_| chance.below(10) as u8)).collect();
    let realistic: Vec<[u8; DIGITS]> = (0..4_096).map(|_| quiet(&mut chance)).collect();
    for (name, ring) in [("uniform digits", &uniform), ("quiet device", &realistic)] {
        let mut revokes = 0u32;
        let ns = median_ns(|i| revokes += u32::from(network.decide(black_box(&ring[i % 4_096]))));
        println!("decide, {name}: {ns:.0} ns (revokes {revokes})");
    }
    let mut tracker = Tracker::new();
    let ns = median_ns(|i| {
        let snapshot = tracker.arrive(4096 + (i as u32 & 7) * 512);
        black_box(tracker.digits(snapshot));
        tracker.complete(Op::Read, 4096 + (i as u32 & 7) * 512, 100_000 + i as u64, snapshot);
    });
    println!("tracker, arrive + digits + complete: {ns:.0} ns");
}
