// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers of the tests: temporary files, and shorthands for records.

#![allow(dead_code, reason = "each test file uses some of these")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use linnet_trace::{Options, read_all};
use linnet_types::{IoRecord, Op};

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A temporary directory, in memory if possible (the tests write thousands of files). Dropping it removes it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let path = base.join(format!("linnet-trace-test-{}-{serial}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file that is removed with its folder.
pub struct Temporary {
    _folder: Folder,
    path: PathBuf,
}

impl Temporary {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

pub fn temporary(name: &str, bytes: &[u8]) -> Temporary {
    let folder = Folder::new();
    let path = folder.file(&format!("{name}.trace"), bytes);
    Temporary { _folder: folder, path }
}

pub fn io(
    arrive_ns: u64,
    op: Op,
    offset_bytes: u64,
    size_bytes: u32,
    device: u32,
    latency_ns: Option<u64>,
) -> IoRecord {
    IoRecord { latency_ns, device, ..IoRecord::new(arrive_ns, op, offset_bytes, size_bytes) }
}

/// Reads rows in this format. If detection has a result, it must be the same format.
pub fn read(format: &str, rows: &str) -> Vec<IoRecord> {
    let file = temporary(format, rows.as_bytes());
    if let Ok(detected) = linnet_trace::detect(file.path()) {
        assert_eq!(detected.name, format, "detected on:\n{rows}");
    }
    read_all(file.path(), Options::format(format)).unwrap().records
}

/// The error message for rows that are refused.
pub fn refused(format: &str, rows: &str) -> String {
    let file = temporary(format, rows.as_bytes());
    read_all(file.path(), Options::format(format)).unwrap_err().to_string()
}

/// The folder of shared traces; without it, prints that the test is skipped and returns `None`.
pub fn shared_traces() -> Option<PathBuf> {
    let root = std::env::var_os("LINNET_SHARED")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let traces = root.join("traces");
    if traces.is_dir() {
        return Some(traces);
    }
    println!("skipped: {} is not there", traces.display());
    None
}
