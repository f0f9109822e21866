// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constants and layouts of the NBD protocol (`doc/proto.md` of the NBD project). All integers are big endian.

pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Longest read or write payload; clients assume this value if they get no other.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Longest export name.
pub const NAME_BYTES_MAX: usize = 4096;
/// Longest option that is parsed; longer ones are skipped and refused.
pub const OPTION_BYTES_MAX: u32 = 16 << 10;
/// Options longer than this end the handshake: no client has a reason to send one.
pub const OPTION_BYTES_ABSURD: u32 = 1 << 20;

/// Handshake flags, both sides: fixed newstyle, no zeroes after NBD_OPT_EXPORT_NAME.
pub const FIXED_NEWSTYLE: u16 = 1;
pub const NO_ZEROES: u16 = 2;

pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = (1 << 31) | 1;
    pub const ERR_INVALID: u32 = (1 << 31) | 3;
    pub const ERR_UNKNOWN: u32 = (1 << 31) | 6;
    pub const ERR_TOO_BIG: u32 = (1 << 31) | 9;
}

pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

pub mod export_flag {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
}

pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

pub mod command_flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
}

pub mod errno {
    pub const EPERM: u32 = 1;
    pub const EIO: u32 = 5;
    pub const EINVAL: u32 = 22;
    pub const ENOSPC: u32 = 28;
}

/// Types of structured replies; the flag means that this is the last chunk.
const CHUNK_DONE: u16 = 1;
const CHUNK_OFFSET_DATA: u16 = 1;
const CHUNK_BLOCK_STATUS: u16 = 5;
const CHUNK_ERROR: u16 = (1 << 15) | 1;

/// The one metadata context: which ranges are stored. Its number is ours to choose.
pub const ALLOCATION: &[u8] = b"base:allocation";
pub const ALLOCATION_ID: u32 = 1;
/// A range that is not stored, and that reads as zeros.
const HOLE_AND_ZERO: u32 = 3;

pub const REQUEST_BYTES: usize = 28;
const SIMPLE_BYTES: usize = 16;
const CHUNK_BYTES: usize = 20;

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub offset_bytes: u64,
    pub size_bytes: u32,
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&from[at..at + N]);
    out
}

pub fn u16_at(from: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes(from, at))
}

pub fn u32_at(from: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes(from, at))
}

pub fn u64_at(from: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes(from, at))
}

impl Head {
    /// Parses a request's head; `None` if its magic is wrong, after which the stream cannot be parsed.
    pub fn parse(from: &[u8; REQUEST_BYTES]) -> Option<Head> {
        (u32_at(from, 0) == REQUEST_MAGIC).then(|| Head {
            flags: u16_at(from, 4),
            command: u16_at(from, 6),
            cookie: u64_at(from, 8),
            offset_bytes: u64_at(from, 16),
            size_bytes: u32_at(from, 24),
        })
    }
}

/// The reply to a command that succeeded and returns no data; the simple form is allowed for these in either mode.
pub fn success(cookie: u64) -> Vec<u8> {
    simple_head(cookie, 0)
}

/// The reply to a command that failed. Reads of a client that asked for structured replies need the structured form.
pub fn failure(structured: bool, cookie: u64, error: u32) -> Vec<u8> {
    if !structured {
        return simple_head(cookie, error);
    }
    // The error number, and an empty message.
    let mut out = chunk_head(CHUNK_ERROR, cookie, 6);
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&0u16.to_be_bytes());
    out
}

/// A read reply with space for its data, and the offset of the data.
pub fn read_reply(structured: bool, cookie: u64, offset_bytes: u64, size_bytes: u32) -> (Vec<u8>, usize) {
    let mut out = if structured {
        let mut out = chunk_head(CHUNK_OFFSET_DATA, cookie, 8 + size_bytes);
        out.extend_from_slice(&offset_bytes.to_be_bytes());
        out
    } else {
        simple_head(cookie, 0)
    };
    let at = out.len();
    out.resize(at + size_bytes as usize, 0);
    (out, at)
}

/// The reply to a request for the state of a range: lengths, and whether each is a hole.
pub fn block_status(cookie: u64, extents: &[(u32, bool)]) -> Vec<u8> {
    let mut out = chunk_head(CHUNK_BLOCK_STATUS, cookie, 4 + 8 * extents.len() as u32);
    out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
    for &(size_bytes, hole) in extents {
        out.extend_from_slice(&size_bytes.to_be_bytes());
        out.extend_from_slice(&(if hole { HOLE_AND_ZERO } else { 0 }).to_be_bytes());
    }
    out
}

fn simple_head(cookie: u64, error: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(SIMPLE_BYTES);
    out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out
}

fn chunk_head(kind: u16, cookie: u64, size_bytes: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(CHUNK_BYTES + 8);
    out.extend_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&CHUNK_DONE.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&size_bytes.to_be_bytes());
    out
}
