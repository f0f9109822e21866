// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks requests against the protocol, and orders the replies that wait.

use linnet_types::Nanos;

use crate::export::{Ask, Served};
use crate::stats::{Command, Sample};
use crate::wire::{Head, PAYLOAD_BYTES_MAX, command, command_flag, errno};

/// Checks a request against the export. Returns the error number that the protocol requires if it is invalid.
pub fn check(export: &Served, head: &Head) -> Result<Ask, u32> {
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

/// A reply that waits for its deadline, or for the socket.
pub struct Reply {
    pub due_wall_ns: Nanos,
    /// Replies with the same deadline are sent in the order of their requests.
    pub turn: u64,
    pub bytes: Vec<u8>,
    /// What it counts against the memory limit.
    pub charge: usize,
    /// The part of it that was taken from the server's budget.
    pub taken: usize,
    /// What to record; `None` for a refusal. The achieved latency is filled in when the reply has been sent.
    pub sample: Option<Sample>,
}

/// Earliest deadline first: `BinaryHeap` returns the largest, so the order is reversed.
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
