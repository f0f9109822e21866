// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing traces. Every writer works on a temporary file beside its target and renames it at the end, so that a full disk or an
//! interruption leaves nothing half-written under the final name.

mod atomic;
mod parquet;
mod text;

pub use parquet::{Metadata, ParquetWriter, write_parquet};
pub use text::{CsvWriter, FioWriter, write_csv, write_fio};
