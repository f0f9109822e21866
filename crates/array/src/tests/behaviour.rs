// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks latencies of single reads to the nanosecond, on devices with constant behaviour.

use super::*;
use crate::drive::drive;
use crate::{Array, Error, Observer, Placement, Playback, Progress, RunOptions, RunResult, WriteMode, policy, run};
use linnet_sim::{Chance, FaultPlan, Faulty, Modelled, TestDevice, VirtualClock, Window};
use linnet_types::{Device, LatencyModel, Outcome, Request};

const FAST_NS: Nanos = 80_000;
const SLOW_NS: Nanos = 2_000_000;

fn go<D: Device>(
    name: &str,
    devices: &mut [D],
    records: &[IoRecord],
    learned: &[DeviceModel],
    config: Config,
) -> RunResult {
    let policy = policy(name, learned, &config).expect("a known name");
    let options = RunOptions { array: config, playback: Playback::LOGGED };
    run(devices, &[records], &thresholds(learned), policy, &options, &mut ()).expect("the run succeeds")
}

fn slow_and_fast() -> [Modelled<TestDevice>; 2] {
    [steady(SLOW_NS, 1), steady(FAST_NS, 1)]
}

fn reads(count: u64, gap_ns: Nanos) -> Vec<IoRecord> {
    (0..count).map(|i| record(i * gap_ns, Op::Read)).collect()
}

#[test]
fn a_revoke_costs_one_failover() {
    let models = learned(&[Some(revokes_above(1000)), None]);
    let config = Config { settings: aged(1_000_000_000), ..two_replicas() };
    let result = go("linnos", &mut slow_and_fast(), &reads(10, 3_000_000), &models, config);
    let expected: Vec<Nanos> = [vec![SLOW_NS; 4], vec![15_000 + FAST_NS; 6]].concat();
    assert_eq!(result.reads.latency_ns, expected, "four reads fill the history, then the network revokes");
    let c = result.counters;
    assert_eq!((c.predictions, c.revokes, c.forced_submits, c.extra_io, c.false_revokes), (6, 6, 6, 0, 0));
}

/// A device that is slow until it has recovered.
struct Recovers {
    slow_until_ns: Nanos,
}

impl LatencyModel for Recovers {
    fn submit(&mut self, now: Nanos, _request: &Request) -> Outcome {
        Outcome::Done(now + if now < self.slow_until_ns { SLOW_NS } else { FAST_NS })
    }
}

#[test]
fn a_device_that_looks_slow_is_probed_and_recovers() {
    let models = learned(&[Some(revokes_above(1000)), None]);
    let mut devices = [20_000_000, 0].map(|slow_until_ns| Modelled::new(Recovers { slow_until_ns }));
    // A slow verdict expires after 100 times this, 10 ms.
    let config = Config { settings: aged(100_000), ..two_replicas() };
    let result = go("linnos", &mut devices, &reads(1000, 100_000), &models, config);
    let c = result.counters;
    // Four slow reads have completed at 2.3 ms; those in flight end at 4.2 ms. A probe at 14.2 ms is still slow; a
    // probe at 26.2 ms is fast.
    assert_eq!(c.probes, 2, "{c:?}");
    assert!((235..=245).contains(&c.revokes), "{c:?}");
    assert_eq!(result.reads.latency_ns.last(), Some(&FAST_NS));
    let after = result.log[0].iter().filter(|record| record.arrive_ns > 40_000_000).count();
    assert_eq!(after, 599, "the recovered device serves all reads again");
}

#[test]
fn hedges_go_out_after_their_delay_and_the_first_answer_wins() {
    let models = learned(&[None, None]);
    for (name, delay_ns) in
        [("hedge-p95", 300_000), ("hedge-ip", 200_000), ("linnos+hl", 250_000), ("linnos+h99", 900_000)]
    {
        let result = go(name, &mut slow_and_fast(), &reads(5, 3_000_000), &models, two_replicas());
        assert_eq!(result.reads.latency_ns, vec![delay_ns + FAST_NS; 5], "{name}");
        let c = result.counters;
        assert_eq!((c.hedges, c.hedges_won, c.extra_io, c.submits), (5, 5, 5, 10), "{name}");
        let fast = [steady(FAST_NS, 1), steady(FAST_NS, 1)];
        let c = go(name, &mut fast.clone(), &reads(5, 3_000_000), &models, two_replicas()).counters;
        assert_eq!((c.hedges, c.extra_io), (0, 0), "{name}");
    }
}

