// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests linnet-best and linnet+hl with trees whose scores are known.

use super::*;
use crate::{Hedge, RunResult, policy, run};
use linnet_core::{FEATURE_BINS, Latencies, SCORE_BINS, TREE_ONE, Tree, Trees};
use linnet_sim::{Chance, Modelled};
use linnet_types::{Device, LatencyModel, Outcome, Request};

const FAST_NS: Nanos = 80_000;
const SLOW_NS: Nanos = 2_000_000;

/// Devices with these trees; a read is late after `latency_ns_p95`, 0: never.
fn with_trees(trees: &[Option<Trees>], latency_ns_p95: Nanos) -> Vec<DeviceModel> {
    let thresholds = Thresholds { latency_ns_p95, ..test_thresholds() };
    trees.iter().map(|&trees| DeviceModel { thresholds, trees, ..DeviceModel::default() }).collect()
}

fn go<D: Device>(devices: &mut [D], records: &[IoRecord], trees: &[Option<Trees>], config: Config) -> RunResult {
    hedged(devices, records, &with_trees(trees, 0), config)
}

fn hedged<D: Device>(devices: &mut [D], records: &[IoRecord], learned: &[DeviceModel], config: Config) -> RunResult {
    let policy = policy("linnet-best", learned, &config).expect("a known name");
    let options = crate::RunOptions { array: config, playback: crate::Playback::LOGGED };
    run(devices, &[records], &thresholds(learned), policy, &options, &mut ()).expect("the run succeeds")
}

fn reads(count: u64, gap_ns: Nanos) -> Vec<IoRecord> {
    (0..count).map(|i| record(i * gap_ns, Op::Read)).collect()
}

/// Trees that always give this score.
pub(super) fn always(score: i32) -> Option<Trees> {
    Some(Trees::new(&[], score).expect("in range"))
}

/// Slow when the moving average of latency (input 9) is above bucket 32: 1 ms.
pub(super) fn slow_when_it_was() -> Option<Trees> {
    let one = TREE_ONE as i16;
    let leaf = std::array::from_fn(|leaf| if leaf & 1 == 1 { 4 * one } else { -4 * one });
    Some(Trees::new(&[Tree { feature: [9, 0, 0], threshold: [32, 63, 63], leaf }], 0).expect("in range"))
}

#[test]
fn reads_go_where_the_score_is_least() {
    let all_fast = || vec![steady(FAST_NS, 1); 3];
    let records = reads(100, 200_000);
    let scores = [always(5 * TREE_ONE), always(TREE_ONE), always(3 * TREE_ONE)];
    let result = go(&mut all_fast(), &records, &scores, Config::default());
    let counts = |result: &RunResult| result.log.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(counts(&result), [1, 98, 1], "who has no history is tried once");
    let c = result.counters;
    assert_eq!((c.revokes, c.extra_io, c.predictions), (0, 0, 0), "rather slow than fast: nothing is promised");
    let scores = [always(5 * TREE_ONE), always(-1), always(0)];
    assert_eq!(go(&mut all_fast(), &records, &scores, Config::default()).counters.predictions, 98);
    for scores in [[always(5 * TREE_ONE), None, always(-TREE_ONE)], [always(-TREE_ONE), always(5 * TREE_ONE), None]] {
        let result = go(&mut all_fast(), &records, &scores, Config::default());
        assert_eq!(counts(&result), [98, 1, 1], "trees are compared if all have them");
    }
}

#[test]
fn a_drive_that_hangs_from_the_start_does_not_get_all_reads() {
    let hangs = || vec![steady(10_000_000_000, 1), steady(FAST_NS, 1), steady(FAST_NS, 1)];
    for trees in [None, always(0)] {
        let result = go(&mut hangs(), &reads(1000, 50_000), &[trees; 3], Config::default());
        let counts = counts(&result);
        assert_eq!(counts[0], 1, "only the read that tried it: {counts:?}");
    }
}

