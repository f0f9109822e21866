// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and files as the text of a vector.

use crate::common::{forged, lines};

pub fn hex(number: i128) -> String {
    if number < 0 { format!("-{:x}", number.unsigned_abs()) } else { format!("{number:x}") }
}

pub fn unhex(text: &str) -> i128 {
    match text.strip_prefix('-') {
        Some(text) => -i128::from_str_radix(text, 16).unwrap(),
        None => i128::from_str_radix(text, 16).unwrap(),
    }
}

pub fn row<N: Copy + Into<i128>>(numbers: &[N]) -> String {
    numbers.iter().map(|&n| hex(n.into())).collect::<Vec<_>>().join(" ")
}

pub fn digits_text(digits: &[u8]) -> String {
    digits.iter().map(|d| char::from(b'0' + d)).collect()
}

pub fn hex_lines(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    bytes.chunks(32).map(|bytes| line(bytes) + "\n").collect()
}

pub fn bytes_of(text: &str) -> Vec<u8> {
    lines(text)
        .filter(|line| line.len() == 1)
        .flat_map(|line| {
            (0..line[0].len() / 2)
                .map(|i| u8::from_str_radix(&line[0][2 * i..2 * i + 2], 16).unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A file of version 2 with a network only, in the form of version 1.
pub fn as_version_1(bytes: &[u8]) -> Vec<u8> {
    forged(&forged(bytes, 8, &[1]), 76, &[0])
}
