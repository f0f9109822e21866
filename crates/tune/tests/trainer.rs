// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the trainer's thread: it learns the same as without a thread, counts every row, sleeps, and stays on its CPU.

use std::fs;
use std::time::{Duration, Instant};

use linnet_core::{Activation, Loss, Normaliser, SmallNetwork, StepOptions};
use linnet_tune::trainer::{Learned, TrainerOptions, start};

fn options() -> TrainerOptions {
    TrainerOptions {
        capacity: 1024,
        share_ppm: 1_000_000,
        seed: 1,
        step: StepOptions { loss: Loss::SoftmaxCrossEntropy, learning_rate: 0.05, momentum: 0.5 },
        publish_rows: 100,
        cpu: None,
    }
}

fn model() -> Learned {
    let layers = [(8, Activation::Sigmoid), (3, Activation::Linear)];
    Learned { normaliser: Normaliser::new(3, 0).unwrap(), network: SmallNetwork::new(3, &layers, 2).unwrap(), rows: 0 }
}

fn row(n: u32) -> ([f32; 3], usize) {
    let row = [(n % 7) as f32, (n * 31 % 11) as f32, (n * 17 % 5) as f32];
    (row, usize::from(row[0] > 3.0) + usize::from(row[1] > 5.0))
}

/// The threads with the trainer's name in this process, once there are so many: the kernel may list one for a while
/// after it was joined. Tests run in parallel, so only one test may call this.
fn tasks(count: usize) -> Vec<std::path::PathBuf> {
    let begun = Instant::now();
    loop {
        let tasks = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
        let found: Vec<_> = tasks
            .filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "linnet-trainer"))
            .collect();
        if found.len() == count {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{found:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All in one test: the thread of a second trainer in a parallel test would have the same name.
#[test]
fn a_trainer() {
    // It learns the same as a loop without a thread, to the bit.
    let mut expected = model();
    let (trainer, mut offer) = start(&options(), model()).unwrap();
    for n in 0..2_000 {
        let (row, class) = row(n);
        while !offer.put(&row, class) {
            std::thread::yield_now();
        }
        let mut z = [0.0; 3];
        expected.normaliser.learn(&row).unwrap();
        expected.normaliser.apply(&row, &mut z).unwrap();
        expected.network.train_class(&options().step, &z, class).unwrap();
        expected.rows += 1;
    }
    let learned = trainer.finish();
    assert_eq!(*learned, expected);
    assert_eq!(offer.counts().learned, 2_000);
    let right = (0..77).filter(|&n| {
        let (row, class) = row(n);
        let mut z = [0.0; 3];
        learned.normaliser.apply(&row, &mut z).unwrap();
        learned.network.classify(&z).unwrap().0 == class
    });
    assert!(right.count() > 70);

    // It wakes, publishes its model when no row waits, and counts refused, lost and left-out rows.
    let (trainer, mut offer) = start(&TrainerOptions { share_ppm: 500_000, ..options() }, model()).unwrap();
    for n in 0..50_000 {
        let (row, class) = row(n);
        offer.put(&row, class);
    }
    offer.put(&[f32::NAN; 3], 0);
    offer.put(&[f32::NAN; 3], 0);
    offer.put(&[f32::NAN; 3], 0);
    let begun = Instant::now();
    let done = |offer: &linnet_tune::trainer::Offer| {
        let counts = offer.counts();
        counts.learned + counts.refused == counts.accepted
    };
    while !done(&offer) || trainer.model().rows != offer.counts().learned {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", offer.counts());
        std::thread::sleep(Duration::from_millis(1));
    }
    let counts = offer.counts();
    assert_eq!(counts.accepted + counts.left_out + counts.lost, 50_003);
    assert!((24_000..26_000).contains(&counts.left_out), "{counts:?}");

    // It sleeps while there is nothing to do, on its assigned CPU.
    drop(trainer);
    tasks(0);
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let cpu: usize = allowed.split([',', '-']).next().unwrap().parse().unwrap();
    let (trainer, mut offer) = start(&TrainerOptions { cpu: Some(cpu), ..options() }, model()).unwrap();
    let task = tasks(1).remove(0);
    let status = fs::read_to_string(task.join("status")).unwrap();
    assert!(status.lines().any(|line| line == format!("Cpus_allowed_list:\t{cpu}")), "{status}");
    let busy_ns = || {
        let schedstat = fs::read_to_string(task.join("schedstat")).unwrap();
        schedstat.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    // The best of some periods: where the machine has too much to do, the little that it does may take long.
    let mut periods = (0..5).map(|_| {
        let before = busy_ns();
        std::thread::sleep(Duration::from_millis(1_500));
        busy_ns() - before
    });
    assert!(periods.any(|ns| ns < 15_000_000), "{} ns of CPU in 7.5 s without rows", busy_ns());
    offer.put(&row(1).0, row(1).1);
    assert_eq!(trainer.finish().rows, 1);

    // Invalid options are refused before a thread runs.
    assert!(start(&TrainerOptions { capacity: 3, ..options() }, model()).is_err());
    assert!(start(&TrainerOptions { share_ppm: 2_000_000, ..options() }, model()).is_err());
    assert!(start(&TrainerOptions { cpu: Some(5_000), ..options() }, model()).is_err());
    let square = StepOptions { loss: Loss::BinaryCrossEntropy, ..options().step };
    assert!(start(&TrainerOptions { step: square, ..options() }, model()).is_err());
}
