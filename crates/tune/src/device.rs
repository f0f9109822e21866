// SPDX-License-Identifier: MIT OR Apache-2.0
//! The setter of a device's value, and who wins when somebody else sets it too.
//!
//! A value that is not the one we wrote was written by somebody else. Two cases are told apart:
//!
//! - It is the value that we found at first. People do not type the old value again and again; udev, a CSI driver or a
//!   boot script does. We write ours again after a patience that doubles with each time, up to a bound, so that a program
//!   that insists is followed most of the time and a person who undoes our change twice is left in peace for long.
//! - It is another value. Somebody decided. The device is theirs for `backoff`; after that their value is the one that we
//!   start from and put back.

use std::time::Duration;

use crate::error::Result;
use crate::host::Host;
use crate::journal::{DeviceEntry, Journal};
use crate::mounts::{Mount, mounts};

/// How to deal with others who write the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rivals {
    /// As the head of this file says.
    Auto,
    /// Leave the device alone for the back-off time, whatever was written.
    Yield,
    /// Write our value again, with growing patience, whatever was written.
    Insist,
}

/// First patience with a program that puts the old value back.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest patience: below the minute after which such programs usually come again.
const PATIENCE_MAX: Duration = Duration::from_secs(30);

/// What looking at a device found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Our value, or one that we never touched.
    Ours,
    /// Somebody wrote another value; how long we leave it.
    Changed {
        /// What stands there.
        kib: u32,
        /// What stood there: ours, or the value from before us.
        ours_kib: u32,
        /// We look again after this long.
        wait: Duration,
        /// True where it is the value from before us: a program, and ours comes back.
        original: bool,
    },
    /// It is somebody else's for now.
    Theirs,
}

/// One device's value.
#[derive(Debug)]
pub struct Device {
    host: Host,
    knob: String,
    /// The disk or file system that has the knob.
    identity: DeviceEntry,
    original_kib: u32,
    written_kib: Option<u32>,
    /// What we asked for; where the device bounds its value, more than `written_kib`.
    asked_kib: Option<u32>,
    rivals: Rivals,
    backoff: Duration,
    patience: Duration,
    /// Somebody else's value that stands until we write ours again.
    standing_kib: Option<u32>,
    /// Not ours before this moment of the tuner's clock.
    not_before: Option<Duration>,
    /// The other writer's value is a decision: open files are left alone too.
    decided: bool,
}

impl Device {
    /// Reads the value and keeps it as the one to put back.
    pub fn open(host: &Host, knob: &str, rivals: Rivals, backoff: Duration) -> Result<Device> {
        let original_kib = host.number(knob)?;
        let knob = knob.to_owned();
        let host = host.clone();
        Ok(Device {
            identity: DeviceEntry::new(&host, &knob, original_kib, original_kib),
            host,
            knob,
            original_kib,
            written_kib: None,
            asked_kib: None,
            rivals,
            backoff,
            patience: PATIENCE,
            standing_kib: None,
            not_before: None,
            decided: false,
        })
    }

    /// The file that holds the value.
    pub fn knob(&self) -> &str {
        &self.knob
    }

    /// True where the device went away.
    pub(crate) fn is_gone(&self) -> bool {
        !self.host.has(&self.knob)
    }

    /// Why the device that has the knob now is another one than at first; None where it is the same. `mounted` is what is
    /// mounted now.
    pub(crate) fn replaced(&self, mounted: &[Mount]) -> Option<String> {
        self.identity.gone(&self.host, mounted)
    }

    /// The value from before us.
    pub fn original_kib(&self) -> u32 {
        self.original_kib
    }

    /// The value that stands since we wrote, while it stands.
    pub fn written_kib(&self) -> Option<u32> {
        self.written_kib
    }

    /// True where the value that stands is what the device made of `kib`, or `kib` itself.
    pub fn stands_for(&self, kib: u32) -> bool {
        self.asked_kib == Some(kib) || self.expected_kib() == kib
    }

    /// The value that stands unless somebody writes now.
    pub(crate) fn expected_kib(&self) -> u32 {
        self.written_kib.or(self.standing_kib).unwrap_or(self.original_kib)
    }

    /// True while somebody else's value stands.
    pub fn is_theirs(&self, now: Duration) -> bool {
        self.not_before.is_some_and(|moment| now < moment)
    }

