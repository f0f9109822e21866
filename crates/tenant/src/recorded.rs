// SPDX-License-Identifier: MIT OR Apache-2.0
//! A load of recorded I/Os: a sample of a trace, in another time, again and again.

use std::fmt;
use std::sync::Arc;

use linnet_sim::Chance;
use linnet_types::{IoRecord, Nanos, Op};

use crate::load::Offer;

/// See the module. Sizes, operations, places and the pattern of arrivals are those of the sample.
#[derive(Clone)]
pub struct Recorded {
    name: String,
    records: Arc<Vec<IoRecord>>,
    depth: usize,
    /// A nanosecond of the sample lasts so many.
    slower: f64,
    /// Length of a round.
    length_ns: f64,
    /// FNV-1a of the I/Os: samples of different content are different loads.
    digest: u64,
}

impl Recorded {
    /// The I/Os of a sample that begins at 0, in order, at a mean bandwidth; small I/Os cost a drive more than their
    /// bytes, and count as a page. `None` of fewer than two I/Os, or where all arrive at once.
    pub fn new(name: &str, records: Arc<Vec<IoRecord>>, bytes_per_s: f64, depth: usize) -> Option<Recorded> {
        let last_ns = records.last()?.arrive_ns;
        if records.len() < 2 || last_ns == 0 {
            return None;
        }
        // A mean gap lies between the last I/O and the first of the next round.
        let recorded_ns = last_ns as f64 * records.len() as f64 / (records.len() - 1) as f64;
        let pages: f64 = records.iter().map(|record| f64::from(record.size_bytes.max(4096))).sum();
        let length_ns = pages / bytes_per_s * 1e9;
        let digest = digest(&records);
        Some(Recorded { name: name.into(), records, depth, slower: length_ns / recorded_ns, length_ns, digest })
    }
}

fn digest(records: &[IoRecord]) -> u64 {
    let numbers =
        |record: &IoRecord| [record.arrive_ns, record.op as u64, record.offset_bytes, u64::from(record.size_bytes)];
    let bytes = records.iter().flat_map(numbers).flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("name", &self.name)
            .field("ios", &self.records.len())
            .field("digest", &format_args!("{:016x}", self.digest))
            .field("slower", &self.slower)
            .field("depth", &self.depth)
            .finish()
    }
}

impl Offer for Recorded {
    /// The seed decides where in the sample it begins. Places are folded into the space.
    fn ios(&self, space_bytes: u64, seed: u64) -> Box<dyn Iterator<Item = IoRecord> + '_> {
        let begin_ns = Chance::new(seed).unit() * self.length_ns;
        let first = self.records.partition_point(|record| (record.arrive_ns as f64) * self.slower < begin_ns);
        let rounds = (0u64..).flat_map(move |round| {
            let from = if round == 0 { first } else { 0 };
            self.records[from..].iter().map(move |record| (round, record))
        });
        Box::new(rounds.map(move |(round, record)| {
            let at = round as f64 * self.length_ns + record.arrive_ns as f64 * self.slower - begin_ns;
            let size = u64::from(record.size_bytes).min(space_bytes);
            let offset = (record.offset_bytes % space_bytes).min((space_bytes - size) / 4096 * 4096);
            IoRecord::new(at as Nanos, record.op, offset, size as u32)
        }))
    }

    fn writes(&self) -> bool {
        self.records.iter().any(|record| record.op == Op::Write)
    }

    fn rate(&self) -> f64 {
        self.records.len() as f64 / self.length_ns * 1e9
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn size_most(&self) -> u32 {
        self.records.iter().map(|record| record.size_bytes).max().unwrap_or(0)
    }
}
