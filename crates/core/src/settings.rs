// SPDX-License-Identifier: MIT OR Apache-2.0
//! All thresholds of the decision, and its budgets (`core/decide.h`).

use std::mem::MaybeUninit;

use linnet_types::Nanos;

use crate::ffi::POLICIES;
use crate::{Error, ffi};

/// A policy of the core (`core/choose.c`, `enum linnet_policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Policy {
    /// The first candidate.
    Baseline = 0,
    /// The fewest I/Os in flight.
    ShortestQueue = 1,
    /// The lowest EWMA latency x (in flight + 1).
    EwmaInflight = 2,
    /// The first whose network does not predict slow.
    Linnos = 3,
    /// The lowest wait by the averages, times the odds of a slow read that its trees predict.
    Best = 4,
}

/// The names of the core's policies, in the order of their numbers (`core/decide.h`).
pub fn policy_names() -> [&'static str; POLICIES] {
    // SAFETY: a constant table of that many zero-terminated strings.
    let names = unsafe { &ffi::linnet_policy_names };
    // SAFETY: each pointer of the table leads to a constant string that ends in zero.
    names.map(|name| unsafe { std::ffi::CStr::from_ptr(name) }.to_str().unwrap_or_default())
}

/// A limit on use (`struct linnet_rate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rate {
    /// Uses per million reads, 0..=8,000,000.
    pub per_million: u32,
    /// Uses in a row after a rest, 0..=1,000,000,000.
    pub burst: u32,
}

/// `struct linnet_settings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// 0 or 1; 0: every read goes to the first replica that can serve it.
    pub on: u32,
    /// The configured policy. If its models are missing, another one replaces it.
    pub policy: Policy,
    /// Age at which the state of a replica expires; [`Nanos::MAX`]: never. Default 10 ms: the order of a flush or
    /// collection burst (1-30 ms).
    pub age_ns: Nanos,
    /// First time out of service after errors; it doubles with each probe that fails. Default 10 ms.
    pub out_ns: Nanos,
    /// Upper limit of that doubling. Default 1 s.
    pub out_ns_max: Nanos,
    /// Consecutive errors that take a replica out of service. Default 3: one bad flash page is not enough.
    pub errors_max: u32,
    /// ewma-inflight and linnet-best: a replica that is silent for more `age_ns` than these is probed.
    /// Default 100.
    pub probe_ages: u32,
    /// A prediction of slow by trees allows revokes for this many `age_ns`. Default 5.
    pub revoke_ages: u32,
    /// Revokes of one replica without a read completing there; the next one becomes a probe.
    /// Default 1,024: probes stay below 0.1 % of revokes.
    pub revokes_in_row_max: u32,
    /// Budget of revokes. Default 1 per read, 1,024 in a row.
    pub revokes: Rate,
    /// Budget of linnet-best's hedges. Default 0.02 per read, 256 in a row.
    pub hedges: Rate,
}

const _: () = assert!(size_of::<Rate>() == 8 && size_of::<Settings>() == 64);

/// A field with its name in errors.
struct Field {
    name: &'static str,
    expected: &'static str,
    /// Copies the field from other settings.
    take: fn(&mut Settings, &Settings),
    show: fn(&Settings) -> String,
}

const COUNT: &str = "give at least 1";
const RATE: &str = "give 0 to 8 uses per read, and a burst of at most 1e9";

/// Fields are copied and checked in order, so a limit that two fields share is reported for the later one.
const FIELDS: &[Field] = &[
    Field { name: "on", expected: "give 0 or 1", take: |to, from| to.on = from.on, show: |from| from.on.to_string() },
    Field {
        name: "age_ns",
        expected: "give at least 1 ns",
        take: |to, from| to.age_ns = from.age_ns,
        show: |from| from.age_ns.to_string(),
    },
    Field {
        name: "out_ns",
        expected: "give 1 ns to 2^62 ns",
        take: |to, from| (to.out_ns, to.out_ns_max) = (from.out_ns, from.out_ns.max(to.out_ns_max)),
        show: |from| from.out_ns.to_string(),
    },
    Field {
        name: "out_ns_max",
        expected: "give at least out_ns and at most 2^62 ns",
        take: |to, from| to.out_ns_max = from.out_ns_max,
        show: |from| from.out_ns_max.to_string(),
    },
    Field {
        name: "errors_max",
        expected: COUNT,
        take: |to, from| to.errors_max = from.errors_max,
        show: |from| from.errors_max.to_string(),
    },
    Field {
        name: "revokes_in_row_max",
        expected: COUNT,
        take: |to, from| to.revokes_in_row_max = from.revokes_in_row_max,
        show: |from| from.revokes_in_row_max.to_string(),
    },
    Field {
        name: "revokes",
        expected: RATE,
        take: |to, from| to.revokes = from.revokes,
        show: |from| from.revokes.show(),
    },
    Field { name: "hedges", expected: RATE, take: |to, from| to.hedges = from.hedges, show: |from| from.hedges.show() },
];

