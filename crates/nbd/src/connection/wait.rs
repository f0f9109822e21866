// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a connection waits: asleep until shortly before the earliest deadline, then spinning; and how long for a client
//! that owes something.

use std::os::fd::AsFd;

use linnet_types::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Connection;

/// If a client has closed its sending side and accepts no reply for this long, its connection is closed.
const STALL_NS: Nanos = 10_000_000_000;
/// Longest sleep while a client owes something: bytes of a request, or room for a reply.
const WATCH_NS: Nanos = 1_000_000_000;
/// Sleep in the line for the server's memory.
const SHORT_NS: Nanos = 2_000_000;

impl Connection<'_> {
    /// Since when the client owes something: room for replies that are due, or the rest of a request.
    fn owes_since(&self) -> Option<Nanos> {
        let replies = (!self.due.is_empty()).then_some(self.moved_wall_ns);
        [replies, self.begun_wall_ns].into_iter().flatten().min()
    }

    /// Waits for the client, for room in the socket, or for the earliest deadline.
    pub(super) fn wait(&mut self) -> Result<(), Errno> {
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

    pub(super) fn stop_spinning(&mut self) {
        if std::mem::take(&mut self.spinning) {
            self.shared.stop_spinning();
        }
    }
}
