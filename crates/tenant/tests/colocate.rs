// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants together on modelled drives.

use linnet_sim::Chance;
use linnet_ssd::{Mechanism, Ssd};
use linnet_tenant::{
    Colocated, DRIVES, Load, Offer, Outcome, Profiler, Recorded, Tenant, WARM_MOST_NS, Warm, colocate, drive,
    part_bytes, settle,
};
use linnet_types::{IoRecord, Op};

const SECOND: u64 = 1_000_000_000;

fn ready(name: &str) -> Ssd {
    let mut device = Ssd::new(&drive(name).unwrap().unwrap(), 1).unwrap();
    device.precondition();
    device
}

/// Loads run together for 300 ms.
fn run(device: &Ssd, loads: &[&Load]) -> Vec<Outcome> {
    together(device, loads, Warm::For(SECOND / 10), SECOND / 5).outcomes
}

fn together(device: &Ssd, loads: &[&Load], warm: Warm, measured_ns: u64) -> Colocated {
    let tenants = (0u64..).zip(loads).map(|(n, load)| Tenant { ios: load.ios(700 << 20, n), depth: load.depth });
    colocate(&mut device.clone(), tenants.collect(), warm, measured_ns, || true).unwrap()
}

fn load(rate: f64, reads: f64, size: u32, random: f64, depth: usize) -> Load {
    let sizes = vec![size];
    Load { rate, reads, sizes, random, unaligned: 0.0, depth, period_ns: 0, active: 1.0, poisson: false }
}

/// Sequential bandwidth in MB/s of a load without a limit of its rate.
fn peak(device: &Ssd, reads: f64) -> f64 {
    let found = run(device, &[&load(1e5, reads, 131_072, 0.0, 256)]);
    found[0].ops.iter().map(|seen| seen.bandwidth_mean).sum::<f64>() / 1e6
}

#[test]
#[ignore = "slow: make test-slow"]
fn drives_have_the_peaks_of_table_1() {
    for (name, reads, writes) in [("nvme", 6000.0, 3000.0), ("sata", 512.0, 512.0)] {
        // Data sheets give writes of an empty drive; a used one collects garbage as well.
        let empty = Ssd::new(&drive(name).unwrap().unwrap(), 1).unwrap();
        let (found_reads, found_writes) = (peak(&ready(name), 1.0), peak(&empty, 0.0));
        assert!((found_reads / reads - 1.0).abs() < 0.1, "{name}: reads {found_reads} MB/s");
        assert!((found_writes / writes - 1.0).abs() < 0.15, "{name}: writes {found_writes} MB/s");
    }
    assert_eq!(DRIVES.len(), 2);
    assert!(drive("floppy").is_none());
}

#[test]
fn a_neighbour_that_writes_slows_reads_and_none_changes_nothing() {
    let device = ready("sata");
    let victim = load(5000.0, 1.0, 4096, 1.0, 16);
    let alone = run(&device, &[&victim]);
    let idle = run(&device, &[&victim, &load(1.0, 1.0, 4096, 1.0, 1)]);
    let beside = run(&device, &[&victim, &load(60_000.0, 0.0, 16_384, 1.0, 64)]);
    assert_eq!(alone[0].ops[1].ios, 0);
    assert!((alone[0].ops[0].ios as f64 / 1000.0 - 1.0).abs() < 0.02, "{:?}", alone[0]);
    assert!((idle[0].ops[0].latency_mean_us / alone[0].ops[0].latency_mean_us - 1.0).abs() < 0.05);
    assert!(beside[0].ops[0].latency_p99_us > 2.0 * alone[0].ops[0].latency_p99_us, "{:?} {:?}", alone[0], beside[0]);
}

#[test]
fn no_tenant_has_more_outstanding_than_its_depth() {
    let device = ready("sata");
    let found = run(&device, &[&load(1e6, 1.0, 65_536, 1.0, 8), &load(1e6, 0.5, 4096, 1.0, 3)]);
    assert!(found[0].depth > 7.5 && found[0].depth <= 8.0, "{found:?}");
    assert!(found[1].depth > 2.8 && found[1].depth <= 3.0, "{found:?}");
}

