// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the latency tail of the presets under a simple bursty load.

use linnet_sim::Chance;
use linnet_ssd::{Mechanism, PRESETS, Params, Source, Ssd};
use linnet_types::{Nanos, Op, Request};

struct Tail {
    /// Share of reads slower than twice the idle latency, and the device-wide share of these in the statistics.
    slow: f64,
    realised: f64,
    p50: Nanos,
    p99: Nanos,
}

/// Single-page reads and 32 KiB writes at random offsets, one second in six at five times the rate.
fn run(params: &Params, seconds: f64, requests_per_s: f64) -> Tail {
    let mut ssd = Ssd::new(params, 2).unwrap();
    ssd.precondition();
    let mut chance = Chance::new(8);
    let mut now = 0.0;
    let mut latencies = Vec::new();
    let mut slow = 0u64;
    while now < seconds * 1e9 {
        let burst = if ((now / 1e9) as u64).is_multiple_of(6) { 3.0 } else { 0.6 };
        now += chance.exponential(1e9 / (requests_per_s * burst));
        let op = if chance.happens(0.4) { Op::Read } else { Op::Write };
        let size_bytes = if op.is_read() { 4096 } else { 32768 };
        let offset_bytes = chance.below(ssd.capacity_bytes() / 4096) * 4096;
        let (at, cause) = ssd.submit_explained(now as Nanos, &Request::new(op, offset_bytes, size_bytes));
        if op.is_read() {
            let latency = at - now as Nanos;
            latencies.push(latency);
            if latency > 2 * ssd.unloaded_read_ns(4096) {
                slow += 1;
                assert!(cause.total_ns() * 2 >= latency, "half of a slow read is waiting, and all waiting has a cause");
            }
        }
    }
    latencies.sort_unstable();
    let stats = ssd.stats();
    assert_eq!(stats.slow_reads.total(), slow);
    Tail {
        slow: slow as f64 / latencies.len() as f64,
        realised: stats.slow_reads.device_wide_share().unwrap(),
        p50: latencies[latencies.len() / 2],
        p99: latencies[latencies.len() * 99 / 100],
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn presets_have_a_knee_and_mostly_device_wide_tails() {
    for (name, rate) in [("consumer-deep", 400.0), ("enterprise-wide", 5_000.0), ("sata", 400.0)] {
        let tail = run(&Params::preset(name).unwrap(), 60.0, rate);
        assert!((0.02..0.25).contains(&tail.slow), "{name}: {:.3} of reads are slow", tail.slow);
        assert!((0.7..0.98).contains(&tail.realised), "{name}: realised share {:.2}", tail.realised);
        assert!((60_000..300_000).contains(&tail.p50), "{name}: median {} ns", tail.p50);
        assert!(tail.p99 > 3 * tail.p50, "{name}: p99 {} ns, median {} ns", tail.p99, tail.p50);
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn the_share_parameter_is_realised() {
    // Paced collection is always done die by die.
    for name in PRESETS.iter().filter(|name| !Params::preset(name).unwrap().gc_paced) {
        let shares = [0.0, 0.5, 1.0];
        let realised = shares.map(|device_wide_share| {
            run(&Params { device_wide_share, ..Params::preset(name).unwrap() }, 18.0, 2_000.0).realised
        });
        assert!(realised[0] < 0.05, "{name}: {realised:?}");
        assert!((0.2..0.8).contains(&realised[1]), "{name}: {realised:?}");
        assert!(realised[2] > 0.9, "{name}: {realised:?}");
    }
}

#[test]
fn every_mechanism_has_one_source_and_name() {
    let mut names: Vec<&str> = Mechanism::ALL.iter().map(|m| m.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Mechanism::ALL.len());
    for (number, mechanism) in Mechanism::ALL.into_iter().enumerate() {
        assert_eq!(mechanism as usize, number);
        assert_eq!(mechanism.source() == Source::DeviceWide, mechanism.name().ends_with("-wide"));
    }
}

/// A snapshot is a clone, which can be moved between threads.
#[test]
fn a_clone_answers_as_its_original() {
    let mut ssd = Ssd::new(&Params::preset("sata").unwrap(), 1).unwrap();
    ssd.precondition();
    let mut copy = ssd.clone();
    let ask = |ssd: &mut Ssd| {
        (0..2_000u64)
            .map(|n| {
                let op = if n % 3 == 0 { Op::Read } else { Op::Write };
                let request = Request::new(op, n * 1_234_567, 8192);
                ssd.submit_explained(n * 100_000, &request)
            })
            .collect::<Vec<_>>()
    };
    let there = std::thread::spawn(move || ask(&mut copy)).join().unwrap();
    assert_eq!(ask(&mut ssd), there);
}
