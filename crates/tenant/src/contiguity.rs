// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether an I/O continues one of the latest of its operation: where it begins is where that one ended.

/// Most I/Os that are remembered.
pub(crate) const STREAMS_MAX: usize = 32;

/// The ends of the latest I/Os of one operation. Several sequential streams that interleave are found sequential as
/// long as they are fewer than the I/Os that are remembered.
#[derive(Clone, Debug)]
pub(crate) struct Contiguity {
    ends: [u64; STREAMS_MAX],
    devices: [u32; STREAMS_MAX],
    streams: usize,
    latest: usize,
    random: u64,
}

impl Contiguity {
    /// Remembers `streams` I/Os, 1..=[`STREAMS_MAX`].
    pub fn new(streams: usize) -> Contiguity {
        // No I/O begins at the last byte of 2^64 and has a byte, so an unused entry matches nothing.
        Contiguity { ends: [u64::MAX; STREAMS_MAX], devices: [0; STREAMS_MAX], streams, latest: 0, random: 0 }
    }

    fn follows_any(&self, offset: u64, device: u32) -> bool {
        // Without a branch in the loop, so that it is compiled to vectors.
        let mut found = false;
        for (&end, &own) in self.ends.iter().zip(&self.devices) {
            found |= (end == offset) & (own == device);
        }
        found
    }

    /// Notes an I/O, and counts it if it continues none of the latest.
    #[inline]
    pub fn note(&mut self, offset: u64, size: u32, device: u32) {
        let follows_latest = self.ends[self.latest] == offset && self.devices[self.latest] == device;
        self.random += u64::from(!follows_latest && !self.follows_any(offset, device));
        self.latest = if self.latest + 1 >= self.streams { 0 } else { self.latest + 1 };
        self.ends[self.latest] = offset.wrapping_add(u64::from(size));
        self.devices[self.latest] = device;
    }

    /// I/Os so far that continued none of the latest.
    pub fn random(&self) -> u64 {
        self.random
    }
}
