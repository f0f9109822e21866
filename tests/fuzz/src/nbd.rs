// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server of modelled drives and the bytes of clients. After each case a good client must be served.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linnet_nbd::{Builder, Export, Handle, Plain};
use linnet_types::{LatencyModel, Nanos, Outcome, Request};

use crate::{Problem, in_time};

const SIZE_BYTES: u64 = 1 << 20;
const READ: u16 = 0;
const GO: u32 = 7;

/// Answers at once.
struct Now;

impl LatencyModel for Now {
    fn submit(&mut self, now: Nanos, _: &Request) -> Outcome {
        Outcome::Done(now)
    }
}

/// A running server and its socket.
pub struct Session {
    handle: Handle,
    socket: PathBuf,
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT".as_slice(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

fn request(command: u16, cookie: u64, offset: u64, size: u32) -> Vec<u8> {
    let head = [0x2560_9513u32.to_be_bytes().as_slice(), &[0, 0], &command.to_be_bytes()].concat();
    [head, cookie.to_be_bytes().to_vec(), offset.to_be_bytes().to_vec(), size.to_be_bytes().to_vec()].concat()
}

/// The greeting, and the choice of the first export.
fn chosen() -> Vec<u8> {
    [3u32.to_be_bytes().to_vec(), option(8, &[]), option(GO, &[0; 6])].concat()
}

impl Session {
    pub fn new(scratch: &Path) -> Result<Session, String> {
        let socket = scratch.join("nbd.sock");
        let export = Export::new("a", SIZE_BYTES, Box::new(Plain(Now)));
        let builder = Builder::new().export(export).unix(&socket).bytes_max(64 << 20);
        let handle = builder.start().map_err(|e| e.to_string())?;
        Ok(Session { handle, socket })
    }

    /// Whole conversations of clients.
    pub fn seeds(&self) -> Vec<(String, Vec<u8>)> {
        let io: Vec<u8> = (0..8u16)
            .flat_map(|command| {
                let mut bytes = request(command, u64::from(command), u64::from(command) * 4096, 512);
                bytes.resize(bytes.len() + if command == 1 { 512 } else { 0 }, 7);
                bytes
            })
            .collect();
        let listed = [3u32.to_be_bytes().to_vec(), option(3, &[]), option(6, &[0; 6]), option(2, &[])].concat();
        // Metadata contexts, then all information about the export; and the oldest way to choose one.
        let word = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
        let contexts = [word(b"a"), 1u32.to_be_bytes().to_vec(), word(b"base:allocation")].concat();
        let about = [word(b"a"), vec![0, 2, 0, 1, 0, 3]].concat();
        let begin = [3u32.to_be_bytes().to_vec(), option(8, &[]), option(9, &contexts), option(10, &contexts)].concat();
        let state = [request(7, 1, 0, 8192), request(READ, 2, 0, 512)].concat();
        let mapped = [begin, option(6, &about), option(GO, &about), state].concat();
        let old = [1u32.to_be_bytes().to_vec(), option(1, b"a"), request(READ, 1, 0, 512)].concat();
        vec![
            ("requests".into(), [chosen(), io].concat()),
            ("options".into(), listed),
            ("contexts".into(), mapped),
            ("old".into(), old),
        ]
    }

    /// Sends the bytes, then asks as a good client; true if the bytes were a conversation that the server followed.
    pub fn run(&mut self, bytes: &[u8]) -> Result<bool, String> {
        in_time(|| self.attempt(bytes))
    }

    fn attempt(&self, bytes: &[u8]) -> Result<bool, Problem> {
        let before = self.handle.stats().garbled;
        let text = |e: std::io::Error| e.to_string();
        let mut bad = UnixStream::connect(&self.socket).map_err(text)?;
        bad.set_read_timeout(Some(Duration::from_secs(5))).map_err(text)?;
        let _ = bad.write_all(bytes);
        let _ = bad.shutdown(Shutdown::Write);
        let _ = bad.read_to_end(&mut Vec::new());
        drop(bad);
        let mut good = UnixStream::connect(&self.socket).map_err(text)?;
        good.set_read_timeout(Some(Duration::from_secs(5))).map_err(text)?;
        good.write_all(&[chosen(), request(READ, 1, 0, 512)].concat()).map_err(text)?;
        // Greeting 18, acknowledgement 20, information 32, acknowledgement 20, then a chunk of 28 with 512 bytes.
        let mut answer = vec![0; 18 + 20 + 32 + 20 + 28 + 512];
        good.read_exact(&mut answer).map_err(|error| {
            let what = format!("a good client was not served: {error}");
            // The socket's time was over.
            if error.kind() == ErrorKind::WouldBlock { Problem::Late(what) } else { Problem::Wrong(what) }
        })?;
        Ok(self.handle.stats().garbled == before)
    }
}
