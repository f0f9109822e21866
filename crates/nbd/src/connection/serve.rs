// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of a connection: one is taken from the input, charged to the budget and served, and its reply is kept.

use linnet_types::Nanos;

use super::Connection;
use crate::budget::FLOOR_BYTES;
use crate::export::{Ask, Data};
use crate::request::{Reply, check};
use crate::stats::{Command, Sample};
use crate::wire::{self, Head, PAYLOAD_BYTES_MAX, REQUEST_BYTES, command, command_flag, errno};

/// What a request in flight counts in addition to its data.
const OVERHEAD_BYTES: usize = 512;
/// Parts of a range that one answer tells apart.
const EXTENTS_MAX: usize = 4096;

/// What became of the next request.
pub(super) enum Step {
    /// A request was served.
    Took,
    /// The next one is incomplete.
    Short,
    /// The next one must wait until replies have left.
    Full,
    /// The next bytes are not a request.
    Garbled,
}

/// Whether a write has more payload than is taken. It is refused, and its payload skipped.
fn too_long(head: &Head) -> bool {
    head.command == command::WRITE && head.size_bytes > PAYLOAD_BYTES_MAX
}

/// How many bytes must have arrived before a request is served: its head, and its payload unless that is skipped.
fn request_bytes(head: &Head) -> usize {
    let payload = head.command == command::WRITE && !too_long(head);
    REQUEST_BYTES + if payload { head.size_bytes as usize } else { 0 }
}

impl Connection<'_> {
    /// Serves the next complete request.
    pub(super) fn step(&mut self) -> Step {
        if self.skip > 0 {
            let count = self.skip.min(self.input.filled().len() as u64);
            self.consume(count as usize);
            self.skip -= count;
        }
        let Some(head) = self.input.filled().first_chunk::<REQUEST_BYTES>() else { return Step::Short };
        let Some(head) = Head::parse(head) else { return Step::Garbled };
        if head.command == command::DISCONNECT {
            // The rest of the input is ignored. Requests in flight are still answered.
            self.consume(self.input.filled().len());
            self.end();
            return Step::Short;
        }
        let request_bytes = request_bytes(&head);
        if self.input.filled().len() < request_bytes {
            return Step::Short;
        }
        if head.command == command::BLOCK_STATUS && self.allocation {
            return self.block_status(&head);
        }
        let asked = check(self.export, &head);
        let data = if head.command == command::READ && asked.is_ok() { head.size_bytes as usize } else { 0 };
        let charge = OVERHEAD_BYTES + data;
        let Some(taken) = self.admit(charge) else { return Step::Full };
        match asked {
            Ok(ask) => self.serve(&head, &ask, request_bytes, (charge, taken)),
            Err(error) => {
                self.export.ledger().refused += 1;
                let bytes = self.failure(&head, error);
                self.keep(0, bytes, (charge, taken), None);
            }
        }
        if too_long(&head) {
            self.skip = u64::from(head.size_bytes);
        }
        self.consume(request_bytes);
        Step::Took
    }

    /// The length of the next request, as far as its head is known.
    pub(super) fn next_bytes(&self) -> usize {
        let head = self.input.filled().first_chunk::<REQUEST_BYTES>().and_then(Head::parse);
        head.map_or(REQUEST_BYTES, |head| request_bytes(&head))
    }

    /// Counts the reply of a request. Returns the part of it that was taken from the server's budget, or `None` if the
    /// request must wait.
    fn admit(&mut self, charge: usize) -> Option<usize> {
        if self.inflight_bytes > 0 && self.inflight_bytes + charge > self.shared.settings.inflight_bytes_max {
            return None;
        }
        // Without open replies, the only thing in the floor can be the payload of this very request, which is about to
        // leave.
        let free = charge <= self.floor_left() || (self.inflight_bytes == 0 && charge <= FLOOR_BYTES);
        let taken = if free { 0 } else { self.take(charge)? };
        self.inflight_bytes += charge;
        self.taken_bytes += taken;
        Some(taken)
    }

    /// Ends what [`Connection::admit`] began.
    pub(super) fn dismiss(&mut self, charge: usize, taken: usize) {
        self.inflight_bytes -= charge;
        self.taken_bytes -= taken;
        self.shared.budget.give(taken);
    }

    /// Answers which parts of a range are stored. That takes no time of the model: the host asks its own driver.
    fn block_status(&mut self, head: &Head) -> Step {
        let charge = OVERHEAD_BYTES + 8 * EXTENTS_MAX;
        let Some(taken) = self.admit(charge) else { return Step::Full };
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
        self.keep(0, bytes, (charge, taken), None);
        self.consume(REQUEST_BYTES);
        Step::Took
    }

    /// Asks the model, moves the data, and keeps the reply for its deadline.
    fn serve(&mut self, head: &Head, ask: &Ask, request_bytes: usize, charge: (usize, usize)) {
        let mut bytes = Vec::new();
        let data = match ask.command {
            Command::Read => {
                let at;
                (bytes, at) = wire::read_reply(self.structured, head.cookie, ask.offset_bytes, ask.size_bytes);
                Data::Into(&mut bytes[at..])
            }
            Command::Write => Data::From(&self.input.filled()[REQUEST_BYTES..request_bytes]),
            _ => Data::None,
        };
        let held = self.export.serve(&self.shared.clock, self.shared.settings.lost_after_ns, ask, data);
        let Some(held) = held else {
            self.dismiss(charge.0, charge.1);
            return;
        };
        if held.failed {
            bytes = self.failure(head, if held.full { errno::ENOSPC } else { errno::EIO });
        } else if bytes.is_empty() {
            bytes = wire::success(head.cookie);
        }
        self.keep(held.due_wall_ns, bytes, charge, Some(held.sample));
    }

    fn failure(&self, head: &Head, error: u32) -> Vec<u8> {
        let structured = matches!(head.command, command::READ | command::BLOCK_STATUS);
        wire::failure(self.structured && structured, head.cookie, error)
    }

    /// Keeps a reply; `charge` is what it counts, and the part of it that was taken from the budget, as admitted.
    fn keep(&mut self, due_wall_ns: Nanos, bytes: Vec<u8>, charge: (usize, usize), sample: Option<Sample>) {
        let (charge, taken) = charge;
        self.turns += 1;
        self.waiting.push(Reply { due_wall_ns, turn: self.turns, bytes, charge, taken, sample });
    }
}
