// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the page headers of a Parquet column before the library reads its pages.
//!
//! The library allocates what a header states: the size of a page without compression, the entries of a dictionary, the
//! length of a statistic. A file of a kilobyte can state gigabytes, and an allocation that fails ends the process. So
//! the headers are read here first, from the file and with fixed memory, and each number is bounded by the bytes that
//! are there or by a limit that the error names. A header is a struct in Thrift's compact protocol.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Largest page without compression. Writers aim at 1 MiB, or at one page for a row group of about a million values.
pub(crate) const PAGE_BYTES_MAX: u64 = 32 << 20;
/// Longest page header; the longest parts are the two bounds of a statistic, 8 bytes each for integers.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// What is read of a header first.
const HEADER_BYTES_USUAL: usize = 256;
/// Deepest nesting of structs in a header; the format has two levels.
const DEPTH_MAX: u32 = 8;

/// Numbers of `PageType`.
mod kind {
    pub const DATA: i64 = 0;
    pub const INDEX: i64 = 1;
    pub const DICTIONARY: i64 = 2;
    pub const DATA_V2: i64 = 3;
}

/// What a header states; absent fields are negative.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    kind: i64,
    plain_bytes: i64,
    stored_bytes: i64,
    values: i64,
    /// Length of the header itself.
    length: usize,
}

/// Why a header was not read.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    /// It goes on behind the bytes that were given.
    Short,
    /// It is no header.
    Damaged,
}

/// Bytes of the compact protocol.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, Wrong> {
        let byte = *self.bytes.get(self.at).ok_or(Wrong::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, count: u64) -> Result<(), Wrong> {
        let left = (self.bytes.len() - self.at) as u64;
        if count > HEADER_BYTES_MAX as u64 {
            return Err(Wrong::Damaged);
        }
        if count > left {
            return Err(Wrong::Short);
        }
        self.at += count as usize;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Wrong> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Wrong::Damaged)
    }

    fn number(&mut self) -> Result<i64, Wrong> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Calls with the type and the number of each field of a struct; `take` reads the field's value.
    fn fields(&mut self, mut take: impl FnMut(&mut Self, u8, i64) -> Result<(), Wrong>) -> Result<(), Wrong> {
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            id = if head >> 4 == 0 { self.number()? } else { id.wrapping_add(i64::from(head >> 4)) };
            take(self, head & 0x0f, id)?;
        }
    }

    /// Passes over a value of this type.
    fn pass(&mut self, kind: u8, depth: u32) -> Result<(), Wrong> {
        if depth > DEPTH_MAX {
            return Err(Wrong::Damaged);
        }
        match kind {
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                // Each element has a byte or more, so a count beyond the bytes ends there.
                (0..count).try_for_each(|_| match head & 0x0f {
                    1 | 2 => self.byte().map(drop),
                    kind => self.pass(kind, depth + 1),
                })
            }
            12 => self.fields(|reader, kind, _| reader.pass(kind, depth + 1)),
            _ => Err(Wrong::Damaged),
        }
    }
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, Wrong> {
        let mut header = Header { kind: -1, plain_bytes: -1, stored_bytes: -1, values: -1, length: 0 };
        let mut reader = Reader { bytes, at: 0 };
        reader.fields(|reader, kind, id| {
            match (id, kind) {
                (1, 5) => header.kind = reader.number()?,
                (2, 5) => header.plain_bytes = reader.number()?,
                (3, 5) => header.stored_bytes = reader.number()?,
                // The headers of data pages, dictionaries and data pages of version 2: each begins with the values.
                (5 | 7 | 8, 12) => reader.fields(|reader, kind, id| {
                    if (id, kind) == (1, 5) {
                        header.values = reader.number()?;
                        return Ok(());
                    }
                    reader.pass(kind, 2)
                })?,
                _ => reader.pass(kind, 1)?,
            }
            Ok(())
        })?;
        header.length = reader.at;
        Ok(header)
    }

    /// Reads the header at this offset; `left` bytes of the column begin there.
    fn read(file: &File, at: u64, left: u64) -> Result<Header, String> {
        for length in [HEADER_BYTES_USUAL, HEADER_BYTES_MAX] {
            let mut bytes = vec![0; length.min(usize::try_from(left).unwrap_or(usize::MAX))];
            file.read_exact_at(&mut bytes, at).map_err(|error: io::Error| error.to_string())?;
            match Header::parse(&bytes) {
                Ok(header) => return Ok(header),
                Err(Wrong::Damaged) => return Err("a damaged page header".into()),
                Err(Wrong::Short) => {}
            }
        }
        Err(format!("a page header of more than {HEADER_BYTES_MAX} bytes, which is the limit, or one that is cut off"))
    }
}

