// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that no request is answered before its deadline, and that the statistics agree with the client's measurements.

mod client;

use std::io::Write;
use std::time::{Duration, Instant};

use client::*;
use linnet_nbd::{Builder, Command, Export, Handle};

/// Waits until this many answers are recorded. A reply reaches the client slightly before the server has recorded it.
fn wait_for_records(handle: &Handle, count: u64) {
    while handle.stats().exports[0].answered() < count {
        std::thread::yield_now();
    }
}

#[test]
fn no_reply_is_early_and_the_record_says_how_late() {
    for (time_scale, spin_us) in [(1.0, 0), (1.0, 50), (5.0, 10)] {
        let (builder, socket) = builder(Box::new(linnet_nbd::Plain(Fixed(300_000))));
        let builder = builder.time_scale(time_scale).spin(Duration::from_micros(spin_us)).log_len(40);
        let handle = builder.start().unwrap();
        let mut client = Client::connect(&socket, "a", true);
        for round in 0..60 {
            let begun = Instant::now();
            client.read(round * 4096, 4096).unwrap();
            assert!(begun.elapsed().as_nanos() as f64 >= 300_000.0 * time_scale, "scale {time_scale}");
        }
        wait_for_records(&handle, 60);
        let samples = handle.samples("a").unwrap();
        assert_eq!(samples.len(), 40, "the log is bounded");
        assert!(handle.samples("b").is_none());
        for (index, sample) in samples.iter().enumerate() {
            assert_eq!((sample.command, sample.size_bytes), (Command::Read, 4096));
            assert_eq!(sample.offset_bytes, (20 + index as u64) * 4096);
            assert_eq!(sample.latency_ns_model, 300_000);
            assert!(sample.latency_ns_achieved >= sample.latency_ns_model);
        }
        assert!(samples.windows(2).all(|pair| pair[0].arrive_ns + 300_000 <= pair[1].arrive_ns));
        let stats = handle.stop();
        let drive = &stats.exports[0];
        assert_eq!((drive.commands[0], stats.time_scale), (60, time_scale));
        assert_eq!(drive.model.ns_p50.abs_diff(300_000) / 3000, 0);
        assert!(drive.achieved.ns_p50 >= 298_000 && drive.excess.ns_max >= drive.excess.ns_p99);
        assert!(drive.excess.ns_p50 < 50_000_000, "a machine that cannot wake a thread in 50 ms tests nothing");
    }
}

#[test]
fn replies_come_in_the_order_of_their_deadlines() {
    let (builder, socket) = builder(Box::new(ByOffset));
    let handle = builder.start().unwrap();
    let mut client = Client::connect(&socket, "a", false);
    let begun = Instant::now();
    // In one piece, so that the server has all of them before it answers any. The cookie is the index.
    let (slow, flush, trim, fast) = (0, 1, 2, 3);
    let requests = [
        request(READ, 0, slow, 0, 512),
        request(FLUSH, 0, flush, 0, 0),
        request(TRIM, 0, trim, 5 << 20, 4096),
        request(READ, 0, fast, 6 << 20, 512),
    ];
    client.stream.write_all(&requests.concat()).unwrap();
    let sizes = move |cookie| if cookie == slow || cookie == fast { 512 } else { 0 };
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push((client.reply(sizes).unwrap().cookie, begun.elapsed().as_millis()));
    }
    wait_for_records(&handle, 4);
    // Usually the last comes first. A server that pauses between two of them may give the later one a later deadline.
    let mut deadlines: Vec<_> = handle
        .samples("a")
        .unwrap()
        .iter()
        .map(|sample| {
            let (cookie, latency_ns) = match (sample.command, sample.offset_bytes) {
                (Command::Read, 0) => (slow, 150_000_000),
                (Command::Flush, _) => (flush, 100_000_000),
                (Command::Trim, _) => (trim, 50_000_000),
                _ => (fast, 0),
            };
            assert_eq!(sample.latency_ns_model, latency_ns);
            (sample.arrive_ns + latency_ns, cookie)
        })
        .collect();
    deadlines.sort_unstable();
    assert!(order.iter().map(|seen| seen.0).eq(deadlines.iter().map(|deadline| deadline.1)), "{order:?} {deadlines:?}");
    assert!(order[1].1 >= 50 && order[2].1 >= 100 && order[3].1 >= 150, "{order:?}");
    let begun = Instant::now();
    client.ask(WRITE, FUA, 6 << 20, 4, b"fua!").unwrap();
    assert!(begun.elapsed().as_millis() >= 100, "a forced write waits for the flush");
    drop(handle);
}

#[test]
fn a_failed_request_fails_a_lost_one_is_silent() {
    let (with_silence, silent) = builder(Box::new(ByOffset));
    let handle = with_silence.start().unwrap();
    for structured in [false, true] {
        let mut client = Client::connect(&silent, "a", structured);
        client.write(6 << 20, b"kept").unwrap();
        assert_eq!(client.write(1 << 20, b"bad"), Err(EIO));
        assert_eq!(client.read(1 << 20, 3), Err(EIO));
        client.send(READ, 0, 2 << 20, 512, &[]);
        assert_eq!(client.read(6 << 20, 4), Ok(b"kept".to_vec()), "the lost read is passed over");
    }
    let stats = handle.stop();
    assert_eq!((stats.exports[0].lost, stats.exports[0].failed), (2, 4));

    let (builder, answering) = builder(Box::new(ByOffset));
    let handle = builder.lost_after_ns(Some(15_000_000)).start().unwrap();
    let begun = Instant::now();
    assert_eq!(Client::connect(&answering, "a", true).read(2 << 20, 512), Err(EIO));
    assert!(begun.elapsed() >= Duration::from_millis(15));
    drop(handle);
}

#[test]
fn a_defect_of_the_model_fails_requests_and_nothing_else() {
    let socket = temporary("sock");
    let handle = Builder::new()
        .export(Export::new("broken", SIZE, Box::new(ByOffset)))
        .export(Export::of_device("well", SIZE, Fixed(0)))
        .unix(&socket)
        .start()
        .unwrap();
    let mut unlucky = Client::connect(&socket, "broken", true);
    unlucky.send(READ, 0, 3 << 20, 512, &[]);
    assert!(unlucky.closed());
    let mut next = Client::connect(&socket, "broken", true);
    assert_eq!(next.read(6 << 20, 512), Err(EIO));
    Client::connect(&socket, "well", true).write(0, b"fine").unwrap();
    assert_eq!(handle.stop().connections, 0);
}

#[test]
fn several_drives_have_a_model_each_and_one_clock() {
    let socket = temporary("sock");
    let mut builder = Builder::new().unix(&socket).tcp(0);
    for (name, latency_ns) in [("x", 1_000_000), ("y", 3_000_000), ("z", 5_000_000)] {
        builder = builder.export(Export::of_device(name, SIZE, Fixed(latency_ns)));
    }
    let handle = builder.start().unwrap();
    let threads = ["x", "y", "z"].map(|name| {
        let socket = socket.clone();
        std::thread::spawn(move || {
            let mut client = Client::connect(&socket, name, true);
            (0..10).for_each(|round| client.write(round * 512, name.as_bytes()).unwrap());
            assert_eq!(client.read(512, 2), Ok(vec![name.as_bytes()[0], 0]));
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let stats = handle.stop();
    let medians: Vec<_> = stats.exports.iter().map(|drive| drive.model.ns_p50 / 990_000).collect();
    assert_eq!(medians, [1, 3, 5]);
    assert_eq!(stats.connections_total, 3);
}
