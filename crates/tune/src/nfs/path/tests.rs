// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::mounts::Dev;

const SCAN: FileId = FileId { dev: Dev { major: 0, minor: 50 }, inode: 1 };
const OTHER: FileId = FileId { inode: 2, ..SCAN };

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A link: a scan gets value / latency, at most `most` bytes per second.
fn rpcs(kib: u32, latency: f64, most: f64, seconds: f64) -> Rpcs {
    let rate = (f64::from(kib) * 1024.0 / latency).min(most);
    let bytes = (rate * seconds) as u64;
    let reads = bytes / 131_072 + 1;
    Rpcs { reads, done: reads, matched: reads, bytes, latency_ns: (latency * 1e9) as u64 * reads, ..Rpcs::default() }
}

/// Values that scans have second by second.
fn run(path: &mut Path, from_ms: u64, seconds: u64, latency: f64, most: f64) -> Vec<u32> {
    let mut values = Vec::new();
    for tick in 1..=seconds * 4 {
        let kib = path.scan_kib();
        path.note(at(from_ms + 250 * tick), SCAN, true, kib, &rpcs(kib, latency, most, 0.25));
        if values.last() != Some(&path.scan_kib()) {
            values.push(path.scan_kib());
        }
    }
    values
}

#[test]
fn a_long_way_gets_more_and_a_short_one_does_not() {
    let mut far = Path::new(128, true);
    assert_eq!(run(&mut far, 0, 20, 0.005, 1e9), [128, 512, 2048, 8192], "1 GB/s over 5 ms hold 5 MB");
    assert!(far.is_settled());
    let mut near = Path::new(128, true);
    assert_eq!(run(&mut near, 0, 20, 0.0001, 1e9), [128, 512, 128], "128 KiB in 0.1 ms fill the link");
    let mut slow = Path::new(128, true);
    assert_eq!(run(&mut slow, 0, 20, 0.005, 50e6), [128, 512, 2048, 512], "50 MB/s over 5 ms hold 250 KB");
}

#[test]
fn clear_gains_follow_each_other_within_a_second() {
    let mut path = Path::new(128, true);
    let mut seen = Vec::new();
    let mut kib = 128;
    for tick in 1..=50 {
        let now = at(100 * tick);
        path.note(now, SCAN, true, kib, &rpcs(kib, 0.005, 1e9, 0.1));
        if path.scan_kib() != kib {
            // The file is set at the next look.
            seen.push((100 * tick, path.scan_kib()));
            path.note(now, SCAN, true, kib, &rpcs(kib, 0.005, 1e9, 0.1));
            kib = path.scan_kib();
        }
    }
    assert_eq!(seen.iter().map(|(_, kib)| *kib).collect::<Vec<_>>(), [512, 2048, 8192]);
    assert!(seen[2].0 <= 1000, "{seen:?}");
}

#[test]
fn what_came_in_a_long_look_is_no_gain() {
    // 128 KiB fill the way. The look after the trial has begun takes three times as long, and has three times the
    // bytes.
    let mut path = Path::new(128, true);
    let (mut now, mut kib) = (0, 128);
    for _ in 0..50 {
        let long = path.is_trying() && kib != path.scan_kib();
        kib = path.scan_kib();
        let took = if long { 300 } else { 100 };
        now += took;
        path.note(at(now), SCAN, true, kib, &rpcs(kib, 0.001, 100e6, took as f64 / 1000.0));
        assert!(path.scan_kib() <= 512, "at {now} ms");
    }
    assert_eq!(path.proven_kib(), Some(128));
}

#[test]
fn counters_that_are_read_long_after_the_clock_show_no_gain() {
    // 128 KiB fill the way. Where a trial runs, the processor is busy: counters are read 80 ms after the clock, and
    // hold what came until then.
    let mut path = Path::new(128, true);
    let (mut counted, mut kib) = (0, 128);
    for tick in 1..=50 {
        let read = 100 * tick + if path.is_trying() && kib != path.scan_kib() { 80 } else { 0 };
        kib = path.scan_kib();
        let came = (read - counted) as f64 / 1000.0;
        counted = read;
        let done_gap_ns = (came * 1e9) as u64;
        path.note(at(100 * tick), SCAN, true, kib, &Rpcs { done_gap_ns, ..rpcs(kib, 0.001, 100e6, came) });
        assert!(path.scan_kib() <= 512, "at {read} ms");
    }
    assert_eq!(path.proven_kib(), Some(128));
}

#[test]
fn a_scan_in_bursts_gets_no_more_than_fills_the_way() {
    // 128 KiB fill the way; half a second of reads, then two without.
    let mut path = Path::new(128, true);
    for tick in 1..=3000 {
        let kib = path.scan_kib();
        if tick % 25 < 5 {
            path.note(at(100 * tick), SCAN, true, kib, &rpcs(kib, 0.001, 100e6, 0.1));
        } else {
            // Somebody else's reads keep the looks going.
            path.note(at(100 * tick), OTHER, false, 8, &Rpcs::default());
        }
    }
    assert_eq!(path.proven_kib(), Some(128), "after five minutes");
}

