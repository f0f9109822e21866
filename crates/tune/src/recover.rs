// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts back what the journal says is changed: at the start after a crash, and by `linnet tune restore`.

use crate::error::Result;
use crate::host::Host;
use crate::journal::Journal;
use crate::mounts::mounts;
use crate::nfs::overmount::{self, Taken};
use crate::observe::{Observer, lister};
use crate::putback;

/// What was put back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Devices, with the value that stands now.
    pub devices: Vec<(String, u32)>,
    /// Devices whose value is neither ours nor the one from before: somebody else's, left as it is.
    pub left: Vec<(String, u32)>,
    /// Values that we changed of a device that is gone, whose number another one has, and why it is known to be another.
    pub gone: Vec<(String, String)>,
    /// Open files.
    pub files: usize,
    /// Where a mount of ours was taken off.
    pub mounts: Vec<String>,
    /// What the system refused, in words. It stays in the journal.
    pub refused: Vec<String>,
}

/// Puts everything in the journal back. The caller holds the lock.
pub fn recover(host: &Host, journal: &mut Journal) -> Result<Recovered> {
    recover_by(host, journal, lister)
}

fn recover_by(
    host: &Host,
    journal: &mut Journal,
    lister: impl FnOnce() -> Result<Box<dyn Observer>>,
) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    // Before the devices are forgotten: what they had while files were set may be a file's.
    let compared = if journal.files.is_empty() {
        Ok(())
    } else {
        lister().and_then(|mut lister| putback::compare(host, journal, lister.as_mut()))
    };
    let mounted = mounts(host, "self");
    for entry in journal.devices.clone() {
        if let Ok(now) = host.number::<u32>(&entry.knob) {
            if let Some(why) = entry.gone(host, &mounted) {
                recovered.gone.push((entry.knob.clone(), why));
            } else if entry.written_kib.contains(&now) && now != entry.original_kib {
                if let Err(error) = host.write(&entry.knob, &entry.original_kib.to_string()) {
                    recovered.refused.push(error.to_string());
                    continue;
                }
                recovered.devices.push((entry.knob.clone(), entry.original_kib));
            } else if now != entry.original_kib {
                recovered.left.push((entry.knob.clone(), now));
            }
        }
        journal.forget_device(&entry.knob);
    }
    let files = putback::restore(host, journal, compared);
    for point in journal.mounts.iter().rev().map(|entry| entry.point.clone()).collect::<Vec<_>>() {
        if !sees_what_all_see(host) {
            let why = "this process has mounts of its own; `linnet tune restore` in a shell takes it off";
            recovered.refused.push(format!("the mount at {point} stays: {why}"));
            continue;
        }
        match overmount::take_off(host, journal, &point) {
            Taken::Off => recovered.mounts.push(point),
            Taken::Gone => {}
            Taken::Stays(why) => recovered.refused.push(why),
        }
    }
    journal.save()?;
    let files = files?;
    recovered.files = files.files;
    recovered.refused.extend(files.refused);
    Ok(recovered)
}

