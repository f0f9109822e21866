// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streams, merged by time, and when their requests arrive.

use std::num::NonZeroUsize;

use linnet_types::{IoRecord, Nanos};

use crate::Error;

/// The streams, merged by time; at equal times the lower stream is first.
pub(super) struct Arrivals<'a> {
    streams: &'a [&'a [IoRecord]],
    taken: Vec<usize>,
    /// Time of the next record, and its stream.
    next: Option<(Nanos, usize)>,
    /// Requests in flight in a closed loop.
    closed_loop: Option<NonZeroUsize>,
    in_flight: usize,
    /// When a request last ended.
    ended_ns: Nanos,
}

/// A request that arrives.
pub(super) struct Arrival<'a> {
    pub at_ns: Nanos,
    pub stream: usize,
    pub record: &'a IoRecord,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(streams: &'a [&'a [IoRecord]], closed_loop: Option<NonZeroUsize>) -> Self {
        let taken = vec![0; streams.len()];
        let mut arrivals = Arrivals { streams, taken, next: None, closed_loop, in_flight: 0, ended_ns: 0 };
        arrivals.find();
        arrivals
    }

    fn find(&mut self) {
        let heads = self.streams.iter().zip(&self.taken).enumerate();
        self.next = heads.filter_map(|(i, (stream, &n))| stream.get(n).map(|record| (record.arrive_ns, i))).min();
    }

    /// When the next request arrives; in a closed loop `None` while all are in flight that may be.
    pub(super) fn next_ns(&self) -> Option<Nanos> {
        let (at_ns, _) = self.next?;
        match self.closed_loop {
            None => Some(at_ns),
            Some(most) => (self.in_flight < most.get()).then_some(self.ended_ns),
        }
    }

    /// A request has ended.
    pub(super) fn ended(&mut self, now: Nanos) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.ended_ns = now;
    }

    pub(super) fn take(&mut self) -> Result<Arrival<'a>, Error> {
        let at_ns = self.next_ns().expect("asked for after next_ns");
        let (_, stream) = self.next.expect("there is a next request");
        let n = self.taken[stream];
        let record = &self.streams[stream][n];
        if record.size_bytes == 0 {
            return Err(Error::EmptyRecord { stream, record: n });
        }
        self.taken[stream] += 1;
        if let Some(after) = self.streams[stream].get(n + 1)
            && after.arrive_ns < record.arrive_ns
        {
            let (arrive_ns, previous_ns) = (after.arrive_ns, record.arrive_ns);
            return Err(Error::Unordered { stream, record: n + 1, arrive_ns, previous_ns });
        }
        self.find();
        self.in_flight += 1;
        Ok(Arrival { at_ns, stream, record })
    }
}
