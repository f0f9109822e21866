// SPDX-License-Identifier: MIT OR Apache-2.0
//! How every command writes a file that the user names, and reads one whole.
//!
//! A regular file is written under no name in the target's directory (`O_TMPFILE`), synced, and put in the target's
//! place by a rename; then the directory is synced. A reader of the target sees the old bytes or the new ones. A
//! process that is killed leaves nothing: a file without a name goes with it. File systems without `O_TMPFILE` get a
//! temporary name, opened exclusively and removed when the writer is dropped.
//!
//! A file that was there keeps its mode, and its owner as far as we may set it. A symbolic link stays, and the file
//! that it leads to is replaced. Pipes and character devices are written through. Block devices, sockets and
//! directories are refused. `-` is standard output.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

mod room;

pub use room::{Room, room, room_for_files};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, XattrFlags};

/// The name that stands for standard output.
pub const STANDARD: &str = "-";
/// Symbolic links from one name to the next that are followed, as many as the kernel follows.
const LINKS_MAX: usize = 40;
/// Names that stand for an open file of this process: its bytes go where the file is at, whatever it is.
const OPEN_FILES: [&str; 5] = ["/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/self/fd/", "/proc/thread-self/fd/"];
/// Temporary names that are tried before the directory is given up.
const NAMES_MAX: u32 = 100;

/// Bytes that are read first, at least and at most; from the second on the room for them is asked for.
const READ_BYTES: (u64, u64) = (1 << 16, 1 << 22);
/// Memory that is left where a file is read.
const READ_SPARE: u64 = 16 << 20;

/// Distinguishes files that one process writes at the same time.
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// What happens to a symbolic link at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// The file that it leads to is replaced.
    Follow,
    /// It is refused, and so is everything else but a regular file: for root in another user's directory.
    Refuse,
}

/// A file that is being written. Dropped before [`Output::commit`], it leaves the target as it was.
#[derive(Debug)]
pub struct Output {
    file: File,
    place: Option<Place>,
}

/// Where a regular file goes.
#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// The temporary name; `None` for a file without one.
    temporary: Option<OsString>,
    /// The file that is replaced, and its access control list.
    before: Option<Stat>,
    acl: Option<Vec<u8>>,
}

impl Output {
    /// Starts to write.
    ///
    /// # Errors
    /// If the target cannot be written, or should not be: a block device, a socket, a directory.
    pub fn create(target: &Path, links: Links) -> io::Result<Output> {
        if target.as_os_str() == STANDARD {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Output { file, place: None });
        }
        let target = if links == Links::Follow { resolved(target)? } else { target.to_path_buf() };
        if is_open_file(&target) {
            return through(&target);
        }
        let name = target.file_name().ok_or_else(|| refused(io::ErrorKind::InvalidInput, "no file name"))?.to_owned();
        let before = match rustix::fs::statat(CWD, &target, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => Some(about),
            Err(rustix::io::Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let mut acl = None;
        if let Some(about) = &before {
            match FileType::from_raw_mode(about.st_mode) {
                // A file that may not be written is not replaced either, whatever the directory allows.
                FileType::RegularFile => {
                    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    acl = access_list(&rustix::fs::open(&target, flags, Mode::empty())?);
                }
                FileType::Fifo | FileType::CharacterDevice if links == Links::Follow => return through(&target),
                FileType::Directory => {
                    return Err(refused(io::ErrorKind::IsADirectory, "a directory stands there"));
                }
                FileType::BlockDevice => {
                    let text = "a block device stands there; write a file and copy it, if that is what you want";
                    return Err(refused(io::ErrorKind::InvalidInput, text));
                }
                FileType::Symlink => {
                    return Err(refused(io::ErrorKind::InvalidInput, "a symbolic link stands there; remove it"));
                }
                _ => return Err(refused(io::ErrorKind::InvalidInput, "not a regular file; remove it")),
            }
        }
        let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = rustix::fs::open(parent, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        // What replaces a private file is private from its first byte.
        let mode = if before.is_some() { Mode::from_raw_mode(0o600) } else { Mode::from_raw_mode(0o666) };
        let (file, temporary) = match unnamed(&directory, mode) {
            Some(file) => (file, None),
            None => {
                let (file, name) = named(&directory, mode)?;
                (file, Some(name))
            }
        };
        Ok(Output { file: File::from(file), place: Some(Place { directory, name, temporary, before, acl }) })
    }

    /// A second handle on what is written.
    ///
    /// # Errors
    /// Those of the system.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// True for a pipe, a device or standard output: what was written is gone, commit or not.
    pub fn is_through(&self) -> bool {
        self.place.is_none()
    }

    /// Syncs the file, puts it in its place and syncs the directory.
    ///
    /// # Errors
    /// Those of the system. The target is as it was, unless [`is_replaced`] is true of the error.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(place) = &mut self.place else { return Ok(()) };
        if let Some(before) = &place.before {
            keep(&self.file, before, place.acl.as_deref())?;
        }
        self.file.sync_all()?;
        let link = |name: &OsStr| {
            let source = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            rustix::fs::linkat(CWD, source, &place.directory, name, AtFlags::SYMLINK_FOLLOW)
        };
        // A link cannot take the place of a file: a name in between is needed where one stands.
        let mut linked = false;
        if place.temporary.is_none() {
            linked = match link(&place.name) {
                Ok(()) => true,
                Err(rustix::io::Errno::EXIST) => false,
                Err(error) => return Err(error.into()),
            };
            if !linked {
                let ((), name) = free_name(link)?;
                place.temporary = Some(name);
            }
        }
        if let (false, Some(temporary)) = (linked, &place.temporary) {
            rustix::fs::renameat(&place.directory, temporary, &place.directory, &place.name)?;
            place.temporary = None;
        }
        // Some file systems cannot sync a directory and say so by EINVAL.
        match rustix::fs::fsync(&place.directory) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(unsynced(error.into())),
        }
    }
}

