// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory: the studies behind papers and design documents. No product crate depends on it.
//!
//! - [`Study`] compares LinnOS, Heimdall and `linnet` on the same reads of one device.
//! - [`Defects`] are errors of the published pipelines as switches, to measure their effect on the reported figures.
//! - [`HistorySet`] has the rows of networks that remember more or fewer reads than LinnOS's four.
//! - [`WideSet`] has what a host can see when a read arrives, in some two hundred numbers.
//! - [`study_drift`] compares a model trained once, one that drift handling maintains, and one that is always retrained.
//! - [`Informed`] is linnet-best with foresight of a given accuracy in the place of its trees.
//! - [`PathScores`] scores paths as path selectors do, with each part of the score a switch.
//! - [`CounterfactualPolicy`] records what a host could have known of every replica, and what each replica would have answered.

mod compare;
mod counterfactual;
mod defects;
mod drift;
mod heimdall;
mod history;
mod informed;
mod paths;
mod wide;

pub use compare::{HeimdallEvaluated, Study, StudyOptions, StudyRows};
pub use counterfactual::{COUNTERFACTUAL_FEATURES, Counterfactual, CounterfactualPolicy};
pub use defects::Defects;
pub use drift::{DriftStudy, STRATEGIES, StudyChunk, StudyEvent, study_drift};
pub use heimdall::{
    HeimdallModel, HeimdallOptions, HeimdallSet, Paced, PeriodOptions, PeriodPoints, fit_heimdall, noise, slow_periods,
};
pub use history::{HistorySet, train_rows};
pub use informed::{Compared, Informed, Scores};
pub use paths::{PathOptions, PathScores};
pub use wide::WideSet;
