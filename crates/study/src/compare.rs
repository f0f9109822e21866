// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares LinnOS, Heimdall and `linnet` on the same reads of one device, with one inflection point and one split in
//! time.
//!
//! LinnOS needs four completed reads before it can describe one, so earlier reads are left out for every model. All
//! models are evaluated with the same labels: a read above the inflection point is slow. Heimdall is trained on its own
//! labels, and is evaluated with those as well.

use linnet_core::Schema;
use linnet_learn::{
    BoostOptions, Error, Evaluation, FitOptions, Inflection, InflectionOptions, InflightSet, TrainingSet,
    check_train_share, evaluate, evaluate_trees, figures, fit_network, fit_trees, inflection_point, require,
};
use linnet_measure::roc_auc_integers;
use linnet_sim::Chance;
use linnet_types::{IoRecord, Nanos};

use crate::defects::{Defects, served};
use crate::heimdall::{
    HeimdallOptions, HeimdallSet, Paced, PeriodOptions, PeriodPoints, fit_heimdall, noise, slow_periods,
};

/// Options for the models of a study.
#[derive(Clone, Debug, Default)]
pub struct StudyOptions {
    /// Options of the inflection point.
    pub inflection: InflectionOptions,
    /// Options of LinnOS. Its seed also shuffles the rows if a defect requires it.
    pub fit: FitOptions,
    /// Options of `linnet`.
    pub boost: BoostOptions,
    /// Options of Heimdall.
    pub heimdall: HeimdallOptions,
    /// Options of Heimdall's labels.
    pub periods: PeriodOptions,
    /// Published defects to switch on.
    pub defects: Defects,
}

/// The rows of one part: the same reads in three schemas.
#[derive(Clone, Debug)]
pub struct StudyRows {
    /// Rows of LinnOS, with the labels by which every model is evaluated.
    pub linnos: TrainingSet,
    /// Rows of `linnet`.
    pub linnet: InflightSet,
    /// The same in the schema `linnet-2`.
    pub linnet2: InflightSet,
    /// Rows of Heimdall.
    pub heimdall: HeimdallSet,
    /// Heimdall's labels: whether in a slow period.
    pub in_period: Vec<bool>,
    /// Rows that Heimdall's filter would remove.
    pub noise: Vec<bool>,
}

/// One device, described and labelled.
#[derive(Clone, Debug)]
pub struct Study {
    options: StudyOptions,
    /// Found on the training part.
    pub inflection: Inflection,
    /// Heimdall's thresholds, also found there.
    pub points: PeriodPoints,
    /// The training rows.
    pub train: StudyRows,
    /// The test rows.
    pub test: StudyRows,
}

/// Figures of Heimdall by both sets of labels.
#[derive(Clone, Debug)]
pub struct HeimdallEvaluated {
    /// By the labels of all models.
    pub shared: Evaluation,
    /// By its own labels: a read in a slow period is slow.
    pub own: Evaluation,
    /// Rows that its network was trained on.
    pub rows: u64,
    /// Share of the training rows that the filter removed.
    pub removed: f64,
}

impl StudyRows {
    /// Computes the features of the reads of `linnos`, which are the last of the records, in the other schemas; labels
    /// come later.
    fn describe(
        records: &[IoRecord],
        mut linnos: TrainingSet,
        inflection_ns: Nanos,
        defects: &Defects,
    ) -> Result<StudyRows, Error> {
        let [linnet, linnet2] = Schema::ALL.map(|schema| InflightSet::from_records(records, inflection_ns, schema));
        let (linnet, linnet2) = (linnet?, linnet2?);
        let heimdall = HeimdallSet::from_records(records, defects)?;
        let last = last(linnet.len(), linnos.len());
        linnos.relabel(inflection_ns);
        let (linnet, linnet2, heimdall) = (linnet.pick(&last), linnet2.pick(&last), heimdall.pick(&last));
        Ok(StudyRows { linnos, linnet, linnet2, heimdall, in_period: Vec::new(), noise: Vec::new() })
    }

    fn mark(&mut self, points: &PeriodPoints, options: &PeriodOptions) {
        self.in_period = slow_periods(&self.heimdall.paced, points, options);
        self.noise = noise(&self.heimdall.paced, &self.in_period, points, options);
    }

