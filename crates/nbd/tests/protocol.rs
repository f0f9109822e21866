// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the protocol as a correct client sees it.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::client::*;
use linnet_nbd::{Builder, Drive, Error, Export, Plain, Storage};
use linnet_sim::Chance;

fn instant() -> Box<dyn Drive> {
    Box::new(Plain(InOrder { last: 0, asked: 0 }))
}

#[test]
fn the_handshake_lists_describes_and_refuses() {
    let socket = temporary("sock");
    let exports = ["first", "second drive"].map(|name| Export::of_device(name, SIZE, Fixed(0)));
    let [first, second] = exports;
    let handle = Builder::new().export(first).export(second.read_only(true)).unix(&socket).tcp(0).start().unwrap();
    assert!(handle.uris("second drive")[0].starts_with("nbd+unix:///second%20drive?socket=/"));
    assert!(handle.uris("first")[1].starts_with("nbd://127.0.0.1:"));

    let mut stream = greet(&socket);
    send_option(&mut stream, 3, &[]);
    let names: Vec<_> = (0..2).map(|_| option_reply(&mut stream, 3)).collect();
    assert_eq!(names[0], (2, b"\0\0\0\x05first".to_vec()));
    assert_eq!(names[1], (2, b"\0\0\0\x0csecond drive".to_vec()));
    assert_eq!(option_reply(&mut stream, 3), (1, vec![]));

    let refused = |stream: &mut _, option, data: &[u8]| {
        send_option(stream, option, data);
        option_reply(stream, option).0 & 0xff
    };
    assert_eq!(refused(&mut stream, 3, b"x"), 3, "a list takes no data");
    assert_eq!(refused(&mut stream, 5, &[]), 1, "no TLS");
    assert_eq!(refused(&mut stream, 11, &[0; 8]), 1, "no extended headers");
    assert_eq!(refused(&mut stream, 7, &go_data("third", &[])), 6, "unknown export");
    assert_eq!(refused(&mut stream, 6, &[0, 0, 0, 200, b'x']), 3, "the name is longer than the option");
    assert_eq!(refused(&mut stream, 6, &vec![0; 100_000]), 9, "too long");

    send_option(&mut stream, 6, &go_data("second drive", &[3, 2, 1]));
    let export = option_reply(&mut stream, 6).1;
    assert_eq!(export[..10], [&[0, 0], &SIZE.to_be_bytes()[..]].concat());
    assert_eq!(u16::from_be_bytes([export[10], export[11]]) & 2, 2, "read only");
    assert_eq!(option_reply(&mut stream, 6).1, b"\0\x01second drive");
    assert_eq!(option_reply(&mut stream, 6).1, b"\0\x02linnet: modelled drive, time scale 1");
    let block_size = option_reply(&mut stream, 6).1;
    assert_eq!(block_size, [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(option_reply(&mut stream, 6), (1, vec![]));

    send_option(&mut stream, 2, &[]);
    assert_eq!(option_reply(&mut stream, 2), (1, vec![]));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);

    let mut old = greet(&socket);
    send_option(&mut old, 1, b"");
    assert_eq!(take::<8>(&mut old).unwrap(), SIZE.to_be_bytes());
    let flags = u16::from_be_bytes(take(&mut old).unwrap());
    assert_eq!(flags & 0b1_0000_0011, 0b1_0000_0001, "flags, multi-conn, writable: {flags:b}");
    old.write_all(&request(READ, 0, 7, 0, 16)).unwrap();
    assert_eq!(take::<32>(&mut old).unwrap()[4..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);

    let mut read_only = Client::connect(&socket, "second drive", true);
    assert_eq!(read_only.write(0, b"no"), Err(EPERM));
    assert_eq!(read_only.ask(TRIM, 0, 0, 4096, &[]), Err(EPERM));
    assert_eq!(read_only.read(0, 2), Ok(vec![0, 0]));
    let stats = handle.stop();
    assert_eq!((stats.connections, stats.handshakes_ended, stats.exports[1].refused), (0, 1, 2));
    assert!(!socket.exists());
}

/// Compares random commands with a plain array, on two connections in turn.
fn agrees_with_an_array(storage: Storage, structured: bool, seed: u64) {
    let socket = temporary("sock");
    let export = Export::new("a", SIZE, instant()).storage(storage);
    let handle = Builder::new().export(export).unix(&socket).start().unwrap();
    let mut clients = [(); 2].map(|()| Client::connect(&socket, "a", structured));
    assert_eq!(clients[0].size_bytes, SIZE);
    assert_eq!(clients[0].flags & (1 << 7) != 0, structured, "DF goes with structured replies");
    let mut chance = Chance::new(seed);
    let mut array = vec![0u8; SIZE as usize];
    let (mut read, mut written) = (0, 0);
    for step in 0..400u32 {
        let client = &mut clients[chance.below(2) as usize];
        let longest = if chance.happens(0.02) { 3 << 20 } else { 200_000 };
        let offset = chance.below(SIZE);
        let size = (1 + chance.below(longest)).min(SIZE - offset) as u32;
        let range = offset as usize..offset as usize + size as usize;
        let flags = if chance.happens(0.2) { FUA } else { 0 };
        match chance.below(6) {
            0 | 1 => {
                let data: Vec<u8> = (0..size).map(|i| (i ^ step).wrapping_mul(0x9E37_79B1) as u8).collect();
                assert_eq!(client.ask(WRITE, flags, offset, size, &data), Ok(vec![]));
                array[range].copy_from_slice(&data);
                written += u64::from(size);
            }
            2 => {
                assert_eq!(client.ask(TRIM, flags, offset, size, &[]), Ok(vec![]));
                array[range].fill(0);
            }
            3 => {
                let flags = flags | if chance.happens(0.5) { NO_HOLE } else { 0 };
                assert_eq!(client.ask(WRITE_ZEROES, flags, offset, size, &[]), Ok(vec![]));
                array[range].fill(0);
            }
            4 => {
                assert_eq!(client.ask(FLUSH, 0, 0, 0, &[]), Ok(vec![]));
                assert_eq!(client.ask(CACHE, 0, offset, size, &[]), Ok(vec![]));
            }
            _ => {
                assert!(client.read(offset, size).unwrap() == array[range], "seed {seed}, step {step}");
                read += u64::from(size);
            }
        }
    }
    let stats = handle.stop();
    let drive = &stats.exports[0];
    assert_eq!((drive.read_bytes, drive.write_bytes, drive.failed, drive.refused), (read, written, 0, 0));
    assert!(drive.answered() >= 400);
}

#[test]
fn data_comes_back_simple_memory() {
    agrees_with_an_array(Storage::Memory, false, 1);
}

#[test]
fn data_comes_back_structured_file() {
    let path = temporary("data");
    agrees_with_an_array(Storage::File { path: path.clone(), durable: false }, true, 2);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_flushed_write_is_seen_by_every_connection() {
    let (builder, socket) = builder(instant());
    let handle = builder.start().unwrap();
    let threads: Vec<_> = (0..4u8)
        .map(|own| {
            let socket = socket.clone();
            std::thread::spawn(move || {
                let mut writer = Client::connect(&socket, "a", true);
                let mut reader = Client::connect(&socket, "a", false);
                for round in 0..40u8 {
                    let offset = u64::from(own) * 100_000 + 50;
                    let data = vec![round ^ own; 70_000];
                    writer.write(offset, &data).unwrap();
                    writer.ask(FLUSH, 0, 0, 0, &[]).unwrap();
                    assert!(reader.read(offset, 70_000).unwrap() == data);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(handle.stop().exports[0].commands[..3], [160, 160, 160]);
}

#[test]
fn what_lies_beyond_the_end_is_refused() {
    let (builder, socket) = builder(instant());
    let handle = builder.start().unwrap();
    for structured in [false, true] {
        let mut client = Client::connect(&socket, "a", structured);
        for (offset, size) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX - 4095, 4096), (1 << 63, 8)] {
            assert_eq!(client.read(offset, size), Err(EINVAL), "read {offset}+{size}");
            assert_eq!(client.write(offset, &vec![1; size as usize]), Err(ENOSPC), "write {offset}+{size}");
            assert_eq!(client.ask(TRIM, 0, offset, size, &[]), Err(EINVAL));
            assert_eq!(client.ask(WRITE_ZEROES, 0, offset, size, &[]), Err(ENOSPC));
        }
        assert_eq!(client.read(0, (32 << 20) + 1), Err(EINVAL), "longer than any payload");
        assert_eq!(client.write(0, &vec![1; (32 << 20) + 1]), Err(EINVAL));
        assert_eq!(client.read(0, 0), Err(EINVAL));
        assert_eq!(client.ask(77, 0, 0, 4096, &[]), Err(EINVAL), "unknown command");
        assert_eq!(client.ask(READ, 1 << 15, 0, 4096, &[]), Err(EINVAL), "unknown flag");
        assert_eq!(client.ask(TRIM, NO_HOLE, 0, 4096, &[]), Err(EINVAL), "a flag of another command");
        assert_eq!(client.write(SIZE - 3, b"end"), Ok(()), "the connection is as good as before");
        assert_eq!(client.read(SIZE - 3, 3), Ok(b"end".to_vec()));
    }
    assert_eq!(handle.stop().exports[0].refused, 2 * 26);
}

#[test]
fn what_cannot_be_served_is_refused_at_start() {
    let one = || Export::of_device("a", SIZE, Fixed(0));
    let socket = temporary("sock");
    let started = |builder: Builder| builder.start().err().unwrap();
    assert!(matches!(started(Builder::new().unix(&socket)), Error::NoExport));
    assert!(matches!(started(Builder::new().export(one())), Error::NoAddress));
    let two = Builder::new().export(one()).export(one()).unix(&socket);
    assert!(matches!(started(two), Error::DuplicateName { .. }));
    let empty = Builder::new().export(Export::of_device("a", 0, Fixed(0))).unix(&socket);
    assert!(matches!(started(empty), Error::Size { .. }));
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let scaled = Builder::new().export(one()).unix(&socket).time_scale(scale);
        assert!(matches!(started(scaled), Error::TimeScale { .. }));
    }
    let nowhere = Storage::File { path: "/".into(), durable: false };
    let stored = Builder::new().export(one().storage(nowhere)).unix(&socket);
    assert!(matches!(started(stored), Error::Storage { .. }));

    std::fs::write(&socket, "precious").unwrap();
    assert!(matches!(started(Builder::new().export(one()).unix(&socket)), Error::NotASocket { .. }));
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
    std::fs::remove_file(&socket).unwrap();

    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    // Another test starts programs. Until such a child runs its program, it has what we had open, the listener as well.
    let begun = Instant::now();
    let first = loop {
        match Builder::new().export(one()).unix(&socket).start() {
            Err(Error::InUse { .. }) if begun.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            started => break started.expect("a socket that was left behind is replaced"),
        }
    };
    assert!(matches!(started(Builder::new().export(one()).unix(&socket)), Error::InUse { .. }));
    Client::connect(&socket, "a", false).read(0, 1).unwrap();
    drop(first);
    assert!(!socket.exists());
}

/// Data of the options on metadata contexts.
fn contexts(export: &str, queries: &[&str]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let queries_bytes: Vec<u8> = queries.iter().flat_map(|query| text(query)).collect();
    [text(export), (queries.len() as u32).to_be_bytes().to_vec(), queries_bytes].concat()
}

/// Asks for the state of a range: lengths, and flags (3 for a hole that reads as zeros).
fn block_status(stream: &mut std::os::unix::net::UnixStream, flags: u16, offset: u64, size: u32) -> Vec<(u32, u32)> {
    stream.write_all(&request(7, flags, 9, offset, size)).unwrap();
    assert_eq!(take::<4>(stream).unwrap(), 0x668e_33efu32.to_be_bytes());
    assert_eq!(take::<4>(stream).unwrap(), [0, 1, 0, 5], "one chunk of type BLOCK_STATUS");
    assert_eq!(take::<8>(stream).unwrap(), 9u64.to_be_bytes());
    let mut data = vec![0; u32::from_be_bytes(take(stream).unwrap()) as usize];
    stream.read_exact(&mut data).unwrap();
    assert_eq!(data[..4], [0, 0, 0, 1]);
    let number = |at: &[u8]| u32::from_be_bytes(at.try_into().unwrap());
    data[4..].chunks(8).map(|pair| (number(&pair[..4]), number(&pair[4..]))).collect()
}

#[test]
fn a_refused_choice_leaves_nothing_of_an_earlier_one() {
    let socket = temporary("sock");
    let export = || linnet_nbd::Export::new("a", SIZE, Box::new(Plain(Fixed(0))));
    let _handle = linnet_nbd::Builder::new().export(export()).unix(&socket).start().unwrap();
    for refused in [contexts("b", &["base:allocation"]), vec![0; 3], vec![0; 100_000]] {
        let mut stream = greet(&socket);
        send_option(&mut stream, 8, &[]);
        assert_eq!(option_reply(&mut stream, 8), (1, vec![]));
        send_option(&mut stream, 10, &contexts("a", &["base:allocation"]));
        assert_eq!([(); 2].map(|()| option_reply(&mut stream, 10).0), [4, 1]);
        send_option(&mut stream, 10, &refused);
        assert!(option_reply(&mut stream, 10).0 > 1 << 31);
        send_option(&mut stream, 7, &go_data("a", &[]));
        assert_eq!([(); 2].map(|()| option_reply(&mut stream, 7).0), [3, 1]);
        stream.write_all(&request(7, 0, 9, 0, 4096)).unwrap();
        assert_eq!(take::<4>(&mut stream).unwrap(), 0x668e_33efu32.to_be_bytes());
        assert_eq!(take::<4>(&mut stream).unwrap(), [0, 1, 0x80, 1], "one chunk with an error");
    }
    // An export name that is too long ends the session without a word: its answer has no form for an error.
    let mut stream = greet(&socket);
    // Its length alone: the server does not wait for the rest, which would find a closed socket.
    stream.write_all(&[&b"IHAVEOPT"[..], &1u32.to_be_bytes(), &100_000u32.to_be_bytes()].concat()).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn clients_learn_which_ranges_are_stored() {
    let data = temporary("data");
    for storage in [linnet_nbd::Storage::Memory, linnet_nbd::Storage::File { path: data.clone(), durable: false }] {
        let socket = temporary("sock");
        let export = linnet_nbd::Export::new("a", SIZE, Box::new(Plain(Fixed(0)))).storage(storage);
        let handle = linnet_nbd::Builder::new().export(export).unix(&socket).start().unwrap();
        let mut stream = greet(&socket);
        send_option(&mut stream, 10, &contexts("a", &["base:allocation"]));
        assert_eq!(option_reply(&mut stream, 10).0, (1 << 31) | 3, "it needs structured replies");
        send_option(&mut stream, 8, &[]);
        option_reply(&mut stream, 8);
        for (queries, found) in [(&[][..], true), (&["base:"][..], true), (&["other:x"][..], false)] {
            send_option(&mut stream, 9, &contexts("a", queries));
            if found {
                assert_eq!(option_reply(&mut stream, 9), (4, [&[0; 4], &b"base:allocation"[..]].concat()));
            }
            assert_eq!(option_reply(&mut stream, 9), (1, vec![]));
        }
        let mut long = contexts("a", &["base:allocation"]);
        long[5..9].copy_from_slice(&u32::MAX.to_be_bytes());
        send_option(&mut stream, 10, &long);
        assert_eq!(option_reply(&mut stream, 10).0, (1 << 31) | 3);
        send_option(&mut stream, 10, &contexts("a", &["other:x", "base:allocation"]));
        assert_eq!(option_reply(&mut stream, 10), (4, [&1u32.to_be_bytes(), &b"base:allocation"[..]].concat()));
        assert_eq!(option_reply(&mut stream, 10), (1, vec![]));
        send_option(&mut stream, 7, &go_data("a", &[]));
        option_reply(&mut stream, 7);
        option_reply(&mut stream, 7);

        let mut other = Client::connect(&socket, "a", true);
        other.write(1 << 20, &[7; 65_536]).unwrap();
        let size = SIZE as u32;
        let all = [(1 << 20, 3), (65_536, 0), (size - (1 << 20) - 65_536, 3)];
        assert_eq!(block_status(&mut stream, 0, 0, size), all);
        assert_eq!(block_status(&mut stream, 1 << 3, 4096, size - 4096), [((1 << 20) - 4096, 3)]);
        assert_eq!(block_status(&mut stream, 0, (1 << 20) + 512, 1024), [(1024, 0)]);
        // Beyond the end, and from a client that did not ask for the context.
        stream.write_all(&request(7, 0, 9, SIZE - 512, 1024)).unwrap();
        assert_eq!(take::<8>(&mut stream).unwrap()[4..], [0, 1, 0x80, 1], "an error in structured form");
        assert_eq!(other.ask(7, 0, 0, 512, &[]), Err(EINVAL));
        handle.stop();
    }
    std::fs::remove_file(data).unwrap();
}

#[test]
fn zeros_without_a_hole_are_stored() {
    let data = temporary("data");
    for storage in [Storage::Memory, Storage::File { path: data.clone(), durable: false }] {
        let in_file = storage != Storage::Memory;
        let socket = temporary("sock");
        let export = Export::new("a", SIZE, instant()).storage(storage);
        let handle = Builder::new().export(export).unix(&socket).start().unwrap();
        let stored_bytes = || match in_file {
            true => 512 * std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&data).unwrap()),
            false => handle.stats().exports[0].memory_bytes,
        };
        let mut client = Client::connect(&socket, "a", true);
        client.ask(WRITE_ZEROES, 0, 0, 4 << 20, &[]).unwrap();
        assert!(stored_bytes() < 1 << 20, "a hole is enough");
        client.ask(WRITE_ZEROES, NO_HOLE, 0, 4 << 20, &[]).unwrap();
        assert!(stored_bytes() >= 4 << 20, "{} bytes, in a file: {in_file}", stored_bytes());
        client.write(1 << 20, &[7; 65_536]).unwrap();
        client.ask(WRITE_ZEROES, NO_HOLE | FUA, 1 << 20, 65_536, &[]).unwrap();
        assert!(stored_bytes() >= 4 << 20);
        assert_eq!(client.read(1 << 20, 65_536), Ok(vec![0; 65_536]));
        handle.stop();
    }
    std::fs::remove_file(data).unwrap();
}

#[test]
fn small_writes_take_their_own_size_of_memory() {
    let (builder, socket) = builder(instant());
    let handle = builder.start().unwrap();
    let mut client = Client::connect(&socket, "a", true);
    for chunk in 0..SIZE >> 16 {
        client.write((chunk << 16) + 4096 * (chunk % 16), &[7; 4096]).unwrap();
    }
    assert_eq!(handle.stop().exports[0].memory_bytes, SIZE >> 4);
}

#[test]
fn a_drive_without_memory_is_full() {
    let (builder, socket) = builder(instant());
    let handle = builder.memory_left(|| Some(1 << 20)).start().unwrap();
    let mut client = Client::connect(&socket, "a", true);
    assert_eq!(client.write(0, &[7; 4096]), Err(ENOSPC));
    assert_eq!(client.ask(WRITE_ZEROES, NO_HOLE, 0, 4096, &[]), Err(ENOSPC));
    assert_eq!(client.ask(WRITE_ZEROES, 0, 0, 4096, &[]), Ok(vec![]));
    assert_eq!(client.read(0, 4096), Ok(vec![0; 4096]));
    let stats = handle.stop();
    let drive = &stats.exports[0];
    assert_eq!((drive.failed, drive.no_space, drive.memory_bytes), (2, 2, 0));
    assert_eq!((drive.commands[1], drive.write_bytes, drive.read_bytes), (1, 0, 4096));
    assert!(stats.to_json().contains(r#""write_bytes":0,"failed":2,"no_space":2,"lost":0"#));
}
