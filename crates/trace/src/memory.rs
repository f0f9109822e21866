// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refuses what does not fit in memory before it is allocated: an allocation that fails ends the process.

use std::path::Path;

use linnet_files::{Room, room};

use crate::error::Error;

/// Left to all that asks for no room: the writer of a file, and allocations that are small. Where one of those fails
/// the process ends, so what is large is refused before.
const SPARE_BYTES: u64 = 24 << 20;
/// What takes less asks for no room.
const ASKED_BYTES: u64 = 1 << 20;
/// Least that a file takes while its records stream: its reader, and the buffer that puts them in order.
const STREAM_BYTES: u64 = 16 << 20;
/// Most that all files take that stream at a time: 402 MB of it are for one run of 2^21 records that is sorted.
const STREAMS_BYTES: u64 = 768 << 20;

/// What is left of the room for records that are held, beside a file that is read; `None` where nothing says.
pub fn free() -> Option<Room> {
    room().map(|room| Room { bytes: room.bytes.saturating_sub(SPARE_BYTES + STREAM_BYTES), ..room })
}

/// Refuses work on a file that takes `bytes` bytes at a time, where they do not fit.
pub(crate) fn fits(path: &Path, bytes: u64) -> Result<(), Error> {
    if bytes < ASKED_BYTES { Ok(()) } else { fits_in(room(), path, bytes) }
}

fn fits_in(room: Option<Room>, path: &Path, bytes: u64) -> Result<(), Error> {
    match room {
        Some(room) if room.bytes < bytes.saturating_add(SPARE_BYTES) => {
            Err(Error::Memory { path: path.to_path_buf(), bytes: bytes.saturating_add(SPARE_BYTES), limit: room.limit })
        }
        _ => Ok(()),
    }
}

/// What each of `count` files may take whose records stream at the same time; the first of them is `path`.
pub(crate) fn share(path: &Path, count: usize) -> Result<u64, Error> {
    share_of(room(), path, count as u64)
}

fn share_of(room: Option<Room>, path: &Path, count: u64) -> Result<u64, Error> {
    fits_in(room, path, count.saturating_mul(STREAM_BYTES))?;
    let free = room.map_or(u64::MAX, |room| room.bytes.saturating_sub(SPARE_BYTES));
    Ok((free.min(STREAMS_BYTES) / count.max(1)).max(STREAM_BYTES))
}

/// Elements by which a full buffer of `held` of them grows, up to `most`; refused where there is no room for it.
pub(crate) fn growth<T>(path: &Path, held: usize, most: usize) -> Result<usize, Error> {
    let more = held.max(4096).min(most.saturating_sub(held));
    fits(path, ((held + more) * size_of::<T>()) as u64)?;
    Ok(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_streams_shares_the_room_or_is_refused() {
        let path = Path::new("a.csv");
        let room = |mib: u64| Some(Room { bytes: mib << 20, limit: "the limit" });
        assert_eq!(share_of(None, path, 1).unwrap(), STREAMS_BYTES);
        assert_eq!(share_of(room(9000), path, 4).unwrap(), STREAMS_BYTES / 4);
        assert_eq!(share_of(room(24 + 100), path, 2).unwrap(), 50 << 20);
        assert_eq!(share_of(room(24 + 32), path, 2).unwrap(), STREAM_BYTES);
        // A hundred files: more than the share of all, and the room is there.
        assert_eq!(share_of(room(9000), path, 100).unwrap(), STREAM_BYTES);
        let refused = share_of(room(24 + 31), path, 2).unwrap_err().to_string();
        assert_eq!(refused, "a.csv: 58720256 bytes of memory are needed for it, more than fit the limit");
        assert!(fits_in(room(24), path, 1).is_err());
        assert!(fits_in(room(25), path, 1 << 20).is_ok());
    }

    #[test]
    fn a_buffer_doubles_up_to_its_most() {
        let path = Path::new("a.csv");
        for (held, most, more) in [(0, 10, 10), (0, 1 << 20, 4096), (8192, 1 << 20, 8192), (8192, 9000, 808)] {
            assert_eq!(growth::<u64>(path, held, most).unwrap(), more);
        }
        assert!(growth::<u64>(path, 1 << 50, 1 << 60).is_err());
    }
}
