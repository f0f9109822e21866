// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests replays on served devices with known latency.

use std::time::Duration;

use linnet_array::{Config, DeviceModel, policy};
use linnet_nbd::{Builder, Export};
use linnet_replay::{Error, Options, Outcome, replay};
use linnet_types::{IoRecord, LatencyModel, Nanos, Op, Outcome as Answer, Request, Thresholds};

struct Fixed(Nanos);

impl LatencyModel for Fixed {
    fn submit(&mut self, now: Nanos, request: &Request) -> Answer {
        if request.offset_bytes == 4096 { Answer::Error(now) } else { Answer::Done(now + self.0) }
    }
}

fn run(latencies: [Nanos; 2], name: &str, records: &[IoRecord]) -> Outcome {
    let socket = std::env::temp_dir().join(format!("linnet-replay-{}-{name}", std::process::id()));
    let exports = latencies.iter().enumerate().map(|(i, &ns)| Export::of_device(format!("d{i}"), 1 << 24, Fixed(ns)));
    let handle = exports.fold(Builder::new(), Builder::export).unix(&socket).start().unwrap();
    let uris = vec![handle.uris("d0")[0].clone(), handle.uris("d1")[0].clone()];
    let thresholds = Thresholds { inflection_ns: 2_000_000, latency_ns_p95: 2_000_000, ..Thresholds::default() };
    let learned = vec![DeviceModel { thresholds, ..DeviceModel::default() }; 2];
    // A thread that stalls must not send reads elsewhere.
    let array = Config { replicas: 2, read_timeout_ns: 60_000_000_000, ..Config::default() };
    let chosen = policy(name, &learned, &array).unwrap();
    let options = Options { array, time_scale: 1.0 };
    let outcome = replay(&uris, &[records, &[]], &[thresholds; 2], chosen, &options, &mut |_| true).unwrap();
    handle.stop();
    outcome
}

fn reads(count: u64, offset_bytes: u64) -> Vec<IoRecord> {
    (0..count)
        .map(|i| (i, if i % 10 == 9 { Op::Write } else { Op::Read }))
        .map(|(i, op)| IoRecord { tenant: 3, ..IoRecord::new(i * 500_000, op, offset_bytes, 4096) })
        .collect()
}

#[test]
fn every_io_is_answered_no_sooner_than_its_device_allows() {
    let outcome = run([3_000_000, 3_000_000], "baseline", &reads(100, 0));
    assert_eq!((outcome.latency_ns.len(), outcome.counters.reads, outcome.counters.writes), (90, 90, 10));
    assert!(outcome.latency_ns.iter().all(|&ns| ns >= 3_000_000), "{:?}", outcome.latency_ns.iter().min());
    assert_eq!(outcome.tenant, [3; 90]);
    assert!(outcome.log[0].iter().all(|record| record.tenant == 3));
    assert_eq!((outcome.log[0].len(), outcome.log[1].len(), outcome.lateness_ns.len()), (100, 0, 100));
    assert!(outcome.log[0].iter().all(|record| record.latency_ns.is_some_and(|ns| ns >= 3_000_000)));
}

#[test]
fn hedges_go_to_the_other_device_and_win() {
    // Where this thread stalls for half a second, the first copy answers after all.
    let won = |outcome: &Outcome| outcome.counters.hedges > 20 && outcome.counters.hedges_won > 10;
    let outcome = (0..5).map(|_| run([500_000_000, 100_000], "hedge-p95", &reads(50, 0))).find(won).expect("a win");
    assert_eq!(outcome.latency_ns.len(), 45);
    assert!(!outcome.log[1].is_empty());
}

