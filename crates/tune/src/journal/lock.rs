// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock beside the journal.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

use rustix::fs::{FlockOperation, flock};

use super::store::DIRECTORY;
use crate::error::{Error, Result};
use crate::host::Host;

/// The lock that a tuner holds as long as it runs. Its file is its owner's alone: whoever can open it for reading can hold
/// it, and would keep every tuner and `linnet tune restore` away.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Mode of the lock's file.
const OWN: u32 = 0o600;

impl Lock {
    /// Takes the lock, or says who has it.
    pub fn take(host: &Host) -> Result<Lock> {
        let path = host.path(format!("{DIRECTORY}/lock"));
        let failed = |source| Error::File { path: path.clone(), doing: "lock", source };
        std::fs::create_dir_all(host.path(DIRECTORY)).map_err(failed)?;
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(OWN).open(&path).map_err(failed)?;
        // Earlier versions made it readable for all.
        file.set_permissions(Permissions::from_mode(OWN)).map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            // One that was killed left its number, and another program may hold the lock.
            let lives = |process: &u32| host.has(format!("/proc/{process}"));
            return Err(Error::Locked { path, process: holder.trim().parse().ok().filter(lives).unwrap_or(0) });
        }
        // For who is refused, to read; on a full file system it may be missing.
        let holder = format!("{}\n", std::process::id());
        let _ = file.write_all(holder.as_bytes()).and_then(|()| file.set_len(holder.len() as u64));
        Ok(Lock { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        (root, host)
    }

    #[test]
    fn a_second_tuner_is_refused_while_the_first_lives() {
        let (_root, host) = machine();
        let lock = host.path(format!("{DIRECTORY}/lock"));
        let first = Lock::take(&host).expect("free");
        let refused = || Lock::take(&host).expect_err("taken").to_string();
        assert!(refused().starts_with("another tuner runs (lock /"), "no process has the number: {}", refused());
        host.replace(format!("/proc/{}/stat", std::process::id()), "").expect("written");
        assert!(refused().contains(&format!("process {}", std::process::id())), "{}", refused());
        drop(first);
        assert_eq!(std::fs::read_to_string(&lock).expect("there"), "");
        std::fs::write(&lock, "12345678901\n").expect("written");
        let _second = Lock::take(&host).expect("free again");
        assert_eq!(host.number::<u32>(format!("{DIRECTORY}/lock")).expect("a number"), std::process::id());
        std::fs::write(&lock, "").expect("written");
        assert!(refused().starts_with("another tuner runs (lock /"), "no room for its number: {}", refused());
    }

    #[test]
    fn only_its_owner_can_hold_the_lock() {
        let (_root, host) = machine();
        let path = host.path(format!("{DIRECTORY}/lock"));
        let mode = || std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        drop(Lock::take(&host).expect("free"));
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("as earlier versions left it");
        drop(Lock::take(&host).expect("free"));
        assert_eq!(mode(), 0o600);
    }
}