    /// True while somebody's decision stands, so that open files are not to be set either.
    pub fn is_decided(&self, now: Duration) -> bool {
        self.decided && self.is_theirs(now)
    }

    /// Looks whether somebody else wrote the value. Call it once a window.
    pub fn look(&mut self, now: Duration, journal: &mut Journal) -> Result<Found> {
        if self.is_theirs(now) {
            return Ok(Found::Theirs);
        }
        self.not_before = None;
        let kib: u32 = self.host.number(&self.knob)?;
        let expected = self.expected_kib();
        if kib == expected {
            return Ok(Found::Ours);
        }
        let ours_kib = expected;
        let original = kib == self.original_kib;
        let comes_back = match self.rivals {
            Rivals::Auto => original,
            Rivals::Yield => false,
            Rivals::Insist => true,
        };
        let wait = if comes_back { self.patience } else { self.backoff };
        if comes_back {
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            self.standing_kib = Some(kib);
        } else {
            self.original_kib = kib;
            self.standing_kib = None;
        }
        (self.written_kib, self.asked_kib) = (None, None);
        self.not_before = Some(now.saturating_add(wait));
        self.decided = !comes_back;
        journal.forget_device(&self.knob);
        journal.save()?;
        Ok(Found::Changed { kib, ours_kib, wait, original })
    }

    /// Writes a value and gives the one that stands: the kernel rounds to pages, and some devices bound the value. Both
    /// are ours from now on. The journal has the value before it is written, and the one that stands right after. Where the
    /// device does not take it, nothing has changed.
    pub fn set(&mut self, kib: u32, journal: &mut Journal) -> Result<u32> {
        journal.note_device(&self.knob, self.original_kib, kib);
        if let Err(error) = journal.save().and_then(|()| self.host.write(&self.knob, &kib.to_string())) {
            if self.written_kib.is_none() {
                journal.forget_device(&self.knob);
                journal.save()?;
            }
            return Err(error);
        }
        (self.written_kib, self.asked_kib, self.standing_kib) = (Some(kib), Some(kib), None);
        let stands = self.host.number(&self.knob)?;
        self.written_kib = Some(stands);
        if stands != kib {
            journal.note_device(&self.knob, self.original_kib, stands);
            journal.save()?;
        }
        Ok(stands)
    }

