// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests what other programs make of compressed files: padding, and frames for much memory.

use std::io::Write as _;

use linnet_trace::{Options, Trace, read_all};

use crate::common::temporary;

const ROWS: &[u8] = b"0,R,0,4096,1\n0,W,512,4096,2\n";

fn attempt(bytes: &[u8]) -> Result<Trace, String> {
    let file = temporary("compressed", bytes);
    read_all(file.path(), Options::default()).map_err(|error| error.to_string())
}

fn gzip(rows: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(rows).unwrap();
    gz.finish().unwrap()
}

/// Tapes and block devices pad a file to whole blocks; `gzip -dc` reads it as it was.
#[test]
fn zeros_behind_a_gzip_member_are_padding() {
    let gz = gzip(ROWS);
    // More than any buffer holds, too.
    for zeros in [1, 511, 1 << 20] {
        let padded = [&gz[..], &vec![0; zeros]].concat();
        assert_eq!(attempt(&padded).unwrap().records.len(), 2, "{zeros} zeros");
        assert_eq!(attempt(&padded.repeat(2)).unwrap().records.len(), 4, "{zeros} zeros");
    }
    for other in [&b"\x00garbage"[..], b"garbage", b"\x1fgarbage of some length"] {
        let refused = attempt(&[&gz[..], other].concat()).unwrap_err();
        assert!(refused.contains("byte 28: cannot read on") && refused.contains("gzip"), "{refused}");
    }
    // A member that begins and does not end.
    assert!(attempt(&[&gz[..], &[0; 512], &gz[..9]].concat()).unwrap_err().contains("cut off"));
}

#[test]
fn a_record_of_a_damaged_file_is_not_blamed() {
    let rows = ROWS.repeat(20_000);
    let whole = gzip(&rows);
    // Wrong content that decompresses: a member of other rows, with the checksum of these.
    let mut damaged = gzip(&[&rows[..280_000], b"0,R,0,,1\n", &rows[280_000..]].concat());
    let end = damaged.len();
    damaged[end - 8..].copy_from_slice(&whole[whole.len() - 8..]);
    let refused = attempt(&damaged).unwrap_err();
    assert!(refused.contains("the compressed file is damaged") && refused.contains("checksum"), "{refused}");
    let sound = gzip(&[&rows[..280_000], b"0,R,0,,1\n"].concat());
    assert!(attempt(&sound).unwrap_err().contains("line 20001: field"), "{:?}", attempt(&sound));
    // Of one that is cut off, what is there is right.
    assert!(attempt(&sound[..sound.len() - 4]).unwrap_err().contains("line 20001: field"));
}

/// A frame that holds rows as they are, and says that it refers to 2^`window_log` bytes before.
fn frame(rows: &[u8], window_log: u8) -> Vec<u8> {
    let block = (rows.len() as u32) << 3 | 1;
    let head = [0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3];
    [&head[..], &block.to_le_bytes()[..3], rows].concat()
}

#[test]
fn a_zstd_frame_that_needs_much_memory_is_refused_with_what_to_do() {
    assert_eq!(attempt(&frame(ROWS, 27)).unwrap().records.len(), 2);
    for window_log in [28, 31] {
        let refused = attempt(&frame(ROWS, window_log)).unwrap_err();
        assert!(refused.contains("128 MiB") && refused.contains("zstd -dc --long=31"), "{refused}");
    }
}
