// SPDX-License-Identifier: MIT OR Apache-2.0
//! One model for several devices of one type: their rows are trained together, under one inflection point.

use linnet_types::{IoRecord, Nanos};

use crate::error::Error;
use crate::inflection::inflection_point;
use crate::label::{Labelled, split};
use crate::pipeline::{LearnOptions, Learned, Progress, Stage, learn_one, until};
use crate::set::TrainingSet;

/// Learns one model from the records of several devices. Each trace is replayed by itself and cut in time by itself;
/// the training parts' latencies together give the inflection point, as those of one device do in [`crate::learn`].
///
/// # Errors
/// Those of [`crate::learn`].
pub fn learn_pooled(
    devices: &[&[IoRecord]],
    options: &LearnOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Learned, Error> {
    let mut tell = |stage: Stage| {
        let at = Progress { device: 0, devices: 1, stage };
        if watch(at) { Ok(()) } else { Err(Error::Interrupted) }
    };
    tell(Stage::Label)?;
    if devices.is_empty() {
        return Err(Error::NoDevice);
    }
    let (mut train, mut test) = (TrainingSet::default(), TrainingSet::default());
    let mut past = Vec::new();
    for (device, records) in devices.iter().enumerate() {
        let (earlier, later) =
            split(records, options.train_share).map_err(|error| Error::Device { device, source: Box::new(error) })?;
        append_after(&mut past, &until(records, earlier.arrive_ns.last().copied().unwrap_or(0)));
        train.append(earlier);
        test.append(later);
    }
    let inflection = inflection_point(&[&train.latency_ns], 0, &options.inflection)?;
    train.relabel(inflection.latency_ns);
    test.relabel(inflection.latency_ns);
    learn_one(Labelled { inflection, train, test }, &past, 0, options, &mut tell)
}

/// Appends the records of another device as if they followed, so that no queue of one meets the other's I/O.
fn append_after(past: &mut Vec<IoRecord>, records: &[IoRecord]) {
    let ended = |r: &IoRecord| r.arrive_ns.saturating_add(r.latency_ns.unwrap_or(0)).saturating_add(1);
    let end: Nanos = past.iter().map(ended).max().unwrap_or(0);
    past.extend(records.iter().map(|r| IoRecord { arrive_ns: r.arrive_ns.saturating_add(end), ..*r }));
}