#[test]
fn a_hedge_never_goes_to_a_replica_that_holds_the_read() {
    // The primary is revoked, the second holds the read and is slow: the third is the only valid target, although the
    // second has the best average.
    let models = learned(&[Some(revokes_always()), Some(revokes_above(100_000)), Some(revokes_above(100_000))]);
    let mut devices = [steady(SLOW_NS, 1), steady(SLOW_NS, 1), steady(FAST_NS, 1)];
    let warm: Vec<IoRecord> = reads(5, 3_000_000);
    let config = Config { settings: aged(1_000_000_000), ..Config::default() };
    let result = go("linnos+hl", &mut devices, &warm, &models, config);
    let latencies = &result.reads.latency_ns;
    assert_eq!(latencies[0], SLOW_NS, "nothing is known of the others, and the nearest is slow");
    assert!(latencies[1..].iter().all(|&ns| ns <= 15_000 + 250_000 + FAST_NS), "{latencies:?}");
    assert_eq!(result.counters.revokes, 1);
    assert_eq!(
        (result.log[1].len(), result.log[2].len()),
        (2, 4),
        "the read that the second holds is hedged to the third"
    );
}

#[test]
fn clones_race_and_budgets_end_it() {
    let models = learned(&[None, None]);
    let result = go("clone", &mut slow_and_fast(), &reads(5, 3_000_000), &models, two_replicas());
    assert_eq!(result.reads.latency_ns, vec![FAST_NS; 5]);
    assert_eq!((result.counters.extra_io, result.counters.hedges), (5, 0));
    let config = Config { clone_budget: Rate::new(0.0, 2), ..two_replicas() };
    let result = go("clone", &mut slow_and_fast(), &reads(5, 3_000_000), &models, config);
    assert_eq!(result.reads.latency_ns, [FAST_NS, FAST_NS, SLOW_NS, SLOW_NS, SLOW_NS]);
    assert_eq!((result.counters.extra_io, result.counters.budget_denied), (2, 3));
}

#[test]
fn after_many_revokes_in_a_row_one_read_is_a_probe() {
    let models = learned(&[Some(revokes_always()), None]);
    let config = Config { settings: Settings { revokes_in_row_max: 5, ..aged(u64::MAX) }, ..two_replicas() };
    let c =
        go("linnos", &mut [steady(FAST_NS, 1), steady(FAST_NS, 1)], &reads(20, 1_000_000), &models, config).counters;
    assert_eq!((c.predictions, c.revokes, c.probes), (16, 14, 2), "five, a probe, five, a probe, four: {c:?}");
}

#[test]
fn an_empty_revoke_budget_submits() {
    let models = learned(&[Some(revokes_always()), Some(revokes_always())]);
    let config = Config { settings: Settings { revokes: Rate::new(0.0, 3), ..aged(u64::MAX) }, ..two_replicas() };
    let fast = || steady(FAST_NS, 1);
    let c = go("linnos", &mut [fast(), fast()], &reads(20, 1_000_000), &models, config).counters;
    assert_eq!((c.revokes, c.budget_denied, c.predictions, c.false_revokes), (3, 13, 16, 3), "{c:?}");
    // Each read earns half a revoke: three are saved up and two more are earned while they are spent, then every second
    // one is paid for.
    let config = Config { settings: Settings { revokes: Rate::new(0.5, 3), ..config.settings }, ..config };
    let c = go("linnos", &mut [fast(), fast()], &reads(20, 1_000_000), &models, config).counters;
    assert_eq!((c.revokes, c.budget_denied, c.predictions), (10, 6, 16), "{c:?}");
}

#[test]
fn queue_policies_leave_a_slow_device_alone_and_ask_again() {
    let models = learned(&[None, None]);
    for name in ["shortest-queue", "ewma-inflight", "c3"] {
        let mut chance = Chance::new(5);
        let mut at = 0;
        let spread: Vec<IoRecord> = (0..2000)
            .map(|_| {
                at += chance.exponential(40_000.0) as Nanos;
                IoRecord { offset_bytes: chance.below(16) << 16, ..record(at, Op::Read) }
            })
            .collect();
        // The averages are probed after a hundred ages, 10 ms here.
        let config = Config { settings: aged(100_000), ..two_replicas() };
        let result = go(name, &mut slow_and_fast(), &spread, &models, config);
        let slow = result.log[0].len();
        assert!((3..500).contains(&slow), "{name} sends {slow} of 2000 reads to the slow device");
        assert!(name == "shortest-queue" || result.counters.probes > 0, "{name}: {:?}", result.counters);
    }
}

