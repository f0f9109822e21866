// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of tracefs (`trace`, `trace_pipe`) with the events linnet:linnet_io of the device-mapper target,
//! `spec/dm-target.md`: `task-pid [cpu] flags time: linnet_io: dev=major:minor id= replica= op= offset= size=
//! arrived_ns= latency_ns= error= ...`.
//!
//! Events are written when an I/O ends, so they are not in order of arrival. A failed I/O keeps its arrival, but its
//! duration is not used as a latency. Other events in the text are skipped.

use linnet_types::Op;

use super::text_source;
use crate::error::Bad;
use crate::format::{Clock, Fit, Format, Head};
use crate::text::{Fields, LineFormat, Out, integer, present, whole};

pub(crate) const FORMAT: Format = Format {
    name: "linnet-ftrace",
    about: "text of tracefs with events linnet:linnet_io of the device-mapper target",
    has_latency: true,
    clock: Clock::Shared,
    fit,
    open: text_source!("linnet-ftrace", Ftrace::default()),
};

/// Replica numbers that can be combined with a minor number; the target has at most 8 replicas.
const REPLICAS: u64 = 16;

#[derive(Default)]
struct Ftrace {
    /// Places where the kernel lost events and did not say how many.
    uncounted: u64,
}

/// The part of a line after the name of our event.
fn event(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b" linnet_io: ";
    // The last match counts, because a task may have any name.
    let at = line.windows(NAME.len()).rposition(|w| w == NAME)?;
    Some(&line[at + NAME.len()..])
}

/// Returns N from a line `CPU:2 [LOST N EVENTS]`; `Some(None)` from `CPU:2 [LOST EVENTS]`, which the kernel writes where
/// it does not know how many.
fn lost(line: &[u8]) -> Option<Option<u64>> {
    let rest = line.strip_prefix(b"CPU:")?;
    let at = rest.windows(6).position(|w| w == b"[LOST ")?;
    let count = &rest[at + 6..];
    if count.starts_with(b"EVENTS]") {
        return Some(None);
    }
    let end = count.iter().position(|&b| b == b' ')?;
    integer(&count[..end]).map(Some)
}

impl LineFormat for Ftrace {
    fn line(&mut self, line: &[u8], out: &mut Out) -> Result<(), Bad> {
        if line.starts_with(b"#") {
            return Ok(());
        }
        if let Some(count) = lost(line) {
            self.uncounted += u64::from(count.is_none());
            out.skip_many("lost events", count.unwrap_or(1));
            return Ok(());
        }
        let Some(words) = event(line) else {
            if line.contains(&b':') {
                return Ok(());
            }
            return Err(Bad::new("line", line, "is not text of tracefs"));
        };
        let mut found: [Option<&[u8]>; 7] = [None; 7];
        let mut fields = Fields::new(words);
        while let Some(word) = fields.blank() {
            let Some(equals) = word.iter().position(|&b| b == b'=') else {
                return Err(Bad::new("event", word, "should be key=value"));
            };
            let key = &word[..equals];
            if let Some(i) = KEYS.iter().position(|k| k.as_bytes() == key) {
                found[i] = Some(&word[equals + 1..]);
            }
        }
        let [dev, replica, op, offset, size, arrived, latency] = found;
        let device = device(present(dev, "dev")?, whole(replica, "replica")?)?;
        let op = match present(op, "op")? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            other => return Err(Bad::new("op", other, "is neither read nor write")),
        };
        let mut latency = Some(whole(latency, "latency_ns")?);
        if !error_is_zero(words) {
            out.skip("latency of an I/O that failed");
            latency = None;
        }
        out.record(whole(arrived, "arrived_ns")?, latency, op, whole(offset, "offset")?, whole(size, "size")?, device)
    }

    fn end(&mut self, out: &mut Out) {
        if self.uncounted > 0 {
            let places = self.uncounted;
            out.warnings
                .push(format!("lost events: the kernel did not say how many {places} times; each counts as one"));
        }
    }
}

const KEYS: [&str; 7] = ["dev", "replica", "op", "offset", "size", "arrived_ns", "latency_ns"];

/// Other fields cannot be negative; here only whether the value is zero matters.
fn error_is_zero(words: &[u8]) -> bool {
    let mut fields = Fields::new(words);
    while let Some(word) = fields.blank() {
        if let Some(value) = word.strip_prefix(b"error=") {
            return value == b"0";
        }
    }
    true
}

/// `minor << 4 | replica`. The major number is the same for all targets: device-mapper's.
fn device(dev: &[u8], replica: u64) -> Result<u32, Bad> {
    let minor = dev.iter().position(|&b| b == b':').and_then(|colon| integer(&dev[colon + 1..]));
    let minor = minor.filter(|&m| m < 1 << 20).ok_or_else(|| Bad::new("dev", dev, "is not major:minor"))?;
    if replica >= REPLICAS {
        return Err(Bad::of("replica", replica, "is more than a target has"));
    }
    Ok((minor * REPLICAS + replica) as u32)
}

fn fit(head: &Head) -> Fit {
    if head.lines.iter().any(|line| event(line).is_some_and(|words| words.starts_with(b"dev="))) {
        Fit::Yes
    } else {
        Fit::No
    }
}
