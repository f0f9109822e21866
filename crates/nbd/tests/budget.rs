// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that together want more memory than the server gives: each is served in its turn.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::client::*;
use linnet_nbd::{Builder, Export, Handle, Plain};

const MIB: usize = 1 << 20;
/// What a read of 4 MiB takes.
const READ_BYTES: usize = 4 * MIB + 512;
/// More than a connection's usual buffer holds, and less than that and the socket hold.
const BEGUN_BYTES: usize = 160 << 10;

/// A client that fails, and does not wait for ever, if the server takes nothing more from it.
fn connect(socket: &Path) -> Client {
    let client = Client::connect(socket, "a", true);
    client.stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

/// Sends the head of a write of 4 MiB and this much of its payload.
fn begin_write(client: &mut Client, payload_bytes: usize) {
    client.stream.write_all(&request(WRITE, 0, 1, 0, 4 << 20)).unwrap();
    client.stream.write_all(&vec![1; payload_bytes]).unwrap();
}

fn wait_for(handle: &Handle, what: &str, reached: impl Fn(&linnet_nbd::Stats) -> bool) {
    let begun = Instant::now();
    while !reached(&handle.stats()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "never {what}: {:?}", handle.stats());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A client that does not read its reply of 4 MiB, which is all that the server has.
fn who_holds_everything(handle: &Handle, socket: &Path) -> Client {
    let mut deaf = connect(socket);
    deaf.send(READ, 0, 0, 4 << 20, &[]);
    wait_for(handle, "taken", |stats| stats.bytes_left == 0);
    deaf
}

#[test]
fn large_writes_do_not_wait_for_each_other() {
    const CLIENTS: usize = 8;
    let socket = temporary("sock");
    let export = Export::of_device("a", (CLIENTS * 4 * MIB) as u64, Fixed(0));
    let handle = Builder::new().export(export).unix(&socket).bytes_max(8 * MIB).start().unwrap();
    let together = Arc::new(Barrier::new(CLIENTS));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|own| {
            let (socket, together) = (socket.clone(), Arc::clone(&together));
            std::thread::spawn(move || {
                let mut client = connect(&socket);
                let (offset, data) = ((own * 4 * MIB) as u64, vec![own as u8 + 1; 4 * MIB]);
                together.wait();
                client.stream.write_all(&request(WRITE, 0, 1, offset, data.len() as u32)).unwrap();
                // All of them have begun before any has ended.
                for part in data.chunks(64 << 10) {
                    client.stream.write_all(part).unwrap();
                    std::thread::sleep(Duration::from_millis(3));
                }
                assert_eq!(client.reply(|_| 0).unwrap().error, 0);
                assert!(client.read(offset, data.len() as u32).unwrap() == data);
            })
        })
        .collect();
    let served = threads.into_iter().filter_map(|thread| thread.join().ok()).count();
    assert_eq!(served, CLIENTS, "{:?}", handle.stats());
    wait_for(&handle, "all gone", |stats| stats.connections == 0);
    assert_eq!(handle.stop().bytes_left, 8 << 20, "all of the budget is back");
}

#[test]
fn a_large_write_that_never_comes_is_ended_and_who_waits_for_it_is_not() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let stall_max = Duration::from_secs(1);
    // Room for one of them at a time.
    let handle = builder.bytes_max(7 * MIB).stall_max(stall_max).start().unwrap();
    let mut liars = [(); 2].map(|()| connect(&socket));
    // The first sends all but 28 bytes. The second is in line, behind it.
    begin_write(&mut liars[0], 4 * MIB - 28);
    wait_for(&handle, "taken", |stats| stats.bytes_left < 4 << 20);
    begin_write(&mut liars[1], BEGUN_BYTES);
    let good = std::thread::spawn({
        let socket = socket.clone();
        move || {
            let mut good = connect(&socket);
            // Long enough to be behind both.
            std::thread::sleep(Duration::from_millis(200));
            let begun = Instant::now();
            good.write(0, &vec![9; 4 * MIB]).unwrap();
            assert_eq!(good.read(0, 4), Ok(vec![9; 4]));
            begun.elapsed()
        }
    });
    let waited = good.join().unwrap();
    assert!(waited > stall_max, "it waited for two, longer than a client may stall: {waited:?}");
    assert!(liars.iter_mut().all(Client::closed));
    handle.stop();
}

