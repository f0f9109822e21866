// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every writer refuses: records that no reader would take.

use linnet_types::IoRecord;

use crate::error::Error;
use crate::read::{LATENCY_MAX_NS, Span};

/// Checks the records of one file, one after the other.
#[derive(Default)]
pub(super) struct Readable {
    span: Span,
}

impl Readable {
    /// Takes the next record.
    ///
    /// # Errors
    /// [`Error::Argument`] with the field that the readers would refuse.
    pub fn take(&mut self, record: &IoRecord) -> Result<(), Error> {
        let refused = |name, value: u64, problem| Err(Error::Argument { name, value: value.to_string(), problem });
        if record.offset_bytes > i64::MAX as u64 - u64::from(record.size_bytes) {
            return refused("offset_bytes", record.offset_bytes, "lies beyond 8 EiB, and would not be read again");
        }
        if record.size_bytes == 0 {
            return refused("size_bytes", 0, "an I/O has at least one byte");
        }
        if let Some(latency_ns) = record.latency_ns.filter(|&ns| ns > LATENCY_MAX_NS) {
            return refused("latency_ns", latency_ns, "is beyond 2^63 - 1, and would not be read again");
        }
        if !self.span.take(record.arrive_ns) {
            let problem = "lies more than 400 days from another record, and would not be read again";
            return refused("arrive_ns", record.arrive_ns, problem);
        }
        Ok(())
    }
}
