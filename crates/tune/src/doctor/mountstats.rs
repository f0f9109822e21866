// SPDX-License-Identifier: MIT OR Apache-2.0
//! What NFS clients count of their own accord, for everybody: the reads of each mount in /proc/self/mountstats.

use std::collections::HashMap;

use crate::mounts::unescape;

/// READ calls of one mount since it was mounted, and READ_PLUS calls, which NFS 4.2 sends instead where the kernel has
/// them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    /// Calls.
    pub calls: u64,
    /// Bytes received, with a header of some hundred in each answer.
    pub bytes: u64,
    /// Sum of the times from call to answer, in milliseconds.
    pub round_trip_ms: u64,
}

/// READ calls by mount point. Of mounts over each other the topmost counts, which is listed last.
pub fn reads(text: &str) -> HashMap<String, Reads> {
    let mut found: HashMap<String, Reads> = HashMap::new();
    let mut point = None;
    for line in text.lines() {
        if let Some(device) = line.strip_prefix("device ") {
            let nfs = device.contains(" with fstype nfs");
            let name = device.split(" mounted on ").nth(1).and_then(|rest| rest.split(" with fstype ").next());
            point = name.filter(|_| nfs).map(unescape);
            if let Some(point) = &point {
                found.insert(point.clone(), Reads::default());
            }
        }
        let line = line.trim_start();
        let numbers = line.strip_prefix("READ:").or_else(|| line.strip_prefix("READ_PLUS:"));
        let (Some(numbers), Some(reads)) = (numbers, point.as_ref().and_then(|point| found.get_mut(point))) else {
            continue;
        };
        // Calls, transmissions, time-outs, bytes sent, bytes received, time queued, round trip, whole time, errors.
        let numbers: Vec<u64> = numbers.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if let [calls, _, _, _, bytes, _, round_trip_ms, ..] = numbers[..] {
            reads.calls = reads.calls.saturating_add(calls);
            reads.bytes = reads.bytes.saturating_add(bytes);
            reads.round_trip_ms = reads.round_trip_ms.saturating_add(round_trip_ms);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reads_of_each_nfs_mount() {
        let text = "device proc mounted on /proc with fstype proc\n\
            device 10.0.0.1:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n\
            \topts:\trw,vers=4.2\n\tper-op statistics\n\
            \t        NULL: 1 1 0 44 24 0 0 0 0\n\
            \t        READ: 100 100 0 20000 13107200 3 520 530 0\n\
            \t       WRITE: 7 7 0 1 2 3 4 5 0\n\
            \t   READ_PLUS: 10 10 0 2000 1310720 0 50 60 0\n\
            device 10.0.0.1:/b mounted on /mnt/b\\040c with fstype nfs statvers=1.1\n\
            \t        READ: 0 0 0 0 0 0 0 0\n";
        let found = reads(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found["/mnt/a"], Reads { calls: 110, bytes: 14_417_920, round_trip_ms: 570 });
        assert_eq!(found["/mnt/b c"], Reads::default());
    }
}
