// SPDX-License-Identifier: MIT OR Apache-2.0
//! From records with latencies to judged trees.

use linnet_core::{LATENCY_SHARES, Latencies, Trees};
use linnet_types::{IoRecord, Nanos};

use crate::boost::{BoostOptions, evaluate_trees, fit_trees};
use crate::error::Error;
use crate::evaluate::Evaluation;
use crate::latencies::{Foretold, evaluate_latencies, fit_latencies};
use crate::set::check_train_share;
use crate::watched::WatchedSet;

/// Trees and how they judge rows that nothing was learned from.
#[derive(Clone, Debug)]
pub struct JudgedTrees {
    /// What serves.
    pub trees: Trees,
    /// What their scores foretell of latency.
    pub latencies: Latencies,
    /// Figures on the later part or the other period.
    pub test: Evaluation,
    /// How the foretold latencies held on it.
    pub foretold: [Foretold; LATENCY_SHARES.len()],
}

/// Fits trees to the earlier part of a device's reads and judges them on the rest. Slow is above `inflection_ns`.
///
/// # Errors
/// [`Error::Setting`]; [`Error::NoReads`] or [`Error::TooFewRows`] where a part has no read with a latency.
pub fn learn_trees(
    records: &[IoRecord],
    train_share: f64,
    inflection_ns: Nanos,
    options: &BoostOptions,
) -> Result<JudgedTrees, Error> {
    check_train_share(train_share)?;
    let (train, test) = WatchedSet::from_records(records, inflection_ns)?.split_at_share(train_share);
    judge(&train, &test, options)
}

/// Fits the same trees to several devices of one type; each is cut in time by itself.
///
/// # Errors
/// As [`learn_trees`], and [`Error::NoDevice`].
pub fn learn_trees_pooled(
    devices: &[&[IoRecord]],
    train_share: f64,
    inflection_ns: Nanos,
    options: &BoostOptions,
) -> Result<JudgedTrees, Error> {
    check_train_share(train_share)?;
    if devices.is_empty() {
        return Err(Error::NoDevice);
    }
    let (mut train, mut test) = (WatchedSet::default(), WatchedSet::default());
    for (device, records) in devices.iter().enumerate() {
        let rows = WatchedSet::from_records(records, inflection_ns)
            .map_err(|error| Error::Device { device, source: Box::new(error) })?;
        let (earlier, later) = rows.split_at_share(train_share);
        train.append(earlier);
        test.append(later);
    }
    judge(&train, &test, options)
}

/// Fits trees to one period of a device and judges them on another.
///
/// # Errors
/// As [`learn_trees`].
pub fn learn_trees_periods(
    train: &[IoRecord],
    test: &[IoRecord],
    inflection_ns: Nanos,
    options: &BoostOptions,
) -> Result<JudgedTrees, Error> {
    let rows = |records| WatchedSet::from_records(records, inflection_ns);
    judge(&rows(train)?, &rows(test)?, options)
}

fn judge(train: &WatchedSet, test: &WatchedSet, options: &BoostOptions) -> Result<JudgedTrees, Error> {
    let trees = fit_trees(train, options)?;
    let latencies = fit_latencies(&trees, train)?;
    let foretold = evaluate_latencies(&trees, &latencies, test)?;
    Ok(JudgedTrees { trees, latencies, test: evaluate_trees(&trees, test)?, foretold })
}