/// The error of a commit whose file is in its place.
#[derive(Debug)]
struct Unsynced(io::Error);

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the new file is in its place, but its directory cannot be synced ({})", self.0)?;
        f.write_str("; a power failure may undo that")
    }
}

impl Error for Unsynced {}

fn unsynced(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unsynced(error))
}

/// True for an error of [`Output::commit`] that came after the target was replaced.
pub fn is_replaced(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Unsynced>())
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(Place { directory, temporary: Some(name), .. }) = &self.place {
            // If this fails, nothing can be done; the name shows that the file is partial.
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a whole file.
///
/// # Errors
/// Those of [`Output::create`] and [`Output::commit`].
pub fn write(target: &Path, bytes: &[u8], links: Links) -> io::Result<()> {
    let mut output = Output::create(target, links)?;
    output.write_all(bytes)?;
    output.commit()
}

/// A file without a name in this directory, for what does not fit in memory; it goes with its last handle.
///
/// # Errors
/// Those of the system.
pub fn scratch(directory: &Path) -> io::Result<File> {
    let parent = rustix::fs::open(directory, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mode = Mode::from_raw_mode(0o600);
    if let Some(file) = unnamed(&parent, mode) {
        return Ok(File::from(file));
    }
    let (file, name) = named(&parent, mode)?;
    rustix::fs::unlinkat(&parent, name, AtFlags::empty())?;
    Ok(File::from(file))
}

/// Reads a whole file of at most `most` bytes; longer ones, and devices and pipes without end, are refused, and what
/// does not fit in memory.
///
/// # Errors
/// Those of the system, and one that names the limit.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_on(&mut File::open(path)?, &mut bytes, most)?;
    Ok(bytes)
}

/// [`read`] of an open file whose first bytes are there.
///
/// # Errors
/// Those of [`read`].
pub fn read_on(file: &mut File, bytes: &mut Vec<u8>, most: u64) -> io::Result<()> {
    let mut more = file.metadata()?.len().saturating_add(1).clamp(READ_BYTES.0, READ_BYTES.1);
    loop {
        let held = bytes.len() as u64;
        more = more.min(most + 1 - held);
        if let Some(room) = room().filter(|room| more >= READ_BYTES.1 && room.bytes < more.saturating_add(READ_SPARE)) {
            return Err(io::Error::other(format!(
                "more than {held} bytes, and the next {more} do not fit {}",
                room.limit
            )));
        }
        bytes.try_reserve_exact(more as usize)?;
        let got = file.take(more).read_to_end(bytes)? as u64;
        if bytes.len() as u64 > most {
            return Err(io::Error::other(format!("more than {most} bytes, the limit for files of this kind")));
        }
        if got < more {
            return Ok(());
        }
        more = bytes.len() as u64;
    }
}

fn refused(kind: io::ErrorKind, text: &'static str) -> io::Error {
    io::Error::new(kind, text)
}

/// Opens what is written through. A pipe that nobody reads is waited for; a signal ends the wait with `Interrupted`.
fn through(target: &Path) -> io::Result<Output> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(target, flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind == FileType::BlockDevice {
        return Err(refused(io::ErrorKind::InvalidInput, "a block device stands there"));
    }
    Ok(Output { file: File::from(file), place: None })
}

fn is_open_file(target: &Path) -> bool {
    OPEN_FILES.iter().any(|name| target.as_os_str().as_encoded_bytes().starts_with(name.as_bytes()))
}

/// The file that a name leads to, through symbolic links; it need not exist. Links of the kernel to an open file stay.
fn resolved(target: &Path) -> io::Result<PathBuf> {
    let mut path = target.to_path_buf();
    for _ in 0..LINKS_MAX {
        if is_open_file(&path) {
            return Ok(path);
        }
        match std::fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            // Not a link, or nothing there: what it is shows when it is opened.
            Err(_) => return Ok(path),
        }
    }
    Err(refused(io::ErrorKind::InvalidInput, "too many symbolic links"))
}

