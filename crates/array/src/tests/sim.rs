// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulation: everything about an array is drawn from a seed. At first anything may fail; then the faults stop. Every
//! request must be answered, and those that arrive in the quiet period must not fail.
//!
//! `LINNET_SIM_SEED` is the first seed (default 1) and `LINNET_SIM_RUNS` the number of seeds (default 100).

use super::*;
use crate::array::Breakage;
use crate::drive::drive;
use crate::{Array, Checker, Input, Observer, Output, POLICIES, Progress, Revokes, RunResult, WriteMode, policy};
use linnet_sim::{Chance, FaultPlan, Faulty, Lawful, Modelled, TestDevice, VirtualClock};

struct Scenario {
    name: &'static str,
    learned: Vec<DeviceModel>,
    config: Config,
    devices: Vec<Faulty<Modelled<TestDevice>>>,
    streams: Vec<Vec<IoRecord>>,
    /// Reads that arrive after this time meet no fault and no consequence of one.
    quiet_ns: Nanos,
}

fn draw(seed: u64) -> Scenario {
    let mut chance = Chance::new(seed);
    let count = 1 + chance.below(5) as usize;
    let until_ns = 20_000_000 + chance.below(60_000_000);
    let config = Config {
        replicas: 1 + chance.below(count as u64) as usize,
        write_mode: if chance.happens(0.3) { WriteMode::All } else { WriteMode::Primary },
        failover_ns: chance.below(30_000),
        decision_ns: if chance.happens(0.3) { chance.below(5_000) } else { 0 },
        settings: Settings {
            revokes: budget(&mut chance),
            age_ns: 1 + chance.below(20_000_000),
            revokes_in_row_max: 1 + chance.below(100) as u32,
            errors_max: 1 + chance.below(4) as u32,
            out_ns: 1 + chance.below(1_000_000),
            out_ns_max: 1_000_000 + chance.below(10_000_000),
            ..Settings::default()
        },
        hedge_budget: budget(&mut chance),
        hedge_bytes_max: if seed.is_multiple_of(3) { 16_384 } else { u32::MAX },
        clone_budget: budget(&mut chance),
        probe_share: if seed.is_multiple_of(4) { 0.1 } else { 0.0 },
        read_timeout_ns: 30_000_000 + chance.below(10_000_000),
        write_timeout_ns: 30_000_000 + chance.below(10_000_000),
        seed,
    };
    let networks: Vec<Option<Network>> = (0..count)
        .map(|_| match chance.below(8) {
            0 => None,
            1 => Some(revokes_always()),
            _ => Some(revokes_above(100 + chance.below(400) as i64)),
        })
        .collect();
    let devices = (0..count as u64)
        .map(|i| {
            let test_device = TestDevice::busy(500_000 + chance.below(4_000_000), 0.6 * chance.unit(), chance.bits());
            let plan = if chance.happens(0.8) { FaultPlan::random(&mut chance, until_ns) } else { FaultPlan::none() };
            Faulty::new(Modelled::new(test_device), plan, seed ^ i)
        })
        .collect();
    let quiet_ns = until_ns + config.read_timeout_ns + config.write_timeout_ns + config.settings.out_ns_max;
    let streams =
        (0..1 + chance.below(count as u64)).map(|_| stream(&mut chance, until_ns, quiet_ns, 20_000_000)).collect();
    let name = POLICIES[chance.below(POLICIES.len() as u64) as usize];
    let mut learned = learned(&networks);
    for device in &mut learned {
        device.trees = match chance.below(4) {
            0 => None,
            1 => best::always(chance.below(8_192) as i32 - 4_096),
            _ => best::slow_when_it_was(),
        };
    }
    Scenario { name, learned, config, devices, streams, quiet_ns }
}

/// Half of the budgets are so small that they run out.
fn budget(chance: &mut Chance) -> Rate {
    let (share, burst) = if chance.happens(0.5) { (0.02, 4) } else { (1.0, 200) };
    Rate::new(share * chance.unit(), chance.below(burst) as u32)
}

