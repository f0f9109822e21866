// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits one decision over two threads (LinnOS, section 4.5): each computes half of the hidden layer; the second one
//! spins while it waits.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use linnet_core::raw::network_with_set;
use linnet_core::{DIGITS, Error, Layer, Network};

use super::{Build, INPUTS, Options, Plain, RING, hot, ring};

/// Figures of one and two threads on the same decisions.
#[derive(Clone, Debug)]
pub struct ThreadRow {
    /// `plain` for the int64 loop, `exact` for the core's plain network.
    pub path: &'static str,
    /// Flags and loops.
    pub build: &'static str,
    /// Inputs.
    pub inputs: &'static str,
    /// Median of one thread with the whole layer.
    pub ns_one: f64,
    /// Median of two threads with half of it each.
    pub ns_two: f64,
    /// Median of a handover without work.
    pub ns_handover: f64,
}

/// A separate cache line for a value that one thread writes and the other awaits.
#[repr(align(128))]
struct Apart(AtomicU64);

/// Runs `call` blocks of times while a helper thread runs `help`; waits for the helper each time.
fn together(blocks: usize, help: impl Fn(usize) + Sync, call: impl Fn(usize)) -> f64 {
    let (asked, done, stop) = (Apart(AtomicU64::new(0)), Apart(AtomicU64::new(0)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 1;
            while !stop.load(Ordering::Relaxed) {
                if asked.0.load(Ordering::Acquire) < next {
                    spin_loop();
                    continue;
                }
                help(next as usize);
                done.0.store(next, Ordering::Release);
                next += 1;
            }
        });
        let mut turn = 0;
        let (median, _) = hot(
            blocks,
            |_| {},
            |_| {
                turn += 1;
                asked.0.store(turn, Ordering::Release);
                call(turn as usize);
                while done.0.load(Ordering::Acquire) < turn {
                    spin_loop();
                }
            },
        );
        stop.store(true, Ordering::Relaxed);
        median
    })
}

/// The network with the outputs `from..to` of its first layer only; the second half omits the last biases.
fn part(network: &Network, from: usize, to: usize, build: Build) -> Result<Network, Error> {
    let layers = network.layers();
    let [first, last] = &layers[..] else { return Err(Error::Shape("two layers can be parted".into())) };
    let columns = |row: &[i64]| row[from..to].to_vec();
    let parted = vec![
        Layer {
            inputs: first.inputs,
            outputs: to - from,
            weights: first.weights[from * first.inputs..to * first.inputs].to_vec(),
            biases: columns(&first.biases),
        },
        Layer {
            inputs: to - from,
            outputs: last.outputs,
            weights: last.weights.chunks(last.inputs).flat_map(columns).collect(),
            biases: if from == 0 { last.biases.clone() } else { vec![0; last.outputs] },
        },
    ];
    network_with_set(parted, network.scales().to_vec(), network.input_max(), build.set())
}

/// Compares one with two threads, for the LinnOS network. Pin the process to two cores, or leave them free.
pub fn two_threads(options: &Options) -> Result<Vec<ThreadRow>, Error> {
    let network = super::stream::untrained(256, options.seed)?;
    let mut rows = Vec::new();
    let ns_handover = together(options.blocks, |_| {}, |_| {});
    for build in Build::available().into_iter().filter(|&build| build != Build::KernelFlags) {
        for inputs in INPUTS {
            let ring = ring(inputs, options.seed);
            let digits: Vec<[u8; DIGITS]> = ring.iter().map(|row| std::array::from_fn(|i| row[i] as u8)).collect();
            let [whole, low, high] = [(0, 256), (0, 128), (128, 256)].map(|(a, b)| part(&network, a, b, build));
            let (whole, low, high) = (whole?, low?, high?);
            let score = |network: &Network, i: usize| {
                black_box(network.score(black_box(&digits[i % RING])));
            };
            rows.push(ThreadRow {
                path: "exact",
                build: build.name(),
                inputs,
                ns_one: hot(options.blocks, |_| {}, |i| score(&whole, i)).0,
                ns_two: together(options.blocks, |i| score(&high, i), |i| score(&low, i)),
                ns_handover,
            });
            let [whole, low, high] = [&whole, &low, &high].map(|network| Plain::new(network, build));
            let decide = |plain: &Plain, i: usize| {
                black_box(plain.decide(black_box(&ring[i % RING])));
            };
            rows.push(ThreadRow {
                path: "plain",
                build: build.name(),
                inputs,
                ns_one: hot(options.blocks, |_| {}, |i| decide(&whole, i)).0,
                ns_two: together(options.blocks, |i| decide(&high, i), |i| decide(&low, i)),
                ns_handover,
            });
        }
    }
    Ok(rows)
}