#[test]
fn the_oracle_takes_the_first_answer_of_each_read() {
    let models = learned(&[None, None]);
    let result = go("oracle", &mut slow_and_fast(), &reads(9, 3_000_000), &models, two_replicas());
    assert_eq!(result.reads.latency_ns, vec![FAST_NS; 9]);
}

#[test]
fn heuristics_see_the_queue_and_the_history() {
    let models = learned(&[None, None]);
    // Twelve reads at once: the threshold is four in flight.
    let c = go("heur-sim", &mut slow_and_fast(), &reads(12, 1), &models, two_replicas()).counters;
    assert_eq!((c.predictions, c.revokes), (12, 7), "reads 1 to 5 see 0 to 4 in flight: {c:?}");
    // One slow read at an idle queue marks the device; with reads overlapping, later ones are revoked.
    let overlapping: Vec<IoRecord> =
        (0..100u64).map(|i| IoRecord { offset_bytes: (i % 16) << 16, ..record(i * 1_500_000, Op::Read) }).collect();
    let c = go("heur-adv", &mut slow_and_fast(), &overlapping, &models, two_replicas()).counters;
    assert!(c.revokes > 20, "{c:?}");
    let c = go("heur-sim", &mut slow_and_fast(), &overlapping, &models, two_replicas()).counters;
    assert_eq!(c.revokes, 0, "the queue alone never reaches the threshold: {c:?}");
}

#[test]
fn heur_adv_forgets_a_busy_device_after_four_fast_reads_in_a_row() {
    let mut policy = Alone::new("heur-adv", &learned(&[None, None]));
    let median = test_thresholds().queue_median;
    let busy = |policy: &mut Alone| !matches!(policy.choose(1, &mut Scene::new(&[1, 0])), Choice::Submit(_));
    let mut after = |latency_ns, in_flight, count| {
        (0..count).for_each(|_| policy.completed(1, 0, latency_ns, in_flight));
        busy(&mut policy)
    };
    assert!(!after(SLOW_NS, median + 1, 1), "slow behind a long queue");
    assert!(after(SLOW_NS, median, 1));
    assert!(after(FAST_NS, 0, 3));
    assert!(after(SLOW_NS, median + 1, 1), "marked still, and four fast ones are needed again");
    assert!(after(FAST_NS, 0, 3));
    assert!(!after(FAST_NS, 0, 1));
    assert!(!after(FAST_NS, 0, 9));
    policy.policy.completed(&Completion { op: Op::Write, ..answer(1, 0, SLOW_NS, 0) });
    assert!(!busy(&mut policy), "writes mark no device");
    policy.completed(1, 0, SLOW_NS, 0);
    assert!(busy(&mut policy));
    assert!(matches!(policy.choose(1, &mut Scene::new(&[0, 0])), Choice::Submit(_)), "at the lower quartile");
}

#[test]
fn heuristics_submit_to_devices_without_an_inflection_point() {
    for (inflection_ns, submits) in [(200_000, false), (0, true)] {
        let mut learned = learned(&[None, None]);
        learned[0].thresholds.inflection_ns = inflection_ns;
        for name in ["heur-sim", "heur-adv"] {
            let mut policy = Alone::new(name, &learned);
            for _ in 0..2 {
                let choice = policy.choose(1, &mut Scene::new(&[9, 0]));
                assert_eq!(matches!(choice, Choice::Submit(_)), submits, "{name}: {choice:?}");
                policy.completed(1, 0, SLOW_NS, 0);
            }
        }
    }
}

#[test]
fn heuristics_decide_about_the_first_candidate_wherever_it_stands() {
    for name in ["heur-sim", "heur-adv"] {
        let mut policy = policy(name, &learned(&[None, None, None]), &Config::default()).expect("a known name");
        for (in_flight, is_revoked) in [([0, 9, 0], true), ([9, 0, 0], false)] {
            let scene = Scene::new(&in_flight);
            let choice = policy.choose(&scene.ask(1, 0b110), &mut Chance::new(0), &mut linnet_core::Budget::default());
            let expected = match choice {
                Choice::Submit(submit) => !is_revoked && submit.replica == 1,
                other => is_revoked && other == Choice::Revoke { hedge_after: None },
            };
            assert!(expected, "{name} {in_flight:?}: {choice:?}");
        }
    }
}

