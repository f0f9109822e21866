// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client of NBD exports: newstyle handshake, simple replies, any number of requests in flight. Written from the
//! protocol (`doc/proto.md` of the NBD project). All integers are big endian.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

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
}

impl Socket for UnixStream {
    fn close(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Both)
    }
}

impl Socket for TcpStream {
    fn close(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Both)
    }
}

type Sizes = Arc<Mutex<HashMap<u64, u32>>>;

/// The sending half of a connection.
pub(crate) struct Sender {
    socket: Box<dyn Socket>,
    /// For each read in flight, the bytes that its answer will carry.
    reads: Sizes,
    /// Size of the export.
    pub size_bytes: u64,
    pattern: Vec<u8>,
}

/// The receiving half.
pub(crate) struct Receiver {
    socket: Box<dyn Socket>,
    reads: Sizes,
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
    let size_bytes = handshake(&mut *socket, &name).map_err(|error| failed(error.to_string()))?;
    let reads = Sizes::default();
    Ok((
        Sender { socket, reads: reads.clone(), size_bytes, pattern: Vec::new() },
        Receiver { socket: other, reads, scratch: Vec::new() },
    ))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn array<const N: usize>(socket: &mut dyn Socket) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Chooses the export and returns its size.
fn handshake(socket: &mut dyn Socket, name: &str) -> io::Result<u64> {
    if u64::from_be_bytes(array(socket)?) != MAGIC || u64::from_be_bytes(array(socket)?) != OPTION_MAGIC {
        return Err(invalid("the peer is not a newstyle NBD server"));
    }
    array::<2>(socket)?;
    let mut hello = Vec::new();
    // Client flags: fixed newstyle, no zeroes.
    hello.extend_from_slice(&3u32.to_be_bytes());
    hello.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    hello.extend_from_slice(&OPTION_GO.to_be_bytes());
    hello.extend_from_slice(&(name.len() as u32 + 6).to_be_bytes());
    hello.extend_from_slice(&(name.len() as u32).to_be_bytes());
    hello.extend_from_slice(name.as_bytes());
    hello.extend_from_slice(&0u16.to_be_bytes());
    socket.write_all(&hello)?;
    let mut size_bytes = None;
    loop {
        if u64::from_be_bytes(array(socket)?) != OPTION_REPLY_MAGIC || u32::from_be_bytes(array(socket)?) != OPTION_GO {
            return Err(invalid("the server answers out of turn"));
        }
        let kind = u32::from_be_bytes(array(socket)?);
        let length = u32::from_be_bytes(array(socket)?);
        if length > OPTION_BYTES_MAX {
            return Err(invalid("the server's answer is absurdly long"));
        }
        let mut body = vec![0; length as usize];
        socket.read_exact(&mut body)?;
        match kind {
            REPLY_ACK => return size_bytes.ok_or_else(|| invalid("the server gave no size")),
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
        // Whole sectors, which every server accepts.
        let offset = request.offset_bytes / 512 * 512 % (self.size_bytes / 512 * 512).max(512);
        let wanted = request.size_bytes.div_ceil(512).saturating_mul(512).min(REQUEST_BYTES_MAX);
        let size = u64::from(wanted).min(self.size_bytes - offset) as u32;
        let mut head = Vec::with_capacity(28);
        head.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        head.extend_from_slice(&0u16.to_be_bytes());
        head.extend_from_slice(&u16::from(request.op == Op::Write).to_be_bytes());
        head.extend_from_slice(&cookie.to_be_bytes());
        head.extend_from_slice(&offset.to_be_bytes());
        head.extend_from_slice(&size.to_be_bytes());
        if request.op == Op::Read {
            self.reads.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie, size);
            return self.socket.write_all(&head);
        }
        if self.pattern.len() < size as usize {
            self.pattern.resize(size as usize, 0x5a);
        }
        self.socket.write_all(&head)?;
        self.socket.write_all(&self.pattern[..size as usize])
    }

    /// Sends a disconnect and closes the connection.
    pub fn disconnect(&mut self) -> io::Result<()> {
        let mut head = Vec::with_capacity(28);
        head.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        head.extend_from_slice(&0u16.to_be_bytes());
        head.extend_from_slice(&COMMAND_DISCONNECT.to_be_bytes());
        head.extend_from_slice(&[0; 20]);
        let told = self.socket.write_all(&head);
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
        let data = self.reads.lock().unwrap_or_else(PoisonError::into_inner).remove(&cookie);
        if let (true, Some(size)) = (ok, data) {
            self.scratch.resize(size as usize, 0);
            self.socket.read_exact(&mut self.scratch)?;
        }
        Ok(Some(Answer { cookie, ok }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