#[test]
fn a_small_gain_is_judged_on_whole_windows() {
    // 128 KiB in 5 ms are 26 MB/s of 34: 512 KiB bring 1.3 times as much, 2 MiB nothing more.
    let mut path = Path::new(128, true);
    run(&mut path, 0, 1, 0.005, 34e6);
    assert!(path.is_trying() && path.scan_kib() == 512);
    run(&mut path, 1000, 4, 0.005, 34e6);
    assert_eq!(path.proven_kib(), Some(512));
}

#[test]
fn a_value_that_scans_lose_by_goes_at_once() {
    // A server that reads each of several reads at once by itself: 512 KiB bring half, and so do 2 MiB.
    let mut path = Path::new(128, true);
    let (mut now, mut tried) = (0, None);
    while now < 5000 {
        now += 100;
        let kib = path.scan_kib();
        let latency = if kib == 128 { 0.002 } else { 0.016 * f64::from(kib) / 512.0 };
        path.note(at(now), SCAN, true, kib, &rpcs(kib, latency, 1e9, 0.1));
        if path.is_trying() && tried.is_none() {
            tried = Some(now);
        }
        if tried.is_some() && !path.is_trying() {
            break;
        }
    }
    assert_eq!(path.scan_kib(), 128);
    assert!(now - tried.expect("a trial") <= 1700, "{tried:?} to {now}");
}

#[test]
fn beyond_a_value_that_scans_lose_by_the_next_one_is_tried() {
    // Bytes per second at 128 KiB, 512 KiB, 2 MiB and 8 MiB, measured with Linux 6.1 and a disk of 2 ms a read.
    let mut path = Path::new(128, true);
    let mut values = Vec::new();
    let mut now = 0;
    while now < 3000 {
        now += 100;
        let kib = path.scan_kib();
        let most = match kib {
            128 => 48e6,
            512 => 39e6,
            2048 => 90e6,
            _ => 128e6,
        };
        path.note(at(now), SCAN, true, kib, &rpcs(kib, 0.002, most, 0.1));
        if values.last() != Some(&kib) {
            values.push(kib);
        }
        if kib == 8192 && !path.is_trying() {
            break;
        }
    }
    assert_eq!(values, [128, 512, 2048, 8192]);
    assert!(now <= 2500, "{now}");
    assert_eq!(path.proven_kib(), Some(8192));
}

#[test]
fn after_a_useless_trial_the_next_one_waits_longer_each_time() {
    let mut path = Path::new(128, true);
    let values = run(&mut path, 0, 59, 0.0001, 1e9);
    assert_eq!(values, [128, 512, 128]);
    let values = run(&mut path, 59_000, 110, 0.0001, 1e9);
    assert_eq!(values, [128, 512, 128], "once more after a minute, then not for two");
}

#[test]
fn a_path_that_changes_is_tried_again_at_once() {
    let mut path = Path::new(128, true);
    run(&mut path, 0, 10, 0.0001, 1e9);
    // The window in which it changes belongs to both, and may cost a trial.
    let values = run(&mut path, 10_000, 8, 0.005, 1e9);
    assert!(values.ends_with(&[128, 512, 2048, 8192]), "{values:?}");
}

#[test]
fn other_values_and_slow_readers_say_nothing() {
    let mut path = Path::new(128, true);
    for tick in 1..100 {
        path.note(at(250 * tick), SCAN, true, 64, &rpcs(64, 0.005, 1e9, 0.25));
        path.note(at(250 * tick), OTHER, false, 8, &rpcs(8, 0.005, 1e9, 0.25));
    }
    assert_eq!((path.scan_kib(), path.is_settled()), (128, false));
    let mut path = Path::new(128, true);
    for tick in 1..100 {
        path.note(at(250 * tick), SCAN, true, 128, &rpcs(128, 0.005, 1e5, 0.25));
    }
    assert_eq!(path.scan_kib(), 128, "100 KB/s: the reader is what is slow");
}

#[test]
fn a_trial_that_nobody_reads_through_ends() {
    let mut path = Path::new(128, true);
    run(&mut path, 0, 2, 0.005, 1e9);
    assert!(path.is_trying());
    assert_eq!((path.proven_kib(), path.scan_kib()), (Some(2048), 8192));
    for tick in 1..60 {
        path.note(at(2000 + 250 * tick), OTHER, false, 8, &rpcs(8, 0.005, 1e9, 0.25));
    }
    assert!(!path.is_trying() && path.is_settled());
}

