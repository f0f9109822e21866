// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device lends its value to open files, of any process.
//!
//! `posix_fadvise(NORMAL)` copies the device's value into the open file, and `pidfd_getfd` gives us the very open file
//! of another process. So: write the value to the device, advise on the duplicate, put the device's value back. That
//! takes some microseconds, in which a file that somebody opens inherits the value.
//!
//! Nothing of this may wait for the server of NFS, FUSE and the like, which may be gone for ever: the numbers of a
//! duplicate are those that the kernel has, and it is closed by another thread, for closing asks the server.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Advice, AtFlags, StatxFlags, fadvise, makedev, statx};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::bdi::has_server;
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

/// A server may take so long until its files are closed. After that its other files wait until they are.
const CLOSING: Duration = Duration::from_secs(1);
/// Knobs of servers that have not closed our duplicates yet.
static AWAITED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn is_awaited(knob: &str) -> bool {
    AWAITED.lock().unwrap_or_else(PoisonError::into_inner).contains(knob)
}

fn note_awaited(knob: &str, awaited: bool) {
    let mut all = AWAITED.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = if awaited { all.insert(knob.to_owned()) } else { all.remove(knob) };
}

/// Closes files in a thread of its own, which then does `after`.
fn close_apart<T: Send + 'static>(files: T, after: impl FnOnce() + Send + 'static) -> Receiver<()> {
    let (done, closed) = channel();
    let close = move || {
        drop(files);
        after();
        let _ = done.send(());
    };
    // Where there can be no thread, they are closed here.
    let _ = std::thread::Builder::new().spawn(close);
    closed
}

/// Closes the duplicates of files of a device.
pub(crate) fn let_go(knob: &str, held: Vec<Held>) {
    if held.is_empty() || !has_server(knob) {
        return;
    }
    note_awaited(knob, true);
    let of = knob.to_owned();
    let closed = close_apart(held, move || note_awaited(&of, false));
    if let Err(RecvTimeoutError::Disconnected) = closed.recv_timeout(CLOSING) {
        note_awaited(knob, false);
    }
}

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
    let known = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(&copy, c"", known, StatxFlags::INO);
    let dev = stat.map(|stat| (makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino));
    if let Ok((dev, inode)) = dev
        && file.may_be(dev, inode)
    {
        return Ok(Some((copy, dev)));
    }
    // Whose file it is, is not known.
    drop(close_apart(copy, || ()));
    dev.map(|_| None)
}

/// Holds an open file that is to have `kib`, and gives the device that stat tells of it. One that is closed leaves the
/// journal.
pub(crate) fn hold(
    knob: &str,
    at: At,
    file: FileId,
    kib: u32,
    journal: &mut Journal,
    outcome: &mut Outcome,
) -> Option<(Held, u64)> {
    if is_awaited(knob) {
        let why = "its server does not answer, and is waited for to close its files";
        outcome.refused.push(format!("process {}, descriptor {}: {why}", at.0, at.1));
        outcome.unset.push(at);
        return None;
    }
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
    pub(crate) fn knob(&self) -> &'a str {
        self.knob
    }

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
    use crate::bdi::knob_of;
    use crate::mounts::Dev;
    use std::io::Write;
    use std::time::Instant;

    fn held(copy: impl Into<OwnedFd>) -> Vec<Held> {
        vec![Held { at: (1, 3), kib: 8, copy: copy.into(), got_kib: None }]
    }

    #[test]
    fn files_of_all_but_disks_and_btrfs_are_closed_by_a_server() {
        let has = |name| has_server(&knob_of(name));
        assert_eq!(["0:45", "8:1-fuseblk", "cifs-2"].map(has), [true; 3]);
        assert_eq!(["8:1", "btrfs-1"].map(has), [false; 2]);
        assert!(!has_server("/sys/block/vda/queue/read_ahead_kb"));
    }

    #[test]
    fn files_of_a_server_that_does_not_answer_keep_nobody_waiting() {
        // A connection that is to send the rest when it is closed, to a peer that reads nothing, does not close.
        let peer = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut open = std::net::TcpStream::connect(peer.local_addr().expect("its address")).expect("connected");
        let (far, _) = peer.accept().expect("connected");
        rustix::net::sockopt::set_socket_linger(&open, Some(Duration::from_secs(60))).expect("set");
        open.set_nonblocking(true).expect("set");
        while open.write(&[0; 1 << 16]).is_ok() {}
        let (mount, other, began) = (knob_of("0:45"), knob_of("0:46"), Instant::now());
        let_go(&mount, held(open));
        assert!(began.elapsed() < Duration::from_secs(20));
        let (mut journal, mut outcome) = (Journal::unsaved(&Host::default()), Outcome::default());
        let file = FileId { dev: Dev { major: 0, minor: 45 }, inode: 12 };
        assert!(hold(&mount, (1, 3), file, 8, &mut journal, &mut outcome).is_none());
        assert_eq!((outcome.unset, outcome.gone, is_awaited(&other)), (vec![(1, 3)], 0, false));
        assert!(outcome.refused[0].contains("its server does not answer"), "{:?}", outcome.refused);
        // The peer is gone: nothing is left to be sent.
        drop(far);
        let began = Instant::now();
        while is_awaited(&mount) {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(10));
        }
        let exe = || std::fs::File::open("/proc/self/exe").expect("our own program");
        for knob in [&mount[..], &knob_of("8:0")] {
            let_go(knob, held(exe()));
            assert!(!is_awaited(knob));
        }
    }

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
