// SPDX-License-Identifier: MIT OR Apache-2.0
//! A synthetic load on one device, and the networks that are trained and measured on it.
//!
//! Reads and writes arrive in small bursts. A read takes 60 to 400 microseconds. Every quarter of a second there is an
//! episode of 20 milliseconds in which most reads take 1 to 10 milliseconds. 8 % of the reads are slow, and the history
//! predicts them.

use linnet_core::{DIGITS, Error, Layer, Network, Tracker, TrainOptions, train};
use linnet_types::{Nanos, Op};

/// Bits of splitmix64.
pub struct Chance(pub u64);

impl Chance {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..n.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The next event on the device.
pub enum Event {
    Arrive { op: Op, size_bytes: u32, latency_ns: Nanos },
    Complete { id: usize, op: Op, size_bytes: u32, latency_ns: Nanos },
}

/// The endless events of one device.
pub struct Stream {
    chance: Chance,
    now_ns: Nanos,
    burst_left: u64,
    arrival_ns: Nanos,
    next_id: usize,
    /// I/Os are numbered as they arrive. (time of completion, id, op, size, latency), earliest last.
    in_flight: Vec<(Nanos, usize, Op, u32, Nanos)>,
}

const EPISODE_EVERY_NS: Nanos = 250_000_000;
const EPISODE_NS: Nanos = 20_000_000;
/// Mean gap between bursts.
const GAP_NS: Nanos = 600_000;

impl Stream {
    pub fn new(seed: u64) -> Stream {
        let mut chance = Chance(seed);
        let now_ns = chance.below(EPISODE_EVERY_NS);
        Stream { chance, now_ns, burst_left: 0, arrival_ns: now_ns, next_id: 0, in_flight: Vec::new() }
    }

    /// Time of the last event.
    pub fn now_ns(&self) -> Nanos {
        self.now_ns
    }

    /// I/Os that have arrived.
    pub fn arrived(&self) -> usize {
        self.next_id
    }

    pub fn next(&mut self) -> Event {
        if let Some(&(at, id, op, size_bytes, latency_ns)) = self.in_flight.last()
            && at <= self.arrival_ns
        {
            self.in_flight.pop();
            self.now_ns = at;
            return Event::Complete { id, op, size_bytes, latency_ns };
        }
        self.now_ns = self.arrival_ns;
        let chance = &mut self.chance;
        let op = if chance.happens(75) { Op::Read } else { Op::Write };
        let size_bytes = [4_096, 4_096, 4_096, 4_096, 8_192, 8_192, 16_384, 65_536][chance.below(8) as usize];
        let slow = self.now_ns % EPISODE_EVERY_NS < EPISODE_NS && chance.happens(85);
        let us = if slow { 1_000 + chance.below(9_000) } else { 60 + chance.below(340) };
        let latency_ns = 1_000 * us + chance.below(1_000);
        if self.burst_left == 0 {
            self.burst_left = 1 + chance.below(8);
            self.arrival_ns += chance.below(2 * GAP_NS);
        } else {
            self.arrival_ns += chance.below(20_000);
        }
        self.burst_left -= 1;
        let id = self.next_id;
        self.next_id += 1;
        let at = self.now_ns + latency_ns;
        let place = self.in_flight.partition_point(|entry| entry.0 > at);
        self.in_flight.insert(place, (at, id, op, size_bytes, latency_ns));
        Event::Arrive { op, size_bytes, latency_ns }
    }
}

/// Reads of such a stream as rows of digits, with their labels: slow from a millisecond up.
fn rows(seed: u64, count: usize) -> (Vec<u8>, Vec<bool>) {
    let (mut stream, mut tracker) = (Stream::new(seed), Tracker::new());
    let (mut rows, mut slow, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    while slow.len() < count {
        match stream.next() {
            Event::Arrive { op, size_bytes, latency_ns } => {
                let snapshot = tracker.arrive(size_bytes);
                snapshots.push(snapshot);
                if op == Op::Read && tracker.history_len() == 4 {
                    rows.extend(tracker.digits(snapshot));
                    slow.push(latency_ns >= 1_000_000);
                }
            }
            Event::Complete { id, op, size_bytes, latency_ns } => {
                tracker.complete(op, size_bytes, latency_ns, snapshots[id]);
            }
        }
    }
    (rows, slow)
}

/// A network of these hidden layers, trained on such a stream.
pub fn trained(hidden: &[usize], seed: u64) -> Result<Network, Error> {
    let (rows, slow) = rows(seed, 60_000);
    let options = TrainOptions { hidden: hidden.to_vec(), epochs: 3, seed, ..Default::default() };
    train(&options, &rows, &slow, &mut |_, _| true)?.quantise(3)
}

/// An untrained network: its weights are equally distributed everywhere, so that no output is settled because it is
/// unused.
pub fn untrained(hidden: usize, seed: u64) -> Result<Network, Error> {
    let mut chance = Chance(seed);
    let mut layer = |inputs: usize, outputs: usize| Layer {
        inputs,
        outputs,
        weights: (0..inputs * outputs).map(|_| chance.below(281) as i64 - 140).collect(),
        biases: vec![0; outputs],
    };
    Network::from_integers(vec![layer(DIGITS, hidden), layer(hidden, 2)], vec![1_000, 1_000_000])
}