/// Arrivals until the faults end, and again for `quiet_ns` after their consequences have ended.
fn stream(chance: &mut Chance, until_ns: Nanos, quiet_ns: Nanos, length_ns: Nanos) -> Vec<IoRecord> {
    let mean_ns = 80_000.0 + 300_000.0 * chance.unit();
    let reads = 0.5 + 0.5 * chance.unit();
    let mut at = 0;
    let mut records = Vec::new();
    while at < quiet_ns + length_ns {
        at += chance.exponential(mean_ns) as Nanos;
        if at > until_ns && at < quiet_ns {
            at = quiet_ns;
        }
        let (offset_bytes, size_bytes) = (chance.below(1 << 24) * 512, 512 * (1 + chance.below(64) as u32));
        let op = if chance.happens(reads) { Op::Read } else { Op::Write };
        records.push(IoRecord::new(at, op, offset_bytes, size_bytes));
    }
    records
}

/// The checker, and the reads that failed although they arrived in the quiet period.
struct Recorder {
    checker: Checker,
    quiet_ns: Nanos,
    quiet: std::collections::HashSet<u64>,
    failed: Vec<u64>,
}

impl Observer for Recorder {
    fn progress(&mut self, progress: Progress) -> bool {
        self.checker.progress(progress)
    }

    fn input(&mut self, now: Nanos, input: &Input) {
        self.checker.input(now, input);
        if let Input::Arrive { tag, .. } = *input
            && now >= self.quiet_ns
        {
            self.quiet.insert(tag);
        }
    }

    fn output(&mut self, now: Nanos, output: &Output) {
        self.checker.output(now, output);
        if let Output::Fail { tag, .. } = *output
            && self.quiet.contains(&tag)
        {
            self.failed.push(tag);
        }
    }

    fn step(&mut self, now: Nanos, array: &Array) {
        self.checker.step(now, array);
    }
}

/// What a policy may revoke.
fn revokes_of(name: &str) -> Revokes {
    match name {
        "baseline" | "shortest-queue" => Revokes::None,
        "linnos" | "linnet-best" => Revokes::Budget,
        _ => Revokes::Any,
    }
}

fn simulate(scenario: &Scenario, canary: Option<Breakage>) -> Result<RunResult, Vec<String>> {
    let Scenario { name, learned, config, devices, streams, quiet_ns } = scenario;
    let policy = policy(name, learned, config).expect("a known name");
    let mut array = Array::new(*config, &thresholds(learned), policy).expect("settings within their ranges");
    array.canary = canary;
    let streams: Vec<&[IoRecord]> = streams.iter().map(Vec::as_slice).collect();
    let checker = Checker::of(config, devices.len(), revokes_of(name));
    let mut recorder = Recorder { checker, quiet_ns: *quiet_ns, quiet: Default::default(), failed: Vec::new() };
    let mut devices: Vec<_> = devices.iter().cloned().map(Lawful::new).collect();
    let result = drive(array, &mut VirtualClock::new(), &mut devices, &streams, &Playback::LOGGED, &mut recorder)
        .map_err(|error| vec![error.to_string()]);
    let Recorder { checker, failed, .. } = recorder;
    let result = result?;
    devices.into_iter().try_for_each(Lawful::finish)?;
    checker.finish(&result.counters)?;
    if failed.is_empty() {
        Ok(result)
    } else {
        Err(vec![format!("requests {failed:?} arrived after the faults and failed")])
    }
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => text.parse().unwrap_or_else(|_| panic!("{name}={text}: give a whole number")),
        _ => default,
    }
}

