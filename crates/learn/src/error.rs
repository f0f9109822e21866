// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of this crate.

/// Reasons why nothing was learned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device was given.
    #[error("no device was given: pass the reads of at least one")]
    NoDevice,
    /// The requested device is not among the given ones.
    #[error("device {device} is not among the {devices} given (they count from 0)")]
    DeviceOutOfRange {
        /// The requested device.
        device: usize,
        /// Number of devices given.
        devices: usize,
    },
    /// A device without a read that carries a latency.
    #[error(
        "device {device}: no read carries a latency; use a trace with completions, or run it through the SSD model"
    )]
    NoLatency {
        /// Its index in the input.
        device: usize,
    },
    /// The inflection point is a latency of 0, which a model file has for "not known".
    #[error(
        "device {device}: {share:.1} % of the reads have a latency of 0, so no latency tells fast reads from slow ones: \
         the clock of this trace is too coarse"
    )]
    CoarseClock {
        /// Its index in the input.
        device: usize,
        /// Reads with a latency of 0, in percent.
        share: f64,
    },
    /// No record can become a row.
    #[error(
        "none of {records} records is a read with a latency ({without} reads lack one): use a trace with completions, \
         or run it through the SSD model"
    )]
    NoReads {
        /// Number of records given.
        records: usize,
        /// Reads among them that carry no latency.
        without: u64,
    },
    /// An error of one of several devices.
    #[error("device {device}: {source}")]
    Device {
        /// Its index in the input.
        device: usize,
        /// The error.
        source: Box<Error>,
    },
    /// The core rejected a network or a training run.
    #[error(transparent)]
    Core(#[from] linnet_core::Error),
    /// The caller's progress function stopped the work.
    #[error("interrupted")]
    Interrupted,
    /// Too few rows for learning or testing.
    #[error("{rows} rows for {purpose}, at least {least} are needed: give a longer trace or another split")]
    TooFewRows {
        /// Purpose of the rows.
        purpose: &'static str,
        /// Number of rows.
        rows: usize,
        /// Number needed.
        least: usize,
    },
    /// No read arrives after so many others are complete that it has a history.
    #[error(
        "none of {reads} reads arrives after {} of them are complete, so none has a history: the times of this trace are \
         too coarse, or it is one burst",
        crate::set::HISTORY
    )]
    NoHistory {
        /// Reads with a latency.
        reads: u64,
    },
    /// A setting outside its range.
    #[error("{name} is {value}, it must be {range}")]
    Setting {
        /// Name of the field.
        name: &'static str,
        /// Its value, as text.
        value: String,
        /// The accepted range.
        range: &'static str,
    },
}

/// Returns an error unless the condition on a setting holds.
///
/// # Errors
/// [`Error::Setting`].
pub fn require(holds: bool, name: &'static str, value: impl ToString, range: &'static str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Setting { name, value: value.to_string(), range }) }
}
