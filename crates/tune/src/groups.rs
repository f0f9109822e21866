// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what control groups show (`pool.rs`) to proposals for their files.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::apply::Key;
use crate::bdi::{Bdi, of_files};
use crate::feature::Features;
use crate::govern::Proposal;
use crate::observe::Counts;
use crate::pool::{Group, Pools, Turn};
use crate::rule::Decider;
use crate::tuner::Track;

/// Groups without reads are forgotten after this long.
const IDLE: Duration = Duration::from_secs(60);
/// Files begin to follow together, so often: the descriptors of all processes are listed for them.
const PAUSE: Duration = Duration::from_millis(500);
/// Setting them may take one part of so many of the time.
const SHARE: u32 = 20;

/// A change of a file on a device.
pub(crate) type Proposed = (Bdi, Key, Proposal);

/// The control groups on all devices.
#[derive(Default)]
pub(crate) struct Groups {
    pools: Pools,
    follow_from: Duration,
}

/// One look, and what decides.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) now: Duration,
    /// The kernel tells which pages are demanded.
    pub(crate) demands: bool,
    pub(crate) decider: &'a dyn Decider,
    pub(crate) bdis: &'a [Bdi],
}

fn group_of(bdi: &Bdi, key: Key) -> Group {
    (bdi.name.clone(), key.cgroup)
}

impl Groups {
    /// Takes in what was read of a file on a device that had `kib` when it was first seen.
    pub(crate) fn add(&mut self, look: Look, bdi: &Bdi, key: Key, kib: u32, counts: &Counts, track: &mut Track) {
        let group = group_of(bdi, key);
        self.pools.add(&group, look.now, kib, counts);
        if let Some(verdict) = look.decider.decide(&Features::of(counts, look.demands)) {
            let kib = track.governor.current_kib();
            self.pools.note(&group, look.now, kib, counts, &verdict, &mut track.follower);
        }
    }

    /// Proposals for the files of groups that turned, but for those that have one of their `own`: files that were not
    /// read just now, where the group reads in order by now, and those that followed it, where they are to leave.
    pub(crate) fn turn(&mut self, look: Look, tracks: &mut HashMap<Key, Track>, own: &HashSet<Key>) -> Vec<Proposed> {
        let Look { now, demands, decider, bdis } = look;
        let turned: HashMap<Group, Turn> = self.pools.turned(now, demands, decider, IDLE).into_iter().collect();
        let mut found = Vec::new();
        for (key, track) in tracks {
            let Some(bdi) = of_files(bdis, key.file.dev).filter(|_| !key.advised && !own.contains(key)) else {
                continue;
            };
            let kib = track.governor.current_kib();
            match turned.get(&group_of(bdi, *key)) {
                Some(Turn::Ordered(proposal)) if track.seen < now && kib < proposal.to_kib => {
                    track.follower.reset();
                    let why = format!("files of its group are read in order now: {}", proposal.why);
                    found.push((bdi.clone(), *key, Proposal { why, ..proposal.clone() }));
                    continue;
                }
                Some(Turn::Undone(why)) if track.follower.follows() => track.follower.leave(why),
                _ => {}
            }
            // Where it could not be set before, it is tried again.
            let Some(why) = track.follower.leaves().filter(|_| !track.governor.is_held(now)) else { continue };
            let to_kib = track.governor.original_kib();
            if kib < to_kib {
                let why = why.to_owned();
                found.push((bdi.clone(), *key, Proposal { kind: "rollback", to_kib, why, confidence: 1.0 }));
            } else {
                track.follower.reset();
            }
        }
        found
    }

    /// Proposals for files that agree with their group, which reads at random, but for those that have one of their
    /// `own`.
    pub(crate) fn follow(&mut self, look: Look, tracks: &mut HashMap<Key, Track>, own: &HashSet<Key>) -> Vec<Proposed> {
        let Look { now, demands, decider, bdis } = look;
        let mut found = Vec::new();
        if now < self.follow_from {
            return found;
        }
        for (key, track) in tracks {
            if key.advised || own.contains(key) || track.governor.is_held(now) {
                continue;
            }
            let Some(bdi) = of_files(bdis, key.file.dev) else { continue };
            let (group, kib) = (group_of(bdi, *key), track.governor.current_kib());
            if let Some(proposal) = self.pools.follow(&group, now, kib, demands, decider, &mut track.follower) {
                found.push((bdi.clone(), *key, proposal));
            }
        }
        if !found.is_empty() {
            self.follow_from = now + PAUSE;
        }
        found
    }

    /// Setting files took so long.
    pub(crate) fn note_took(&mut self, now: Duration, took: Duration) {
        self.follow_from = self.follow_from.max(now + took * SHARE);
    }
}
