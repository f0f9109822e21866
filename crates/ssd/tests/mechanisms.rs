// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that each mechanism behaves as its page says, and keeps the map consistent.

use linnet_sim::Chance;
use linnet_ssd::{Mechanism, Params, ReadPriority, Resource, Ssd, Tenant, TenantLatencies, run_tenants};
use linnet_types::{Foresight, LatencyModel, Nanos, Op, Outcome, Request};
use proptest::prelude::*;

fn small() -> Params {
    Params {
        channels: 2,
        dies_per_channel: 2,
        pages_per_block: 4,
        blocks_per_plane: 48,
        over_provisioning: 0.35,
        gc_free_superblocks: 3.5,
        gc_quantum_rows: 2,
        superblocks_per_erase: 2,
        gc_episode_rounds: 3,
        buffer_bytes: 1 << 20,
        checkpoint_host_pages: 0,
        retry_probability: 0.0,
        ..Params::preset("consumer-deep").unwrap()
    }
}

fn device(params: &Params) -> Ssd {
    let mut ssd = Ssd::new(params, 1).unwrap();
    ssd.precondition();
    ssd
}

fn ask(offset_bytes: u64, size_bytes: u32, op: Op) -> Request {
    Request::new(op, offset_bytes, size_bytes)
}

fn latency(ssd: &mut Ssd, now: Nanos, request: &Request) -> Nanos {
    match ssd.submit(now, request) {
        Outcome::Done(at) => at - now,
        other => panic!("{other:?}"),
    }
}

