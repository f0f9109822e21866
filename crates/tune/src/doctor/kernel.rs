// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readahead values that the kernel gives of its own accord, by disk and by file system.

use crate::bdi::{Bdi, Kind};
use crate::host::Host;

/// The kernel's default for disks, NFS and FUSE.
pub const DEFAULT_KIB: u32 = 128;
/// What btrfs sets for up to 32 disks.
const BTRFS_KIB: u32 = 4096;
/// What Ceph sets.
const CEPH_KIB: u32 = 8192;
/// The largest message of 9p, in KiB.
const MSIZE_KIB: u32 = 128;

/// Which default of the kernel's a value is; None where it is none.
pub fn default_of(host: &Host, bdi: &Bdi, value_kib: u32) -> Option<String> {
    let named = match bdi.kind {
        Kind::Block => of_disk(host, bdi.disk.as_deref()?, value_kib),
        Kind::Btrfs => (value_kib == BTRFS_KIB).then_some("default of btrfs"),
        Kind::Nfs => {
            let is_older = option_kib(bdi, "rsize=").is_some_and(|rsize| value_kib == 15 * rsize);
            is_older.then_some("default of older kernels: 15 times rsize")
        }
        Kind::Other => of_file_system(bdi, value_kib),
        Kind::Fuse => None,
    };
    named.or((value_kib == DEFAULT_KIB).then_some("kernel default")).map(str::to_owned)
}

/// What the kernel gives a disk, in KiB: twice its optimal I/O size, which arrays have. None where that is no more than
/// others get.
fn by_optimal_kib(host: &Host, disk: &str) -> Option<u32> {
    let bytes: u64 = host.number(format!("/sys/block/{disk}/queue/optimal_io_size")).ok()?;
    u32::try_from(2 * (bytes / 1024)).ok().filter(|kib| *kib > DEFAULT_KIB)
}

/// What the kernel gives a backing device where it is not known to give more, in KiB.
pub fn usual_kib(host: &Host, bdi: &Bdi) -> u32 {
    bdi.disk.as_deref().and_then(|disk| by_optimal_kib(host, disk)).unwrap_or(DEFAULT_KIB)
}

fn of_disk(host: &Host, disk: &str, value_kib: u32) -> Option<&'static str> {
    let queue = |name: &str| host.number::<u32>(format!("/sys/block/{disk}/queue/{name}")).unwrap_or(0);
    match by_optimal_kib(host, disk) {
        Some(kib) => (value_kib == kib).then_some("kernel default: twice the device's optimal I/O size"),
        // Newer kernels do so for a hard disk that names no optimal size.
        None if queue("rotational") == 1 && queue("max_sectors_kb").checked_mul(2) == Some(value_kib) => {
            Some("kernel default: twice the hard disk's largest I/O")
        }
        None => None,
    }
}

/// File systems over a network that follow their own largest read.
fn of_file_system(bdi: &Bdi, value_kib: u32) -> Option<&'static str> {
    match bdi.mounts.first()?.fs.as_str() {
        "ceph" => (value_kib == CEPH_KIB).then_some("default of Ceph"),
        "cifs" | "smb3" => {
            let rsize = option_kib(bdi, "rsize=")?;
            // Which of both depends on the kernel.
            [rsize, 2 * rsize].contains(&value_kib).then_some("default of CIFS, by its rsize")
        }
        "9p" => {
            // Whole pages of what a message holds beside its header.
            let msize = option_kib(bdi, "msize=").unwrap_or(MSIZE_KIB);
            let page_kib = (rustix::param::page_size() / 1024) as u32;
            (value_kib < msize && msize - value_kib <= page_kib).then_some("default of 9p, by its msize")
        }
        _ => None,
    }
}

/// An option of a mount that is a number of bytes, in KiB: `rsize=`.
pub fn option_kib(bdi: &Bdi, key: &str) -> Option<u32> {
    let options = &bdi.mounts.first()?.options;
    let bytes: u32 = options.split(',').find_map(|option| option.strip_prefix(key))?.parse().ok()?;
    Some(bytes / 1024)
}