#[test]
fn sim_random_arrays_under_faults_keep_every_rule() {
    let first = setting("LINNET_SIM_SEED", 1);
    let runs = setting("LINNET_SIM_RUNS", 100);
    println!("seed {first}, {runs} runs");
    for seed in first..first + runs {
        let scenario = draw(seed);
        let verdict = simulate(&scenario, None);
        let Scenario { name, config, devices, .. } = &scenario;
        let faults: Vec<_> = devices.iter().map(Faulty::counts).collect();
        if let Err(broken) = &verdict {
            println!("{config:#?}\n{faults:#?}");
            panic!(
                "seed {seed}, {name} on {} devices:\n{}\nrepeat with: LINNET_SIM_SEED={seed} LINNET_SIM_RUNS=1 cargo test -p linnet-array sim_random -- --nocapture",
                devices.len(),
                broken.join("\n")
            );
        }
        assert_eq!(verdict, simulate(&scenario, None), "seed {seed}, {name}: a second run differs");
    }
}

#[test]
fn sim_every_fault_and_counter_is_met() {
    let mut all = crate::Counters::default();
    for seed in 1000..1060 {
        let c = simulate(&draw(seed), None).expect("rules hold").counters;
        all.revokes += c.revokes;
        all.forced_submits += c.forced_submits;
        all.failovers += c.failovers;
        all.hedges += c.hedges;
        all.hedges_won += c.hedges_won;
        all.probes += c.probes;
        all.budget_denied += c.budget_denied;
        all.errors += c.errors;
        all.timeouts += c.timeouts;
        all.reads_failed += c.reads_failed;
        all.writes_failed += c.writes_failed;
        all.extra_writes += c.extra_writes;
        all.false_submits += c.false_submits;
        all.false_revokes += c.false_revokes;
    }
    for (what, count) in [
        ("revokes", all.revokes),
        ("forced_submits", all.forced_submits),
        ("failovers", all.failovers),
        ("hedges", all.hedges),
        ("hedges_won", all.hedges_won),
        ("probes", all.probes),
        ("budget_denied", all.budget_denied),
        ("errors", all.errors),
        ("timeouts", all.timeouts),
        ("reads_failed", all.reads_failed),
        ("writes_failed", all.writes_failed),
        ("extra_writes", all.extra_writes),
        ("false_submits", all.false_submits),
        ("false_revokes", all.false_revokes),
    ] {
        assert!(count > 0, "60 simulations never met {what}");
    }
}

#[test]
fn sim_checker_finds_each_canary() {
    let loose = Rate::new(1.0, 1_000_000);
    for canary in [Breakage::CompleteTwice, Breakage::LeakInFlight, Breakage::ForgetLimits, Breakage::RevokeLast] {
        let found = (1..30).filter(|&seed| {
            let mut scenario = draw(seed);
            if canary == Breakage::RevokeLast {
                scenario.name = "linnos";
                let settings = &mut scenario.config.settings;
                (settings.revokes, settings.age_ns, settings.revokes_in_row_max) = (loose, Nanos::MAX, u32::MAX);
                scenario.learned.iter_mut().for_each(|device| device.network = Some(revokes_always()));
            }
            if canary == Breakage::CompleteTwice {
                scenario.name = "clone";
            }
            assert!(simulate(&scenario, None).is_ok());
            simulate(&scenario, Some(canary)).is_err()
        });
        assert!(found.count() > 0, "{canary:?} was not found");
    }
}

#[test]
fn sim_without_a_model_the_baseline_event_for_event() {
    for seed in 2000..2020 {
        let mut scenario = draw(seed);
        scenario.config.decision_ns = 0;
        scenario.learned.iter_mut().for_each(|device| (device.network, device.trees) = (None, None));
        scenario.name = "baseline";
        let baseline = simulate(&scenario, None).expect("rules hold");
        for name in ["linnos", "linnet+hl"] {
            scenario.name = name;
            let own = simulate(&scenario, None).expect("rules hold");
            assert_eq!(own.event_hash, baseline.event_hash, "seed {seed}, {name}");
            assert_eq!((&own.reads, &own.log), (&baseline.reads, &baseline.log), "seed {seed}, {name}");
        }
    }
}
