// SPDX-License-Identifier: MIT OR Apache-2.0
//! NFS mounts: what their client sends, how much readahead the way to the server takes, and the read size of the mount.

#[cfg(feature = "bpf")]
mod bpf;
pub mod feature;
pub mod model;
pub mod observe;
pub(crate) mod others;
pub mod overmount;
pub mod path;
pub mod rpc;
pub mod rsize;
pub mod rule;
#[cfg(feature = "bpf")]
mod tracefs;
pub mod tune;

use crate::mounts::Mount;

/// The read size among a mount's options, in bytes.
pub fn rsize_bytes(mount: &Mount) -> Option<u32> {
    mount.options.split(',').find_map(|option| option.strip_prefix("rsize="))?.parse().ok()
}
