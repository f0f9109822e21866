// SPDX-License-Identifier: MIT OR Apache-2.0
//! One client: takes requests, asks the model, keeps each reply until its deadline.
//!
//! A loop over: send what is due, receive what is there, serve it, wait. The wait ends with the client or with the
//! earliest deadline; its last stretch is spun, because sleeping oversleeps.

use std::collections::{BinaryHeap, VecDeque};
use std::io::IoSlice;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use linnet_types::{Nanos, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use crate::export::{Ask, Served};
use crate::input::Input;
use crate::server::Shared;
use crate::stats::{Command, Sample};
use crate::stream::Stream;
use crate::wire::{self, Head, PAYLOAD_BYTES_MAX, REQUEST_BYTES, command, command_flag, errno};

/// What a request in flight is charged beside its data.
const OVERHEAD_BYTES: usize = 512;
/// Replies handed to the socket in one call.
const SLICES: usize = 64;
/// A client that closed its sending side and takes no reply for this long is given up.
const STALL_NS: Nanos = 10_000_000_000;
/// Longest sleep while such a client is watched.
const WATCH_NS: Nanos = 1_000_000_000;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client left, or the server stops.
    Closed,
    /// The stream made no sense.
    Garbled,
}

/// A reply that waits for its deadline, or for the socket.
struct Reply {
    due_wall_ns: Nanos,
    /// Replies of one deadline leave in the order of their requests.
    turn: u64,
    bytes: Vec<u8>,
    charge: usize,
    /// What to record; nothing for a refusal. The achieved latency is filled in when the reply has left.
    sample: Option<Sample>,
}

/// Earliest deadline first: `BinaryHeap` gives the greatest, so the order is turned around.
impl Ord for Reply {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.due_wall_ns, other.turn).cmp(&(self.due_wall_ns, self.turn))
    }
}

impl PartialOrd for Reply {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Reply {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Reply {}

enum Step {
    /// A request was served.
    Took,
    /// The next one is incomplete.
    Short,
    /// The next one must wait until replies have left.
    Full,
    /// What follows is not a request.
    Garbled,
}

pub struct Connection<'a> {
    shared: &'a Shared,
    export: &'a Served,
    structured: bool,
    stream: &'a Stream,
    input: Input,
    /// Bytes of a refused payload that are still to come.
    skip: u64,
    waiting: BinaryHeap<Reply>,
    due: VecDeque<Reply>,
    /// Bytes of the first due reply that have left.
    sent: usize,
    inflight_bytes: usize,
    turns: u64,
    /// The client sends nothing more.
    ended: bool,
    full: bool,
    spinning: bool,
    /// When something was last sent, or the client ended.
    moved_wall_ns: Nanos,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.stop_spinning();
    }
}

/// Checks a request against the export; otherwise the error that the protocol asks for.
fn check(export: &Served, head: &Head) -> Result<Ask, u32> {
    let (command, flags) = match head.command {
        command::READ => (Command::Read, command_flag::DF),
        command::WRITE => (Command::Write, 0),
        command::FLUSH => (Command::Flush, 0),
        command::TRIM => (Command::Trim, 0),
        command::CACHE => (Command::Cache, 0),
        command::WRITE_ZEROES => (Command::WriteZeroes, command_flag::NO_HOLE),
        _ => return Err(errno::EINVAL),
    };
    if head.flags & !(flags | command_flag::FUA) != 0 {
        return Err(errno::EINVAL);
    }
    let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
    if writes && export.read_only {
        return Err(errno::EPERM);
    }
    let durable = writes && head.flags & command_flag::FUA != 0;
    let no_hole = head.flags & command_flag::NO_HOLE != 0;
    if command == Command::Flush {
        return Ok(Ask { command, offset_bytes: 0, size_bytes: 0, durable, no_hole });
    }
    let has_data = matches!(command, Command::Read | Command::Write);
    if head.size_bytes == 0 || (has_data && head.size_bytes > PAYLOAD_BYTES_MAX) {
        return Err(errno::EINVAL);
    }
    let inside = head.offset_bytes.checked_add(u64::from(head.size_bytes)).is_some_and(|end| end <= export.size_bytes);
    match command {
        _ if inside => {
            Ok(Ask { command, offset_bytes: head.offset_bytes, size_bytes: head.size_bytes, durable, no_hole })
        }
        Command::Write | Command::WriteZeroes => Err(errno::ENOSPC),
        _ => Err(errno::EINVAL),
    }
}

