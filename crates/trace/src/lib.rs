// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block trace readers, writers, statistics, re-rating and synthetic workloads.
//!
//! A trace becomes a sequence of [`linnet_types::IoRecord`], as `spec/trace-record.md` defines it:
//!
//! * [`read_all`] reads a file of any known format into a sorted [`Trace`]; [`open`] streams it in bounded memory;
//!   [`FORMATS`] is the table of formats, and [`detect`] detects the format of a file;
//! * [`ParquetWriter`], [`CsvWriter`] and [`FioWriter`] write;
//! * [`convert()`] goes from file to file in flat memory, [`fold`] takes the records of a file by arrival, and
//!   [`read_sample`] reads a stated part of a trace;
//! * [`TraceStats`] has the columns of LinnOS, Table 1; [`stat_file`] computes them in flat memory;
//! * [`rerate`], [`rerate_to_target`], [`scale_sizes`] and [`slice_by_time`] change a workload, [`merge`] combines
//!   several;
//! * [`synth()`] generates the eight workloads of Table 1.

mod convert;
mod error;
mod format;
mod formats;
mod gzip;
mod input;
mod memory;
mod merge;
mod numbers;
mod order;
mod read;
mod rerate;
mod sample;
mod spill;
mod stat;
mod streamed;
pub mod synth;
mod teller;
mod text;
mod write;

pub use convert::{Change, Converted, TENANTS_COUNTED_MAX, convert};
pub use error::{At, Error};
pub use format::{Clock, FORMATS, Format, detect, format_named};
pub use memory::free;
pub use merge::{MergedTenants, merge};
pub use order::{About, fold};
pub use read::{
    LATENCY_MAX_NS, Options, Progress, Records, SPAN_MAX_NS, TenantFrom, Trace, open, open_files, read_all, read_files,
};
pub use rerate::{
    Baseline, LatencyTarget, Rerated, latency_distance, rerate, rerate_origin, rerate_to_target, scale_sizes,
    slice_by_time,
};
pub use sample::{BLOCK_RECORDS, Sampled, read_sample};
pub use stat::{LatencyUs, TraceStats, devices};
pub use streamed::{FileStats, stat_file};
pub use synth::synth;
pub use write::{AnyWriter, CsvWriter, FioWriter, Metadata, ParquetWriter, write_csv, write_fio, write_parquet};
