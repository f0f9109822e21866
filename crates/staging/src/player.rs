// SPDX-License-Identifier: MIT OR Apache-2.0
//! One tenant: its I/Os through an io_uring.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use linnet_tenant::{Completed, Meter, TENANTS_MAX};
use linnet_types::{IoRecord, Nanos, Op};

use crate::buffer::Buffer;
use crate::drive::{Drive, Place};
use crate::error::Error;

/// A sleep is no longer, so that a player hears of the end.
const SLEEP_MAX: Duration = Duration::from_millis(50);
const PAGE: usize = 4096;
/// Bytes from which writes begin: 8,192 pages of which no two are equal.
pub const NOISE: usize = 32 << 20;
/// Most I/Os that a ring holds.
const DEPTH_MAX: usize = 4096;
/// I/Os that are handed over together: those of a burst shall not wait for the last of them.
const BATCH: usize = 8;

/// An I/O that is with the drive.
#[derive(Clone, Copy)]
struct Outstanding {
    submit_ns: Nanos,
    io: IoRecord,
    place: Place,
}

/// Replays a tenant's I/Os.
pub struct Player<'a> {
    drive: &'a Drive,
    tenant: usize,
    ios: &'a [IoRecord],
    ring: IoUring,
    /// What reads bring, which nobody looks at: one memory for all of them.
    sink: Buffer,
    /// What writes take, from another page each time.
    source: Arc<Buffer>,
    writes: usize,
    /// By number; the ring's completions name it.
    slots: Vec<Option<Outstanding>>,
    free: Vec<usize>,
    meter: Meter,
    late_ns: Vec<Nanos>,
}

/// What a player saw of its tenant, and of the machine.
pub struct Played {
    pub meter: Meter,
    /// How late each measured I/O was submitted.
    pub late_ns: Vec<Nanos>,
    /// For which share of the time with I/Os outstanding its thread was ready and had no CPU; 0 where the kernel does
    /// not say.
    pub waited_share: f64,
}

/// What is measured of a run, counted from its start.
#[derive(Clone, Copy)]
pub struct Span {
    pub from_ns: Nanos,
    pub end_ns: Nanos,
}