impl<'a> Connection<'a> {
    pub fn new(shared: &'a Shared, export: &'a Served, structured: bool, stream: &'a Stream) -> Connection<'a> {
        Connection {
            shared,
            export,
            structured,
            stream,
            input: Input::new(),
            skip: 0,
            waiting: BinaryHeap::new(),
            due: VecDeque::new(),
            sent: 0,
            inflight_bytes: 0,
            turns: 0,
            ended: false,
            full: false,
            spinning: false,
            moved_wall_ns: 0,
        }
    }

    /// Serves the client until it leaves.
    pub fn run(mut self) -> End {
        // The kernel may otherwise be 50 us late on purpose, to wake several sleepers at once.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.release();
            if self.send().is_err() {
                return End::Closed;
            }
            let Ok(received) = self.receive() else { return End::Closed };
            self.full = false;
            loop {
                match self.step() {
                    Step::Took => {}
                    Step::Short => break,
                    Step::Full => {
                        self.full = true;
                        break;
                    }
                    Step::Garbled => return End::Garbled,
                }
            }
            if self.ended && !self.full && self.waiting.is_empty() && self.due.is_empty() {
                return End::Closed;
            }
            if !received && self.wait().is_err() {
                return End::Closed;
            }
        }
        End::Closed
    }

    /// Moves what is due from the heap to the socket's queue.
    fn release(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let now = self.shared.clock.wall_ns();
        while self.waiting.peek().is_some_and(|reply| reply.due_wall_ns <= now) {
            self.due.extend(self.waiting.pop());
        }
    }