/// True where a mount that is taken off here is gone for the others: a service may have a mount namespace of its own.
fn sees_what_all_see(host: &Host) -> bool {
    let of = |process: &str| host.link(format!("/proc/{process}/ns/mnt"));
    of("self") == of("1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::journal::{DeviceEntry, FileEntry};
    use crate::observe::Sight;
    use crate::openfile::{Descriptor, MODE_RANDOM};
    use crate::putback::tests::opened;
    use crate::tuner::tests::Listing;

    #[test]
    fn a_device_of_the_same_name_that_came_later_is_left_alone() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let (knob, number) = ("/sys/class/bdi/8:16/read_ahead_kb", "/sys/dev/block/8:16/diskseq");
        host.replace(knob, "128").expect("written");
        host.replace(number, "7").expect("written");
        let mut journal = Journal::open(&host).expect("empty");
        journal.note_device(knob, 65_536, 128);
        journal.save().expect("saved");
        let entry = journal.devices[0].clone();
        host.replace(number, "9").expect("another disk");
        let mut journal = Journal::open(&host).expect("after the crash");
        let recovered = recover(&host, &mut journal).expect("recovered");
        let [(of, why)] = &recovered.gone[..] else { panic!("{recovered:?}") };
        assert_eq!((&of[..], recovered.devices.len(), recovered.left.len()), (knob, 0, 0));
        assert!(why.starts_with("the disk whose value was changed is gone"), "{why}");
        assert_eq!(host.number::<u32>(knob).expect("a number"), 128);
        assert!(Journal::open(&host).expect("journal").is_empty());
        // An earlier version did not note the number: what it left is put back.
        journal.devices.push(DeviceEntry { sequence: None, ..entry });
        assert_eq!(recover(&host, &mut journal).expect("recovered").devices, [(knob.to_owned(), 65_536)]);
    }

    #[test]
    fn a_file_system_with_the_number_of_one_that_was_unmounted_is_left_alone() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let knob = "/sys/class/bdi/0:45/read_ahead_kb";
        let mounted = |what: &str| {
            host.replace("/proc/self/mountinfo", &format!("30 1 0:45 / /srv rw - {what} rw")).expect("written");
        };
        for (now, kib) in [("fuse.sshfs u@h:/", 128), ("nfs4 nas:/data", 15_360)] {
            mounted("nfs4 nas:/data");
            let mut journal = Journal::open(&host).expect("empty");
            journal.note_device(knob, 15_360, 128);
            journal.save().expect("saved");
            host.replace(knob, "128").expect("written");
            mounted(now);
            let mut journal = Journal::open(&host).expect("after the crash");
            let recovered = recover(&host, &mut journal).expect("recovered");
            assert_eq!((recovered.gone.len(), recovered.devices.len()), if kib == 128 { (1, 0) } else { (0, 1) });
            assert_eq!(host.number::<u32>(knob).expect("a number"), kib);
            assert!(Journal::open(&host).expect("journal").is_empty());
        }
    }

    #[test]
    fn files_stay_where_nobody_sees_what_their_owners_have_advised_since() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let mut journal = Journal::open(&host).expect("empty");
        let Some((_open, entry)) = opened(&host, "/sys/a") else { return };
        journal.note_device("/sys/a", 256, 128);
        journal.note_file(entry.clone());
        journal.note_file(FileEntry { fd: 1_000_000, ..entry.clone() });
        let recover = |journal: &mut Journal, sight: Option<Sight>, mode| {
            let FileEntry { process, fd, file, written_kib: value_kib, .. } = entry;
            let d = Descriptor { file, cgroup: 1, process, fd, mode, flags: 0, size_bytes: 0, value_kib };
            let lister = || match sight {
                Some(sight) => Ok(Box::new(Listing(sight, vec![d])) as Box<dyn Observer>),
                None => Err(Error::Observer { what: "no BPF".into() }),
            };
            recover_by(&host, journal, lister).expect("recovered")
        };
        let without = Sight { limits: vec!["no iterator".into()], ..Sight::default() };
        for (sight, why) in [(None, "no BPF"), (Some(without), "no iterator")] {
            let recovered = recover(&mut journal, sight, 0);
            assert_eq!((recovered.files, recovered.refused.len()), (0, 1));
            assert!(recovered.refused[0].starts_with("1 open files keep our values"), "{:?}", recovered.refused);
            assert!(recovered.refused[0].ends_with(why), "{:?}", recovered.refused);
            assert_eq!(host.number::<u32>("/sys/a").expect("a number"), 256, "the device's own is back");
            journal = Journal::open(&host).expect("journal");
            assert!(journal.files.iter().eq([&entry]), "the other one is closed: {:?}", journal.files);
        }
        let seen = || Some(Sight { descriptors: true, ..Sight::default() });
        assert_eq!(recover(&mut Journal::open(&host).expect("journal"), seen(), MODE_RANDOM).files, 0, "advised since");
        journal.save().expect("saved");
        assert_eq!(recover(&mut journal, seen(), 0), Recovered { files: 1, ..Recovered::default() });
        assert!(Journal::open(&host).expect("journal").is_empty());
    }

    #[test]
    fn what_cannot_be_put_back_stays_in_the_journal_and_keeps_nothing_else_waiting() {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        host.stuck = Some("/sys/a");
        let mut journal = Journal::open(&host).expect("empty");
        for name in ["a", "b"] {
            host.replace(format!("/sys/{name}"), "8").expect("written");
            journal.note_device(&format!("/sys/{name}"), 128, 8);
        }
        let recovered = recover(&host, &mut journal).expect("recovered");
        assert_eq!(recovered.devices, [("/sys/b".to_owned(), 128)]);
        assert_eq!(recovered.refused.len(), 1, "{recovered:?}");
        let left = Journal::open(&host).expect("journal").devices;
        assert_eq!(left.iter().map(|entry| &entry.knob[..]).collect::<Vec<_>>(), ["/sys/a"]);
    }

    #[test]
    fn what_was_put_back_leaves_the_journal_of_a_full_file_system() {
        let root = tempfile::tempdir().expect("a directory");
        let mut host = Host::below(root.path());
        let note = |host: &Host| {
            let mut journal = Journal::open(host).expect("journal");
            for name in ["a", "b"] {
                host.replace(format!("/sys/{name}"), "8").expect("written");
                journal.note_device(&format!("/sys/{name}"), 128, 8);
            }
            journal.save().expect("saved");
        };
        for (stuck, left) in [(Some("/sys/a"), 1), (None, 0)] {
            (host.stuck, host.room) = (stuck, None);
            note(&host);
            // Since then it is full: there is the room that the journal has, and what it has set aside.
            host.room = Some(2 * std::fs::metadata(host.path("/run/linnet/tune/journal.json")).expect("there").len());
            let recovered = recover(&host, &mut Journal::open(&host).expect("journal")).expect("recovered");
            assert_eq!((recovered.devices.len(), recovered.refused.len()), (2 - left, left));
            // Another one sets the value that we had set.
            host.replace("/sys/b", "8").expect("written");
            let mut journal = Journal::open(&host).expect("journal");
            assert_eq!(journal.devices.len(), left);
            recover(&host, &mut journal).expect("recovered");
            assert_eq!(host.number::<u32>("/sys/b").expect("a number"), 8, "it is theirs");
        }
        // Earlier versions have set nothing aside. Where nothing is left, nothing need be written.
        host.room = None;
        note(&host);
        std::fs::remove_file(host.path("/run/linnet/tune/journal.spare")).expect("there");
        host.room = Some(0);
        let recovered = recover(&host, &mut Journal::open(&host).expect("journal")).expect("recovered");
        assert_eq!(recovered.devices.len(), 2);
        assert!(Journal::open(&host).expect("journal").is_empty());
    }

    #[test]
    fn after_a_crash_ours_goes_and_theirs_stays() {
        let root = tempfile::tempdir().expect("a directory");
        let host = Host::below(root.path());
        let mut journal = Journal::open(&host).expect("empty");
        for (name, now) in [("ours", 8), ("theirs", 512), ("same", 128)] {
            host.replace(format!("/sys/{name}"), &now.to_string()).expect("written");
            journal.note_device(&format!("/sys/{name}"), 128, 16);
            journal.note_device(&format!("/sys/{name}"), 128, 8);
        }
        journal.note_device("/sys/unplugged", 128, 8);
        journal.save().expect("saved");
        let mut journal = Journal::open(&host).expect("after the crash");
        let recovered = recover(&host, &mut journal).expect("recovered");
        assert_eq!(recovered.devices, [("/sys/ours".to_owned(), 128)]);
        assert_eq!(recovered.left, [("/sys/theirs".to_owned(), 512)]);
        let value = |name: &str| host.number::<u32>(name).expect("a number");
        assert_eq!((value("/sys/ours"), value("/sys/theirs")), (128, 512));
        assert!(Journal::open(&host).expect("journal").is_empty());
    }
}
