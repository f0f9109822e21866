// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests one incremental network on several threads: every answer must be the plain network's for a history that
//! existed during the call.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use linnet_core::{IncrementalNetwork, Layer, Network, Precompute, Tracker};
use linnet_sim::Chance;
use linnet_types::Op;

/// Completions of one run: the minimum, and the maximum if a busy machine delays the readers.
const HISTORIES: u64 = 20_000;
const HISTORIES_MAX: u64 = 20_000_000;
/// Calls that a pre-emption stretched over more histories prove little and are expensive to check.
const STRETCH: u64 = 16;
/// Answers that a run needs.
const ANSWERS: u64 = 20_000;

fn network(chance: &mut Chance, shape: &[usize], largest: u64) -> Network {
    let mut layers: Vec<Layer> = shape
        .windows(2)
        .map(|pair| {
            let mut number = || chance.below(2 * largest + 1) as i64 - largest as i64;
            let weights = (0..pair[0] * pair[1]).map(|_| number()).collect();
            Layer { inputs: pair[0], outputs: pair[1], weights, biases: (0..pair[1]).map(|_| number()).collect() }
        })
        .collect();
    let scales = vec![1; layers.len()];
    // Balance the logits, so that about half of the answers revoke.
    let network = Network::from_integers(layers.clone(), scales.clone()).unwrap();
    let mut scores: Vec<i64> = (0..101).map(|k| network.score(&after(4 + k).digits(k as u32 % 30))).collect();
    scores.sort_unstable();
    layers.last_mut().unwrap().biases[0] += scores[50];
    Network::from_integers(layers, scales).unwrap()
}

/// The latency and snapshot of the completion with this number; the same for every call.
fn entry(number: u64) -> (u64, u32) {
    let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (bits >> 32 & 0xff_ffff, (bits & 0xff) as u32)
}

/// The tracker after this many completions.
fn after(completions: u64) -> Tracker {
    let mut tracker = Tracker::new();
    for number in completions.saturating_sub(4)..completions {
        let (latency_ns, snapshot) = entry(number);
        tracker.complete(Op::Read, 0, latency_ns, snapshot);
    }
    tracker
}

struct Answer {
    /// Completions that had ended before the call, and that had begun when it returned.
    from: u64,
    to: u64,
    snapshot: u32,
    score: Option<i64>,
    revoke: bool,
}

fn run(network: &Network) {
    let net = IncrementalNetwork::new(network).unwrap();
    let (begun, over, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (answers, answered) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (net, begun, over, stop) = (&net, &begun, &over, &stop);
            let (answers, answered) = (&answers, &answered);
            scope.spawn(move || {
                let mut chance = Chance::new(thread);
                let mut mine: Vec<Answer> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let from = over.load(Ordering::SeqCst);
                    let size = 4_096 * (1 + chance.below(3) as u32);
                    // Few different counts, so that cached decisions are used; sometimes other hundreds.
                    let snapshot = net.arrive(size) % 30 + if chance.happens(0.1) { 200 } else { 0 };
                    let (mut revoke, mut score) = (false, None);
                    match chance.below(4) {
                        0 => score = Some(net.score(snapshot)),
                        _ => revoke = net.decide(snapshot),
                    }
                    net.withdraw(size);
                    let to = begun.load(Ordering::SeqCst);
                    // Keep some per history, limited by memory.
                    let fresh = mine.len() < 4 || mine[mine.len() - 4].from < from;
                    if fresh && to - from < STRETCH && mine.len() < 200_000 {
                        mine.push(Answer { from, to, snapshot, score, revoke });
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
                answers.lock().unwrap().extend(mine);
            });
        }
        // Two threads complete reads; the incremental network serialises the completions, and the lock only numbers
        // them.
        let number = Mutex::new(0);
        std::thread::scope(|completing| {
            for _ in 0..2 {
                completing.spawn(|| {
                    loop {
                        let mut number = number.lock().unwrap();
                        let enough = *number >= HISTORIES && answered.load(Ordering::Relaxed) >= ANSWERS;
                        if enough || *number == HISTORIES_MAX {
                            break;
                        }
                        // The readers are behind: on a busy machine they need the CPU more.
                        if *number >= HISTORIES && number.is_multiple_of(256) {
                            std::thread::yield_now();
                        }
                        let (latency_ns, snapshot) = entry(*number);
                        *number += 1;
                        begun.store(*number, Ordering::SeqCst);
                        net.note_read(0, latency_ns, snapshot);
                        net.catch_up(net.pending_pages());
                        over.store(*number, Ordering::SeqCst);
                    }
                });
            }
        });
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(net.pending_pages(), 0, "an arrival or a departure was lost");
    assert_eq!(net.tracker(), after(over.into_inner()));

    let answers = answers.into_inner().unwrap();
    let mut told = HashMap::new();
    let mut score_of = |completions: u64, snapshot: u32| {
        *told.entry((completions, snapshot)).or_insert_with(|| network.score(&after(completions).digits(snapshot)))
    };
    let (mut checked, mut revoked) = (0, 0u64);
    for answer in &answers {
        let right = (answer.from..=answer.to).any(|completions| match answer.score {
            Some(score) => score == score_of(completions, answer.snapshot),
            None => answer.revoke == (score_of(completions, answer.snapshot) > 0),
        });
        assert!(right, "histories {}..={} and snapshot {}", answer.from, answer.to, answer.snapshot);
        checked += 1;
        revoked += u64::from(answer.revoke);
    }
    assert!(
        checked >= ANSWERS && revoked > ANSWERS / 100,
        "{checked} checked, {revoked} revoked: too few to prove anything"
    );
}

#[test]
fn answers_are_those_of_a_history_that_existed() {
    let mut chance = Chance::new(11);
    for (shape, precompute) in [
        (&[31, 256, 2][..], Precompute::Pruned),
        (&[31, 40, 12, 2], Precompute::First),
        (&[31, 8, 2], Precompute::Plain),
    ] {
        let network = network(&mut chance, shape, 150);
        assert_eq!(IncrementalNetwork::new(&network).unwrap().precompute(), precompute);
        run(&network);
    }
}
