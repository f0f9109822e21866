// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stated part of a trace that does not fit: blocks of consecutive records, evenly over all of it.
//!
//! Blocks, not single records, because features of an I/O are about those before it. Of every 2^k blocks the first is
//! taken, with the least k for which no more than the limit is taken; so the part depends on nothing but the trace.

use std::path::Path;

use linnet_types::IoRecord;

use crate::error::Error;
use crate::order::{By, Ordered, through};
use crate::read::{Options, Trace};

/// Consecutive records of a block.
pub const BLOCK_RECORDS: u64 = 8192;

/// A part of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The records that were taken, at their own times; the first of the trace is at 0.
    pub trace: Trace,
    /// Records in all.
    pub total: u64,
    /// Of how many blocks one was taken; 1 if the trace is whole.
    pub every: u64,
}

/// Reads at most `most` records of a trace, at least one block. `options` makes the options of a reading; a trace that
/// is out of order is begun again, and one that is far out of order is sorted in the directory for temporary files.
///
/// # Errors
/// Those of [`crate::open`], [`Error::Empty`], or [`Error::TooMany`] where even a sample of `most` does not fit.
pub fn read_sample(path: &Path, options: &mut dyn FnMut() -> Options, most: u64) -> Result<Sampled, Error> {
    through(path, &mut |by| sample(path, options(), by, most))
}

fn sample(path: &Path, options: Options, by: By<'_>, most: u64) -> Result<Sampled, Error> {
    let most = most.max(BLOCK_RECORDS);
    let (fit, limit) = options.records_max.unwrap_or((u64::MAX, "64 bits"));
    let mut stream = Ordered::open(path, options, by)?;
    let mut records: Vec<IoRecord> = Vec::new();
    let (mut total, mut every, mut origin_ns) = (0, 1, 0);
    for record in stream.by_ref() {
        let mut record = record?;
        if total == 0 {
            origin_ns = record.arrive_ns;
        }
        record.arrive_ns -= origin_ns;
        if (total / BLOCK_RECORDS).is_multiple_of(every) {
            if records.len() as u64 >= most {
                every *= 2;
                let mut place = 0;
                records.retain(|_| {
                    place += 1;
                    ((place - 1) / BLOCK_RECORDS).is_multiple_of(2)
                });
            }
            if (total / BLOCK_RECORDS).is_multiple_of(every) {
                if records.len() as u64 >= fit {
                    return Err(Error::TooMany { path: path.to_path_buf(), most: fit, limit });
                }
                records.push(record);
            }
        }
        total += 1;
    }
    let about = stream.about();
    if records.is_empty() {
        return Err(about.empty(path));
    }
    let trace = Trace {
        records,
        source: path.to_path_buf(),
        format: about.format,
        skipped: about.skipped,
        reordered: 0,
        origin_ns,
        clock: about.clock,
        warnings: about.warnings,
    };
    Ok(Sampled { trace, total, every })
}
