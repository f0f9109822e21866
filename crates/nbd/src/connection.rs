// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves one client: reads requests, asks the model, keeps each reply until its deadline.
//!
//! A loop: send the replies that are due, receive and serve requests, wait. The wait ends when the client sends
//! something or at the earliest deadline. The last part of the wait is spun, because a sleep ends late.

use std::collections::{BinaryHeap, VecDeque};
use std::io::IoSlice;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use linnet_types::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use crate::budget::FLOOR_BYTES;
use crate::export::{Ask, Data, Served};
use crate::handshake::Chosen;
use crate::input::Input;
use crate::request::{Reply, check};
use crate::server::{Activity, Shared};
use crate::stats::{Command, Sample};
use crate::stream::Stream;
use crate::wire::{self, Head, PAYLOAD_BYTES_MAX, REQUEST_BYTES, command, command_flag, errno};

/// What a request in flight counts in addition to its data.
const OVERHEAD_BYTES: usize = 512;
/// Parts of a range that one answer tells apart.
const EXTENTS_MAX: usize = 4096;
/// Replies sent in one system call.
const SLICES: usize = 64;
/// If a client has closed its sending side and accepts no reply for this long, its connection is closed.
const STALL_NS: Nanos = 10_000_000_000;
/// Longest sleep while a client owes something: bytes of a request, or room for a reply.
const WATCH_NS: Nanos = 1_000_000_000;
/// Sleep until the server's memory is asked for again.
const SHORT_NS: Nanos = 2_000_000;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client left, or the server stops.
    Closed,
    /// The client violated the protocol.
    Garbled,
}

enum Step {
    /// A request was served.
    Took,
    /// The next one is incomplete.
    Short,
    /// The next one must wait until replies have left.
    Full,
    /// The next bytes are not a request.
    Garbled,
}

pub struct Connection<'a> {
    shared: &'a Shared,
    export: &'a Served,
    structured: bool,
    allocation: bool,
    stream: &'a Stream,
    input: Input,
    /// Bytes of a refused payload that were not received yet.
    skip: u64,
    waiting: BinaryHeap<Reply>,
    due: VecDeque<Reply>,
    /// How many bytes of the first due reply have been sent.
    sent: usize,
    inflight_bytes: usize,
    /// The part of the replies' bytes, and of the input buffer, that was taken from the server's budget.
    taken_bytes: usize,
    input_taken_bytes: usize,
    /// The next step needs more of the budget than there is.
    short: bool,
    activity: &'a Activity,
    busy: bool,
    turns: u64,
    /// The client sends nothing more.
    ended: bool,
    full: bool,
    spinning: bool,
    /// When something was last sent or became due, or when the client closed its sending side.
    moved_wall_ns: Nanos,
    /// When the request began that is not complete yet.
    begun_wall_ns: Option<Nanos>,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.stop_spinning();
        self.shared.budget.give(self.taken_bytes + self.input_taken_bytes);
    }
}

