// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a server cannot start.

use std::io;
use std::path::PathBuf;

/// Why [`crate::Builder::start`] failed: a setting that it refuses, or an error of the system.
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
        /// The size that was given.
        size_bytes: u64,
    },
    /// A time scale outside its range.
    #[error("time_scale is {time_scale:?}; give 0.001 to 1000000 (10 makes the world ten times slower)")]
    TimeScale {
        /// The scale that was given.
        time_scale: f64,
    },
    /// A limit is zero.
    #[error("{setting} is 0; give at least 1")]
    Zero {
        /// The setting's name.
        setting: &'static str,
    },
    /// The path of a Unix socket is something else.
    #[error("{path}: exists and is not a socket; remove it or choose another path")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Another process listens on the Unix socket.
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
        /// The error of the system.
        source: io::Error,
    },
    /// The file that holds an export's data cannot be used.
    #[error("export {name:?}: data file {path}: {source}")]
    Storage {
        /// The export.
        name: String,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A thread or a wake-up pipe could not be created.
    #[error("cannot start the server's threads: {0}")]
    Threads(io::Error),
}
