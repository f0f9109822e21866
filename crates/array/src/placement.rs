// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placement of data: which devices hold the data of a stream, in the order in which they are asked.
//!
//! A placement is a table. Stream `s` is on the devices of row `s mod rows`, the primary first. With one row per
//! tenant, and matching stream numbers, it is a placement of tenants.

use crate::{Error, REPLICAS_MAX};

/// Which devices hold the data of each stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Rows of `replicas` devices, concatenated.
    devices: Vec<u32>,
    rows: usize,
    replicas: usize,
}

impl Placement {
    /// One row for each device: the device itself as the primary, then the devices after it, wrapping around.
    ///
    /// # Panics
    /// Without devices.
    pub fn consecutive(devices: usize, replicas: usize) -> Placement {
        assert!(devices > 0, "a placement without devices");
        let row = |primary: usize| (primary..primary + replicas).map(move |device| (device % devices) as u32);
        Placement { devices: (0..devices).flat_map(row).collect(), rows: devices, replicas }
    }

    /// A placement with these rows. Each lists the devices of its streams, the primary first.
    ///
    /// # Errors
    /// No rows, rows of different lengths, and a row with no device, too many devices, or one device twice.
    pub fn new(rows: &[Vec<usize>]) -> Result<Placement, Error> {
        let refuse = |value: String, expected: String| Err(Error::Setting { field: "placement", value, expected });
        let Some(first) = rows.first() else { return refuse("empty".into(), "give at least one row".into()) };
        for (number, row) in rows.iter().enumerate() {
            let value = format!("{row:?} in row {number}");
            if row.len() != first.len() {
                return refuse(value, format!("give {} devices, as in row 0", first.len()));
            }
            if row.is_empty() || row.len() > REPLICAS_MAX {
                return refuse(value, format!("give 1 to {REPLICAS_MAX} devices"));
            }
            if let Some(twice) = (1..row.len()).find(|&k| row[..k].contains(&row[k])) {
                return refuse(value, format!("give each device once; {} stands there twice", row[twice]));
            }
            if let Some(device) = row.iter().find(|&&device| u32::try_from(device).is_err()) {
                return refuse(value, format!("device {device} cannot be"));
            }
        }
        let devices = rows.iter().flatten().map(|&device| device as u32).collect();
        Ok(Placement { devices, rows: rows.len(), replicas: first.len() })
    }

    /// Refuses a placement that does not fit this number of devices and replicas.
    pub(crate) fn check(&self, devices: usize, replicas: usize) -> Result<(), Error> {
        let refuse = |value: String, expected: String| Err(Error::Setting { field: "placement", value, expected });
        if self.replicas != replicas {
            return refuse(format!("of {} devices to a row", self.replicas), format!("`replicas` is {replicas}"));
        }
        match self.devices.iter().position(|&device| device as usize >= devices) {
            Some(at) => refuse(
                format!("device {} in row {}", self.devices[at], at / replicas),
                format!("the array has the devices 0 to {}", devices - 1),
            ),
            None => Ok(()),
        }
    }

    /// Rows of the table.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The row that holds a stream.
    pub fn row_of(&self, stream: usize) -> usize {
        stream % self.rows
    }

    /// The devices of a row, the primary first.
    pub fn devices(&self, row: usize) -> &[u32] {
        &self.devices[row * self.replicas..(row + 1) * self.replicas]
    }

    /// The k-th device of a row.
    pub(crate) fn device(&self, row: u32, k: usize) -> usize {
        self.devices[row as usize * self.replicas + k] as usize
    }

    /// The index of a device in its row.
    pub(crate) fn replica(&self, row: u32, device: usize) -> Option<usize> {
        self.devices(row as usize).iter().position(|&own| own as usize == device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_lie_on_consecutive_devices_by_default() {
        let placement = Placement::consecutive(4, 3);
        for stream in 0..40 {
            let row = placement.row_of(stream) as u32;
            for k in 0..3 {
                assert_eq!(placement.device(row, k), (stream % 4 + k) % 4);
                assert_eq!(placement.replica(row, (stream + k) % 4), Some(k));
            }
            assert_eq!(placement.replica(row, (stream + 3) % 4), None);
        }
        assert_eq!(placement.check(4, 3), Ok(()));
    }

    #[test]
    fn wrong_placements_are_refused_with_their_row() {
        let told = |rows: &[Vec<usize>]| Placement::new(rows).expect_err("refused").to_string();
        assert!(told(&[]).contains("give at least one row"));
        assert!(
            told(&[vec![0, 1], vec![2]]).contains("[2] in row 1: give 2 devices"),
            "{}",
            told(&[vec![0, 1], vec![2]])
        );
        assert!(told(&[vec![]]).contains("[] in row 0: give 1 to 8 devices"));
        assert!(told(&[(0..9).collect()]).contains("give 1 to 8 devices"));
        assert!(Placement::new(&[(0..8).collect()]).is_ok());
        let most = u32::MAX as usize;
        assert!(told(&[vec![most + 1]]).contains("cannot be"));
        assert_eq!(Placement::new(&[vec![most]]).map(|placement| placement.device(0, 0)), Ok(most));
        assert!(told(&[vec![0, 1, 0]]).contains("0 stands there twice"));
        let placement = Placement::new(&[vec![2, 0], vec![1, 5]]).expect("a table");
        assert!(placement.check(5, 2).expect_err("no such device").to_string().contains("device 5 in row 1"));
        assert!(placement.check(6, 3).expect_err("too few").to_string().contains("`replicas` is 3"));
        assert_eq!((placement.check(6, 2), placement.devices(0), placement.rows()), (Ok(()), &[2, 0][..], 2));
        let error = placement.check(2, 2).expect_err("no such device").to_string();
        assert!(error.contains("device 2 in row 0: the array has the devices 0 to 1"), "{error}");
    }
}
