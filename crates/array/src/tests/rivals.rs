// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the rules of other systems on small cases that their sources decide.

use super::*;
use linnet_core::Trees;
use linnet_types::{Device, IoRecord};

const FAST_NS: Nanos = 80_000;
const SLOW_NS: Nanos = 2_000_000;

fn reads(count: u64, gap_ns: Nanos) -> Vec<IoRecord> {
    (0..count).map(|i| IoRecord::new(i * gap_ns, Op::Read, i * 1_048_576, 4096)).collect()
}

fn one_slow() -> Vec<impl Device> {
    vec![steady(SLOW_NS, 4), steady(FAST_NS, 4), steady(FAST_NS, 4)]
}

fn three() -> Vec<DeviceModel> {
    learned(&[None, None, None])
}

#[test]
fn md_raid1_takes_the_first_idle_drive_and_spreads_a_burst() {
    assert_eq!(counts(&run_named("md-raid1", &mut one_slow(), &reads(100, 3_000_000), &three())), [100, 0, 0]);
    let burst = run_named("md-raid1", &mut one_slow(), &reads(9, 1), &three());
    assert_eq!(counts(&burst), [3, 3, 3]);
}

#[test]
fn md_raid1_continues_a_stream_whether_another_drive_is_idle_or_not() {
    let mut records = reads(3, 1);
    // The fourth read continues the third, which went to the third drive; all drives are busy.
    records.push(IoRecord::new(3, Op::Read, records[2].offset_bytes + 4096, 4096));
    assert_eq!(counts(&run_named("md-raid1", &mut one_slow(), &records, &three())), [1, 1, 2]);
    // Much later all drives are idle.
    records[3].arrive_ns = 1_000_000_000;
    assert_eq!(counts(&run_named("md-raid1", &mut one_slow(), &records, &three())), [1, 1, 2]);
    records[3].offset_bytes += 4096;
    assert_eq!(counts(&run_named("md-raid1", &mut one_slow(), &records, &three())), [2, 1, 1]);
}

#[test]
fn spdk_raid1_counts_the_bytes_of_reads() {
    let mut records = reads(4, 1);
    records[0].size_bytes = 65_536;
    assert_eq!(counts(&run_named("spdk-raid1", &mut one_slow(), &records, &three())), [1, 2, 1]);
}

#[test]
fn hedges_wait_for_thresholds_that_are_known() {
    let mut learned = learned(&[None, None]);
    let unknown = Thresholds { inflection_ns: 0, latency_ns_p95: 0, latency_ns_p99: 0, ..test_thresholds() };
    learned[0].thresholds = unknown;
    let delay_ns = |learned: &[DeviceModel], name| match Alone::new(name, learned).choose(0, &mut Scene::new(&[0, 0])) {
        Choice::Submit(submit) => (submit.replica, submit.hedge_after),
        other => panic!("{other:?}"),
    };
    for name in ["hedge-p95", "hedge-ip", "dynamic-snitch"] {
        assert_eq!(delay_ns(&learned, name), (0, None), "{name}");
    }
    // These hedge after the lowest that is known of any device.
    for name in ["linnet-best", "linnet-expected", "ewma-hedged"] {
        assert_eq!(delay_ns(&learned, name), (0, Some(300_000)), "{name}");
    }
    learned[1].thresholds = unknown;
    assert_eq!(delay_ns(&learned, "ewma-hedged"), (0, Some(linnet_core::HEDGE_START_NS)), "as in the kernel");
}

#[test]
fn spdk_raid1_forgets_reads_that_have_completed_and_counts_no_writes() {
    let mut policy = Alone::new("spdk-raid1", &three());
    assert_eq!([(); 3].map(|()| policy.sends(0, &[0; 3])), [0, 1, 2]);
    policy.completed(1, 1, FAST_NS, 0);
    assert_eq!(policy.sends(1, &[0; 3]), 1);
    policy.policy.completed(&Completion { op: Op::Write, ..answer(2, 2, FAST_NS, 0) });
    assert_eq!(policy.sends(2, &[0; 3]), 0);
}

