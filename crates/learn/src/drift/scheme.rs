// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two kinds of model that drift handling supports, behind one trait.

use linnet_core::{DIGITS, INFLIGHT_FEATURES, InflightTracker, Network, Place, Tracker, Trees};
use linnet_types::{Nanos, Op, Request};

use crate::boost::{BoostOptions, fit_trees};
use crate::error::Error;
use crate::inflight_set::InflightSet;
use crate::network::{FitOptions, fit_network};
use crate::set::{HISTORY, TrainingSet};

/// Features, fit and score of one kind of model.
pub trait Scheme {
    /// Features of one read.
    type Row: Copy;
    /// Tracks the I/Os of one device and computes the features of its reads.
    type Tracker;
    /// Identifies an I/O to the tracker, from its arrival to its end.
    type Handle;
    /// The fitted model.
    type Model: Clone;

    /// An idle device without history; reads above `inflection_ns` are slow.
    fn tracker(&self, inflection_ns: Nanos) -> Self::Tracker;

    /// An I/O is submitted to the device. Returns the features of a read if there is enough history.
    fn arrive(&self, tracker: &mut Self::Tracker, now: Nanos, request: &Request) -> (Self::Handle, Option<Self::Row>);

    /// It completed after `latency_ns`, or left without completing.
    fn leave(&self, tracker: &mut Self::Tracker, handle: Self::Handle, now: Nanos, latency_ns: Option<Nanos>);

    /// Fits a model to reads in the order of arrival.
    ///
    /// # Errors
    /// Errors of the fit.
    fn fit(&self, rows: &[Self::Row], latency_ns: &[Nanos], inflection_ns: Nanos) -> Result<Self::Model, Error>;

    /// Above 0: slow is more likely than fast.
    fn score(model: &Self::Model, row: &Self::Row) -> i64;
}

/// The trees of the schema that the options name.
#[derive(Clone, Debug, Default)]
pub struct LinnetScheme(pub BoostOptions);

impl Scheme for LinnetScheme {
    type Row = [u8; INFLIGHT_FEATURES];
    type Tracker = InflightTracker;
    type Handle = Place;
    type Model = Trees;

    fn tracker(&self, inflection_ns: Nanos) -> InflightTracker {
        InflightTracker::new(inflection_ns)
    }

    fn arrive(&self, tracker: &mut InflightTracker, now: Nanos, request: &Request) -> (Place, Option<Self::Row>) {
        let row = request
            .op
            .is_read()
            .then(|| tracker.describe(self.0.schema, now, request.offset_bytes, request.size_bytes));
        (tracker.arrive(now, request), row)
    }

    fn leave(&self, tracker: &mut InflightTracker, handle: Place, now: Nanos, latency_ns: Option<Nanos>) {
        match latency_ns {
            Some(_) => tracker.complete(handle, now),
            None => tracker.withdraw(handle),
        }
    }

    fn fit(&self, rows: &[Self::Row], latency_ns: &[Nanos], inflection_ns: Nanos) -> Result<Trees, Error> {
        let slow = crate::inflection::slow_of(latency_ns, inflection_ns);
        let set = InflightSet { schema: self.0.schema, features: rows.to_vec(), slow, ..InflightSet::default() };
        fit_trees(&set, &self.0)
    }

    fn score(model: &Trees, row: &Self::Row) -> i64 {
        i64::from(model.score(row))
    }
}

/// The network of LinnOS on 31 digits.
#[derive(Clone, Debug, Default)]
pub struct LinnOsScheme(pub FitOptions);

impl Scheme for LinnOsScheme {
    type Row = [u8; DIGITS];
    type Tracker = Tracker;
    /// Kind, size and snapshot.
    type Handle = (Op, u32, u32);
    type Model = Network;

    fn tracker(&self, _inflection_ns: Nanos) -> Tracker {
        Tracker::new()
    }

    fn arrive(&self, tracker: &mut Tracker, _now: Nanos, request: &Request) -> (Self::Handle, Option<Self::Row>) {
        let snapshot = tracker.arrive(request.size_bytes);
        let known = request.op.is_read() && tracker.history_len() >= HISTORY;
        ((request.op, request.size_bytes, snapshot), known.then(|| tracker.digits(snapshot)))
    }

    fn leave(&self, tracker: &mut Tracker, handle: Self::Handle, _now: Nanos, latency_ns: Option<Nanos>) {
        let (op, size_bytes, snapshot) = handle;
        match latency_ns {
            Some(latency_ns) => tracker.complete(op, size_bytes, latency_ns, snapshot),
            None => tracker.withdraw(size_bytes),
        }
    }

    fn fit(&self, rows: &[Self::Row], latency_ns: &[Nanos], inflection_ns: Nanos) -> Result<Network, Error> {
        let slow = crate::inflection::slow_of(latency_ns, inflection_ns);
        let set = TrainingSet { digits: rows.concat(), slow, ..TrainingSet::default() };
        Ok(fit_network(&set, &self.0, &mut |_, _| true)?.network)
    }

    fn score(model: &Network, row: &Self::Row) -> i64 {
        model.score(row)
    }
}
