// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client of NBD exports: newstyle handshake, simple replies, any number of requests in flight. Written from the
//! protocol (`doc/proto.md` of the NBD project). All integers are big endian.
//!
//! The server is not trusted: its handshake must end in time, what it says has bounded lengths, it may answer only what
//! was asked, once, and it must take requests in time. How long it takes to answer is for the caller to judge.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use linnet_types::{Op, Request};

use crate::Error;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
const COMMAND_DISCONNECT: u16 = 2;
/// Longest answer to an option that is accepted.
const OPTION_BYTES_MAX: u32 = 1 << 16;
/// The server must end the handshake in this time.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// It must take a part of a request in this time.
const SEND_MAX: Duration = Duration::from_secs(60);
/// It need not take our farewell.
const FAREWELL_MAX: Duration = Duration::from_millis(200);
/// Exports that are smaller have no sector.
const SECTOR_BYTES: u64 = 512;
/// Longest request that every server accepts.
pub(crate) const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// At a Unix socket.
    Unix(PathBuf),
    /// At host:port.
    Tcp(String),
}

/// Parses the address of an export: its server, and its name.
///
/// # Errors
/// [`Error::Uri`] if it is not an address.
pub fn parse_uri(uri: &str) -> Result<(Target, String), Error> {
    let wrong = || Error::Uri { uri: uri.to_owned() };
    if let Some(rest) = uri.strip_prefix("nbd+unix:///") {
        let (name, socket) = rest.split_once("?socket=").ok_or_else(wrong)?;
        return Ok((Target::Unix(PathBuf::from(decode(socket).ok_or_else(wrong)?)), decode(name).ok_or_else(wrong)?));
    }
    let rest = uri.strip_prefix("nbd://").ok_or_else(wrong)?;
    let (host, name) = rest.split_once('/').ok_or_else(wrong)?;
    Ok((Target::Tcp(host.to_owned()), decode(name).ok_or_else(wrong)?))
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
            bytes.push((digit(rest.next())? * 16 + digit(rest.next())?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

trait Socket: Read + Write + Send {
    /// Shuts down both directions, which ends a pending read.
    fn close(&self) -> io::Result<()>;
    /// The longest that one read and one write may wait, here and in clones of the socket. None: for ever.
    fn limit(&self, read: Option<Duration>, write: Duration) -> io::Result<()>;
}

macro_rules! socket {
    ($stream:ty) => {
        impl Socket for $stream {
            fn close(&self) -> io::Result<()> {
                self.shutdown(Shutdown::Both)
            }

            fn limit(&self, read: Option<Duration>, write: Duration) -> io::Result<()> {
                self.set_read_timeout(read)?;
                self.set_write_timeout(Some(write))
            }
        }
    };
}
socket!(UnixStream);
socket!(TcpStream);

/// The handshake's socket: reads end at the deadline, however the server spreads its bytes.
struct Timed<'a> {
    socket: &'a mut dyn Socket,
    deadline: Instant,
}

impl Timed<'_> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, mut rest: &mut [u8]) -> io::Result<()> {
        while !rest.is_empty() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late());
            }
            self.socket.limit(Some(left), left)?;
            match self.socket.read(rest) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
                Ok(got) => rest = &mut rest[got..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(late()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Says what a write that timed out means.
fn stuck(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::WouldBlock {
        return error;
    }
    io::Error::new(io::ErrorKind::TimedOut, format!("the server did not take a request in {} s", SEND_MAX.as_secs()))
}

fn late() -> io::Error {
    let text = format!("the server did not end the handshake in {} s", HANDSHAKE_MAX.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// The requests in flight: the bytes that the answer to each will carry.
type Flying = Arc<Mutex<HashMap<u64, u32>>>;

/// The sending half of a connection.
pub(crate) struct Sender {
    socket: Box<dyn Socket>,
    flying: Flying,
    /// Size of the export in whole sectors, one at least.
    pub size_bytes: u64,
    pattern: Vec<u8>,
}

/// The receiving half.
pub(crate) struct Receiver {
    socket: Box<dyn Socket>,
    flying: Flying,
    scratch: Vec<u8>,
}

/// An answer: the request's cookie, and whether it succeeded.
pub(crate) struct Answer {
    pub cookie: u64,
    pub ok: bool,
}

/// Connects to an export.
pub(crate) fn connect(uri: &str) -> Result<(Sender, Receiver), Error> {
    let (target, name) = parse_uri(uri)?;
    let failed = |problem: String| Error::Connect { uri: uri.to_owned(), problem };
    let (mut socket, other): (Box<dyn Socket>, Box<dyn Socket>) = match &target {
        Target::Unix(path) => {
            let socket = UnixStream::connect(path).map_err(|error| failed(error.to_string()))?;
            (Box::new(socket.try_clone().map_err(|error| failed(error.to_string()))?), Box::new(socket))
        }
        Target::Tcp(host) => {
            let socket = TcpStream::connect(host).map_err(|error| failed(error.to_string()))?;
            socket.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
            (Box::new(socket.try_clone().map_err(|error| failed(error.to_string()))?), Box::new(socket))
        }
    };
    let size_bytes = handshake(&mut *socket, &name, Instant::now() + HANDSHAKE_MAX)
        .and_then(|size_bytes| socket.limit(None, SEND_MAX).map(|()| size_bytes))
        .map_err(|error| failed(error.to_string()))?;
    let flying = Flying::default();
    Ok((
        Sender { socket, flying: flying.clone(), size_bytes, pattern: Vec::new() },
        Receiver { socket: other, flying, scratch: Vec::new() },
    ))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Chooses the export and returns its size.
fn handshake(socket: &mut dyn Socket, name: &str, deadline: Instant) -> io::Result<u64> {
    let mut from = Timed { socket, deadline };
    if u64::from_be_bytes(from.array()?) != MAGIC || u64::from_be_bytes(from.array()?) != OPTION_MAGIC {
        return Err(invalid("the peer is not a newstyle NBD server"));
    }
    from.array::<2>()?;
    let mut hello = Vec::new();
    // Client flags: fixed newstyle, no zeroes.
    hello.extend_from_slice(&3u32.to_be_bytes());
    hello.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    hello.extend_from_slice(&OPTION_GO.to_be_bytes());
    hello.extend_from_slice(&(name.len() as u32 + 6).to_be_bytes());
    hello.extend_from_slice(&(name.len() as u32).to_be_bytes());
    hello.extend_from_slice(name.as_bytes());
    hello.extend_from_slice(&0u16.to_be_bytes());
    from.socket.write_all(&hello)?;
    let mut size_bytes = None;
    loop {
        if u64::from_be_bytes(from.array()?) != OPTION_REPLY_MAGIC || u32::from_be_bytes(from.array()?) != OPTION_GO {
            return Err(invalid("the server answers out of turn"));
        }
        let kind = u32::from_be_bytes(from.array()?);
        let length = u32::from_be_bytes(from.array()?);
        if length > OPTION_BYTES_MAX {
            return Err(invalid("the server's answer is absurdly long"));
        }
        let mut body = vec![0; length as usize];
        from.fill(&mut body)?;
        match kind {
            REPLY_ACK => match size_bytes {
                None => return Err(invalid("the server gave no size")),
                Some(bytes) if bytes < SECTOR_BYTES => {
                    return Err(invalid(&format!("the export has {bytes} bytes; it needs a sector of {SECTOR_BYTES}")));
                }
                Some(bytes) => return Ok(bytes / SECTOR_BYTES * SECTOR_BYTES),
            },
            REPLY_INFO if body.len() >= 12 && body[..2] == INFO_EXPORT.to_be_bytes() => {
                let mut size = [0; 8];
                size.copy_from_slice(&body[2..10]);
                size_bytes = Some(u64::from_be_bytes(size));
            }
            REPLY_INFO => {}
            _ => return Err(invalid(&format!("the server refuses export {name:?}"))),
        }
    }
}

impl Sender {
    /// Sends a request with this cookie. The offset wraps around the export, as in modelled devices. The length is cut
    /// at the end of the export and at the longest request that every server accepts.
    pub fn send(&mut self, cookie: u64, request: &Request) -> io::Result<()> {
        // Whole sectors, which every server accepts; so is the size.
        let offset = request.offset_bytes / SECTOR_BYTES * SECTOR_BYTES % self.size_bytes;
        let wanted = request.size_bytes.div_ceil(512).saturating_mul(512).min(REQUEST_BYTES_MAX);
        let size = u64::from(wanted).min(self.size_bytes - offset) as u32;
        let mut head = Vec::with_capacity(28);
        head.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        head.extend_from_slice(&0u16.to_be_bytes());
        head.extend_from_slice(&u16::from(request.op == Op::Write).to_be_bytes());
        head.extend_from_slice(&cookie.to_be_bytes());
        head.extend_from_slice(&offset.to_be_bytes());
        head.extend_from_slice(&size.to_be_bytes());
        let answered = if request.op == Op::Read { size } else { 0 };
        self.flying.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie, answered);
        if request.op == Op::Read {
            return self.socket.write_all(&head).map_err(stuck);
        }
        if self.pattern.len() < size as usize {
            self.pattern.resize(size as usize, 0x5a);
        }
        self.socket.write_all(&head).map_err(stuck)?;
        self.socket.write_all(&self.pattern[..size as usize]).map_err(stuck)
    }

    /// Sends a disconnect and closes the connection.
    pub fn disconnect(&mut self) -> io::Result<()> {
        let mut head = Vec::with_capacity(28);
        head.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        head.extend_from_slice(&0u16.to_be_bytes());
        head.extend_from_slice(&COMMAND_DISCONNECT.to_be_bytes());
        head.extend_from_slice(&[0; 20]);
        let told = self.socket.limit(None, FAREWELL_MAX).and_then(|()| self.socket.write_all(&head));
        self.socket.close().and(told)
    }
}

impl Receiver {
    /// Waits for the next answer; `None` after the server has closed the connection.
    pub fn next(&mut self) -> io::Result<Option<Answer>> {
        let mut head = [0; 16];
        match self.socket.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if word(0) != REPLY_MAGIC {
            return Err(invalid("the server's answer is garbled"));
        }
        let ok = word(4) == 0;
        let cookie = u64::from(word(8)) << 32 | u64::from(word(12));
        let Some(size) = self.flying.lock().unwrap_or_else(PoisonError::into_inner).remove(&cookie) else {
            return Err(invalid("the server answers what was not asked"));
        };
        if ok {
            self.scratch.resize(size as usize, 0);
            self.socket.read_exact(&mut self.scratch)?;
        }
        Ok(Some(Answer { cookie, ok }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves() -> (Sender, Receiver, UnixStream) {
        let (ours, server) = UnixStream::pair().unwrap();
        ours.limit(None, Duration::from_millis(100)).unwrap();
        let (flying, other) = (Flying::default(), ours.try_clone().unwrap());
        let sender =
            Sender { socket: Box::new(ours), flying: flying.clone(), size_bytes: 1 << 30, pattern: Vec::new() };
        (sender, Receiver { socket: Box::new(other), flying, scratch: Vec::new() }, server)
    }

    fn reply(kind: u32, body: &[u8]) -> Vec<u8> {
        let head = [OPTION_REPLY_MAGIC.to_be_bytes().to_vec(), OPTION_GO.to_be_bytes().to_vec()].concat();
        [head, kind.to_be_bytes().to_vec(), (body.len() as u32).to_be_bytes().to_vec(), body.to_vec()].concat()
    }

    fn greeting() -> Vec<u8> {
        [&MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &3u16.to_be_bytes()].concat()
    }

    fn size(bytes: u64) -> Vec<u8> {
        reply(REPLY_INFO, &[&INFO_EXPORT.to_be_bytes()[..], &bytes.to_be_bytes(), &1u16.to_be_bytes()].concat())
    }

    fn hands(bytes: &[u8]) -> io::Result<u64> {
        let (mut ours, mut server) = UnixStream::pair().unwrap();
        server.write_all(bytes).unwrap();
        handshake(&mut ours, "a", Instant::now() + Duration::from_millis(300))
    }

    #[test]
    fn a_handshake_ends_in_time_however_the_server_spreads_it() {
        let (mut ours, mut server) = UnixStream::pair().unwrap();
        let slow = std::thread::spawn(move || {
            server.write_all(&greeting()).unwrap();
            // Valid information for ever, each byte soon after the last.
            for byte in size(1 << 20).into_iter().cycle() {
                std::thread::sleep(Duration::from_millis(5));
                if server.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        let begun = Instant::now();
        let error = handshake(&mut ours, "a", begun + Duration::from_millis(300)).unwrap_err();
        assert!(error.to_string().contains("did not end the handshake"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        drop(ours);
        slow.join().unwrap();
    }

    #[test]
    fn exports_have_whole_sectors_and_at_least_one() {
        let of = |bytes| hands(&[greeting(), size(bytes), reply(REPLY_ACK, &[])].concat());
        assert_eq!((of(1 << 20).unwrap(), of(1025).unwrap()), (1 << 20, 1024));
        for bytes in [0, 511] {
            assert!(of(bytes).unwrap_err().to_string().contains("needs a sector of 512"));
        }
        let none = hands(&[greeting(), reply(REPLY_ACK, &[])].concat()).unwrap_err();
        assert!(none.to_string().contains("gave no size"), "{none}");
    }

    #[test]
    fn only_what_was_asked_is_answered_and_once() {
        let answer = |cookie: u64| [&REPLY_MAGIC.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes()].concat();
        let (mut sender, mut receiver, mut server) = halves();
        sender.send(7, &Request::new(Op::Write, 0, 512)).unwrap();
        server.write_all(&[answer(7), answer(7)].concat()).unwrap();
        assert!(receiver.next().unwrap().is_some_and(|answer| answer.cookie == 7 && answer.ok));
        let twice = receiver.next().err().unwrap();
        assert!(twice.to_string().contains("what was not asked"), "{twice}");
    }

    #[test]
    fn a_server_that_takes_nothing_keeps_nobody() {
        let (mut sender, _receiver, _server) = halves();
        let begun = Instant::now();
        let stuck = (0..100).find_map(|cookie| sender.send(cookie, &Request::new(Op::Write, 0, 1 << 20)).err());
        assert_eq!(stuck.map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
        assert!(sender.disconnect().is_err());
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn addresses_are_read_and_others_refused() {
        let (target, name) = parse_uri("nbd+unix:///drive%200?socket=/tmp/a%2Bb.sock").unwrap();
        assert_eq!((target, name.as_str()), (Target::Unix("/tmp/a+b.sock".into()), "drive 0"));
        let (target, name) = parse_uri("nbd://127.0.0.1:10809/d").unwrap();
        assert_eq!((target, name.as_str()), (Target::Tcp("127.0.0.1:10809".into()), "d"));
        for wrong in ["/dev/sda", "nbd+unix:///x", "nbd://host", "nbd+unix:///%zz?socket=/s", ""] {
            assert!(parse_uri(wrong).unwrap_err().to_string().contains("nbd+unix:///EXPORT"), "{wrong}");
        }
    }
}
