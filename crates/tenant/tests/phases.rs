// SPDX-License-Identifier: MIT OR Apache-2.0
//! Phases and recognition of workloads.

use linnet_sim::Chance;
use linnet_tenant::{
    DepthFrom, FEATURES, Options, Phase, Profile, Profiler, SAME_WORKLOAD, difference, distance, phases, signature,
};
use linnet_types::{IoRecord, Op};

const SECOND: f64 = 1e9;

/// Poisson arrivals: each part has its seconds, rate, share of reads and size.
fn sample(seed: u64, parts: &[(f64, f64, f64, u32)]) -> Profile {
    let mut chance = Chance::new(seed);
    let mut profiler = Profiler::new(Options::default(), 0).unwrap();
    let mut start = 0.0;
    for &(seconds, rate, reads, size) in parts {
        let end = start + seconds * SECOND;
        let mut at = start;
        loop {
            at += chance.exponential(SECOND / rate);
            if at >= end {
                break;
            }
            let op = if chance.happens(reads) { Op::Read } else { Op::Write };
            profiler.note(&IoRecord::new(at as u64, op, 4096 * chance.below(1 << 24), size));
        }
        start = end;
    }
    profiler.finish(Some(start as u64))
}

fn found(profile: &Profile) -> Vec<Phase> {
    phases(profile.history.as_ref().unwrap())
}

#[test]
fn a_steady_workload_has_one_phase() {
    for seed in 0..20 {
        let profile = sample(seed, &[(60.0, 300.0 * (seed + 1) as f64, 0.7, 4096)]);
        assert_eq!(found(&profile), [Phase { phase: 0, from_ns: 0, to_ns: 60_000_000_000 }], "seed {seed}");
    }
}

#[test]
fn a_phase_that_returns_is_recognised_and_changes_are_found_in_time() {
    let scan = (20.0, 800.0, 0.95, 131_072);
    let load = (20.0, 800.0, 0.2, 4096);
    let profile = sample(1, &[scan, load, scan]);
    let phases = found(&profile);
    assert_eq!(phases.iter().map(|phase| phase.phase).collect::<Vec<_>>(), [0, 1, 0]);
    for (phase, change) in phases[1..].iter().zip([20.0, 40.0]) {
        assert!((phase.from_ns as f64 / SECOND - change).abs() < 0.3, "{phase:?}");
    }
    assert_eq!(phases[2].to_ns, 60_000_000_000);
}

#[test]
fn a_change_of_rate_is_a_phase() {
    let phases = found(&sample(5, &[(30.0, 400.0, 0.5, 8192), (30.0, 900.0, 0.5, 8192)]));
    assert_eq!(phases.iter().map(|phase| phase.phase).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn an_empty_history_has_no_phase() {
    assert!(found(&Profiler::new(Options::default(), 0).unwrap().finish(None)).is_empty());
}

#[test]
fn samples_of_one_workload_are_near_and_of_others_far() {
    let kinds: Vec<(f64, f64, u32)> = [100.0, 1000.0, 10_000.0]
        .into_iter()
        .flat_map(|rate| [0.0, 0.5, 0.95].into_iter().map(move |reads| (rate, reads)))
        .flat_map(|(rate, reads)| [4096, 65536].into_iter().map(move |size| (rate, reads, size)))
        .collect();
    let of = |seed: u64, kind: &(f64, f64, u32)| sample(seed, &[(10.0, kind.0, kind.1, kind.2)]);
    let first: Vec<Profile> = kinds.iter().map(|kind| of(1, kind)).collect();
    let second: Vec<Profile> = kinds.iter().map(|kind| of(2, kind)).collect();
    for (i, a) in first.iter().enumerate() {
        assert_eq!(distance(a, a), 0.0);
        for (j, b) in second.iter().enumerate() {
            let far = distance(a, b);
            assert_eq!(far <= SAME_WORKLOAD, i == j, "{:?} and {:?}: {far}", kinds[i], kinds[j]);
            assert_eq!(far, distance(b, a));
        }
        assert_eq!(signature(a).len(), 18);
    }
    let shared = first.iter().zip(&second).filter(|(a, b)| signature(a) == signature(b)).count();
    assert!(shared * 2 > kinds.len(), "{shared} of {} signatures are shared", kinds.len());
}

#[test]
fn declared_loads_of_other_depths_are_other_workloads() {
    let depth = FEATURES.iter().position(|&name| name == "depth").unwrap();
    let of = |depth_from, io_depth: f64| {
        let mut profile = sample(1, &[(10.0, 800.0, 0.5, 4096)]);
        (profile.depth_from, profile.features[depth]) = (depth_from, io_depth);
        profile
    };
    let (one, many) = (of(DepthFrom::Declared, 1.0), of(DepthFrom::Declared, 128.0));
    assert!(distance(&one, &many) > 6.0, "128 outstanding I/Os are not one");
    assert_eq!(difference(&one, &many).1, Some("depth"));
    assert_ne!(signature(&one), signature(&many));
    assert_eq!(distance(&many, &of(DepthFrom::Declared, 128.0)), 0.0);
    // What was measured is the drive's as much as the workload's.
    let busy = of(DepthFrom::Measured, 128.0);
    assert_eq!(distance(&busy, &of(DepthFrom::Measured, 1.0)), 0.0);
    assert_eq!(distance(&busy, &one), 0.0);
    assert!(signature(&busy).ends_with("00"));
}
