// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting, watching and stopping a server.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linnet_types::Nanos;
use rustix::event::{PollFd, PollFlags, poll};

use crate::clock::Clock;
use crate::connection::{Connection, End};
use crate::error::Error;
use crate::export::{Export, Served};
use crate::handshake::{self, Ended};
use crate::listen::{Address, Listener};
use crate::stats::{Ledger, Sample, Stats};
use crate::store::Store;
use crate::stream::Stream;
use crate::wire::NAME_BYTES_MAX;

/// A client that says nothing for this long has not begun.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Pause after an accept that failed for want of resources.
const BREATH: Duration = Duration::from_millis(20);

/// A server to be: drives, addresses, settings.
pub struct Builder {
    exports: Vec<Export>,
    addresses: Vec<Address>,
    time_scale: f64,
    spin: Duration,
    inflight_bytes_max: usize,
    connections_max: usize,
    late_after_ns: Nanos,
    log_len: usize,
    lost_after_ns: Option<Nanos>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

impl Builder {
    /// No drive, no address; every setting as its method says.
    pub fn new() -> Builder {
        Builder {
            exports: Vec::new(),
            addresses: Vec::new(),
            time_scale: 1.0,
            spin: Duration::from_micros(10),
            inflight_bytes_max: 64 << 20,
            connections_max: 128,
            late_after_ns: 100_000,
            log_len: 65_536,
            lost_after_ns: None,
        }
    }

    /// Adds a drive. The first one also answers to the empty name.
    #[must_use]
    pub fn export(mut self, export: Export) -> Builder {
        self.exports.push(export);
        self
    }

    /// Adds a Unix socket. Its file is removed when the server stops; one that a dead server left is replaced.
    #[must_use]
    pub fn unix(mut self, path: impl AsRef<Path>) -> Builder {
        self.addresses.push(Address::Unix(path.as_ref().to_owned()));
        self
    }

    /// Adds a TCP port on loopback; 0 lets the system choose one ([`Handle::addresses`] tells which).
    #[must_use]
    pub fn tcp(self, port: u16) -> Builder {
        self.tcp_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Adds any TCP address. Whoever reaches it can read and write the drives.
    #[must_use]
    pub fn tcp_at(mut self, address: SocketAddr) -> Builder {
        self.addresses.push(Address::Tcp(address));
        self
    }

    /// Wall time that passes per model time, 0.001 to 1000000; 1 unless set. At 10 the world is ten times slower, and
    /// the server's own cost a tenth as large beside the model's latencies.
    #[must_use]
    pub fn time_scale(mut self, time_scale: f64) -> Builder {
        self.time_scale = time_scale;
        self
    }

    /// Wall time before a deadline that is spun instead of slept; 10 us unless set, 0 never spins. A sleep ends about
    /// 5 us late, which a short spin hides; on a busy machine a long one uses up the thread's turn and makes the tail
    /// worse. At most half of the machine's cores spin at a time, the other connections sleep.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Builder {
        self.spin = spin;
        self
    }

    /// Most bytes of replies that one connection may have in flight; 64 MiB unless set. A client that asks for more is
    /// not read from until some have left. One request is always let through.
    #[must_use]
    pub fn inflight_bytes_max(mut self, bytes: usize) -> Builder {
        self.inflight_bytes_max = bytes;
        self
    }

    /// Most connections at a time; 128 unless set. Others are closed at once.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Builder {
        self.connections_max = count;
        self
    }

    /// The error, in model time, from which an answer counts as late; 100 us unless set.
    #[must_use]
    pub fn late_after_ns(mut self, late_after_ns: Nanos) -> Builder {
        self.late_after_ns = late_after_ns;
        self
    }

    /// How many requests of each drive are remembered one by one ([`Handle::samples`]); the last 65536 unless set.
    #[must_use]
    pub fn log_len(mut self, samples: usize) -> Builder {
        self.log_len = samples;
        self
    }

    /// What happens to requests that the model loses: `None`, unless set, leaves them unanswered; otherwise they fail
    /// with an I/O error after this much model time.
    #[must_use]
    pub fn lost_after_ns(mut self, lost_after_ns: Option<Nanos>) -> Builder {
        self.lost_after_ns = lost_after_ns;
        self
    }

