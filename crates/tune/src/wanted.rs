// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the operator named: a disk, a partition or a mount point. A name is resolved again whenever devices are listed: a
//! mount that comes back has another number, and another mount or disk may get the one that it had.

use std::collections::BTreeSet;

use crate::bdi::{Bdi, Kind, Meant, meant};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::journal::sequence;
use crate::mounts::{Dev, Mount};

/// A name, and what it means now.
pub(crate) struct Wanted {
    name: String,
    kind: Kind,
    /// None while nothing of its kind is called so.
    now: Option<Now>,
}

struct Now {
    meant: Meant,
    /// The kernel's own count of disks: another one for another disk of the same number.
    sequence: Option<u64>,
}

impl Now {
    fn find(host: &Host, bdis: &[Bdi], name: &str) -> Result<Now> {
        let meant = meant(host, bdis, name)?;
        meant.bdi.known()?;
        let sequence = sequence(host, &meant.bdi.knob(host));
        Ok(Now { meant, sequence })
    }

    /// In words: its number, and that of the disk.
    fn number(&self) -> String {
        let number = self.meant.dev.map_or_else(|| self.meant.bdi.name.clone(), |dev| dev.to_string());
        self.sequence.map_or_else(|| number.clone(), |sequence| format!("{number} of disk {sequence}"))
    }

    /// True for an NFS mount that lies over or under this one: both are read through one path.
    fn is_stacked_with(&self, bdi: &Bdi) -> bool {
        let is_here = |point: &str| bdi.mounts.iter().any(|mount| mount.point == point);
        let own = &self.meant.bdi;
        own.kind == Kind::Nfs && bdi.kind == Kind::Nfs && own.mounts.iter().any(|mount| is_here(&mount.point))
    }
}

impl Wanted {
    /// What `name` means among `bdis`, where its value is known.
    pub(crate) fn find(host: &Host, bdis: &[Bdi], name: &str) -> Result<Wanted> {
        let now = Now::find(host, bdis, name)?;
        Ok(Wanted { name: name.to_owned(), kind: now.meant.bdi.kind, now: Some(now) })
    }

    /// True for the files of file system `dev`, which `bdi` holds.
    pub(crate) fn has(&self, bdi: &Bdi, dev: Dev) -> bool {
        self.now.as_ref().is_some_and(|now| {
            let Meant { bdi: own, dev: only } = &now.meant;
            (bdi.name == own.name && only.is_none_or(|only| only == dev)) || now.is_stacked_with(bdi)
        })
    }

    /// The file systems that are meant; of a disk also those that may be mounted where this process does not see them.
    pub(crate) fn devs(&self, bdis: &[Bdi]) -> BTreeSet<Dev> {
        let all = bdis.iter().flat_map(|bdi| bdi.devs().into_iter().map(move |dev| (bdi, dev)));
        all.filter(|(bdi, dev)| self.has(bdi, *dev)).map(|(_, dev)| dev).collect()
    }

    /// Mounts of other file systems that have their readahead by the same value.
    fn others(&self) -> impl Iterator<Item = &Mount> {
        let meant = self.now.as_ref().map(|now| &now.meant);
        let of_disk = meant.and_then(|Meant { bdi, dev }| Some((bdi, (*dev)?)));
        of_disk.into_iter().flat_map(|(bdi, dev)| bdi.mounts.iter().filter(move |mount| mount.dev != dev))
    }

    /// True where other file systems have their readahead by the same value.
    pub(crate) fn is_shared(&self) -> bool {
        self.others().next().is_some()
    }

    /// Which they are, in words; None where there are none.
    pub(crate) fn shares(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        let points: Vec<&str> =
            self.others().filter(|mount| seen.insert(mount.dev)).map(|mount| &mount.point[..]).collect();
        let target = self.now.as_ref()?.meant.bdi.target();
        (!points.is_empty()).then(|| format!("{} shares the value of {target} with {}", self.name, points.join(", ")))
    }

    /// Looks again what the name means. What is to be told, where that is something else than before, or nothing.
    pub(crate) fn renew(&mut self, host: &Host, bdis: &[Bdi]) -> Option<String> {
        let name = &self.name;
        let found = Now::find(host, bdis, name).and_then(|now| match now.meant.bdi.kind {
            kind if kind == self.kind => Ok(now),
            kind => {
                let what = format!("is of another kind, {} and not {}", kind.name(), self.kind.name());
                Err(Error::Format { path: name.into(), what })
            }
        });
        let now = match found {
            Ok(now) => now,
            Err(error) => {
                let why = format!("nothing is tuned until {name} is there again: {error}");
                return self.now.take().map(|_| why);
            }
        };
        let told = match &self.now {
            None => Some(format!("{name} is there again, as {}", now.number())),
            Some(old) if old.number() == now.number() => None,
            // Our own mount over an NFS mount, or another one: the one below is still read.
            Some(old) if bdis.iter().any(|bdi| bdi.name == old.meant.bdi.name && now.is_stacked_with(bdi)) => None,
            Some(old) => Some(format!("{name} is {} now and no longer {}", now.number(), old.number())),
        };
        self.now = Some(now);
        told
    }
}

/// The file system to observe, where it is only one.
pub(crate) fn only(devs: &BTreeSet<Dev>) -> Option<Dev> {
    devs.first().copied().filter(|_| devs.len() == 1)
}
