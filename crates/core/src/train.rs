// SPDX-License-Identifier: MIT OR Apache-2.0
//! Training on one core, reproducible to the bit from its seed (`core/train.c`).

use std::ptr::null;

use crate::float::{Activation, FloatNetwork, Raw};
use crate::memory::Memory;
use crate::{DIGITS, Error, ffi, simd};

/// The loss that training minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Keras's categorical hinge on two or more linear outputs: LinnOS.
    CategoricalHinge,
    /// Softmax and cross-entropy on two or more linear outputs; for a [`crate::SmallNetwork`], also on softmax outputs.
    SoftmaxCrossEntropy,
    /// Cross-entropy of sigmoid outputs, each an independent class.
    BinaryCrossEntropy,
    /// Mean square difference.
    Square,
}

impl Loss {
    pub(crate) fn code(self) -> u32 {
        match self {
            Loss::CategoricalHinge => 0,
            Loss::SoftmaxCrossEntropy => 1,
            Loss::BinaryCrossEntropy => 2,
            Loss::Square => 3,
        }
    }
}

/// The rule that turns gradients into a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimiser {
    /// Adam with the usual 0.9, 0.999 and Keras's 1e-7.
    Adam {
        /// Step size; 1e-3 is the usual one.
        learning_rate: f32,
    },
    /// Gradient descent.
    Sgd {
        /// Step size.
        learning_rate: f32,
        /// Share of the previous step that is added again, below 1; 0 for none.
        momentum: f32,
    },
}

/// Training options. The default is LinnOS's network and training, for eight epochs.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Sizes of the hidden layers.
    pub hidden: Vec<usize>,
    /// Activation of each hidden layer.
    pub hidden_activation: Activation,
    /// Activation of the last layer; `None` for the one that the loss needs (a sigmoid for binary cross-entropy,
    /// otherwise none).
    pub output_activation: Option<Activation>,
    /// The loss that training minimises.
    pub loss: Loss,
    /// Weight in the loss of a slow row that the network would submit (LinnOS, section 4.4); 1 is unbiased. Another
    /// value needs two outputs, or one output and binary cross-entropy.
    pub false_submit_weight: f32,
    /// The rule that turns gradients into a step.
    pub optimiser: Optimiser,
    /// Rows per step.
    pub batch: usize,
    /// Passes over the rows.
    pub epochs: usize,
    /// Seed of the initial weights and of the order of rows.
    pub seed: u64,
    /// Start from this network instead of random weights; it must have the requested shape.
    pub start: Option<FloatNetwork>,
}

impl Default for TrainOptions {
    fn default() -> Self {
        TrainOptions {
            hidden: vec![256],
            hidden_activation: Activation::Relu,
            output_activation: None,
            loss: Loss::CategoricalHinge,
            false_submit_weight: 5.0,
            optimiser: Optimiser::Adam { learning_rate: 1e-3 },
            batch: 128,
            epochs: 8,
            seed: 0,
            start: None,
        }
    }
}

/// Trains on digits: `rows` holds 31 for each read, `slow` its label. One output with binary cross-entropy, otherwise
/// two, fast and slow. `progress` is called with each epoch and its mean loss, and returns false to stop.
pub fn train(
    options: &TrainOptions,
    rows: &[u8],
    slow: &[bool],
    progress: &mut dyn FnMut(usize, f32) -> bool,
) -> Result<FloatNetwork, Error> {
    run_set(options, rows, slow, simd::best(), progress)
}

/// [`train`] with the loops of this instruction set.
pub(crate) fn run_set(
    options: &TrainOptions,
    rows: &[u8],
    slow: &[bool],
    set: simd::Set,
    progress: &mut dyn FnMut(usize, f32) -> bool,
) -> Result<FloatNetwork, Error> {
    if rows.len() != slow.len() * DIGITS {
        return Err(Error::Training(format!("{} digits for {} labels; each needs {DIGITS}", rows.len(), slow.len())));
    }
    let outputs = if options.loss == Loss::BinaryCrossEntropy { 1 } else { 2 };
    let classes: Vec<u8> = slow.iter().map(|&slow| u8::from(slow)).collect();
    let data = ffi::Rows {
        count: count(slow.len())?,
        digits: rows.as_ptr(),
        values: null(),
        classes: classes.as_ptr(),
        targets: null(),
    };
    run(options, DIGITS, outputs, &data, set, progress)
}