    fn validate(&self) -> Result<(), Error> {
        if self.exports.is_empty() {
            return Err(Error::NoExport);
        }
        if self.addresses.is_empty() {
            return Err(Error::NoAddress);
        }
        let mut names = HashSet::new();
        for export in &self.exports {
            if export.name.len() > NAME_BYTES_MAX {
                return Err(Error::LongName { bytes: export.name.len() });
            }
            if export.size_bytes == 0 || export.size_bytes > i64::MAX as u64 {
                return Err(Error::Size { name: export.name.clone(), size_bytes: export.size_bytes });
            }
            if !names.insert(&export.name) {
                return Err(Error::DuplicateName { name: export.name.clone() });
            }
        }
        if !(0.001..=1e6).contains(&self.time_scale) {
            return Err(Error::TimeScale { time_scale: self.time_scale });
        }
        for (setting, value) in
            [("inflight_bytes_max", self.inflight_bytes_max), ("connections_max", self.connections_max)]
        {
            if value == 0 {
                return Err(Error::Zero { setting });
            }
        }
        Ok(())
    }

    /// Opens the data, listens, and begins model time.
    ///
    /// # Errors
    /// A setting that makes no sense, an address or a data file that cannot be had; nothing is left behind then.
    pub fn start(self) -> Result<Handle, Error> {
        self.validate()?;
        let mut exports = Vec::new();
        for export in self.exports {
            let store = Store::new(&export.storage, export.size_bytes).map_err(|source| Error::Storage {
                name: export.name.clone(),
                path: export.storage.path().to_owned(),
                source,
            })?;
            exports.push(Served::new(export, store, Ledger::new(self.late_after_ns, self.log_len)));
        }
        let listeners = self.addresses.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?;
        let addresses = listeners.iter().map(|listener| listener.address.clone()).collect();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            clock: Clock::new(self.time_scale),
            exports,
            spin_ns: self.spin.as_nanos() as Nanos,
            spinners_max: cores / 2,
            spinners: AtomicUsize::new(0),
            inflight_bytes_max: self.inflight_bytes_max,
            connections_max: self.connections_max,
            late_after_ns: self.late_after_ns,
            lost_after_ns: self.lost_after_ns,
            stop: AtomicBool::new(false),
            open: Mutex::default(),
            connections_total: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            handshakes_ended: AtomicU64::new(0),
            garbled: AtomicU64::new(0),
        });
        let (wake, woken) = UnixStream::pair().map_err(Error::Threads)?;
        let mut handle = Handle { shared, addresses, wake: Some(wake), threads: Vec::new() };
        for listener in listeners {
            let woken = woken.try_clone().map_err(Error::Threads)?;
            let shared = Arc::clone(&handle.shared);
            let run = move || accept_all(&shared, &listener, &woken);
            handle.threads.push(thread::Builder::new().name("nbd-accept".into()).spawn(run).map_err(Error::Threads)?);
        }
        Ok(handle)
    }
}

/// Connections that are open: what cuts them and what waits for their end.
#[derive(Default)]
struct Open {
    next: u64,
    streams: HashMap<u64, Stream>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of a server have in common.
pub(crate) struct Shared {
    pub clock: Clock,
    pub exports: Vec<Served>,
    pub spin_ns: Nanos,
    spinners_max: usize,
    spinners: AtomicUsize,
    pub inflight_bytes_max: usize,
    connections_max: usize,
    late_after_ns: Nanos,
    pub lost_after_ns: Option<Nanos>,
    pub stop: AtomicBool,
    open: Mutex<Open>,
    connections_total: AtomicU64,
    connections_refused: AtomicU64,
    handshakes_ended: AtomicU64,
    garbled: AtomicU64,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more connection could spin now.
    pub fn may_spin(&self) -> bool {
        self.spin_ns > 0 && self.spinners.load(Relaxed) < self.spinners_max
    }