impl<'a> Player<'a> {
    /// `source` has [`NOISE`] bytes more than the largest write.
    pub fn new(
        drive: &'a Drive,
        tenant: usize,
        ios: &'a [IoRecord],
        depth: usize,
        source: Arc<Buffer>,
    ) -> Result<Self, Error> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let ring = IoUring::new(depth.next_power_of_two() as u32).map_err(Error::Ring)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(Error::Ring(io::Error::other("waiting for so long needs Linux 5.11")));
        }
        let largest = ios.iter().map(|io| drive.place(tenant, io).size_bytes).max().unwrap_or(0);
        Ok(Player {
            drive,
            tenant,
            ios,
            ring,
            sink: Buffer::new(largest as usize),
            source,
            writes: tenant * (NOISE / PAGE / TENANTS_MAX),
            slots: vec![None; depth],
            free: (0..depth).rev().collect(),
            meter: Meter::default(),
            late_ns: Vec::new(),
        })
    }

    /// Replays until the end of the span, or until `stop`, and waits for what is outstanding then.
    pub fn play(mut self, start: Instant, span: Span, stop: &AtomicBool) -> Result<Played, Error> {
        let mut next = 0;
        // When a place became free; an I/O that arrived before then is not late.
        let mut free_ns = 0;
        let (waited_before_ns, mut busy_ns) = (waited_ns(), 0);
        loop {
            let now = since(start);
            if now >= span.end_ns || stop.load(Ordering::Relaxed) {
                break;
            }
            let mut batch = 0;
            while let Some(io) = self.ios.get(next).filter(|io| io.arrive_ns <= now) {
                let Some(slot) = self.free.pop() else { break };
                let submit_ns = since(start);
                self.push(slot, *io, submit_ns);
                if io.arrive_ns >= span.from_ns {
                    self.late_ns.push(submit_ns.saturating_sub(io.arrive_ns.max(free_ns)));
                }
                next += 1;
                batch += 1;
                if batch % BATCH == 0 {
                    self.wait(0, Duration::ZERO)?;
                }
            }
            let due = self.ios.get(next).filter(|_| !self.free.is_empty()).map_or(span.end_ns, |io| io.arrive_ns);
            let sleep = Duration::from_nanos(due.min(span.end_ns).saturating_sub(since(start))).min(SLEEP_MAX);
            let was_full = self.free.is_empty();
            let is_busy = self.free.len() < self.slots.len();
            self.wait(1, sleep)?;
            self.reap(start, span)?;
            let then = since(start);
            busy_ns += if is_busy { then - now } else { 0 };
            if was_full {
                free_ns = then;
            }
        }
        let waited_share = waited_ns().saturating_sub(waited_before_ns) as f64 / busy_ns.max(1) as f64;
        while self.free.len() < self.slots.len() {
            self.wait(1, SLEEP_MAX)?;
            self.reap(start, span)?;
        }
        Ok(Played {
            meter: std::mem::take(&mut self.meter),
            late_ns: std::mem::take(&mut self.late_ns),
            waited_share: if busy_ns == 0 { 0.0 } else { waited_share.min(1.0) },
        })
    }

    fn push(&mut self, slot: usize, io: IoRecord, submit_ns: Nanos) {
        let place = self.drive.place(self.tenant, &io);
        let (fd, size) = (Fd(self.drive.fd()), place.size_bytes);
        let entry = match io.op {
            Op::Read => opcode::Read::new(fd, self.sink.at(), size).offset(place.offset_bytes).build(),
            Op::Write => {
                self.writes += (size as usize).div_ceil(PAGE);
                // SAFETY: `size` bytes are behind each of the first NOISE bytes.
                let from = unsafe { self.source.at().add(self.writes * PAGE % NOISE) };
                opcode::Write::new(fd, from, size).offset(place.offset_bytes).build()
            }
        };
        self.slots[slot] = Some(Outstanding { submit_ns, io, place });
        // SAFETY: both buffers hold `size` bytes at least and live until this player is dropped, which waits for all
        // I/Os. The drive keeps the file open.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        pushed.expect("as many entries as slots, and all are taken at every wait");
    }

    /// Hands over what was pushed, and sleeps until something completes or the time is over.
    fn wait(&mut self, completions: usize, most: Duration) -> Result<(), Error> {
        let time = Timespec::from(most);
        let arguments = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(completions, &arguments) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(ETIME | EINTR | EAGAIN | EBUSY) => Ok(()),
                _ => Err(Error::Ring(error)),
            },
        }
    }

    /// Counts what has completed.
    fn reap(&mut self, start: Instant, span: Span) -> Result<(), Error> {
        let mut failed = None;
        let found: Vec<cqueue::Entry> = self.ring.completion().collect();
        if found.is_empty() {
            return Ok(());
        }
        let complete_ns = since(start);
        for entry in found {
            let slot = entry.user_data() as usize;
            let Some(Outstanding { submit_ns, io, place }) = self.slots[slot].take() else { continue };
            self.free.push(slot);
            let error = match entry.result() {
                result if result < 0 => Some(io::Error::from_raw_os_error(-result)),
                result if result as u32 != place.size_bytes => Some(io::Error::other(format!("only {result} bytes"))),
                _ => None,
            };
            if let Some(source) = error {
                failed = failed.or(Some(self.drive.failed(io.op, place, source)));
            }
            self.meter.count(
                &Completed::timed(submit_ns, complete_ns, io.op, io.size_bytes),
                span.from_ns,
                span.end_ns,
            );
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for Player<'_> {
    /// The kernel uses the buffers until the last I/O has completed.
    fn drop(&mut self) {
        while self.free.len() < self.slots.len() {
            if self.wait(1, SLEEP_MAX).is_err() {
                // Nothing can be said of the I/Os any more; memory that they may use is not given back.
                std::mem::forget(std::mem::replace(&mut self.sink, Buffer::new(0)));
                std::mem::forget(self.source.clone());
                return;
            }
            for entry in self.ring.completion().collect::<Vec<_>>() {
                if self.slots[entry.user_data() as usize].take().is_some() {
                    self.free.push(entry.user_data() as usize);
                }
            }
        }
    }
}

const EINTR: i32 = rustix::io::Errno::INTR.raw_os_error();
const EAGAIN: i32 = rustix::io::Errno::AGAIN.raw_os_error();
const EBUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();
const ETIME: i32 = rustix::io::Errno::TIME.raw_os_error();

/// For how long this thread was ready and had no CPU, so far; 0 where the kernel does not say.
fn waited_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn since(start: Instant) -> Nanos {
    start.elapsed().as_nanos() as Nanos
}