#[test]
fn what_heur_sim_sees_does_not_expire() {
    for (name, expires) in [("heur-sim", false), ("heur-adv", true)] {
        let mut scene = Scene::new(&[9, 0]);
        let mut policy = Alone::new(name, &learned(&[None, None]));
        let revoked = |choice| matches!(choice, Choice::Revoke { .. });
        assert!(revoked(policy.choose(1, &mut scene)));
        assert_eq!(revoked(policy.choose(1_000_000_000, &mut scene)), !expires, "{name} after a second");
        (0..1_024).for_each(|_| scene.devices[0].note_revoke());
        assert_eq!(revoked(policy.choose(1, &mut scene)), !expires, "{name} after many revokes");
    }
}

#[test]
fn reads_fail_over_and_a_dead_device_is_left_out() {
    let gone = Window { start_ns: 0, end_ns: 50_000_000 };
    let plan = FaultPlan { gone: vec![gone], ..FaultPlan::none() };
    let mut devices = [Faulty::new(steady(FAST_NS, 1), plan, 0), Faulty::new(steady(FAST_NS, 1), FaultPlan::none(), 0)];
    let models = learned(&[None, None]);
    let result = go("baseline", &mut devices, &reads(1000, 100_000), &models, two_replicas());
    let c = result.counters;
    assert_eq!(result.reads.latency_ns[..3], [15_000 + FAST_NS; 3]);
    assert_eq!(result.reads.latency_ns[3], FAST_NS, "left out after three errors");
    assert_eq!((c.errors, c.failovers, c.reads_failed), (c.failovers, c.errors, 0), "{c:?}");
    assert_eq!(c.errors, 3 + 2, "probes after 10 and 30 ms fail, the one after 70 ms succeeds: {c:?}");
    assert_eq!(result.log[0].last().map(|record| record.latency_ns), Some(Some(FAST_NS)));
}

#[test]
fn reads_go_where_their_data_lies() {
    let models = learned(&[None, None, None]);
    let placement = Placement::new(&[vec![2, 0], vec![1, 2]]).expect("a table");
    for (name, of) in [("baseline", [0, 5, 5]), ("clone", [5, 5, 10]), ("oracle", [5, 5, 0])] {
        let policy = policy(name, &models, &two_replicas()).expect("a known name");
        let array = Array::placed(two_replicas(), &thresholds(&models), policy, placement.clone()).expect("it fits");
        let streams = [&reads(5, 3_000_000)[..], &reads(5, 3_000_000)];
        let mut devices = [FAST_NS, 2 * FAST_NS, 3 * FAST_NS].map(|ns| steady(ns, 1));
        let result = drive(array, &mut VirtualClock::new(), &mut devices, &streams, &Playback::LOGGED, &mut ());
        let result = result.expect("the run succeeds");
        assert_eq!(result.log.iter().map(Vec::len).collect::<Vec<_>>(), of, "{name}");
    }
    let elsewhere = Placement::new(&[vec![0, 3]]).expect("a table");
    let policy = policy("baseline", &models, &two_replicas()).expect("a known name");
    let error = Array::placed(two_replicas(), &thresholds(&models), policy, elsewhere).err().expect("no device 3");
    assert!(error.to_string().contains("`placement` is device 3 in row 0"), "{error}");
}

#[test]
fn writes_go_to_the_primary_or_to_all() {
    let models = learned(&[None, None]);
    let writes: Vec<IoRecord> = (0..4).map(|i| record(i * 1_000_000, Op::Write)).collect();
    let result = go("linnos", &mut slow_and_fast(), &writes, &models, two_replicas());
    assert_eq!((result.log[0].len(), result.log[1].len()), (4, 0));
    let config = Config { write_mode: WriteMode::All, ..two_replicas() };
    let result = go("linnos", &mut slow_and_fast(), &writes, &models, config);
    assert_eq!((result.log[0].len(), result.log[1].len(), result.counters.extra_writes), (4, 4, 4));
}

/// A device that never answers.
struct Silent;

impl LatencyModel for Silent {
    fn submit(&mut self, _now: Nanos, _request: &Request) -> Outcome {
        Outcome::Lost
    }
}

