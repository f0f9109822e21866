// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants together on modelled drives.

use linnet_sim::Chance;
use linnet_ssd::{Mechanism, Ssd};
use linnet_tenant::{DRIVES, Load, Outcome, Profiler, Tenant, colocate, drive};
use linnet_types::Op;

const SECOND: u64 = 1_000_000_000;

fn ready(name: &str) -> Ssd {
    let mut device = Ssd::new(&drive(name).unwrap().unwrap(), 1).unwrap();
    device.precondition();
    device
}

/// Loads run together for 300 ms.
fn run(device: &Ssd, loads: &[&Load]) -> Vec<Outcome> {
    let records: Vec<_> = (0u64..).zip(loads).map(|(n, load)| load.records(SECOND * 3 / 10, 700 << 20, n)).collect();
    let tenants: Vec<_> =
        records.iter().zip(loads).map(|(records, load)| Tenant { records, depth: load.depth }).collect();
    colocate(&mut device.clone(), &tenants, SECOND / 10, SECOND * 3 / 10, || true).unwrap()
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
fn a_run_can_be_stopped() {
    let device = ready("sata");
    let records = load(50_000.0, 1.0, 4096, 1.0, 16).records(SECOND, 700 << 20, 1);
    let tenants = [Tenant { records: &records, depth: 16 }];
    assert!(colocate(&mut device.clone(), &tenants, 0, SECOND, || false).is_none());
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