    /// Puts the first value back, unless somebody else's stands or another device has the knob now. True where it was
    /// changed. An error where the device does not take its first value any more; it is not tried again.
    pub fn restore(&mut self, journal: &mut Journal) -> Result<bool> {
        let Some(ours) = self.written_kib.take() else { return Ok(false) };
        self.asked_kib = None;
        let same = self.replaced(&mounts(&self.host, "self")).is_none();
        let mine = same && self.host.number::<u32>(&self.knob)? == ours;
        let stands = if mine { self.host.set(&self.knob, self.original_kib)? } else { self.original_kib };
        journal.forget_device(&self.knob);
        journal.save()?;
        if stands != self.original_kib {
            let original = self.original_kib;
            return Err(crate::Error::Format {
                path: self.host.path(&self.knob),
                what: format!(
                    "{original} KiB, the value from before us, was written and {stands} stands: the device's bound has changed since"
                ),
            });
        }
        Ok(mine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOB: &str = "/sys/block/vda/queue/read_ahead_kb";
    const BACKOFF: Duration = Duration::from_secs(600);

    fn at(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    struct Machine {
        _root: tempfile::TempDir,
        host: Host,
        journal: Journal,
        device: Device,
    }

    fn machine(original: u32, rivals: Rivals) -> Machine {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        host.replace(KNOB, &original.to_string()).expect("written");
        let journal = Journal::open(&host).expect("empty");
        let device = Device::open(&host, KNOB, rivals, BACKOFF).expect("a knob");
        Machine { _root: root, host, journal, device }
    }

    impl Machine {
        fn stands(&self) -> u32 {
            self.host.number(KNOB).expect("a number")
        }
    }

    #[test]
    fn a_value_is_set_journalled_and_put_back() {
        let mut m = machine(65_536, Rivals::Auto);
        m.device.set(8, &mut m.journal).expect("set");
        assert_eq!(m.stands(), 8);
        let noted = Journal::open(&m.host).expect("journal").devices;
        assert_eq!((noted[0].original_kib, &noted[0].written_kib[..]), (65_536, &[8][..]));
        m.device.set(16, &mut m.journal).expect("set");
        assert!(m.device.restore(&mut m.journal).expect("restored"));
        assert_eq!(m.stands(), 65_536);
        assert!(Journal::open(&m.host).expect("journal").is_empty());
        assert!(!m.device.restore(&mut m.journal).expect("nothing left to do"));
    }

    #[test]
    fn a_program_that_puts_the_old_value_back_is_outlasted_with_growing_patience() {
        let mut m = machine(65_536, Rivals::Auto);
        for (minute, wait) in [(1, 2), (2, 4), (3, 8), (4, 16), (5, 30), (6, 30)] {
            m.device.set(128, &mut m.journal).expect("set");
            m.host.write(KNOB, "65536").expect("the rival writes");
            let found = m.device.look(at(60 * minute), &mut m.journal).expect("looked");
            assert_eq!(found, Found::Changed { kib: 65_536, ours_kib: 128, wait: at(wait), original: true });
            let soon = at(60 * minute + wait - 1);
            assert_eq!(m.device.look(soon, &mut m.journal).expect("looked"), Found::Theirs);
            assert!(!m.device.is_decided(soon), "open files are still set");
            assert_eq!(m.device.look(at(60 * minute + wait), &mut m.journal).expect("looked"), Found::Ours);
        }
    }

    #[test]
    fn another_value_is_a_decision_and_becomes_the_one_to_put_back() {
        let mut m = machine(128, Rivals::Auto);
        m.device.set(8, &mut m.journal).expect("set");
        m.host.write(KNOB, "256").expect("the administrator writes");
        let found = m.device.look(at(10), &mut m.journal).expect("looked");
        assert_eq!(found, Found::Changed { kib: 256, ours_kib: 8, wait: BACKOFF, original: false });
        assert!(m.device.is_decided(at(609)) && !m.device.is_decided(at(610)));
        assert!(!m.device.restore(&mut m.journal).expect("theirs stays"));
        assert_eq!((m.stands(), m.device.original_kib()), (256, 256));
        assert!(Journal::open(&m.host).expect("journal").is_empty(), "a crash now must not undo their value");
    }

    #[test]
    fn a_decision_may_stand_for_ever() {
        let mut m = machine(128, Rivals::Auto);
        m.device.backoff = Duration::MAX;
        m.host.write(KNOB, "256").expect("the administrator writes");
        assert!(matches!(m.device.look(at(10), &mut m.journal), Ok(Found::Changed { kib: 256, .. })));
        assert!(m.device.is_decided(at(1_000_000)));
    }

    #[test]
    fn a_value_that_we_never_wrote_and_that_changes_is_a_decision_too() {
        let mut m = machine(128, Rivals::Auto);
        assert_eq!(m.device.look(at(1), &mut m.journal).expect("looked"), Found::Ours);
        m.host.write(KNOB, "1024").expect("the administrator writes");
        assert!(matches!(m.device.look(at(2), &mut m.journal), Ok(Found::Changed { kib: 1024, original: false, .. })));
        assert!(m.device.is_decided(at(3)));
    }

    #[test]
    fn yield_and_insist_do_not_ask_which_value_it_is() {
        let mut m = machine(128, Rivals::Yield);
        m.device.set(8, &mut m.journal).expect("set");
        m.host.write(KNOB, "128").expect("written");
        assert!(matches!(m.device.look(at(1), &mut m.journal), Ok(Found::Changed { wait: BACKOFF, .. })));
        let mut m = machine(128, Rivals::Insist);
        m.device.set(8, &mut m.journal).expect("set");
        m.host.write(KNOB, "512").expect("written");
        assert!(matches!(m.device.look(at(1), &mut m.journal), Ok(Found::Changed { wait: PATIENCE, .. })));
        assert_eq!(m.device.original_kib(), 128);
        assert_eq!(
            m.device.look(at(3), &mut m.journal).expect("looked"),
            Found::Ours,
            "it is known: ours comes back now"
        );
        assert!(!m.device.is_theirs(at(3)) && !m.device.stands_for(128));
        m.device.set(8, &mut m.journal).expect("set");
        assert!(m.device.restore(&mut m.journal).expect("restored"));
        assert_eq!(m.stands(), 128);
    }

    #[test]
    fn a_bounded_value_is_ours_and_is_put_back() {
        let mut m = machine(128, Rivals::Auto);
        m.device.host.bound_kib = Some(256);
        assert_eq!(m.device.set(1024, &mut m.journal).expect("set"), 256);
        assert_eq!((m.stands(), m.device.written_kib()), (256, Some(256)));
        assert!(m.device.stands_for(1024) && m.device.stands_for(256) && !m.device.stands_for(512));
        assert_eq!(m.device.look(at(1), &mut m.journal).expect("looked"), Found::Ours, "the bound is no rival");
        let noted = Journal::open(&m.host).expect("journal").devices;
        assert_eq!(noted[0].written_kib, [1024, 256], "a crash now finds the value that stands");
        assert!(m.device.restore(&mut m.journal).expect("restored"));
        assert_eq!(m.stands(), 128);
        assert!(Journal::open(&m.host).expect("journal").is_empty());
    }

    #[test]
    fn a_first_value_that_the_device_no_longer_takes_is_told_and_forgotten() {
        let mut m = machine(512, Rivals::Auto);
        m.device.set(8, &mut m.journal).expect("set");
        m.device.host.bound_kib = Some(256);
        let error = m.device.restore(&mut m.journal).expect_err("bounded").to_string();
        assert!(error.contains("512 KiB, the value from before us, was written and 256 stands"), "{error}");
        assert!(Journal::open(&m.host).expect("journal").is_empty());
    }

    #[test]
    fn a_value_that_the_device_refuses_leaves_what_was_there() {
        let mut m = machine(128, Rivals::Auto);
        m.device.host.stuck = Some(KNOB);
        m.device.set(8, &mut m.journal).expect_err("refused");
        assert!(Journal::open(&m.host).expect("journal").is_empty(), "nothing of ours stands");
        m.device.host.stuck = None;
        m.device.set(8, &mut m.journal).expect("set");
        m.device.host.stuck = Some(KNOB);
        m.device.set(16, &mut m.journal).expect_err("refused");
        assert_eq!((m.device.written_kib(), Journal::open(&m.host).expect("journal").devices.len()), (Some(8), 1));
        m.device.host.stuck = None;
        assert!(m.device.restore(&mut m.journal).expect("restored"));
        assert_eq!(m.stands(), 128);
    }

    #[test]
    fn a_value_that_cannot_be_noted_is_not_set() {
        let mut m = machine(128, Rivals::Auto);
        m.host.room = Some(0);
        let mut journal = Journal::open(&m.host).expect("empty");
        let error = m.device.set(8, &mut journal).expect_err("full").to_string();
        assert!(error.contains("journal.json: cannot write"), "{error}");
        assert_eq!((m.stands(), m.device.written_kib(), journal.is_empty()), (128, None, true));
    }

    #[test]
    fn a_device_that_has_the_knob_since_keeps_its_value() {
        let mut m = machine(512, Rivals::Auto);
        m.host.replace("/sys/block/vda/diskseq", "7").expect("written");
        m.device = Device::open(&m.host, KNOB, Rivals::Auto, BACKOFF).expect("a knob");
        m.device.set(128, &mut m.journal).expect("set");
        assert_eq!(m.device.replaced(&[]), None);
        m.host.replace("/sys/block/vda/diskseq", "9").expect("another disk");
        assert!(m.device.replaced(&[]).is_some_and(|why| why.starts_with("the disk whose value was changed is gone")));
        assert!(!m.device.restore(&mut m.journal).expect("nothing to do"));
        assert_eq!(m.stands(), 128);
        assert!(Journal::open(&m.host).expect("journal").is_empty());
    }

    #[test]
    fn a_value_changed_between_write_and_exit_is_left() {
        let mut m = machine(128, Rivals::Auto);
        m.device.set(8, &mut m.journal).expect("set");
        m.host.write(KNOB, "1024").expect("written");
        assert!(!m.device.restore(&mut m.journal).expect("looked"));
        assert_eq!(m.stands(), 1024);
    }
}