impl Rate {
    /// This many uses per read, and this many in a row. A share that is negative or NaN gives a rate that fails the
    /// check.
    pub fn new(share: f64, burst: u32) -> Rate {
        let per_million = if share >= 0.0 { (share * 1e6).round() as u32 } else { u32::MAX };
        Rate { per_million, burst }
    }

    fn show(self) -> String {
        match self.per_million {
            u32::MAX => format!("no share of 0 or more, burst {}", self.burst),
            uses => format!("{} per read, burst {}", f64::from(uses) / 1e6, self.burst),
        }
    }
}

impl Settings {
    /// # Errors
    /// [`Error::Setting`] names the first field that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_valid() {
            return Ok(());
        }
        let mut taken = Settings::default();
        for field in FIELDS {
            (field.take)(&mut taken, self);
            if !taken.is_valid() {
                return Err(Error::Setting { field: field.name, value: (field.show)(self), expected: field.expected });
            }
        }
        Err(Error::Input(format!("the core refuses {self:?}")))
    }

    fn is_valid(&self) -> bool {
        // SAFETY: `Settings` has the layout of `struct linnet_settings`; so in every call of this crate.
        unsafe { ffi::linnet_settings_check(self) == 0 }
    }

    /// Whether there is nothing to decide about a read: one replica (bit of `usable`) is left, or the first serves all
    /// reads.
    pub fn decides_nothing(&self, usable: u8, may_revoke: bool) -> bool {
        // SAFETY: as above.
        unsafe { ffi::linnet_linked_decides_nothing(self, u32::from(usable), i32::from(may_revoke)) != 0 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = MaybeUninit::uninit();
        // SAFETY: C sets every field.
        unsafe {
            ffi::linnet_settings_init(settings.as_mut_ptr());
            settings.assume_init()
        }
    }
}

/// The balance of a [`Rate`] (`struct linnet_budget`). Starts full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Budget {
    spent: u64,
}

const _: () = assert!(size_of::<Budget>() == 8);

impl Budget {
    /// A read has arrived.
    pub fn earn(&mut self, rate: &Rate) {
        // A full budget earns nothing; this saves the call.
        if self.spent > 0 {
            // SAFETY: both have C's layout; so below.
            unsafe { ffi::linnet_linked_budget_earn(self, rate) }
        }
    }

    /// Takes one use. False if none is left.
    pub fn take(&mut self, rate: &Rate) -> bool {
        // SAFETY: both layouts are C's; C keeps neither reference.
        unsafe { ffi::linnet_linked_budget_take(self, rate) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_grants_its_burst_and_then_its_share() {
        let (mut budget, rate) = (Budget::default(), Rate::new(0.25, 3));
        assert_eq!((0..10).filter(|_| budget.take(&rate)).count(), 3);
        let granted = (0..1000).filter(|_| {
            budget.earn(&rate);
            budget.take(&rate)
        });
        assert_eq!(granted.count(), 250);
    }

    #[test]
    fn a_wrong_field_is_named() {
        let good = Settings::default();
        assert_eq!(good.check(), Ok(()));
        let wrong = [
            ("on", "2", Settings { on: 2, ..good }),
            ("age_ns", "0", Settings { age_ns: 0, ..good }),
            ("out_ns", "0", Settings { out_ns: 0, ..good }),
            ("out_ns_max", "1", Settings { out_ns_max: 1, ..good }),
            ("out_ns_max", "18446744073709551615", Settings { out_ns_max: u64::MAX, ..good }),
            ("errors_max", "0", Settings { errors_max: 0, ..good }),
            ("revokes_in_row_max", "0", Settings { revokes_in_row_max: 0, out_ns: 1, out_ns_max: 2, ..good }),
            ("revokes", "8.5 per read, burst 1", Settings { revokes: Rate::new(8.5, 1), ..good }),
            ("hedges", "no share of 0 or more, burst 1", Settings { hedges: Rate::new(f64::NAN, 1), ..good }),
            ("hedges", "1 per read, burst 2000000000", Settings { hedges: Rate::new(1.0, 2_000_000_000), ..good }),
        ];
        for (field, value, settings) in wrong {
            match settings.check() {
                Err(Error::Setting { field: named, value: shown, .. }) => assert_eq!((named, &*shown), (field, value)),
                other => panic!("{field}: {other:?}"),
            }
        }
    }
}
