// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal's file. A reader finds the record from before or the new one, never a part: the new one is written into a
//! spare file, which then takes the journal's name. Where the directory is full, what was put back would still be in the
//! journal, and a later start would undo what somebody has set since. So the next spare file has its room before
//! anything is changed.

use std::fs::{File, create_dir_all, remove_file, rename};
use std::io::{self, Write};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};
use rustix::io::{Errno, retry_on_intr};

use crate::error::{Error, Result};
use crate::host::Host;

pub(super) const DIRECTORY: &str = "/run/linnet/tune";
pub(super) const JOURNAL: &str = "/run/linnet/tune/journal.json";
const SPARE: &str = "/run/linnet/tune/journal.spare";
/// By so much the next record may be longer, where the room is there: a device is noted while its files are put back.
const LONGER: u64 = 16 << 10;

/// Replaces the record. An error also where there is no room for a next one as long as this. `is_empty` says that nothing
/// is changed: then there need not be a file.
pub(super) fn write(host: &Host, text: &str, is_empty: bool) -> Result<()> {
    let failed = |doing| move |source| Error::File { path: host.path(JOURNAL), doing, source };
    match replace(host, text.as_bytes()) {
        Err(error) if is_empty && is_full(&error) && remove(host, JOURNAL).is_ok() => {}
        replaced => replaced.map_err(failed("write"))?,
    }
    if is_empty {
        return remove(host, SPARE).map_err(failed("remove its spare file"));
    }
    let bytes = text.len() as u64;
    let reserve = || {
        let spare = spare(host)?;
        allocate(host, &spare, bytes + LONGER).or_else(|_| allocate(host, &spare, bytes))
    };
    reserve().map_err(failed("reserve room for its next version"))
}

fn replace(host: &Host, text: &[u8]) -> io::Result<()> {
    create_dir_all(host.path(DIRECTORY))?;
    let mut file = spare(host)?;
    allocate(host, &file, text.len() as u64)?;
    file.write_all(text)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()?;
    rename(host.path(SPARE), host.path(JOURNAL))
}

/// The spare file, with what it has. It is written as root: a link in its place is not followed.
fn spare(host: &Host) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(open(host.path(SPARE), flags, Mode::from_raw_mode(0o644))?))
}

/// Gives a file room for so many bytes. Some file systems cannot: there the room shows when it is written.
fn allocate(host: &Host, file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(test)]
    if host.room.is_some_and(|room| bytes + std::fs::metadata(host.path(JOURNAL)).map_or(0, |held| held.len()) > room) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let _ = host;
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes)) {
        Err(Errno::OPNOTSUPP) => Ok(()),
        done => Ok(done?),
    }
}

fn remove(host: &Host, name: &str) -> io::Result<()> {
    match remove_file(host.path(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(room: u64) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        host.room = Some(room);
        (root, host)
    }

    #[test]
    fn a_record_is_refused_unless_there_is_room_to_take_it_back() {
        let (_root, mut host) = machine(100_000);
        let record = |bytes| "x".repeat(bytes);
        write(&host, &record(30_000), false).expect("with room to spare");
        assert_eq!(std::fs::metadata(host.path(SPARE)).expect("reserved").len(), 30_000 + LONGER);
        write(&host, &record(45_000), false).expect("it fits twice");
        assert_eq!(std::fs::metadata(host.path(SPARE)).expect("reserved").len(), 45_000);
        let error = write(&host, &record(60_000), false).expect_err("full").to_string();
        assert!(error.contains("journal.json: cannot write"), "{error}");
        assert_eq!(host.read(JOURNAL).expect("the record from before").len(), 45_000);
        // Others have filled the rest since. What is shorter can always be written.
        host.room = Some(90_000);
        write(&host, &record(40_000), false).expect("into what was reserved");
        assert_eq!(host.read(JOURNAL).expect("written"), record(40_000));
        host.room = Some(70_000);
        write(&host, &record(20_000), false).expect("into what was reserved");
        let error = write(&host, &record(40_000), false).expect_err("room for this one only").to_string();
        assert!(error.contains("journal.json: cannot reserve room for its next version"), "{error}");
    }

    #[test]
    fn an_empty_record_needs_no_room() {
        let (_root, mut host) = machine(100_000);
        write(&host, "a record", false).expect("written");
        write(&host, "nothing", true).expect("written");
        assert_eq!((host.read(JOURNAL).expect("there"), host.has(SPARE)), ("nothing".into(), false));
        write(&host, "a record", false).expect("written");
        host.room = Some(0);
        write(&host, "nothing", true).expect("removed");
        assert!(!host.has(JOURNAL) && !host.has(SPARE));
        write(&host, "a record", false).expect_err("full");
        write(&host, "nothing", true).expect("there is none");
    }

    #[test]
    fn a_link_in_the_place_of_the_spare_file_is_not_followed() {
        let (root, host) = machine(100_000);
        create_dir_all(host.path(DIRECTORY)).expect("a directory");
        let victim = root.path().join("victim");
        std::fs::write(&victim, "theirs").expect("written");
        std::os::unix::fs::symlink(&victim, host.path(SPARE)).expect("a link");
        write(&host, "a record", false).expect_err("a link");
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "theirs");
    }
}
