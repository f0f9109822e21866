// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small NBD client and devices with simple latencies, for the tests. Written from the protocol, not from the server.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use linnet_nbd::{Builder, Drive, Export};
use linnet_types::{LatencyModel, Nanos, Op, Outcome, Request};

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;

pub const SIZE: u64 = 8 << 20;

/// Every request takes this long.
pub struct Fixed(pub Nanos);

impl LatencyModel for Fixed {
    fn submit(&mut self, now: Nanos, _: &Request) -> Outcome {
        Outcome::Done(now + self.0)
    }
}

/// Latency depends on the mebibyte of the offset: in the first it is 150 ms; in the second requests fail; in the third
/// they are lost; in the fourth the model panics; in the fifth it is an hour; all others answer at once. A flush takes
/// 100 ms, a trim 50 ms.
pub struct ByOffset;

impl LatencyModel for ByOffset {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        match request.offset_bytes >> 20 {
            0 => Outcome::Done(now + 150_000_000),
            1 => Outcome::Error(now + 1_000_000),
            2 => Outcome::Lost,
            3 => panic!("a model with a defect"),
            4 => Outcome::Done(now + 3_600_000_000_000),
            _ => Outcome::Done(now),
        }
    }
}

impl Drive for ByOffset {
    fn flush(&mut self, now: Nanos) -> Nanos {
        now + 100_000_000
    }

    fn trim(&mut self, now: Nanos, _: u64, _: u64) -> Nanos {
        now + 50_000_000
    }
}

/// Answers at once, and panics if `now` goes back or a request is invalid.
pub struct InOrder {
    pub last: Nanos,
    pub asked: u64,
}

impl LatencyModel for InOrder {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        assert!(now >= self.last, "time went back");
        assert!(request.size_bytes > 0 && request.size_bytes <= 1 << 20);
        assert!(request.op == Op::Read || request.op == Op::Write);
        self.last = now;
        self.asked += 1;
        Outcome::Done(now)
    }
}

/// A path for a socket or file that no other test uses.
pub fn temporary(what: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("linnet-nbd-{}-{number}-{what}", std::process::id()))
}

/// A server of one 8 MiB drive called `a`, and its socket.
pub fn builder(drive: Box<dyn Drive>) -> (Builder, PathBuf) {
    let socket = temporary("sock");
    (Builder::new().export(Export::new("a", SIZE, drive)).unix(&socket), socket)
}

pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub data: Vec<u8>,
}

/// One connection.
pub struct Client {
    pub stream: UnixStream,
    pub structured: bool,
    pub size_bytes: u64,
    pub flags: u16,
    next_cookie: u64,
}

pub fn take<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Connects and answers the greeting with the flags for fixed newstyle and no zeroes.
pub fn greet(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(&take::<8>(&mut stream).unwrap(), b"NBDMAGIC");
    assert_eq!(&take::<8>(&mut stream).unwrap(), b"IHAVEOPT");
    assert_eq!(take::<2>(&mut stream).unwrap(), [0, 3]);
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    stream
}

pub fn send_option(stream: &mut UnixStream, option: u32, data: &[u8]) {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    stream.write_all(&bytes).unwrap();
}

/// The kind and data of one option reply.
pub fn option_reply(stream: &mut UnixStream, option: u32) -> (u32, Vec<u8>) {
    assert_eq!(take::<8>(stream).unwrap(), 0x0003_e889_0455_65a9u64.to_be_bytes());
    assert_eq!(take::<4>(stream).unwrap(), option.to_be_bytes());
    let kind = u32::from_be_bytes(take(stream).unwrap());
    let mut data = vec![0; u32::from_be_bytes(take(stream).unwrap()) as usize];
    stream.read_exact(&mut data).unwrap();
    (kind, data)
}

/// Data of NBD_OPT_INFO and NBD_OPT_GO.
pub fn go_data(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    kinds.iter().for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
    data
}