/// Overwrites a tenth of the device, so that the rest is static.
fn churn(ssd: &mut Ssd, writes: u64) {
    let pages = ssd.capacity_bytes() / 4096;
    let mut chance = Chance::new(4);
    for n in 0..writes {
        let request = ask(chance.below(pages / 10) * 4096, 4096, Op::Write);
        ssd.submit(n * 200_000, &request);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any set of mechanisms, requests, trims and flushes in any order lose nothing, and peeks stay exact.
    #[test]
    fn the_map_stays_whole(
        seed: u64, dynamic: bool, gap in 0u32..20, foreground: bool, partial: bool, slc: bool, order in 0usize..3,
        paced: bool, types: bool, late in 0u64..2, stalled in 0u32..3,
    ) {
        let params = Params {
            read_priority: [ReadPriority::None, ReadPriority::OverQueued, ReadPriority::Suspend][order],
            wear_levelling_dynamic: dynamic,
            wear_levelling_static_gap: if foreground { 0 } else { gap },
            gc_foreground_only: foreground,
            partial_page_mapping: partial,
            slc_cache_bytes: if slc { 2 << 20 } else { 0 },
            slc_program_ns: if slc { 200_000 } else { 0 },
            retry_probability: 0.01,
            retry_growth_per_1000_erases: 50.0,
            gc_paced: paced && !foreground,
            gc_read_pages: if types { 1 } else { 0 },
            write_limit_mb_per_s: if types { 50 } else { 0 },
            suspend_after_ns: late * 200_000,
            resume_ns: late * 20_000,
            stalled_writes_max: stalled * 4,
            page_type_read_ns: if types { vec![40_000, 60_000] } else { Vec::new() },
            ..small()
        };
        let mut ssd = device(&params);
        let mut chance = Chance::new(seed);
        let mut now = 0;
        for _ in 0..500 {
            now += chance.below(400_000);
            let grain = if chance.happens(0.3) { 512 } else { 4096 };
            let offset = chance.below(ssd.capacity_bytes() / grain) * grain;
            let size = (1 + chance.below(16)) as u32 * grain as u32;
            match chance.below(20) {
                0 => {
                    ssd.trim(now, offset, u64::from(size) * 8);
                }
                1 => {
                    let done = ssd.flush(now);
                    prop_assert!(done >= now);
                }
                n => {
                    let op = if n % 2 == 0 { Op::Read } else { Op::Write };
                    let told = ssd.peek(now, &ask(offset, size, op));
                    let (at, cause) = ssd.submit_on((n % 3) as u16, now, &ask(offset, size, op));
                    prop_assert_eq!(told, Outcome::Done(at));
                    prop_assert!(cause.total_ns() <= at - now);
                }
            }
        }
        prop_assert_eq!(ssd.check(), Ok(()));
        let stats = ssd.stats();
        prop_assert!(stats.waf().is_none_or(|waf| waf >= 1.0));
        prop_assert_eq!(ssd.streams().iter().map(|s| s.reads).sum::<u64>(), stats.reads);
        prop_assert_eq!(ssd.streams().iter().map(|s| s.writes).sum::<u64>(), stats.writes);
        prop_assert_eq!(ssd.streams().iter().map(|s| s.slow_reads).sum::<u64>(), stats.slow_reads.total());
    }
}

#[test]
fn trimmed_pages_cost_neither_reads_nor_relocation() {
    let params = Params { gc_episode_rounds: 1, ..small() };
    let (mut kept, mut trimmed) = (device(&params), device(&params));
    let half = trimmed.capacity_bytes() / 2;
    trimmed.trim(0, half, half);
    assert_eq!(trimmed.stats().trimmed_pages, half / 4096);
    churn(&mut kept, 20_000);
    churn(&mut trimmed, 20_000);
    assert!(trimmed.stats().waf().unwrap() < 0.8 * kept.stats().waf().unwrap() + 0.2);
    let now = 100_000_000_000;
    assert!(latency(&mut trimmed, now, &ask(half + 4096, 4096, Op::Read)) < params.read_ns);
    // A page in the buffer is dropped without being written.
    trimmed.submit(now, &ask(0, 4096, Op::Write));
    trimmed.trim(now, 0, 4096);
    let before = trimmed.stats().flushed_pages;
    trimmed.flush(now);
    assert_eq!(trimmed.stats().flushed_pages, before);
    assert_eq!(trimmed.check(), Ok(()));
}

#[test]
fn a_flush_ends_when_the_programs_do() {
    let params = small();
    let mut ssd = device(&params);
    let idle = ssd.flush(0);
    assert_eq!(idle, params.command_ns + params.complete_ns);
    ssd.submit(1_000_000_000, &ask(0, 4096, Op::Write));
    let done = ssd.flush(1_000_000_000) - 1_000_000_000;
    assert!(done >= params.program_ns && done < 3 * params.program_ns, "{done}");
    assert_eq!(ssd.stats().flushes_explicit, 1);
    assert!(latency(&mut ssd, 2_000_000_000, &ask(0, 4096, Op::Read)) >= params.read_ns, "it is on flash");
}

#[test]
fn retries_grow_with_wear() {
    let retries = |growth| {
        let params = Params { retry_probability: 0.002, retry_growth_per_1000_erases: growth, ..small() };
        let mut ssd = device(&params);
        churn(&mut ssd, 30_000);
        let worn = ssd.wear().mean;
        for n in 0..20_000u64 {
            ssd.submit(100_000_000_000 + n * 1_000_000, &ask(n * 40_960, 4096, Op::Read));
        }
        (ssd.stats().retries as f64, worn)
    };
    let (plain, worn) = retries(0.0);
    let (grown, _) = retries(500.0);
    let expected = 1.0 + 500.0 * worn / 1000.0;
    assert!(worn > 5.0 && (grown / plain / expected - 1.0).abs() < 0.5, "{plain} {grown} at {worn} erases");
}

#[test]
fn wear_levelling_levels_wear() {
    let spread = |wear_levelling_dynamic, wear_levelling_static_gap| {
        let mut ssd = device(&Params { wear_levelling_dynamic, wear_levelling_static_gap, ..small() });
        churn(&mut ssd, 60_000);
        assert_eq!(ssd.check(), Ok(()));
        (ssd.wear().most - ssd.wear().least, ssd.stats().wear_moves)
    };
    let (plain, none) = spread(false, 0);
    let (levelled, moves) = spread(true, 8);
    assert!(none == 0 && moves > 0 && levelled * 4 < plain * 3, "{plain} {levelled} with {moves} moves");
}

#[test]
fn foreground_collection_runs_only_when_space_is_out() {
    let mut ssd = device(&Params { gc_foreground_only: true, ..small() });
    churn(&mut ssd, 30_000);
    let stats = ssd.stats();
    assert!(stats.erases > 0);
    assert_eq!(stats.gc_rounds_foreground, stats.gc_rounds_wide + stats.gc_rounds_single);
}

#[test]
fn foreground_rounds_are_device_wide_at_the_share() {
    let rounds = |device_wide_share| {
        let mut ssd = device(&Params { gc_foreground_only: true, device_wide_share, ..small() });
        churn(&mut ssd, 30_000);
        (ssd.stats().gc_rounds_wide, ssd.stats().gc_rounds_single)
    };
    let ((none, all), (wide, single)) = (rounds(0.0), rounds(0.5));
    assert!(none == 0 && all > 0, "{none} {all}");
    assert!((0.3..0.7).contains(&(wide as f64 / (wide + single) as f64)), "{wide} {single}");
    assert_eq!(rounds(1.0).1, 0);
}

#[test]
fn partial_pages_trade_a_read_at_the_write_for_one_at_the_read() {
    let run = |partial_page_mapping| {
        let mut ssd = device(&Params { partial_page_mapping, ..small() });
        ssd.submit(0, &ask(8_192, 512, Op::Write));
        ssd.flush(0);
        let read = latency(&mut ssd, 1_000_000_000, &ask(8_192, 4096, Op::Read));
        ssd.submit(2_000_000_000, &ask(8_192, 4096, Op::Write));
        ssd.flush(2_000_000_000);
        (ssd.stats().rmw_reads, read, latency(&mut ssd, 3_000_000_000, &ask(8_192, 4096, Op::Read)))
    };
    let (whole, split) = (run(false), run(true));
    assert_eq!((whole.0, split.0), (1, 0));
    assert_eq!(split.1, whole.1 + small().read_ns);
    assert_eq!(split.2, whole.2, "a page written whole lies in one piece");
}

#[test]
fn an_slc_cache_takes_a_burst_at_its_speed_and_folds_it_later() {
    let burst = |slc_cache_bytes, megabytes: u64| {
        let params = Params { slc_cache_bytes, slc_program_ns: 200_000, flush_watermark: 0.3, ..small() };
        let mut ssd = device(&params);
        for n in 0..megabytes * 4 {
            ssd.submit(n, &ask(n << 18, 1 << 18, Op::Write));
        }
        (ssd.flush(megabytes * 4), ssd.stats().slc_folded_pages)
    };
    let (plain, _) = burst(0, 2);
    let (cached, folded) = burst(8 << 20, 2);
    assert!(folded == 0 && cached * 10 < plain * 7, "{cached} with, {plain} without");
    let (_, folded) = burst(4 << 20, 16);
    assert!(folded > 0);
}

/// The recorder agrees with the causes of requests, and recording changes no answer.
#[test]
fn the_timeline_shows_why_a_read_waited() {
    let mut plain = device(&small());
    let mut ssd = plain.clone();
    ssd.record_timeline(64);
    let mut chance = Chance::new(2);
    for n in 0..3_000u64 {
        let op = if chance.happens(0.5) { Op::Read } else { Op::Write };
        let request = ask(chance.below(ssd.capacity_bytes() / 4096) * 4096, 4096, op);
        let now = n * 150_000;
        let (at, cause) = ssd.submit_explained(now, &request);
        assert_eq!(Outcome::Done(at), plain.submit(now, &request));
        let waited = cause.wait_ns(Mechanism::FlushWide);
        if waited > 100_000 {
            let spans = ssd.timeline(now, at);
            let programs =
                spans.iter().filter(|s| s.of == Mechanism::FlushWide && matches!(s.resource, Resource::Die(_)));
            let mut busy = [0; 4];
            for span in programs {
                let Resource::Die(die) = span.resource else { continue };
                busy[die as usize] += span.end_ns.min(at) - span.start_ns.max(now);
            }
            let longest = busy.into_iter().max().unwrap_or(0);
            assert!(longest + 1 >= waited, "waited {waited} for programs, the timeline shows {longest}");
        }
    }
    let spans = ssd.timeline(0, u64::MAX);
    assert!(spans.is_sorted_by_key(|span| span.start_ns) && spans.iter().all(|span| span.start_ns <= span.end_ns));
    assert!(spans.iter().any(|span| matches!(span.resource, Resource::Channel(_))));
    ssd.record_timeline(0);
    assert!(ssd.timeline(0, u64::MAX).is_empty());
}

/// A drive of eight dies with paced collection.
fn paced() -> Params {
    Params {
        channels: 4,
        pages_per_block: 6,
        blocks_per_plane: 96,
        gc_free_superblocks: 6.0,
        gc_quantum_rows: 1,
        device_wide_share: 0.0,
        gc_paced: true,
        read_priority: ReadPriority::OverQueued,
        page_type_read_ns: Vec::new(),
        ..small()
    }
}

/// What a thread of fixed intervals sees beside one that writes, at this many writes per second.
fn shared(params: &Params, writes: f64) -> (Ssd, Vec<TenantLatencies>) {
    let mut ssd = device(params);
    assert!(ssd.overwrite(ssd.capacity_bytes() / 8192, 3, &mut || true));
    let tenant = |iops, write_share, poisson| Tenant { iops, write_share, poisson, depth: 64 };
    let tenants = [tenant(2_000.0, 0.0, false), tenant(writes, 1.0, true)];
    let found = run_tenants(&mut ssd, &tenants, 500_000_000, 2_000_000_000, 1, &mut || true).unwrap();
    assert_eq!(ssd.check(), Ok(()));
    (ssd, found)
}

fn quantile(values: &[Nanos], share: f64) -> Nanos {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(share * (sorted.len() - 1) as f64) as usize]
}

