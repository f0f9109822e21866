// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how well the server kept the model's deadlines: model latency and achieved latency of every request.
//!
//! All times are model time. Achieved latency is the time from the submission to the model until the reply was written
//! to the socket. The error (`excess`) is never negative, because a reply is not sent before its deadline. A client
//! measures more: its own path through the socket, which the server cannot see.

use std::collections::VecDeque;
use std::fmt::Write;

use linnet_measure::Histogram;
use linnet_types::Nanos;

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Command {
    /// Reads data.
    Read = 0,
    /// Writes data.
    Write = 1,
    /// Waits until earlier writes are durable.
    Flush = 2,
    /// Discards a range.
    Trim = 3,
    /// Makes a range read as zeros.
    WriteZeroes = 4,
    /// Reads into the drive's cache, which takes no time here.
    Cache = 5,
}

/// How many [`Command`]s there are.
const COMMANDS: usize = 6;
/// Their names in JSON.
const NAMES: [&str; COMMANDS] = ["reads", "writes", "flushes", "trims", "write_zeroes", "caches"];

/// One answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was submitted to the model, from the server's start.
    pub arrive_ns: Nanos,
    /// First byte.
    pub offset_bytes: u64,
    /// Length; 0 for a flush.
    pub size_bytes: u32,
    /// The command.
    pub command: Command,
    /// Whether it failed ([`ExportStats::failed`]).
    pub failed: bool,
    /// The latency that the model computed.
    pub latency_ns_model: Nanos,
    /// The latency that the server achieved; never less.
    pub latency_ns_achieved: Nanos,
}

impl Sample {
    /// Achieved latency minus model latency.
    pub fn excess_ns(&self) -> Nanos {
        self.latency_ns_achieved.saturating_sub(self.latency_ns_model)
    }
}

/// Summary of a distribution (nearest rank, within 0.4 %; the maximum is exact).
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Spread {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub ns_p50: Nanos,
    /// 90th percentile.
    pub ns_p90: Nanos,
    /// 99th percentile.
    pub ns_p99: Nanos,
    /// 99.9th percentile.
    pub ns_p999: Nanos,
    /// Maximum.
    pub ns_max: Nanos,
}

impl Spread {
    fn of(histogram: &Histogram) -> Spread {
        Spread {
            mean_ns: histogram.mean(),
            ns_p50: histogram.quantile(0.5),
            ns_p90: histogram.quantile(0.9),
            ns_p99: histogram.quantile(0.99),
            ns_p999: histogram.quantile(0.999),
            ns_max: histogram.max(),
        }
    }
}

/// Statistics of one drive: its requests, and how well their deadlines were kept.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ExportStats {
    /// The export's name.
    pub name: String,
    /// Answered requests by [`Command`], in the order of the enum.
    pub commands: [u64; COMMANDS],
    /// Bytes of reads that succeeded.
    pub read_bytes: u64,
    /// Bytes of writes that succeeded.
    pub write_bytes: u64,
    /// Answered requests that failed: the model failed or lost them, the host could not read or write their data, or a
    /// caller in this process broke the rules of a command.
    pub failed: u64,
    /// Those of them whose data the host had no memory, or no space on its disk, for.
    pub no_space: u64,
    /// Requests that the model lost.
    pub lost: u64,
    /// Requests that were refused without asking the model: beyond the end, malformed, or of unknown kind.
    pub refused: u64,
    /// Share of answered requests whose error was above [`Stats::late_after_ns`].
    pub late_share: f64,
    /// Latency that the model computed.
    pub model: Spread,
    /// Latency that the server achieved.
    pub achieved: Spread,
    /// Achieved minus model: the error.
    pub excess: Spread,
    /// Bytes of memory that hold the drive's data; 0 for a file.
    pub memory_bytes: u64,
}

impl ExportStats {
    /// Answered requests.
    pub fn answered(&self) -> u64 {
        self.commands.iter().sum()
    }
}

/// The statistics of a server so far.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Stats {
    /// Model time since start.
    pub uptime_ns: Nanos,
    /// Real time per model time.
    pub time_scale: f64,
    /// An error above this counts as late.
    pub late_after_ns: Nanos,
    /// Connections that are open.
    pub connections: u64,
    /// Connections accepted since start.
    pub connections_total: u64,
    /// Connections closed at once because [`crate::Builder::connections_max`] were open.
    pub connections_refused: u64,
    /// Connections that were closed, while idle, to make way for new ones.
    pub connections_displaced: u64,
    /// Bytes that are left of [`crate::Builder::bytes_max`].
    pub bytes_left: u64,
    /// Handshakes that ended without a choice: a listing, an abort, a protocol violation.
    pub handshakes_ended: u64,
    /// Connections that were closed because of a protocol violation.
    pub garbled: u64,
    /// One for each export, in the order of the builder.
    pub exports: Vec<ExportStats>,
}

impl Stats {
    /// The statistics as one JSON object, with the fields' names.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "{{\"uptime_ns\":{},\"time_scale\":{},\"late_after_ns\":{},\"connections\":{},\"connections_total\":{},\
             \"connections_refused\":{},\"connections_displaced\":{},\"bytes_left\":{},\"handshakes_ended\":{},\"garbled\":{},\"exports\":[",
            self.uptime_ns,
            self.time_scale,
            self.late_after_ns,
            self.connections,
            self.connections_total,
            self.connections_refused,
            self.connections_displaced,
            self.bytes_left,
            self.handshakes_ended,
            self.garbled
        );
        for (index, export) in self.exports.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            export.json(&mut out);
        }
        out.push_str("]}");
        out
    }
}

