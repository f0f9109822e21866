// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a knob cannot be observed or set.

use std::io;
use std::path::PathBuf;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the system cannot be read or written.
    #[error("{}: cannot {doing}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried: "read", "write", "list", "lock" and the like.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds something else than expected.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// Another tuner runs on this machine.
    #[error("another tuner runs ({}lock {}): stop it first, or watch it instead", of_process(*process), path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Its holder; 0 where it did not say.
        process: u32,
    },
    /// A device or mount that the machine does not have.
    #[error("{name}: no such device or mount; `linnet tune doctor` lists them")]
    Unknown {
        /// As given.
        name: String,
    },
    /// What is mounted at a point has no readahead: memory, an overlay, ZFS.
    #[error("{point}: what is mounted there is {fs}, which has no readahead value of its own")]
    NoValue {
        /// The mount point.
        point: String,
        /// The type of the file system.
        fs: String,
    },
    /// Options that exclude each other on this machine.
    #[error("{what}")]
    Refused {
        /// What is in the way and what to do.
        what: String,
    },
    /// A group that the machine does not have, where nobody waits for it.
    #[error("no control group, container or unit is called {name} now, and --once does not wait for it")]
    Group {
        /// As given.
        name: String,
    },
    /// Which of several backing devices is that of a mount cannot be seen.
    #[error("the value of {target} is one of {}, and the kernel does not say which", names.join(", "))]
    Among {
        /// What the operator calls it.
        target: String,
        /// Their names below /sys/class/bdi.
        names: Vec<String>,
    },
    /// The observer cannot work on this machine.
    #[error("the observer cannot run: {what}")]
    Observer {
        /// What is missing and what to do.
        what: String,
    },
}

fn of_process(process: u32) -> String {
    if process == 0 { String::new() } else { format!("process {process}, ") }
}

/// The result of everything here that may fail.
pub type Result<T> = std::result::Result<T, Error>;
