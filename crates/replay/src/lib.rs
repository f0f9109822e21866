// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the array on real devices in real time. Driver, state machine and policies are the same as in virtual time; the
//! clock is real and the devices are NBD exports.
//!
//! Writes of a trace overwrite the contents of the exports, so use only drives whose data may be lost.

mod clock;
mod device;
mod nbd;
mod run;

pub use nbd::{Target, parse_uri};
pub use run::{Options, Outcome, replay};

use std::io;

/// Why a replay could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not an address of an export.
    #[error("{uri}: not an NBD address; give nbd+unix:///EXPORT?socket=PATH or nbd://HOST:PORT/EXPORT")]
    Uri {
        /// What was given.
        uri: String,
    },
    /// The server cannot be reached, or does not have the export.
    #[error("{uri}: {problem}")]
    Connect {
        /// The export.
        uri: String,
        /// What is wrong.
        problem: String,
    },
    /// The drive of an export runs at another speed than the replay.
    #[error("{uri}: the drive is served with --time-scale {served}, and the replay has {asked}; give both the same")]
    TimeScale {
        /// The export.
        uri: String,
        /// Its time scale, as its server says.
        served: f64,
        /// That of the replay.
        asked: f64,
    },
    /// Two addresses of one export, which would be its own replica.
    #[error("{uri}: the same drive as {first}; give each drive once")]
    Twice {
        /// The second address.
        uri: String,
        /// The first one.
        first: String,
    },
    /// The number of exports, streams and thresholds differ.
    #[error("{exports} exports, {streams} streams and {thresholds} thresholds; give one of each for each device")]
    Count {
        /// Exports.
        exports: usize,
        /// Streams.
        streams: usize,
        /// Thresholds.
        thresholds: usize,
    },
    /// The connection to an export was lost during the run.
    #[error("device {device}: {source}")]
    Io {
        /// Its number.
        device: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// The array refused its settings.
    #[error(transparent)]
    Array(#[from] linnet_array::Error),
    /// The caller asked to stop.
    #[error("interrupted after {done} of {total} I/Os")]
    Interrupted {
        /// I/Os that had arrived.
        done: u64,
        /// I/Os in all.
        total: u64,
    },
}