    fn pick(&self, rows: &[usize]) -> StudyRows {
        StudyRows {
            linnos: self.linnos.pick(rows),
            linnet: self.linnet.pick(rows),
            linnet2: self.linnet2.pick(rows),
            heimdall: self.heimdall.pick(rows),
            in_period: rows.iter().map(|&row| self.in_period[row]).collect(),
            noise: rows.iter().map(|&row| self.noise[row]).collect(),
        }
    }

    fn without_noise(&self) -> StudyRows {
        self.pick(&(0..self.noise.len()).filter(|&row| !self.noise[row]).collect::<Vec<_>>())
    }
}

impl Study {
    /// Splits a device's rows: the earlier `train_share` trains, the rest tests.
    ///
    /// # Errors
    /// [`Error::Setting`]; [`Error::NoReads`], or [`Error::TooFewRows`] if a part is empty.
    pub fn of_trace(records: &[IoRecord], train_share: f64, options: StudyOptions) -> Result<Study, Error> {
        check_train_share(train_share)?;
        let (learnt, served) = (learnt(records, &options.defects)?, served(records, &options.defects)?);
        let rows = learnt.len().min(served.len());
        let mut order: Vec<usize> = (0..rows).collect();
        if options.defects.random_split {
            let mut chance = Chance::new(options.fit.train.seed).fork(1);
            (1..rows).rev().for_each(|k| order.swap(k, chance.below(k as u64 + 1) as usize));
        }
        let (train, test) = order.split_at_mut((rows as f64 * train_share).round() as usize);
        train.sort_unstable();
        test.sort_unstable();
        let learnt = Part { records, set: learnt.pick(&last(learnt.len(), rows)), rows: train };
        let served = Part { records, set: served.pick(&last(served.len(), rows)), rows: test };
        Study::new(learnt, served, options)
    }

    /// Trains on one period and tests on another.
    ///
    /// # Errors
    /// Those of [`Study::of_trace`]; a random split needs one trace.
    pub fn of_periods(train: &[IoRecord], test: &[IoRecord], options: StudyOptions) -> Result<Study, Error> {
        require(!options.defects.random_split, "defect", "random-split", "on one trace, not on two periods")?;
        let (learnt, served) = (learnt(train, &options.defects)?, served(test, &options.defects)?);
        let rows = [&learnt, &served].map(|set| (0..set.len()).collect::<Vec<_>>());
        let learnt = Part { records: train, set: learnt, rows: &rows[0] };
        let served = Part { records: test, set: served, rows: &rows[1] };
        Study::new(learnt, served, options)
    }

    fn new(train: Part<'_>, test: Part<'_>, options: StudyOptions) -> Result<Study, Error> {
        for (purpose, part) in [("training", &train), ("testing", &test)] {
            if part.rows.is_empty() {
                return Err(Error::TooFewRows { purpose, rows: 0, least: 1 });
            }
        }
        let both = options.defects.threshold_over_all;
        let mut latencies: Vec<Nanos> = train.rows.iter().map(|&row| train.set.latency_ns[row]).collect();
        if both {
            latencies.extend(test.rows.iter().map(|&row| test.set.latency_ns[row]));
        }
        let inflection = inflection_point(&[&latencies], 0, &options.inflection)?;
        let describe =
            |part: &Part<'_>, set| StudyRows::describe(part.records, set, inflection.latency_ns, &options.defects);
        let (mut learnt, mut served) = (describe(&train, train.set.clone())?, describe(&test, test.set.clone())?);
        let mut paced: Vec<Paced> = train.rows.iter().map(|&row| learnt.heimdall.paced[row]).collect();
        if both {
            paced.extend(test.rows.iter().map(|&row| served.heimdall.paced[row]));
        }
        let points = PeriodPoints::of(&paced, &options.periods)?;
        // A period is a range of time, so periods are found before the rows are split; the labels of up to two reads at
        // the split may depend on later reads.
        learnt.mark(&points, &options.periods);
        served.mark(&points, &options.periods);
        let (train, test) = (learnt.pick(train.rows), served.pick(test.rows));
        Ok(Study { options, inflection, points, train, test })
    }

