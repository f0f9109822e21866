// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of an array, with their defaults and the reasons for them.

use crate::Error;
use linnet_core::{REPLICAS_MAX, Rate, Settings};
use linnet_types::{FAILOVER_NS, Nanos};

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

/// Settings of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Devices that hold each stream's data: the primary and those after it, 1 to 8. Default 3, as in LinnOS.
    pub replicas: usize,
    /// Where writes go. Default: the primary.
    pub write_mode: WriteMode,
    /// Time from a revoke or an error until the next replica is asked. Default [`FAILOVER_NS`].
    pub failover_ns: Nanos,
    /// Time that a predicting policy takes before the first submit or revoke of a read; later decisions are part of
    /// `failover_ns`. Default 0.
    pub decision_ns: Nanos,
    /// Thresholds of the decision and its budgets, as in the kernel's target. Default: the core's, with a budget of revokes
    /// of 1 per read and 4,096 in a row: enough if one of three replicas is fast (two slow devices of three cause one
    /// revoke per read), and a model that revokes everything costs the average read one failover. The policy's name
    /// gives `policy`.
    pub settings: Settings,
    /// Budget of hedges of policies that have none of their own, as `linnet-best` has that of `settings`. Default 0.5 per
    /// read and 1,024 in a row: enough if one of three devices is slow (a third of the reads) with a published delay (5 % of reads at p95,
    /// 28 % at p72, the lowest inflection point of LinnOS's Table 2). If hedges slow the devices and cause more hedges,
    /// the feedback ends at 1.5 times the load.
    pub hedge_budget: Rate,
    /// Largest read that is hedged where all reads have one delay ([`crate::Policy::hedge_due`]). Default: any. The dm
    /// target has 64 KiB.
    pub hedge_bytes_max: u32,
    /// Budget of second copies sent together with the first. Default 1 per read and 256 in a row: every read can be
    /// cloned.
    pub clone_budget: Rate,
    /// Probability that a read which would be revoked, or sent elsewhere than to its primary, is submitted there
    /// nevertheless, 0 to 1. The outcomes of these reads estimate those of the others ([`crate::Probing`]). Default 0:
    /// none.
    pub probe_share: f64,
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
            failover_ns: FAILOVER_NS,
            decision_ns: 0,
            settings: Settings { revokes: Rate::new(1.0, 4096), ..Settings::default() },
            hedge_budget: Rate::new(0.5, 1024),
            hedge_bytes_max: u32::MAX,
            clone_budget: Rate::new(1.0, 256),
            probe_share: 0.0,
            read_timeout_ns: 1_000_000_000,
            write_timeout_ns: 30_000_000_000,
            seed: 0,
        }
    }
}

impl Config {
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
        check(&self.settings, None)?;
        for (name, budget) in [("hedge_budget", self.hedge_budget), ("clone_budget", self.clone_budget)] {
            check(&Settings { revokes: budget, ..Settings::default() }, Some(name))?;
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

/// What the core says of the settings; `name` is that of the field here, where it is another.
fn check(settings: &Settings, name: Option<&'static str>) -> Result<(), Error> {
    settings.check().map_err(|error| match error {
        linnet_core::Error::Setting { field, value, expected } => {
            Error::Setting { field: name.unwrap_or(field), value, expected: expected.to_owned() }
        }
        other => Error::Setting { field: "config", value: other.to_string(), expected: "see its fields".to_owned() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_refused_by_name() {
        let wrong = Config { replicas: 4, ..Config::default() };
        let text = wrong.validate(3).expect_err("more replicas than devices").to_string();
        assert!(text.contains("`replicas` is 4") && text.contains("1 to 3"), "{text}");
        let deciding = |settings| Config { settings, ..Config::default() };
        let default = Config::default().settings;
        assert!(Config { hedge_budget: Rate::new(f64::NAN, 1), ..Config::default() }.validate(3).is_err());
        assert!(Config { probe_share: 1.5, ..Config::default() }.validate(3).is_err());
        let field_of = |wrong: Config| match wrong.validate(3) {
            Err(Error::Setting { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field_of(deciding(Settings { age_ns: 0, ..default })), "age_ns");
        assert_eq!(field_of(deciding(Settings { out_ns_max: 1, ..default })), "out_ns_max");
        assert_eq!(field_of(deciding(Settings { revokes: Rate::new(9.0, 1), ..default })), "revokes");
        assert_eq!(field_of(Config { clone_budget: Rate::new(9.0, 1), ..Config::default() }), "clone_budget");
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
}
