// SPDX-License-Identifier: MIT OR Apache-2.0
//! One model for several devices of one type: their rows are pooled for training, with one inflection point.

use linnet_types::{IoRecord, Nanos};

use crate::error::Error;
use crate::inflection::{InflectionOptions, inflection_point};
use crate::label::Labelled;
use crate::set::TrainingSet;

/// The rows of several devices as if of one, each split by time separately, and the concatenated records `past` of
/// their training parts. The latencies of all training parts give the inflection point.
pub(crate) fn pool(
    parts: Vec<(TrainingSet, TrainingSet)>,
    past: &[&[IoRecord]],
    options: &InflectionOptions,
) -> Result<(Labelled, Vec<IoRecord>), Error> {
    if parts.is_empty() {
        return Err(Error::NoDevice);
    }
    let (mut train, mut test) = (TrainingSet::default(), TrainingSet::default());
    for (earlier, later) in parts {
        train.append(earlier);
        test.append(later);
    }
    let mut all = Vec::new();
    past.iter().for_each(|records| append_after(&mut all, records));
    let inflection = inflection_point(&[&train.latency_ns], 0, options)?;
    train.relabel(inflection.latency_ns);
    test.relabel(inflection.latency_ns);
    Ok((Labelled { inflection, train, test }, all))
}

/// Appends the records of another device shifted in time, so that I/Os of different devices never overlap.
fn append_after(past: &mut Vec<IoRecord>, records: &[IoRecord]) {
    let ended = |r: &IoRecord| r.arrive_ns.saturating_add(r.latency_ns.unwrap_or(0)).saturating_add(1);
    let end: Nanos = past.iter().map(ended).max().unwrap_or(0);
    past.extend(records.iter().map(|r| IoRecord { arrive_ns: r.arrive_ns.saturating_add(end), ..*r }));
}
