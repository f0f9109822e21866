// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of every device under any workload.

use linnet_sim::{Chance, Lawful, Modelled};
use linnet_ssd::{PRESETS, Params, ReadPriority, Ssd};
use linnet_types::{Device, Foresight, LatencyModel, Nanos, Op, Outcome, Request};
use proptest::prelude::*;

/// A device that is small enough for hundreds of runs: 32 superblocks of 128 pages on 4 dies.
fn small() -> Params {
    Params {
        channels: 2,
        dies_per_channel: 2,
        pages_per_block: 4,
        blocks_per_plane: 32,
        over_provisioning: 0.35,
        gc_free_superblocks: 3.5,
        gc_quantum_rows: 2,
        superblocks_per_erase: 2,
        gc_episode_rounds: 3,
        buffer_bytes: 1 << 20,
        checkpoint_host_pages: 256,
        retry_probability: 0.02,
        ..Params::preset("consumer-deep").unwrap()
    }
}

fn done(outcome: Outcome) -> Nanos {
    match outcome {
        Outcome::Done(at) => at,
        other => panic!("a device without faults answered {other:?}"),
    }
}

/// A random request: mostly small, some unaligned, some large, some beyond the end.
fn request(chance: &mut Chance, capacity: u64) -> Request {
    let op = if chance.happens(0.5) { Op::Read } else { Op::Write };
    let size_bytes = match chance.below(20) {
        0 => 512 * (1 + chance.below(64) as u32),
        1 => 1 << 20,
        2..8 => 4096 * (1 + chance.below(32) as u32),
        _ => 4096,
    };
    let grain = if chance.happens(0.2) { 512 } else { 4096 };
    Request::new(op, chance.below(2 * capacity / grain) * grain, size_bytes)
}

/// A small device with a random set of all mechanisms.
fn drawn(chance: &mut Chance) -> Params {
    let mut some = |below: u64| if chance.happens(0.5) { 0 } else { 1 + chance.below(below) };
    let paced = some(1) == 1;
    let foreground = !paced && some(4) == 1;
    let slc = some(1) == 1;
    Params {
        read_priority: priority(some(2) as u8),
        gc_quantum_rows: 1 + some(3) as u32,
        gc_episode_rounds: 1 + some(3) as u32,
        buffer_bytes: 1 << (19 + some(2)),
        gc_paced: paced,
        gc_foreground_only: foreground,
        gc_read_pages: some(4) as u32,
        suspend_after_ns: some(400_000),
        resume_ns: some(100_000),
        stalled_writes_max: some(16) as u32,
        write_limit_mb_per_s: some(1) as u32 * (20 + some(400) as u32),
        page_type_read_ns: if some(1) == 1 { vec![40_000, 60_000, 90_000] } else { Vec::new() },
        partial_page_mapping: some(1) == 1,
        slc_cache_bytes: if slc { 1 << 20 } else { 0 },
        slc_program_ns: if slc { 200_000 } else { 0 },
        wear_levelling_dynamic: some(1) == 1,
        wear_levelling_static_gap: if foreground { 0 } else { some(5) as u32 },
        device_wide_share: some(10) as f64 / 10.0,
        ..small()
    }
}