    pub fn start_spinning(&self) -> bool {
        let more = |count| (count < self.spinners_max).then_some(count + 1);
        self.spin_ns > 0 && self.spinners.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    pub fn stop_spinning(&self) {
        self.spinners.fetch_sub(1, Relaxed);
    }

    fn stats(&self) -> Stats {
        Stats {
            uptime_ns: self.clock.model_of(self.clock.wall_ns()),
            time_scale: self.clock.time_scale(),
            late_after_ns: self.late_after_ns,
            connections: self.open().streams.len() as u64,
            connections_total: self.connections_total.load(Relaxed),
            connections_refused: self.connections_refused.load(Relaxed),
            handshakes_ended: self.handshakes_ended.load(Relaxed),
            garbled: self.garbled.load(Relaxed),
            exports: self.exports.iter().map(Served::stats).collect(),
        }
    }
}

/// Accepts clients until the other end of `woken` is closed.
fn accept_all(shared: &Arc<Shared>, listener: &Listener, woken: &UnixStream) {
    while !shared.stop.load(Relaxed) {
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            // Interrupted, or short of memory: try again.
            thread::sleep(BREATH);
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        match listener.accept() {
            Ok(stream) => {
                if begin(shared, stream).is_err() {
                    thread::sleep(BREATH);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors, or a client that left already.
            Err(_) => thread::sleep(BREATH),
        }
    }
}

/// Gives a client its thread.
fn begin(shared: &Arc<Shared>, stream: Stream) -> io::Result<()> {
    let mut open = shared.open();
    open.threads.retain(|thread| !thread.is_finished());
    if open.streams.len() >= shared.connections_max {
        shared.connections_refused.fetch_add(1, Relaxed);
        return Ok(());
    }
    let id = open.next;
    open.next += 1;
    open.streams.insert(id, stream.try_clone()?);
    let guard = Guard { shared: Arc::clone(shared), id };
    let run = move || {
        let mut stream = stream;
        talk(&guard.shared, &mut stream);
    };
    // If this fails, the closure is dropped and its guard with it, which takes the lock.
    drop(open);
    let thread = thread::Builder::new().name("nbd-client".into()).spawn(run)?;
    shared.connections_total.fetch_add(1, Relaxed);
    shared.open().threads.push(thread);
    Ok(())
}

/// Forgets a connection when its thread ends, whichever way.
struct Guard {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let stream = self.shared.open().streams.remove(&self.id);
        if let Some(stream) = stream {
            stream.cut();
        }
    }
}

/// A client from its first byte to its last.
fn talk(shared: &Shared, stream: &mut Stream) {
    let chosen = stream.set_timeout(Some(HANDSHAKE)).and_then(|()| {
        let chosen = handshake::run(stream, &shared.exports)?;
        stream.set_timeout(None).map(|()| chosen)
    });
    let chosen = match chosen {
        Ok(Ok(chosen)) => chosen,
        ended => {
            shared.handshakes_ended.fetch_add(1, Relaxed);
            shared.garbled.fetch_add(u64::from(matches!(ended, Ok(Err(Ended::Garbled)))), Relaxed);
            return;
        }
    };
    let export = &shared.exports[chosen.export];
    if Connection::new(shared, export, chosen.structured, stream).run() == End::Garbled {
        shared.garbled.fetch_add(1, Relaxed);
    }
}

/// A running server. Dropping it stops it.
pub struct Handle {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    wake: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Handle {
    /// Where it listens, in the order of the builder, ports as they were really bound.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The NBD URIs of an export, one for each address.
    pub fn uris(&self, export: &str) -> Vec<String> {
        self.addresses.iter().map(|address| address.uri(export)).collect()
    }

    /// The figures so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// The last requests of an export, oldest first ([`Builder::log_len`]); `None` for a name that is not served.
    pub fn samples(&self, export: &str) -> Option<Vec<Sample>> {
        let found = self.shared.exports.iter().find(|served| served.name == export)?;
        Some(found.ledger().samples())
    }

    /// Stops listening, cuts every connection, waits for all threads, removes Unix sockets. Requests in flight are not
    /// answered. Returns the last figures.
    pub fn stop(mut self) -> Stats {
        self.halt();
        self.shared.stats()
    }

    fn halt(&mut self) {
        self.shared.stop.store(true, Relaxed);
        drop(self.wake.take());
        // A thread that panicked has already done its worst; the others must still end.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let threads = {
            let mut open = self.shared.open();
            open.streams.values().for_each(Stream::cut);
            std::mem::take(&mut open.threads)
        };
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.halt();
    }
}
