// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queued model: what must hold of it, and that it saturates where the simulator whose rules it follows does.

use linnet_sim::Chance;
use linnet_ssd::queued::{QueuedParams, QueuedSsd, VictimPolicy};
use linnet_types::{Op, Request};
use proptest::prelude::*;

fn filled(params: &QueuedParams, pages: u64) -> QueuedSsd {
    let mut ssd = QueuedSsd::new(params).unwrap();
    let size_bytes = 16 * params.page_bytes;
    for n in 0..pages / 16 {
        let offset_bytes = n * u64::from(size_bytes);
        ssd.push(n * 400_000, &Request::new(Op::Write, offset_bytes, size_bytes));
    }
    ssd.finish();
    ssd
}

/// Thousands of 4 KiB reads per second in a closed loop, over a footprint of 32,768 pages.
fn saturation(params: &QueuedParams, depth: u32) -> f64 {
    let mut ssd = filled(params, 32_768);
    let mut chance = Chance::new(3);
    let count = 20_000;
    let requests: Vec<Request> =
        (0..count).map(|_| Request::new(Op::Read, chance.below(32_768) * 4096, 4096)).collect();
    let began = ssd.run_closed(1, [Request::new(Op::Read, 0, 4096)]);
    let ended = ssd.run_closed(depth, requests);
    f64::from(count) * 1e6 / (ended - began) as f64
}

/// MQSim, 4 KiB random reads at queue depths 1, 8, 32, 128 and 512, in thousands per second.
#[test]
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

/// 16 planes of 24 blocks of 8 pages: collects after a few hundred writes.
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

    /// Whatever the load, all requests complete, none faster than an idle device serves it, and the map stays whole.
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
        let base = ssd.served().len();
        let mut now = 100_000_000_000;
        let mut asked = Vec::new();
        for _ in 0..1_500 {
            now += chance.exponential(gap as f64) as u64;
            let op = if chance.happens(0.4) { Op::Read } else { Op::Write };
            let sectors = if chance.happens(0.2) { 1 + chance.below(40) as u32 } else { 8 };
            let request = Request::new(op, chance.below(params.capacity_bytes() / 512) * 512, sectors * 512);
            ssd.push(now, &request);
            asked.push(request);
        }
        ssd.finish();
        prop_assert_eq!(ssd.check(), Ok(()));
        let hit_ns = params.command_ns + params.complete_ns;
        let mut hits = 0;
        for (request, served) in asked.iter().zip(&ssd.served()[base..]) {
            let latency = served.latency_ns.expect("every request completes");
            prop_assert!(latency >= hit_ns && served.cause.total_ns() <= latency);
            if request.op == Op::Read && latency < params.unloaded_read_ns(512) {
                hits += 1;
            }
        }
        let stats = ssd.stats();
        prop_assert!(hits <= stats.buffer_hits);
        prop_assert!(stats.waf() >= 1.0 && stats.erases > 0 && stats.erases == stats.gc_runs);
        prop_assert_eq!(stats.completed as usize, ssd.served().len());
        prop_assert!(suspend || stats.suspensions == 0);
    }
}

/// At low load it is the same whether requests come by the clock or one after the other.
#[test]
fn open_and_closed_loop_agree_at_low_load() {
    let params = QueuedParams::default();
    let mut open = filled(&params, 4_096);
    let mut closed = open.clone();
    let base = open.served().len();
    let mut chance = Chance::new(5);
    let asked: Vec<Request> = (0..500).map(|_| Request::new(Op::Read, chance.below(4_096) * 4096, 4096)).collect();
    for (n, request) in (1u64..).zip(&asked) {
        open.push(200_000_000_000 + n * 1_000_000, request);
    }
    open.finish();
    closed.run_closed(1, asked);
    assert_eq!(open.served()[base..], closed.served()[base..]);
}

/// The references of the tree's neighbour, within the bars of the design page.
#[test]
fn references_are_met() {
    let shared = std::env::var("LINNET_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into());
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

/// Greedy collection of blocks of `n` pages, `a` pages of flash per page of data (Desnoyers, SYSTOR 2012; see `amplification.rs`).
fn theory(a: f64, n: f64) -> f64 {
    let (mut low, mut high) = (0.0, n - 1e-6);
    for _ in 0..200 {
        let k = 0.5 * (low + high);
        if n / (n - k) * ((n + 0.5) / (k + 0.5)).ln() > a { low = k } else { high = k }
    }
    n / (n - low)
}

/// Per-plane greedy collection amplifies uniform random writes as theory has it, free and reserved blocks set aside.
#[test]
fn amplification_is_that_of_theory() {
    for spare_share_of_raw in [0.2, 0.25, 0.3, 0.4] {
        let params = QueuedParams {
            channels: 1,
            chips_per_channel: 1,
            spare_share_of_raw,
            hot_period_ns: 0,
            gc_free_share: 0.08,
            ..QueuedParams::default()
        };
        let mut ssd = filled(&params, u64::from(params.logical_pages()));
        let mut chance = Chance::new(8);
        let mut now = 200_000_000_000;
        let pages = u64::from(params.logical_pages());
        let mut before = (0, 0);
        let mut amplification = 0.0;
        for lap in 0..4 {
            for _ in 0..pages {
                now += 6_000_000;
                ssd.push(now, &Request::new(Op::Write, chance.below(pages) * 4096, 4096));
            }
            let stats = ssd.stats();
            let host = stats.host_programs - before.0;
            amplification = 1.0 + (stats.gc_programs - before.1) as f64 / host as f64;
            before = (stats.host_programs, stats.gc_programs);
            assert!(lap < 3 || stats.erases > 0);
        }
        // The pool holds one block less than the threshold when a victim is chosen; one block is reserved, two are open, half full.
        let usable = f64::from(params.blocks_per_plane) - 19.0 - 1.0 - 1.0;
        let expected = theory(usable * 64.0 * 2.0 / pages as f64, 64.0);
        println!("spare {spare_share_of_raw}: {amplification:.3}, theory {expected:.3}");
        assert!((amplification / expected - 1.0).abs() < 0.04, "{amplification} against {expected}");
    }
}

/// Spare space that is hardly more than what stops writes: slow, but every write ends.
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
    for n in 0..5_000u64 {
        let offset_bytes = chance.below(params.capacity_bytes() / 4096) * 4096;
        ssd.push(300_000_000_000 + n * 1_000_000, &Request::new(Op::Write, offset_bytes, 4096));
    }
    ssd.finish();
    assert!(ssd.served().iter().all(|served| served.latency_ns.is_some()));
    assert_eq!(ssd.check(), Ok(()));
    assert!(ssd.stats().waf() > 2.0);
}
