// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of the workloads (tenants) that share a drive: `spec/profile.md`.
//!
//! * [`Profiler`] turns one tenant's I/Os into a [`Profile`], in one pass and constant memory; [`Tenants`] does so for
//!   all tenants of a trace;
//! * [`declared`] reads the load that a fio job file declares;
//! * [`Aggregate`] makes one profile of several: [`Independent`] as in the paper, [`Correlated`] where the members were
//!   recorded together;
//! * [`colocate()`] runs tenants together on a modelled drive, and [`Load`] makes them, or [`Recorded`] of a trace: the
//!   labels of interference models;
//!   [`settle()`] brings the drive to the state that they keep it in first;
//! * [`phases`] tells the phases of a workload apart; [`distance`] and [`signature`] recognise a workload.
//!
//! Features and formulas follow the gray-box paper (Jaliminche, Chakraborttii, Choi and Litz, SoCC 2023, section 4).

mod aggregate;
mod colocate;
mod contiguity;
mod error;
mod fio;
mod history;
mod load;
mod outcome;
mod phase;
mod profile;
mod profiler;
mod rates;
mod recorded;
mod settle;
mod signature;

pub use aggregate::{Aggregate, Correlated, Independent};
pub use colocate::{Colocated, DRIVES, TENANTS_MAX, Tenant, WARM_MOST_NS, Warm, colocate, drive, part_bytes};
pub use error::Error;
pub use fio::declared;
pub use history::{HISTORY_SLOTS, History};
pub use load::{Load, Offer};
pub use outcome::{Completed, Meter, Outcome, Seen};
pub use phase::{Phase, phases};
pub use profile::{DepthFrom, FEATURE_COUNT, FEATURES, GROUPS, Group, PER_GROUP, Profile, WindowStd};
pub use profiler::{Options, Profiler, Tenants};
pub use recorded::Recorded;
pub use settle::settle;
pub use signature::{SAME_WORKLOAD, difference, distance, signature};
