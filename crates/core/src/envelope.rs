// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of model file has in common (`spec/model-file.md`): magic number, version, size and checksum, which
//! `core/envelope.c` checks.

use crate::{Error, crc32c, ffi};

const MAGIC: [u8; 8] = [0x89, b'L', b'N', b'T', b'\r', b'\n', 0x1a, b'\n'];
const SIZE: std::ops::Range<usize> = 16..20;

/// The first 20 bytes of a file of this kind, whose size [`seal`] fills in.
pub(crate) fn begin(kind: u16, schema: u16, inputs: u16) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    for number in [ffi::MODEL_VERSION, kind, schema, inputs] {
        file.extend(number.to_le_bytes());
    }
    file.resize(SIZE.end, 0);
    file
}

/// The file with its size and its checksum.
///
/// # Errors
/// [`Error::Unwritable`]: more than 4 GiB.
pub(crate) fn seal(mut file: Vec<u8>) -> Result<Vec<u8>, Error> {
    let size = u32::try_from(file.len() + 4).map_err(|_| Error::Unwritable("the file would exceed 4 GiB".into()))?;
    file[SIZE].copy_from_slice(&size.to_le_bytes());
    file.extend(crc32c(&file).to_le_bytes());
    Ok(file)
}