#[test]
fn a_request_longer_than_the_whole_budget_is_served_alone() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.bytes_max(MIB).start().unwrap();
    let threads: Vec<_> = (0..3u8)
        .map(|own| {
            let socket = socket.clone();
            std::thread::spawn(move || {
                let mut client = connect(&socket);
                for _ in 0..3 {
                    client.write(0, &vec![own; 4 * MIB]).unwrap();
                    assert_eq!(client.read(0, 4 << 20).map(|data| data.len()), Ok(4 * MIB));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    wait_for(&handle, "all gone", |stats| stats.connections == 0);
    assert_eq!(handle.stop().bytes_left, 1 << 20);
}

#[test]
fn small_requests_need_nothing_of_the_budget() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.bytes_max(READ_BYTES).start().unwrap();
    // One client holds everything, since it does not read its reply, and two wait in line.
    let mut deaf = who_holds_everything(&handle, &socket);
    let mut reader = connect(&socket);
    reader.send(READ, 0, 0, 4 << 20, &[]);
    let mut writer = connect(&socket);
    begin_write(&mut writer, BEGUN_BYTES);

    let mut good = connect(&socket);
    for round in 0..20u8 {
        good.write(0, &vec![round; 600 << 10]).unwrap();
        // More than one at a time: all of these are in flight together.
        let cookies: Vec<_> = (0..16).map(|part| good.send(READ, 0, part * 32_768, 32_768, &[])).collect();
        for cookie in cookies {
            let reply = good.reply(|_| 0).unwrap();
            assert_eq!((reply.cookie, reply.data == [round; 32_768]), (cookie, true));
        }
    }
    assert_eq!(handle.stats().bytes_left, 0, "the others were in line all the time");
    // The line moves when the first one takes its reply. Which of the two came first is not known.
    assert_eq!(deaf.reply(|_| 0).unwrap().data.len(), 4 * MIB);
    let reading = std::thread::spawn(move || assert_eq!(reader.reply(|_| 0).unwrap().data.len(), 4 * MIB));
    writer.stream.write_all(&vec![1; 4 * MIB - BEGUN_BYTES]).unwrap();
    assert_eq!(writer.reply(|_| 0).unwrap().error, 0);
    reading.join().unwrap();
    handle.stop();
}

#[test]
fn who_is_in_line_does_not_make_way() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.bytes_max(READ_BYTES).connections_max(2).start().unwrap();
    let mut waiting = connect(&socket);
    let mut deaf = who_holds_everything(&handle, &socket);
    begin_write(&mut waiting, BEGUN_BYTES);
    // One of them is idle: the one that has the memory and does not take its reply.
    served_at_last(&socket).read(0, 512).unwrap();
    assert!(deaf.closed());
    waiting.stream.write_all(&vec![1; 4 * MIB - BEGUN_BYTES]).unwrap();
    assert_eq!(waiting.reply(|_| 0).unwrap().error, 0);
    handle.stop();
}

#[test]
fn who_leaves_the_line_leaves_nothing_behind() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.bytes_max(READ_BYTES).start().unwrap();
    let deaf = who_holds_everything(&handle, &socket);
    for _ in 0..4 {
        begin_write(&mut connect(&socket), BEGUN_BYTES);
        connect(&socket).send(READ, 0, 0, 4 << 20, &[]);
    }
    wait_for(&handle, "left", |stats| stats.connections == 1);
    drop(deaf);
    connect(&socket).write(0, &vec![1; 4 * MIB]).unwrap();
    wait_for(&handle, "all gone", |stats| stats.connections == 0);
    assert_eq!(handle.stop().bytes_left, READ_BYTES as u64);
}