#[test]
fn paced_collection_keeps_up_without_episodes() {
    let params = paced();
    for writes in [500.0, 4_000.0] {
        let (ssd, found) = shared(&params, writes);
        let stats = ssd.stats();
        assert!(stats.gc_rounds_single > 20 && stats.gc_rounds_wide == 0 && stats.gc_rounds_foreground == 0);
        // A read waits for at most one program, or for an erase.
        let longest = params.erase_ns + params.read_ns * 3 + 100_000;
        let slowest = quantile(&found[0].reads_ns, 1.0);
        assert!(slowest < longest, "{slowest}");
        assert!(quantile(&found[0].reads_ns, 0.95) < params.program_ns + 2 * params.read_ns + 100_000);
    }
    // Episodes of the same drive hold reads up for several programs.
    let (_, found) = shared(&Params { gc_paced: false, gc_quantum_rows: 2, device_wide_share: 1.0, ..params }, 4_000.0);
    let p99 = quantile(&found[0].reads_ns, 0.99);
    assert!(p99 > 2 * paced().program_ns, "{p99}");
}

#[test]
fn a_thread_at_its_limit_waits_and_the_drive_takes_what_its_dies_can() {
    let params = paced();
    let (ssd, found) = shared(&params, 100_000.0);
    let per_second = found[1].writes_ns.len() as f64 / 2.0;
    let mean = found[1].writes_ns.iter().sum::<Nanos>() as f64 / found[1].writes_ns.len() as f64;
    assert!((per_second * mean / 1e9 / 64.0 - 1.0).abs() < 0.1, "64 in flight all the time (Little's law)");
    assert!(ssd.stats().utilisation() > 0.95 && ssd.stats().utilisation() <= 1.0, "{}", ssd.stats().utilisation());
    let (_, light) = shared(&params, 1_000.0);
    assert!((light[1].writes_ns.len() as f64 / 2_000.0 - 1.0).abs() < 0.1);
    assert!(quantile(&light[1].writes_ns, 0.99) < 50_000, "the buffer takes them");
}

