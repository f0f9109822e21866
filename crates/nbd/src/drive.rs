// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface between the server and a modelled drive.

use linnet_types::{LatencyModel, Nanos, Outcome, Request};

/// A model that also supports flush and trim. Times are model time; `now` never decreases, and calls do not overlap. A
/// drive computes when a request is done and holds no data; the server holds the data.
pub trait Drive: LatencyModel + Send {
    /// When every write that was submitted before `now` is durable. A drive without a volatile buffer returns `now`.
    fn flush(&mut self, now: Nanos) -> Nanos {
        now
    }

    /// Discards a range, and returns when the command is done. The range is inside the export.
    fn trim(&mut self, now: Nanos, offset_bytes: u64, size_bytes: u64) -> Nanos {
        let _ = (offset_bytes, size_bytes);
        now
    }

    /// A write that is answered when it is durable (force unit access). The default is a write followed by a flush.
    fn submit_durable(&mut self, now: Nanos, request: &Request) -> Outcome {
        match self.submit(now, request) {
            Outcome::Done(done) => Outcome::Done(done.max(self.flush(now))),
            other => other,
        }
    }
}

/// Makes a drive of any model; flush and trim take no time.
#[derive(Clone, Debug)]
pub struct Plain<M>(pub M);

impl<M: LatencyModel> LatencyModel for Plain<M> {
    fn submit(&mut self, now: Nanos, request: &Request) -> Outcome {
        self.0.submit(now, request)
    }
}

impl<M: LatencyModel + Send> Drive for Plain<M> {}

/// Longer requests are split into pieces of this size, as a block layer does before it sends them to a drive.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// Submits a range in pieces of [`PIECE_BYTES`], all at `now`. The worst piece decides: lost, then failed, then latest.
pub(crate) fn submit_range(
    drive: &mut dyn Drive,
    now: Nanos,
    op: linnet_types::Op,
    offset_bytes: u64,
    size_bytes: u64,
    durable: bool,
) -> Outcome {
    let mut worst = Outcome::Done(now);
    let mut at = 0;
    while at < size_bytes {
        let piece = PIECE_BYTES.min(size_bytes - at);
        let request = Request::new(op, offset_bytes + at, piece as u32);
        let outcome = if durable { drive.submit_durable(now, &request) } else { drive.submit(now, &request) };
        worst = match (worst, outcome) {
            (Outcome::Lost, _) | (_, Outcome::Lost) => Outcome::Lost,
            (Outcome::Error(a), Outcome::Error(b) | Outcome::Done(b)) => Outcome::Error(a.max(b)),
            (Outcome::Done(a), Outcome::Error(b)) => Outcome::Error(a.max(b)),
            (Outcome::Done(a), Outcome::Done(b)) => Outcome::Done(a.max(b)),
        };
        at += piece;
    }
    worst
}
