// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device lends its value to open files, of any process.
//!
//! `posix_fadvise(NORMAL)` copies the device's value into the open file, and `pidfd_getfd` gives us the very open file
//! of another process. So: write the value to the device, advise on the duplicate, put the device's value back. That
//! takes some microseconds, in which a file that somebody opens inherits the value.

use std::os::fd::OwnedFd;

use rustix::fs::{Advice, fadvise, fstat};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::error::Result;
use crate::host::Host;
use crate::journal::{At, DeviceEntry, Journal};
use crate::openfile::{FileId, Outcome};

/// An open file that we hold too, its value to be, and the one that it got.
pub(crate) struct Held {
    pub(crate) at: At,
    pub(crate) kib: u32,
    pub(crate) copy: OwnedFd,
    pub(crate) got_kib: Option<u32>,
}

/// Open files that are held at once: a process may have as few as 1,024 descriptors.
pub(crate) const HELD_MAX: usize = 256;

/// Duplicates the open file of another process, and gives the device that stat tells; None where it is closed or means
/// another file now.
pub(crate) fn duplicate((process, fd): At, file: FileId) -> rustix::io::Result<Option<(OwnedFd, u64)>> {
    use rustix::io::Errno;
    let gone = |error| match error {
        Errno::SRCH | Errno::BADF | Errno::NOENT | Errno::INVAL => Ok(None),
        error => Err(error),
    };
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let Ok(fd) = i32::try_from(fd) else { return Ok(None) };
    let holder = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(holder) => holder,
        Err(error) => return gone(error),
    };
    let copy = match pidfd_getfd(holder, fd, PidfdGetfdFlags::empty()) {
        Ok(copy) => copy,
        Err(error) => return gone(error),
    };
    let stat = fstat(&copy)?;
    Ok(file.may_be(stat.st_dev, stat.st_ino).then_some((copy, stat.st_dev)))
}

/// Holds an open file that is to have `kib`, and gives the device that stat tells of it. One that is closed leaves the
/// journal.
pub(crate) fn hold(
    at: At,
    file: FileId,
    kib: u32,
    journal: &mut Journal,
    outcome: &mut Outcome,
) -> Option<(Held, u64)> {
    match duplicate(at, file) {
        Ok(Some((copy, dev))) => return Some((Held { at, kib, copy, got_kib: None }, dev)),
        Ok(None) => {
            outcome.gone += 1;
            journal.files.remove(at);
        }
        Err(error) => {
            outcome.refused.push(format!("process {}, descriptor {}: {error}", at.0, at.1));
            outcome.unset.push(at);
        }
    }
    None
}

/// A device whose value is lent to files. Meanwhile a crash must find it in the journal.
pub(crate) struct Lent<'a> {
    knob: &'a str,
    base: u32,
    standing: Vec<DeviceEntry>,
}

impl<'a> Lent<'a> {
    /// Notes the values that the device will have, which has `base` now.
    pub(crate) fn begin(
        knob: &'a str,
        base: u32,
        values: impl Iterator<Item = u32>,
        journal: &mut Journal,
    ) -> Result<Lent<'a>> {
        let standing = journal.devices.clone();
        for kib in values {
            journal.note_device(knob, base, kib);
        }
        match journal.save() {
            Ok(()) => Ok(Lent { knob, base, standing }),
            Err(error) => {
                journal.devices = standing;
                Err(error)
            }
        }
    }

    /// Where the device may still have a value of ours, the journal keeps saying so. One that went away has none.
    pub(crate) fn end(self, host: &Host, journal: &mut Journal, given: Result<()>) -> Result<()> {
        let has_own = || host.number::<u32>(self.knob).map_or(!host.has(self.knob), |now| now == self.base);
        if given.is_ok() || has_own() {
            journal.devices = self.standing;
        }
        given.and(journal.save())
    }
}

/// Gives each file its value by way of the device. They are in the order of their values.
pub(crate) fn advise(
    host: &Host,
    lent: &Lent,
    held: &mut [Held],
    journal: &mut Journal,
    outcome: &mut Outcome,
) -> Result<()> {
    let Lent { knob, base, .. } = *lent;
    let (mut asked, mut stands) = (base, base);
    let mut failed = None;
    for Held { kib, copy, got_kib, .. } in held {
        if *kib != asked {
            // Somebody may have written since: theirs would be lost, so see first.
            let now: u32 = host.number(knob)?;
            if now != stands {
                outcome.rival_kib = Some(now);
                return Ok(());
            }
            asked = *kib;
            match host.set(knob, asked) {
                Ok(value) => stands = value,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            journal.note_lent(knob, stands);
            if stands != asked {
                outcome.bounded.push((asked, stands));
                journal.note_device(knob, base, stands);
                if let Err(error) = journal.save() {
                    failed = Some(error);
                    break;
                }
            }
        }
        match fadvise(copy, 0, None, Advice::Normal) {
            Ok(()) => {
                *got_kib = Some(stands);
                outcome.done += 1;
            }
            Err(error) => outcome.refused.push(error.to_string()),
        }
    }
    if asked != base {
        let now: u32 = host.number(knob)?;
        if now == stands || failed.is_some() {
            host.write(knob, &base.to_string())?;
        } else {
            outcome.rival_kib = Some(now);
        }
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_value_is_no_rival_and_the_device_has_its_own_again() {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        host.bound_kib = Some(256);
        let knob = "/sys/block/vda/queue/read_ahead_kb";
        host.replace(knob, "128").expect("written");
        let mut journal = Journal::open(&host).expect("empty");
        let mut outcome = Outcome::default();
        let copy = || OwnedFd::from(std::fs::File::open("/proc/self/exe").expect("our own program"));
        let mut held = [8, 1024, 1024].map(|kib| Held { at: (1, kib), kib, copy: copy(), got_kib: None });
        let lent = Lent { knob, base: 128, standing: Vec::new() };
        advise(&host, &lent, &mut held, &mut journal, &mut outcome).expect("advised");
        assert_eq!(held.map(|file| file.got_kib), [Some(8), Some(256), Some(256)]);
        assert_eq!((outcome.done, outcome.rival_kib), (3, None));
        assert_eq!(outcome.bounded, [(1024, 256)]);
        assert_eq!(journal.devices[0].written_kib, [256], "a crash between finds the value that stands");
        assert_eq!(host.number::<u32>(knob).expect("a number"), 128);
    }
}