/// A file without a name, where the file system has them and `/proc` can give it one later.
fn unnamed(directory: &OwnedFd, mode: Mode) -> Option<OwnedFd> {
    let file = rustix::fs::openat(directory, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode).ok()?;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::stat(source.as_str()).is_ok().then_some(file)
}

fn named(directory: &OwnedFd, mode: Mode) -> io::Result<(OwnedFd, OsString)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    free_name(|name| rustix::fs::openat(directory, name, flags, mode))
}

/// Calls with one temporary name after another until one is free.
fn free_name<T>(make: impl Fn(&OsStr) -> rustix::io::Result<T>) -> io::Result<(T, OsString)> {
    for _ in 0..NAMES_MAX {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".linnet-{}-{serial}.partial", std::process::id()));
        match make(&name) {
            Ok(made) => return Ok((made, name)),
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(refused(io::ErrorKind::AlreadyExists, "many files named .linnet-*.partial stand there; remove them"))
}

const ACCESS_LIST: &str = "system.posix_acl_access";
/// The longest value of an attribute (`XATTR_SIZE_MAX`).
const ATTRIBUTE_BYTES: usize = 65_536;

/// The access control list of a file that has one.
fn access_list(file: &OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; ATTRIBUTE_BYTES];
    let length = rustix::fs::fgetxattr(file, ACCESS_LIST, &mut bytes[..]).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// Gives a file the owner, the mode and the access control list of the one that it replaces. Without the group that the
/// old mode speaks of, nobody else gets the group's rights. Where there is a list, the group's bits of the mode are its
/// mask, and no rights of the group.
fn keep(file: &File, before: &Stat, acl: Option<&[u8]>) -> io::Result<()> {
    let now = rustix::fs::fstat(file)?;
    let group = Some(Gid::from_raw(before.st_gid));
    let same_group = now.st_gid == before.st_gid || rustix::fs::fchown(file, None, group).is_ok();
    if now.st_uid != before.st_uid {
        // Only root may give files away. Everybody else has written a file of their own.
        let _ = rustix::fs::fchown(file, Some(Uid::from_raw(before.st_uid)), None);
    }
    let mut bits = before.st_mode & 0o777;
    if !same_group || acl.is_some() {
        bits &= !0o070;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(bits))?;
    if let Some(acl) = acl.filter(|_| same_group) {
        let _ = rustix::fs::fsetxattr(file, ACCESS_LIST, acl, XattrFlags::empty());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_after_the_rename_says_so() {
        let failed = || io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
        assert!(!is_replaced(&failed()));
        assert!(is_replaced(&unsynced(failed())));
        let text = unsynced(failed()).to_string();
        assert!(text.contains("in its place") && text.contains(&failed().to_string()), "{text}");
    }
}
