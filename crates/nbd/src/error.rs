// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a server cannot start.

use std::io;
use std::path::PathBuf;

/// What [`crate::Builder::start`] refuses, and what the operating system refused it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No export was given.
    #[error("a server needs at least one export; add one with Builder::export")]
    NoExport,
    /// No address was given.
    #[error("a server needs an address; add one with Builder::unix or Builder::tcp")]
    NoAddress,
    /// Two exports of one name.
    #[error("export {name:?} is given twice; export names must differ")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A name that the protocol cannot carry.
    #[error("export name of {bytes} bytes; NBD allows at most 4096")]
    LongName {
        /// Its length.
        bytes: usize,
    },
    /// A size of zero, or one that file offsets cannot express.
    #[error("export {name:?}: size_bytes is {size_bytes}; give 1 to 2^63 - 1")]
    Size {
        /// The export.
        name: String,
        /// The size that was asked for.
        size_bytes: u64,
    },
    /// A time scale outside its range.
    #[error("time_scale is {time_scale}; give 0.001 to 1000000 (10 makes the world ten times slower)")]
    TimeScale {
        /// The scale that was asked for.
        time_scale: f64,
    },
    /// A bound of zero.
    #[error("{setting} is 0; give at least 1")]
    Zero {
        /// The setting's name.
        setting: &'static str,
    },
    /// A path for a Unix socket that holds something else.
    #[error("{path}: exists and is not a socket; remove it or choose another path")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A Unix socket that somebody listens on.
    #[error("{path}: another server listens on this socket; stop it or choose another path")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Listening failed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The socket's path or address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file that holds an export's data cannot be used.
    #[error("export {name:?}: data file {path}: {source}")]
    Storage {
        /// The export.
        name: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A thread or a wake-up pipe could not be had.
    #[error("cannot start the server's threads: {0}")]
    Threads(io::Error),
}
