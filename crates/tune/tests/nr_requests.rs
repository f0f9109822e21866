// SPDX-License-Identifier: MIT OR Apache-2.0
//! The example of another knob (examples/nr_requests): what it sees, learns and sets on a pretended machine.

#[path = "../examples/nr_requests/queue.rs"]
mod queue;

use std::io;
use std::time::Duration;

use linnet_core::Knob;
use linnet_tune::Error;
use linnet_tune::device::{Device, Rivals};
use linnet_tune::host::Host;
use linnet_tune::journal::Journal;
use queue::{FEATURES, SCHEMA, Stat, VALUES, Window, accepted, best, model};

const STAT: &str = "/sys/block/sda/stat";
const KNOB: &str = "/sys/block/sda/queue/nr_requests";

/// Counters after so many windows of this many reads and writes.
fn stat(host: &Host, windows: u64, reads: u64, writes: u64, wait_ms: u64) -> Stat {
    let (r, w) = (windows * reads, windows * writes);
    let text = format!("{r} 0 {} 0 {w} {} {} 0 0 500 {} 0 0 0 0 0 0", 8 * r, w / 2, 64 * w, wait_ms * (r + w));
    host.replace(STAT, &text).expect("written");
    Stat::read(host, "sda").expect("counters")
}

fn window(host: &Host, reads: u64, writes: u64, wait_ms: u64) -> Window {
    let before = stat(host, 1, reads, writes, wait_ms);
    stat(host, 3, reads, writes, wait_ms).window(before).expect("requests")
}

fn features(host: &Host, reads: u64, writes: u64) -> [f32; FEATURES] {
    window(host, reads, writes, 20).features
}

#[test]
fn features_follow_neither_the_speed_nor_the_wait() {
    let root = tempfile::tempdir().expect("a directory");
    let host = Host::below(root.path());
    let (slow, fast) = (window(&host, 100, 300, 70), window(&host, 10_000, 30_000, 7));
    assert_eq!(slow.features, fast.features);
    assert_eq!((slow.features[0], slow.features[1]), (0.25, 0.2), "a quarter reads, of 4 KiB each");
    assert!((slow.features[2] - 1.0 / 3.0).abs() < 1e-6);
    assert_eq!((slow.wait_ms, fast.wait_ms), (70.0, 7.0));
    let quiet = Stat::read(&host, "sda").expect("counters");
    assert_eq!(quiet.window(quiet), None, "a window without requests");
}

#[test]
fn the_first_of_the_values_that_are_as_good_is_best() {
    let root = tempfile::tempdir().expect("a directory");
    let host = Host::below(root.path());
    let seen = [
        (0, window(&host, 100, 300, 104)),
        (1, window(&host, 100, 300, 90)),
        (1, window(&host, 100, 300, 110)),
        (2, window(&host, 100, 300, 101)),
        (0, window(&host, 0, 300, 106)),
        (1, window(&host, 0, 300, 106)),
        (2, window(&host, 0, 300, 100)),
        // The kernel took one value alone while reads were all there was.
        (1, window(&host, 300, 0, 5)),
    ];
    assert_eq!(best(&seen), [0, 0, 0, 0, 2, 2, 2, 1]);
}

#[test]
fn a_value_that_the_kernel_refuses_is_no_error() {
    let failed =
        |code| Err(Error::File { path: KNOB.into(), doing: "write", source: io::Error::from_raw_os_error(code) });
    assert_eq!(accepted(Ok(64)).expect("set"), Some(64));
    assert_eq!(accepted(failed(22)).expect("EINVAL"), None);
    assert!(accepted(failed(5)).is_err(), "EIO");
}

#[test]
fn damaged_counters_are_refused_by_name() {
    let root = tempfile::tempdir().expect("a directory");
    let host = Host::below(root.path());
    host.replace(STAT, "1 2 three").expect("written");
    let error = Stat::read(&host, "sda").expect_err("damaged").to_string();
    assert!(error.contains("sys/block/sda/stat") && error.contains("eleven counters are expected"), "{error}");
}

#[test]
fn a_learned_model_sets_the_queue_and_the_first_value_returns() {
    let root = tempfile::tempdir().expect("a directory");
    let host = Host::below(root.path());
    let (mut windows, mut best) = (Vec::new(), Vec::new());
    for step in 1..=20 {
        windows.push(features(&host, 50 * step, 400));
        best.push(0);
        windows.push(features(&host, 0, 100 * step));
        best.push(2);
    }
    let knob = Knob::from_bytes(&model(&windows, &best).expect("fitted").to_bytes().expect("a file")).expect("read");
    assert_eq!((knob.schema, &knob.values[..]), (SCHEMA, &VALUES[..]));
    host.replace(KNOB, "128").expect("written");
    let mut journal = Journal::open(&host).expect("empty");
    let mut device = Device::open(&host, KNOB, Rivals::Auto, Duration::from_secs(600)).expect("a knob");
    for (window, value) in [(features(&host, 333, 400), 16), (features(&host, 0, 777), 256)] {
        let (_, chosen, confidence) = knob.decide(&window).expect("decides");
        assert!(confidence >= knob.confidence);
        assert_eq!((chosen, device.set(chosen, &mut journal).expect("set")), (value, value));
    }
    assert_eq!(Journal::open(&host).expect("journal").devices[0].original_kib, 128);
    assert!(device.restore(&mut journal).expect("restored"));
    assert_eq!(host.number::<u32>(KNOB).expect("a number"), 128);
}