    /// Sends as much as the socket takes.
    fn send(&mut self) -> Result<(), Errno> {
        while !self.due.is_empty() {
            let mut slices: [IoSlice<'_>; SLICES] = std::array::from_fn(|_| IoSlice::new(&[]));
            let mut count = 0;
            for (slot, reply) in slices.iter_mut().zip(&self.due) {
                *slot = IoSlice::new(&reply.bytes[if count == 0 { self.sent } else { 0 }..]);
                count += 1;
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let left = match sendmsg(self.stream, &slices[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(left) => left,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            self.moved_wall_ns = self.shared.clock.wall_ns();
            self.account(left);
        }
        Ok(())
    }

    /// Drops the replies that have left and records them.
    fn account(&mut self, left: usize) {
        self.sent += left;
        let mut ledger = None;
        let now = self.shared.clock.model_of(self.moved_wall_ns);
        while let Some(reply) = self.due.front().filter(|reply| reply.bytes.len() <= self.sent) {
            self.sent -= reply.bytes.len();
            self.inflight_bytes -= reply.charge;
            if let Some(mut sample) = reply.sample {
                sample.latency_ns_achieved = now.saturating_sub(sample.arrive_ns);
                ledger.get_or_insert_with(|| self.export.ledger()).record(sample);
            }
            self.due.pop_front();
        }
    }

    /// Takes what the socket holds; whether there was something.
    fn receive(&mut self) -> Result<bool, Errno> {
        if self.ended || self.full {
            return Ok(false);
        }
        match recv(self.stream, self.input.space(), RecvFlags::DONTWAIT) {
            Ok((_, 0)) => {
                self.end();
                Ok(false)
            }
            Ok((_, count)) => {
                self.input.received(count);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.moved_wall_ns = self.shared.clock.wall_ns();
    }

    /// Serves the next request that is complete.
    fn step(&mut self) -> Step {
        if self.skip > 0 {
            let count = self.skip.min(self.input.filled().len() as u64);
            self.input.consume(count as usize);
            self.skip -= count;
        }
        let Some(head) = self.input.filled().first_chunk::<REQUEST_BYTES>() else { return Step::Short };
        let Some(head) = Head::parse(head) else { return Step::Garbled };
        if head.command == command::DISCONNECT {
            // Whatever follows is not for us. What is in flight is still answered.
            self.input.consume(self.input.filled().len());
            self.end();
            return Step::Short;
        }
        let payload = if head.command == command::WRITE { head.size_bytes as usize } else { 0 };
        let too_long = payload > PAYLOAD_BYTES_MAX as usize;
        if !too_long && self.input.filled().len() < REQUEST_BYTES + payload {
            return Step::Short;
        }
        let asked = check(self.export, &head);
        let data = if head.command == command::READ && asked.is_ok() { head.size_bytes as usize } else { 0 };
        let charge = OVERHEAD_BYTES + data;
        if self.inflight_bytes > 0 && self.inflight_bytes + charge > self.shared.inflight_bytes_max {
            return Step::Full;
        }
        match asked {
            Ok(ask) => self.serve(&head, &ask, payload, charge),
            Err(error) => {
                self.export.ledger().refused += 1;
                let bytes = self.failure(&head, error);
                self.keep(0, bytes, charge, None);
            }
        }
        if too_long {
            self.skip = payload as u64;
            self.input.consume(REQUEST_BYTES);
        } else {
            self.input.consume(REQUEST_BYTES + payload);
        }
        Step::Took
    }

    /// Asks the model, moves the data, and keeps the reply for its deadline.
    fn serve(&mut self, head: &Head, ask: &Ask, payload: usize, charge: usize) {
        let (arrive_ns, outcome) = self.export.submit(&self.shared.clock, ask);
        let (done_ns, mut failed) = match (outcome, self.shared.lost_after_ns) {
            (Outcome::Done(at), _) => (at.max(arrive_ns), false),
            (Outcome::Error(at), _) => (at.max(arrive_ns), true),
            (Outcome::Lost, after) => {
                self.export.ledger().lost += 1;
                match after {
                    None => return,
                    Some(after) => (arrive_ns.saturating_add(after), true),
                }
            }
        };
        let store = &self.export.store;
        let mut bytes = Vec::new();
        if !failed {
            let end = REQUEST_BYTES + payload;
            let moved = match ask.command {
                Command::Read => {
                    let at;
                    (bytes, at) = wire::read_reply(self.structured, head.cookie, ask.offset_bytes, ask.size_bytes);
                    store.read(ask.offset_bytes, &mut bytes[at..])
                }
                Command::Write => store.write(ask.offset_bytes, &self.input.filled()[REQUEST_BYTES..end]),
                Command::Trim | Command::WriteZeroes => store.clear(ask.offset_bytes, u64::from(ask.size_bytes)),
                Command::Flush => store.flush(),
                Command::Cache => Ok(()),
            };
            let moved = if ask.durable { moved.and_then(|()| store.flush()) } else { moved };
            failed = moved.is_err();
        }
        if failed {
            bytes = self.failure(head, errno::EIO);
        } else if bytes.is_empty() {
            bytes = wire::success(head.cookie);
        }
        let sample = Sample {
            arrive_ns,
            offset_bytes: ask.offset_bytes,
            size_bytes: ask.size_bytes,
            command: ask.command,
            failed,
            latency_ns_model: done_ns - arrive_ns,
            latency_ns_achieved: 0,
        };
        self.keep(self.shared.clock.wall_of(done_ns), bytes, charge, Some(sample));
    }

    fn failure(&self, head: &Head, error: u32) -> Vec<u8> {
        wire::failure(self.structured && head.command == command::READ, head.cookie, error)
    }

    fn keep(&mut self, due_wall_ns: Nanos, bytes: Vec<u8>, charge: usize, sample: Option<Sample>) {
        self.inflight_bytes += charge;
        self.turns += 1;
        self.waiting.push(Reply { due_wall_ns, turn: self.turns, bytes, charge, sample });
    }

    /// Waits for the client, for room in the socket, or for the earliest deadline.
    fn wait(&mut self) -> Result<(), Errno> {
        let now = self.shared.clock.wall_ns();
        let left_ns = self.waiting.peek().map(|reply| reply.due_wall_ns.saturating_sub(now));
        let mut sleep_ns = left_ns;
        if let Some(left_ns) = left_ns.filter(|_| self.due.is_empty()) {
            let spin_ns = self.shared.spin_ns;
            if left_ns <= spin_ns && self.start_spinning() {
                std::hint::spin_loop();
                return Ok(());
            }
            if left_ns > spin_ns && self.shared.may_spin() {
                sleep_ns = Some(left_ns - spin_ns);
            }
        }
        self.stop_spinning();
        if self.ended && !self.due.is_empty() {
            if now.saturating_sub(self.moved_wall_ns) > STALL_NS {
                return Err(Errno::TIMEDOUT);
            }
            sleep_ns = Some(sleep_ns.unwrap_or(WATCH_NS).min(WATCH_NS));
        }
        let reading = !self.ended && !self.full;
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, reading);
        wanted.set(PollFlags::OUT, !self.due.is_empty());
        let mut fds = [PollFd::from_borrowed_fd(self.stream.as_fd(), wanted)];
        let timeout = sleep_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).min(i64::MAX as u64) as i64,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        // Both directions are closed: there is nobody to answer. A side that can still be read tells it by itself.
        if !reading && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(Errno::CONNRESET);
        }
        Ok(())
    }

    fn start_spinning(&mut self) -> bool {
        self.spinning = self.spinning || self.shared.start_spinning();
        self.spinning
    }

    fn stop_spinning(&mut self) {
        if std::mem::take(&mut self.spinning) {
            self.shared.stop_spinning();
        }
    }
}
