// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems that are mounted only where this process does not see it: in a container, or in another mount namespace.
//! A disk is found by its number (`bdi.rs`). Of NFS and FUSE the kernel has the value by their number, too, but what they
//! are stands in the mounts alone, so their files keep their values.

use std::collections::BTreeSet;

use crate::bdi::{Bdi, numbered, of_files};
use crate::event::Event;
use crate::host::Host;
use crate::mounts::Dev;

/// Those that were told of.
#[derive(Debug, Default)]
pub(crate) struct Unseen(BTreeSet<Dev>);

impl Unseen {
    /// A note for each of `devs`, whose files are read, that is one and was not told of before.
    pub(crate) fn tell(&mut self, host: &Host, bdis: &[Bdi], devs: BTreeSet<Dev>) -> Vec<Event> {
        let is_one = |dev: &Dev| of_files(bdis, *dev).is_none() && numbered(host, *dev).is_some();
        let new = devs.into_iter().filter(is_one).filter(|dev| self.0.insert(*dev));
        let why = |dev| {
            format!(
                "files of file system {dev} are read and keep their values: it is mounted in another mount namespace, and \
                 not where this process sees it"
            )
        };
        new.map(|dev| Event::note("note", "", why(dev))).collect()
    }
}
