// SPDX-License-Identifier: MIT OR Apache-2.0
//! What NFS clients count of their own accord, for everybody: the READ line of each mount in /proc/self/mountstats.

use std::collections::HashMap;

/// READ calls of one mount since it was mounted.
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
    let mut found = HashMap::new();
    let mut point = None;
    for line in text.lines() {
        if let Some(device) = line.strip_prefix("device ") {
            let nfs = device.contains(" with fstype nfs");
            point = device.split(" mounted on ").nth(1).and_then(|rest| rest.split(" with fstype ").next());
            point = point.filter(|_| nfs);
        }
        let (Some(point), Some(numbers)) = (point, line.trim_start().strip_prefix("READ:")) else { continue };
        // Calls, transmissions, time-outs, bytes sent, bytes received, time queued, round trip, whole time, errors.
        let numbers: Vec<u64> = numbers.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if let [calls, _, _, _, bytes, _, round_trip_ms, ..] = numbers[..] {
            found.insert(point.to_owned(), Reads { calls, bytes, round_trip_ms });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_line_of_each_nfs_mount() {
        let text = "device proc mounted on /proc with fstype proc\n\
            device 10.0.0.1:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n\
            \topts:\trw,vers=4.2\n\tper-op statistics\n\
            \t        NULL: 1 1 0 44 24 0 0 0 0\n\
            \t        READ: 100 100 0 20000 13107200 3 520 530 0\n\
            \t       WRITE: 7 7 0 1 2 3 4 5 0\n\
            device 10.0.0.1:/b mounted on /mnt/b with fstype nfs statvers=1.1\n\
            \t        READ: 0 0 0 0 0 0 0 0\n";
        let found = reads(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found["/mnt/a"], Reads { calls: 100, bytes: 13_107_200, round_trip_ms: 520 });
        assert_eq!(found["/mnt/b"], Reads::default());
    }
}
