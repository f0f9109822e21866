// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as files: /sys, /proc, /run and /etc below a root that tests replace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Where the files of the machine are.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    /// A device that bounds its readahead, which a plain file does not.
    #[cfg(test)]
    pub(crate) bound_kib: Option<u32>,
    /// A file that cannot be written.
    #[cfg(test)]
    pub(crate) stuck: Option<&'static str>,
    /// The value of a device that goes away when it is written.
    #[cfg(test)]
    pub(crate) fleeting: Option<&'static str>,
    /// Bytes that the journal and its spare file may have.
    #[cfg(test)]
    pub(crate) room: Option<u64>,
}

impl Default for Host {
    fn default() -> Self {
        Host::below("/")
    }
}

impl Host {
    /// A machine whose files lie below `root`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Host {
            root: root.into(),
            #[cfg(test)]
            bound_kib: None,
            #[cfg(test)]
            stuck: None,
            #[cfg(test)]
            fleeting: None,
            #[cfg(test)]
            room: None,
        }
    }

    /// True for the machine that we run on: processes and descriptors can be reached.
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path of `name`, which begins with a slash.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        let name = name.as_ref();
        self.root.join(name.strip_prefix("/").unwrap_or(name))
    }

    /// The text of a file without the white space at its end.
    pub fn read(&self, name: impl AsRef<Path>) -> Result<String> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
            Err(source) => Err(Error::File { path, doing: "read", source }),
        }
    }

    /// The text of a file, or nothing where it cannot be read.
    pub fn text(&self, name: impl AsRef<Path>) -> Option<String> {
        self.read(name).ok()
    }

    /// The number in a file.
    pub fn number<T: std::str::FromStr>(&self, name: impl AsRef<Path>) -> Result<T> {
        let text = self.read(&name)?;
        text.trim().parse().map_err(|_| Error::Format {
            path: self.path(name),
            what: format!("holds {text:?} where a number is expected"),
        })
    }

    /// Field `field` of /proc/PID/stat, as proc(5) numbers them; from 4 on, which follow the process's name.
    pub fn of_process(&self, process: u32, field: usize) -> Option<u64> {
        let stat = self.text(format!("/proc/{process}/stat"))?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(field.checked_sub(3)?)?.parse().ok()
    }

    /// Writes a file of the kernel's in one call.
    pub fn write(&self, name: impl AsRef<Path>, text: &str) -> Result<()> {
        let path = self.path(&name);
        #[cfg(test)]
        if self.stuck.map(Path::new) == Some(name.as_ref()) {
            return Err(Error::File { path, doing: "write", source: io::ErrorKind::PermissionDenied.into() });
        }
        #[cfg(test)]
        if self.fleeting.map(Path::new) == Some(name.as_ref()) {
            let _ = fs::remove_file(&path);
            return Err(Error::File { path, doing: "write", source: io::ErrorKind::NotFound.into() });
        }
        #[cfg(test)]
        let text = &self.bounded(text);
        fs::write(&path, text).map_err(|source| Error::File { path, doing: "write", source })
    }

    #[cfg(test)]
    fn bounded(&self, text: &str) -> String {
        match (self.bound_kib, text.parse::<u32>()) {
            (Some(bound), Ok(kib)) => kib.min(bound).to_string(),
            _ => text.to_owned(),
        }
    }

    /// Writes a knob's value and gives the one that stands: the kernel rounds values to pages, and some devices bound
    /// them.
    pub fn set(&self, knob: &str, kib: u32) -> Result<u32> {
        self.write(knob, &kib.to_string())?;
        self.number(knob)
    }

    /// The names in a directory, sorted; empty where there is none.
    pub fn names(&self, name: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(name)) else { return Vec::new() };
        let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// True where the file exists.
    pub fn has(&self, name: impl AsRef<Path>) -> bool {
        self.path(name).exists()
    }

    /// What a link leads to, as a path of the machine (not below our root).
    pub fn follow(&self, name: impl AsRef<Path>) -> Option<PathBuf> {
        let whole = fs::canonicalize(self.path(name)).ok()?;
        let root = fs::canonicalize(&self.root).ok()?;
        Some(Path::new("/").join(whole.strip_prefix(root).ok()?))
    }

    /// True where processes have the kernel's own numbers, as BPF and the journal give them: not in another PID namespace
    /// than the machine's, `PROC_PID_INIT_INO`.
    pub(crate) fn numbers_processes(&self) -> bool {
        self.link("/proc/self/ns/pid").is_none_or(|own| own == "pid:[4026531836]")
    }

    /// What a link says, unresolved.
    pub fn link(&self, name: impl AsRef<Path>) -> Option<String> {
        fs::read_link(self.path(name)).ok()?.into_os_string().into_string().ok()
    }

    /// Replaces a file as a whole, with its directory where that is missing: tests make the files of a machine with it.
    pub fn replace(&self, name: impl AsRef<Path>, text: &str) -> Result<()> {
        let path = self.path(name);
        let put = || -> io::Result<()> {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            linnet_files::write(&path, text.as_bytes(), linnet_files::Links::Refuse)
        };
        put().map_err(|source| Error::File { path: path.clone(), doing: "write", source })
    }
}
