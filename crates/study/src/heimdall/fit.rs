// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heimdall's network: layers of 128 and 16 ReLU units and one sigmoid, trained with cross-entropy and Adam at 1e-3 for
//! twenty epochs. A read is slow if the output is above one half. It serves in integers: weights times 1,024, on
//! features scaled to 0..65535.
//!
//! Joint inference: one decision covers `joint` successive reads and uses the features of the first. In training, a
//! group is slow if more than half of its reads are. (The published description says of the group's inputs only that
//! the history ends before the group. With the first read's features, no read waits for the next one to arrive.)

use linnet_core::{
    Activation, FloatLayer, FloatNetwork, HEIMDALL_FEATURES, HeimdallScale, Layer, Loss, Network, Optimiser,
    TrainOptions, train_f32,
};
use linnet_learn::{Error, require};

use super::rows::HeimdallSet;

/// Integer value of a weight of 1.0.
const WEIGHT_ONE: f64 = 1024.0;
/// Integer value of a scaled feature of 1.0.
const INPUT_ONE: f64 = 65535.0;

/// Options of the training.
#[derive(Clone, Debug)]
pub struct HeimdallOptions {
    /// Shape, loss, optimiser, epochs and seed.
    pub train: TrainOptions,
    /// Successive reads per decision; 1, 3 and 9 in the paper.
    pub joint: usize,
}

impl Default for HeimdallOptions {
    fn default() -> Self {
        let train = TrainOptions {
            hidden: vec![128, 16],
            loss: Loss::BinaryCrossEntropy,
            false_submit_weight: 1.0,
            optimiser: Optimiser::Adam { learning_rate: 1e-3 },
            batch: 32,
            epochs: 20,
            ..TrainOptions::default()
        };
        HeimdallOptions { train, joint: 1 }
    }
}

/// The model that serves: integers only.
#[derive(Clone, Debug)]
pub struct HeimdallModel {
    /// Maps the two bytes of each scaled feature to two outputs.
    pub network: Network,
    /// Bounds of the features in training.
    pub scale: HeimdallScale,
    /// Successive reads per decision.
    pub joint: usize,
    /// Number of training rows; a group counts as one.
    pub rows: u64,
}

/// Trains on these rows; `slow` marks those in a slow period. `progress` is called with each epoch and its loss and
/// returns false to stop.
///
/// # Errors
/// [`Error::TooFewRows`] for an empty set; [`Error::Setting`]; [`Error::Core`]; [`Error::Interrupted`].
///
/// # Panics
/// If there is not one label for each row.
pub fn fit_heimdall(
    set: &HeimdallSet,
    slow: &[bool],
    options: &HeimdallOptions,
    progress: &mut dyn FnMut(usize, f32) -> bool,
) -> Result<HeimdallModel, Error> {
    assert_eq!(set.len(), slow.len(), "one label for each row");
    require(options.joint >= 1, "joint", options.joint, "1 or more")?;
    require(options.train.epochs >= 1, "epochs", options.train.epochs, "at least 1")?;
    if set.is_empty() {
        return Err(Error::TooFewRows { purpose: "training after the noise filter", rows: 0, least: 1 });
    }
    let scale = HeimdallScale::of(&set.features);
    let firsts = set.features.iter().step_by(options.joint);
    let rows: Vec<f32> = firsts.flat_map(|features| floats(&scale, features)).collect();
    let vote = |group: &[bool]| f32::from(u8::from(2 * group.iter().filter(|&&slow| slow).count() > group.len()));
    let targets: Vec<f32> = slow.chunks(options.joint).map(vote).collect();
    let mut stopped = false;
    let float = train_f32(&options.train, HEIMDALL_FEATURES, &rows, 1, &targets, &mut |epoch, loss| {
        stopped = !progress(epoch, loss);
        !stopped
    });
    if stopped {
        return Err(Error::Interrupted);
    }
    let network = integers(&float?)?;
    Ok(HeimdallModel { network, scale, joint: options.joint, rows: targets.len() as u64 })
}

impl HeimdallModel {
    /// The score of each row (that of the first row of its group); above 0 revokes.
    ///
    /// # Errors
    /// [`Error::Core`] for a network that does not map the features to two outputs.
    pub fn scores(&self, set: &HeimdallSet) -> Result<Vec<i64>, Error> {
        let mut scores = Vec::with_capacity(set.len());
        for group in set.features.chunks(self.joint) {
            let score = self.network.try_score(&self.scale.inputs(&group[0]))?;
            scores.extend(std::iter::repeat_n(score, group.len()));
        }
        Ok(scores)
    }
}

/// A row for training: the values of the pairs of bytes, 0..=1.
fn floats(scale: &HeimdallScale, features: &[u32; HEIMDALL_FEATURES]) -> [f32; HEIMDALL_FEATURES] {
    let inputs = scale.inputs(features);
    std::array::from_fn(|k| (f64::from(u16::from_be_bytes([inputs[2 * k], inputs[2 * k + 1]])) / INPUT_ONE) as f32)
}

