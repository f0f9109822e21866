// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a value for scans is worth to all who read on the same way.
//!
//! A scan with much in flight fills a queue in which the single reads of others wait. So a trial is not judged by the
//! scans' rate alone: it must raise the product of the speeds of all readers, the sum of their logarithms (proportional
//! fairness: F. P. Kelly, "Charging and rate control for elastic traffic", 1997). Speeds are compared with themselves
//! only, so megabytes of a scan and faults of a random reader need no common unit. With one scan and one other reader
//! this is the power of a network, throughput over delay, which is largest where the path is full and no queue stands.
//!
//! Another reader waits for each of its reads, so its speed is one over their time. It may also do something else
//! between them, or find more and more in memory: what counts is the smaller of what its reads' time and their number
//! say, and nothing where these disagree.

use std::collections::BTreeMap;

use crate::nfs::rpc::Rpcs;
use crate::openfile::FileId;

/// Fewer reads in a window say nothing of their time.
const READS_MIN: u64 = 8;

/// Reads of the files that are not scanned, in the window that runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Others(BTreeMap<FileId, (Option<u32>, Rpcs)>);

impl Others {
    /// Takes in the reads of a file under its value.
    pub(crate) fn note(&mut self, file: FileId, kib: u32, rpcs: &Rpcs) {
        let (value, sum) = self.0.entry(file).or_insert((Some(kib), Rpcs::default()));
        // Under another value each read brings something else, and takes another time.
        *value = value.filter(|value| *value == kib);
        *sum = sum.plus(*rpcs);
    }

    /// What a window of this length says of each file.
    pub(crate) fn waits(&self, seconds: f64) -> Waits {
        let found = self.0.iter().filter(|(_, (_, sum))| sum.matched >= READS_MIN && seconds > 0.0);
        let waits = found.filter_map(|(file, (kib, sum))| {
            let latency = sum.latency().filter(|latency| *latency > 0.0)?;
            Some((*file, Wait { kib: *kib, latency, rate: sum.matched as f64 / seconds }))
        });
        Waits(waits.collect())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Wait {
    /// None where it changed within the window.
    kib: Option<u32>,
    latency: f64,
    rate: f64,
}

/// How long each file's reads took, in seconds, and how many came in a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Waits(BTreeMap<FileId, Wait>);

impl Waits {
    /// True where nobody waited.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of the logarithms of what these readers' speeds were multiplied by since `before`. Files that are not in
    /// both, or whose value differs, do not count.
    fn gained(&self, before: &Waits) -> f64 {
        let both = self.0.iter().filter_map(|(file, now)| Some((before.0.get(file)?, now)));
        both.filter(|(then, now)| then.kib.is_some() && then.kib == now.kib)
            .map(|(then, now)| {
                let (by_time, by_number) = ((then.latency / now.latency).ln(), (now.rate / then.rate).ln());
                if by_time * by_number <= 0.0 { 0.0 } else { by_time.abs().min(by_number.abs()).copysign(by_time) }
            })
            .sum()
    }
}

/// What scans got at one value, and what others did meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measure {
    pub(crate) kib: u32,
    /// Bytes per second of all scans, and how many they are.
    pub(crate) rate: f64,
    pub(crate) scans: usize,
    /// Of the scans' reads, in seconds.
    pub(crate) latency: f64,
    pub(crate) others: Waits,
}

impl Measure {
    /// What the scans' rate was multiplied by since `before`, less what the others lost. A gain of the scans is one for
    /// each of them.
    pub(crate) fn worth(&self, before: &Measure) -> f64 {
        self.rate / before.rate * (self.others.gained(&before.others) / self.scans.max(1) as f64).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::Dev;

    fn file(inode: u64) -> FileId {
        FileId { dev: Dev { major: 0, minor: 50 }, inode }
    }

    fn rpcs(matched: u64, latency: f64) -> Rpcs {
        Rpcs { matched, latency_ns: (latency * 1e9) as u64 * matched, ..Rpcs::default() }
    }

    /// A second of readers: file, value, reads and their time.
    fn waits(readers: &[(u64, u32, u64, f64)]) -> Waits {
        let mut others = Others::default();
        for (inode, kib, matched, latency) in readers {
            others.note(file(*inode), *kib, &rpcs(*matched, *latency));
        }
        others.waits(1.0)
    }

    fn measure(kib: u32, rate: f64, scans: usize, others: Waits) -> Measure {
        Measure { kib, rate, scans, latency: 0.001, others }
    }

    #[test]
    fn a_scan_that_gains_less_than_others_lose_is_worth_less_than_before() {
        let before = measure(512, 300e6, 1, waits(&[(2, 8, 600, 0.0016)]));
        let after = measure(2048, 390e6, 1, waits(&[(2, 8, 300, 0.0032)]));
        assert!((after.worth(&before) - 1.3 / 2.0).abs() < 0.01, "{}", after.worth(&before));
        let two = Measure { scans: 2, ..after.clone() };
        assert!((two.worth(&before) - 1.3 / 2f64.sqrt()).abs() < 0.01, "each of two scans gained");
        let three = waits(&[(2, 8, 300, 0.0032), (3, 8, 300, 0.0032)]);
        let all = waits(&[(2, 8, 600, 0.0016), (3, 8, 600, 0.0016)]);
        let worth = Measure { others: three, ..after }.worth(&Measure { others: all, ..before });
        assert!((worth - 1.3 / 4.0).abs() < 0.01, "{worth}: two lost");
    }

    #[test]
    fn what_cannot_be_compared_does_not_count() {
        let before = waits(&[(2, 128, 600, 0.001), (3, 8, 600, 0.001), (4, 8, 5, 0.001), (5, 8, 600, 0.001)]);
        // Another value; another value within the window; too few; another file.
        let after =
            waits(&[(2, 8, 100, 0.01), (3, 8, 50, 0.01), (3, 64, 50, 0.01), (4, 8, 5, 0.01), (6, 8, 100, 0.01)]);
        assert_eq!(after.gained(&before), 0.0);
        assert!(waits(&[(4, 8, 5, 0.001)]).is_empty() && !before.is_empty());
    }

    #[test]
    fn time_and_number_of_reads_must_agree() {
        let before = waits(&[(2, 8, 600, 0.001)]);
        let gained = |reads, latency| waits(&[(2, 8, reads, latency)]).gained(&before);
        assert_eq!(gained(300, 0.001), 0.0, "more of it is in memory");
        assert_eq!(gained(600, 0.002), 0.0, "it waits for something else");
        assert_eq!(gained(900, 0.002), 0.0);
        assert!((gained(300, 0.004) - 0.5f64.ln()).abs() < 1e-9);
        assert!((gained(1200, 0.00025) - 2f64.ln()).abs() < 1e-9);
    }
}
