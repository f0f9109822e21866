// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends requests without waiting for the server to take them: a device that is slow to take its own must not delay
//! those of the others. What the socket does not take at once waits for a thread of the connection.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{SEND_MAX, Socket};

/// What writes consist of.
static PATTERN: [u8; 1 << 16] = [0x5a; 1 << 16];
/// Parts of the pattern in one call.
const PARTS: usize = 16;
/// Bytes before the payload of a request.
pub(super) const HEAD_BYTES: usize = 28;

/// A request, and how much of it has been sent.
pub(super) struct Message {
    pub head: [u8; HEAD_BYTES],
    pub payload_bytes: usize,
    sent_bytes: usize,
}

impl Message {
    pub fn new(head: [u8; HEAD_BYTES], payload_bytes: usize) -> Message {
        Message { head, payload_bytes, sent_bytes: 0 }
    }

    fn is_sent(&self) -> bool {
        self.sent_bytes == HEAD_BYTES + self.payload_bytes
    }

    /// Calls `send` with what is left, at most [`PARTS`] parts.
    fn advance(&mut self, send: &mut dyn FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); PARTS];
        let mut count = 0;
        if self.sent_bytes < HEAD_BYTES {
            slices[0] = IoSlice::new(&self.head[self.sent_bytes..]);
            count = 1;
        }
        let mut left = self.payload_bytes - self.sent_bytes.saturating_sub(HEAD_BYTES);
        while left > 0 && count < PARTS {
            let part = left.min(PATTERN.len());
            slices[count] = IoSlice::new(&PATTERN[..part]);
            (left, count) = (left - part, count + 1);
        }
        match send(&slices[..count])? {
            0 => Err(io::Error::new(io::ErrorKind::WriteZero, "the server takes nothing more")),
            sent => {
                self.sent_bytes += sent;
                Ok(())
            }
        }
    }
}

#[derive(Default)]
struct Backlog {
    waiting: VecDeque<Message>,
    /// The thread is sending: what comes must wait behind it.
    busy: bool,
    /// Nothing more will come.
    closed: bool,
    failed: Option<io::Error>,
}

#[derive(Default)]
struct Shared {
    backlog: Mutex<Backlog>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending side of a connection.
pub(super) struct Outbox {
    socket: Arc<dyn Socket>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Outbox {
    pub fn new(socket: Arc<dyn Socket>) -> Outbox {
        let shared = Arc::new(Shared::default());
        let (out, seen) = (Arc::clone(&socket), Arc::clone(&shared));
        let thread = Some(thread::spawn(move || drain(&*out, &seen)));
        Outbox { socket, shared, thread }
    }

    /// Sends a message, or as much of it as the socket takes now; the rest follows.
    ///
    /// # Errors
    /// Those of the socket, also of messages that were left to the thread.
    pub fn send(&self, mut message: Message) -> io::Result<()> {
        let mut backlog = self.shared.lock();
        if let Some(error) = backlog.failed.take() {
            return Err(error);
        }
        if !backlog.busy && backlog.waiting.is_empty() {
            while !message.is_sent() {
                match message.advance(&mut |slices| self.socket.send_now(slices)) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            if message.is_sent() {
                return Ok(());
            }
        }
        backlog.waiting.push_back(message);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Why the thread could not send, once.
    pub fn failure(&self) -> Option<io::Error> {
        self.shared.lock().failed.take()
    }

    /// Sends the last message and closes the socket, at the latest after `patience`.
    pub fn close(&mut self, farewell: Message, patience: Duration) -> io::Result<()> {
        let told = self.send(farewell);
        let mut backlog = self.shared.lock();
        backlog.closed = true;
        self.shared.changed.notify_all();
        let left = |backlog: &mut Backlog| backlog.failed.is_none() && (backlog.busy || !backlog.waiting.is_empty());
        let waited = self.shared.changed.wait_timeout_while(backlog, patience, left);
        let stuck = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        // This also ends a send that the server does not take.
        let closed = self.socket.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the server did not take all requests");
        told.and(if stuck { Err(late()) } else { Ok(()) }).and(closed)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // A connection that no device took over: what waits is not wanted.
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        let _ = self.socket.close();
        let _ = thread.join();
    }
}

/// Sends what waits, until the outbox is closed or the socket fails.
fn drain(socket: &dyn Socket, shared: &Shared) {
    loop {
        let mut backlog = shared.lock();
        backlog.busy = false;
        shared.changed.notify_all();
        let mut message = loop {
            if let Some(message) = backlog.waiting.pop_front() {
                break message;
            }
            if backlog.closed {
                return;
            }
            backlog = shared.changed.wait(backlog).unwrap_or_else(PoisonError::into_inner);
        };
        backlog.busy = true;
        drop(backlog);
        while !message.is_sent() {
            match message.advance(&mut |slices| socket.send(slices)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let mut backlog = shared.lock();
                    backlog.busy = false;
                    backlog.failed = Some(stuck(error));
                    shared.changed.notify_all();
                    // The receiver ends with the connection and says so.
                    let _ = socket.close();
                    return;
                }
            }
        }
    }
}

/// Says what a write that timed out means.
fn stuck(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::WouldBlock {
        return error;
    }
    io::Error::new(io::ErrorKind::TimedOut, format!("the server did not take a request in {} s", SEND_MAX.as_secs()))
}
