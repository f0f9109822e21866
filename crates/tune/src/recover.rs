// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts back what the journal says is changed: at the start after a crash, and by `linnet tune restore`.

use crate::error::Result;
use crate::host::Host;
use crate::journal::Journal;
use crate::nfs::overmount;
use crate::openfile;

/// What was put back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Devices, with the value that stands now.
    pub devices: Vec<(String, u32)>,
    /// Devices whose value is neither ours nor the one from before: somebody else's, left as it is.
    pub left: Vec<(String, u32)>,
    /// Open files.
    pub files: usize,
    /// Where a mount of ours was taken off.
    pub mounts: Vec<String>,
}

/// Puts everything in the journal back. The caller holds the lock.
pub fn recover(host: &Host, journal: &mut Journal) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for entry in std::mem::take(&mut journal.devices) {
        // A device may be gone since.
        let Ok(now) = host.number::<u32>(&entry.knob) else { continue };
        if entry.written_kib.contains(&now) && now != entry.original_kib {
            host.write(&entry.knob, &entry.original_kib.to_string())?;
            recovered.devices.push((entry.knob, entry.original_kib));
        } else if now != entry.original_kib {
            recovered.left.push((entry.knob, now));
        }
    }
    recovered.files = openfile::restore(host, journal)?;
    while let Some(point) = journal.mounts.last().map(|entry| entry.point.clone()) {
        if overmount::take_off(host, journal, &point) {
            recovered.mounts.push(point);
        }
    }
    journal.save()?;
    Ok(recovered)
}

#[cfg(test)]
mod tests {
    use super::*;

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
