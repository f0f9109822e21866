// SPDX-License-Identifier: MIT OR Apache-2.0
//! Laws of profiles and aggregates, on random workloads.

use linnet_sim::Chance;
use linnet_tenant::{Aggregate, Correlated, FEATURES, Independent, Options, Profile, Profiler, Tenants};
use linnet_types::{IoRecord, Op};
use proptest::prelude::*;

const WINDOW_NS: u64 = 1_600_000;

/// I/Os of some tenants in 200 windows; with `together` their bursts coincide.
fn workload(seed: u64, tenants: u32, together: bool) -> Vec<IoRecord> {
    let mut ios = Vec::new();
    for tenant in 0..tenants {
        let mut chance = Chance::new(seed).fork(u64::from(tenant) + 1);
        let sizes = [512, 4096, 6144, 65536];
        let (period, active) = (chance.below(20) + 2, chance.below(8) + 1);
        let (period, active, shift) = if together { (12, 4, 0) } else { (period, active, chance.below(20)) };
        let mean_ns = 1e5 * (1.0 + 20.0 * chance.unit());
        let mut at = chance.exponential(mean_ns);
        let mut next = 0;
        while at < 200.0 * WINDOW_NS as f64 {
            if (at as u64 / WINDOW_NS + shift) % period < active {
                let size = sizes[chance.below(4) as usize];
                let offset = if chance.happens(0.5) { next } else { 512 * chance.below(1 << 20) };
                let op = if chance.happens(0.6) { Op::Read } else { Op::Write };
                let latency_ns = Some(chance.below(1 << 20));
                ios.push(IoRecord { tenant, latency_ns, ..IoRecord::new(at as u64, op, offset, size) });
                next = offset + u64::from(size);
            }
            at += chance.exponential(mean_ns);
        }
    }
    ios.sort_by_key(|io| io.arrive_ns);
    ios
}

fn options() -> Options {
    Options { window_ns: WINDOW_NS, ..Options::default() }
}

fn profiles(ios: &[IoRecord]) -> Vec<Profile> {
    let mut tenants = Tenants::new(options()).unwrap();
    ios.iter().for_each(|io| tenants.note(io));
    tenants.finish(None).into_iter().map(|(_, profile)| profile).collect()
}

/// The profile of all I/Os as one workload: what an aggregate is to predict.
fn merged(ios: &[IoRecord]) -> Profile {
    let mut profiler = Profiler::new(options(), ios[0].arrive_ns).unwrap();
    ios.iter().for_each(|io| profiler.note(io));
    profiler.finish(None)
}

fn near(found: &Profile, expected: &Profile, share: f64) {
    for ((name, a), b) in FEATURES.iter().zip(found.features).zip(expected.features) {
        assert!((a - b).abs() <= share * b.abs(), "{name}: {a}, not {b}");
    }
}

fn aggregates() -> [&'static dyn Aggregate; 2] {
    [&Independent, &Correlated]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn order_changes_no_bit(seed in 0u64..1000, count in 2u32..9, together in any::<bool>()) {
        let members = profiles(&workload(seed, count, together));
        let forward: Vec<&Profile> = members.iter().collect();
        let backward: Vec<&Profile> = members.iter().rev().collect();
        for aggregate in aggregates() {
            prop_assert_eq!(aggregate.of(&forward).unwrap().features, aggregate.of(&backward).unwrap().features);
        }
    }

    #[test]
    fn one_member_is_its_own_aggregate(seed in 0u64..1000) {
        let members = profiles(&workload(seed, 1, false));
        for aggregate in aggregates() {
            prop_assert_eq!(&aggregate.of(&[&members[0]]).unwrap(), &members[0]);
        }
    }

    #[test]
    fn aggregates_of_aggregates_are_those_of_all(seed in 0u64..1000, count in 3u32..9, cut in 1usize..8) {
        let members = profiles(&workload(seed, count, seed % 2 == 0));
        let (left, right) = members.split_at(cut.min(members.len() - 1));
        for aggregate in aggregates() {
            let of = |part: &[Profile]| aggregate.of(&part.iter().collect::<Vec<_>>()).unwrap();
            near(&aggregate.of(&[&of(left), &of(right)]).unwrap(), &of(&members), 1e-9);
        }
    }

    #[test]
    fn nothing_adds_nothing(seed in 0u64..1000) {
        let members = profiles(&workload(seed, 3, false));
        let all: Vec<&Profile> = members.iter().collect();
        let none = Independent.of(&[]).unwrap();
        prop_assert_eq!(none.features, [0.0; FEATURES.len()]);
        let with: Vec<&Profile> = all.iter().copied().chain([&none]).collect();
        prop_assert_eq!(Independent.of(&with).unwrap().features, Independent.of(&all).unwrap().features);
    }

    /// Means, sums and ratios are exact; so is the correlated deviation while slots are as narrow as windows.
    #[test]
    fn the_correlated_aggregate_is_the_profile_of_all_together(seed in 0u64..1000, count in 2u32..9) {
        let ios = workload(seed, count, seed % 2 == 0);
        let members = profiles(&ios);
        let mut expected = merged(&ios);
        let mut found = Correlated.of(&members.iter().collect::<Vec<_>>()).unwrap();
        // Tenants that interleave continue each other's I/Os by chance, and hide their own streams from each other.
        for profile in [&mut found, &mut expected] {
            profile.features[25] = 0.0;
            profile.features[26] = 0.0;
        }
        near(&found, &expected, 1e-9);
    }
}

