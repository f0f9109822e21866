// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong.

use std::io;

use linnet_types::Op;

/// Why tenants cannot run on a drive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The drive cannot be opened, or its properties not read.
    #[error("{path}: {source}")]
    Open {
        /// Of the drive.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something holds the drive.
    #[error(
        "{path} is in use: it, or a part of it, is mounted, or belongs to an array or a volume; give a drive of which nothing is used"
    )]
    InUse {
        /// Of the drive.
        path: String,
    },
    /// Neither a block device nor a file.
    #[error("{path} is neither a block device nor a regular file")]
    Kind {
        /// Of the drive.
        path: String,
    },
    /// Too small to share.
    #[error("{path} has {bytes} bytes, and tenants need {least} at least")]
    Small {
        /// Of the drive.
        path: String,
        /// It has.
        bytes: u64,
        /// Needed.
        least: u64,
    },
    /// A tenant writes to a drive that was opened for reading.
    #[error("tenant {tenant} writes, and what is on {path} may not be overwritten; allow it with --overwrite")]
    Writes {
        /// The first that does, from 0.
        tenant: usize,
        /// Of the drive.
        path: String,
    },
    /// An I/O is larger than a tenant's part.
    #[error(
        "tenant {tenant}: an I/O of {size_bytes} bytes does not fit its part of the drive, which has {space_bytes}"
    )]
    Large {
        /// From 0.
        tenant: usize,
        /// Of the I/O.
        size_bytes: u32,
        /// Of the part, or of the largest request.
        space_bytes: u64,
    },
    /// No io_uring.
    #[error(
        "io_uring: {0}; the kernel may not have it, or `sysctl kernel.io_uring_disabled` or the container's seccomp rules forbid it"
    )]
    Ring(io::Error),
    /// A tenant's thread cannot be started.
    #[error("a thread for each tenant: {0}")]
    Thread(io::Error),
    /// The drive failed an I/O.
    #[error("{path}: {} of {size_bytes} bytes at {offset_bytes}: {source}", match op { Op::Read => "read", Op::Write => "write" })]
    Io {
        /// Of the drive.
        path: String,
        /// Read or write.
        op: Op,
        /// First byte.
        offset_bytes: u64,
        /// Length.
        size_bytes: u32,
        /// What the system said.
        source: io::Error,
    },
}