#[test]
fn a_load_has_the_properties_that_it_was_given() {
    for seed in 0..30 {
        let mut chance = Chance::new(seed);
        let drawn = Load { rate: 4000.0, ..Load::draw(&mut chance, 0.1, 5e8) };
        let records = drawn.records(4 * SECOND, 1 << 30, seed);
        let mut profiler = Profiler::new(Default::default(), 0).unwrap();
        records.iter().for_each(|record| profiler.note(record));
        let profile = profiler.finish(Some(4 * SECOND));
        let rate = profile.rate(Op::Read) + profile.rate(Op::Write);
        // A sample holds a whole number of periods only by chance.
        let slack = 0.1 + drawn.period_ns as f64 / (4 * SECOND) as f64;
        assert!((rate / drawn.rate - 1.0).abs() < slack, "{seed}: {rate} of {drawn:?}");
        assert!((profile.rate(Op::Read) / rate - drawn.reads).abs() < 0.05, "{seed}: {drawn:?}");
        assert!(records.is_sorted_by_key(|record| record.arrive_ns));
        assert_eq!(records, drawn.records(4 * SECOND, 1 << 30, seed));
    }
}

#[test]
fn a_recorded_load_repeats_its_sample_at_the_bandwidth_that_it_was_given() {
    let sample: Vec<_> = [(0, Op::Read, 0, 4096), (500, Op::Write, 8192, 512), (2000, Op::Read, 1 << 40, 20_480)]
        .map(|(at_ns, op, offset, size)| IoRecord::new(at_ns, op, offset, size))
        .into();
    let of = |sample: &[IoRecord]| Recorded::new("s", sample.to_vec().into(), 1e8, 4);
    let load = of(&sample).unwrap();
    // 28,672 bytes with the small write as a page.
    assert!((load.rate() - 3.0 * 1e8 / 28_672.0).abs() < 1e-6 && load.writes() && load.size_most() == 20_480);
    let space = 1 << 30;
    for seed in 0..20 {
        let records = load.records(SECOND, space, seed);
        assert!((records.len() as f64 - load.rate()).abs() <= 3.0, "{}", records.len());
        assert!(records.is_sorted_by_key(|record| record.arrive_ns) && records == load.records(SECOND, space, seed));
        // Gaps of 500, 1,500 and, to the next round, 1,000 ns, in another time.
        let slower = SECOND as f64 / load.rate() / 1000.0;
        for pair in records.windows(2) {
            let gap = (pair[1].arrive_ns - pair[0].arrive_ns) as f64 / slower;
            let expected = match pair[0].size_bytes {
                4096 => 500.0,
                512 => 1500.0,
                _ => 1000.0,
            };
            assert!((gap - expected).abs() < 1.0, "{gap}: {pair:?}");
        }
        assert!(records.iter().all(|record| record.offset_bytes + u64::from(record.size_bytes) <= space));
    }
    let begins: std::collections::BTreeSet<u32> =
        (0..20).map(|seed| load.records(SECOND, space, seed)[0].size_bytes).collect();
    assert_eq!(begins.len(), 3, "seeds begin elsewhere");

    let shown = |load: &Recorded| format!("{load:?}");
    let other: Vec<_> = sample.iter().map(|r| IoRecord { offset_bytes: r.offset_bytes + 4096, ..*r }).collect();
    assert_ne!(shown(&load), shown(&of(&other).unwrap()), "what a cache goes by");
    assert!(of(&sample[..1]).is_none() && of(&[sample[0], sample[0]]).is_none() && of(&[]).is_none());
    let reads: Vec<_> = sample.iter().filter(|record| record.op == Op::Read).copied().collect();
    assert!(!of(&reads).unwrap().writes());
}

#[test]
fn a_run_can_be_stopped() {
    let device = ready("sata");
    let busy = load(50_000.0, 1.0, 4096, 1.0, 16);
    let tenants = vec![Tenant { ios: busy.ios(700 << 20, 1), depth: 16 }];
    assert!(colocate(&mut device.clone(), tenants, Warm::For(0), SECOND, || false).is_none());
}

