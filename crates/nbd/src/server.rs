// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running server: its threads, statistics and shutdown.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::budget::Budget;
use crate::builder::Settings;
use crate::clock::Clock;
use crate::connection::{Connection, End};
use crate::error::Error;
use crate::export::Served;
use crate::handshake::{self, Ended};
use crate::listen::{Address, Listener};
use crate::stats::{Sample, Stats};
use crate::stream::{Stream, Until};

/// Idle time after which a connection makes way for a new one.
const IDLE: Duration = Duration::from_secs(1);
/// Pause after an accept that failed because resources were short.
const BREATH: Duration = Duration::from_millis(20);

/// The open connections: their sockets, which can be shut down, and their threads, which can be joined.
#[derive(Default)]
struct Open {
    next: u64,
    streams: HashMap<u64, Client>,
    threads: Vec<JoinHandle<()>>,
}

/// A connected client.
struct Client {
    stream: Stream,
    activity: Arc<Activity>,
}

/// What a client is doing, so that an idle one can make way.
#[derive(Debug)]
pub(crate) struct Activity {
    /// When it last did something, on the clock of the server; [`Activity::BUSY`] while requests are open.
    since_wall_ns: AtomicU64,
    shaken: AtomicBool,
}

impl Activity {
    const BUSY: u64 = u64::MAX;

    fn new(now_wall_ns: u64) -> Activity {
        Activity { since_wall_ns: AtomicU64::new(now_wall_ns), shaken: AtomicBool::new(false) }
    }

    /// Notes that requests are open, or that there are none any more.
    pub fn note(&self, busy: bool, now_wall_ns: u64) {
        self.since_wall_ns.store(if busy { Self::BUSY } else { now_wall_ns }, Relaxed);
    }

    /// Those that make way first: handshakes, then the longest idle. `None` for one that stays.
    fn rank(&self, now_wall_ns: u64) -> Option<(bool, u64)> {
        let since = self.since_wall_ns.load(Relaxed);
        let idle = since != Self::BUSY && now_wall_ns.saturating_sub(since) >= IDLE.as_nanos() as u64;
        idle.then(|| (self.shaken.load(Relaxed), since))
    }
}

/// The state that the threads of a server share.
pub(crate) struct Shared {
    pub clock: Clock,
    pub exports: Vec<Served>,
    pub settings: Settings,
    pub budget: Budget,
    spinners_max: usize,
    spinners: AtomicUsize,
    pub stop: AtomicBool,
    open: Mutex<Open>,
    connections_total: AtomicU64,
    connections_refused: AtomicU64,
    connections_displaced: AtomicU64,
    handshakes_ended: AtomicU64,
    garbled: AtomicU64,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more connection may spin now.
    pub fn may_spin(&self) -> bool {
        self.settings.spin_ns > 0 && self.spinners.load(Relaxed) < self.spinners_max
    }

