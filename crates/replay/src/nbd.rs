// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client of NBD exports: newstyle handshake, simple replies, any number of requests in flight. Written from the
//! protocol (`doc/proto.md` of the NBD project). All integers are big endian.
//!
//! The server is not trusted: its handshake must end in time, what it says has bounded lengths, it may answer only what
//! was asked, once, and it must take requests in time. How long it takes to answer is for the caller to judge.

mod connect;
mod handshake;
mod send;

use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use linnet_types::{Op, Request};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

pub(crate) use self::connect::{HANDSHAKE_MAX, Patience};
use self::handshake::Export;
use self::send::{HEAD_BYTES, Message, Outbox};
use crate::Error;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;
const COMMAND_DISCONNECT: u16 = 2;
/// The port of NBD.
const PORT: u16 = 10_809;
/// The server must take a part of a request in this time.
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
    let (host, name) = rest.split_once('/').filter(|(host, _)| !host.is_empty()).ok_or_else(wrong)?;
    // An IPv6 address has colons, too, within brackets.
    let with_port = host.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
    let host = if with_port { host.to_owned() } else { format!("{host}:{PORT}") };
    Ok((Target::Tcp(host), decode(name).ok_or_else(wrong)?))
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

/// A socket that its sending and its receiving thread share.
trait Socket: Send + Sync {
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;
    /// Waits until the socket takes something.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// What the socket takes at once; `WouldBlock` if that is nothing.
    fn send_now(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Shuts down both directions, which ends a pending read and a pending send.
    fn close(&self) -> io::Result<()>;
    /// The longest that one read and one send may wait. None: for ever.
    fn limit(&self, read: Option<Duration>, send: Duration) -> io::Result<()>;
}

macro_rules! socket {
    ($stream:ty) => {
        impl Socket for $stream {
            fn read(&self, into: &mut [u8]) -> io::Result<usize> {
                Read::read(&mut &*self, into)
            }

            fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                (&mut &*self).write_vectored(slices)
            }

            fn send_now(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                Ok(sendmsg(self, slices, &mut SendAncillaryBuffer::default(), flags)?)
            }

            fn close(&self) -> io::Result<()> {
                self.shutdown(Shutdown::Both)
            }

            fn limit(&self, read: Option<Duration>, send: Duration) -> io::Result<()> {
                self.set_read_timeout(read)?;
                self.set_write_timeout(Some(send))
            }
        }
    };
}
socket!(UnixStream);
socket!(TcpStream);

/// The requests in flight: the bytes that the answer to each will carry.
type Flying = Arc<Mutex<HashMap<u64, u32>>>;

/// The sending half of a connection.
pub(crate) struct Sender {
    outbox: Outbox,
    flying: Flying,
    /// Its server, and its name there.
    pub place: (String, String),
    /// Size of the export in whole sectors, one at least.
    pub size_bytes: u64,
    /// Whether the export refuses writes.
    pub read_only: bool,
    /// The time scale of the drive, if the server says what it is.
    pub time_scale: Option<f64>,
}

/// The receiving half.
pub(crate) struct Receiver {
    socket: Arc<dyn Socket>,
    flying: Flying,
    scratch: Vec<u8>,
}

/// An answer: the request's cookie, and whether it succeeded.
pub(crate) struct Answer {
    pub cookie: u64,
    pub ok: bool,
}

/// Connects to an export.
pub(crate) fn connect(uri: &str, patience: &mut Patience<'_>) -> Result<(Sender, Receiver), Error> {
    let (target, name) = parse_uri(uri)?;
    let failed = |error: io::Error| Error::Connect { uri: uri.to_owned(), problem: error.to_string() };
    let (socket, server) = connect::open(&target, patience).map_err(failed)?;
    let export = handshake::handshake(&*socket, &name, patience)
        .and_then(|export| socket.limit(None, SEND_MAX).map(|()| export))
        .map_err(failed)?;
    Ok(halves(socket, server, export))
}

fn halves(socket: Arc<dyn Socket>, server: String, export: Export) -> (Sender, Receiver) {
    let Export { name, size_bytes, read_only, time_scale } = export;
    let flying = Flying::default();
    let outbox = Outbox::new(Arc::clone(&socket));
    let sender = Sender { outbox, flying: flying.clone(), place: (server, name), size_bytes, read_only, time_scale };
    (sender, Receiver { socket, flying, scratch: Vec::new() })
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn head(command: u16, cookie: u64, offset_bytes: u64, size_bytes: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    head[6..8].copy_from_slice(&command.to_be_bytes());
    head[8..16].copy_from_slice(&cookie.to_be_bytes());
    head[16..24].copy_from_slice(&offset_bytes.to_be_bytes());
    head[24..].copy_from_slice(&size_bytes.to_be_bytes());
    head
}

/// Where a request goes on an export of this size, and how long it is there, in whole sectors, which every server
/// accepts. The offset wraps around the export, as in modelled devices. The length is cut at the end of the export and
/// at the longest request that every server accepts.
pub(crate) fn placed(request: &Request, export_bytes: u64) -> (u64, u32) {
    let offset = request.offset_bytes / SECTOR_BYTES * SECTOR_BYTES % export_bytes;
    let wanted = request.size_bytes.div_ceil(512).saturating_mul(512).min(REQUEST_BYTES_MAX);
    (offset, u64::from(wanted).min(export_bytes - offset) as u32)
}

impl Sender {
    /// Sends a request with this cookie, to where it is [`placed`]. Does not wait for the server to take it.
    pub fn send(&mut self, cookie: u64, request: &Request) -> io::Result<()> {
        let (offset, size) = placed(request, self.size_bytes);
        let (command, answered, payload) =
            if request.op == Op::Read { (COMMAND_READ, size, 0) } else { (COMMAND_WRITE, 0, size) };
        self.flying.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie, answered);
        self.outbox.send(Message::new(head(command, cookie, offset, size), payload as usize))
    }

    /// Why requests could not be sent, if the server did not take them.
    pub fn failure(&self) -> Option<io::Error> {
        self.outbox.failure()
    }

    /// Sends a disconnect and closes the connection.
    pub fn disconnect(&mut self) -> io::Result<()> {
        self.outbox.close(Message::new(head(COMMAND_DISCONNECT, 0, 0, 0), 0), FAREWELL_MAX)
    }
}