/// Checks the pages of one column of a row group: `bytes` bytes from `start`, `rows` values of `width` bytes each.
///
/// Returns the bytes of its largest page, as stored and without compression.
///
/// # Errors
/// What is wrong, in words that follow the column's name.
pub(crate) fn check(file: &File, start: u64, bytes: u64, rows: u64, width: u64) -> Result<u64, String> {
    let (mut at, end) = (start, start + bytes);
    let (mut values, mut largest) = (0u64, 0);
    let mut first = true;
    while at < end && values < rows {
        let header = Header::read(file, at, end - at)?;
        let wrong = |what: String| format!("page at byte {at}: {what}");
        let whole = |value: i64, name: &str| u64::try_from(value).map_err(|_| wrong(format!("no {name}")));
        let stored = whole(header.stored_bytes, "size")?;
        let plain = whole(header.plain_bytes, "size without compression")?;
        let room = end - at - header.length as u64;
        if stored > room {
            return Err(wrong(format!("{stored} bytes where the column has {room} left")));
        }
        if plain > PAGE_BYTES_MAX {
            return Err(wrong(format!("{plain} bytes without compression; the limit is {PAGE_BYTES_MAX}")));
        }
        largest = largest.max(stored + plain);
        match header.kind {
            kind::DICTIONARY => {
                let entries = whole(header.values, "number of values")?;
                if entries.saturating_mul(width) > plain {
                    return Err(wrong(format!("a dictionary of {entries} values in {plain} bytes")));
                }
                if !first {
                    return Err(wrong("a dictionary behind other pages".into()));
                }
            }
            kind::DATA | kind::DATA_V2 => {
                values = values.saturating_add(whole(header.values, "number of values")?);
                if values > rows {
                    return Err(wrong(format!("{values} values where the row group has {rows}")));
                }
            }
            kind::INDEX => {}
            other => return Err(wrong(format!("pages of type {other} are not known"))),
        }
        first = false;
        at += header.length as u64 + stored;
    }
    if values < rows {
        return Err(format!("ends after {values} of {rows} rows"));
    }
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    fn number(value: i64) -> Vec<u8> {
        varint(((value << 1) ^ (value >> 63)) as u64)
    }

    /// A header with its page of zeros behind it; `part` is the field of the page's own header.
    fn page(kind: i64, plain: i64, stored: i64, part: u8, values: i64) -> Vec<u8> {
        let mut out = vec![0x15];
        out.extend(number(kind));
        out.push(0x15);
        out.extend(number(plain));
        out.push(0x15);
        out.extend(number(stored));
        out.push(((part - 3) << 4) | 12);
        out.push(0x15);
        out.extend(number(values));
        // An encoding, then statistics: a struct with a binary, a list and a nested struct.
        out.extend([0x15, 0x00, 0x3c, 0x18, 0x02, 7, 7, 0x19, 0x25, 2, 4, 0x1c, 0x11, 0x00, 0x00, 0x00, 0x00]);
        out.resize(out.len() + stored.clamp(0, 1000) as usize, 0);
        out
    }

    fn checked(bytes: &[u8], rows: u64) -> Result<u64, String> {
        let path = std::env::temp_dir().join(format!("linnet-pages-{}-{rows}-{}", std::process::id(), bytes.len()));
        std::fs::write(&path, bytes).unwrap();
        let found = check(&File::open(&path).unwrap(), 0, bytes.len() as u64, rows, 8);
        std::fs::remove_file(path).unwrap();
        found
    }

    #[test]
    fn what_a_writer_makes_passes() {
        let pages = [page(2, 80, 50, 7, 10), page(0, 800, 60, 5, 100), page(3, 800, 60, 8, 28)].concat();
        assert_eq!(checked(&pages, 128), Ok(860));
    }

    #[test]
    fn counts_are_bounded_by_what_is_there() {
        let dictionary = |plain, entries| page(2, plain, 50, 7, entries);
        let refused = |bytes: &[u8], text: &str| {
            let found = checked(bytes, 100).unwrap_err();
            assert!(found.contains(text), "{found}");
        };
        refused(&dictionary(80, 11), "a dictionary of 11 values in 80 bytes");
        refused(&dictionary(80, i64::from(i32::MAX)), "a dictionary of 2147483647");
        refused(&dictionary(80, -1), "no number of values");
        refused(&dictionary(1 << 31, 1), "the limit is 33554432");
        refused(&page(0, -5, 50, 5, 100), "no size without compression");
        refused(&page(0, 800, 1 << 40, 5, 100), "left");
        refused(&page(0, 800, 60, 5, 101), "101 values where the row group has 100");
        refused(&page(0, 800, 60, 5, 99), "ends after 99 of 100");
        refused(&page(9, 800, 60, 5, 99), "type 9");
        refused(&[page(0, 8, 60, 5, 1), dictionary(80, 10)].concat(), "behind other pages");
    }

    #[test]
    fn a_header_cannot_claim_more_than_it_has() {
        // A binary of 2^62 bytes, a list of 2^60 structs, nesting without end, bytes without end.
        let mut binary = vec![0x18];
        binary.extend(varint(1 << 62));
        let mut list = vec![0x19, 0xfc];
        list.extend(varint(1 << 60));
        for bytes in [binary, list, vec![0x1c; 100], vec![0x1c; 40_000], vec![0x16; 40_000], vec![0xff; 40_000]] {
            assert!(checked(&bytes, 1).is_err());
        }
    }
}
