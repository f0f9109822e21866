// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes I/Os from block-layer events: an issue (D) and a completion (C) belong together if device, first sector and
//! direction are the same.
//!
//! An I/O arrives when it is issued, and its latency is C - D. On devices without issue events (stacked devices, which
//! have only Q and C) an I/O arrives at Q. Events without a partner are counted; nothing is guessed:
//!
//! | reason | result |
//! |---|---|
//! | `no completion` | kept without latency |
//! | `no completion (issued again)` | the same sectors were issued again first; kept without latency |
//! | `completion without issue` | left out |
//! | `completion larger than issue` | the issue is kept without latency, the completion left out |
//! | `no time between issue and completion` | clocks of two CPUs disagree; kept without latency |
//! | `latency of an I/O that failed` | its completion, or that of a part, has an error; kept without latency |
//!
//! If only the first part of an I/O completes, the rest stays pending; the I/O is complete with its last part.

use std::collections::HashMap;

use linnet_types::{IoRecord, Nanos, Op};

use crate::error::Bad;
use crate::text::{Out, SECTOR_BYTES, check_latency};

/// Most I/Os that may wait for their completion. Above that, the older half is given up, so that a trace without
/// completions cannot fill the memory.
const WAITING_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Queue,
    Issue,
    Requeue,
    Complete,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub act: Act,
    pub time_ns: Nanos,
    pub device: u32,
    pub sector: u64,
    pub size_bytes: u64,
    pub op: Op,
    /// A completion with an error.
    pub failed: bool,
}

#[derive(Clone, Copy)]
struct Waiting {
    record: IoRecord,
    /// Bytes not completed yet.
    left: u64,
    by_issue: bool,
    /// A part of it has failed.
    failed: bool,
}

#[derive(Default)]
pub(super) struct Pairing {
    waiting: HashMap<(u32, u64, Op), Waiting>,
    /// Devices that have issue events; their Q events are ignored.
    issuing: Vec<u32>,
    queued_arrivals: u64,
}

impl Pairing {
    pub fn event(&mut self, event: &Event, out: &mut Out) -> Result<(), Bad> {
        out.saw(event.time_ns);
        let size = u32::try_from(event.size_bytes)
            .map_err(|_| Bad::of("size", event.size_bytes, "is more than 4 GiB for one I/O"))?;
        let end = event.sector.checked_mul(SECTOR_BYTES).and_then(|o| o.checked_add(event.size_bytes));
        if end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(Bad::of("sector", event.sector, "lies beyond 8 EiB"));
        }
        let key = (event.device, event.sector, event.op);
        match event.act {
            Act::Queue if self.issuing.contains(&event.device) => {}
            Act::Queue | Act::Issue => {
                let by_issue = event.act == Act::Issue;
                if by_issue && !self.issuing.contains(&event.device) {
                    self.issuing.push(event.device);
                    self.waiting.retain(|key, w| key.0 != event.device || w.by_issue);
                }
                let record = IoRecord {
                    arrive_ns: event.time_ns,
                    latency_ns: None,
                    offset_bytes: event.sector * SECTOR_BYTES,
                    size_bytes: size,
                    device: event.device,
                    tenant: 0,
                    op: event.op,
                };
                let waiting = Waiting { record, left: event.size_bytes, by_issue, failed: false };
                if let Some(lost) = self.waiting.insert(key, waiting) {
                    out.skip("no completion (issued again)");
                    out.ready(lost.record);
                }
                if self.waiting.len() > WAITING_MAX {
                    self.give_up_half(out);
                }
            }
            Act::Requeue => {
                if self.waiting.remove(&key).is_some() {
                    out.skip("requeued");
                }
            }
            Act::Complete => self.complete(key, event, out)?,
        }
        Ok(())
    }

    fn complete(&mut self, key: (u32, u64, Op), event: &Event, out: &mut Out) -> Result<(), Bad> {
        let Some(mut waiting) = self.waiting.remove(&key) else {
            out.skip("completion without issue");
            return Ok(());
        };
        waiting.failed |= event.failed;
        if event.size_bytes > waiting.left {
            out.skip("completion larger than issue");
        } else if event.time_ns <= waiting.record.arrive_ns {
            out.skip("no time between issue and completion");
        } else if event.size_bytes < waiting.left {
            waiting.left -= event.size_bytes;
            let rest = event.sector + event.size_bytes / SECTOR_BYTES;
            if let Some(lost) = self.waiting.insert((event.device, rest, event.op), waiting) {
                out.skip("no completion (issued again)");
                out.ready(lost.record);
            }
            return Ok(());
        } else if waiting.failed {
            // Devices give up after seconds, or refuse at once: neither is how fast they read.
            out.skip("latency of an I/O that failed");
        } else {
            waiting.record.latency_ns = Some(event.time_ns - waiting.record.arrive_ns);
            check_latency(waiting.record.latency_ns)?;
            self.queued_arrivals += u64::from(!waiting.by_issue);
        }
        out.ready(waiting.record);
        Ok(())
    }

    fn give_up(&mut self, mut lost: Vec<Waiting>, out: &mut Out) {
        lost.sort_by_key(|w| (w.record.arrive_ns, w.record.offset_bytes, w.record.device, w.record.op));
        out.skip_many("no completion", lost.len() as u64);
        lost.iter().for_each(|w| out.ready(w.record));
    }

    fn give_up_half(&mut self, out: &mut Out) {
        let mut times: Vec<Nanos> = self.waiting.values().map(|w| w.record.arrive_ns).collect();
        let middle = times.len() / 2;
        let median = *times.select_nth_unstable(middle).1;
        let lost = self.waiting.extract_if(|_, w| w.record.arrive_ns <= median).map(|(_, w)| w).collect();
        self.give_up(lost, out);
    }

    /// Outputs the I/Os that never completed.
    pub fn end(&mut self, out: &mut Out) {
        let lost: Vec<Waiting> = self.waiting.drain().map(|(_, w)| w).collect();
        if !lost.is_empty() {
            self.give_up(lost, out);
        }
        if self.queued_arrivals > 0 {
            let n = self.queued_arrivals;
            out.warnings.push(format!("{n} I/Os have no issue event: their latency runs from the queue event (Q)"));
        }
    }
}
