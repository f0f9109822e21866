// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buffer of bytes that were received and not parsed yet.

/// Enough for many small requests at a time.
pub const USUAL_BYTES: usize = 128 << 10;

/// A buffer of the usual size. For a longer request it grows to the length of that request, and shrinks after it.
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

    /// Bytes by which the buffer must grow before it can receive more, if the first request has this length; 0 while
    /// there is space. So a length that is announced costs nothing until the usual buffer is full.
    pub fn growth(&self, request_bytes: usize) -> usize {
        let full = self.start == 0 && self.end == self.bytes.len();
        if full { request_bytes.saturating_sub(self.bytes.len()) } else { 0 }
    }

    /// Adds this much space. The system gives zeroed memory of this size page by page when it is written to, so it is
    /// in use as far as data has arrived.
    pub fn grow(&mut self, count: usize) {
        let mut longer = vec![0; self.bytes.len() + count];
        longer[..self.end].copy_from_slice(&self.bytes[..self.end]);
        self.bytes = longer;
    }

    /// Free space for receiving. It is empty only if the buffer is full and must grow first.
    pub fn space(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
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
        let mut grown = 0;
        for _ in 0..1500 {
            let growth = input.growth(1 + chance.below(1_000_000) as usize);
            if growth > 0 {
                input.grow(growth);
                grown += 1;
            }
            let room = input.space();
            let count = (chance.below(300_000) as usize).min(room.len());
            for slot in &mut room[..count] {
                *slot = (put % 251) as u8;
                put += 1;
            }
            input.received(count);
            let most = if chance.happens(0.3) { 0 } else { input.filled().len() as u64 };
            let take = chance.below(1 + most) as usize;
            assert!(input.filled()[..take].iter().zip(taken..).all(|(&b, i)| b == (i % 251) as u8));
            input.consume(take);
            taken += take as u64;
        }
        assert_eq!(input.filled().len() as u64, put - taken);
        assert!(grown > 0);
        input.consume(input.filled().len());
        assert_eq!(input.bytes.len(), USUAL_BYTES, "what a long request took is given back");
    }

    #[test]
    fn a_full_buffer_grows_to_the_request_and_no_further() {
        let mut input = Input::new();
        assert_eq!(input.growth(1 << 20), 0, "there is space");
        let space = input.space().len();
        input.received(space);
        assert_eq!(input.growth(1 << 20), (1 << 20) - USUAL_BYTES);
        input.grow(input.growth(1 << 20));
        assert_eq!(input.space().len(), (1 << 20) - USUAL_BYTES);
        assert_eq!(input.growth(1 << 20), 0);
    }
}
