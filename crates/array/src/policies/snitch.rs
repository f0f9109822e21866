// SPDX-License-Identifier: MIT OR Apache-2.0
//! **dynamic-snitch**: the replica order of Apache Cassandra 4.1 (`DynamicEndpointSnitch`), with speculative retry.
//!
//! Every 100 ms each replica gets a score: the median of its recent read latencies. Replicas keep their order from the
//! primary unless one of them is worse than the badness threshold allows: its score exceeds the score at the same place
//! of the sorted order by more than a factor of (1 + 1.0). Then they are ordered by score. A replica without samples has
//! the score 0, and so is tried. All samples are forgotten every ten minutes. A read that has not answered within the
//! 99th percentile of read latency is sent to the next replica (`speculative_retry = 99p`), within the array's hedge
//! budget.
//!
//! Where we differ: the median is that of the last 100 reads, where Cassandra's reservoir of 100 samples weights them
//! by age; scores are not divided by the largest one, which changes no comparison; and the percentile is that of the
//! profiling run, so that it does not follow the latencies it shortens.

use std::collections::VecDeque;

use crate::{Ask, Choice, Completion, Hedge, Policy, Submit};
use linnet_core::{Budget, REPLICAS_MAX};
use linnet_sim::Chance;
use linnet_types::Nanos;

const UPDATE_NS: Nanos = 100_000_000;
const RESET_NS: Nanos = 600_000_000_000;
const SAMPLES: usize = 100;
const BADNESS: f64 = 1.0;

pub(crate) struct DynamicSnitch {
    samples: Vec<VecDeque<Nanos>>,
    scores: Vec<f64>,
    updated_ns: Nanos,
    reset_ns: Nanos,
    /// The delay before a speculative retry, of each device.
    retry_ns: Vec<Option<Nanos>>,
}

impl DynamicSnitch {
    pub(crate) fn new(retry_ns: Vec<Option<Nanos>>) -> DynamicSnitch {
        let devices = retry_ns.len();
        let samples = vec![VecDeque::with_capacity(SAMPLES + 1); devices];
        DynamicSnitch { samples, scores: vec![0.0; devices], updated_ns: 0, reset_ns: 0, retry_ns }
    }

    fn update(&mut self, now_ns: Nanos) {
        if now_ns - self.reset_ns >= RESET_NS {
            self.samples.iter_mut().for_each(VecDeque::clear);
            self.reset_ns = now_ns;
        }
        for (score, samples) in self.scores.iter_mut().zip(&self.samples) {
            let mut sorted = [0; SAMPLES];
            let count = sorted.iter_mut().zip(samples).map(|(slot, &ns)| *slot = ns).count();
            *score = if count == 0 { 0.0 } else { *sorted[..count].select_nth_unstable(count / 2).1 as f64 };
        }
        self.updated_ns = now_ns;
    }

    /// The first candidate in the order in which replicas are read.
    fn first(&self, ask: &Ask<'_>) -> usize {
        let mut sorted = [0; REPLICAS_MAX];
        let mut count = 0;
        for device in ask.candidates() {
            sorted[count] = device;
            count += 1;
        }
        // No candidate repeats, so an unstable sort by score and place is the stable one by score.
        let place = |device: usize| ask.candidates().position(|own| own == device);
        sorted[..count]
            .sort_unstable_by(|&a, &b| self.scores[a].total_cmp(&self.scores[b]).then_with(|| place(a).cmp(&place(b))));
        let bad = |(own, &best): (usize, &usize)| self.scores[own] > self.scores[best] * (1.0 + BADNESS);
        if ask.candidates().zip(&sorted[..count]).any(bad) { sorted[0] } else { ask.next }
    }
}

impl Policy for DynamicSnitch {
    fn name(&self) -> &str {
        "dynamic-snitch"
    }

    fn choose(&mut self, ask: &Ask<'_>, _chance: &mut Chance, _revokes: &mut Budget) -> Choice {
        if ask.now_ns - self.updated_ns >= UPDATE_NS {
            self.update(ask.now_ns);
        }
        let chosen = self.first(ask);
        Choice::Submit(Submit::to(chosen).hedged(self.retry_ns[chosen]))
    }

    fn hedge(&mut self, ask: &Ask<'_>) -> Hedge {
        Hedge::To(self.first(ask))
    }

    fn completed(&mut self, done: &Completion) {
        if !done.op.is_read() {
            return;
        }
        let samples = &mut self.samples[done.device];
        samples.push_back(done.latency_ns);
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
    }
}
