// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves one client: reads requests, asks the model, keeps each reply until its deadline.
//!
//! A loop: send the replies that are due, receive and serve requests, wait. The wait ends when the client sends
//! something or at the earliest deadline. The last part of the wait is spun, because a sleep ends late.

mod serve;
mod wait;

use std::collections::{BinaryHeap, VecDeque};
use std::io::IoSlice;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use linnet_types::Nanos;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use crate::budget::{FLOOR_BYTES, Place};
use crate::export::Served;
use crate::handshake::Chosen;
use crate::input::Input;
use crate::request::Reply;
use crate::server::{Activity, Shared};
use crate::stream::Stream;
use serve::Step;

/// Replies sent in one system call.
const SLICES: usize = 64;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client left, or the server stops.
    Closed,
    /// The client violated the protocol.
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
    /// The next step waits for the budget, at this place in the line.
    short: bool,
    place: Option<Arc<Place>>,
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
        self.shared.budget.leave(&mut self.place);
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
            place: None,
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
            let (charge, taken) = (reply.charge, reply.taken);
            if let Some(mut sample) = reply.sample {
                sample.latency_ns_achieved = now.saturating_sub(sample.arrive_ns);
                ledger.get_or_insert_with(|| self.export.ledger()).record(sample);
            }
            self.due.pop_front();
            self.dismiss(charge, taken);
        }
    }

    /// Receives what the socket has. Returns whether there was anything.
    fn receive(&mut self) -> Result<bool, Errno> {
        if self.ended || self.full {
            return Ok(false);
        }
        if !self.make_space() {
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

    /// Makes space for the rest of a request that is longer than the usual buffer: for all of it, or for nothing of it.
    /// So a connection that waits here holds its usual buffer, and one with space needs only its client to go on.
    fn make_space(&mut self) -> bool {
        let growth = self.input.growth(self.next_bytes());
        if growth > 0 {
            let taken = if growth <= self.floor_left() { Some(0) } else { self.take(growth) };
            let Some(taken) = taken else { return false };
            self.input_taken_bytes = taken;
            self.input.grow(growth);
        }
        true
    }

    /// Removes the first bytes of the input, and gives back what a long request took.
    fn consume(&mut self, count: usize) {
        self.input.consume(count);
        if self.input.extra_bytes() == 0 {
            self.shared.budget.give(std::mem::take(&mut self.input_taken_bytes));
        }
    }

    /// Takes from the server's budget, or notes that this connection waits for it.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let taken = self.shared.budget.take(&mut self.place, bytes);
        self.short = taken.is_none();
        taken
    }

    /// What is left of the bytes that this connection may hold outside of the budget.
    fn floor_left(&self) -> usize {
        let replies = self.inflight_bytes - self.taken_bytes;
        let input = self.input.extra_bytes() - self.input_taken_bytes;
        FLOOR_BYTES.saturating_sub(replies + input)
    }

    fn end(&mut self) {
        self.ended = true;
        self.moved_wall_ns = self.shared.clock.wall_ns();
    }

    /// Notes whether the client owes the rest of a request, and whether requests are open.
    fn settle(&mut self) {
        if !self.short {
            // What it waited for was found in its own floor.
            self.shared.budget.leave(&mut self.place);
        }
        let partial = !self.input.filled().is_empty() || self.skip > 0;
        // Who waits for memory owes nothing. When its turn comes its time begins, so that a client that sends no more
        // does not keep what was taken for it.
        if !partial || self.short || self.full {
            self.begun_wall_ns = None;
        } else if self.begun_wall_ns.is_none() {
            self.begun_wall_ns = Some(self.shared.clock.wall_ns());
        }
        // A reply that the client does not take keeps nobody else waiting: it counts as idle.
        let in_line = self.short && self.due.is_empty();
        let busy = !self.waiting.is_empty() || in_line;
        if busy != self.busy {
            self.busy = busy;
            self.activity.note(busy, self.shared.clock.wall_ns());
        }
    }
}