fn priority(number: u8) -> ReadPriority {
    [ReadPriority::None, ReadPriority::OverQueued, ReadPriority::Suspend][number as usize % 3]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: Some(Box::new(proptest::test_runner::FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// Peeks between requests change no answer, and a peek returns what submit answers.
    #[test]
    fn a_peek_is_exact_and_leaves_no_trace(seed: u64, gap in 1_000u64..400_000) {
        let mut chance = Chance::new(seed ^ 1);
        let params = drawn(&mut chance);
        let mut plain = Ssd::new(&params, seed).unwrap();
        plain.precondition();
        let mut peeked = plain.clone();
        let mut now = 0;
        for _ in 0..400 {
            now += chance.exponential(gap as f64) as Nanos;
            let asked = request(&mut chance, plain.capacity_bytes());
            for _ in 0..chance.below(4) {
                let other = request(&mut chance, plain.capacity_bytes());
                peeked.peek(now, &other);
            }
            let told = peeked.peek(now, &asked);
            prop_assert_eq!(told, peeked.peek(now, &asked));
            let limit = now + chance.below(2 * (done(told) - now));
            let until = done(peeked.peek_until(now, &asked, limit));
            let known = if done(told) > limit { (limit..=done(told)).contains(&until) } else { until == done(told) };
            prop_assert!(known, "{until} for {told:?}, limit {limit}, {asked:?}");
            let answer = peeked.submit(now, &asked);
            prop_assert_eq!(told, answer, "{:?}", asked);
            prop_assert_eq!(answer, plain.submit(now, &asked), "{:?}", asked);
        }
        prop_assert_eq!(plain.stats(), peeked.stats());
    }

    /// A latency is what the request waited for and what it takes on an idle device.
    #[test]
    fn a_latency_is_its_waits_and_its_service(seed: u64, gap in 1_000u64..200_000) {
        let mut chance = Chance::new(seed ^ 3);
        let params = drawn(&mut chance);
        let mut ssd = Ssd::new(&params, seed).unwrap();
        ssd.precondition();
        let link_ns = |bytes: u32| u64::from(bytes) * (1_000_000 / u64::from(params.link_mb_per_s)) / 1000;
        let fixed = params.command_ns + params.complete_ns;
        let mut now = 0;
        for _ in 0..600 {
            now += chance.exponential(gap as f64) as Nanos;
            let asked = request(&mut chance, ssd.capacity_bytes());
            let (at, cause) = ssd.submit_explained(now, &asked);
            let service = at - now - cause.total_ns();
            let of_dram = fixed + params.dram_ns + link_ns(asked.size_bytes);
            if asked.op == Op::Write {
                prop_assert_eq!(service, of_dram, "{:?}", asked);
                continue;
            }
            // A read from the types of pages that there are.
            let slowest = params.page_type_read_ns.iter().copied().max().unwrap_or(params.read_ns);
            let of_flash = |read_ns| ssd.unloaded_read_ns(asked.size_bytes) - params.read_ns + read_ns;
            if asked.size_bytes == 4096 && asked.offset_bytes.is_multiple_of(4096) {
                let types = if params.page_type_read_ns.is_empty() { vec![params.read_ns] } else { params.page_type_read_ns.clone() };
                let mut known = types.into_iter().map(of_flash).chain([of_dram]);
                prop_assert!(known.any(|one| one == service), "{service} of {asked:?}, {cause:?}");
            }
            let extra_page_ns = ssd.unloaded_read_ns(8192) - ssd.unloaded_read_ns(4096);
            prop_assert!(service <= of_flash(slowest) + extra_page_ns, "{service} of {asked:?}");
        }
    }

    /// As a [`Device`], every request ends when the model said at its submission, and the rules of devices hold.
    #[test]
    fn requests_end_when_the_model_said(seed: u64, share in 0.0f64..=1.0, gap in 1_000u64..400_000) {
        let mut told = Ssd::new(&Params { device_wide_share: share, ..small() }, seed).unwrap();
        told.precondition();
        let mut device = Lawful::new(Modelled::new(told.clone()));
        let mut chance = Chance::new(seed ^ 2);
        let (mut now, mut expected, mut ends) = (0, Vec::new(), Vec::new());
        for token in 0..400u64 {
            now += chance.exponential(gap as f64) as Nanos;
            let asked = request(&mut chance, told.capacity_bytes());
            while let Some(due) = device.next_due().filter(|&due| due <= now) {
                device.poll(due, &mut ends);
            }
            device.submit(now, token, &asked);
            expected.push((token, done(told.submit(now, &asked))));
        }
        device.poll(Nanos::MAX, &mut ends);
        prop_assert_eq!(device.finish(), Ok(()));
        ends.sort_unstable_by_key(|one| one.token);
        prop_assert_eq!(ends.iter().map(|one| (one.token, one.at_ns)).collect::<Vec<_>>(), expected);
    }

    /// The map stays one to one, nothing is lost, nothing is faster than on an idle device, and the causes add up.
    #[test]
    fn no_page_is_lost_and_nothing_is_too_fast(seed: u64, order in 0u8..3, share in 0.0f64..=1.0, filled: bool) {
        let params = Params { read_priority: priority(order), device_wide_share: share, ..small() };
        let mut ssd = Ssd::new(&params, seed).unwrap();
        if filled {
            ssd.precondition();
            prop_assert_eq!(ssd.check(), Ok(()));
        }
        let mut chance = Chance::new(seed);
        let mut now = 0;
        for _ in 0..600 {
            now += chance.exponential(100_000.0) as Nanos;
            let asked = request(&mut chance, ssd.capacity_bytes());
            let hits = ssd.stats().buffer_read_hits;
            let (at, cause) = ssd.submit_explained(now, &asked);
            let latency = at - now;
            let least = params.command_ns + params.complete_ns;
            prop_assert!(latency >= least);
            prop_assert!(cause.total_ns() <= latency);
            if asked.op == Op::Read && filled && ssd.stats().buffer_read_hits == hits {
                prop_assert!(latency >= params.read_ns + least);
                if asked.size_bytes == 4096 && asked.offset_bytes.is_multiple_of(4096) {
                    prop_assert_eq!(latency - cause.total_ns(), ssd.unloaded_read_ns(4096));
                }
            }
        }
        prop_assert_eq!(ssd.check(), Ok(()));
        let stats = ssd.stats();
        prop_assert!(stats.waf().is_none_or(|waf| waf >= 1.0));
        prop_assert!(stats.flushed_pages + stats.buffer_write_hits <= stats.host_write_pages);
    }

    #[test]
    fn the_same_seed_gives_the_same_answers(seed: u64) {
        let run = || {
            let mut ssd = Ssd::new(&small(), seed).unwrap();
            ssd.precondition();
            let mut chance = Chance::new(seed);
            (0..300u64).map(|n| done(ssd.submit(n * 50_000, &request(&mut chance, ssd.capacity_bytes())))).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}

/// Random overwrites of five times the capacity: garbage collection keeps up, and the map stays consistent.
#[test]
fn garbage_collection_always_progresses() {
    for name in PRESETS {
        // The preset's die count, spare space and thresholds, with shorter blocks, so that five capacities are quick.
        let params = Params { pages_per_block: 2, gc_quantum_rows: 2, ..Params::preset(name).unwrap() };
        let mut ssd = Ssd::new(&params, 9).unwrap();
        ssd.precondition();
        let pages = ssd.capacity_bytes() / 4096;
        let mut chance = Chance::new(9);
        let size_bytes = 32768;
        for n in 0..5 * pages / 8 {
            let offset_bytes = chance.below(pages) * 4096;
            ssd.submit(n * 1_000_000, &Request::new(Op::Write, offset_bytes, size_bytes));
        }
        assert_eq!(ssd.check(), Ok(()), "{name}");
        let stats = ssd.stats();
        assert!(stats.waf().unwrap() > 1.0 && stats.erases > u64::from(params.blocks_per_plane), "{name}");
        assert!(stats.wear.1 - stats.wear.0 <= stats.wear.1 / 2 + 8, "{name}: wear {:?}", stats.wear);
    }
}

fn mean_read_ns(params: &Params, requests_per_s: f64, size_bytes: u32) -> f64 {
    let mut ssd = Ssd::new(params, 4).unwrap();
    ssd.precondition();
    let mut chance = Chance::new(4);
    let (mut now, mut sum, mut reads) = (0.0, 0.0, 0.0);
    for _ in 0..20_000 {
        now += chance.exponential(1e9 / requests_per_s);
        let op = if chance.happens(0.5) { Op::Read } else { Op::Write };
        let offset_bytes = chance.below(ssd.capacity_bytes());
        let at = done(ssd.submit(now as Nanos, &Request::new(op, offset_bytes, size_bytes)));
        if op.is_read() {
            sum += (at - now as Nanos) as f64;
            reads += 1.0;
        }
    }
    sum / reads
}

#[test]
fn more_load_is_not_faster() {
    for order in 0..3 {
        let params = Params { read_priority: priority(order), ..small() };
        let means = [50.0, 500.0, 2_000.0, 20_000.0].map(|rate| mean_read_ns(&params, rate, 4096));
        assert!(means.windows(2).all(|pair| pair[1] > 0.97 * pair[0]), "{order}: {means:?}");
        assert!(means[3] > 1.5 * means[0], "{order}: {means:?}");
    }
}

#[test]
fn sizes_from_a_sector_to_32_mib_are_served() {
    for name in PRESETS {
        // Shorter blocks: a smaller drive is sooner in the state after long use.
        let params = Params { pages_per_block: 4, gc_quantum_rows: 2, ..Params::preset(name).unwrap() };
        let mut ssd = Ssd::new(&params, 2).unwrap();
        ssd.precondition();
        let mut now = 0;
        for op in [Op::Write, Op::Read] {
            let mut last = 0;
            for size_bytes in [512, 4096, 65536, 1 << 20, 32 << 20] {
                now += 1_000_000_000;
                let asked = Request::new(op, ssd.capacity_bytes() - 4096, size_bytes);
                let told = ssd.peek(now, &asked);
                let at = done(ssd.submit(now, &asked));
                assert_eq!(told, Outcome::Done(at));
                assert!(at - now >= last, "{name}: {size_bytes} bytes faster than fewer");
                last = at - now;
            }
            // 32 MiB cannot be faster than the link, on which a byte takes whole picoseconds.
            let byte_ps = 1_000_000 / u64::from(ssd.params().link_mb_per_s);
            assert!(last > (32 << 20) * byte_ps / 1000, "{name}: {last} ns");
        }
    }
}

/// A full buffer makes writes wait, and the wait ends.
#[test]
fn writes_stall_only_when_the_buffer_is_full() {
    let params = Params::preset("consumer-deep").unwrap();
    let mut ssd = Ssd::new(&params, 3).unwrap();
    ssd.precondition();
    let write = |n: u64| Request::new(Op::Write, n * 7_919 * 4096, 1 << 20);
    let first = done(ssd.submit(0, &write(0)));
    for n in 1..64 {
        ssd.submit(n, &write(n));
    }
    let stalled = done(ssd.submit(64, &write(64))) - 64;
    assert!(stalled > 10 * first, "{stalled} after 64 MiB at once, {first} for the first");
    assert!(ssd.stats().buffer_full_writes > 0);
    let later = 60_000_000_000;
    assert_eq!(done(ssd.submit(later, &write(65))) - later, first);
}

#[test]
fn impossible_settings_are_refused_with_the_reason() {
    let refused = |params: Params| Ssd::new(&params, 0).unwrap_err().to_string();
    assert!(refused(Params { channels: 0, ..small() }).contains("channels = 0: must be in 1..=256"));
    assert!(refused(Params { over_provisioning: 0.05, ..small() }).contains("spare superblocks"));
    assert!(refused(Params { device_wide_share: f64::NAN, ..small() }).contains("device_wide_share"));
    let text = refused(Params { wear_levelling_static_gap: u32::MAX, ..small() });
    assert!(text.contains("wear_levelling_static_gap = 4294967295: must be in 0..=1000000"), "{text}");
    assert!(
        refused(Params { link_mb_per_s: 32_001, ..small() }).contains("link_mb_per_s = 32001: must be in 1..=32000")
    );
    let slc = |slc_cache_bytes| Params { slc_cache_bytes, slc_program_ns: 1, ..small() };
    // A program unit: a page of 16 KiB on both planes.
    assert!(refused(slc(32_767)).contains("slc_cache_bytes = 32767: must be in 32768..="));
    assert_eq!(slc(32_768).validate(), Ok(()));
    let free = |gc_free_superblocks| refused(Params { gc_free_superblocks, ..small() });
    assert!(free(f64::INFINITY).contains("gc_free_superblocks = inf: must be a number from 3 up"));
    assert!(
        refused(Params { blocks_per_plane: 65536, pages_per_block: 4096, channels: 256, ..small() }).contains("2^32")
    );
    assert!(Params::preset("nosuch").unwrap_err().to_string().contains("consumer-deep"));
    for name in PRESETS {
        Params::preset(name).unwrap().validate().unwrap();
    }
}

/// A die with queued reads is never idle: the last of a hundred reads ends after ninety-nine others were read and sent.
#[test]
fn work_is_conserved() {
    for order in 0..3 {
        let params = Params {
            channels: 1,
            dies_per_channel: 1,
            blocks_per_plane: 64,
            read_priority: priority(order),
            retry_probability: 0.0,
            ..small()
        };
        let mut ssd = Ssd::new(&params, 1).unwrap();
        ssd.precondition();
        let pages = ssd.capacity_bytes() / 4096;
        let at: Vec<Nanos> =
            (0..100).map(|n| done(ssd.submit(0, &Request::new(Op::Read, n * 37 % pages * 4096, 4096)))).collect();
        let bus_ns = (4096 * 1000u64).div_ceil(u64::from(params.channel_mb_per_s));
        assert_eq!(at[99] - at[0], 99 * (params.read_ns + bus_ns));
        assert_eq!(ssd.stats().die_busy_ns, [100 * (params.read_ns + bus_ns)]);
    }
}

/// At low load, latencies do not depend on whether requests come at fixed times or one after the other.
#[test]
fn open_and_closed_loop_agree_at_low_load() {
    let params = Params { retry_probability: 0.0, ..Params::preset("sata").unwrap() };
    let mut open = Ssd::new(&params, 1).unwrap();
    open.precondition();
    let mut closed = open.clone();
    let mut chance = Chance::new(6);
    let mut now = 0;
    for n in 0..2_000u64 {
        let offset_bytes = chance.below(open.capacity_bytes() / 4096) * 4096;
        let request = Request::new(Op::Read, offset_bytes, 4096 << chance.below(5));
        let at = done(closed.submit(now, &request));
        assert_eq!(at - now, done(open.submit(n * 10_000_000, &request)) - n * 10_000_000);
        now = at;
    }
}
