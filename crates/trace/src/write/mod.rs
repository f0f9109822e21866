// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes traces. Every writer uses a temporary file in the same directory and renames it at the end, so that a full
//! disk or an interruption leaves no partial file under the final name.

mod atomic;
mod parquet;
mod text;

pub use parquet::{Metadata, ParquetWriter, write_parquet};
pub use text::{CsvWriter, FioWriter, write_csv, write_fio};
