// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the model of a knob to rows of features and their classes: the normaliser, a network and a tree.
//!
//! Rows are passed to the network in an order that the seed gives, a new one in each epoch; one step follows each row.
//! The same rows, options and seed give the same bytes.

use linnet_core::{
    Activation, CartOptions, DecisionTree, Error, Knob, Loss, Normaliser, SmallNetwork, StepOptions, Unit,
};

/// How to fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// Sizes of the hidden layers. KML's readahead network has 15 and 5.
    pub hidden: Vec<usize>,
    /// Activation of the hidden layers.
    pub activation: Activation,
    /// Passes over the rows.
    pub epochs: usize,
    /// Step size at the first epoch; it falls in a line to a tenth of that at the last.
    pub learning_rate: f32,
    /// Share of the previous step that is added again, below 1.
    pub momentum: f32,
    /// Limits of the tree.
    pub tree: CartOptions,
    /// Of the first weights and the order of rows.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> FitOptions {
        FitOptions {
            hidden: vec![15, 5],
            activation: Activation::Sigmoid,
            epochs: 200,
            learning_rate: 0.02,
            momentum: 0.9,
            tree: CartOptions { leaf_rows: 4, ..CartOptions::default() },
            seed: 0,
        }
    }
}

/// Which parts a model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// A network, which decides, and a tree for those who have no FPU.
    Both,
    /// A network only.
    Network,
    /// A tree only.
    Tree,
}

/// Rows of features and the class of each.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// `inputs` numbers for each row.
    pub features: &'a [f32],
    /// Numbers in a row.
    pub inputs: usize,
    /// The class of each row: an index into the values.
    pub classes: &'a [u8],
}

/// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fisher-Yates. The remainder favours low places by less than one in 2^32 for as many rows.
    fn shuffle(&mut self, order: &mut [usize]) {
        for at in (1..order.len()).rev() {
            order.swap(at, (self.next() % (at as u64 + 1)) as usize);
        }
    }
}