impl<'a> Connection<'a> {
    pub fn new(
        shared: &'a Shared,
        export: &'a Served,
        chosen: &Chosen,
        stream: &'a Stream,
        activity: &'a Activity,
    ) -> Connection<'a> {
        Connection {
            shared,
            export,
            structured: chosen.structured,
            allocation: chosen.allocation,
            stream,
            input: Input::new(),
            skip: 0,
            waiting: BinaryHeap::new(),
            due: VecDeque::new(),
            sent: 0,
            inflight_bytes: 0,
            taken_bytes: 0,
            input_taken_bytes: 0,
            short: false,
            activity,
            busy: false,
            turns: 0,
            ended: false,
            full: false,
            spinning: false,
            moved_wall_ns: 0,
            begun_wall_ns: None,
        }
    }

    /// Serves the client until it disconnects.
    pub fn run(mut self) -> End {
        // Otherwise the kernel may end a sleep up to 50 us late, in order to wake several threads at once.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.release();
            if self.send().is_err() {
                return End::Closed;
            }
            self.short = false;
            let Ok(received) = self.receive() else { return End::Closed };
            self.full = false;
            loop {
                match self.step() {
                    Step::Took => self.begun_wall_ns = None,
                    Step::Short => break,
                    Step::Full => {
                        self.full = true;
                        break;
                    }
                    Step::Garbled => return End::Garbled,
                }
            }
            self.settle();
            if self.ended && !self.full && self.waiting.is_empty() && self.due.is_empty() {
                return End::Closed;
            }
            if !received && self.wait().is_err() {
                return End::Closed;
            }
        }
        End::Closed
    }

    /// Moves the replies that are due from the heap to the socket's queue.
    fn release(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let now = self.shared.clock.wall_ns();
        if self.due.is_empty() {
            self.moved_wall_ns = now;
        }
        while self.waiting.peek().is_some_and(|reply| reply.due_wall_ns <= now) {
            self.due.extend(self.waiting.pop());
        }
    }

    /// Sends as much as the socket accepts.
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

    /// Records the replies that have been sent and drops them.
    fn account(&mut self, left: usize) {
        self.sent += left;
        let mut ledger = None;
        let now = self.shared.clock.model_of(self.moved_wall_ns);
        while let Some(reply) = self.due.front().filter(|reply| reply.bytes.len() <= self.sent) {
            self.sent -= reply.bytes.len();
            self.inflight_bytes -= reply.charge;
            self.taken_bytes -= reply.taken;
            self.shared.budget.give(reply.taken);
            if let Some(mut sample) = reply.sample {
                sample.latency_ns_achieved = now.saturating_sub(sample.arrive_ns);
                ledger.get_or_insert_with(|| self.export.ledger()).record(sample);
            }
            self.due.pop_front();
        }
    }

    /// Receives what the socket has. Returns whether there was anything.
    fn receive(&mut self) -> Result<bool, Errno> {
        if self.ended || self.full {
            return Ok(false);
        }
        let growth = self.input.growth();
        if growth > 0 {
            if !self.shared.budget.take(growth) {
                self.short = true;
                return Ok(false);
            }
            self.input_taken_bytes += growth;
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

    /// Serves the next complete request.
    fn step(&mut self) -> Step {
        if self.skip > 0 {
            let count = self.skip.min(self.input.filled().len() as u64);
            self.input.consume(count as usize);
            self.skip -= count;
        }
        let Some(head) = self.input.filled().first_chunk::<REQUEST_BYTES>() else { return Step::Short };
        let Some(head) = Head::parse(head) else { return Step::Garbled };
        if head.command == command::DISCONNECT {
            // The rest of the input is ignored. Requests in flight are still answered.
            self.input.consume(self.input.filled().len());
            self.end();
            return Step::Short;
        }
        let payload = if head.command == command::WRITE { head.size_bytes as usize } else { 0 };
        let too_long = payload > PAYLOAD_BYTES_MAX as usize;
        if !too_long && self.input.filled().len() < REQUEST_BYTES + payload {
            return Step::Short;
        }
        if head.command == command::BLOCK_STATUS && self.allocation {
            return self.block_status(&head);
        }
        let asked = check(self.export, &head);
        let data = if head.command == command::READ && asked.is_ok() { head.size_bytes as usize } else { 0 };
        let charge = OVERHEAD_BYTES + data;
        if self.inflight_bytes > 0 && self.inflight_bytes + charge > self.shared.settings.inflight_bytes_max {
            return Step::Full;
        }
        // A connection without open requests may have a small one outside of the budget.
        let free = self.inflight_bytes == 0 && charge <= FLOOR_BYTES;
        if !free && !self.shared.budget.take(charge) {
            self.short = true;
            return Step::Full;
        }
        let taken = if free { 0 } else { charge };
        match asked {
            Ok(ask) => self.serve(&head, &ask, payload, (charge, taken)),
            Err(error) => {
                self.export.ledger().refused += 1;
                let bytes = self.failure(&head, error);
                self.keep(0, bytes, (charge, taken), None);
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

    /// Answers which parts of a range are stored. That takes no time of the model: the host asks its own driver.
    fn block_status(&mut self, head: &Head) -> Step {
        let charge = OVERHEAD_BYTES + 8 * EXTENTS_MAX;
        if self.inflight_bytes > 0 && self.inflight_bytes + charge > self.shared.settings.inflight_bytes_max {
            return Step::Full;
        }
        let free = self.inflight_bytes == 0;
        if !free && !self.shared.budget.take(charge) {
            self.short = true;
            return Step::Full;
        }
        let end = head.offset_bytes.checked_add(u64::from(head.size_bytes));
        let inside = head.size_bytes > 0 && end.is_some_and(|end| end <= self.export.size_bytes);
        let bytes = if !inside || head.flags & !command_flag::REQ_ONE != 0 {
            self.failure(head, errno::EINVAL)
        } else {
            let most = if head.flags & command_flag::REQ_ONE != 0 { 1 } else { EXTENTS_MAX };
            match self.export.extents(head.offset_bytes, head.size_bytes, most) {
                Ok(extents) => wire::block_status(head.cookie, &extents),
                Err(_) => self.failure(head, errno::EIO),
            }
        };
        self.keep(0, bytes, (charge, if free { 0 } else { charge }), None);
        self.input.consume(REQUEST_BYTES);
        Step::Took
    }

    /// Asks the model, moves the data, and keeps the reply for its deadline.
    fn serve(&mut self, head: &Head, ask: &Ask, payload: usize, charge: (usize, usize)) {
        let mut bytes = Vec::new();
        let data = match ask.command {
            Command::Read => {
                let at;
                (bytes, at) = wire::read_reply(self.structured, head.cookie, ask.offset_bytes, ask.size_bytes);
                Data::Into(&mut bytes[at..])
            }
            Command::Write => Data::From(&self.input.filled()[REQUEST_BYTES..REQUEST_BYTES + payload]),
            _ => Data::None,
        };
        let held = self.export.serve(&self.shared.clock, self.shared.settings.lost_after_ns, ask, data);
        let Some(held) = held else {
            self.shared.budget.give(charge.1);
            return;
        };
        if held.failed {
            bytes = self.failure(head, errno::EIO);
        } else if bytes.is_empty() {
            bytes = wire::success(head.cookie);
        }
        self.keep(held.due_wall_ns, bytes, charge, Some(held.sample));
    }

    fn failure(&self, head: &Head, error: u32) -> Vec<u8> {
        let structured = matches!(head.command, command::READ | command::BLOCK_STATUS);
        wire::failure(self.structured && structured, head.cookie, error)
    }

    /// Keeps a reply; `charge` is what it counts, and the part of it that was taken from the budget.
    fn keep(&mut self, due_wall_ns: Nanos, bytes: Vec<u8>, charge: (usize, usize), sample: Option<Sample>) {
        let (charge, taken) = charge;
        self.inflight_bytes += charge;
        self.taken_bytes += taken;
        self.turns += 1;
        self.waiting.push(Reply { due_wall_ns, turn: self.turns, bytes, charge, taken, sample });
    }

    /// Gives back what the input buffer no longer needs, and notes whether requests are open.
    fn settle(&mut self) {
        let spare = self.input_taken_bytes.saturating_sub(self.input.extra_bytes());
        self.input_taken_bytes -= spare;
        self.shared.budget.give(spare);
        let partial = !self.input.filled().is_empty() || self.skip > 0;
        if !partial || self.short || self.full {
            self.begun_wall_ns = None;
        } else if self.begun_wall_ns.is_none() {
            self.begun_wall_ns = Some(self.shared.clock.wall_ns());
        }
        // A reply that the client does not take keeps nobody else waiting: it counts as idle.
        let busy = !self.waiting.is_empty();
        if busy != self.busy {
            self.busy = busy;
            self.activity.note(busy, self.shared.clock.wall_ns());
        }
    }

    /// Since when the client owes something: room for replies that are due, or the rest of a request.
    fn owes_since(&self) -> Option<Nanos> {
        let replies = (!self.due.is_empty()).then_some(self.moved_wall_ns);
        [replies, self.begun_wall_ns].into_iter().flatten().min()
    }

    /// Waits for the client, for room in the socket, or for the earliest deadline.
    fn wait(&mut self) -> Result<(), Errno> {
        let now = self.shared.clock.wall_ns();
        let left_ns = self.waiting.peek().map(|reply| reply.due_wall_ns.saturating_sub(now));
        let mut sleep_ns = left_ns;
        if let Some(left_ns) = left_ns.filter(|_| self.due.is_empty()) {
            let spin_ns = self.shared.settings.spin_ns;
            if left_ns <= spin_ns && self.start_spinning() {
                std::hint::spin_loop();
                return Ok(());
            }
            if left_ns > spin_ns && self.shared.may_spin() {
                sleep_ns = Some(left_ns - spin_ns);
            }
        }
        self.stop_spinning();
        if let Some(since) = self.owes_since() {
            let most_ns = self.shared.settings.stall_max.as_nanos() as u64;
            let most_ns = if self.ended { most_ns.min(STALL_NS) } else { most_ns };
            if now.saturating_sub(since) > most_ns {
                return Err(Errno::TIMEDOUT);
            }
            sleep_ns = Some(sleep_ns.unwrap_or(WATCH_NS).min(WATCH_NS).min(most_ns));
        }
        if self.short {
            sleep_ns = Some(sleep_ns.unwrap_or(SHORT_NS).min(SHORT_NS));
        }
        let reading = !self.ended && !self.full && !self.short;
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
        // Both directions are closed, so no answer can be sent. If one side can still be read, reading reports its end.
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
