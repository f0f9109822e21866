// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a read waited for: other requests and internal work, or earlier parts of its own.

use linnet_types::Nanos;

use super::machine::Machine;
use super::read::Part;
use crate::cause::{Cause, Mechanism};

/// How a run of pages was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// From the write buffer: when its data was ready, and when it was on the link.
    Dram {
        ready: Nanos,
        link: Nanos,
        link_ns: Nanos,
    },
    Flash(Part),
}

impl Answer {
    /// When its data was on the link: from and until.
    fn on_link(&self) -> (Nanos, Nanos) {
        match *self {
            Answer::Dram { link, link_ns, .. } => (link, link + link_ns),
            Answer::Flash(part) => (part.link.start, part.link_end()),
        }
    }

    fn flash(&self) -> Option<&Part> {
        match self {
            Answer::Dram { .. } => None,
            Answer::Flash(part) => Some(part),
        }
    }
}

/// How much of the wait of a transfer, from `ready` until `start`, was for these transfers (from and until): the time
/// that they took, and the time before each that was too short for the one that waits.
fn waited_for(transfers: impl Iterator<Item = (Nanos, Nanos)>, (ready, start): (Nanos, Nanos), length: Nanos) -> Nanos {
    if start == ready {
        return 0;
    }
    let mut met: Vec<_> = transfers.filter(|&(from, until)| from < start && until > ready).collect();
    met.sort_unstable();
    let (mut at, mut wait_ns) = (ready, 0);
    for (from, until) in met {
        let gap_ns = from.saturating_sub(at);
        wait_ns += if gap_ns < length { gap_ns } else { 0 };
        let until = until.clamp(at, start);
        wait_ns += until - from.clamp(at, until);
        at = until;
    }
    wait_ns
}

impl Machine {
    /// What the read of [`Machine::answers`] waited for. The writes before it that have no room in the buffer held it for
    /// `held_ns`.
    pub fn explain(&self, held_ns: Nanos) -> Cause {
        let mut cause = Cause::default();
        cause.add(Mechanism::BufferFull, held_ns);
        let Some((last, earlier)) = self.answers.split_last() else { return cause };
        let ready = match last {
            Answer::Dram { ready, .. } => *ready,
            Answer::Flash(part) => {
                let parts = || earlier.iter().filter_map(Answer::flash);
                // Once a part has started on a die, no more than other parts of the read come before this one.
                let begun = parts().find(|other| other.die == part.die).map_or(part.start, |first| first.start);
                self.dies[part.die as usize].explain(part.arrive, begun, &mut cause);
                cause.add(Mechanism::OwnParts, part.start - begun);
                cause.add(Mechanism::Retry, part.retry_ns);
                cause.add(Mechanism::Rmw, part.second_ns);
                let sent = parts().filter(|other| other.channel == part.channel);
                let sent = sent.map(|other| (other.bus.start, other.bus_end()));
                let own_ns = waited_for(sent, (part.cell_end, part.bus.start), part.bus_ns);
                cause.add(Mechanism::OwnParts, own_ns);
                cause.add(Mechanism::Bus, part.bus.start - part.cell_end - own_ns);
                part.bus_end()
            }
        };
        let (link, until) = last.on_link();
        let own_ns = waited_for(earlier.iter().map(Answer::on_link), (ready, link), until - link);
        cause.add(Mechanism::OwnParts, own_ns);
        cause.add(Mechanism::Link, link - ready - own_ns);
        cause
    }
}
