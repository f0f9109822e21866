// SPDX-License-Identifier: MIT OR Apache-2.0
//! The read balancing of software mirrors.
//!
//! - **md-raid1**: Linux's `md` on drives that do not rotate (`drivers/md/raid1.c`, `choose_best_rdev`, since 6.9; the
//!   rule is older). Submit to the drive with the fewest I/Os pending; the first drive of the array among equals. A read
//!   that continues where a drive's last read ended goes to that drive, however long its queue is. md lets a stream
//!   leave once it has read the drive's optimal I/O size there; many NVMe drives report none, as is assumed here, and
//!   then it never does.
//! - **spdk-raid1**: SPDK's `raid1` module (`raid1_submit_read_request`). Submit to the drive with the fewest blocks of
//!   reads outstanding; the first drive among equals. Writes are not counted.

use crate::{Ask, Choice, Completion, Policy, Submit};
use linnet_core::Budget;
use linnet_sim::Chance;
use linnet_types::{Op, Request};

/// The candidate with the lowest key; among equals, the first drive of the array, whatever the read's primary is.
pub(super) fn first_least<K: PartialOrd>(ask: &Ask<'_>, mut key: impl FnMut(usize) -> K) -> usize {
    ask.least(|device| (key(device), device))
}

#[derive(Default)]
pub(crate) struct MdRaid1 {
    /// Where the last read of each drive ended.
    next_bytes: Vec<Option<u64>>,
}

impl MdRaid1 {
    pub(crate) fn new(devices: usize) -> MdRaid1 {
        MdRaid1 { next_bytes: vec![None; devices] }
    }
}

impl Policy for MdRaid1 {
    fn name(&self) -> &str {
        "md-raid1"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let request = ask.request;
        let continues = |&device: &usize| self.next_bytes[device] == Some(request.offset_bytes);
        let stream = ask.candidates().filter(continues).min();
        let chosen = stream.unwrap_or_else(|| first_least(ask, |device| ask.devices[device].in_flight()));
        self.next_bytes[chosen] = Some(request.offset_bytes + u64::from(request.size_bytes));
        Choice::Submit(Submit::to(chosen))
    }
}

pub(crate) struct SpdkRaid1 {
    read_bytes: Vec<u64>,
}

impl SpdkRaid1 {
    pub(crate) fn new(devices: usize) -> SpdkRaid1 {
        SpdkRaid1 { read_bytes: vec![0; devices] }
    }

    /// Whether the read succeeded is not looked at.
    fn subtract(&mut self, device: usize, op: Op, size_bytes: u32) {
        if op.is_read() {
            self.read_bytes[device] = self.read_bytes[device].saturating_sub(u64::from(size_bytes));
        }
    }
}

impl Policy for SpdkRaid1 {
    fn name(&self) -> &str {
        "spdk-raid1"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let chosen = first_least(ask, |device| self.read_bytes[device]);
        self.read_bytes[chosen] += u64::from(ask.request.size_bytes);
        Choice::Submit(Submit::to(chosen))
    }

    fn completed(&mut self, done: &Completion) {
        self.subtract(done.device, done.op, done.size_bytes);
    }

    fn lost(&mut self, device: usize, request: &Request) {
        self.subtract(device, request.op, request.size_bytes);
    }
}
