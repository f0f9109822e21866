// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates predictions on reads with known outcomes. Every figure is reported with the base rate.

use linnet_core::{DIGITS, FloatNetwork, Network};
use linnet_measure::{Confusion, roc_auc, roc_auc_integers};

use crate::error::Error;
use crate::set::TrainingSet;

/// Figures of one network on one set of rows. Shares are in 0..=1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Rows evaluated: all of the set.
    pub rows: u64,
    /// Counts of the four outcomes.
    pub confusion: Confusion,
    /// Share of fast rows, which is the accuracy of always submitting.
    pub base_rate: f64,
    /// Share of correct decisions.
    pub accuracy: f64,
    /// Mean of the shares of correct decisions among fast and among slow rows.
    pub balanced_accuracy: f64,
    /// Area under the ROC curve of the scores (not of the decisions); `None` if all rows are fast or all are slow.
    pub roc_auc: Option<f64>,
    /// Submitted but slow, as a share of all rows.
    pub false_submit: f64,
    /// Revoked but fast, as a share of all rows.
    pub false_revoke: f64,
}

/// Scores every row with the network that serves, which gives integer scores.
///
/// # Errors
/// [`Error::TooFewRows`] for an empty set; [`Error::Core`] for a network that does not map 31 digits to two outputs.
pub fn evaluate(network: &Network, set: &TrainingSet) -> Result<Evaluation, Error> {
    let scores: Vec<i64> = rows(set)?.map(|row| network.try_score(row)).collect::<Result<_, _>>()?;
    let revoked: Vec<bool> = scores.iter().map(|&score| score > 0).collect();
    Ok(figures(&set.slow, &revoked, roc_auc_integers(&scores, &set.slow)))
}

/// Scores every row with the float network, before quantisation.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_float(network: &FloatNetwork, set: &TrainingSet) -> Result<Evaluation, Error> {
    if network.inputs() != DIGITS || network.outputs() > 2 {
        return Err(linnet_core::Error::Shape(format!("{network:?} does not take rows of {DIGITS} digits")).into());
    }
    let scores: Vec<f64> = rows(set)?.map(|row| f64::from(network.score(row))).collect();
    let revoked: Vec<bool> = scores.iter().map(|&score| score > 0.0).collect();
    Ok(figures(&set.slow, &revoked, roc_auc(&scores, &set.slow)))
}

/// Effect of rounding the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantisationLoss {
    /// Rows compared.
    pub rows: u64,
    /// Share of rows, 0..=1, that the two networks decide differently.
    pub decisions_changed: f64,
    /// Accuracy before minus accuracy after, in percentage points; negative if rounding increased it.
    pub accuracy_points: f64,
}

/// Compares a network with its quantised form, row by row.
///
/// # Errors
/// As [`evaluate`].
pub fn quantisation_loss(
    float: &FloatNetwork,
    network: &Network,
    set: &TrainingSet,
) -> Result<QuantisationLoss, Error> {
    let (mut changed, mut right_before, mut right_after) = (0u64, 0u64, 0u64);
    for (row, &slow) in rows(set)?.zip(&set.slow) {
        let before = float.decide(row);
        let after = network.try_score(row)? > 0;
        changed += u64::from(before != after);
        right_before += u64::from(before == slow);
        right_after += u64::from(after == slow);
    }
    let count = set.len() as f64;
    Ok(QuantisationLoss {
        rows: set.len() as u64,
        decisions_changed: changed as f64 / count,
        accuracy_points: 100.0 * (right_before as f64 - right_after as f64) / count,
    })
}

fn rows(set: &TrainingSet) -> Result<std::slice::ChunksExact<'_, u8>, Error> {
    if set.is_empty() {
        return Err(Error::TooFewRows { purpose: "evaluation", rows: 0, least: 1 });
    }
    Ok(set.digits.chunks_exact(DIGITS))
}

