// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the queued model: its invariants, and that it saturates where MQSim does, whose rules it follows.

use linnet_sim::{Chance, Lawful};
use linnet_ssd::queued::{QueuedParams, QueuedSsd, Served, VictimPolicy};
use linnet_types::{Device, Op, Request};
use proptest::prelude::*;

fn filled(params: &QueuedParams, pages: u64) -> QueuedSsd {
    let mut ssd = QueuedSsd::new(params).unwrap();
    let size_bytes = 16 * params.page_bytes;
    let write = |n| Request::new(Op::Write, n * u64::from(size_bytes), size_bytes);
    ssd.serve((0..pages / 16).map(|n| (n * 400_000, write(n))));
    ssd
}

/// Thousands of 4 KiB reads per second in a closed loop over 32,768 pages.
fn saturation(params: &QueuedParams, depth: u32) -> f64 {
    let mut ssd = filled(params, 32_768);
    let mut chance = Chance::new(3);
    let count = 20_000;
    let requests: Vec<Request> =
        (0..count).map(|_| Request::new(Op::Read, chance.below(32_768) * 4096, 4096)).collect();
    let answers = ssd.serve_closed(depth, requests);
    let ends = answers.iter().map(|served| served.arrive_ns + served.latency_ns);
    f64::from(count) * 1e6 / (ends.max().unwrap() - answers[0].arrive_ns) as f64
}

/// The values are MQSim's: 4 KiB random reads at queue depths 1, 8, 32, 128 and 512, in thousands per second.
#[test]
#[ignore = "slow: make test-slow"]
fn it_saturates_where_mqsim_does() {
    for (channels, chips_per_channel, expected) in [
        (8, 4, [14.3, 100.0, 254.0, 326.0, 361.0]),
        (32, 4, [14.3, 110.0, 393.0, 789.0, 789.0]),
        (4, 16, [14.3, 103.0, 236.0, 305.0, 334.0]),
    ] {
        let params = QueuedParams { channels, chips_per_channel, ..QueuedParams::default() };
        let reached = [1, 8, 32, 128, 512].map(|depth| saturation(&params, depth));
        println!("{channels} x {chips_per_channel}: {reached:.0?}, MQSim {expected:?}");
        for (ours, theirs) in reached.into_iter().zip(expected) {
            assert!((ours / theirs - 1.0).abs() < 0.2, "{channels} x {chips_per_channel}: {reached:?}");
        }
    }
}