#[test]
fn where_nothing_is_set_the_product_gives_the_value() {
    let mut path = Path::new(128, false);
    for tick in 1..20 {
        path.note(at(250 * tick), SCAN, true, path.scan_kib(), &rpcs(128, 0.005, 1e9, 0.25));
    }
    assert_eq!(path.scan_kib(), 512, "three times 128 KiB");
    assert!((path.product_kib() - 128.0).abs() < 2.0, "{}", path.product_kib());
}

#[test]
fn levels_are_powers_of_two_within_the_bounds() {
    assert_eq!([0.0, 128.0, 129.0, 3000.0, 1e9].map(level), [128, 128, 256, 4096, 8192]);
}

/// A link of `most` bytes per second over a way of `base` seconds that `scan` fills with its value, and where a random
/// reader waits for each read. Time of a read: the way, and what stands before it. Says what the scan has at the end of
/// each second.
fn shared(path: &mut Path, from_ms: u64, seconds: u64, base: f64, most: f64, waits: bool) -> Vec<u32> {
    let mut values = Vec::new();
    for tick in 1..=seconds * 10 {
        let now = at(from_ms + 100 * tick);
        let kib = path.scan_kib();
        let latency = base.max(f64::from(kib) * 1024.0 / most);
        path.note(now, SCAN, true, kib, &rpcs(kib, latency, most, 0.1));
        if waits {
            let reads = (0.1 / latency) as u64;
            let other = Rpcs { matched: reads, latency_ns: (latency * 1e9) as u64 * reads, ..Rpcs::default() };
            path.note(now, OTHER, false, 8, &other);
        }
        if tick % 10 == 0 {
            values.push(path.scan_kib());
        }
    }
    values
}

#[test]
fn beside_a_reader_that_waits_a_scan_gets_what_fills_the_way_and_no_queue() {
    // 100 MB/s over 1 ms hold 100 KB: 128 KiB fill the way, and whatever comes on top of them queues.
    let mut path = Path::new(128, true);
    assert_eq!(shared(&mut path, 0, 10, 0.001, 100e6, true)[9], 128);
    // 390 MB/s over 5 ms hold 1.9 MB. Alone and beside others the scan gets 2 MiB: 8 MiB would only queue.
    for waits in [false, true] {
        let mut path = Path::new(128, true);
        assert_eq!(shared(&mut path, 0, 10, 0.005, 390e6, waits)[9], 2048, "{waits}");
    }
}

#[test]
fn a_step_that_others_pay_for_waits_until_they_have_gone() {
    // 512 KiB in 4 ms are 131 MB/s of 200; 2 MiB bring half as much again, and reads take 2.6 times as long.
    let mut path = Path::new(128, true);
    assert_eq!(shared(&mut path, 0, 20, 0.004, 200e6, true)[19], 512);
    let alone = shared(&mut path, 20_000, 10, 0.004, 200e6, false);
    assert_eq!(alone[9], 2048, "{alone:?}: the hold of a minute is not for this");
    // They come back: 2 MiB were not weighed with them.
    let back = shared(&mut path, 30_000, 10, 0.004, 200e6, true);
    assert_eq!(back[9], 512, "{back:?}");
    assert_eq!(shared(&mut path, 40_000, 10, 0.004, 200e6, true), [512; 10], "and no more trials for now");
}

#[test]
fn what_others_do_before_a_scan_comes_is_no_measure_of_it() {
    // A random reader alone, at 1 ms a read; then a scan beside it, at whose 2 MiB each read takes 10 ms. At its first
    // look the reads that wait for it are not answered yet.
    let alone = Rpcs { matched: 100, latency_ns: 100_000_000, ..Rpcs::default() };
    for ticks in 50..60 {
        let mut path = Path::new(128, true);
        assert_eq!(shared(&mut path, 0, 10, 0.004, 200e6, false)[9], 2048);
        for tick in 1..=ticks {
            path.note(at(10_000 + 100 * tick), OTHER, false, 8, &alone);
        }
        let kib = path.scan_kib();
        let come = 10_000 + 100 * (ticks + 1);
        path.note(at(come), SCAN, true, kib, &rpcs(kib, 0.0105, 200e6, 0.1));
        path.note(at(come), OTHER, false, 8, &alone);
        assert_eq!(shared(&mut path, come, 10, 0.004, 200e6, true)[9], 512, "{ticks}");
    }
}

#[test]
fn a_stream_that_keeps_its_window_ends_the_trial_of_a_smaller_value() {
    let mut path = Path::new(128, true);
    assert_eq!(shared(&mut path, 0, 10, 0.004, 200e6, false)[9], 2048);
    for tick in 1..=50 {
        let now = at(10_000 + 100 * tick);
        let kept = rpcs(2048, 0.0105, 200e6, 0.1);
        path.note(now, SCAN, true, path.scan_kib(), &kept);
        path.note(now, OTHER, false, 8, &Rpcs { matched: 9, latency_ns: 9 * 10_500_000, ..Rpcs::default() });
    }
    assert_eq!((path.scan_kib(), path.is_trying()), (2048, false));
}