/// Fits a model. `values` gives each class its value; `confidence` is the floor that the file states. `go_on` is asked
/// after each epoch and before each split of the tree; when it returns false, the model is what has been learned so far.
#[allow(clippy::too_many_arguments)]
pub fn fit(
    schema: u16,
    unit: Unit,
    values: &[u32],
    rows: Rows,
    parts: Parts,
    confidence: f64,
    options: &FitOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Knob, Error> {
    let Rows { features, inputs, classes } = rows;
    if inputs == 0 || classes.is_empty() || features.len() != inputs * classes.len() {
        let (numbers, count) = (features.len(), classes.len());
        return Err(Error::Training(format!("{numbers} numbers and {count} classes for rows of {inputs}")));
    }
    if values.len() < 2 {
        return Err(Error::Training(format!("{} values; a model chooses among at least 2", values.len())));
    }
    if let Some(class) = classes.iter().find(|class| usize::from(**class) >= values.len()) {
        return Err(Error::Training(format!("class {class}, where {} values are given", values.len())));
    }
    let mut normaliser = Normaliser::new(inputs, 0)?;
    for row in features.chunks_exact(inputs) {
        normaliser.learn(row)?;
    }
    let network = match parts {
        Parts::Tree => None,
        Parts::Both | Parts::Network => Some(train(&normaliser, values.len(), rows, options, go_on)?),
    };
    let tree = match parts {
        Parts::Network => None,
        Parts::Both | Parts::Tree => {
            Some(DecisionTree::fit(&options.tree, inputs, features, classes, values.len(), go_on)?)
        }
    };
    Ok(Knob {
        schema,
        unit,
        values: values.to_vec(),
        normaliser,
        network,
        tree,
        confidence,
        accuracy: 0.0,
        rows: classes.len() as u64,
        seed: options.seed,
    })
}

fn train(
    normaliser: &Normaliser,
    outputs: usize,
    rows: Rows,
    options: &FitOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<SmallNetwork, Error> {
    let Rows { features, inputs, classes } = rows;
    let mut z = vec![0.0; features.len()];
    for (row, z) in features.chunks_exact(inputs).zip(z.chunks_exact_mut(inputs)) {
        normaliser.apply(row, z)?;
    }
    let hidden = options.hidden.iter().map(|size| (*size, options.activation));
    let layers: Vec<(usize, Activation)> = hidden.chain([(outputs, Activation::Linear)]).collect();
    let mut network = SmallNetwork::new(inputs, &layers, options.seed)?;
    let mut chance = Chance(options.seed);
    let mut order: Vec<usize> = (0..classes.len()).collect();
    for epoch in 0..options.epochs {
        let left = 1.0 - 0.9 * epoch as f32 / options.epochs.max(1) as f32;
        let step = StepOptions {
            loss: Loss::SoftmaxCrossEntropy,
            learning_rate: left * options.learning_rate,
            momentum: options.momentum,
        };
        chance.shuffle(&mut order);
        for &at in &order {
            network.train_class(&step, &z[at * inputs..(at + 1) * inputs], usize::from(classes[at]))?;
        }
        if !go_on() {
            break;
        }
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use linnet_core::SCHEMA_PRIVATE;

    use super::*;

    /// Three classes in two features that a line does not separate: the middle, a ring around it, and what is outside.
    fn rings() -> (Vec<f32>, Vec<u8>) {
        let mut chance = Chance(7);
        let mut number = || (chance.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        (0..900)
            .map(|_| (number(), number()))
            .map(|(x, y)| {
                (
                    [x, y],
                    match x.hypot(y) {
                        r if r < 0.5 => 0,
                        r if r < 0.9 => 1,
                        _ => 2,
                    },
                )
            })
            .fold((Vec::new(), Vec::new()), |(mut rows, mut classes), (row, class)| {
                rows.extend(row);
                classes.push(class);
                (rows, classes)
            })
    }

    fn share_right(knob: &Knob, features: &[f32], classes: &[u8]) -> f64 {
        let right = features.chunks_exact(2).zip(classes);
        let right = right.filter(|(row, class)| knob.decide(row).expect("decides").0 == usize::from(**class)).count();
        right as f64 / classes.len() as f64
    }

    fn fitted(features: &[f32], classes: &[u8], parts: Parts) -> Knob {
        let rows = Rows { features, inputs: 2, classes };
        let options = FitOptions::default();
        fit(SCHEMA_PRIVATE, Unit::Kib, &[8, 64, 512], rows, parts, 0.5, &options, &mut || true).expect("fitted")
    }

    #[test]
    fn a_fit_that_is_stopped_ends_with_its_epoch_or_split() {
        let (features, classes) = rings();
        let rows = Rows { features: &features, inputs: 2, classes: &classes };
        let fitted = |parts, epochs, times| {
            let (options, mut asked) = (FitOptions { epochs, learning_rate: 0.0, ..FitOptions::default() }, 0);
            let mut go_on = || {
                asked += 1;
                asked < times
            };
            fit(SCHEMA_PRIVATE, Unit::Kib, &[8, 64, 512], rows, parts, 0.5, &options, &mut go_on).expect("fitted");
            asked
        };
        // Millions of epochs would not end.
        assert_eq!(fitted(Parts::Network, usize::MAX, 3), 3);
        assert_eq!(fitted(Parts::Tree, 0, 3), 3);
    }

    #[test]
    fn network_and_tree_learn_what_a_line_cannot_separate() {
        let (features, classes) = rings();
        let (seen, held) = (&features[..1200], &features[1200..]);
        for parts in [Parts::Both, Parts::Network, Parts::Tree] {
            let knob = fitted(seen, &classes[..600], parts);
            let share = share_right(&knob, held, &classes[600..]);
            assert!(share > 0.85, "{parts:?}: {share}");
            assert_eq!((knob.network.is_some(), knob.tree.is_some()), (parts != Parts::Tree, parts != Parts::Network));
        }
        let mut shuffled = classes.clone();
        shuffled.rotate_left(301);
        let share = share_right(&fitted(seen, &shuffled[..600], Parts::Network), held, &classes[600..]);
        assert!(share < 0.6, "labels of other rows teach nothing: {share}");
    }

    #[test]
    fn the_same_rows_and_seed_give_the_same_bytes() {
        let (features, classes) = rings();
        let bytes = || fitted(&features, &classes, Parts::Both).to_bytes().expect("a file");
        assert_eq!(bytes(), bytes());
    }

    #[test]
    fn what_does_not_pair_is_refused() {
        let refused = |features: &[f32], classes: &[u8], values: &[u32]| {
            let rows = Rows { features, inputs: 2, classes };
            let options = FitOptions::default();
            let fitted = fit(SCHEMA_PRIVATE, Unit::Kib, values, rows, Parts::Both, 0.5, &options, &mut || true);
            fitted.expect_err("refused").to_string()
        };
        assert!(refused(&[1.0; 3], &[0], &[8, 16]).contains("3 numbers and 1 classes for rows of 2"));
        assert!(refused(&[1.0; 2], &[0], &[8]).contains("a model chooses among at least 2"));
        assert!(refused(&[1.0; 2], &[2], &[8, 16]).contains("class 2, where 2 values are given"));
    }
}
