// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that disconnect, lie or send garbage. After each of them the server must serve the next client normally.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::*;
use linnet_nbd::{Handle, Plain};
use linnet_sim::Chance;

/// Checks that the server still serves, and that only our connection remains open.
fn still_well(handle: &Handle, socket: &Path) {
    let mut client = Client::connect(socket, "a", true);
    client.write(4096, b"well").unwrap();
    assert_eq!(client.read(4096, 4), Ok(b"well".to_vec()));
    let begun = Instant::now();
    while handle.stats().connections > 1 {
        assert!(begun.elapsed() < Duration::from_secs(10), "a connection is never given up: {:?}", handle.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn leaving_in_the_middle_harms_nobody() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(2_000_000))));
    let handle = builder.start().unwrap();
    let whole = [request(WRITE, 0, 1, 0, 100_000), vec![7; 100_000]].concat();
    for cut in [1, 4, 27, 28, 29, 5000, 99_999] {
        let mut client = Client::connect(&socket, "a", false);
        client.stream.write_all(&whole[..cut]).unwrap();
    }
    for _ in 0..8 {
        // A full queue of reads whose answers the client does not wait for.
        let mut client = Client::connect(&socket, "a", true);
        for i in 0..500 {
            client.send(READ, 0, i * 4096, 4096, &[]);
        }
    }
    still_well(&handle, &socket);
    assert_eq!(Client::connect(&socket, "a", true).read(0, 4), Ok(vec![0; 4]), "half a write is no write");
    drop(handle);
}

#[test]
fn a_half_closed_client_gets_its_answers() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(5_000_000))));
    let handle = builder.start().unwrap();
    for polite in [false, true] {
        let mut client = Client::connect(&socket, "a", true);
        for i in 0..50 {
            client.send(READ, 0, i * 4096, 4096, &[]);
        }
        if polite {
            client.send(DISC, 0, 0, 0, &[]);
        } else {
            client.stream.write_all(&[1, 2, 3]).unwrap();
            client.stream.shutdown(Shutdown::Write).unwrap();
        }
        for _ in 0..50 {
            assert_eq!(client.reply(|_| 0).unwrap().data.len(), 4096);
        }
        assert!(client.closed());
    }
    still_well(&handle, &socket);
}

#[test]
fn a_client_that_reads_nothing_is_not_read_from() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.inflight_bytes_max(4 << 20).start().unwrap();
    let mut client = Client::connect(&socket, "a", true);
    client.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    // 64 KiB per request: after 4 MiB of replies the server stops reading, then the socket fills with requests.
    let mut sent = 0u64;
    let refused = loop {
        match client.stream.write(&request(READ, 0, sent, 0, 65_536)) {
            Ok(28) => sent += 1,
            Ok(_) => break true,
            Err(_) => break true,
        }
        if sent > 200_000 {
            break false;
        }
    };
    assert!(refused, "{sent} requests were taken without an end");
    still_well_beside(&handle, &socket);
    drop(client);
    still_well(&handle, &socket);
}

fn still_well_beside(handle: &Handle, socket: &Path) {
    let mut other = Client::connect(socket, "a", false);
    other.write(0, b"other").unwrap();
    assert_eq!(other.read(0, 5), Ok(b"other".to_vec()));
    assert_eq!(handle.stats().connections, 2);
}

