// SPDX-License-Identifier: MIT OR Apache-2.0
//! gzip as `gzip -dc` reads it: one member after the other, as `cat a.gz b.gz` makes them, and zeros behind a member,
//! with which tapes and block devices fill their last block.

use std::io::{BufRead, Error, ErrorKind, Read, Result};

use flate2::bufread::GzDecoder;

/// First byte of a member.
const MAGIC: u8 = 0x1f;

/// The content of all members.
pub(crate) struct Members<R> {
    /// The member that is read; always there between two calls.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    pub fn new(reader: R) -> Members<R> {
        Members { member: Some(GzDecoder::new(reader)) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            let Some(member) = &mut self.member else { return Ok(0) };
            let n = member.read(into)?;
            if n > 0 || into.is_empty() || !find_next(member.get_mut())? {
                return Ok(n);
            }
            self.member = self.member.take().map(|ended| GzDecoder::new(ended.into_inner()));
        }
    }
}

/// Passes over zeros behind a member. True if another member follows, false at the end of the file.
fn find_next(reader: &mut impl BufRead) -> Result<bool> {
    loop {
        let bytes = reader.fill_buf()?;
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        match bytes.get(zeros) {
            None if bytes.is_empty() => return Ok(false),
            None => reader.consume(zeros),
            Some(&MAGIC) => {
                reader.consume(zeros);
                return Ok(true);
            }
            Some(_) => {
                let problem = "bytes that are not gzip follow its data; `gzip -dc` decompresses the file without them";
                return Err(Error::new(ErrorKind::InvalidData, problem));
            }
        }
    }
}
