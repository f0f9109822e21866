// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that training and serving see the same features: the digits that a policy gets for each read equal those in a
//! training set made from the log of the same run.

use std::sync::{Arc, Mutex};

use linnet_array::{Ask, Choice, Config, Playback, Policy, RunOptions, Submit, WriteMode, run};
use linnet_core::Budget;
use linnet_learn::TrainingSet;
use linnet_sim::{Chance, Modelled, TestDevice};
use linnet_types::{IoRecord, Nanos, Op, Thresholds};

const DEVICES: usize = 3;

/// A policy that chooses replicas at random and records the features of the chosen one.
struct Notes(Arc<Mutex<Vec<Vec<u8>>>>);

impl Policy for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let device = ask.candidates().nth(chance.below(ask.count() as u64) as usize).expect("below the count");
        let mut tracker = ask.devices[device].tracker();
        if tracker.history_len() == 4 {
            let snapshot = tracker.arrive(ask.request.size_bytes);
            self.0.lock().expect("one thread")[device].extend(tracker.digits(snapshot));
        }
        Choice::Submit(Submit::to(device))
    }
}

fn stream(seed: u64) -> Vec<IoRecord> {
    let mut chance = Chance::new(seed);
    let mut arrive_ns = 0;
    let record = |_| {
        // Steps of 10 us, so that arrivals and completions often have the same time.
        arrive_ns += 10_000 * chance.below(8) as Nanos;
        let (offset_bytes, size_bytes) = (chance.below(1 << 20) * 4096, 4096 * (1 + chance.below(9) as u32));
        let op = if chance.happens(0.7) { Op::Read } else { Op::Write };
        IoRecord::new(arrive_ns, op, offset_bytes, size_bytes)
    };
    (0..3_000).map(record).collect()
}

#[test]
fn served_features_are_the_trained_ones() {
    let streams: Vec<Vec<IoRecord>> = (0..DEVICES as u64).map(stream).collect();
    let streams: Vec<&[IoRecord]> = streams.iter().map(Vec::as_slice).collect();
    let mut devices: Vec<_> =
        (0..DEVICES as u64).map(|seed| Modelled::new(TestDevice::busy(5_000_000, 0.4, seed))).collect();
    let notes = Arc::new(Mutex::new(vec![Vec::new(); DEVICES]));
    let options =
        RunOptions { array: Config { write_mode: WriteMode::All, ..Config::default() }, playback: Playback::LOGGED };
    let thresholds = [Thresholds::default(); DEVICES];
    let policy = Box::new(Notes(notes.clone()));
    let result = run(&mut devices, &streams, &thresholds, policy, &options, &mut ()).expect("the run succeeds");
    for (device, (log, served)) in result.log.iter().zip(notes.lock().expect("one thread").iter()).enumerate() {
        let trained = TrainingSet::from_records(log, 200_000).expect("reads with latencies");
        assert!(trained.len() > 1_500 && trained.slow.iter().any(|&slow| slow));
        assert!(trained.digits == *served, "device {device}: training and serving differ");
    }
}