#[test]
fn a_controller_that_stops_fetching_holds_reads_behind_writes() {
    let median = |stalled_writes_max| {
        let (_, found) = shared(&Params { stalled_writes_max, ..paced() }, 100_000.0);
        (quantile(&found[0].reads_ns, 0.5), quantile(&found[1].writes_ns, 0.5))
    };
    let ((free, writes), (held, _)) = (median(0), median(8));
    assert!(free < 2 * paced().program_ns && held > writes / 2 && held > 2 * free, "{free} {held} {writes}");
}

#[test]
fn admitted_writes_keep_to_the_limit_after_a_burst() {
    let params = Params { write_limit_mb_per_s: 10, ..paced() };
    let (_, found) = shared(&params, 100_000.0);
    let (_, free) = shared(&paced(), 100_000.0);
    let bytes_per_second = |found: &[TenantLatencies]| found[1].writes_ns.len() as f64 * 4096.0 / 2.0;
    assert!((bytes_per_second(&found) / 10e6 - 1.0).abs() < 0.03, "{}", bytes_per_second(&found));
    assert!(bytes_per_second(&free) > 15e6);
    // Admission at equal intervals: all 64 wait alike.
    let (p50, p99) = (quantile(&found[1].writes_ns, 0.5), quantile(&found[1].writes_ns, 0.99));
    assert!(p99 < p50 + p50 / 20, "{p50} {p99}");
    let mut ssd = device(&params);
    let mut slow = 0;
    for n in 0..400u64 {
        slow += u64::from(latency(&mut ssd, n, &ask(n * 4096, 4096, Op::Write)) > 1_000_000);
    }
    assert!((130..=150).contains(&slow), "the first MiB is taken at once: {slow} of 400 pages waited");
}

#[test]
fn collection_that_reads_page_by_page_has_more_and_shorter_reads() {
    let busy = |gc_read_pages| {
        let (ssd, _) = shared(&Params { gc_read_pages, ..paced() }, 1_000.0);
        (ssd.stats().utilisation(), ssd.stats().gc_moved_pages)
    };
    let ((whole, moved), (paged, same)) = (busy(0), busy(1));
    assert!(moved.abs_diff(same) * 20 < moved && paged > 1.05 * whole, "{whole} {paged}");
    let refused = Ssd::new(&Params { gc_read_pages: 9, ..paced() }, 1).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("gc_read_pages"), "{refused}");
}

#[test]
fn page_types_take_their_own_time() {
    let params = Params { page_type_read_ns: vec![30_000, 50_000, 50_000], ..small() };
    let mut ssd = device(&params);
    let rest = params.command_ns + params.complete_ns;
    let mut counts = [0u32; 2];
    for n in 0..600u64 {
        let took = latency(&mut ssd, 100_000_000_000 + n * 10_000_000, &ask(n * 40_960, 4096, Op::Read)) - rest;
        counts[usize::from(took >= 50_000)] += 1;
    }
    assert!(counts[0].abs_diff(200) < 80, "a third of the rows are fast: {counts:?}");
}
