// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a latency equal to the inflection point is fast in every count of the array (`spec/decision.md`).

use super::*;
use crate::{Counters, Playback, RunOptions, policy, run};
use linnet_sim::Modelled;
use linnet_types::{LatencyModel, Outcome};

/// Reads that do not overlap.
fn far_apart() -> Vec<IoRecord> {
    (0..40).map(|i| record(i * 3_000_000, Op::Read)).collect()
}

/// Counts of a run whose primary takes exactly this long for each read.
fn counters(name: &str, network: Network, reads: &[IoRecord], latency_ns: Nanos, probe_share: f64) -> Counters {
    let learned = learned(&[Some(network), None]);
    let config = Config { settings: aged(1_000_000_000), probe_share, ..two_replicas() };
    let policy = policy(name, &learned, &config).expect("a known name");
    let mut devices = [steady(latency_ns, 1), steady(80_000, 1)];
    let options = RunOptions { array: config, playback: Playback::default() };
    run(&mut devices, &[reads], &thresholds(&learned), policy, &options, &mut ()).expect("the run succeeds").counters
}

#[test]
fn it_makes_no_false_submit_and_every_revoke_false() {
    let inflection_ns = test_thresholds().inflection_ns;
    let submits = |latency_ns| counters("linnos", revokes_above(9_000), &far_apart(), latency_ns, 0.0);
    let (equal, above) = (submits(inflection_ns), submits(inflection_ns + 1));
    assert_eq!((equal.predictions, equal.revokes, equal.false_submits), (36, 0, 0));
    assert_eq!((above.predictions, above.revokes, above.false_submits), (36, 0, 36));

    let revokes = |latency_ns| counters("linnos", revokes_always(), &far_apart(), latency_ns, 0.0);
    let (equal, above) = (revokes(inflection_ns), revokes(inflection_ns + 1));
    assert_eq!((equal.revokes, equal.false_revokes), (36, 36));
    assert_eq!((above.revokes, above.false_revokes), (36, 0));
}

#[test]
fn probes_find_it_fast() {
    let inflection_ns = test_thresholds().inflection_ns;
    for (latency_ns, fast) in [(inflection_ns, true), (inflection_ns + 1, false)] {
        let probing = counters("linnos", revokes_always(), &far_apart(), latency_ns, 0.5).probing;
        assert!(probing.answered > 5 && probing.draws > probing.answered + 5, "{probing:?}");
        let elsewhere = probing.draws - probing.answered;
        let expected = if fast { (probing.answered, elsewhere) } else { (0, 0) };
        assert_eq!((probing.fast, probing.fast_elsewhere), expected);
    }
}

/// A slow read at a short queue marks a device as busy; overlapping reads are then revoked.
#[test]
fn it_marks_no_device_as_busy() {
    let inflection_ns = test_thresholds().inflection_ns;
    let overlapping: Vec<IoRecord> =
        (0..40).map(|i| IoRecord { offset_bytes: (i % 16) << 16, ..record(i * 150_000, Op::Read) }).collect();
    let revokes = |latency_ns| counters("heur-adv", revokes_always(), &overlapping, latency_ns, 0.0).revokes;
    assert_eq!(revokes(inflection_ns), 0);
    assert!(revokes(inflection_ns + 1) > 5, "{}", revokes(inflection_ns + 1));
}

/// A device that is fast for ten milliseconds and then never answers.
struct Stalls;

impl LatencyModel for Stalls {
    fn submit(&mut self, now: Nanos, _request: &Request) -> Outcome {
        if now < 10_000_000 { Outcome::Done(now + 80_000) } else { Outcome::Lost }
    }
}

#[test]
fn a_read_that_timed_out_was_slow_if_its_limit_lies_above_it() {
    let inflection_ns = test_thresholds().inflection_ns;
    let reads: Vec<IoRecord> = (0..400).map(|i| record(i * 100_000, Op::Read)).collect();
    let go = |network, read_timeout_ns, probe_share| {
        let learned = learned(&[Some(network), None]);
        let config = Config { read_timeout_ns, probe_share, settings: limited(1_000), ..two_replicas() };
        let policy = policy("linnos", &learned, &config).expect("known");
        let mut devices = [Modelled::new(Stalls), Modelled::new(Stalls)];
        let options = RunOptions { array: config, playback: Playback::default() };
        run(&mut devices, &[&reads], &thresholds(&learned), policy, &options, &mut ()).expect("it succeeds").counters
    };
    // Every read that the network calls fast is sent to the primary, which answers none of those after 10 ms.
    let (equal, above) = (go(revokes_above(9_000), inflection_ns, 0.0), go(revokes_above(9_000), 2_000_000, 0.0));
    assert!(equal.timeouts > 200 && above.timeouts > 200, "{equal:?} {above:?}");
    assert_eq!((equal.false_submits, above.false_submits), (0, 300));
    let (equal, above) = (go(revokes_always(), inflection_ns, 1.0), go(revokes_always(), 2_000_000, 1.0));
    let fast = equal.probing.answered;
    assert!(fast > 50 && equal.probing.fast == fast, "{:?}", equal.probing);
    assert_eq!((above.probing.answered, above.probing.fast), (above.probing.probes, fast));
}
