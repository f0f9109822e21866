// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a file that is read.

use std::time::Duration;

use crate::follow::Follower;
use crate::govern::Governor;
use crate::journal::Journal;
use crate::openfile::Descriptor;

/// A file under one control group.
pub(crate) struct Track {
    pub(crate) governor: Governor,
    pub(crate) seen: Duration,
    /// The last reason for leaving it alone, said once.
    pub(crate) skipped: Option<String>,
    pub(crate) corrected: bool,
    /// It is read again after a rest of `ANOTHER`. It may have been opened since: the next look at descriptors tells.
    pub(crate) rested: bool,
    /// Pages that came since `begun`, the look before it was first seen, or first after such a rest.
    pub(crate) brought: u64,
    pub(crate) begun: Duration,
    /// When it was last read: a file that is only written brings pages too.
    pub(crate) demanded: Option<Duration>,
    pub(crate) follower: Follower,
}

impl Track {
    /// A file that has `kib` when we first see it.
    pub(crate) fn new(now: Duration, kib: u32) -> Track {
        let governor = Governor::new(now, kib);
        let follower = Follower::default();
        let (corrected, rested, brought) = (false, false, 0);
        Track { governor, seen: now, skipped: None, corrected, rested, brought, begun: now, demanded: None, follower }
    }

    /// Takes in what a descriptor of the file shows before the first change: its own value, and the one of ours that it
    /// may have. True where it only has ours because it was opened while its device did.
    pub(crate) fn learn(
        &mut self,
        now: Duration,
        d: &Descriptor,
        knob: &str,
        device_kib: u32,
        journal: &Journal,
    ) -> bool {
        let own_kib = journal.own_kib(knob, device_kib, d.file, (d.process, d.fd), d.value_kib);
        let is_noted = journal.files.of(d.file).any(|entry| entry.is_value(d.value_kib));
        self.governor.correct(own_kib);
        if is_noted && d.value_kib != own_kib {
            // Decided before the file was forgotten.
            self.governor.changed(now, d.value_kib);
        }
        !is_noted && d.value_kib != own_kib
    }

    /// A proposal could not be carried out. It may come again after a while.
    pub(crate) fn refused(&mut self, now: Duration, wait: Duration) {
        self.governor.refused(now, wait);
        self.follower.refused();
    }

    /// True where this reason for leaving the file alone has not just been told. From now on it has.
    pub(crate) fn is_news(&mut self, reason: &str) -> bool {
        let is_news = self.skipped.as_deref() != Some(reason);
        if is_news {
            self.skipped = Some(reason.to_owned());
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::FileEntry;
    use crate::mounts::Dev;
    use crate::openfile::FileId;

    #[test]
    fn a_file_that_was_forgotten_has_its_own_value_and_the_one_of_ours() {
        let root = tempfile::tempdir().expect("a directory");
        let mut journal = Journal::unsaved(&crate::host::Host::below(root.path()));
        let file = |inode| FileId { dev: Dev { major: 254, minor: 1 }, inode };
        journal.note_file(FileEntry {
            process: 7,
            started: 70,
            fd: 3,
            file: file(12),
            knob: "k".into(),
            original_kib: 4096,
            written_kib: 8,
            stands_kib: Some(8),
        });
        journal.note_lent("k", 8);
        let learn = |inode, fd, value_kib| {
            let (file, process, mode) = (file(inode), 7, 0x1f);
            let d = Descriptor { file, cgroup: 1, process, fd, mode, flags: 0, size_bytes: 0, value_kib };
            let mut track = Track::new(Duration::ZERO, 4096);
            let only_lent = track.learn(Duration::ZERO, &d, "k", 4096, &journal);
            (track.governor.original_kib(), track.governor.current_kib(), only_lent)
        };
        assert_eq!(learn(12, 3, 8), (4096, 8, false), "ours");
        assert_eq!(learn(12, 4, 8), (4096, 8, false), "a copy of ours");
        assert_eq!(learn(13, 3, 8), (4096, 4096, true), "opened while the device had it");
        assert_eq!(learn(13, 3, 64), (64, 64, false), "its own");
    }
}