    /// LinnOS, biased against false submits. `go_on` is called at intervals and returns false to stop.
    ///
    /// # Errors
    /// Those of [`fit_network`].
    pub fn linnos(&self, go_on: &mut dyn FnMut() -> bool) -> Result<Evaluation, Error> {
        let fitted = fit_network(&self.train.linnos, &self.options.fit, &mut |_, _| go_on())?;
        Ok(self.reported(evaluate(&fitted.network, &self.test.linnos)?))
    }

    /// The trees of `linnet`.
    ///
    /// # Errors
    /// Those of [`fit_trees`].
    pub fn linnet(&self) -> Result<Evaluation, Error> {
        evaluate_trees(&fit_trees(&self.train.linnet, &self.options.boost)?, &self.test.linnet)
    }

    /// The trees of `linnet` in the schema `linnet-2`.
    ///
    /// # Errors
    /// As [`Study::linnet`].
    pub fn linnet2(&self) -> Result<Evaluation, Error> {
        evaluate_trees(&fit_trees(&self.train.linnet2, &self.options.boost)?, &self.test.linnet2)
    }

    /// Heimdall, with `joint` successive reads per decision.
    ///
    /// # Errors
    /// Those of [`fit_heimdall`]; [`Error::TooFewRows`] if the filter leaves none to evaluate.
    pub fn heimdall(&self, joint: usize, go_on: &mut dyn FnMut() -> bool) -> Result<HeimdallEvaluated, Error> {
        let options = HeimdallOptions { joint, ..self.options.heimdall.clone() };
        let kept = self.train.without_noise();
        let model = fit_heimdall(&kept.heimdall, &kept.in_period, &options, &mut |_, _| go_on())?;
        let filtered = self.options.defects.test_filtered.then(|| self.test.without_noise());
        let test = filtered.as_ref().unwrap_or(&self.test);
        if test.heimdall.is_empty() {
            return Err(Error::TooFewRows { purpose: "testing after the noise filter", rows: 0, least: 1 });
        }
        let scores = model.scores(&test.heimdall)?;
        let revoked: Vec<bool> = scores.iter().map(|&score| score > 0).collect();
        let by = |slow: &[bool]| self.reported(figures(slow, &revoked, roc_auc_integers(&scores, slow)));
        Ok(HeimdallEvaluated {
            shared: by(&test.linnos.slow),
            own: by(&test.in_period),
            rows: model.rows,
            removed: 1.0 - kept.heimdall.len() as f64 / self.train.heimdall.len() as f64,
        })
    }

    /// Heimdall's features and network, trained and evaluated on the labels of all models, without its filter.
    ///
    /// # Errors
    /// Those of [`fit_heimdall`].
    pub fn heimdall_by_cutoff(&self, go_on: &mut dyn FnMut() -> bool) -> Result<Evaluation, Error> {
        let train = &self.train;
        let model = fit_heimdall(&train.heimdall, &train.linnos.slow, &self.options.heimdall, &mut |_, _| go_on())?;
        let (scores, slow) = (model.scores(&self.test.heimdall)?, &self.test.linnos.slow);
        let revoked: Vec<bool> = scores.iter().map(|&score| score > 0).collect();
        Ok(self.reported(figures(slow, &revoked, roc_auc_integers(&scores, slow))))
    }

    fn reported(&self, mut evaluated: Evaluation) -> Evaluation {
        if self.options.defects.hard_auc {
            evaluated.roc_auc = evaluated.roc_auc.and(Some(evaluated.balanced_accuracy));
        }
        evaluated
    }
}

/// Some rows of a device's records.
struct Part<'a> {
    records: &'a [IoRecord],
    set: TrainingSet,
    rows: &'a [usize],
}

/// The training rows of LinnOS.
fn learnt(records: &[IoRecord], defects: &Defects) -> Result<TrainingSet, Error> {
    if !defects.millisecond_times {
        return TrainingSet::from_records(records, Nanos::MAX);
    }
    let cut = |record: &IoRecord| IoRecord { arrive_ns: record.arrive_ns / 1_000_000 * 1_000_000, ..*record };
    TrainingSet::from_records(&records.iter().map(cut).collect::<Vec<_>>(), Nanos::MAX)
}

/// The indices of the last `rows` of `all`.
fn last(all: usize, rows: usize) -> Vec<usize> {
    (all.saturating_sub(rows)..all).collect()
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