#[test]
fn silence_ends_at_the_time_limit() {
    let models = learned(&[None, None]);
    let config = Config { read_timeout_ns: 1_000_000, write_timeout_ns: 5_000_000, ..two_replicas() };
    let records = [record(0, Op::Read), record(0, Op::Write)];
    let result = go("baseline", &mut [Silent, Silent].map(Modelled::new), &records, &models, config);
    let c = result.counters;
    assert_eq!((c.reads_failed, c.writes_failed, c.timeouts, c.failovers), (1, 1, 3, 1));
    assert_eq!(result.end_ns, 5_000_000);
    assert_eq!(result.reads.latency_ns, [2_015_000], "the read counts although nobody answered it");
}

#[test]
fn the_decision_takes_its_time() {
    let models = learned(&[Some(revokes_above(1000)), None]);
    let config = Config { decision_ns: 6_000, ..two_replicas() };
    let fast = || steady(FAST_NS, 1);
    let result = go("linnos", &mut [fast(), fast()], &reads(9, 1_000_000), &models, config);
    assert_eq!(result.reads.latency_ns, vec![6_000 + FAST_NS; 9]);
    let result = go("baseline", &mut [fast(), fast()], &reads(9, 1_000_000), &models, config);
    assert_eq!(result.reads.latency_ns, vec![FAST_NS; 9]);
}

#[test]
fn results_and_logs_carry_the_tenant() {
    // Answers come out of order, with failovers and writes between them: the arrival time identifies the read.
    let tenant_of = |arrive_ns: Nanos| (arrive_ns / 100_000 % 3) as u32;
    let make = |i: u64| {
        let (at, op) = (i * 100_000, if i % 5 == 4 { Op::Write } else { Op::Read });
        IoRecord { tenant: tenant_of(at), ..record(at, op) }
    };
    let records: Vec<IoRecord> = (0..300).map(make).collect();
    let models = learned(&[Some(revokes_always()), None]);
    let options = RunOptions { array: two_replicas(), playback: Playback::LOGGED };
    let chosen = policy("linnos", &models, &options.array).expect("known");
    let result =
        run(&mut slow_and_fast(), &[&records], &thresholds(&models), chosen, &options, &mut ()).expect("good settings");
    let reads = &result.reads;
    assert_eq!(reads.tenant.len(), 240);
    assert_eq!(reads.tenant, reads.arrive_ns.iter().map(|&at| tenant_of(at)).collect::<Vec<_>>());
    // A failover takes less than the gap between two arrivals.
    let (kept, failed_over) = (&result.log[0], &result.log[1]);
    assert!(failed_over.len() > 100 && kept.len() + failed_over.len() == 300, "{}", failed_over.len());
    assert!(kept.iter().chain(failed_over).all(|r| r.tenant == tenant_of(r.arrive_ns)));
}

#[test]
fn bad_traces_are_refused_with_their_place() {
    let models = learned(&[None, None]);
    let attempt = |records: &[IoRecord]| {
        let options = RunOptions { array: two_replicas(), playback: Playback::default() };
        let policy = policy("baseline", &models, &options.array).expect("known");
        run(&mut slow_and_fast(), &[&[], records], &thresholds(&models), policy, &options, &mut ())
    };
    let unordered = [record(5, Op::Read), record(9, Op::Read), record(8, Op::Read)];
    let error = attempt(&unordered).expect_err("out of order");
    assert_eq!(error, Error::Unordered { stream: 1, record: 2, arrive_ns: 8, previous_ns: 9 });
    let empty = [IoRecord { size_bytes: 0, ..record(5, Op::Read) }];
    assert_eq!(attempt(&empty).expect_err("no bytes"), Error::EmptyRecord { stream: 1, record: 0 });
    assert!(attempt(&[]).expect("an empty trace is no error").reads.latency_ns.is_empty());
}

struct StopAt(u64);

impl Observer for StopAt {
    fn progress(&mut self, progress: Progress) -> bool {
        progress.done < self.0
    }
}

#[test]
fn an_observer_can_stop_the_run() {
    let models = learned(&[None, None]);
    let options = RunOptions { array: two_replicas(), playback: Playback::default() };
    let policy = policy("baseline", &models, &options.array).expect("known");
    let records = reads(50_000, 100_000);
    let stopped = run(&mut slow_and_fast(), &[&records], &thresholds(&models), policy, &options, &mut StopAt(20_000));
    assert_eq!(stopped, Err(Error::Interrupted { done: 24_576, total: 50_000 }));
}
