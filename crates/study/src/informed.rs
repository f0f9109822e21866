// SPDX-License-Identifier: MIT OR Apache-2.0
//! linnet-best with foresight in the place of its trees: what its rule would gain from a model of a given accuracy.
//!
//! At every decision each candidate is asked whether this read would be slow there, by a peek. The score is what a
//! calibrated model would say that knows something of its own: the log-odds of a slow read are normal with the means
//! +d^2/2 for reads that will be slow and -d^2/2 for fast ones, both with the variance d^2, so that the area under the ROC
//! curve (AUC) is Phi(d / sqrt 2), plus the log-odds of the share of slow reads on the device. Averages, weight of the
//! queue, probe and hedge are those of linnet-best.
//!
//! What it says is independent of all that the averages and queues say already, and its errors are independent from read
//! to read. Of a real model neither is true. So the AUC of what the rule compares in the end, wait and score together, is
//! recorded, too; with the trees of linnet-best in the place of foresight it says what these add to the wait.

use std::sync::{Arc, Mutex, PoisonError};

use linnet_array::{Ask, Choice, Completion, Hedge, Policy, Submit};
use linnet_core::{Budget, Hedging, Schema, Settings, TREE_ONE, Trees, bucket};
use linnet_measure::roc_auc;
use linnet_sim::Chance;
use linnet_types::{Nanos, Outcome, is_slow};

/// Log-odds are kept within this, as a model of finite size would.
const ODDS_MAX: f64 = 20.0;
/// Weight of a new peek in the share of slow reads: about the last 1,024 count.
const NEW_SHARE: f64 = 1.0 / 1024.0;
/// The share of slow reads before the first.
const SHARE_AT_FIRST: f64 = 0.05;
/// The log-odds of a device that owes an answer.
const OVERDUE_ODDS: i32 = 4;
/// The feature that is the age of the oldest read in flight, and its unit (`spec/features-linnet.md`).
const OLDEST: (usize, Nanos) = (4, 2_048);
/// linnet-best counts lower odds as these (`spec/decision.md`).
const LEAST_ODDS: f64 = -2.0;

/// Where the scores come from.
pub enum Scores {
    /// Foresight with errors; this is d, infinite if every answer is right.
    Foresight(f64),
    /// The trees of each device, as in linnet-best.
    Trees(Vec<Option<Trees>>),
    /// No model: a device whose oldest read in flight is older than the hedge delay of the array has odds of e^4, any
    /// other the least that count.
    Overdue,
}

/// What the policy compared, and whether the read would have been slow, for each candidate of each read.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    measures: Vec<f64>,
    slow: Vec<bool>,
}

impl Compared {
    /// The probability that a candidate where the read would be slow has a higher measure than one where it would be
    /// fast, of all reads; `None` if all are alike.
    pub fn auc(&self) -> Option<f64> {
        roc_auc(&self.measures, &self.slow)
    }

    /// The share of candidates where the read would be slow.
    pub fn slow_share(&self) -> f64 {
        self.slow.iter().filter(|&&slow| slow).count() as f64 / self.slow.len().max(1) as f64
    }
}

/// The policy.
pub struct Informed {
    scores: Scores,
    slow_above_ns: Vec<Nanos>,
    slow_share: Vec<f64>,
    hedging: Hedging,
    chance: Chance,
    warm_up_ns: Nanos,
    compared: Arc<Mutex<Compared>>,
}

impl Informed {
    /// For devices on which a read above these latencies is slow; `hedging` is that of linnet-best. The second value gives
    /// access to what was compared for reads that arrived after `warm_up_ns`.
    pub fn new(
        scores: Scores,
        slow_above_ns: Vec<Nanos>,
        hedging: Hedging,
        seed: u64,
        warm_up_ns: Nanos,
    ) -> (Informed, Arc<Mutex<Compared>>) {
        let compared = Arc::new(Mutex::new(Compared::default()));
        let policy = Informed {
            scores,
            slow_share: vec![SHARE_AT_FIRST; slow_above_ns.len()],
            slow_above_ns,
            hedging,
            chance: Chance::new(seed),
            warm_up_ns,
            compared: compared.clone(),
        };
        (policy, compared)
    }

    fn slow(&self, ask: &Ask<'_>, device: usize) -> bool {
        let limit_ns = self.slow_above_ns[device];
        let until = ask.now_ns.saturating_add(limit_ns).saturating_add(1);
        match ask.outlook.peek_until(device, ask.now_ns, ask.request, until) {
            Some(Outcome::Done(at)) => is_slow(at.saturating_sub(ask.now_ns), limit_ns),
            _ => true,
        }
    }

