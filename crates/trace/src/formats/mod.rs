// SPDX-License-Identifier: MIT OR Apache-2.0
//! One small reader per format.

pub(crate) mod alibaba;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub(crate) mod canonical;
pub(crate) mod cloudphysics;
mod columns;
pub(crate) mod fio;
pub(crate) mod flashnet;
pub(crate) mod ftrace;
pub(crate) mod msr;
mod pages;
mod pairing;
pub(crate) mod replay;
pub(crate) mod spc;
pub(crate) mod systor;
pub(crate) mod tencent;
pub(crate) mod vscsi;
pub(crate) mod workload;

use crate::error::Bad;
use crate::format::{Fit, Head};

/// How many lines at the beginning of a file detection looks at.
const EVIDENCE_LINES: usize = 2000;

/// Whether there are data lines (after the first `skip` lines) and all or most of them satisfy `holds`.
fn all_lines(head: &Head, skip: usize, holds: impl Fn(&[u8]) -> bool) -> Fit {
    let lines = head.some(skip, EVIDENCE_LINES);
    share(lines.iter().filter(|l| holds(l)).count(), lines.len())
}

/// How well lines match a format that so many of them fit.
fn share(fitting: usize, lines: usize) -> Fit {
    match fitting {
        0 => Fit::No,
        all if all == lines => Fit::Yes,
        most if 2 * most >= lines => Fit::Mostly,
        _ => Fit::No,
    }
}

/// The comma-separated fields of a line, trimmed.
fn commas(line: &[u8]) -> Vec<&[u8]> {
    line.split(|&b| b == b',').map(<[u8]>::trim_ascii).collect()
}

/// True for `R`, `W`, `read`, `Write`, ...
fn is_op_word(text: &[u8]) -> bool {
    ["r", "w", "read", "write"].iter().any(|w| text.eq_ignore_ascii_case(w.as_bytes()))
}

/// Names of a trace, which are numbered in order of appearance.
#[derive(Default)]
struct Names(std::collections::HashMap<Vec<u8>, u32>);

impl Names {
    /// How many different names a trace may have.
    const MOST: usize = 65_536;

    fn number(&mut self, field: &'static str, name: &[u8]) -> Result<u32, Bad> {
        if let Some(&number) = self.0.get(name) {
            return Ok(number);
        }
        if self.0.len() >= Self::MOST {
            return Err(Bad::new(field, name, "is one name too many (65,536 are read)"));
        }
        let number = self.0.len() as u32;
        self.0.insert(name.to_vec(), number);
        Ok(number)
    }
}

/// Opens a text format that has one file.
macro_rules! text_source {
    ($name:expr, $lines:expr) => {
        |opening| {
            let (input, lenient) = opening.single()?;
            Ok(Box::new(crate::text::TextSource::new(input, $name, lenient, $lines)))
        }
    };
}
use text_source;