#[test]
fn odds_weigh_against_the_wait() {
    let one_slow = || vec![steady(SLOW_NS, 4), steady(FAST_NS, 4), steady(FAST_NS, 4)];
    let counts = |scores: [i32; 3]| {
        let trees = scores.map(always);
        let result = go(&mut one_slow(), &reads(100, 3_000_000), &trees, Config::default());
        result.log.iter().map(Vec::len).collect::<Vec<_>>()
    };
    // 2 ms are 25 times 80 us: odds of up to e^3 against the faster device do not outweigh that, odds of e^4 do.
    assert_eq!(counts([0, 3 * TREE_ONE, 4 * TREE_ONE]), [1, 98, 1]);
    assert_eq!(counts([0, 4 * TREE_ONE, 4 * TREE_ONE]), [98, 1, 1]);
    assert_eq!(counts([-9 * TREE_ONE, -2 * TREE_ONE, -8 * TREE_ONE]), [1, 98, 1], "good odds are all the same");
    // Without trees only the wait counts, and replicas that were unread for a hundred times age_ns are probed.
    let alone = |config| go(&mut one_slow(), &reads(100, 3_000_000), &[None, None, None], config);
    let probed = alone(Config { settings: aged(99_000), ..Config::default() });
    assert_eq!(probed.log.iter().map(Vec::len).collect::<Vec<_>>(), [25, 50, 25]);
    let policy = policy("ewma-inflight", &learned(&[None, None, None]), &Config::default()).expect("a known name");
    let options = crate::RunOptions { array: Config::default(), playback: crate::Playback::LOGGED };
    let records = reads(100, 3_000_000);
    let averages = run(&mut one_slow(), &[&records], &[Thresholds::default(); 3], policy, &options, &mut ());
    let averages = averages.expect("the run succeeds");
    assert_eq!(averages.log, alone(Config::default()).log);
    assert_eq!((averages.log[0].len(), averages.counters.probes), (1, 0), "0.3 s are too short for a probe");
}

/// A device that is slow until it has recovered.
struct Recovers {
    slow_until_ns: Nanos,
    fast_ns: Nanos,
}

impl LatencyModel for Recovers {
    fn submit(&mut self, now: Nanos, _request: &Request) -> Outcome {
        Outcome::Done(now + if now < self.slow_until_ns { SLOW_NS } else { self.fast_ns })
    }
}

#[test]
fn a_device_that_nobody_reads_is_probed_and_recovers() {
    let mut devices = [(30_000_000, FAST_NS), (0, 5 * FAST_NS)]
        .map(|(slow_until_ns, fast_ns)| Modelled::new(Recovers { slow_until_ns, fast_ns }));
    let config = Config { settings: aged(1_000_000), ..two_replicas() };
    let result = go(&mut devices, &reads(4_000, 100_000), &[slow_when_it_was(), always(0)], config);
    // Half of the reads go there until the first completes, since its odds are good. Then one probe each 100 ms until the
    // average (a quarter each) is below 1 ms: 2, 1.52, 1.16, 0.89 ms. The slow moving average of latency is then 1.4 ms,
    // which good odds outweigh.
    let early = result.log[0].iter().filter(|record| record.arrive_ns < 30_000_000).count();
    assert_eq!(early, 10);
    assert_eq!(result.counters.probes, 3);
    let later = result.log[0].iter().filter(|record| record.arrive_ns > 310_000_000).count();
    assert!(later > 800, "{later} of 900 reads go to the recovered device again");
}

#[test]
fn hedges_take_two_percent_and_no_more() {
    let learned = learned(&[None, None]);
    let count = 50_000;
    // One read in ten stalls; the delay settles among their latencies, and one in fifty is sent again.
    let mut devices = [Stalls, Stalls].map(Modelled::new);
    let result = hedged(&mut devices, &reads(count, 5_000_000), &learned, two_replicas());
    let c = result.counters;
    assert_eq!(result.reads.latency_ns.len() as u64, count);
    assert_eq!(c.hedges, c.extra_io);
    assert!(c.hedges <= count / 50 && c.hedges > count / 100, "{} of {count}", c.hedges);
}

#[test]
fn a_hedge_goes_by_trees_if_all_that_could_take_it_have_them() {
    let target = |trees: [Option<Trees>; 3], candidates| {
        let mut best = Alone::new("linnet-best", &with_trees(&trees, 1_000_000));
        let scene = Scene::new(&[1, 1, 1]);
        (0..50).for_each(|_| best.policy.sent_hedgeable(&scene.settings));
        best.policy.hedge(&scene.ask(1_000, candidates))
    };
    let slow = always(5 * TREE_ONE);
    assert_eq!(target([always(0), slow, always(-TREE_ONE)], 0b110), Hedge::To(2));
    assert_eq!(target([always(0), slow, None], 0b110), Hedge::To(1), "odds of one say nothing");
    assert_eq!(target([None, slow, always(-TREE_ONE)], 0b110), Hedge::To(2), "the first holds the read");
}

