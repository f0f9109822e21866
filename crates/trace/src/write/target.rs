// SPDX-License-Identifier: MIT OR Apache-2.0
//! An output whose errors name the trace that is written.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use linnet_files::{Links, Output, is_replaced};

use crate::error::Error;

/// The file that a trace is written to.
pub(super) struct Target {
    path: PathBuf,
    output: Output,
}

impl Target {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn create(path: &Path, links: Links) -> Result<Target, Error> {
        let failed = |source| Error::Write { path: path.to_path_buf(), source, kept: true };
        let output = Output::create(path, links).map_err(failed)?;
        Ok(Target { path: path.to_path_buf(), output })
    }

    pub fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source, kept: !self.is_through() }
    }

    /// True if what was written cannot be taken back.
    pub fn is_through(&self) -> bool {
        self.output.is_through()
    }

    /// A second handle on what is written.
    pub fn handle(&self) -> Result<File, Error> {
        self.output.handle().map_err(|e| self.failed(e))
    }

    pub fn commit(self) -> Result<(), Error> {
        let Target { path, output } = self;
        let through = output.is_through();
        output.commit().map_err(|source| Error::Write { path, kept: !through && !is_replaced(&source), source })
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
