// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores the data of the drives. Both kinds are sparse: a range that was never written, or was trimmed, reads as
//! zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom, fallocate, flock, seek};
use rustix::io::Errno;

use crate::memory::{Left, Memory};

/// Where an export's data is stored.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Storage {
    /// In memory, allocated in pages of 4 KiB when written; lost when the server stops.
    #[default]
    Memory,
    /// In a sparse file, created if absent. If the file is shorter than the export, it is extended; if longer, its end
    /// is kept.
    File {
        /// Its path.
        path: PathBuf,
        /// Whether flush and FUA sync the file to disk. That takes real time, which the model does not include; without
        /// it, the data survives the server but not a crash of the host.
        durable: bool,
    },
}

impl Storage {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Storage::Memory => Path::new(""),
            Storage::File { path, .. } => path,
        }
    }
}

/// Zeros are written to a file in pieces of this size.
const ZEROS_BYTES: u64 = 64 << 10;

pub(crate) enum Store {
    Memory(Memory),
    File { file: File, durable: bool },
}

fn open(path: &Path, size_bytes: u64) -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    // Two drives with the same file would overwrite each other's data.
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| io::Error::new(io::ErrorKind::WouldBlock, "another drive or server uses this file"))?;
    if found.len() < size_bytes {
        file.set_len(size_bytes)?;
    }
    Ok(file)
}

/// Writes zeros to a file, where the file system has no better way.
fn write_zeros(file: &File, offset_bytes: u64, size_bytes: u64) -> io::Result<()> {
    let zeros = [0; ZEROS_BYTES as usize];
    let end = offset_bytes + size_bytes;
    let mut at = offset_bytes;
    while at < end {
        let size = ZEROS_BYTES.min(end - at);
        file.write_all_at(&zeros[..size as usize], at)?;
        at += size;
    }
    Ok(())
}

impl Store {
    pub fn new(storage: &Storage, size_bytes: u64, left: Option<Left>) -> io::Result<Store> {
        Ok(match storage {
            Storage::Memory => Store::Memory(Memory::new(left)),
            Storage::File { path, durable } => Store::File { file: open(path, size_bytes)?, durable: *durable },
        })
    }

