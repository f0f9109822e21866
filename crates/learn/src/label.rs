// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels that do not use future data: the inflection point comes from the training part alone, and the test part,
//! later in time and never filtered, is labelled with it.

use linnet_types::{IoRecord, Nanos};

use crate::error::{Error, require};
use crate::inflection::{Inflection, InflectionOptions, inflection_points};
use crate::set::{HISTORY, TrainingSet, check_train_share};

/// One device's rows, labelled and split by time.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    /// Found on the training part of this device and of its peers.
    pub inflection: Inflection,
    /// The earlier rows.
    pub train: TrainingSet,
    /// The later rows. A read that was still pending at the split belongs to the training part by its arrival; its
    /// latency enters the history of test rows once it completes, as in live operation.
    pub test: TrainingSet,
}

/// Labels the records of each device of an array. The first `train_share` of each device's rows, in the order of
/// arrival, are for training; only their latencies give the inflection points. With the records of one device, all
/// replicas are assumed to behave like it ([`inflection_point`](crate::inflection_point)).
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::Setting`]; [`Error::Device`] around [`Error::NoReads`], [`Error::NoHistory`], or
/// [`Error::TooFewRows`] for a device that leaves one of the parts empty.
pub fn label(devices: &[&[IoRecord]], train_share: f64, options: &InflectionOptions) -> Result<Vec<Labelled>, Error> {
    label_parts(split_all(devices, train_share)?, options)
}

/// The devices of which a period has no read that can become a row, so that no model can be fitted to them and tested.
pub fn without_rows(train: &[&[IoRecord]], test: &[&[IoRecord]]) -> Vec<usize> {
    let has = |records| rows_of(records, "").is_ok();
    let without = train.iter().zip(test).enumerate().filter(|&(_, (earlier, later))| !has(earlier) || !has(later));
    without.map(|(device, _)| device).collect()
}

/// The latencies that give a device's inflection point in a [`label`] with this share: those of its earlier rows, in the
/// order of arrival.
///
/// # Errors
/// [`Error::Setting`]; [`Error::NoReads`]; [`Error::NoHistory`]; [`Error::TooFewRows`] if one of the parts is empty.
pub fn training_latencies(records: &[IoRecord], train_share: f64) -> Result<Vec<Nanos>, Error> {
    check_train_share(train_share)?;
    Ok(split(records, train_share)?.0.latency_ns)
}

/// The last share of a device's rows, labelled by the inflection point of a model: what a [`crate::fit`] with the rest as
/// its `train_share` tested on. `test_share` is above 0 and up to 1.
///
/// # Errors
/// [`Error::Setting`]; [`Error::NoReads`]; [`Error::NoHistory`]; [`Error::TooFewRows`] if no row is left.
pub fn last_rows(records: &[IoRecord], test_share: f64, inflection_ns: Nanos) -> Result<TrainingSet, Error> {
    require(test_share > 0.0 && test_share <= 1.0, "test_share", test_share, "above 0 and up to 1")?;
    let (_, mut rows) = rows_of(records, "testing")?.split_at_share(rest_of(test_share));
    if rows.is_empty() {
        return Err(Error::TooFewRows { purpose: "testing", rows: 0, least: 1 });
    }
    rows.relabel(inflection_ns);
    Ok(rows)
}

/// One less the share, and the decimal that is meant: 1 - 0.9 is a little less than 0.1, and a cut by it may fall one row
/// before that of a fit.
fn rest_of(share: f64) -> f64 {
    let rest = 1.0 - share;
    let decimal = (rest * 1e12).round() / 1e12;
    if (rest - decimal).abs() < f64::EPSILON { decimal } else { rest }
}

/// The rows of one period of a device, without labels.
fn rows_of(records: &[IoRecord], purpose: &'static str) -> Result<TrainingSet, Error> {
    match TrainingSet::from_records(records, Nanos::MAX) {
        Ok(set) if set.is_empty() => Err(no_rows(&set, purpose)),
        other => other,
    }
}

/// Why a set has no rows: a trace of few reads, or one whose reads all arrive before the first of them are complete.
fn no_rows(set: &TrainingSet, purpose: &'static str) -> Error {
    match set.dropped.warm_up {
        reads if reads > u64::from(HISTORY) => Error::NoHistory { reads },
        _ => Error::TooFewRows { purpose, rows: 0, least: 1 },
    }
}

/// The rows of each device, split by time, without labels.
pub(crate) fn split_all(devices: &[&[IoRecord]], train_share: f64) -> Result<Vec<(TrainingSet, TrainingSet)>, Error> {
    check_train_share(train_share)?;
    let part = |(device, records): (usize, &&[IoRecord])| {
        split(records, train_share).map_err(|error| Error::Device { device, source: Box::new(error) })
    };
    devices.iter().enumerate().map(part).collect()
}

/// The rows of two periods of each device, without labels.
pub(crate) fn rows_of_periods(
    train: &[&[IoRecord]],
    test: &[&[IoRecord]],
) -> Result<Vec<(TrainingSet, TrainingSet)>, Error> {
    require(train.len() == test.len(), "test", test.len(), "one period for each device")?;
    let mut parts = Vec::with_capacity(train.len());
    for (device, (earlier, later)) in train.iter().zip(test).enumerate() {
        let both = rows_of(earlier, "training").and_then(|first| Ok((first, rows_of(later, "testing")?)));
        parts.push(both.map_err(|error| Error::Device { device, source: Box::new(error) })?);
    }
    Ok(parts)
}

/// Finds each device's inflection point on the training parts and labels both parts.
pub(crate) fn label_parts(
    parts: Vec<(TrainingSet, TrainingSet)>,
    options: &InflectionOptions,
) -> Result<Vec<Labelled>, Error> {
    let latencies: Vec<&[Nanos]> = parts.iter().map(|(train, _)| &train.latency_ns[..]).collect();
    let found = inflection_points(&latencies, options)?;
    let labelled = |((mut train, mut test), inflection): ((TrainingSet, TrainingSet), Inflection)| {
        train.relabel(inflection.latency_ns);
        test.relabel(inflection.latency_ns);
        Labelled { inflection, train, test }
    };
    Ok(parts.into_iter().zip(found).map(labelled).collect())
}

fn split(records: &[IoRecord], train_share: f64) -> Result<(TrainingSet, TrainingSet), Error> {
    let set = rows_of(records, "training")?;
    let (train, test) = set.split_at_share(train_share);
    for (purpose, part) in [("training", &train), ("testing", &test)] {
        if part.is_empty() {
            return Err(Error::TooFewRows { purpose, rows: 0, least: 1 });
        }
    }
    Ok((train, test))
}
