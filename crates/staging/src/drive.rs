// SPDX-License-Identifier: MIT OR Apache-2.0
//! A drive that is set aside.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use linnet_tenant::TENANTS_MAX;
use linnet_types::{IoRecord, Op};
use rustix::fs::{OFlags, ioctl_blksszget};

use crate::buffer::Buffer;
use crate::error::Error;

/// A write of [`Drive::fill`].
const CHUNK: usize = 4 << 20;
/// A write of its second pass, which divides a part.
const SCATTERED: usize = 64 << 10;
/// The kernel moves no more at once.
const SIZE_MAX: u64 = 0x7fff_f000;
/// Direct I/O on a file: the block of every file system.
const FILE_BLOCK: u32 = 4096;
/// The least part of a tenant, and what its size is a multiple of: of every device's block.
const PART_UNIT: u64 = 1 << 20;

/// A block device or a file, opened for direct I/O. Each of [`TENANTS_MAX`] tenants has an equal part of it.
#[derive(Debug)]
pub struct Drive {
    file: File,
    path: String,
    bytes: u64,
    block: u32,
    writable: bool,
}

/// Where an I/O goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub offset_bytes: u64,
    pub size_bytes: u32,
}

impl Drive {
    /// Opens a drive. A block device must not be in use: nothing of it mounted, no array or volume on it. `writable`
    /// lets tenants overwrite what is on it.
    pub fn open(path: &Path, writable: bool) -> Result<Drive, Error> {
        let name = path.display().to_string();
        let failed = |source| Error::Open { path: name.clone(), source };
        // Opening a tape or a pipe does something. What was opened is looked at again: the path may lead elsewhere by then.
        let right = |kind: FileType| kind.is_block_device() || kind.is_file();
        if !right(path.metadata().map_err(failed)?.file_type()) {
            return Err(Error::Kind { path: name });
        }
        // A file has no use for the last flag.
        let flags = OFlags::DIRECT | OFlags::CLOEXEC | OFlags::EXCL;
        let opened = OpenOptions::new().read(true).write(writable).custom_flags(flags.bits() as i32).open(path);
        let mut file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::ResourceBusy | io::ErrorKind::ExecutableFileBusy => Error::InUse { path: name.clone() },
            _ => failed(source),
        })?;
        let kind = file.metadata().map_err(failed)?.file_type();
        if !right(kind) {
            return Err(Error::Kind { path: name });
        }
        let bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let block = if kind.is_file() { FILE_BLOCK } else { ioctl_blksszget(&file).map_err(|e| failed(e.into()))? };
        let least = PART_UNIT * TENANTS_MAX as u64;
        if bytes < least {
            return Err(Error::Small { path: name, bytes, least });
        }
        Ok(Drive { file, path: name, bytes, block, writable })
    }

    /// Whether what is on it may be overwritten.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Bytes of a tenant's part.
    pub fn part_bytes(&self) -> u64 {
        self.bytes / TENANTS_MAX as u64 / PART_UNIT * PART_UNIT
    }

    /// Writes all parts twice: in order, so that no read finds a block that was never written, which a drive answers
    /// without its flash; then in blocks that lie far apart, so that its flash has pages of different age together, as
    /// after long use, and runs that come later do not find an older drive than the first ones. `proceed` hears of bytes
    /// done and bytes in all; false ends it, and is given back.
    pub fn fill(&self, mut proceed: impl FnMut(u64, u64) -> bool) -> Result<bool, Error> {
        let end = self.part_bytes() * TENANTS_MAX as u64;
        let mut noise = Buffer::noise(CHUNK);
        let blocks = end / SCATTERED as u64;
        let step = stride(blocks);
        let scattered = (0..blocks).map(|n| (u128::from(n) * u128::from(step) % u128::from(blocks)) as u64);
        let ordered = (0..end).step_by(CHUNK).map(|at| (at, CHUNK.min((end - at) as usize)));
        let mut done = 0;
        for (at, size) in ordered.chain(scattered.map(|block| (block * SCATTERED as u64, SCATTERED))) {
            if !proceed(done, 2 * end) {
                return Ok(false);
            }
            let bytes = &mut noise.bytes()[..size];
            // A drive may keep equal pages once.
            for (page, n) in bytes.chunks_exact_mut(4096).zip(done / 4096..) {
                page[..8].copy_from_slice(&n.to_ne_bytes());
            }
            let place = Place { offset_bytes: at, size_bytes: size as u32 };
            self.file.write_all_at(bytes, at).map_err(|source| self.failed(Op::Write, place, source))?;
            done += size as u64;
        }
        self.file.sync_data().map_err(|source| Error::Open { path: self.path.clone(), source })?;
        proceed(2 * end, 2 * end);
        Ok(true)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Refuses what a tenant may not do here.
    pub(crate) fn check(&self, tenant: usize, ios: &[IoRecord]) -> Result<(), Error> {
        let space_bytes = self.part_bytes();
        for io in ios {
            if io.op == Op::Write && !self.writable {
                return Err(Error::Writes { tenant, path: self.path.clone() });
            }
            if u64::from(io.size_bytes).next_multiple_of(u64::from(self.block)) > space_bytes.min(SIZE_MAX) {
                let space_bytes = space_bytes.min(SIZE_MAX);
                return Err(Error::Large { tenant, size_bytes: io.size_bytes, space_bytes });
            }
        }
        Ok(())
    }

    /// Where an I/O of a tenant goes: within its part, in whole blocks of the device.
    pub(crate) fn place(&self, tenant: usize, io: &IoRecord) -> Place {
        let (space, block) = (self.part_bytes(), u64::from(self.block));
        let size = u64::from(io.size_bytes.max(1)).next_multiple_of(block);
        let offset = (io.offset_bytes % space / block * block).min(space - size);
        Place { offset_bytes: tenant as u64 * space + offset, size_bytes: size as u32 }
    }

    pub(crate) fn failed(&self, op: Op, place: Place, source: io::Error) -> Error {
        let Place { offset_bytes, size_bytes } = place;
        Error::Io { path: self.path.clone(), op, offset_bytes, size_bytes, source }
    }
}

/// A step that visits all of `count` blocks, each far from the one before: the golden section, made coprime.
fn stride(count: u64) -> u64 {
    let mut step = ((count as f64 * 0.618_034) as u64).max(1);
    while common(step, count) > 1 {
        step += 1;
    }
    step
}

fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}
