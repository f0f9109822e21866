// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of one device as the array knows it: the core's replica, counted at the host; the device reports nothing.

use std::ops::Deref;

use linnet_core::{Flight, Network, Replica};
use linnet_types::Nanos;

/// A device as the array sees it.
#[derive(Debug)]
pub struct DeviceView {
    pub(crate) replica: Replica,
    completed_ns: Nanos,
}

impl DeviceView {
    /// An idle device, with the features of `linnet-1` if it has an in-flight tracker, and with this network if one is
    /// given.
    pub(crate) fn new(
        inflection_ns: Nanos,
        tracked: bool,
        network: Option<&Network>,
    ) -> Result<DeviceView, linnet_core::Error> {
        let mut replica = Replica::new(inflection_ns, tracked);
        replica.set_network(network)?;
        Ok(DeviceView { replica, completed_ns: 0 })
    }

    /// Time of the last completion of a read or write.
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
