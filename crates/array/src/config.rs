// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of an array, with their defaults and the reasons for them.

use crate::Error;
use linnet_core::{REPLICAS_MAX, Rate, Settings};
use linnet_types::Nanos;

/// Maximum number of devices in one array.
pub const DEVICES_MAX: usize = 4096;

/// Destination of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// To the primary only, as in LinnOS's evaluation (section 5.1: each device replays its own trace).
    #[default]
    Primary,
    /// To every replica. The write is complete when all copies are, and fails if all of them fail.
    All,
}

/// A token bucket: every arriving read adds `share` of a token, every use takes one, and at most `burst` tokens are
/// kept. It starts full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Uses per read in the long run, 0 to 8.
    pub share: f64,
    /// Uses in a row after a long rest, up to 1e9.
    pub burst: u32,
}

/// Settings of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Devices that hold each stream's data: the primary and those after it, 1 to 8. Default 3, as in LinnOS.
    pub replicas: usize,
    /// Where writes go. Default: the primary.
    pub write_mode: WriteMode,
    /// Time from a revoke or an error until the next replica is asked. Default 15 us: LinnOS's cost of a failover,
    /// including its inference (section 5.3).
    pub failover_ns: Nanos,
    /// Time that a predicting policy takes before the first submit or revoke of a read; later decisions are part of
    /// `failover_ns`. Default 0.
    pub decision_ns: Nanos,
    /// Budget of revokes. Default 1 per read and 4,096 in a row: enough if one of three replicas is fast (two slow
    /// devices of three cause one revoke per read), and a model that revokes everything costs the average read one
    /// failover.
    pub revoke_budget: Budget,
    /// Budget of hedges. Default 0.5 per read and 1,024 in a row: enough if one of three devices is slow (a third of
    /// the reads) with a published delay (5 % of reads at p95, 28 % at p72, the lowest inflection point of LinnOS's
    /// Table 2). If hedges slow the devices and cause more hedges, the feedback ends at 1.5 times the load.
    pub hedge_budget: Budget,
    /// Largest read that is hedged where all reads have one delay ([`crate::Policy::hedge_due`]). Default: any. The dm
    /// target has 64 KiB.
    pub hedge_bytes_max: u32,
    /// Budget of second copies sent together with the first. Default 1 per read and 256 in a row: every read can be
    /// cloned.
    pub clone_budget: Budget,
    /// The unit in which the age of a device's state is measured. Default 10 ms: the order of a flush or collection
    /// burst (1-30 ms). After 100 of them without an answer a device is probed, and a slow verdict of a network
    /// expires; of the trees of `linnet+hl`, which asks devices in order, after 5.
    pub age_ns: Nanos,
    /// Revokes of one device without a read completing there, after which one becomes a probe, even if the state is
    /// recent. Default 1,024: probes stay below 0.1 % of revokes.
    pub revokes_in_row_max: u32,
    /// Probability that a read which would be revoked, or sent elsewhere than to its primary, is submitted there
    /// nevertheless, 0 to 1. The outcomes of these reads estimate those of the others ([`crate::Probing`]). Default 0:
    /// none.
    pub probe_share: f64,
    /// Consecutive errors and time-outs that take a device out of service. Default 3: one bad flash page is not enough.
    pub error_limit: u32,
    /// Time that a device is out of service before one read probes it; doubles with each failed probe. Default 10 ms.
    pub out_ns: Nanos,
    /// Upper limit of that doubling. Default 1 s.
    pub out_ns_max: Nanos,
    /// Time limit of a read on one device; the read then fails over. Default 1 s.
    pub read_timeout_ns: Nanos,
    /// Time limit of a write on one device; it counts as failed there. Default 30 s, as in Linux's NVMe driver.
    pub write_timeout_ns: Nanos,
    /// Seed of the policies' random numbers. Default 0.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            replicas: 3,
            write_mode: WriteMode::Primary,
            failover_ns: 15_000,
            decision_ns: 0,
            revoke_budget: Budget { share: 1.0, burst: 4096 },
            hedge_budget: Budget { share: 0.5, burst: 1024 },
            hedge_bytes_max: u32::MAX,
            clone_budget: Budget { share: 1.0, burst: 256 },
            age_ns: 10_000_000,
            revokes_in_row_max: 1024,
            probe_share: 0.0,
            error_limit: 3,
            out_ns: 10_000_000,
            out_ns_max: 1_000_000_000,
            read_timeout_ns: 1_000_000_000,
            write_timeout_ns: 30_000_000_000,
            seed: 0,
        }
    }
}

impl Config {
    /// The settings of the core's decision.
    pub fn settings(&self) -> Settings {
        Settings {
            age_ns: self.age_ns,
            out_ns: self.out_ns,
            out_ns_max: self.out_ns_max,
            errors_max: self.error_limit,
            revokes_in_row_max: self.revokes_in_row_max,
            revokes: self.revoke_budget.rate(),
            ..Settings::default()
        }
    }