#[test]
fn queue_depth_prefers_the_first_path_and_latency_gives_shares() {
    assert_eq!(counts(&run_named("nvme-queue-depth", &mut one_slow(), &reads(50, 3_000_000), &three())), [50, 0, 0]);
    // 2 ms against 80 us and 80 us: about 1, 31 and 31 of 64 credits.
    let counts = counts(&run_named("nvme-latency", &mut one_slow(), &reads(20_000, 3_000_000), &three()));
    assert!((250..500).contains(&counts[0]), "{counts:?}");
    assert!(counts[1].abs_diff(counts[2]) < 200, "{counts:?}");
}

#[test]
fn historical_service_time_avoids_the_slow_path_but_tries_it_when_stale() {
    let counts = counts(&run_named("dm-hst", &mut one_slow(), &reads(2_000, 30_000), &three()));
    assert!(counts[0] > 2 && counts[0] < 200, "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 2_000);
}

#[test]
fn historical_service_time_of_idle_paths_takes_the_one_that_was_stale_first() {
    // All paths are idle at each read. The slow one stays fresh for three times its 2 ms, so it is not taken in its turn.
    let counts = counts(&run_named("dm-hst", &mut one_slow(), &reads(3_000, 3_000_000), &three()));
    assert!(counts[0] > 300 && counts[0] < 900, "{counts:?}");
    assert!(counts[1].abs_diff(counts[2]) < 10, "{counts:?}");
}

#[test]
fn c3_weighs_the_cube_of_the_queue_against_the_response() {
    let chosen = |(response_ns, met): (Nanos, u32), other_ns| {
        let mut c3 = Alone::new("c3", &three()[..2]);
        c3.completed(1_000_000, 0, response_ns, met);
        c3.completed(1_000_000, 1, other_ns, 0);
        c3.sends(1_000_001, &[2, 0])
    };
    // Alone at the drive, 100 us are all service. With two in flight they cost 100 - 100 + 27 x 100.
    assert_eq!((chosen((100_000, 0), 2_699_000), chosen((100_000, 0), 2_701_000)), (1, 0));
    // Behind three others a quarter is: 100 - 25 + 27 x 25.
    assert_eq!((chosen((100_000, 3), 749_000), chosen((100_000, 3), 751_000)), (1, 0));
    // A new sample counts by a tenth: 110 us of response, 95 of service after one of 200 us behind three others.
    for (other_ns, device) in [(2_570_000, 1), (2_590_000, 0)] {
        let mut c3 = Alone::new("c3", &three()[..2]);
        c3.completed(1_000_000, 0, 100_000, 0);
        c3.completed(1_000_000, 0, 200_000, 3);
        c3.completed(1_000_000, 1, other_ns, 0);
        assert_eq!(c3.sends(1_000_001, &[2, 0]), device);
    }
}

#[test]
fn c3_probes_another_replica_that_is_idle_and_was_unread_for_a_second() {
    let mut c3 = Alone::new("c3", &three()[..2]);
    c3.completed(0, 0, 100_000, 0);
    c3.completed(0, 1, 900_000, 0);
    let mut sends = |now_ns, in_flight: &[u32]| match c3.choose(now_ns, &mut Scene::new(in_flight)) {
        Choice::Submit(submit) => (submit.replica, submit.probe),
        other => panic!("{other:?}"),
    };
    assert_eq!(sends(900_000_000, &[0, 0]), (0, false));
    assert_eq!(sends(1_100_000_000, &[0, 0]), (1, true));
    assert_eq!(sends(1_100_000_000, &[0, 1]), (0, false), "it is the one that is preferred");
}

#[test]
fn two_choices_and_prequal_avoid_the_busy_device() {
    for (name, most) in [("power-of-two", 400), ("prequal", 120)] {
        let result = run_named(name, &mut one_slow(), &reads(1_000, 100_000), &three());
        let counts = counts(&result);
        assert!(counts[0] < most && counts[1] > 250 && counts[2] > 250, "{name}: {counts:?}");
    }
}

#[test]
fn the_snitch_leaves_the_primary_only_where_it_is_bad_and_retries_late_reads() {
    let slightly = || vec![steady(150_000, 4), steady(FAST_NS, 4), steady(FAST_NS, 4)];
    let slow = run_named("dynamic-snitch", &mut one_slow(), &reads(2_000, 1_000_000), &three());
    // A retry goes out after the p99 of 0.9 ms, until the primary has a score. Then the others have better ones.
    assert!(slow.counters.extra_io > 0);
    assert!(counts(&slow)[0] < 300, "{:?}", counts(&slow));
    let fair = run_named("dynamic-snitch", &mut slightly(), &reads(2_000, 1_000_000), &three());
    // A replica without samples has the score 0, so each of the others is read for one period of 100 ms.
    assert_eq!(counts(&fair), [1_800, 100, 100]);
    assert_eq!(fair.counters.extra_io, 0);
}

/// The snitch on three replicas, where reads of each took this long so far.
fn snitch(latencies_ns: [&[Nanos]; 3]) -> Alone {
    let mut snitch = Alone::new("dynamic-snitch", &three());
    for (device, latencies_ns) in latencies_ns.into_iter().enumerate() {
        latencies_ns.iter().for_each(|&ns| snitch.completed(1, device, ns, 0));
    }
    snitch
}

#[test]
fn the_snitch_compares_medians_every_tenth_of_a_second() {
    const UPDATE_NS: Nanos = 100_000_000;
    let sends = |latencies_ns| snitch(latencies_ns).sends(UPDATE_NS, &[0; 3]);
    assert_eq!(sends([&[200], &[100], &[100]]), 0, "twice is not more than twice");
    assert_eq!(sends([&[201], &[110], &[100]]), 2, "then all are ordered by score");
    assert_eq!(sends([&[201], &[100], &[100]]), 1, "and equals from the primary");
    assert_eq!(sends([&[100], &[201], &[100]]), 0);
    // The second is compared with what stands second in the order of scores.
    assert_eq!((sends([&[160], &[320], &[150]]), sends([&[160], &[321], &[150]])), (0, 2));
    assert_eq!(sends([&[1, 900, 900], &[100], &[100]]), 1, "the median, not the mean or the least");
    assert_eq!(sends([&[1, 1, 900], &[100], &[100]]), 0);
    assert_eq!(sends([&[1, 900], &[100], &[100]]), 1, "of two the larger");
    assert_eq!(sends([&[100], &[], &[100]]), 1, "one without samples is tried");
    // It is asked again after the period, and the last hundred reads count.
    let mut snitch = snitch([&[100; 100], &[100], &[100]]);
    assert_eq!(snitch.sends(UPDATE_NS, &[0; 3]), 0);
    (0..50).for_each(|_| snitch.completed(UPDATE_NS, 0, 900, 0));
    assert_eq!(snitch.sends(2 * UPDATE_NS - 1, &[0; 3]), 0, "not looked at");
    assert_eq!(snitch.sends(2 * UPDATE_NS, &[0; 3]), 1, "the larger of the two in the middle");
    (0..50).for_each(|_| snitch.completed(UPDATE_NS, 0, 100, 0));
    assert_eq!(snitch.sends(3 * UPDATE_NS, &[0; 3]), 1, "fifty of the last hundred");
    snitch.completed(UPDATE_NS, 0, 100, 0);
    assert_eq!(snitch.sends(4 * UPDATE_NS, &[0; 3]), 0);
    // After ten minutes all samples are forgotten: no replica is worse than another.
    (0..99).for_each(|_| snitch.completed(UPDATE_NS, 0, 900, 0));
    assert_eq!(snitch.sends(599_999_999_999, &[0; 3]), 1);
    assert_eq!(snitch.sends(700_000_000_000, &[0; 3]), 0);
    (0..99).for_each(|_| snitch.completed(UPDATE_NS, 0, 900, 0));
    snitch.completed(UPDATE_NS, 1, 100, 0);
    snitch.completed(UPDATE_NS, 2, 100, 0);
    assert_eq!(snitch.sends(1_299_999_999_999, &[0; 3]), 1, "the ten minutes count from there");
    assert_eq!(snitch.sends(1_300_100_000_000, &[0; 3]), 0);
}

#[test]
fn the_snitch_looks_at_reads() {
    let mut snitch = snitch([&[100], &[100], &[100]]);
    snitch.policy.completed(&Completion { op: Op::Write, ..answer(1, 0, 900, 0) });
    assert_eq!(snitch.sends(100_000_000, &[0; 3]), 0);
}

/// How many of `count` reads each path gets, one after another at this time.
fn shares(policy: &mut Alone, now_ns: Nanos, count: usize) -> [usize; 3] {
    let mut shares = [0; 3];
    (0..count).for_each(|_| shares[policy.sends(now_ns, &[0; 3])] += 1);
    shares
}

#[test]
fn nvme_latency_shares_credits_by_the_inverse_of_an_average_over_windows() {
    const WINDOW_NS: Nanos = 15_000_000_000;
    let mut policy = Alone::new("nvme-latency", &three());
    assert_eq!([(); 4].map(|()| policy.sends(0, &[0; 3])), [0, 1, 2, 0], "paths take turns");
    // 21 credits for each of three.
    assert_eq!(shares(&mut policy, 0, 59), [19, 20, 20]);
    // As long as one path has no answer they are alike.
    policy.policy.completed(&Completion { op: Op::Write, ..answer(1, 2, 900_000_000, 0) });
    policy.completed(1, 0, 200_000, 0);
    policy.completed(1, 1, 400_000, 0);
    assert_eq!(shares(&mut policy, 1, 63), [21, 21, 21]);
    // 200, 400 and 400 us: half of the credits, and a quarter each.
    policy.completed(1, 2, 400_000, 0);
    assert_eq!(shares(&mut policy, 1, 64), [32, 16, 16]);
    assert_eq!(shares(&mut policy, WINDOW_NS, 64), [32, 16, 16]);
    assert_eq!(shares(&mut policy, WINDOW_NS, 6), [2, 2, 2]);
    assert_eq!(shares(&mut policy, WINDOW_NS, 58), [30, 14, 14]);
    // 7/8 of the old 200 us and 1/8 of the new 1,800 us are 400 us. A window without reads changes nothing.
    policy.completed(WINDOW_NS, 0, 1_700_000, 0);
    policy.completed(WINDOW_NS, 0, 1_900_000, 0);
    assert_eq!(shares(&mut policy, 2 * WINDOW_NS - 1, 64), [32, 16, 16]);
    assert_eq!(shares(&mut policy, 2 * WINDOW_NS, 63), [21, 21, 21]);
    // A path that is a thousand times as slow gets one credit.
    policy.completed(3 * WINDOW_NS, 0, 3_200_000_000, 0);
    let slow = shares(&mut policy, 3 * WINDOW_NS, 63);
    assert_eq!(slow, [1, 31, 31]);
}

#[test]
fn without_a_model_the_hedge_and_the_probe_stay_and_without_the_hedge_the_trees() {
    let slow_first: Vec<DeviceModel> = [3 * linnet_core::TREE_ONE, 0, 0]
        .map(|score| DeviceModel { trees: Trees::new(&[], score).ok(), ..three().remove(0) })
        .to_vec();
    let fast = || vec![steady(FAST_NS, 4), steady(FAST_NS, 4), steady(FAST_NS, 4)];
    let records = reads(200, 3_000_000);
    let by_trees = run_named("trees-only", &mut fast(), &records, &slow_first);
    let best = run_named("linnet-best", &mut fast(), &records, &slow_first);
    assert_eq!(counts(&by_trees), counts(&best), "nothing is late here");
    assert!(counts(&by_trees)[0] <= 1, "{:?}", counts(&by_trees));
    let without = run_named("ewma-hedged", &mut fast(), &records, &slow_first);
    assert!(counts(&without)[0] > 100, "{:?}", counts(&without));
    // All drives stall: the hedge sends a second copy, and trees-only has none.
    let stall = || vec![steady(SLOW_NS, 4), steady(SLOW_NS, 4), steady(SLOW_NS, 4)];
    assert!(run_named("ewma-hedged", &mut stall(), &records, &slow_first).counters.extra_io > 0);
    assert_eq!(run_named("trees-only", &mut stall(), &records, &slow_first).counters.extra_io, 0);
}
