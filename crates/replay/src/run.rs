// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a replay: the array's driver with NBD exports and the real-time clock.

use std::io;
use std::num::NonZeroU64;

use linnet_array::{
    Config, Counters, Error as ArrayError, Input, Observer, Playback, Policy, Progress, RunOptions, run_on,
};
use linnet_types::{IoRecord, Nanos, Op, Thresholds};

use crate::Error;
use crate::clock::WallClock;
use crate::device::{Losses, NbdDevice};
use crate::nbd::{HANDSHAKE_MAX, Patience, connect, placed};

/// Settings of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The array.
    pub array: Config,
    /// Real time per trace time: 2 replays at half the speed.
    pub time_scale: f64,
}

/// The result of a replay. Times are trace time: real time divided by the time scale.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Latency of every read, from its arrival in the trace to its end ([`linnet_array::ReadLatencies`]).
    pub latency_ns: Vec<Nanos>,
    /// The tenant of each of these reads.
    pub tenant: Vec<u32>,
    /// Counts of the array.
    pub counters: Counters,
    /// Every I/O as its device answered it, by device, in order of submission.
    pub log: Vec<Vec<IoRecord>>,
    /// How late each I/O was sent, sorted.
    pub lateness_ns: Vec<Nanos>,
    /// I/Os of the streams that lie beyond the end of their export and were sent to where they are modulo its size.
    pub folded: u64,
    /// I/Os that were shortened, at the end of their export or to the longest request that every server accepts.
    pub cut: u64,
}

/// Measures how late I/Os are sent, and stops the run when the connection to an export is lost.
struct Recorder<'a> {
    progress: &'a mut dyn FnMut(u64) -> bool,
    losses: &'a Losses,
    lateness_ns: Vec<Nanos>,
}

impl Observer for Recorder<'_> {
    fn progress(&mut self, at: Progress) -> bool {
        !self.losses.any() && (self.progress)(at.done)
    }

    fn input(&mut self, now: Nanos, input: &Input) {
        if let Input::Arrive { arrive_ns, .. } = *input {
            self.lateness_ns.push(now.saturating_sub(arrive_ns));
        }
    }
}

/// Timers of this thread expire on time, and not when the kernel finds it convenient, until this is dropped.
struct Punctual(Option<u64>);

impl Punctual {
    fn new() -> Punctual {
        let before = rustix::thread::current_timer_slack().ok();
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Punctual(before)
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(before));
        }
    }
}

/// Replays `streams` (stream i has export i as its primary) through an array of NBD exports.
///
/// # Errors
/// An export that cannot be reached or whose connection is lost, one that was given twice, one that refuses writes if there are any, one of a
/// modelled drive that is served at another time scale, lists of different lengths, settings that the array refuses, and a stop requested by `progress`, which gets the number of I/Os
/// sent, and 0 while exports are waited for.
pub fn replay(
    uris: &[String],
    streams: &[&[IoRecord]],
    thresholds: &[Thresholds],
    policy: Box<dyn Policy>,
    options: &Options,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    if uris.len() != streams.len() || uris.len() != thresholds.len() {
        return Err(Error::Count { exports: uris.len(), streams: streams.len(), thresholds: thresholds.len() });
    }
    let total = streams.iter().map(|records| records.len() as u64).sum();
    let mut connections = Vec::new();
    for uri in uris {
        let mut go_on = || progress(0);
        let mut patience = Patience::new(HANDSHAKE_MAX, &mut go_on);
        match connect(uri, &mut patience) {
            Err(_) if patience.stopped => return Err(Error::Interrupted { done: 0, total }),
            result => connections.push(result?),
        }
    }
    for (at, (sender, _)) in connections.iter().enumerate() {
        if let Some(first) = connections[..at].iter().position(|(other, _)| other.place == sender.place) {
            return Err(Error::Twice { uri: uris[at].clone(), first: uris[first].clone() });
        }
    }
    for (uri, (sender, _)) in uris.iter().zip(&connections) {
        let asked = options.time_scale;
        if let Some(served) = sender.time_scale.filter(|&served| served != asked) {
            return Err(Error::TimeScale { uri: uri.clone(), served, asked });
        }
    }
    let writes = streams.iter().any(|records| records.iter().any(|record| record.op == Op::Write));
    if let Some(device) = connections.iter().position(|(sender, _)| sender.read_only).filter(|_| writes) {
        let source = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the export is read-only, and there are writes");
        return Err(Error::Io { device, source });
    }
    let sizes: Vec<u64> = connections.iter().map(|(sender, _)| sender.size_bytes).collect();
    let (folded, cut) = altered(streams, &sizes);
    let losses = Losses::default();
    let (mut clock, bell) = WallClock::new(options.time_scale);
    let epoch = clock.epoch();
    let device = |(number, connection)| NbdDevice::new(number, connection, epoch, bell.clone(), losses.clone());
    let mut devices: Vec<NbdDevice> = connections.into_iter().enumerate().map(device).collect();
    // Only the devices hold the bell now: when their threads have ended, the clock stops waiting.
    drop(bell);
    let mut recorder = Recorder { progress, losses: &losses, lateness_ns: Vec::new() };
    let _punctual = Punctual::new();
    let settings = RunOptions { array: options.array, playback: Playback::LOGGED };
    let result = run_on(&mut clock, &mut devices, streams, thresholds, policy, &settings, &mut recorder);
    if let Some((device, source)) = losses.first() {
        return Err(Error::Io { device, source });
    }
    let mut lateness_ns = recorder.lateness_ns;
    lateness_ns.sort_unstable();
    match result {
        Ok(run) => {
            let (latency_ns, tenant) = (run.reads.latency_ns, run.reads.tenant);
            Ok(Outcome { latency_ns, tenant, counters: run.counters, log: run.log, lateness_ns, folded, cut })
        }
        Err(ArrayError::Interrupted { done, total }) => Err(Error::Interrupted { done, total }),
        Err(error) => Err(Error::Array(error)),
    }
}

/// How many I/Os lie beyond the end of their stream's export, and how many are shortened there.
fn altered(streams: &[&[IoRecord]], sizes: &[u64]) -> (u64, u64) {
    let mut altered = (0, 0);
    for (records, &size_bytes) in streams.iter().zip(sizes) {
        for record in *records {
            let (_, length) = placed(&record.request(), size_bytes);
            altered.0 += u64::from(record.offset_bytes >= size_bytes);
            altered.1 += u64::from(length < record.size_bytes);
        }
    }
    altered
}