#[test]
fn bursts_that_coincide_add_their_deviations_and_independence_misses_it() {
    let ios = workload(7, 8, true);
    let members = profiles(&ios);
    let all: Vec<&Profile> = members.iter().collect();
    let truth = merged(&ios).group(0).rate_std;
    let independent = Independent.of(&all).unwrap().group(0).rate_std;
    let correlated = Correlated.of(&all).unwrap().group(0).rate_std;
    assert!(independent < 0.7 * truth, "{independent} of {truth}");
    assert!((correlated / truth - 1.0).abs() < 1e-9, "{correlated} of {truth}");
}

#[test]
fn histories_of_different_samples_are_refused() {
    let long = profiles(&workload(1, 1, false)).remove(0);
    let short = profiles(&workload(2, 1, false).into_iter().take(20).collect::<Vec<_>>()).remove(0);
    let text = Correlated.of(&[&long, &short]).unwrap_err().to_string();
    assert!(text.contains("slots") && text.contains("independent aggregate"), "{text}");
    let declared = Profile::from_features(long.features).unwrap();
    assert!(Correlated.of(&[&long, &declared]).unwrap_err().to_string().contains("no rate history"));
}

#[test]
fn a_tenant_does_not_change_the_profile_of_another() {
    let ios = workload(3, 4, false);
    let all = profiles(&ios);
    let origin = ios[0].arrive_ns;
    let end = ios[ios.len() - 1].arrive_ns;
    for (tenant, expected) in (0..).zip(&all) {
        let mut alone = Profiler::new(options(), origin).unwrap();
        ios.iter().filter(|io| io.tenant == tenant).for_each(|io| alone.note(io));
        assert_eq!(&alone.finish(Some(end)), expected);
    }
}

#[test]
fn a_long_sample_keeps_bounded_memory_and_exact_deviations() {
    // One I/O in every second window of 16 us, for 100,000 windows.
    let options = Options { window_ns: 16_000, ..Options::default() };
    let mut profiler = Profiler::new(options, 0).unwrap();
    for n in 0..50_000u64 {
        profiler.note(&IoRecord::new(n * 32_000, Op::Write, 0, 4096));
    }
    let profile = profiler.finish(Some(100_000 * 16_000));
    assert_eq!(profile.windows, 100_000);
    // Half of the windows have one I/O: a deviation of 1/2 per 16 us.
    assert_eq!(profile.group(2).rate_std, 0.5 / 16e-6);
    // Windows of twice the width have one each.
    assert_eq!(profile.by_window[5].write_rate_std, 0.0);
    let history = profile.history.unwrap();
    assert_eq!((history.slots().len(), history.slot_ns()), (781, 16_000 * 128));
    assert!(history.slots().iter().all(|slot| slot[2].ios == 64));
}

#[test]
fn options_out_of_range_are_refused() {
    for (options, name) in [
        (Options { window_ns: 15_999, ..Options::default() }, "window_ns"),
        (Options { window_ns: 100_000_001, ..Options::default() }, "window_ns"),
        (Options { streams: 0, ..Options::default() }, "streams"),
        (Options { streams: 33, ..Options::default() }, "streams"),
        (Options { transfer_ps_per_byte: u64::MAX, ..Options::default() }, "transfer_ps_per_byte"),
    ] {
        assert!(Tenants::new(options).unwrap_err().to_string().contains(name));
    }
}
