// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes traces, through `linnet-files`: a full disk or an interruption leaves no partial file under the final name.

mod any;
mod parquet;
mod readable;
mod target;
mod text;

pub use any::AnyWriter;
pub use parquet::{Metadata, ParquetWriter, write_parquet};
pub use text::{CsvWriter, FioWriter, write_csv, write_fio};