impl Receiver {
    /// Waits for the next answer; `None` after the server has closed the connection.
    pub fn next(&mut self) -> io::Result<Option<Answer>> {
        let mut head = [0; 16];
        match self.fill(&mut head) {
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
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.resize(size as usize, 0);
            self.fill(&mut scratch)?;
            self.scratch = scratch;
        }
        Ok(Some(Answer { cookie, ok }))
    }

    fn fill(&self, mut rest: &mut [u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.socket.read(rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => rest = &mut rest[got..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Sender, Receiver, UnixStream) {
        let (ours, server) = UnixStream::pair().unwrap();
        ours.limit(None, Duration::from_millis(100)).unwrap();
        let (sender, receiver) = halves(
            Arc::new(ours),
            String::new(),
            Export { name: String::new(), size_bytes: 1 << 30, read_only: false, time_scale: None },
        );
        (sender, receiver, server)
    }

    #[test]
    fn only_what_was_asked_is_answered_and_once() {
        let answer = |cookie: u64| [&REPLY_MAGIC.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes()].concat();
        let (mut sender, mut receiver, mut server) = pair();
        sender.send(7, &Request::new(Op::Write, 0, 512)).unwrap();
        server.write_all(&[answer(7), answer(7)].concat()).unwrap();
        assert!(receiver.next().unwrap().is_some_and(|answer| answer.cookie == 7 && answer.ok));
        let twice = receiver.next().err().unwrap();
        assert!(twice.to_string().contains("what was not asked"), "{twice}");
    }

    #[test]
    fn a_server_that_takes_nothing_keeps_nobody() {
        let (mut sender, mut receiver, _server) = pair();
        // Far more than a socket holds: none of it is waited for.
        for cookie in 0..100 {
            sender.send(cookie, &Request::new(Op::Write, 0, 1 << 20)).unwrap();
        }
        // The limit on a send ends the connection.
        assert!(receiver.next().unwrap().is_none());
        assert_eq!(sender.failure().map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
        assert!(sender.disconnect().is_err());
    }

    #[test]
    fn a_connection_that_is_given_up_is_closed() {
        let (mut sender, receiver, mut server) = pair();
        sender.send(0, &Request::new(Op::Write, 0, 4 << 20)).unwrap();
        drop((sender, receiver));
        // The end comes although the last request is not whole.
        let mut bytes = Vec::new();
        server.read_to_end(&mut bytes).unwrap();
        assert!(bytes.len() < HEAD_BYTES + (4 << 20));
    }

    #[test]
    fn what_waited_arrives_whole_and_in_order() {
        let (mut sender, _receiver, mut server) = pair();
        let sizes = [3 << 20, 4096, 1 << 20, 512];
        for (cookie, &size) in sizes.iter().enumerate() {
            sender.send(cookie as u64, &Request::new(Op::Write, 0, size)).unwrap();
        }
        sender.send(4, &Request::new(Op::Read, 8192, 4096)).unwrap();
        for (cookie, &size) in sizes.iter().enumerate() {
            let mut bytes = vec![0; HEAD_BYTES + size as usize];
            server.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes[..HEAD_BYTES], head(COMMAND_WRITE, cookie as u64, 0, size));
            assert!(bytes[HEAD_BYTES..].iter().all(|&byte| byte == 0x5a));
        }
        let mut bytes = [0; HEAD_BYTES];
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, head(COMMAND_READ, 4, 8192, 4096));
        sender.disconnect().unwrap();
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, head(COMMAND_DISCONNECT, 0, 0, 0));
    }

    #[test]
    fn addresses_are_read_and_others_refused() {
        let (target, name) = parse_uri("nbd+unix:///drive%200?socket=/tmp/a%2Bb.sock").unwrap();
        assert_eq!((target, name.as_str()), (Target::Unix("/tmp/a+b.sock".into()), "drive 0"));
        let (target, name) = parse_uri("nbd://127.0.0.1:10809/d").unwrap();
        assert_eq!((target, name.as_str()), (Target::Tcp("127.0.0.1:10809".into()), "d"));
        for (given, expected) in
            [("nbd://h/", "h:10809"), ("nbd://[::1]/d", "[::1]:10809"), ("nbd://[::1]:7/d", "[::1]:7")]
        {
            assert_eq!(parse_uri(given).unwrap().0, Target::Tcp(expected.into()));
        }
        for wrong in ["nbd:///d", "/dev/sda", "nbd+unix:///x", "nbd://host", "nbd+unix:///%zz?socket=/s", ""] {
            assert!(parse_uri(wrong).unwrap_err().to_string().contains("nbd+unix:///EXPORT"), "{wrong}");
        }
    }
}
