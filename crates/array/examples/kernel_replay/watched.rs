// SPDX-License-Identifier: MIT OR Apache-2.0
//! The array's own policy, watched: what it is shown and what it says is noted, and where the kernel knew something else than any
//! one moment showed, it is overruled.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linnet_array::{Ask, Choice, Completion, Hedge, Learned, Policy, Submit};
use linnet_sim::Chance;

use crate::record::Known;

/// What passes between the replay and the policy that it watches.
#[derive(Default)]
pub struct Notes {
    /// The devices that the target being asked holds.
    pub devices: Range<usize>,
    /// The read may be revoked.
    pub tagged: bool,
    /// The target described its replicas to trees.
    pub by_trees: bool,
    /// Do this, whatever the policy thinks.
    pub forced: Option<Choice>,
    /// Cleared for each decision of a target.
    pub known: Vec<Known>,
    /// Devices, as bits, that the network called slow.
    pub slow: u64,
    /// Device that was chosen, though the read may be revoked there.
    pub chosen: usize,
    /// The target revokes the read.
    pub revoked: bool,
}

pub struct Watched {
    pub policy: Box<dyn Policy>,
    /// Judges what `policy` chose, where the target chooses among its replicas first and then may revoke the read.
    pub judge: Option<Box<dyn Policy>>,
    /// `policy` asks networks, in order.
    pub by_network: bool,
    pub learned: Vec<Learned>,
    pub notes: Arc<Mutex<Notes>>,
}

pub fn locked(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    fn known(&self, ask: &Ask<'_>, device: usize, by_trees: bool) -> Known {
        let view = &ask.devices[device];
        let (offset_bytes, size_bytes) = (ask.request.offset_bytes, ask.request.size_bytes);
        let score = match (&view.watch, &self.learned[device].trees) {
            (Some(watch), Some(trees)) if by_trees => {
                trees.score(&watch.describe(ask.now_ns, offset_bytes, size_bytes))
            }
            _ => 0,
        };
        Known { ewma_ns: view.ewma_ns, in_flight: view.in_flight.into(), score }
    }

    /// What the policy says, and then the judge of the device that it chose.
    fn ask(&mut self, ask: &Ask<'_>, tagged: bool, last: bool, chance: &mut Chance) -> (Choice, usize) {
        // Untagged, the target's last replica is not judged; tagged it is, for the application has more.
        let mut own = *ask;
        own.last |= last && !tagged;
        let choice = self.policy.choose(&own, chance);
        match (choice, &mut self.judge) {
            (Choice::Submit(submit), Some(judge)) if tagged && !submit.probe => {
                own.next = submit.replica;
                (judge.choose(&own, chance), submit.replica)
            }
            (Choice::Submit(submit), _) => (choice, submit.replica),
            (Choice::Revoke { .. }, _) => (choice, ask.next),
        }
    }
}

impl Policy for Watched {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn judges(&self) -> bool {
        self.policy.judges()
    }

    /// A revoke that the kernel decided on is none of the array's to refuse.
    fn learns(&self) -> bool {
        self.policy.learns() && locked(&self.notes).forced.is_none()
    }

    fn watches(&self) -> bool {
        self.policy.watches() || self.judge.is_some()
    }

    fn choose(&mut self, ask: &Ask<'_>, chance: &mut Chance) -> Choice {
        let shared = Arc::clone(&self.notes);
        let mut notes = locked(&shared);
        if notes.known.is_empty() {
            notes.known = notes.devices.clone().map(|device| self.known(ask, device, notes.by_trees)).collect();
        }
        let last = ask.next + 1 == notes.devices.end;
        let (choice, chosen) = match notes.forced {
            Some(forced) => (forced, ask.next),
            None => self.ask(ask, notes.tagged, last, chance),
        };
        notes.chosen = chosen;
        if matches!(choice, Choice::Revoke { .. }) {
            notes.slow |= u64::from(self.by_network) << ask.next;
            notes.revoked = last || self.judge.is_some();
        }
        choice
    }

    fn hedge(&mut self, _ask: &Ask<'_>) -> Hedge {
        Hedge::Never
    }

    fn completed(&mut self, done: &Completion) {
        self.policy.completed(done);
    }
}

/// What the kernel decided about a read, to overrule the policy with.
pub fn overruling(revoked: bool, device: usize, probe: bool) -> Choice {
    if revoked { Choice::Revoke { hedge_after: None } } else { Choice::Submit(Submit { probe, ..Submit::to(device) }) }
}