    /// The score of this read on a device where it would be slow, or would not.
    fn score(&mut self, ask: &Ask<'_>, device: usize, slow: bool) -> i32 {
        let distance = match &self.scores {
            Scores::Foresight(distance) => *distance,
            Scores::Trees(trees) => {
                let found = trees[device].as_ref().and_then(|trees| {
                    let features = ask.devices[device].features(trees.schema(), ask.now_ns, ask.request)?;
                    Some(trees.score(&features))
                });
                return found.unwrap_or(0);
            }
            Scores::Overdue => {
                let features = ask.devices[device].features(Schema::Linnet1, ask.now_ns, ask.request);
                let oldest = features.map_or(0, |features| features[OLDEST.0]);
                let late = self.hedging.delay_ns().is_some_and(|delay_ns| oldest > bucket(delay_ns / OLDEST.1));
                return if late { OVERDUE_ODDS * TREE_ONE } else { LEAST_ODDS as i32 * TREE_ONE };
            }
        };
        let share = &mut self.slow_share[device];
        *share += NEW_SHARE * (f64::from(u8::from(slow)) - *share);
        let prior = (*share / (1.0 - *share)).ln();
        let odds = prior + evidence(distance, slow, &mut self.chance);
        (odds.clamp(-ODDS_MAX, ODDS_MAX) * f64::from(TREE_ONE)) as i32
    }

    /// The candidate that linnet-best prefers by these scores, and its score.
    fn best(&mut self, ask: &Ask<'_>, records: bool) -> (usize, i32) {
        let mut scores = vec![0; self.slow_above_ns.len()];
        for device in ask.candidates() {
            let slow = self.slow(ask, device);
            scores[device] = self.score(ask, device, slow);
            if records {
                let odds = (f64::from(scores[device]) / f64::from(TREE_ONE)).max(LEAST_ODDS);
                let wait_ns = ask.devices[device].expected_ns().max(1) as f64;
                let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
                compared.measures.push(wait_ns.ln() + odds);
                compared.slow.push(slow);
            }
        }
        let device = ask.preferred(linnet_core::Policy::Best, |device| Some(scores[device]));
        (device, scores[device])
    }
}

/// What a model at this distance adds to the log-odds of a read that is slow, or is not.
fn evidence(distance: f64, slow: bool, chance: &mut Chance) -> f64 {
    let sign = if slow { 1.0 } else { -1.0 };
    if distance.is_infinite() {
        return sign * f64::INFINITY;
    }
    sign * distance * distance / 2.0 + distance * chance.normal()
}

impl Policy for Informed {
    fn name(&self) -> &str {
        "informed"
    }

    fn tracks_inflight(&self) -> bool {
        !matches!(self.scores, Scores::Foresight(_))
    }

    fn settings(&self, given: Settings) -> Settings {
        Settings { policy: linnet_core::Policy::Best, ..given }
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        if ask.first {
            self.hedging.earn(ask.settings);
        }
        let forgotten = ask.forgotten().next().filter(|_| ask.count() > 1);
        let records = ask.first && ask.arrive_ns >= self.warm_up_ns;
        let (chosen, score) = forgotten.map_or_else(|| self.best(ask, records), |device| (device, 0));
        Choice::Submit(Submit {
            probe: forgotten.is_some(),
            predicted_fast: score < 0,
            ..Submit::to(chosen).hedged(self.hedging.delay_ns())
        })
    }

    fn hedge_due(&self, sent_ns: Nanos) -> Option<Nanos> {
        self.hedging.due_ns(sent_ns)
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        if self.hedging.ask(ask.settings, &ask.known()) { Hedge::To(self.best(ask, false).0) } else { Hedge::Never }
    }

    fn completed(&mut self, done: &Completion) {
        if done.in_time {
            self.hedging.answered(done.latency_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of pairs of a slow and a fast read that the evidence orders rightly is the AUC.
    #[test]
    fn evidence_has_the_accuracy_of_its_distance() {
        let mut chance = Chance::new(1);
        // Phi(d / sqrt 2) of d = 1.8124 is 0.9.
        let right = (0..20_000).filter(|_| {
            let slow = evidence(1.8124, true, &mut chance);
            slow > evidence(1.8124, false, &mut chance)
        });
        let auc = right.count() as f64 / 20_000.0;
        assert!((auc - 0.9).abs() < 0.01, "{auc}");
    }

    /// Among reads to which the evidence gives about these odds, the share of slow ones is what they say.
    #[test]
    fn evidence_is_calibrated() {
        let mut chance = Chance::new(2);
        let (mut slow, mut all) = (0, 0);
        for draw in 0..200_000 {
            let odds = evidence(1.5, draw % 2 == 0, &mut chance);
            if (0.9..1.1).contains(&odds) {
                slow += u32::from(draw % 2 == 0);
                all += 1;
            }
        }
        let share = f64::from(slow) / f64::from(all);
        assert!((share - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 0.02, "{share}");
    }
}