/// Trains on floats: `rows` holds `inputs` numbers for each row, `targets` holds `outputs`.
///
/// # Errors
/// [`Error::Training`] for options or rows that do not fit each other, and for a number that is not finite;
/// [`Error::Diverged`] if the loss, a weight or a moment of a gradient is no longer finite.
pub fn train_f32(
    options: &TrainOptions,
    inputs: usize,
    rows: &[f32],
    outputs: usize,
    targets: &[f32],
    progress: &mut dyn FnMut(usize, f32) -> bool,
) -> Result<FloatNetwork, Error> {
    if inputs == 0
        || outputs == 0
        || !rows.len().is_multiple_of(inputs)
        || targets.len() != rows.len() / inputs * outputs
    {
        return Err(Error::Training(format!(
            "{} numbers in rows of {inputs} and {} targets in rows of {outputs} do not pair",
            rows.len(),
            targets.len()
        )));
    }
    let data = ffi::Rows {
        count: count(rows.len() / inputs)?,
        digits: null(),
        values: rows.as_ptr(),
        classes: null(),
        targets: targets.as_ptr(),
    };
    run(options, inputs, outputs, &data, simd::best(), progress)
}

fn count(rows: usize) -> Result<u32, Error> {
    match u32::try_from(rows) {
        Ok(0) => Err(Error::Training("there are no rows".into())),
        Ok(count) => Ok(count),
        Err(_) => Err(Error::Training(format!("{rows} rows, more than 2^32 - 1"))),
    }
}

fn c_options(options: &TrainOptions) -> Result<ffi::TrainOptions, Error> {
    let (optimiser, learning_rate, momentum) = match options.optimiser {
        Optimiser::Adam { learning_rate } => (0, learning_rate, 0.0),
        Optimiser::Sgd { learning_rate, momentum } => (1, learning_rate, momentum),
    };
    for (name, value) in
        [("learning rate", learning_rate), ("momentum", momentum), ("false-submit weight", options.false_submit_weight)]
    {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(Error::Training(format!("the {name} is {value}; give a number of 0 or more")));
        }
    }
    if momentum >= 1.0 {
        return Err(Error::Training(format!("the momentum is {momentum}; give a number below 1")));
    }
    Ok(ffi::TrainOptions {
        loss: options.loss.code(),
        optimiser,
        batch: u32::try_from(options.batch).unwrap_or(u32::MAX),
        learning_rate,
        momentum,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-7,
        false_submit_weight: options.false_submit_weight,
        spare: 0,
        seed: options.seed,
    })
}

/// The raw pointers of `data` must be valid for its count and the given shape; both callers above ensure that.
fn run(
    options: &TrainOptions,
    inputs: usize,
    outputs: usize,
    data: &ffi::Rows,
    set: simd::Set,
    progress: &mut dyn FnMut(usize, f32) -> bool,
) -> Result<FloatNetwork, Error> {
    let output = options.output_activation.unwrap_or(match options.loss {
        Loss::BinaryCrossEntropy => Activation::Sigmoid,
        _ => Activation::Linear,
    });
    let mut shape: Vec<_> = options.hidden.iter().map(|&size| (size, options.hidden_activation)).collect();
    shape.push((outputs, output));
    let mut raw = Raw::new(inputs, &shape, options.seed, set)?;
    if let Some(start) = &options.start {
        let layers = start.layers();
        let given: Vec<_> = layers.iter().map(|layer| (layer.outputs, layer.activation)).collect();
        if start.inputs() != inputs || given != shape {
            return Err(Error::Training(format!("{start:?} is not of the shape asked for, {inputs} to {shape:?}")));
        }
        raw.set(&layers);
    }
    let c_options = c_options(options)?;

    // SAFETY: the trainer's memory has the size that C requires and outlives it, as do the network and the rows;
    // zeros are a valid `ffi::Trainer`.
    unsafe {
        let mut memory = Memory::new(ffi::linnet_trainer_size(&raw.core, data.count));
        let mut trainer: ffi::Trainer = std::mem::zeroed();
        let code = ffi::linnet_trainer_init(
            &mut trainer,
            &mut raw.core,
            &c_options,
            data.count,
            memory.as_mut_ptr(),
            memory.size(),
        );
        if code < 0 {
            return Err(Error::Training(format!(
                "{:?} does not fit a last layer of {outputs} {output:?} outputs, a batch of {} and a false-submit \
                 weight of {}",
                options.loss, options.batch, options.false_submit_weight
            )));
        }
        for epoch in 0..options.epochs {
            let mut loss = 0.0;
            match ffi::linnet_trainer_epoch(&mut trainer, data, &mut loss) {
                0 => {}
                ffi::E_INPUT => return Err(Error::Training("a number of a row or a target is not finite".into())),
                code => return Err(Error::Training(format!("the core answers {code}"))),
            }
            if !loss.is_finite() {
                return Err(Error::Diverged { epoch });
            }
            if !progress(epoch, loss as f32) {
                break;
            }
        }
    }
    Ok(FloatNetwork::of(raw))
}