    /// Fills `into` from the range at `offset_bytes`.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Store::Memory(memory) => {
                memory.read(offset_bytes, into);
                Ok(())
            }
            Store::File { file, .. } => file.read_exact_at(into, offset_bytes),
        }
    }

    /// Which parts of a range are stored, in order: length, and whether it is a hole. At most `most` parts from its
    /// start.
    pub fn extents(&self, offset_bytes: u64, size_bytes: u32, most: usize) -> io::Result<Vec<(u32, bool)>> {
        let mut found: Vec<(u32, bool)> = Vec::new();
        let end = offset_bytes + u64::from(size_bytes);
        let mut at = offset_bytes;
        while at < end {
            let (next, hole) = self.state(at, end)?;
            let size = (next.clamp(at + 1, end) - at) as u32;
            let full = found.len() == most;
            match found.last_mut() {
                Some((before, same)) if *same == hole => *before += size,
                _ if full => break,
                _ => found.push((size, hole)),
            }
            at += u64::from(size);
        }
        Ok(found)
    }

    /// Where the state at this offset ends, and whether it is a hole there.
    fn state(&self, at: u64, end: u64) -> io::Result<(u64, bool)> {
        match self {
            Store::Memory(memory) => Ok(memory.state(at)),
            Store::File { file, .. } => match seek(file, SeekFrom::Data(at)) {
                Ok(data) if data > at => Ok((data, true)),
                Ok(_) => Ok((seek(file, SeekFrom::Hole(at))?, false)),
                Err(Errno::NXIO) => Ok((end, true)),
                Err(error) => Err(error.into()),
            },
        }
    }

    pub fn write(&self, offset_bytes: u64, from: &[u8]) -> io::Result<()> {
        match self {
            Store::Memory(memory) => memory.write(offset_bytes, from),
            Store::File { file, .. } => file.write_all_at(from, offset_bytes),
        }
    }

    /// Makes a range read as zeros, and frees its storage if possible.
    pub fn clear(&self, offset_bytes: u64, size_bytes: u64) -> io::Result<()> {
        match self {
            Store::Memory(memory) => {
                memory.clear(offset_bytes, size_bytes);
                Ok(())
            }
            Store::File { file, .. } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // The file system may not support holes.
                fallocate(file, flags, offset_bytes, size_bytes)
                    .or_else(|_| write_zeros(file, offset_bytes, size_bytes))
            }
        }
    }

    /// Makes a range read as zeros, and keeps storage for all of it, so that later writes to it do not lack any.
    pub fn zero(&self, offset_bytes: u64, size_bytes: u64) -> io::Result<()> {
        match self {
            Store::Memory(memory) => memory.zero(offset_bytes, size_bytes),
            Store::File { file, .. } => {
                // Blocks that are allocated and not written: no data moves. Many file systems cannot do that.
                let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                fallocate(file, flags, offset_bytes, size_bytes)
                    .or_else(|_| write_zeros(file, offset_bytes, size_bytes))
            }
        }
    }

    /// Syncs written data to disk, if the export has this option.
    pub fn flush(&self) -> io::Result<()> {
        match self {
            Store::File { file, durable: true } => file.sync_data(),
            _ => Ok(()),
        }
    }

    /// Bytes of memory that the data uses; 0 for a file.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Store::Memory(memory) => memory.bytes(),
            Store::File { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{CHUNK_BYTES, PAGE_BYTES};
    use linnet_sim::Chance;
    use std::os::unix::fs::MetadataExt;

    const SIZE: u64 = 5 * CHUNK_BYTES as u64 + 77;

    fn agrees_with_a_plain_array(store: &Store) {
        let mut plain = vec![0u8; SIZE as usize];
        let mut chance = Chance::new(9);
        for step in 0..600u32 {
            let offset = chance.below(SIZE);
            let size = (1 + chance.below(3 * CHUNK_BYTES as u64)).min(SIZE - offset);
            let range = offset as usize..(offset + size) as usize;
            match chance.below(4) {
                0 => {
                    let data: Vec<u8> = (0..size).map(|i| (i as u32 ^ step) as u8 | 1).collect();
                    store.write(offset, &data).unwrap();
                    plain[range].copy_from_slice(&data);
                }
                1 => {
                    store.clear(offset, size).unwrap();
                    plain[range].fill(0);
                }
                2 => {
                    store.zero(offset, size).unwrap();
                    plain[range].fill(0);
                }
                _ => {
                    let mut data = vec![7; size as usize];
                    store.read(offset, &mut data).unwrap();
                    assert!(data == plain[range], "step {step}: {offset}+{size}");
                }
            }
        }
    }

    #[test]
    fn memory_holds_what_was_written_and_frees_what_was_trimmed() {
        let store = Store::new(&Storage::Memory, SIZE, None).unwrap();
        assert_eq!(store.memory_bytes(), 0);
        agrees_with_a_plain_array(&store);
        store.clear(0, 5 * CHUNK_BYTES as u64).unwrap();
        assert!(store.memory_bytes() <= PAGE_BYTES as u64, "only the last, partial page may stay");
    }

    #[test]
    fn a_file_holds_what_was_written() {
        let path = std::env::temp_dir().join(format!("linnet-nbd-store-{}", std::process::id()));
        let storage = Storage::File { path: path.clone(), durable: true };
        agrees_with_a_plain_array(&Store::new(&storage, SIZE, None).unwrap());
        let again = Store::new(&storage, SIZE, None).unwrap();
        again.write(SIZE - 4, b"stay").unwrap();
        again.flush().unwrap();
        assert!(Store::new(&storage, SIZE, None).is_err(), "a file belongs to one drive at a time");
        drop(again);
        let mut end = [0; 4];
        Store::new(&storage, SIZE, None).unwrap().read(SIZE - 4, &mut end).unwrap();
        assert_eq!(&end, b"stay");
        std::fs::remove_file(path).unwrap();
        assert!(Store::new(&Storage::File { path: "/".into(), durable: false }, SIZE, None).is_err());
    }

    #[test]
    fn zeros_that_must_be_stored_are_stored() {
        let path = std::env::temp_dir().join(format!("linnet-nbd-zeros-{}", std::process::id()));
        let store = Store::new(&Storage::File { path: path.clone(), durable: false }, SIZE, None).unwrap();
        let stored_bytes = || 512 * std::fs::metadata(&path).unwrap().blocks();
        store.write(0, &[7; 3 * CHUNK_BYTES]).unwrap();
        store.clear(0, SIZE).unwrap();
        let holes_bytes = stored_bytes();
        store.zero(0, 4 * CHUNK_BYTES as u64).unwrap();
        let Store::File { file, .. } = &store else { unreachable!() };
        file.sync_all().unwrap();
        assert!(stored_bytes() >= 4 * CHUNK_BYTES as u64, "{} bytes, and {holes_bytes} of a hole", stored_bytes());
        // The other way, for file systems that need it.
        store.write(1000, &[7; 3 * CHUNK_BYTES]).unwrap();
        write_zeros(file, 1001, 2 * CHUNK_BYTES as u64).unwrap();
        let mut back = vec![1; 2 * CHUNK_BYTES + 2];
        store.read(1000, &mut back).unwrap();
        assert!(back[0] == 7 && back[2 * CHUNK_BYTES + 1] == 7 && back[1..=2 * CHUNK_BYTES].iter().all(|&b| b == 0));
        std::fs::remove_file(path).unwrap();
    }
}