/// Converts weights and biases to integers; the sigmoid, which revokes above one half, becomes the second of two
/// outputs whose first is always 0.
fn integers(float: &FloatNetwork) -> Result<Network, Error> {
    let (mut layers, mut scales, mut scale) = (Vec::new(), Vec::new(), INPUT_ONE);
    for FloatLayer { inputs, outputs, activation, weights, biases } in float.layers() {
        scale *= WEIGHT_ONE;
        let whole = |value: f32, one: f64| (f64::from(value) * one).round() as i64;
        let mut weights: Vec<i64> = weights.iter().map(|&weight| whole(weight, WEIGHT_ONE)).collect();
        let mut biases: Vec<i64> = biases.iter().map(|&bias| whole(bias, scale)).collect();
        let (mut inputs, mut outputs) = (inputs, outputs);
        if layers.is_empty() {
            weights = weights.iter().flat_map(|&weight| [256 * weight, weight]).collect();
            inputs *= 2;
        }
        if activation == Activation::Sigmoid {
            weights.splice(0..0, vec![0; inputs]);
            biases.insert(0, 0);
            outputs += 1;
        }
        layers.push(Layer { inputs, outputs, weights, biases });
        scales.push(scale as i64);
    }
    Ok(Network::with_input_max(layers, scales, u8::MAX)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heimdall::period::Paced;
    use linnet_sim::Chance;

    /// Slow if the queue is above 20 and the last read took over 200 us.
    fn rows(count: usize, seed: u64) -> (HeimdallSet, Vec<bool>) {
        let mut chance = Chance::new(seed);
        let mut set = HeimdallSet::default();
        let mut slow = Vec::new();
        for _ in 0..count {
            let mut row = [0; HEIMDALL_FEATURES];
            row[0] = 4096 << chance.below(4);
            row[1] = chance.below(40) as u32;
            row[5] = chance.below(400_000) as u32;
            set.features.push(row);
            set.paced.push(Paced::new(4096, 100_000));
            slow.push(row[1] > 20 && row[5] > 200_000);
        }
        (set, slow)
    }

    fn right(model: &HeimdallModel, set: &HeimdallSet, slow: &[bool]) -> f64 {
        let scores = model.scores(set).unwrap();
        scores.iter().zip(slow).filter(|&(&score, &slow)| (score > 0) == slow).count() as f64 / slow.len() as f64
    }

    #[test]
    fn learns_and_keeps_its_decisions_in_integers() {
        let (set, slow) = rows(8000, 1);
        let options = HeimdallOptions::default();
        let model = fit_heimdall(&set, &slow, &options, &mut |_, _| true).unwrap();
        let (later, truth) = rows(4000, 2);
        assert!(right(&model, &later, &truth) > 0.97);
        let rows: Vec<f32> = set.features.iter().flat_map(|row| floats(&model.scale, row)).collect();
        let targets: Vec<f32> = slow.iter().map(|&slow| f32::from(u8::from(slow))).collect();
        let float = train_f32(&options.train, HEIMDALL_FEATURES, &rows, 1, &targets, &mut |_, _| true).unwrap();
        let mut agreed = 0;
        for row in &later.features {
            let mut logit = [0.0];
            float.logits(&floats(&model.scale, row), &mut logit).unwrap();
            let score = model.network.try_score(&model.scale.inputs(row)).unwrap();
            // The scale of the score is 1,024 to the third times 65,535.
            let served = score as f64 / (INPUT_ONE * WEIGHT_ONE.powi(3));
            assert!(
                (served - f64::from(logit[0])).abs() < 0.05 * (1.0 + f64::from(logit[0].abs())),
                "{served} {logit:?}"
            );
            agreed += usize::from((score > 0) == (logit[0] > 0.0));
        }
        assert!(agreed > 3980, "{agreed}");
    }

    #[test]
    fn a_group_shares_the_decision_on_its_first() {
        let (set, slow) = rows(900, 3);
        let options = HeimdallOptions { joint: 3, ..HeimdallOptions::default() };
        let model = fit_heimdall(&set, &slow, &options, &mut |_, _| true).unwrap();
        assert_eq!(model.rows, 300);
        let scores = model.scores(&set).unwrap();
        assert!(scores.chunks(3).all(|group| group.iter().all(|&score| score == group[0])));
        assert_eq!(scores[3], model.network.try_score(&model.scale.inputs(&set.features[3])).unwrap());
    }

    #[test]
    fn refuses_what_cannot_be_trained() {
        let (set, slow) = rows(10, 4);
        let fit = |set: &HeimdallSet, slow: &[bool], joint| {
            let options = HeimdallOptions { joint, ..HeimdallOptions::default() };
            fit_heimdall(set, slow, &options, &mut |_, _| false)
        };
        assert!(matches!(fit(&HeimdallSet::default(), &[], 1), Err(Error::TooFewRows { .. })));
        assert!(matches!(fit(&set, &slow, 0), Err(Error::Setting { name: "joint", .. })));
        assert!(matches!(fit(&set, &slow, 1), Err(Error::Interrupted)));
    }
}