#[test]
fn errors_fail_over_and_then_fail() {
    let outcome = run([100_000, 100_000], "random", &reads(20, 4096));
    assert_eq!(outcome.counters.reads_failed, 18);
    assert!(outcome.counters.failovers > 0);
    assert_eq!(outcome.latency_ns.len(), 18, "they count with their time limit");
    assert!(outcome.latency_ns.iter().all(|&ns| ns >= 60_000_000_000));
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let array = Config { replicas: 1, ..Config::default() };
    let start = |uri: &str| {
        let learned = [DeviceModel::default()];
        let chosen = policy("baseline", &learned, &array).unwrap();
        let options = Options { array, time_scale: 1.0 };
        replay(&[uri.into()], &[&[]], &[Thresholds::default()], chosen, &options, &mut |_| true).map(drop)
    };
    let absent = start("nbd+unix:///x?socket=/nonexistent/linnet.sock").unwrap_err();
    assert!(matches!(absent, Error::Connect { .. }) && absent.to_string().contains("linnet.sock"), "{absent}");
    assert!(matches!(start("/dev/sda"), Err(Error::Uri { .. })));
}

#[test]
fn a_lost_export_ends_the_replay_with_its_number() {
    let socket = std::env::temp_dir().join(format!("linnet-replay-{}-lost", std::process::id()));
    let export = |name: &str| Export::of_device(name, 1 << 24, Fixed(1_000_000));
    let handle = Builder::new().export(export("d0")).export(export("d1")).unix(&socket).start().unwrap();
    let uris = vec![handle.uris("d0")[0].clone(), handle.uris("d1")[0].clone()];
    let array = Config { replicas: 2, ..Config::default() };
    let chosen = policy("baseline", &[DeviceModel::default(), DeviceModel::default()], &array).unwrap();
    let options = Options { array, time_scale: 1.0 };
    let stopper = std::thread::spawn(move || {
        while handle.stats().exports.iter().all(|export| export.answered() < 10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        handle.stop();
    });
    let records = reads(100_000, 0);
    let result = replay(&uris, &[&records, &[]], &[Thresholds::default(); 2], chosen, &options, &mut |_| true);
    stopper.join().unwrap();
    assert!(matches!(result, Err(Error::Io { device: 0 | 1, .. })), "{result:?}");
}

/// What answers one request at a time, and takes no other meanwhile.
struct Busy(Duration);

impl LatencyModel for Busy {
    fn submit(&mut self, now: Nanos, _request: &Request) -> Answer {
        std::thread::sleep(self.0);
        Answer::Done(now)
    }
}

#[test]
fn an_export_that_is_slow_to_take_its_requests_delays_no_other() {
    let socket = std::env::temp_dir().join(format!("linnet-replay-{}-busy", std::process::id()));
    let (slow, fast) = (Export::of_device("slow", 1 << 30, Busy(Duration::from_millis(15))), Fixed(100_000));
    let builder = Builder::new().export(slow).export(Export::of_device("fast", 1 << 30, fast));
    let handle = builder.unix(&socket).start().unwrap();
    let uris = vec![handle.uris("slow")[0].clone(), handle.uris("fast")[0].clone()];
    let array = Config { replicas: 2, ..Config::default() };
    let chosen = policy("baseline", &[DeviceModel::default(), DeviceModel::default()], &array).unwrap();
    let options = Options { array, time_scale: 1.0 };
    let writes: Vec<_> = (0..4).map(|k| IoRecord::new(1_000_000 * k, Op::Write, 0, 32 << 20)).collect();
    let reads: Vec<_> = (0..400).map(|k| IoRecord::new(1_000_000 * k, Op::Read, 0, 4096)).collect();
    let outcome =
        replay(&uris, &[&writes, &reads], &[Thresholds::default(); 2], chosen, &options, &mut |_| true).unwrap();
    handle.stop();
    // The server takes the writes in parts, more than a second in all, for which reads that are sent later would wait.
    let mut latency_ns = outcome.latency_ns;
    latency_ns.sort_unstable();
    assert_eq!(latency_ns.len(), 400);
    assert!(latency_ns[200] < 100_000_000, "median {} ns", latency_ns[200]);
    assert_eq!((outcome.folded, outcome.cut), (0, 0));
}

#[test]
fn an_export_that_refuses_writes_gets_none() {
    let socket = std::env::temp_dir().join(format!("linnet-replay-{}-read-only", std::process::id()));
    let export = Export::of_device("d0", 1 << 20, Fixed(100_000)).read_only(true);
    let handle = Builder::new().export(export).unix(&socket).start().unwrap();
    let uris = vec![handle.uris("d0")[0].clone()];
    let array = Config { replicas: 1, ..Config::default() };
    let start = |records: &[IoRecord]| {
        let chosen = policy("baseline", &[DeviceModel::default()], &array).unwrap();
        let options = Options { array, time_scale: 1.0 };
        replay(&uris, &[records], &[Thresholds::default()], chosen, &options, &mut |_| true)
    };
    let error = start(&[IoRecord::new(0, Op::Write, 0, 4096)]).unwrap_err();
    assert!(matches!(error, Error::Io { device: 0, .. }) && error.to_string().contains("read-only"), "{error}");
    let beyond = [IoRecord::new(0, Op::Read, 1 << 20, 4096), IoRecord::new(1, Op::Read, (1 << 20) - 512, 4096)];
    let outcome = start(&beyond).unwrap();
    assert_eq!((outcome.latency_ns.len(), outcome.folded, outcome.cut), (2, 1, 1));
    handle.stop();
}

#[test]
fn a_drive_at_another_speed_is_refused_by_both_speeds() {
    let socket = std::env::temp_dir().join(format!("linnet-replay-{}-speed", std::process::id()));
    let export = Export::of_device("d0", 1 << 20, Fixed(100_000));
    let handle = Builder::new().export(export).unix(&socket).time_scale(0.3).start().unwrap();
    let uris = vec![handle.uris("d0")[0].clone()];
    let array = Config { replicas: 1, ..Config::default() };
    let start = |time_scale: f64| {
        let chosen = policy("baseline", &[DeviceModel::default()], &array).unwrap();
        let options = Options { array, time_scale };
        let records = [IoRecord::new(0, Op::Read, 0, 4096)];
        replay(&uris, &[&records], &[Thresholds::default()], chosen, &options, &mut |_| true)
    };
    let error = start(1.0).unwrap_err();
    assert!(error.to_string().contains("--time-scale 0.3, and the replay has 1;"), "{error}");
    assert_eq!(start(0.3).unwrap().latency_ns.len(), 1);
    handle.stop();
}

#[test]
fn a_drive_is_not_its_own_replica() {
    let socket = std::env::temp_dir().join(format!("linnet-replay-{}-twice", std::process::id()));
    let drive = |name: &str| Export::of_device(name.to_owned(), 1 << 24, Fixed(1_000));
    let handle = Builder::new().export(drive("d0")).export(drive("d1")).unix(&socket).start().unwrap();
    let uri = |name: &str| format!("nbd+unix:///{name}?socket={}", socket.display());
    let array = Config { replicas: 2, ..Config::default() };
    let go = |uris: [String; 2]| {
        let chosen = policy("baseline", &vec![DeviceModel::default(); 2], &array).unwrap();
        let options = Options { array, time_scale: 1.0 };
        replay(&uris, &[&reads(3, 0), &[]], &[Thresholds::default(); 2], chosen, &options, &mut |_| true)
    };
    // The empty name is that of the first export.
    for (one, other) in [("d0", "d0"), ("", "d0"), ("d0", ""), ("", ""), ("d1", "d%31")] {
        let error = go([uri(one), uri(other)]).unwrap_err().to_string();
        assert_eq!(error, format!("{}: the same drive as {}; give each drive once", uri(other), uri(one)));
    }
    for (one, other) in [("d0", "d1"), ("", "d1"), ("d1", "")] {
        assert_eq!(go([uri(one), uri(other)]).unwrap().latency_ns.len(), 3);
    }
    handle.stop();
}