#[test]
fn while_a_replica_has_no_trees_it_is_ewma_hedged() {
    let run_of = |name: &str, trees: [Option<Trees>; 3]| {
        let config = Config::default();
        let learned: Vec<DeviceModel> = trees
            .into_iter()
            .zip(learned(&[None, None, None]))
            .map(|(trees, one)| DeviceModel { trees, ..one })
            .collect();
        let policy = policy(name, &learned, &config).expect("a known name");
        let options = crate::RunOptions { array: config, playback: crate::Playback::LOGGED };
        let mut devices = [Stalls, Stalls, Stalls].map(Modelled::new);
        run(&mut devices, &[&reads(20_000, 1_000_000)], &thresholds(&learned), policy, &options, &mut ())
            .expect("the run succeeds")
    };
    // Of any two replicas one has none.
    let some = [slow_when_it_was(), None, None];
    let (partly, hedged, wholly) =
        (run_of("linnet-best", some), run_of("ewma-hedged", some), run_of("linnet-best", [slow_when_it_was(); 3]));
    assert_eq!((partly.event_hash, partly.counters), (hedged.event_hash, hedged.counters));
    assert!(partly.counters.hedges > 100 && partly.event_hash != wholly.event_hash);
}

/// A device that serves many reads at once, each in 40 to 80 ms.
struct Crowded;

impl LatencyModel for Crowded {
    fn submit(&mut self, now: Nanos, _request: &Request) -> Outcome {
        Outcome::Done(now + 40_000_000 + (Chance::new(now).unit() * 4e7) as Nanos)
    }
}

#[test]
fn no_hedge_is_sent_when_every_queue_is_long() {
    let learned = learned(&[None, None]);
    let count = 4_000;
    let hedges = |gap_ns| {
        hedged(&mut [Crowded, Crowded].map(Modelled::new), &reads(count, gap_ns), &learned, two_replicas())
            .counters
            .hedges
    };
    // Three reads in flight at each device: those that take longest are sent again, two in a hundred.
    assert!(hedges(10_000_000) > count / 100, "{} with short queues", hedges(10_000_000));
    // Sixty in flight: only while the queues fill and drain.
    assert!(hedges(500_000) <= count / 400, "{} with long queues", hedges(500_000));
}

/// A device that answers one read in ten late, each with a different latency.
struct Stalls;

impl LatencyModel for Stalls {
    fn submit(&mut self, now: Nanos, _request: &Request) -> Outcome {
        let chance = Chance::new(now).unit();
        Outcome::Done(now + if chance < 0.1 { SLOW_NS + (chance * 2e7) as Nanos } else { FAST_NS })
    }
}

fn in_order<D: Device>(devices: &mut [D], records: &[IoRecord], learned: &[DeviceModel], config: Config) -> RunResult {
    let policy = policy("linnet+hl", learned, &config).expect("a known name");
    let options = crate::RunOptions { array: config, playback: crate::Playback::LOGGED };
    run(devices, &[records], &thresholds(learned), policy, &options, &mut ()).expect("the run succeeds")
}

#[test]
fn in_order_a_slow_score_is_revoked_and_the_last_replica_is_not_asked() {
    let mut learned = learned(&[None, None, None]);
    let scores = [TREE_ONE, TREE_ONE, TREE_ONE];
    learned.iter_mut().zip(scores).for_each(|(device, score)| device.trees = always(score));
    let result = in_order(&mut vec![steady(FAST_NS, 4); 3], &reads(50, 200_000), &learned, Config::default());
    let c = result.counters;
    assert_eq!((c.predictions, c.revokes, c.forced_submits, c.false_revokes), (100, 100, 50, 100));
    assert!(result.reads.latency_ns.iter().all(|&ns| ns == 30_000 + FAST_NS), "two failovers each");
    learned[1].trees = always(0);
    let c = in_order(&mut vec![steady(FAST_NS, 4); 3], &reads(50, 200_000), &learned, Config::default()).counters;
    assert_eq!((c.predictions, c.revokes, c.forced_submits), (100, 50, 0));
}

