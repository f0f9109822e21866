// SPDX-License-Identifier: MIT OR Apache-2.0
//! The policies that use the core's decision (`linnet_core::Decision`), as the kernel's target does.
//!
//! **baseline**, **shortest-queue**, **ewma-inflight** and **linnet-best** compare all candidates and submit to the one
//! that `core/choose.c` prefers. They revoke nothing. For stalls that no host can predict, such as one busy die,
//! linnet-best uses a hedge: a read that is overdue (`core/hedge.c`) is sent again, to the best of the other replicas.
//!
//! **ewma-hedged** is linnet-best without trees, and **trees-only** is linnet-best without the hedge. They show what
//! each of the two is worth.
//!
//! **linnos**, **linnos+hl**, **linnos+h99** and **linnet+hl** ask the replicas in order, starting at the primary, like
//! a host that cannot see all replicas at once, or a kernel that may only revoke. If the prediction is slow, the read
//! is revoked and the next replica is asked after the failover. If it is fast, the read is submitted. At the last
//! replica the read is submitted without a prediction.
//!
//! - The three of LinnOS (OSDI'20, sections 4 and 5.3) use a network per device. The hedging forms send a second copy
//!   if a submitted read has not answered after the device's delay: the percentile min(95, 100 - false submits) of read
//!   latency for +hl (section 4.4), the 99th for +h99 (section 5.5). It is sent to the replica whose network gives the
//!   lowest score for slow among those that do not hold the read.
//! - linnet+hl uses the trees. A submitted read is hedged once its latency exceeds the 95th percentile that is
//!   predicted from its own score (`linnet_core::Latencies`): early if a fast answer was expected, late if a slow one
//!   was. Without such a table, it is hedged after the hedge delay of its thresholds. The copy is sent where
//!   linnet-best would send it, and reads earn its budget as they do there. Reads of a device without trees are
//!   submitted and not hedged.

use super::{DeviceModel, hedging_of};
use crate::policy::bits;
use crate::{Ask, Choice, Completion, Hedge, Policy, Submit};
use linnet_core::{
    Answer, Asked, Budget, Decision, Hedging, INFLIGHT_FEATURES, Latencies, Network, Question, Settings, Trees,
};
use linnet_sim::Chance;
use linnet_types::Nanos;

/// The quantile of [`linnet_core::LATENCY_SHARES`] after which a read is hedged: the 95th percentile.
const PATIENCE: usize = 2;

/// The candidates of a decision, and the models that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    All,
    NextNetwork,
    NextTrees,
}

/// The trees' score of a read, and the features it was computed from.
type Seen = (i32, [u8; INFLIGHT_FEATURES]);

pub(crate) struct Core {
    name: &'static str,
    policy: linnet_core::Policy,
    asks: Asks,
    networks: Vec<Option<Network>>,
    trees: Vec<Option<Trees>>,
    /// The trees are constants: every read has the score 0, and no features are needed.
    constant: bool,
    latencies: Vec<Option<Latencies>>,
    /// Hedge delay of each device.
    hedge_ns: Vec<Option<Nanos>>,
    /// Hedging of the array: the delay of linnet-best, and the budget for hedges of trees.
    hedging: Option<Hedging>,
    decision: Decision,
}

impl Core {
    /// Compares all candidates by the averages.
    pub(crate) fn averages(name: &'static str, policy: linnet_core::Policy) -> Core {
        Core {
            name,
            policy,
            asks: Asks::All,
            networks: Vec::new(),
            trees: Vec::new(),
            constant: false,
            latencies: Vec::new(),
            hedge_ns: Vec::new(),
            hedging: None,
            decision: Decision::new(),
        }
    }

    /// linnet-best.
    pub(crate) fn best(learned: &[DeviceModel], settings: &Settings) -> Core {
        Core {
            trees: learned.iter().map(|device| device.trees).collect(),
            hedging: Some(hedging_of(learned, settings)),
            ..Core::averages("linnet-best", linnet_core::Policy::Best)
        }
    }

    /// linnet-best without its trees: the same averages, probe and hedge, no model.
    pub(crate) fn ewma_hedged(learned: &[DeviceModel], settings: &Settings) -> Core {
        let constant = Trees::new(&[], 0).ok();
        Core {
            name: "ewma-hedged",
            trees: vec![constant; learned.len()],
            constant: true,
            ..Core::best(learned, settings)
        }
    }

    /// linnet-best without its hedge.
    pub(crate) fn trees_only(learned: &[DeviceModel], settings: &Settings) -> Core {
        Core { name: "trees-only", hedging: None, ..Core::best(learned, settings) }
    }

    /// One of the three of LinnOS.
    pub(crate) fn linnos(name: &'static str, networks: Vec<Option<Network>>, hedge_ns: Vec<Option<Nanos>>) -> Core {
        let asks = Asks::NextNetwork;
        Core { networks, hedge_ns, asks, ..Core::averages(name, linnet_core::Policy::Linnos) }
    }

    /// linnet+hl.
    pub(crate) fn trees(learned: &[DeviceModel], hedge_ns: Vec<Option<Nanos>>, settings: &Settings) -> Core {
        Core {
            name: "linnet+hl",
            asks: Asks::NextTrees,
            latencies: learned.iter().map(|device| device.predictions.latencies).collect(),
            hedge_ns,
            hedging: Some(Hedging::new(settings, None)),
            ..Core::best(learned, settings)
        }
    }

    /// The trees' score of this read on the device, and the features it was computed from.
    fn look(&self, ask: &Ask<'_>, device: usize) -> Option<Seen> {
        let trees = self.trees.get(device)?.as_ref()?;
        let features = ask.devices[device].features(trees.schema(), ask.now_ns, ask.request)?;
        Some((trees.score(&features), features))
    }

