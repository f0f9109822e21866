// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of this crate.

use std::path::PathBuf;

/// Why a profile, an aggregate or a job file was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option out of its range.
    #[error("option `{name}` is {value}: {expected}")]
    Option {
        /// Its name in [`crate::Options`].
        name: &'static str,
        /// The value found.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// A feature that no workload can have.
    #[error("feature {name} is {value}: {problem} (spec/profile.md)")]
    Feature {
        /// Its name.
        name: &'static str,
        /// The value found.
        value: f64,
        /// What is wrong.
        problem: &'static str,
    },
    /// Members whose rate histories cannot be added.
    #[error("{0}; use the independent aggregate for profiles that were not recorded together")]
    Histories(String),
    /// A fio job file that cannot be read as a load.
    #[error("{}, {place}: {problem}", path.display())]
    Job {
        /// The file.
        path: PathBuf,
        /// Line, or section and option.
        place: String,
        /// What is wrong, and what to do.
        problem: String,
    },
}
