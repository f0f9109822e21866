// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a file atomically: it appears under its name when it is complete, or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;

/// Distinguishes files that one process writes at the same time.
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// The temporary file; removed if it is dropped before [`AtomicFile::commit`].
pub(super) struct AtomicFile {
    target: PathBuf,
    temporary: PathBuf,
    file: Option<File>,
}

impl AtomicFile {
    pub fn create(target: &Path) -> Result<AtomicFile, Error> {
        let failed = |source| Error::Write { path: target.to_path_buf(), source };
        if target.is_dir() {
            return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, "a directory stands there")));
        }
        let name =
            target.file_name().ok_or_else(|| failed(io::Error::new(io::ErrorKind::InvalidInput, "no file name")))?;
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}-{serial}.partial", std::process::id()));
        let temporary = target.with_file_name(temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(failed)?;
        Ok(AtomicFile { target: target.to_path_buf(), temporary, file: Some(file) })
    }

    pub fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.target.clone(), source }
    }

    /// A second handle on the temporary file.
    pub fn handle(&self) -> Result<File, Error> {
        self.file.as_ref().expect("open until commit").try_clone().map_err(|e| self.failed(e))
    }

    /// Syncs the file to disk, then renames it.
    pub fn commit(mut self) -> Result<(), Error> {
        let file = self.file.take().expect("open until commit");
        let done = file.sync_all().and_then(|()| std::fs::rename(&self.temporary, &self.target));
        if done.is_err() {
            self.file = Some(file);
        }
        done.map_err(|e| self.failed(e))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // If this fails, nothing can be done; the name shows that the file is partial.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().expect("open until commit").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().expect("open until commit").flush()
    }
}
