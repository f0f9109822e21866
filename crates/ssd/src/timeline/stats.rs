// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a device, since it was built or preconditioned.

use linnet_types::Nanos;

/// Reads slower than twice their nominal service time ([`crate::Ssd::unloaded_read_ns`]), by the cause of their longest
/// wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowReads {
    /// Internal work of all dies at once.
    pub device_wide: u64,
    /// Internal work of one die.
    pub single_die: u64,
    /// Other requests of the host, or earlier parts of the same read.
    pub queueing: u64,
    /// Those of `queueing` that waited longer for their own parts than for others.
    pub own_parts: u64,
    /// Read retry.
    pub retry: u64,
}

impl SlowReads {
    /// All slow reads.
    pub fn total(&self) -> u64 {
        self.device_wide + self.single_die + self.queueing + self.retry
    }

    /// The actual device-wide share: device-wide divided by device-wide plus single-die. `None` if both are 0.
    pub fn device_wide_share(&self) -> Option<f64> {
        let internal = self.device_wide + self.single_die;
        (internal > 0).then(|| self.device_wide as f64 / internal as f64)
    }
}

/// Counters of one stream of requests (see [`crate::Ssd::submit_on`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Sum of read latencies.
    pub read_latency_ns_sum: u128,
    /// Longest read.
    pub read_latency_ns_max: Nanos,
    /// Sum of write latencies.
    pub write_latency_ns_sum: u128,
    /// Longest write.
    pub write_latency_ns_max: Nanos,
    /// Reads slower than twice their nominal service time ([`crate::Ssd::unloaded_read_ns`]).
    pub slow_reads: u64,
}

/// Distribution of erases over the superblocks, including preconditioning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wear {
    /// Fewest.
    pub least: u32,
    /// Most.
    pub most: u32,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// Counters of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Host reads.
    pub reads: u64,
    /// Host writes.
    pub writes: u64,
    /// 4 KiB pages read by the host.
    pub host_read_pages: u64,
    /// 4 KiB pages written by the host.
    pub host_write_pages: u64,
    /// Host pages programmed by flushes: pages written, minus those replaced in the buffer and those still in it.
    pub flushed_pages: u64,
    /// 4 KiB pages programmed for any reason, including padding.
    pub flash_write_pages: u64,
    /// Program units read for the host.
    pub flash_reads: u64,
    /// Pages of reads that were in the write buffer.
    pub buffer_read_hits: u64,
    /// Pages of writes that were in the write buffer and were replaced.
    pub buffer_write_hits: u64,
    /// Pages read because a write was partial.
    pub rmw_reads: u64,
    /// Flash reads that had to be repeated.
    pub retries: u64,
    /// Flushes started by the timer.
    pub flushes_timer: u64,
    /// Flushes started by the watermark.
    pub flushes_watermark: u64,
    /// Program units that were destaged individually.
    pub eager_units: u64,
    /// GC rounds on all dies.
    pub gc_rounds_wide: u64,
    /// GC rounds that visited one die at a time.
    pub gc_rounds_single: u64,
    /// GC rounds that the host waited for because space was short; included in the other two.
    pub gc_rounds_foreground: u64,
    /// 4 KiB pages relocated.
    pub gc_moved_pages: u64,
    /// Superblocks collected, each of which is erased.
    pub erases: u64,
    /// Lowest and highest number of erases of a superblock, including preconditioning.
    pub wear: (u32, u32),
    /// Checkpoints of the mapping table.
    pub checkpoints: u64,
    /// Flushes that the host asked for.
    pub flushes_explicit: u64,
    /// Logical pages that the host discarded.
    pub trimmed_pages: u64,
    /// Victims collected to level wear.
    pub wear_moves: u64,
    /// 4 KiB pages folded from the SLC cache.
    pub slc_folded_pages: u64,
    /// Second flash reads of pages that are stored in two pieces.
    pub split_reads: u64,
    /// Writes that waited for space in the buffer.
    pub buffer_full_writes: u64,
    /// Slow reads by source.
    pub slow_reads: SlowReads,
    /// Busy time of each die (started or scheduled).
    pub die_busy_ns: Vec<Nanos>,
    /// Time of the last call.
    pub now_ns: Nanos,
    /// When all that dies have started has ended, or the last call if that was later.
    pub until_ns: Nanos,
}

impl Stats {
    /// Write amplification: pages programmed divided by host pages programmed. `None` before the first flush.
    pub fn waf(&self) -> Option<f64> {
        (self.flushed_pages > 0).then(|| self.flash_write_pages as f64 / self.flushed_pages as f64)
    }

    /// Share of the time until `until_ns` that dies were busy, on average.
    pub fn utilisation(&self) -> f64 {
        self.die_utilisation().iter().sum::<f64>() / self.die_busy_ns.len().max(1) as f64
    }

    /// That share of each die.
    pub fn die_utilisation(&self) -> Vec<f64> {
        self.die_busy_ns.iter().map(|&ns| ns as f64 / self.until_ns.max(1) as f64).collect()
    }
}
