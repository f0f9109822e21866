// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what control groups show (`pool.rs`) to proposals for their files.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::apply::Key;
use crate::bdi::{Bdi, of_files};
use crate::feature::Features;
use crate::follow::Reads;
use crate::govern::Proposal;
use crate::observe::Counts;
use crate::pool::{Group, Pools, Turn};
use crate::rule::{Decider, page_kib};
use crate::track::Track;
use crate::tuner::IDLE;

/// A file that follows and was not read for so long gets its own value back: nobody knows how it will be read.
const FOLLOWING: Duration = Duration::from_secs(600);
/// Files begin to follow together, at most so often: the descriptors of all processes are listed for them. Where that takes
/// long, `SHARE` makes the pause longer.
const PAUSE: Duration = Duration::from_millis(100);
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
    /// The one before it.
    pub(crate) since: Duration,
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
            let reads = Reads {
                now: look.now,
                since: look.since,
                counts,
                verdict: &verdict,
                kib: track.governor.current_kib(),
                own_kib: track.governor.original_kib(),
                jump_pages: look.decider.jump_pages(),
                page_kib: page_kib(),
            };
            self.pools.note(&group, reads, &mut track.follower);
        }
    }

    /// Proposals for the files of groups that turned, but for those that have one of their `own`: files that were not
    /// read just now, where the group reads in order by now, and those that followed it, where they are to leave.
    pub(crate) fn turn(&mut self, look: Look, tracks: &mut HashMap<Key, Track>, own: &HashSet<Key>) -> Vec<Proposed> {
        let Look { now, demands, decider, bdis, .. } = look;
        let turned = self.pools.turned(now, demands, decider, IDLE);
        let turned: HashMap<&Group, &Turn> = turned.iter().map(|turn| (&turn.group, turn)).collect();
        let mut found = Vec::new();
        for (key, track) in tracks {
            let Some(bdi) = of_files(bdis, key.file.dev).filter(|_| !key.advised && !own.contains(key)) else {
                continue;
            };
            let turn = turned.get(&group_of(bdi, *key));
            if track.follower.follows() {
                let undone = turn.and_then(|turn| turn.undone.as_ref());
                if let Some(dismissal) = undone.filter(|one| track.follower.is_dismissed(one)) {
                    track.follower.leave(&dismissal.why);
                } else if now >= track.seen + FOLLOWING {
                    track.follower.leave("it was not read for ten minutes");
                }
            }
            let (kib, own_kib) = (track.governor.current_kib(), track.governor.original_kib());
            let ordered = turn.and_then(|turn| turn.ordered.as_ref()).filter(|_| track.seen < now);
            if let Some(proposal) = ordered.filter(|proposal| kib < proposal.to_kib) {
                let why = format!("files of its group are read in order now: {}", proposal.why);
                found.push((bdi.clone(), *key, Proposal { why, ..proposal.clone() }));
            } else if kib >= own_kib && (track.follower.follows() || track.follower.leaves().is_some()) {
                // It has its own value again, also where the group's turn to ordered reads raised it.
                track.follower.reset();
            } else if let Some(why) = track.follower.leaves().filter(|_| !track.governor.is_held(now)) {
                // Where it could not be set before, it is tried again.
                let why = why.to_owned();
                found.push((bdi.clone(), *key, Proposal { kind: "rollback", to_kib: own_kib, why, confidence: 1.0 }));
            }
        }
        found
    }

    /// True where a file that was last read so long ago may be forgotten: what it has is its own value.
    pub(crate) fn may_forget(track: &Track, unread: Duration) -> bool {
        !track.follower.follows() && (track.follower.leaves().is_none() || unread >= 2 * FOLLOWING)
    }

    /// Proposals for files that agree with their group, which reads at random, but for those that have one of their
    /// `own`.
    pub(crate) fn follow(&mut self, look: Look, tracks: &mut HashMap<Key, Track>, own: &HashSet<Key>) -> Vec<Proposed> {
        let Look { now, demands, decider, bdis, .. } = look;
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

    /// Setting files took so much processor time.
    pub(crate) fn note_took(&mut self, now: Duration, took: Duration) {
        self.follow_from = self.follow_from.max(now + took * SHARE);
    }
}
