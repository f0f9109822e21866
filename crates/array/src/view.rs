// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the array knows of one device: the core's replica, counted at the host; nothing is asked of the device.

use std::ops::Deref;

use linnet_core::{Flight, Network, Replica};
use linnet_types::Nanos;

/// A device, seen from the array.
#[derive(Debug)]
pub struct DeviceView {
    pub(crate) replica: Replica,
    completed_ns: Nanos,
}

impl DeviceView {
    /// An idle device, with the features of `linnet-1` when it has an in-flight tracker, and with this network at work.
    pub(crate) fn new(
        inflection_ns: Nanos,
        tracked: bool,
        network: Option<&Network>,
    ) -> Result<DeviceView, linnet_core::Error> {
        let mut replica = Replica::new(inflection_ns, tracked);
        replica.set_network(network)?;
        Ok(DeviceView { replica, completed_ns: 0 })
    }

    /// When something last completed, reads and writes.
    pub fn completed_ns(&self) -> Nanos {
        self.completed_ns
    }

    pub(crate) fn complete(&mut self, flight: &Flight, now: Nanos) -> Nanos {
        self.completed_ns = now;
        self.replica.complete(flight, now)
    }
}

impl Deref for DeviceView {
    type Target = Replica;

    fn deref(&self) -> &Replica {
        &self.replica
    }
}