impl Client {
    pub fn connect(socket: &Path, name: &str, structured: bool) -> Client {
        let mut stream = greet(socket);
        if structured {
            send_option(&mut stream, 8, &[]);
            assert_eq!(option_reply(&mut stream, 8), (1, vec![]));
        }
        send_option(&mut stream, 7, &go_data(name, &[]));
        let (kind, data) = option_reply(&mut stream, 7);
        assert_eq!((kind, data.len()), (3, 12));
        let size_bytes = u64::from_be_bytes(data[2..10].try_into().unwrap());
        let flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
        assert_eq!(option_reply(&mut stream, 7), (1, vec![]));
        Client { stream, structured, size_bytes, flags, next_cookie: 1 << 60 }
    }

    /// Sends a request and returns its cookie.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, size: u32, payload: &[u8]) -> u64 {
        self.next_cookie += 1;
        self.stream.write_all(&request(command, flags, self.next_cookie, offset, size)).unwrap();
        self.stream.write_all(payload).unwrap();
        self.next_cookie
    }

    /// The next reply; `read` returns how many bytes a successful simple reply to this cookie carries.
    pub fn reply(&mut self, read: impl Fn(u64) -> u32) -> io::Result<Reply> {
        let magic = u32::from_be_bytes(take(&mut self.stream)?);
        if magic == 0x6744_6698 {
            let error = u32::from_be_bytes(take(&mut self.stream)?);
            let cookie = u64::from_be_bytes(take(&mut self.stream)?);
            let size = if error == 0 { read(cookie) } else { 0 };
            assert!(!self.structured || size == 0, "a read must be answered by a structured reply");
            let mut data = vec![0; size as usize];
            self.stream.read_exact(&mut data)?;
            return Ok(Reply { cookie, error, data });
        }
        assert_eq!(magic, 0x668e_33ef);
        assert!(self.structured, "structured reply that was not negotiated");
        let [_, done, high, kind] = take(&mut self.stream)?;
        assert_eq!(done, 1, "each reply is one chunk");
        let cookie = u64::from_be_bytes(take(&mut self.stream)?);
        let mut data = vec![0; u32::from_be_bytes(take(&mut self.stream)?) as usize];
        self.stream.read_exact(&mut data)?;
        match (high, kind) {
            (0, 1) => Ok(Reply { cookie, error: 0, data: data.split_off(8) }),
            (0x80, 1) => {
                let message = u16::from_be_bytes(data[4..6].try_into().unwrap());
                assert_eq!(data.len(), 6 + usize::from(message));
                Ok(Reply { cookie, error: u32::from_be_bytes(data[..4].try_into().unwrap()), data: vec![] })
            }
            other => panic!("chunk type {other:?}"),
        }
    }

    /// Sends a request and waits for its reply.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, size: u32, payload: &[u8]) -> Result<Vec<u8>, u32> {
        let cookie = self.send(command, flags, offset, size, payload);
        let reply = self.reply(|_| if command == READ { size } else { 0 }).unwrap();
        assert_eq!(reply.cookie, cookie);
        if reply.error == 0 { Ok(reply.data) } else { Err(reply.error) }
    }

    pub fn read(&mut self, offset: u64, size: u32) -> Result<Vec<u8>, u32> {
        self.ask(READ, 0, offset, size, &[])
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), u32> {
        self.ask(WRITE, 0, offset, data.len() as u32, data).map(|_| ())
    }

    /// Sends a read that [`ByOffset`] keeps open for an hour, and returns when the server counts this client as busy: it
    /// notes that before it answers the request that comes next.
    pub fn open_a_request(&mut self) {
        self.send(READ, 0, 4 << 20, 512, &[]);
        self.read(6 << 20, 512).unwrap();
    }

    /// Whether the server has closed the connection, after any replies that it still sent.
    pub fn closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// Connects as often as the server allows a client to try, until it is served.
pub fn served_at_last(socket: &Path) -> Client {
    let begun = Instant::now();
    loop {
        // The helper panics when its connection is closed before the greeting.
        if let Ok(client) = std::panic::catch_unwind(|| Client::connect(socket, "a", true)) {
            return client;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "a good client is never served");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, size: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes
}