#[test]
fn waits_add_up_and_a_new_drive_collects_no_garbage() {
    let (victim, writer) = (load(20_000.0, 1.0, 4096, 1.0, 32), load(20_000.0, 0.0, 4096, 1.0, 64));
    let mut fresh = Ssd::new(&drive("sata").unwrap().unwrap(), 1).unwrap();
    fresh.write_once(fresh.capacity_bytes() / 16);
    let gc = [Mechanism::GcWide, Mechanism::GcSingle].map(|one| one as usize);
    for (device, collects) in [(ready("sata"), true), (fresh, false)] {
        let found = run(&device, &[&victim, &writer]);
        let reads = &found[0].ops[0];
        let waited: f64 = reads.wait_us_mean.iter().sum();
        let service_us = device.unloaded_read_ns(4096) as f64 / 1000.0;
        // The rest of the mean is the service of an idle drive, or less where the buffer answers.
        assert!((reads.latency_mean_us - waited - service_us).abs() < 0.15 * service_us, "{waited} of {reads:?}");
        assert_eq!(gc.iter().any(|&one| reads.wait_us_mean[one] > 0.0), collects, "{reads:?}");
    }
}

#[test]
fn latencies_of_what_did_not_complete_are_not_numbers_and_a_tenant_without_ios_is_idle() {
    let device = ready("sata");
    let reads = load(1000.0, 1.0, 4096, 1.0, 1);
    let early: Vec<_> = reads.records(SECOND / 20, 700 << 20, 1);
    let tenants = [early, reads.records(SECOND, 700 << 20, 2)]
        .map(|records| Tenant { ios: records.into_iter(), depth: 4 })
        .into();
    let found = colocate(&mut device.clone(), tenants, Warm::For(SECOND / 10), SECOND / 10, || true).unwrap();
    let [idle, busy] = &found.outcomes[..] else { panic!("two tenants") };
    assert!(idle.is_idle() && idle.ops[0].latency_p99_us.is_nan() && idle.ops[0].bandwidth_mean == 0.0, "{idle:?}");
    assert!(!busy.is_idle() && busy.ops[0].latency_mean_us > 0.0 && busy.ops[1].latency_mean_us.is_nan(), "{busy:?}");
}

#[test]
fn a_warm_up_follows_the_reserve_of_free_pages() {
    let device = ready("sata");
    let quiet = together(&device, &[&load(5000.0, 1.0, 4096, 1.0, 16)], Warm::Steady, SECOND / 5);
    assert!(quiet.steady && quiet.warm_ns == SECOND, "two windows are alike: {quiet:?}");
    // 330 MB/s of random writes are more than the drive's collection wins in the long run.
    let (reader, writer) = (load(5000.0, 1.0, 4096, 1.0, 16), load(10_000.0, 0.0, 16_384, 1.0, 64));
    let writers = [&reader, &writer, &writer];
    let short = together(&device, &writers, Warm::For(SECOND / 5), SECOND / 5);
    let steady = together(&device, &writers, Warm::Steady, SECOND / 5);
    assert!(steady.warm_ns > SECOND && steady.warm_ns <= WARM_MOST_NS, "{steady:?}");
    let latency = |found: &Colocated| found.outcomes[0].ops[0].latency_mean_us;
    assert!(latency(&steady) > 1.5 * latency(&short), "{short:?} {steady:?}");
    // What follows is as after a warm-up of that length.
    let same = together(&device, &writers, Warm::For(steady.warm_ns), SECOND / 5);
    assert_eq!(format!("{:?}", same.outcomes), format!("{:?}", steady.outcomes));
}

#[test]
fn writers_of_their_own_parts_lower_write_amplification_until_it_is_steady() {
    let mut device = ready("sata");
    let (ordered, reader) = (load(400.0, 0.0, 131_072, 0.0, 8), load(5000.0, 1.0, 4096, 1.0, 16));
    let amplification = |device: &Ssd| {
        let mut copy = device.clone();
        let tenants = vec![Tenant { ios: ordered.ios(part_bytes(device), 3), depth: ordered.depth }];
        colocate(&mut copy, tenants, Warm::For(SECOND), SECOND, || true).unwrap();
        copy.stats().waf().unwrap()
    };
    let before = amplification(&device);
    let (settled, offered_ns) = settle(&mut device, &[(&ordered, 1), (&reader, 2)]);
    device.check().unwrap();
    let part = part_bytes(&device) as f64;
    let overwritten = settled.pages as f64 * 4096.0 / part;
    assert!(settled.steady && (1.0..=2.6).contains(&overwritten), "{settled:?}");
    assert!((offered_ns as f64 / 1e9 / (overwritten * part / (400.0 * 131_072.0)) - 1.0).abs() < 0.01);
    let after = amplification(&device);
    assert!(after < 0.7 * before, "{before} before, {after} after");
    assert_eq!(settle(&mut device, &[(&reader, 1)]).0.pages, 0, "readers change nothing");
}