#[test]
fn stopping_cuts_whoever_is_connected() {
    // Nothing ends by itself earlier.
    let long = Duration::from_secs(180);
    let (builder, socket) = builder(Box::new(Plain(Fixed(long.as_nanos() as u64))));
    let handle = builder.handshake_max(long).start().unwrap();
    let mut waiting = Client::connect(&socket, "a", true);
    waiting.send(READ, 0, 0, 4096, &[]);
    let mut silent = UnixStream::connect(&socket).unwrap();
    let mut half = Client::connect(&socket, "a", true);
    half.send(READ, 0, 0, 4096, &[]);
    half.stream.shutdown(Shutdown::Write).unwrap();
    let begun = Instant::now();
    let stats = handle.stop();
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!((stats.connections, stats.exports[0].answered()), (0, 0));
    assert!(waiting.closed() && half.closed());
    silent.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn connections_beyond_the_limit_are_turned_away() {
    let (builder, socket) = builder(Box::new(ByOffset));
    let handle = builder.connections_max(2).start().unwrap();
    let mut kept = [(); 2].map(|()| Client::connect(&socket, "a", false));
    // However long this test pauses, they are not idle and do not make way.
    kept.iter_mut().for_each(Client::open_a_request);
    let mut third = UnixStream::connect(&socket).unwrap();
    assert_eq!(third.read(&mut [0; 8]).unwrap(), 0);
    kept.iter_mut().for_each(|client| client.write(6 << 20, b"here").unwrap());
    assert_eq!(handle.stop().connections_refused, 1);
}

/// Sends bytes that may violate the protocol, then disconnects. The server may answer or close at any time.
fn babble(mut stream: UnixStream, bytes: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    stream.set_nonblocking(false).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn random_bytes_harm_nobody() {
    let seed = std::env::var("LINNET_NBD_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
    println!("seed {seed}; repeat with LINNET_NBD_SEED={seed}");
    let (builder, socket) = builder(Box::new(Plain(InOrder { last: 0, asked: 0 })));
    let handle = builder.start().unwrap();
    let mut chance = Chance::new(seed);
    let mut noise = |most: u64| -> Vec<u8> { (0..chance.below(most)).map(|_| chance.bits() as u8).collect() };
    for _ in 0..40 {
        // Random bytes at once, after the greeting, and after the handshake.
        babble(UnixStream::connect(&socket).unwrap(), &noise(300));
        babble(greet(&socket), &noise(300));
        babble(Client::connect(&socket, "a", true).stream, &noise(3000));
    }
    let mut chance = Chance::new(seed).fork(1);
    for _ in 0..150 {
        // Valid requests with a few flipped bits; most of these pass the check of the magic.
        let mut bytes = Vec::new();
        for cookie in 0..1 + chance.below(20) {
            let size = chance.below(20_000) as u32;
            let command = chance.below(8) as u16;
            bytes.extend(request(command, chance.below(4) as u16, cookie, chance.below(2 * SIZE), size));
            bytes.resize(bytes.len() + if command == WRITE { size as usize } else { 0 }, 0x55);
        }
        for _ in 0..chance.below(4) {
            let at = chance.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << chance.below(8);
        }
        babble(Client::connect(&socket, "a", chance.happens(0.5)).stream, &bytes);
        // The same for options.
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend_from_slice(&(1 + chance.below(11) as u32).to_be_bytes());
        let data = go_data("a", &[1, 3]);
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&data);
        let at = chance.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << chance.below(8);
        babble(greet(&socket), &bytes);
    }
    still_well(&handle, &socket);
    let stats = handle.stop();
    assert!(stats.garbled > 40, "noise was understood: {stats:?}");
}

#[test]
fn slow_handshakes_keep_nobody_out() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.connections_max(4).handshake_max(Duration::from_secs(3600)).start().unwrap();
    let mut silent: Vec<UnixStream> = (0..4).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    // A byte now and then does not make a client one that stays.
    silent.iter_mut().for_each(|client| client.write_all(&[0]).unwrap());
    let mut good = served_at_last(&socket);
    good.write(0, b"good").unwrap();
    assert_eq!(good.read(0, 4), Ok(b"good".to_vec()));
    assert!(handle.stop().connections_displaced > 0);
}

#[test]
fn a_handshake_ends_however_slowly_it_goes() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.handshake_max(Duration::from_millis(400)).start().unwrap();
    // Flags, and the head of an option that is so long that it is never complete. The server may end the handshake
    // before these are sent.
    let head = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &7u32.to_be_bytes(), &4000u32.to_be_bytes()].concat();
    let mut slow = UnixStream::connect(&socket).unwrap();
    let begun = Instant::now();
    let _ = slow.write_all(&head);
    while slow.write_all(b"I").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "each byte gave it more time");
        std::thread::sleep(Duration::from_millis(50));
    }
    let stats = handle.stop();
    assert_eq!((stats.handshakes_ended, stats.garbled), (1, 0));
}

#[test]
fn idle_clients_make_way_and_busy_ones_stay() {
    let (builder, socket) = builder(Box::new(ByOffset));
    let handle = builder.connections_max(2).start().unwrap();
    let mut busy = Client::connect(&socket, "a", true);
    busy.open_a_request();
    let mut idle = Client::connect(&socket, "a", true);
    let _new = served_at_last(&socket);
    assert!(idle.closed());
    busy.write(6 << 20, b"here").unwrap();
    handle.stop();
}

#[test]
fn memory_is_bounded_for_all_clients_together() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.bytes_max(8 << 20).start().unwrap();
    // Sixteen clients ask for 64 MiB each and read nothing of it: 1 GiB, of which 8 MiB are held.
    let mut greedy: Vec<Client> = (0..16).map(|_| Client::connect(&socket, "a", true)).collect();
    for client in &mut greedy {
        for _ in 0..16 {
            client.send(READ, 0, 0, 4 << 20, &[]);
        }
    }
    let begun = Instant::now();
    while handle.stats().bytes_left > 4 << 20 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody took from the budget");
    }
    // Small requests of others are served meanwhile.
    let mut good = Client::connect(&socket, "a", true);
    for round in 0..100u64 {
        good.write(round * 4096, &[round as u8; 4096]).unwrap();
        assert_eq!(good.read(round * 4096, 4096), Ok(vec![round as u8; 4096]));
    }
    // What the greedy ones held comes back when they leave, and when they read.
    let last = greedy.pop();
    drop(greedy);
    let mut last = last.unwrap();
    for _ in 0..16 {
        assert_eq!(last.reply(|_| 0).unwrap().data.len(), 4 << 20);
    }
    good.write(0, &vec![7; 4 << 20]).unwrap();
    assert_eq!(good.read(0, 4 << 20), Ok(vec![7; 4 << 20]));
    drop((last, good));
    let begun = Instant::now();
    while handle.stats().connections > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(handle.stop().bytes_left, 8 << 20, "all of the budget is back");
}

#[test]
fn who_takes_no_reply_or_ends_no_request_is_let_go() {
    let (builder, socket) = builder(Box::new(Plain(Fixed(0))));
    let handle = builder.stall_max(Duration::from_secs(2)).start().unwrap();
    let mut half = Client::connect(&socket, "a", true);
    half.stream.write_all(&request(WRITE, 0, 1, 0, 4096)).unwrap();
    let mut deaf = Client::connect(&socket, "a", true);
    // If this fails, it owes nothing and is not let go.
    let _ = deaf.stream.write_all(&request(READ, 0, 1, 0, 4 << 20).repeat(4));
    let mut idle = Client::connect(&socket, "a", true);
    let begun = Instant::now();
    while handle.stats().connections > 1 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", handle.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
    // Bytes of a request that come one by one do not prolong it.
    let mut dribble = Client::connect(&socket, "a", true);
    dribble.stream.write_all(&request(WRITE, 0, 1, 0, 4096)).unwrap();
    let begun = Instant::now();
    while dribble.stream.write_all(&[0]).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    idle.write(0, b"still here").unwrap();
    assert!(half.closed());
    handle.stop();
}
