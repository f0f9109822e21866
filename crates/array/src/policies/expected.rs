// SPDX-License-Identifier: MIT OR Apache-2.0
//! **linnet-expected**: the replica with the lowest expected latency, where `linnet-best` takes the lowest odds of a
//! slow read times the wait.
//!
//! Each device keeps the moving averages F of its fast reads and S of its slow ones, below and above its inflection
//! point, and a read that is slow with probability p, by its trees, is expected to take
//!
//! > (F + p (S - F)) x sqrt(I/Os in flight + 1)
//!
//! F and S are latencies of reads that met the queues of their time, and the trees see the queue, too. So the queue
//! counts by less than in EWMA x (I/Os in flight + 1), which counts it as if the averages came from an idle device. The
//! exponent was chosen on tuning seeds (`linnet/studies/split.toml`).
//!
//! A device that has answered few reads is judged by the averages as in `ewma-inflight`, and so are all while one of them
//! has no trees.
//! Probe and hedge are those of linnet-best. User space only: the kernel's decision has no such averages.
//!
//! On an array of different devices the trees of all predict one event (`linnet_learn::SlowAbove`), so there p is not
//! the share of reads above the device's own inflection point. With such trees linnet-best is as good
//! (docs/results/worth.md).

use super::{DeviceModel, hedging_of};
use crate::{Ask, Choice, Completion, Hedge, Policy, Submit};
use linnet_core::{Budget, Hedging, Settings, TREE_ONE, Trees};
use linnet_sim::Chance;
use linnet_types::{Nanos, is_slow};

/// Weight of a new read: about the last 64 fast reads count, and the last 64 slow ones.
const NEW_SHARE: f64 = 1.0 / 64.0;
/// Reads after which the averages of a device are used.
const READS_MIN: u32 = 8;
/// Before a slow read has completed, slow ones are taken to last this many times the inflection point.
const SLOW_AT_FIRST: f64 = 2.0;

pub(crate) struct Expected {
    devices: Vec<Averages>,
    hedging: Hedging,
}

struct Averages {
    trees: Option<Trees>,
    inflection_ns: Nanos,
    reads: u32,
    fast_ns: f64,
    slow_ns: f64,
}

impl Averages {
    fn of(model: &DeviceModel) -> Averages {
        let inflection_ns = model.thresholds.inflection_ns;
        let slow_ns = SLOW_AT_FIRST * inflection_ns as f64;
        Averages { trees: model.trees, inflection_ns, reads: 0, fast_ns: 0.0, slow_ns }
    }

    fn completed(&mut self, latency_ns: Nanos) {
        let slow = is_slow(latency_ns, self.inflection_ns);
        let latency_ns = latency_ns as f64;
        if self.reads == 0 {
            self.fast_ns = latency_ns.min(self.inflection_ns as f64 / 2.0);
        }
        self.reads = self.reads.saturating_add(1);
        let average = if slow { &mut self.slow_ns } else { &mut self.fast_ns };
        *average += NEW_SHARE * (latency_ns - *average);
    }
}

impl Expected {
    pub(crate) fn new(learned: &[DeviceModel], settings: &Settings) -> Expected {
        Expected { devices: learned.iter().map(Averages::of).collect(), hedging: hedging_of(learned, settings) }
    }

    /// What the read is expected to take on the device, in ns, and whether its trees say so.
    fn expected_ns(&self, ask: &Ask<'_>, device: usize) -> (f64, Option<i32>) {
        let view = &ask.devices[device];
        let own = &self.devices[device];
        let score = own.trees.as_ref().filter(|_| own.reads >= READS_MIN && own.inflection_ns > 0).and_then(|trees| {
            let features = view.features(trees.schema(), ask.now_ns, ask.request)?;
            Some(trees.score(&features))
        });
        let Some(score) = score else {
            return (view.expected_ns() as f64, None);
        };
        let slow_share = 1.0 / (1.0 + (-f64::from(score) / f64::from(TREE_ONE)).exp());
        let alone_ns = own.fast_ns + slow_share * (own.slow_ns - own.fast_ns);
        (alone_ns * (f64::from(view.in_flight()) + 1.0).sqrt(), Some(score))
    }

    /// The candidate that is expected to answer first, and the score of its trees.
    fn best(&self, ask: &Ask<'_>) -> (usize, Option<i32>) {
        if ask.candidates().any(|device| self.devices[device].trees.is_none()) {
            return (ask.preferred(linnet_core::Policy::EwmaInflight, |_| None), None);
        }
        let expected = ask.candidates().map(|device| (device, self.expected_ns(ask, device)));
        let first = expected.min_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b));
        first.map_or((ask.next, None), |(device, (_, score))| (device, score))
    }
}

impl Policy for Expected {
    fn name(&self) -> &str {
        "linnet-expected"
    }

    fn tracks_inflight(&self) -> bool {
        self.devices.iter().any(|device| device.trees.is_some())
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        let forgotten = ask.forgotten().next().filter(|_| ask.count() > 1);
        let (chosen, score) = forgotten.map_or_else(|| self.best(ask), |device| (device, None));
        Choice::Submit(Submit {
            probe: forgotten.is_some(),
            predicted_fast: score.is_some_and(|score| score < 0),
            ..Submit::to(chosen).hedged(self.hedging.delay_ns())
        })
    }

    fn budgets_hedges(&self) -> bool {
        true
    }

    fn sent_hedgeable(&mut self, settings: &Settings) {
        self.hedging.earn(settings);
    }

    fn hedge_due(&self, sent_ns: Nanos) -> Option<Nanos> {
        self.hedging.due_ns(sent_ns)
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        if self.hedging.ask(ask.settings, &ask.known()) { Hedge::To(self.best(ask).0) } else { Hedge::Never }
    }

    fn completed(&mut self, done: &Completion) {
        if done.in_time {
            self.hedging.answered(done.latency_ns);
        }
        if done.op.is_read() {
            self.devices[done.device].completed(done.latency_ns);
        }
    }
}