    /// Refuses settings outside their ranges, and more replicas than `devices`.
    pub fn validate(&self, devices: usize) -> Result<(), Error> {
        let refuse = |field, value: String, expected: String| Err(Error::Setting { field, value, expected });
        if devices == 0 || devices > DEVICES_MAX {
            return refuse("devices", devices.to_string(), format!("give 1 to {DEVICES_MAX} devices"));
        }
        let most = devices.min(REPLICAS_MAX);
        if self.replicas == 0 || self.replicas > most {
            return refuse(
                "replicas",
                self.replicas.to_string(),
                format!("1 to {most} are possible on {devices} devices"),
            );
        }
        self.settings().check().map_err(|error| named(error, "revoke_budget"))?;
        for (field, budget) in [("hedge_budget", self.hedge_budget), ("clone_budget", self.clone_budget)] {
            let alone = Settings { revokes: budget.rate(), ..Settings::default() };
            alone.check().map_err(|error| named(error, field))?;
        }
        if !(0.0..=1.0).contains(&self.probe_share) {
            return refuse("probe_share", self.probe_share.to_string(), "give a share of 0 to 1".into());
        }
        let times = [("read_timeout_ns", self.read_timeout_ns), ("write_timeout_ns", self.write_timeout_ns)];
        for (field, time) in times {
            if time == 0 {
                return refuse(field, "0".into(), "give at least 1 ns".into());
            }
        }
        Ok(())
    }
}

impl Budget {
    pub(crate) fn rate(self) -> Rate {
        Rate::new(self.share, self.burst)
    }
}

/// The core's error with the name that the field has here.
fn named(error: linnet_core::Error, budget: &'static str) -> Error {
    match error {
        linnet_core::Error::Setting { field, value, expected } => {
            let field = match field {
                "errors_max" => "error_limit",
                "revokes" => budget,
                same => same,
            };
            Error::Setting { field, value, expected: expected.to_owned() }
        }
        other => Error::Setting { field: "config", value: other.to_string(), expected: "see its fields".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_refused_by_name() {
        let wrong = Config { replicas: 4, ..Config::default() };
        let text = wrong.validate(3).expect_err("more replicas than devices").to_string();
        assert!(text.contains("`replicas` is 4") && text.contains("1 to 3"), "{text}");
        let wrong = Config { hedge_budget: Budget { share: f64::NAN, burst: 1 }, ..Config::default() };
        assert!(wrong.validate(3).is_err());
        assert!(Config { probe_share: 1.5, ..Config::default() }.validate(3).is_err());
        let field_of = |wrong: Config| match wrong.validate(3) {
            Err(Error::Setting { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field_of(Config { age_ns: 0, ..Config::default() }), "age_ns");
        assert_eq!(field_of(Config { error_limit: 0, ..Config::default() }), "error_limit");
        let budget = Budget { share: 9.0, burst: 1 };
        assert_eq!(field_of(Config { revoke_budget: budget, ..Config::default() }), "revoke_budget");
        assert_eq!(field_of(Config { clone_budget: budget, ..Config::default() }), "clone_budget");
        assert!(Config { out_ns_max: 1, ..Config::default() }.validate(3).is_err());
        assert_eq!(field_of(Config { replicas: 0, ..Config::default() }), "replicas");
        assert_eq!(field_of(Config { probe_share: -0.1, ..Config::default() }), "probe_share");
        assert_eq!(field_of(Config { read_timeout_ns: 0, ..Config::default() }), "read_timeout_ns");
        assert_eq!(field_of(Config { write_timeout_ns: 0, ..Config::default() }), "write_timeout_ns");
    }

    #[test]
    fn settings_at_their_limits_are_accepted() {
        let least = Config { replicas: 1, read_timeout_ns: 1, write_timeout_ns: 1, ..Config::default() };
        assert_eq!(least.validate(1), Ok(()));
        assert_eq!(Config { replicas: 8, probe_share: 1.0, ..Config::default() }.validate(DEVICES_MAX), Ok(()));
        let text = |config: Config, devices| config.validate(devices).expect_err("refused").to_string();
        assert!(text(Config { replicas: 9, ..Config::default() }, 9).contains("1 to 8 are possible on 9 devices"));
        assert!(text(Config::default(), 0).contains("`devices` is 0"));
        assert!(text(Config::default(), DEVICES_MAX + 1).contains("`devices` is 4097"));
    }

    #[test]
    fn the_core_decides_by_the_settings_of_the_array() {
        let config = Config {
            age_ns: 11,
            out_ns: 12,
            out_ns_max: 13,
            error_limit: 14,
            revokes_in_row_max: 15,
            revoke_budget: Budget { share: 0.25, burst: 16 },
            ..Config::default()
        };
        let own = Settings {
            age_ns: 11,
            out_ns: 12,
            out_ns_max: 13,
            errors_max: 14,
            revokes_in_row_max: 15,
            revokes: Rate { per_million: 250_000, burst: 16 },
            ..Settings::default()
        };
        assert_eq!(config.settings(), own);
    }
}
