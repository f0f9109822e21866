// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay against a hostile server: the handshake's bytes are those of the case, and each request is answered as the
//! next byte of the case says: well, with an error, late, twice, never, with another's cookie, cut off, or with
//! garbage. A second, honest server holds the other replica. The replay must end soon, with a reason or with every I/O
//! accounted.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use linnet_array::{Config, DeviceModel, policy};
use linnet_replay::{Error, Options, replay};
use linnet_types::{IoRecord, Op, Thresholds};

use crate::{Problem, in_time};

const SIZE_BYTES: u64 = 1 << 20;
const IOS: u64 = 40;
/// A server that is asked nothing for so long answers what it held back, and then leaves.
const PATIENCE: Duration = Duration::from_millis(20);

/// Two servers, each with a thread; the first takes a script for each case.
pub struct Session {
    scripts: Sender<Vec<u8>>,
    uris: Vec<String>,
}

fn listen(path: &Path) -> Result<UnixListener, String> {
    UnixListener::bind(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The server's side of a good handshake.
fn handshake(size_bytes: u64) -> Vec<u8> {
    let reply = |kind: u32, body: &[u8]| {
        [
            &0x3_e889_0455_65a9u64.to_be_bytes()[..],
            &7u32.to_be_bytes(),
            &kind.to_be_bytes(),
            &(body.len() as u32).to_be_bytes(),
            body,
        ]
        .concat()
    };
    let export = [&0u16.to_be_bytes()[..], &size_bytes.to_be_bytes(), &1u16.to_be_bytes()].concat();
    let name = [&1u16.to_be_bytes()[..], b"a"].concat();
    [b"NBDMAGICIHAVEOPT\0\x03".to_vec(), reply(3, &name), reply(3, &export), reply(1, &[])].concat()
}

fn answer(cookie: u64, error: u32, data: usize) -> Vec<u8> {
    let mut bytes = [&0x6744_6698u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat();
    bytes.resize(16 + if error == 0 { data } else { 0 }, 0x5a);
    bytes
}

/// One conversation, until the client or the script ends it. No script: every request is answered.
fn serve(mut socket: UnixStream, script: Option<&[u8]>) -> std::io::Result<()> {
    let whole = handshake(SIZE_BYTES);
    let (hello, reactions) = match script {
        None => (&whole[..], None),
        Some(bytes) => {
            let length = bytes.first_chunk().map_or(0, |n| usize::from(u16::from_be_bytes(*n)));
            let rest = bytes.get(2..).unwrap_or_default();
            let (hello, reactions) = rest.split_at(length.min(rest.len()));
            (hello, Some(reactions))
        }
    };
    let mut reactions = reactions.map(|bytes| bytes.iter().copied());
    socket.write_all(hello)?;
    // The client's flags and the one option, whose name has one letter, and which asks for two pieces of information.
    socket.set_read_timeout(script.map(|_| PATIENCE))?;
    socket.read_exact(&mut [0; 4 + 16 + 11])?;
    let mut held = Vec::new();
    loop {
        let mut head = [0; 28];
        if let Err(error) = socket.read_exact(&mut head) {
            if held.is_empty() || error.kind() != std::io::ErrorKind::WouldBlock {
                return Err(error);
            }
            while let Some((cookie, data)) = held.pop() {
                socket.write_all(&answer(cookie, 0, data))?;
            }
            continue;
        }
        let cookie = u64::from_be_bytes(head[8..16].try_into().unwrap_or_default());
        let size = u32::from_be_bytes(head[24..28].try_into().unwrap_or_default()) as usize;
        let data = match head[7] {
            0 => size,
            1 => {
                socket.read_exact(&mut vec![0; size])?;
                0
            }
            _ => return Ok(()),
        };
        let mut reaction = || reactions.as_mut().map_or(Some(0), Iterator::next);
        let Some(what) = reaction() else { return Ok(()) };
        let good = answer(cookie, 0, data);
        let bytes = match what % 32 {
            16 => answer(cookie, 1 + u32::from(what), data),
            17 | 18 => {
                held.push((cookie, data));
                vec![]
            }
            19 => vec![],
            20 => answer(cookie ^ (1 << (what >> 5)), 0, data),
            21 => [&good[..], &good].concat(),
            22 => [&0x668e_33efu32.to_be_bytes()[..], &good[4..]].concat(),
            23 => {
                socket.write_all(&good[..good.len() / 2])?;
                return Ok(());
            }
            24 => (0..what).map_while(|_| reaction()).collect(),
            _ => good,
        };
        // Some answers come in pieces.
        for piece in bytes.chunks(if what >> 5 == 7 { 100 } else { bytes.len().max(1) }) {
            socket.write_all(piece)?;
        }
    }
}

fn run_server(listener: &UnixListener, scripts: Option<&Receiver<Vec<u8>>>) {
    loop {
        let script = match scripts.map(Receiver::recv) {
            Some(Err(_)) => return,
            Some(Ok(script)) => Some(script),
            None => None,
        };
        let Ok((socket, _)) = listener.accept() else { return };
        let Ok(other) = socket.try_clone() else { return };
        let _ = serve(socket, script.as_deref());
        let _ = other.shutdown(Shutdown::Both);
    }
}

impl Session {
    pub fn new(scratch: &Path) -> Result<Session, String> {
        let paths: [PathBuf; 2] = ["bad", "good"].map(|name| scratch.join(name));
        let (bad, good) = (listen(&paths[0])?, listen(&paths[1])?);
        let (scripts, inbox) = channel();
        thread::spawn(move || run_server(&bad, Some(&inbox)));
        thread::spawn(move || run_server(&good, None));
        let uris = paths.iter().map(|path| format!("nbd+unix:///a?socket={}", path.display())).collect();
        Ok(Session { scripts, uris })
    }

    /// Scripts of a server that does all it can.
    pub fn seeds(&self) -> Vec<(String, Vec<u8>)> {
        let script = |size_bytes, reactions: &[u8]| {
            let hello = handshake(size_bytes);
            [&(hello.len() as u16).to_be_bytes()[..], &hello, reactions].concat()
        };
        let kinds: Vec<u8> = (0..200u8).map(|i| if i % 7 == 0 { 16 + i % 3 } else { i % 16 }).collect();
        vec![
            ("good".into(), script(SIZE_BYTES, &[0; 200])),
            ("errors".into(), script(SIZE_BYTES, &kinds)),
            ("late".into(), script(SIZE_BYTES, &[17; 100])),
            ("small".into(), script(513, &[0; 200])),
            ("pieces".into(), script(u64::MAX, &[0xe0; 200])),
        ]
    }

    /// Whether the replay came to its end.
    pub fn run(&self, script: &[u8]) -> Result<bool, String> {
        in_time(|| self.attempt(script))
    }

    fn attempt(&self, script: &[u8]) -> Result<bool, Problem> {
        self.scripts.send(script.to_vec()).map_err(|e| e.to_string())?;
        let records: Vec<IoRecord> = (0..IOS)
            .map(|i| IoRecord::new(i * 1000, if i % 5 == 4 { Op::Write } else { Op::Read }, i * 4096, 512 << (i % 5)))
            .collect();
        let array = Config { replicas: 2, ..Config::default() };
        let name = ["baseline", "random", "hedge-p95"][script.len() % 3];
        let thresholds = Thresholds { inflection_ns: 2_000_000, latency_ns_p95: 2_000_000, ..Thresholds::default() };
        let learned = vec![DeviceModel { thresholds, ..DeviceModel::default() }; 2];
        let chosen = policy(name, &learned, &array).map_err(|e| e.to_string())?;
        let begun = Instant::now();
        let mut patient = |_| begun.elapsed() < Duration::from_secs(1);
        let options = Options { array, time_scale: 1.0 };
        match replay(&self.uris, &[&records, &[]], &[thresholds; 2], chosen, &options, &mut patient) {
            Ok(outcome) => {
                let counters = outcome.counters;
                // A read that no server answered has a latency, too.
                let ended = outcome.latency_ns.len() as u64;
                if counters.reads + counters.writes != IOS || ended != counters.reads {
                    return Err(format!("{ended} of {} reads ended, of {IOS} I/Os", counters.reads).into());
                }
                Ok(true)
            }
            Err(Error::Interrupted { .. }) => Err(Problem::Late("the replay did not end by itself".into())),
            Err(error) if error.to_string().is_empty() => Err("an error without words".to_string().into()),
            Err(_) => Ok(false),
        }
    }
}
