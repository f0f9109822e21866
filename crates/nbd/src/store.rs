// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores the data of the drives. Both kinds are sparse: a range that was never written, or was trimmed, reads as
//! zeros.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom, fallocate, flock, seek};
use rustix::io::Errno;

/// Where an export's data is stored.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Storage {
    /// In memory, allocated when written; lost when the server stops.
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

/// Memory is allocated in pieces of this size.
const CHUNK_BYTES: u64 = 64 << 10;
/// Number of locks for the chunks, so that connections rarely contend.
const SHARDS: usize = 64;

type Chunks = HashMap<u64, Box<[u8]>>;

pub(crate) enum Store {
    Memory(Vec<RwLock<Chunks>>),
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

/// Splits a range at chunk boundaries: chunk, offset in it, length.
fn chunks(offset_bytes: u64, size_bytes: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset_bytes + size_bytes;
    let mut at = offset_bytes;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let inside = at % CHUNK_BYTES;
            let size = (CHUNK_BYTES - inside).min(end - at);
            let part = (at / CHUNK_BYTES, inside as usize, size as usize);
            at += size;
            part
        })
    })
}

fn reading(shards: &[RwLock<Chunks>], chunk: u64) -> RwLockReadGuard<'_, Chunks> {
    shards[chunk as usize % SHARDS].read().unwrap_or_else(PoisonError::into_inner)
}

fn writing(shards: &[RwLock<Chunks>], chunk: u64) -> RwLockWriteGuard<'_, Chunks> {
    shards[chunk as usize % SHARDS].write().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    pub fn new(storage: &Storage, size_bytes: u64) -> io::Result<Store> {
        Ok(match storage {
            Storage::Memory => Store::Memory((0..SHARDS).map(|_| RwLock::default()).collect()),
            Storage::File { path, durable } => Store::File { file: open(path, size_bytes)?, durable: *durable },
        })
    }

    /// Fills `into` from the range at `offset_bytes`.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Store::Memory(shards) => {
                let mut done = 0;
                for (chunk, inside, size) in chunks(offset_bytes, into.len() as u64) {
                    let into = &mut into[done..done + size];
                    match reading(shards, chunk).get(&chunk) {
                        Some(held) => into.copy_from_slice(&held[inside..inside + size]),
                        None => into.fill(0),
                    }
                    done += size;
                }
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
            Store::Memory(shards) => {
                let chunk = at / CHUNK_BYTES;
                Ok(((chunk + 1) * CHUNK_BYTES, !reading(shards, chunk).contains_key(&chunk)))
            }
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
            Store::Memory(shards) => {
                let mut done = 0;
                for (chunk, inside, size) in chunks(offset_bytes, from.len() as u64) {
                    let mut shard = writing(shards, chunk);
                    let held = shard.entry(chunk).or_insert_with(|| vec![0; CHUNK_BYTES as usize].into());
                    held[inside..inside + size].copy_from_slice(&from[done..done + size]);
                    done += size;
                }
                Ok(())
            }
            Store::File { file, .. } => file.write_all_at(from, offset_bytes),
        }
    }

    /// Makes a range read as zeros, and frees its storage if possible.
    pub fn clear(&self, offset_bytes: u64, size_bytes: u64) -> io::Result<()> {
        match self {
            Store::Memory(shards) => {
                for (chunk, inside, size) in chunks(offset_bytes, size_bytes) {
                    let mut shard = writing(shards, chunk);
                    if size as u64 == CHUNK_BYTES {
                        shard.remove(&chunk);
                    } else if let Some(held) = shard.get_mut(&chunk) {
                        held[inside..inside + size].fill(0);
                    }
                }
                Ok(())
            }
            Store::File { file, .. } => {
                match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset_bytes, size_bytes)
                {
                    Ok(()) => Ok(()),
                    // The file system does not support holes: write zeros.
                    Err(_) => {
                        let zeros = vec![0; CHUNK_BYTES as usize];
                        let mut at = offset_bytes;
                        for (_, _, size) in chunks(offset_bytes, size_bytes) {
                            file.write_all_at(&zeros[..size], at)?;
                            at += size as u64;
                        }
                        Ok(())
                    }
                }
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
            Store::Memory(shards) => {
                let held = |shard: &RwLock<Chunks>| shard.read().unwrap_or_else(PoisonError::into_inner).len() as u64;
                shards.iter().map(held).sum::<u64>() * CHUNK_BYTES
            }
            Store::File { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_sim::Chance;

    const SIZE: u64 = 5 * CHUNK_BYTES + 77;

    fn agrees_with_a_plain_array(store: &Store) {
        let mut plain = vec![0u8; SIZE as usize];
        let mut chance = Chance::new(9);
        for step in 0..600u32 {
            let offset = chance.below(SIZE);
            let size = (1 + chance.below(3 * CHUNK_BYTES)).min(SIZE - offset);
            let range = offset as usize..(offset + size) as usize;
            match chance.below(3) {
                0 => {
                    let data: Vec<u8> = (0..size).map(|i| (i as u32 ^ step) as u8 | 1).collect();
                    store.write(offset, &data).unwrap();
                    plain[range].copy_from_slice(&data);
                }
                1 => {
                    store.clear(offset, size).unwrap();
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
        let store = Store::new(&Storage::Memory, SIZE).unwrap();
        assert_eq!(store.memory_bytes(), 0);
        agrees_with_a_plain_array(&store);
        store.clear(0, 5 * CHUNK_BYTES).unwrap();
        assert!(store.memory_bytes() <= CHUNK_BYTES, "only the last, partial chunk may stay");
    }

    #[test]
    fn a_file_holds_what_was_written() {
        let path = std::env::temp_dir().join(format!("linnet-nbd-store-{}", std::process::id()));
        let storage = Storage::File { path: path.clone(), durable: true };
        agrees_with_a_plain_array(&Store::new(&storage, SIZE).unwrap());
        let again = Store::new(&storage, SIZE).unwrap();
        again.write(SIZE - 4, b"stay").unwrap();
        again.flush().unwrap();
        assert!(Store::new(&storage, SIZE).is_err(), "a file belongs to one drive at a time");
        drop(again);
        let mut end = [0; 4];
        Store::new(&storage, SIZE).unwrap().read(SIZE - 4, &mut end).unwrap();
        assert_eq!(&end, b"stay");
        std::fs::remove_file(path).unwrap();
        assert!(Store::new(&Storage::File { path: "/".into(), durable: false }, SIZE).is_err());
    }
}