#[test]
fn in_order_a_read_is_revoked_above_the_score_of_its_trees() {
    let mut learned = learned(&[None, None, None]);
    for (score, above, revokes) in
        [(TREE_ONE, TREE_ONE, 0), (TREE_ONE, TREE_ONE - 1, 100), (-TREE_ONE, -TREE_ONE - 1, 100)]
    {
        learned.iter_mut().for_each(|device| device.trees = always(score).map(|trees| trees.with_slow_score(above)));
        let c = in_order(&mut vec![steady(FAST_NS, 4); 3], &reads(50, 200_000), &learned, Config::default()).counters;
        assert_eq!(c.revokes, revokes, "score {score}, slow above {above}");
    }
}

#[test]
fn in_order_hedges_go_by_the_predicted_latency_and_take_two_percent() {
    let mut learned = learned(&[None, None]);
    learned.iter_mut().for_each(|device| device.trees = always(0));
    let count = 5_000;
    let slow_and_fast = || [steady(SLOW_NS, 1), steady(FAST_NS, 1)];
    let hedged = |learned: &[DeviceModel], expected_ns: Nanos| {
        let result = in_order(&mut slow_and_fast(), &reads(count, 5_000_000), learned, two_replicas());
        let c = result.counters;
        assert_eq!((c.hedges, c.hedges_won, c.extra_io), (count / 50, count / 50, count / 50));
        let won = result.reads.latency_ns.iter().filter(|&&ns| ns == expected_ns).count() as u64;
        assert_eq!(won, count / 50);
    };
    hedged(&learned, test_thresholds().hedge_ns + FAST_NS);
    let quantiles = [[[100_000, 200_000, 700_000, 800_000, 900_000]; FEATURE_BINS]; SCORE_BINS];
    let table = Latencies::new([0; SCORE_BINS - 1], 0, [0; FEATURE_BINS - 1], quantiles).expect("in order");
    learned.iter_mut().for_each(|device| device.predictions.latencies = Some(table));
    hedged(&learned, 700_000 + FAST_NS);
}

#[test]
fn in_order_a_device_that_nobody_reads_is_probed() {
    let mut learned = learned(&[None, None]);
    learned[0].trees = slow_when_it_was();
    learned[1].trees = always(0);
    let mut devices = [30_000_000, 0].map(|slow_until_ns| Modelled::new(Recovers { slow_until_ns, fast_ns: FAST_NS }));
    let config = Config { settings: aged(1_000_000), hedge_budget: Rate::new(0.0, 0), ..two_replicas() };
    let result = in_order(&mut devices, &reads(4_000, 100_000), &learned, config);
    assert_eq!(
        result.counters.probes, 5,
        "four while it is slow, 7 ms apart; the fifth brings the average from 2 ms to 1.16 ms"
    );
    let later = result.log[0].iter().filter(|record| record.arrive_ns > 40_000_000).count();
    assert!(later > 3_500, "{later} of 3,600 reads go to the recovered device again");
}

#[test]
fn without_trees_ewma_hedged_probes_as_late_as_linnet_best_and_asks_no_trees() {
    let mut scene = Scene::new(&[0, 0, 0]);
    // The wait at the first is the least.
    for (device, latency_ns) in [(0, 80_000), (1, 100_000), (2, 100_000)] {
        let flight = scene.devices[device].arrive(&scene.settings, 0, &scene.request, false);
        scene.devices[device].complete(&flight, latency_ns);
    }
    let mut learned = learned(&[None, None, None]);
    for trees in [None, always(5 * TREE_ONE)] {
        learned[0].trees = trees;
        let mut policy = Alone::new("ewma-hedged", &learned);
        for (now_ns, probe) in [(200_000, false), (900_000_000, false), (1_100_000_000, true)] {
            let Choice::Submit(submit) = policy.choose(now_ns, &mut scene) else { panic!("it revokes nothing") };
            assert_eq!((submit.replica, submit.probe), (0, probe), "{now_ns}");
        }
    }
}

#[test]
fn in_order_no_hedge_is_sent_while_every_queue_is_long() {
    let mut learned = learned(&[None, None]);
    learned.iter_mut().for_each(|device| device.trees = always(0));
    let mut policy = Alone::new("linnet+hl", &learned);
    // These pay for a hedge.
    for _ in 0..200 {
        policy.sends(1, &[0, 0]);
    }
    let mut hedge = |in_flight: &[u32]| policy.policy.hedge(&Scene::new(in_flight).ask(1, 3));
    assert_eq!(hedge(&[16, 16]), Hedge::Never);
    assert_eq!(hedge(&[16, 15]), Hedge::To(1), "nothing is known of their latencies, so the queue counts");
}