impl ExportStats {
    fn json(&self, out: &mut String) {
        out.push_str("{\"name\":");
        quote(out, &self.name);
        for (name, count) in NAMES.iter().zip(&self.commands) {
            let _ = write!(out, ",\"{name}\":{count}");
        }
        let _ = write!(
            out,
            ",\"read_bytes\":{},\"write_bytes\":{},\"failed\":{},\"no_space\":{},\"lost\":{},\"refused\":{},\"late_share\":{},\
             \"memory_bytes\":{}",
            self.read_bytes,
            self.write_bytes,
            self.failed,
            self.no_space,
            self.lost,
            self.refused,
            self.late_share,
            self.memory_bytes
        );
        for (name, spread) in [("model", self.model), ("achieved", self.achieved), ("excess", self.excess)] {
            let _ = write!(
                out,
                ",\"{name}\":{{\"mean_ns\":{:.1},\"ns_p50\":{},\"ns_p90\":{},\"ns_p99\":{},\"ns_p999\":{},\"ns_max\":{}}}",
                spread.mean_ns, spread.ns_p50, spread.ns_p90, spread.ns_p99, spread.ns_p999, spread.ns_max
            );
        }
        out.push('}');
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The running statistics of one drive.
#[derive(Debug)]
pub(crate) struct Ledger {
    late_after_ns: Nanos,
    log_len: usize,
    log: VecDeque<Sample>,
    commands: [u64; COMMANDS],
    read_bytes: u64,
    write_bytes: u64,
    failed: u64,
    pub no_space: u64,
    pub lost: u64,
    pub refused: u64,
    late: u64,
    model: Histogram,
    achieved: Histogram,
    excess: Histogram,
}

impl Ledger {
    pub fn new(late_after_ns: Nanos, log_len: usize) -> Ledger {
        Ledger {
            late_after_ns,
            log_len,
            log: VecDeque::new(),
            commands: [0; COMMANDS],
            read_bytes: 0,
            write_bytes: 0,
            failed: 0,
            no_space: 0,
            lost: 0,
            refused: 0,
            late: 0,
            model: Histogram::new(),
            achieved: Histogram::new(),
            excess: Histogram::new(),
        }
    }

    pub fn record(&mut self, sample: Sample) {
        self.commands[sample.command as usize] += 1;
        match sample.command {
            _ if sample.failed => {}
            Command::Read => self.read_bytes += u64::from(sample.size_bytes),
            Command::Write => self.write_bytes += u64::from(sample.size_bytes),
            _ => {}
        }
        self.failed += u64::from(sample.failed);
        self.late += u64::from(sample.excess_ns() > self.late_after_ns);
        self.model.record(sample.latency_ns_model);
        self.achieved.record(sample.latency_ns_achieved);
        self.excess.record(sample.excess_ns());
        if self.log_len > 0 {
            if self.log.len() == self.log_len {
                self.log.pop_front();
            }
            self.log.push_back(sample);
        }
    }

    pub fn samples(&self) -> Vec<Sample> {
        self.log.iter().copied().collect()
    }

    pub fn stats(&self, name: &str, memory_bytes: u64) -> ExportStats {
        let answered = self.excess.count();
        ExportStats {
            name: name.to_owned(),
            commands: self.commands,
            read_bytes: self.read_bytes,
            write_bytes: self.write_bytes,
            failed: self.failed,
            no_space: self.no_space,
            lost: self.lost,
            refused: self.refused,
            late_share: if answered == 0 { 0.0 } else { self.late as f64 / answered as f64 },
            model: Spread::of(&self.model),
            achieved: Spread::of(&self.achieved),
            excess: Spread::of(&self.excess),
            memory_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(model: Nanos, achieved: Nanos) -> Sample {
        Sample {
            arrive_ns: 0,
            offset_bytes: 0,
            size_bytes: 4096,
            command: Command::Read,
            failed: false,
            latency_ns_model: model,
            latency_ns_achieved: achieved,
        }
    }

    #[test]
    fn the_ledger_counts_all_and_keeps_the_last() {
        let mut ledger = Ledger::new(50, 3);
        for excess in 0..100 {
            ledger.record(sample(80, 80 + excess));
        }
        let stats = ledger.stats("a\"b\n", 0);
        assert_eq!((stats.answered(), stats.read_bytes), (100, 409_600));
        assert_eq!((stats.model.ns_p99, stats.excess.ns_p50, stats.excess.ns_max), (80, 49, 99));
        assert_eq!(stats.late_share, 0.49);
        assert_eq!(ledger.samples().iter().map(Sample::excess_ns).collect::<Vec<_>>(), [97, 98, 99]);
        let json = Stats { exports: vec![stats], ..Stats::default() }.to_json();
        assert!(json.contains(r#""name":"a\"b\u000a","reads":100,"writes":0"#), "{json}");
        assert_eq!(json.matches('{').count(), json.matches('}').count());
    }
}