    pub fn start_spinning(&self) -> bool {
        let more = |count| (count < self.spinners_max).then_some(count + 1);
        self.settings.spin_ns > 0 && self.spinners.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    pub fn stop_spinning(&self) {
        self.spinners.fetch_sub(1, Relaxed);
    }

    fn stats(&self) -> Stats {
        Stats {
            uptime_ns: self.clock.model_of(self.clock.wall_ns()),
            time_scale: self.clock.time_scale(),
            late_after_ns: self.settings.late_after_ns,
            connections: self.open().streams.len() as u64,
            connections_total: self.connections_total.load(Relaxed),
            connections_refused: self.connections_refused.load(Relaxed),
            connections_displaced: self.connections_displaced.load(Relaxed),
            bytes_left: self.budget.left() as u64,
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
            // Interrupted, or out of memory: try again.
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
            // Out of descriptors, or a client that has already disconnected.
            Err(_) => thread::sleep(BREATH),
        }
    }
}

/// Starts a thread for a client.
fn begin(shared: &Arc<Shared>, stream: Stream) -> io::Result<()> {
    let mut open = shared.open();
    open.threads.retain(|thread| !thread.is_finished());
    let now = shared.clock.wall_ns();
    if open.streams.len() >= shared.settings.connections_max {
        let idle = open.streams.iter().filter_map(|(&id, client)| Some((client.activity.rank(now)?, id))).min();
        let Some(client) = idle.and_then(|(_, id)| open.streams.remove(&id)) else {
            shared.connections_refused.fetch_add(1, Relaxed);
            return Ok(());
        };
        client.stream.cut();
        shared.connections_displaced.fetch_add(1, Relaxed);
    }
    let id = open.next;
    open.next += 1;
    let activity = Arc::new(Activity::new(now));
    open.streams.insert(id, Client { stream: stream.try_clone()?, activity: Arc::clone(&activity) });
    let guard = Guard { shared: Arc::clone(shared), id };
    let run = move || {
        let mut stream = stream;
        talk(&guard.shared, &mut stream, &activity);
    };
    // If this fails, the closure is dropped together with its guard, which takes the lock. So release the lock first.
    drop(open);
    let thread = thread::Builder::new().name("nbd-client".into()).spawn(run)?;
    shared.connections_total.fetch_add(1, Relaxed);
    shared.open().threads.push(thread);
    Ok(())
}

/// Removes a connection when its thread ends in any way.
struct Guard {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let client = self.shared.open().streams.remove(&self.id);
        if let Some(client) = client {
            client.stream.cut();
        }
    }
}

/// Serves a client from handshake to disconnect.
fn talk(shared: &Shared, stream: &mut Stream, activity: &Activity) {
    let chosen = handshake::run(&mut Until::new(stream, shared.settings.handshake_max), &shared.exports)
        .and_then(|chosen| stream.set_timeout(None).map(|()| chosen));
    let chosen = match chosen {
        Ok(Ok(chosen)) => chosen,
        ended => {
            shared.handshakes_ended.fetch_add(1, Relaxed);
            shared.garbled.fetch_add(u64::from(matches!(ended, Ok(Err(Ended::Garbled)))), Relaxed);
            return;
        }
    };
    activity.shaken.store(true, Relaxed);
    activity.note(false, shared.clock.wall_ns());
    let export = &shared.exports[chosen.export];
    if Connection::new(shared, export, &chosen, stream, activity).run() == End::Garbled {
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
    /// Starts the model clock and a thread for each address.
    pub(crate) fn start(exports: Vec<Served>, listeners: Vec<Listener>, settings: Settings) -> Result<Handle, Error> {
        let addresses = listeners.iter().map(|listener| listener.address.clone()).collect();
        let shared = Arc::new(Shared {
            clock: Clock::new(settings.time_scale),
            exports,
            budget: Budget::new(settings.bytes_max),
            settings,
            spinners_max: thread::available_parallelism().map_or(1, usize::from) / 2,
            spinners: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            open: Mutex::default(),
            connections_total: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            connections_displaced: AtomicU64::new(0),
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

    /// The addresses it listens on, in the order of the builder, with the ports that were actually bound.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The NBD URIs of an export, one for each address.
    pub fn uris(&self, export: &str) -> Vec<String> {
        self.addresses.iter().map(|address| address.uri(export)).collect()
    }

    /// The statistics so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// The last requests of an export, oldest first ([`crate::Builder::log_len`]); `None` for a name that is not
    /// served.
    pub fn samples(&self, export: &str) -> Option<Vec<Sample>> {
        let found = self.shared.exports.iter().find(|served| served.name == export)?;
        Some(found.ledger().samples())
    }

    /// Stops listening, closes every connection, waits for all threads, removes Unix sockets. Requests in flight get no
    /// answer. Returns the final statistics.
    pub fn stop(mut self) -> Stats {
        self.halt();
        self.shared.stats()
    }

    fn halt(&mut self) {
        self.shared.stop.store(true, Relaxed);
        drop(self.wake.take());
        // If a thread panicked, the others must still end.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let threads = {
            let mut open = self.shared.open();
            open.streams.values().for_each(|client| client.stream.cut());
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
