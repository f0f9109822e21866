// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why either engine refuses settings.

/// Why a device cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No preset has this name.
    #[error("no SSD preset is called `{name}`; the presets are {known}")]
    UnknownPreset {
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A setting is out of range, or contradicts another one.
    #[error("SSD parameter {field} = {value}: {reason}")]
    Setting {
        /// Field of [`crate::Params`] or [`crate::queued::QueuedParams`].
        field: &'static str,
        /// The value that was given.
        value: String,
        /// What is wrong, and which values are accepted.
        reason: String,
    },
    /// A parameter file is not TOML, or has a key that is unknown, missing or of the wrong type.
    #[error("SSD parameters{}: {reason}", if file.is_empty() { String::new() } else { format!(" in {file}") })]
    Text {
        /// The file, or empty.
        file: String,
        /// Line, key and what is wrong.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// The error of the system, or what is wrong with the contents.
        reason: String,
    },
}

pub(crate) fn refuse<T>(field: &'static str, value: impl ToString, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Setting { field, value: value.to_string(), reason: reason.into() })
}

pub(crate) fn within(field: &'static str, value: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    refuse(field, value, format!("must be in {least}..={most}"))
}
