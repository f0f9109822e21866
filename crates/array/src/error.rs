// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a set-up or a run.

use thiserror::Error;

/// Errors of this crate. Each names what was wrong and what is expected.
#[derive(Debug, Error, PartialEq)]
pub enum Error {
    /// No policy has this name.
    #[error("unknown policy `{name}`{hint}; known policies: {known}")]
    UnknownPolicy {
        /// The requested name.
        name: String,
        /// The question "did you mean ...?", if a known name is close.
        hint: String,
        /// Every known name.
        known: String,
    },
    /// A setting is outside its range.
    #[error("setting `{field}` is {value}: {expected}")]
    Setting {
        /// Name of the field in the configuration.
        field: &'static str,
        /// Its value.
        value: String,
        /// The accepted values.
        expected: String,
    },
    /// A list that needs one entry per device has another length.
    #[error("{what}: {got} given for {devices} devices; give one per device")]
    Count {
        /// What the list holds.
        what: &'static str,
        /// Its length.
        got: usize,
        /// Devices of the array.
        devices: usize,
    },
    /// A network whose shape does not fit the features.
    #[error("network of device {device} has {inputs} inputs and {outputs} outputs; LinnOS needs 31 and 2")]
    NetworkShape {
        /// The device's number.
        device: usize,
        /// Inputs found.
        inputs: usize,
        /// Outputs found.
        outputs: usize,
    },
    /// A record arrives before its predecessor in the same stream.
    #[error(
        "stream {stream}, record {record}: arrives at {arrive_ns} ns, before its predecessor at {previous_ns} ns; sort the trace by arrival"
    )]
    Unordered {
        /// The stream's number.
        stream: usize,
        /// The record's number in the stream, from 0.
        record: usize,
        /// Its arrival.
        arrive_ns: u64,
        /// The predecessor's arrival.
        previous_ns: u64,
    },
    /// A record of length 0.
    #[error("stream {stream}, record {record}: size_bytes is 0; a record moves at least one byte")]
    EmptyRecord {
        /// The stream's number.
        stream: usize,
        /// The record's number in the stream, from 0.
        record: usize,
    },
    /// The observer stopped the run.
    #[error("interrupted after {done} of {total} I/Os")]
    Interrupted {
        /// I/Os that had arrived.
        done: u64,
        /// I/Os of the whole run.
        total: u64,
    },
    /// Requests are left, and no event is due that could finish them: a bug in the array.
    #[error(
        "{live} requests are left and no event is due; this is a fault of the array, please report it with the seed"
    )]
    Stuck {
        /// Requests left.
        live: usize,
    },
}