/// 16 planes of 24 blocks of 8 pages: garbage collection starts after a few hundred writes.
fn small(policy: u8, preemptible: bool, suspend: bool) -> QueuedParams {
    QueuedParams {
        channels: 2,
        chips_per_channel: 2,
        dies_per_chip: 2,
        planes_per_die: 2,
        blocks_per_plane: 24,
        pages_per_block: 8,
        spare_share_of_raw: 0.4,
        gc_stop_writes_below_blocks: 3,
        gc_concurrent_per_plane: 3,
        gc_free_share: 0.2,
        reserved_blocks_per_plane: 0,
        write_buffer_bytes: 1 << 18,
        hot_period_ns: 3_000_000,
        gc_policy: [VictimPolicy::Greedy, VictimPolicy::CostBenefit, VictimPolicy::DChoices][policy as usize % 3],
        gc_preemptible: preemptible,
        program_suspend_above_ns: suspend.then_some(50_000),
        erase_suspend_above_ns: suspend.then_some(50_000),
        ..QueuedParams::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// At any load, all requests complete, none is faster than on an idle device, and the map stays consistent.
    #[test]
    fn all_is_served_and_nothing_is_lost(
        seed: u64, policy in 0u8..3, preemptible: bool, suspend: bool, gap in 5_000u64..400_000, buffered: bool,
        order in 0usize..3, spare in 0.21f64..0.45, stop in 0u32..4,
    ) {
        let mut params = small(policy, preemptible, suspend);
        params.spare_share_of_raw = spare;
        params.gc_stop_writes_below_blocks = stop;
        params.placement = ["CWDP", "PDWC", "WCPD"][order].to_owned();
        if !buffered {
            params.write_buffer_bytes = 0;
        }
        let mut ssd = filled(&params, u64::from(params.logical_pages()));
        let mut chance = Chance::new(seed);
        let mut now = 100_000_000_000;
        let mut asked = Vec::new();
        for _ in 0..1_500 {
            now += chance.exponential(gap as f64) as u64;
            let op = if chance.happens(0.4) { Op::Read } else { Op::Write };
            let sectors = if chance.happens(0.2) { 1 + chance.below(40) as u32 } else { 8 };
            let request = Request::new(op, chance.below(params.capacity_bytes() / 512) * 512, sectors * 512);
            asked.push((now, request));
        }
        let answers = ssd.serve(asked.iter().copied());
        prop_assert_eq!(answers.len(), asked.len(), "every request completes");
        prop_assert_eq!(ssd.check(), Ok(()));
        let hit_ns = params.command_ns + params.complete_ns;
        let mut hits = 0;
        for ((now, request), served) in asked.iter().zip(&answers) {
            let latency = served.latency_ns;
            prop_assert_eq!(served.arrive_ns, *now);
            prop_assert!(latency >= hit_ns && served.cause.total_ns() <= latency);
            if request.op == Op::Read && latency < params.unloaded_read_ns(512) {
                hits += 1;
            }
        }
        let stats = ssd.stats();
        prop_assert!(hits <= stats.buffer_hits);
        prop_assert!(stats.waf().is_some_and(|waf| waf >= 1.0) && stats.erases > 0 && stats.erases == stats.gc_runs);
        prop_assert_eq!(stats.completed, u64::from(params.logical_pages() / 16) + asked.len() as u64);
        prop_assert!(suspend || stats.suspensions == 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Polled when due and at other times, it gives the same answers as when served in one run, and follows the rules
    /// of devices.
    #[test]
    fn polling_changes_no_answer(
        seed: u64, policy in 0u8..3, preemptible: bool, suspend: bool, buffered: bool, gap in 5_000u64..200_000,
    ) {
        let mut params = small(policy, preemptible, suspend);
        if !buffered {
            params.write_buffer_bytes = 0;
        }
        let mut fresh = QueuedSsd::new(&params).unwrap();
        fresh.precondition(seed);
        prop_assert_eq!(fresh.check(), Ok(()));
        let mut chance = Chance::new(seed);
        let mut now = 0;
        let mut request = |_| {
            now += chance.exponential(gap as f64) as u64;
            let op = if chance.happens(0.5) { Op::Read } else { Op::Write };
            let offset_bytes = chance.below(params.capacity_bytes() / 512) * 512;
            (now, Request::new(op, offset_bytes, 512 * (1 + chance.below(24) as u32)))
        };
        let asked: Vec<(u64, Request)> = (0..1_000).map(&mut request).collect();
        let by_the_clock = fresh.clone().serve(asked.iter().copied());
        let mut polled = Lawful::new(fresh);
        let mut ends = Vec::new();
        for (token, (now, request)) in (0..).zip(&asked) {
            while let Some(due) = polled.next_due().filter(|due| due <= now) {
                polled.poll(if token % 3 == 0 { *now } else { due }, &mut ends);
            }
            polled.submit(*now, token, request);
        }
        while let Some(due) = polled.next_due() {
            polled.poll(due, &mut ends);
        }
        prop_assert_eq!(polled.inside(), 0);
        prop_assert!(polled.device().stats().gc_runs > 0 || gap > 50_000, "a device in long use collects");
        prop_assert_eq!(polled.finish(), Ok(()));
        ends.sort_unstable_by_key(|one| one.token);
        for (one, served) in ends.iter().zip(&by_the_clock) {
            prop_assert_eq!((one.token, one.at_ns), (served.token, served.arrive_ns + served.latency_ns));
        }
        prop_assert_eq!(ends.len(), by_the_clock.len());
    }
}

/// At low load, latencies do not depend on whether requests come at fixed times or one after the other.
#[test]
fn open_and_closed_loop_agree_at_low_load() {
    let params = QueuedParams::default();
    let mut open = filled(&params, 4_096);
    let mut closed = open.clone();
    let mut chance = Chance::new(5);
    let asked: Vec<Request> = (0..500).map(|_| Request::new(Op::Read, chance.below(4_096) * 4096, 4096)).collect();
    let timed = (1u64..).zip(&asked).map(|(n, request)| (200_000_000_000 + n * 1_000_000, *request));
    let latencies = |answers: Vec<Served>| answers.iter().map(|one| (one.latency_ns, one.cause)).collect::<Vec<_>>();
    assert_eq!(latencies(open.serve(timed)), latencies(closed.serve_closed(1, asked)));
}

/// Compares with the references outside the tree, within the limits of the design page.
#[test]
fn references_are_met() {
    let shared = std::env::var("LINNET_SHARED")
        .ok()
        .filter(|folder| !folder.is_empty())
        .unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into());
    for (name, mean, tail, ks) in [("w1_randread", 0.05, 0.1, 0.05), ("w2_mix7030_low", 0.05, 0.1, 0.05)] {
        let path = std::path::Path::new(&shared).join(format!("reference/mqsim/{name}.json"));
        if !path.exists() {
            println!("skipped: {} is absent", path.display());
            return;
        }
        let (check, _) = linnet_ssd::check(&path).unwrap();
        assert!((check.mean_ratio - 1.0).abs() < mean, "{check:?}");
        for ratio in
            [check.p50_ratio, check.p75_ratio, check.p90_ratio, check.p95_ratio, check.p99_ratio, check.p999_ratio]
        {
            assert!((ratio - 1.0).abs() < tail, "{check:?}");
        }
        assert!(check.ks_log10pct < ks, "{check:?}");
    }
}

/// Greedy collection of blocks of `n` pages, `a` pages of flash per page of data (Desnoyers, SYSTOR 2012; see
/// `amplification.rs`).
fn theory(a: f64, n: f64) -> f64 {
    let (mut low, mut high) = (0.0, n - 1e-6);
    for _ in 0..200 {
        let k = 0.5 * (low + high);
        if n / (n - k) * ((n + 0.5) / (k + 0.5)).ln() > a { low = k } else { high = k }
    }
    n / (n - low)
}

/// Per-plane greedy collection of random 4 KiB writes.
fn lone_chip(spare_share_of_raw: f64) -> QueuedParams {
    QueuedParams {
        channels: 1,
        chips_per_channel: 1,
        spare_share_of_raw,
        hot_period_ns: 0,
        gc_free_share: 0.08,
        ..QueuedParams::default()
    }
}

/// The theoretical value for [`lone_chip`], without the free and reserved blocks.
fn expected(params: &QueuedParams) -> f64 {
    // The pool holds one block less than the threshold when a victim is chosen. One block is reserved; two are open,
    // half full.
    let usable = f64::from(params.blocks_per_plane) - 19.0 - 1.0 - 1.0;
    theory(usable * 64.0 * 2.0 / f64::from(params.logical_pages()), 64.0)
}

/// Overwrites as many random pages as the device has, and returns the write amplification.
fn lap(ssd: &mut QueuedSsd, params: &QueuedParams, chance: &mut Chance, now: &mut u64) -> f64 {
    let before = ssd.stats();
    let pages = u64::from(params.logical_pages());
    let mut write = || {
        *now += 6_000_000;
        (*now, Request::new(Op::Write, chance.below(pages) * 4096, 4096))
    };
    ssd.serve((0..pages).map(|_| write()));
    let after = ssd.stats();
    1.0 + (after.gc_programs - before.gc_programs) as f64 / (after.host_programs - before.host_programs) as f64
}

/// The write amplification of greedy collection under uniform random writes agrees with theory.
#[test]
#[ignore = "slow: make test-slow"]
fn amplification_is_that_of_theory() {
    for spare_share_of_raw in [0.2, 0.25, 0.3, 0.4] {
        let params = lone_chip(spare_share_of_raw);
        let mut ssd = filled(&params, u64::from(params.logical_pages()));
        let (mut chance, mut now) = (Chance::new(8), 200_000_000_000);
        let amplification = (0..4).map(|_| lap(&mut ssd, &params, &mut chance, &mut now)).last().unwrap();
        let expected = expected(&params);
        println!("spare {spare_share_of_raw}: {amplification:.3}, theory {expected:.3}");
        assert!((amplification / expected - 1.0).abs() < 0.04, "{amplification} against {expected}");
    }
}

/// A preconditioned device collects from its first writes on, with the amplification of a device in long use.
#[test]
fn a_preconditioned_device_is_in_steady_state() {
    for spare_share_of_raw in [0.2, 0.3, 0.5] {
        let params = lone_chip(spare_share_of_raw);
        let mut ssd = QueuedSsd::new(&params).unwrap();
        assert!(ssd.precondition(3).steady);
        let stats = ssd.stats();
        assert_eq!((ssd.check(), stats.host_programs, stats.gc_programs), (Ok(()), 0, 0));
        let amplification = lap(&mut ssd, &params, &mut Chance::new(8), &mut 0);
        let expected = expected(&params);
        println!("spare {spare_share_of_raw}: {amplification:.3} at once, theory {expected:.3}");
        assert!((amplification / expected - 1.0).abs() < 0.06, "{amplification} against {expected}");
        assert_eq!(ssd.check(), Ok(()));
    }
}

/// With hardly more spare space than the limit at which writes stop, writes are slow, but every one ends.
#[test]
fn amplification_is_unknown_until_a_page_is_programmed() {
    let mut ssd = QueuedSsd::new(&small(0, false, false)).unwrap();
    ssd.serve((0..10).map(|n| (n * 1_000_000, Request::new(Op::Read, n * 4096, 4096))));
    assert_eq!(ssd.stats().waf(), None);
    let mut written = filled(&small(0, false, false), 64);
    written.serve([(1_000_000_000, Request::new(Op::Read, 0, 4096))]);
    assert_eq!(written.stats().waf(), Some(1.0));
}

#[test]
fn writes_end_with_the_least_spare_space() {
    let params = QueuedParams {
        spare_share_of_raw: 0.21,
        gc_stop_writes_below_blocks: 2,
        gc_free_share: 0.0,
        ..small(0, false, false)
    };
    let mut ssd = filled(&params, u64::from(params.logical_pages()));
    let mut chance = Chance::new(1);
    let mut write = |n| {
        let offset_bytes = chance.below(params.capacity_bytes() / 4096) * 4096;
        (300_000_000_000 + n * 1_000_000, Request::new(Op::Write, offset_bytes, 4096))
    };
    let answers = ssd.serve((0..5_000u64).map(&mut write));
    assert_eq!(answers.len(), 5_000, "every write ends");
    assert_eq!(ssd.check(), Ok(()));
    assert!(ssd.stats().waf().unwrap() > 2.0);
}

/// A latency is what the request waited for and what it takes on an idle device, also if its page is being moved.
#[test]
fn a_latency_is_its_waits_and_its_service() {
    // Dies and planes of a chip would share commands, which then take longer.
    let params = QueuedParams { dies_per_chip: 1, planes_per_die: 1, ..small(0, false, false) };
    let mut ssd = QueuedSsd::new(&params).unwrap();
    ssd.precondition(2);
    let (mut chance, mut now) = (Chance::new(6), 0);
    let asked: Vec<(u64, Request)> = (0..4_000)
        .map(|_| {
            now += chance.exponential(60_000.0) as u64;
            let op = if chance.happens(0.5) { Op::Read } else { Op::Write };
            (now, Request::new(op, chance.below(params.capacity_bytes() / 4096) * 4096, 4096))
        })
        .collect();
    let answers = ssd.serve(asked.iter().copied());
    let reads = asked.iter().zip(answers).filter(|((_, request), _)| request.op == Op::Read);
    let mut services: Vec<u64> = reads.map(|(_, one)| one.latency_ns - one.cause.total_ns()).collect();
    services.sort_unstable();
    services.dedup();
    // The shorter one is that of the write buffer.
    assert_eq!(services.len(), 2, "{services:?}");
    assert_eq!(services[1], params.unloaded_read_ns(4096));
    assert!(ssd.stats().gc_runs > 100 && ssd.stats().buffer_hits > 0);
}

#[test]
fn a_device_without_room_for_data_or_for_collection_is_refused() {
    let refused = |params: QueuedParams| QueuedSsd::new(&params).map(|_| ()).unwrap_err().to_string();
    let one = QueuedParams {
        channels: 1,
        chips_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 6,
        pages_per_block: 1,
        spare_share_of_raw: 0.9,
        gc_stop_writes_below_blocks: 0,
        reserved_blocks_per_plane: 0,
        ..QueuedParams::default()
    };
    assert!(refused(one.clone()).contains("no flash page"));
    QueuedSsd::new(&QueuedParams { pages_per_block: 2, ..one }).unwrap();
    let never = QueuedParams { gc_free_share: 0.5, ..QueuedParams::default() };
    assert!(refused(never.clone()).contains("gc_free_share = 0.5"));
    QueuedSsd::new(&QueuedParams { gc_free_share: 0.15, ..never }).unwrap();
    let stuck = QueuedParams { destage_pages_max: Some(0), ..QueuedParams::default() };
    assert!(refused(stuck).contains("destage_pages_max = 0: must be in 1..=4294967295"));
}

/// A plane to which more is written at once than it has free blocks: while the programs of every full block are queued,
/// no block can be collected, and collection must start when one can.
#[test]
fn a_burst_to_one_plane_is_served() {
    for stop in 0..4 {
        let params =
            QueuedParams { write_buffer_bytes: 0, gc_stop_writes_below_blocks: stop, ..small(0, false, false) };
        let mut ssd = filled(&params, 64);
        let now = 1_000_000_000;
        let planes = 16;
        let burst = (0..400).map(|n| (now, Request::new(Op::Write, n % 40 * planes * 4096, 4096)));
        assert_eq!(ssd.serve(burst).len(), 400, "stop {stop}");
        assert_eq!(ssd.check(), Ok(()));
        assert!(ssd.stats().gc_runs > 0);
    }
}
