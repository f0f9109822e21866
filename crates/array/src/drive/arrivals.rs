// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streams, merged by time.

use linnet_types::{IoRecord, Nanos};

use crate::Error;

/// The streams, merged by time; at equal times the lower stream is first.
pub(super) struct Arrivals<'a> {
    streams: &'a [&'a [IoRecord]],
    taken: Vec<usize>,
    next: Option<(Nanos, usize)>,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(streams: &'a [&'a [IoRecord]]) -> Self {
        let mut arrivals = Arrivals { streams, taken: vec![0; streams.len()], next: None };
        arrivals.find();
        arrivals
    }

    fn find(&mut self) {
        let heads = self.streams.iter().zip(&self.taken).enumerate();
        self.next = heads.filter_map(|(i, (stream, &n))| stream.get(n).map(|record| (record.arrive_ns, i))).min();
    }

    pub(super) fn next_ns(&self) -> Option<Nanos> {
        self.next.map(|(at, _)| at)
    }

    pub(super) fn take(&mut self) -> Result<(usize, &'a IoRecord), Error> {
        let (_, stream) = self.next.expect("asked for after next_ns");
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
        Ok((stream, record))
    }
}
