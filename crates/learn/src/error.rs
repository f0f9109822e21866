// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong while learning.

/// Why nothing was learned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device was given.
    #[error("no device was given: pass the reads of at least one")]
    NoDevice,
    /// The device asked for is not among those given.
    #[error("device {device} is not among the {devices} given (they count from 0)")]
    DeviceOutOfRange {
        /// Asked for.
        device: usize,
        /// Given.
        devices: usize,
    },
    /// A device without a read that carries a latency.
    #[error(
        "device {device}: no read carries a latency; use a trace with completions, or run it through the SSD model"
    )]
    NoLatency {
        /// Its place in the input.
        device: usize,
    },
    /// No record that could become a row.
    #[error(
        "none of {records} records is a read with a latency ({without} reads lack one): use a trace with completions, \
         or run it through the SSD model"
    )]
    NoReads {
        /// Records given.
        records: usize,
        /// Reads among them that carry no latency.
        without: u64,
    },
    /// What went wrong with one device of several.
    #[error("device {device}: {source}")]
    Device {
        /// Its place in the input.
        device: usize,
        /// What went wrong.
        source: Box<Error>,
    },
    /// The core refused a network or a training run.
    #[error(transparent)]
    Core(#[from] linnet_core::Error),
    /// The caller's progress function asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// Too few rows to learn or to test from.
    #[error("{rows} rows for {purpose}, at least {least} are needed: give a longer trace or another split")]
    TooFewRows {
        /// What the rows are for.
        purpose: &'static str,
        /// There are.
        rows: usize,
        /// Needed.
        least: usize,
    },
    /// A setting outside its range.
    #[error("{name} is {value}, it must be {range}")]
    Setting {
        /// Name of the field.
        name: &'static str,
        /// Its value, as text.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
}

/// Refuses a setting unless it holds.
///
/// # Errors
/// [`Error::Setting`].
pub fn require(holds: bool, name: &'static str, value: impl ToString, range: &'static str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Setting { name, value: value.to_string(), range }) }
}