/// The figures of decisions about reads with known outcomes.
pub fn figures(slow: &[bool], revoked: &[bool], roc_auc: Option<f64>) -> Evaluation {
    let mut confusion = Confusion::default();
    for (&slow, &revoked) in slow.iter().zip(revoked) {
        confusion.record(slow, revoked);
    }
    Evaluation {
        rows: confusion.total(),
        confusion,
        base_rate: confusion.base_rate(),
        accuracy: confusion.accuracy(),
        balanced_accuracy: confusion.balanced_accuracy(),
        roc_auc,
        false_submit: confusion.false_submit(),
        false_revoke: confusion.false_revoke(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linnet_core::{Activation, FloatLayer, Layer};

    /// Score: the units digit of the pending pages, minus `threshold`.
    fn by_pending(threshold: i64) -> Network {
        let mut weights = vec![0; 2 * DIGITS];
        weights[DIGITS + 14] = 1;
        let layer = Layer { inputs: DIGITS, outputs: 2, weights, biases: vec![threshold, 0] };
        Network::from_integers(vec![layer], vec![1]).unwrap()
    }

    fn float_by_pending(threshold: f32) -> FloatNetwork {
        let mut weights = vec![0.0; 2 * DIGITS];
        weights[DIGITS + 14] = 1.0;
        let activation = Activation::Linear;
        let layer = FloatLayer { inputs: DIGITS, outputs: 2, activation, weights, biases: vec![threshold, 0.0] };
        FloatNetwork::from_layers(&[layer]).unwrap()
    }

    /// Rows whose pending pages are 0..=9; slow from 6 on, and 2 is slow too.
    fn ten_rows() -> TrainingSet {
        let mut set = TrainingSet::default();
        for pending in 0..10u8 {
            let mut row = [0; DIGITS];
            row[14] = pending;
            set.digits.extend(row);
            set.slow.push(pending >= 6 || pending == 2);
            set.latency_ns.push(0);
            set.arrive_ns.push(u64::from(pending));
        }
        set
    }

    #[test]
    fn figures_counted_by_hand() {
        // The network revokes 5 and above: 5 is a false revoke, 2 a false submit. A score of zero (4) submits.
        let set = ten_rows();
        let evaluated = evaluate(&by_pending(4), &set).unwrap();
        let confusion = Confusion { fast_submitted: 4, false_submits: 1, false_revokes: 1, slow_revoked: 4 };
        assert_eq!(evaluated.confusion, confusion);
        assert_eq!(
            (evaluated.rows, evaluated.base_rate, evaluated.accuracy, evaluated.balanced_accuracy),
            (10, 0.5, 0.8, 0.8)
        );
        assert_eq!((evaluated.false_submit, evaluated.false_revoke), (0.1, 0.1));
        let scores: Vec<f64> = (0..10).map(f64::from).collect();
        assert_eq!(evaluated.roc_auc, roc_auc(&scores, &set.slow));
        assert_eq!(evaluated.roc_auc, Some(22.0 / 25.0));
        assert_eq!(evaluate_float(&float_by_pending(4.0), &set).unwrap(), evaluated);
    }

    #[test]
    fn quantisation_counts_what_changed() {
        // 4.4 becomes 4: nothing changes. 4.6 becomes 5: row 5 is then submitted, which is correct.
        let set = ten_rows();
        let none = quantisation_loss(&float_by_pending(4.4), &by_pending(4), &set).unwrap();
        assert_eq!(none, QuantisationLoss { rows: 10, decisions_changed: 0.0, accuracy_points: 0.0 });
        let one = quantisation_loss(&float_by_pending(4.6), &by_pending(5), &set).unwrap();
        assert_eq!(one, QuantisationLoss { rows: 10, decisions_changed: 0.1, accuracy_points: -10.0 });
    }

    #[test]
    fn a_network_of_another_shape_is_refused() {
        let layer = Layer { inputs: 3, outputs: 2, weights: vec![0; 6], biases: vec![0; 2] };
        let other = Network::from_integers(vec![layer], vec![1]).unwrap();
        assert!(matches!(evaluate(&other, &ten_rows()), Err(Error::Core(_))));
        let activation = Activation::Linear;
        let layer = FloatLayer { inputs: 3, outputs: 2, activation, weights: vec![0.0; 6], biases: vec![0.0; 2] };
        let other = FloatNetwork::from_layers(&[layer]).unwrap();
        assert!(matches!(evaluate_float(&other, &ten_rows()), Err(Error::Core(_))));
    }
}