    /// How long a read that is submitted to the first candidate may take before it is hedged.
    #[inline]
    fn patience_ns(&self, ask: &Ask<'_>, seen: &Option<Seen>) -> Option<Nanos> {
        match self.asks {
            Asks::All => self.hedging.as_ref()?.delay_ns(),
            Asks::NextNetwork => self.hedge_ns[ask.next],
            Asks::NextTrees => {
                let (score, features) = seen.as_ref()?;
                let table = self.latencies[ask.next].as_ref();
                table.map(|table| table.predict(*score, features)[PATIENCE].into()).or(self.hedge_ns[ask.next])
            }
        }
    }

    fn question(&self, ask: &Ask<'_>, usable: u8, may_revoke: bool) -> Question {
        Question {
            now_ns: ask.now_ns,
            replicas: ask.replicas.len(),
            usable,
            trees: those_with(ask, &self.trees),
            networks: those_with(ask, &self.networks),
            may_revoke,
        }
    }

    fn describe(&mut self, ask: &Ask<'_>, usable: u8) {
        for k in bits(usable) {
            ask.devices[ask.device(k)].describe(ask.now_ns, self.decision.describe(k));
        }
    }

    /// Asks the trees of the k-th replica, if `seen` does not say what they answer.
    fn ask_trees(&mut self, ask: &Ask<'_>, k: usize, seen: &Option<Seen>) {
        let device = ask.device(k);
        let score = seen.or_else(|| self.look(ask, device)).map(|(score, _)| score);
        if let (Some(score), Some(trees)) = (score, &self.trees[device]) {
            self.decision.describe(k).scored(score, trees);
        }
    }

    /// The core's decision. `seen` is the known score of the first candidate.
    fn decide(
        &mut self,
        ask: &Ask<'_>,
        seen: &Option<Seen>,
        usable: u8,
        may_revoke: bool,
        revokes: &mut Budget,
    ) -> Answer {
        let question = self.question(ask, usable, may_revoke);
        self.decision.begin(ask.settings, &question);
        self.describe(ask, usable);
        while let Some(asked) = self.decision.next_to_ask(ask.settings, revokes) {
            match asked {
                Asked::Trees(k) => self.ask_trees(ask, k, seen),
                Asked::Network(k) => {
                    ask.devices[ask.device(k)].ask(ask.request.size_bytes, self.decision.describe(k));
                }
            }
        }
        self.decision.answer()
    }
}

/// The replicas for which `of` has an entry.
fn those_with<T>(ask: &Ask<'_>, of: &[Option<T>]) -> u8 {
    if of.is_empty() {
        return 0;
    }
    (0..ask.replicas.len()).map(|k| u8::from(of[ask.device(k)].is_some()) << k).sum()
}

impl Policy for Core {
    fn name(&self) -> &str {
        self.name
    }

    fn predicts(&self) -> bool {
        self.asks != Asks::All
    }

    fn tracks_inflight(&self) -> bool {
        !self.constant && self.trees.iter().any(Option::is_some)
    }

    fn network(&self, device: usize) -> Option<&Network> {
        self.networks.get(device)?.as_ref()
    }

    fn settings(&self, given: Settings) -> Settings {
        if self.asks != Asks::NextNetwork {
            return Settings { policy: self.policy, ..given };
        }
        // LinnOS revokes whatever its network calls slow, however old the last answer is (sections 3 and 4). It is asked for
        // as few probes as the other policies.
        let age_ns = given.age_ns.saturating_mul(u64::from(given.probe_ages));
        Settings { policy: self.policy, age_ns, ..given }
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, revokes: &mut Budget) -> Choice {
        let usable =
            if self.asks == Asks::All { ask.candidates } else { ask.candidates & ask.candidates.wrapping_neg() };
        let may_revoke = self.asks != Asks::All && !ask.last;
        let seen = if self.asks == Asks::NextTrees { self.look(ask, ask.next) } else { None };
        let hedge_after = self.patience_ns(ask, &seen);
        if ask.settings.decides_nothing(usable, may_revoke) {
            return Choice::Submit(Submit::to(ask.next).hedged(hedge_after));
        }
        let answer = self.decide(ask, &seen, usable, may_revoke, revokes);
        // Expired scores of trees are not wanted revokes; expired slow predictions of a network are, and lead to a
        // probe.
        ask.carry_out(&answer, hedge_after, self.asks == Asks::NextNetwork)
    }

    fn budgets_hedges(&self) -> bool {
        self.hedging.is_some()
    }

    fn sent_hedgeable(&mut self, settings: &Settings) {
        if let Some(hedging) = &mut self.hedging {
            hedging.earn(settings);
        }
    }

    fn hedge_due(&self, sent_ns: Nanos) -> Option<Nanos> {
        self.hedging.as_ref()?.due_ns(sent_ns)
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        if let Some(hedging) = &mut self.hedging {
            if !hedging.ask(ask.settings, &ask.known()) {
                return Hedge::Never;
            }
            let question = self.question(ask, ask.candidates, false);
            self.decision.begin_copy(ask.settings, &question);
            self.describe(ask, ask.candidates);
            while let Some(k) = self.decision.next_of_copy() {
                self.ask_trees(ask, k, &None);
            }
            return self.decision.copy().map_or(Hedge::Never, |k| Hedge::To(ask.device(k)));
        }
        Hedge::To(ask.least(|device| {
            let view = &ask.devices[device];
            (view.network_score(ask.request.size_bytes).unwrap_or(0), view.expected_ns())
        }))
    }

    fn completed(&mut self, done: &Completion) {
        if let Some(hedging) = self.hedging.as_mut().filter(|_| done.in_time) {
            hedging.answered(done.latency_ns);
        }
    }
}
