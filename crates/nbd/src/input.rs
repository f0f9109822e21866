// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buffer of bytes that were received and not parsed yet.

use crate::wire::{PAYLOAD_BYTES_MAX, REQUEST_BYTES};

/// Enough for many small requests at a time.
pub const USUAL_BYTES: usize = 128 << 10;
/// The longest request.
const MOST_BYTES: usize = REQUEST_BYTES + PAYLOAD_BYTES_MAX as usize;

/// A buffer that grows with the data that arrives, never with the length that a client announces.
#[derive(Debug)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub fn new() -> Input {
        Input { bytes: vec![0; USUAL_BYTES], start: 0, end: 0 }
    }

    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Removes the first bytes.
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > USUAL_BYTES {
                self.bytes = vec![0; USUAL_BYTES];
            }
        }
    }

    /// Bytes that the buffer has beyond its usual size.
    pub fn extra_bytes(&self) -> usize {
        self.bytes.len() - USUAL_BYTES
    }

    /// Bytes that the next [`Input::space`] would add.
    pub fn growth(&self) -> usize {
        let full = self.end == self.bytes.len() && self.start == 0 && self.bytes.len() < MOST_BYTES;
        if full { (2 * self.bytes.len()).min(MOST_BYTES) - self.bytes.len() } else { 0 }
    }

    /// Free space for receiving. It is empty only if the buffer holds a request of the maximum length.
    pub fn space(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else if self.bytes.len() < MOST_BYTES {
                self.bytes.resize((2 * self.bytes.len()).min(MOST_BYTES), 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// Records that this much of [`Input::space`] was filled.
    pub fn received(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut chance = linnet_sim::Chance::new(3);
        let mut input = Input::new();
        let (mut put, mut taken) = (0u64, 0u64);
        for _ in 0..4000 {
            let room = input.space();
            let count = (chance.below(300_000) as usize).min(room.len());
            for slot in &mut room[..count] {
                *slot = (put % 251) as u8;
                put += 1;
            }
            input.received(count);
            let take = chance.below(1 + input.filled().len() as u64) as usize;
            assert!(input.filled()[..take].iter().zip(taken..).all(|(&b, i)| b == (i % 251) as u8));
            input.consume(take);
            taken += take as u64;
        }
        assert_eq!(input.filled().len() as u64, put - taken);
        input.consume(input.filled().len());
        assert_eq!(input.bytes.len(), USUAL_BYTES, "what a long request took is given back");
    }
}
