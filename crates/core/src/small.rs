// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small networks of floats that learn row by row (`core/small.c`, `core/online.c`).

use std::fmt;
use std::mem::MaybeUninit;

use crate::float::check_shapes;
use crate::network::LAYERS_MAX;
use crate::{Activation, Error, FloatLayer, Loss, ffi};

/// Largest layer of a [`SmallNetwork`].
pub const SMALL_SIZE_MAX: usize = ffi::SMALL_SIZE_MAX;
/// Floats of scratch that the largest network needs in a forward pass; the scratch of a training step is on the heap.
const SCRATCH: usize = 2 * SMALL_SIZE_MAX;

/// The update for a row: gradient descent with momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions {
    /// The loss that a step reduces; not [`Loss::CategoricalHinge`].
    pub loss: Loss,
    /// Step size.
    pub learning_rate: f32,
    /// Share of the previous step that is added again, below 1; 0 for none.
    pub momentum: f32,
}

/// A network of at most eight layers of at most [`SMALL_SIZE_MAX`], without padding, for a kernel to keep per knob.
pub struct SmallNetwork {
    core: ffi::Small,
    activations: Vec<Activation>,
    values: Vec<f32>,
    momentum: Vec<f32>,
    scratch: Vec<f32>,
}

// SAFETY: the pointers lead into vectors that the network owns; C writes through them only by `&mut self`.
unsafe impl Send for SmallNetwork {}
// SAFETY: as for Send.
unsafe impl Sync for SmallNetwork {}

impl SmallNetwork {
    /// Glorot-uniform weights of this seed, zero biases. `layers` gives the outputs of each layer.
    pub fn new(inputs: usize, layers: &[(usize, Activation)], seed: u64) -> Result<SmallNetwork, Error> {
        if layers.is_empty() || layers.len() > LAYERS_MAX {
            return Err(Error::Shape(format!("{} layers, where 1 to {LAYERS_MAX} are allowed", layers.len())));
        }
        let sizes = [inputs].into_iter().chain(layers.iter().map(|layer| layer.0));
        if let Some(size) = sizes.into_iter().find(|size| !(1..=SMALL_SIZE_MAX).contains(size)) {
            return Err(Error::Shape(format!("a layer of {size}, where 1 to {SMALL_SIZE_MAX} are allowed")));
        }
        if layers[..layers.len() - 1].iter().any(|layer| layer.1 == Activation::Softmax) {
            return Err(Error::Shape("a hidden layer is softmax, which only the last may be".into()));
        }
        let shapes: Vec<ffi::FloatShape> = layers
            .iter()
            .map(|(outputs, activation)| ffi::FloatShape { outputs: *outputs as u32, activation: activation.code() })
            .collect();
        // SAFETY: zeros are a valid `ffi::Small`; the shape was checked.
        let core = unsafe {
            let mut core: ffi::Small = std::mem::zeroed();
            let code = ffi::linnet_small_plan(&mut core, inputs as u32, shapes.as_ptr(), shapes.len() as u32);
            if code < 0 {
                return Err(Error::Shape(format!("the core answers {code}")));
            }
            core
        };
        let count = core.value_count as usize;
        let mut network = SmallNetwork {
            core,
            activations: layers.iter().map(|layer| layer.1).collect(),
            values: vec![0.0; count],
            momentum: vec![0.0; count],
            scratch: vec![0.0; core.train_floats as usize],
        };
        network.place();
        // SAFETY: the memory was just placed.
        unsafe { ffi::linnet_small_start(&mut network.core, seed) };
        Ok(network)
    }

    fn place(&mut self) {
        // SAFETY: both vectors hold as many floats as the plan requires, and never grow.
        unsafe { ffi::linnet_small_place(&mut self.core, self.values.as_mut_ptr(), self.momentum.as_mut_ptr()) };
    }

    /// A network of these layers.
    pub fn from_layers(layers: &[FloatLayer]) -> Result<SmallNetwork, Error> {
        let inputs = layers.first().map_or(0, |layer| layer.inputs);
        let shape: Vec<_> = layers.iter().map(|layer| (layer.outputs, layer.activation)).collect();
        let mut network = SmallNetwork::new(inputs, &shape, 0)?;
        check_shapes(layers)?;
        for (k, layer) in layers.iter().enumerate() {
            if let Some(number) = layer.weights.iter().chain(&layer.biases).find(|number| !number.is_finite()) {
                return Err(Error::Shape(format!("layer {k} has a number that is {number}")));
            }
            // SAFETY: the vectors are of the layer's size.
            unsafe {
                ffi::linnet_small_set(&mut network.core, k as u32, layer.weights.as_ptr(), layer.biases.as_ptr());
            }
        }
        Ok(network)
    }

    /// Inputs of the first layer.
    pub fn inputs(&self) -> usize {
        self.core.inputs as usize
    }

    /// Outputs of the last layer.
    pub fn outputs(&self) -> usize {
        self.core.outputs as usize
    }

    /// Bytes of the network and its training state: the struct, values, momentum and scratch.
    pub fn bytes(&self) -> usize {
        size_of::<ffi::Small>() + size_of::<f32>() * (self.values.len() + self.momentum.len() + self.scratch.len())
    }

    /// The layers.
    pub fn layers(&self) -> Vec<FloatLayer> {
        (0..self.core.layer_count as usize)
            .map(|k| {
                let layer = &self.core.layers[k];
                let (inputs, outputs) = (layer.inputs as usize, layer.outputs as usize);
                let (mut weights, mut biases) = (vec![0.0; inputs * outputs], vec![0.0; outputs]);
                // SAFETY: the vectors are of the layer's size.
                unsafe { ffi::linnet_small_get(&self.core, k as u32, weights.as_mut_ptr(), biases.as_mut_ptr()) };
                FloatLayer { inputs, outputs, activation: self.activations[k], weights, biases }
            })
            .collect()
    }

    fn check(&self, row: usize, out: usize) -> Result<(), Error> {
        if row == self.inputs() && out == self.outputs() {
            return Ok(());
        }
        let (inputs, outputs) = (self.inputs(), self.outputs());
        Err(Error::Input(format!("{row} inputs and {out} outputs given to a network of {inputs} and {outputs}")))
    }

    /// Writes the outputs of the last layer, after its activation, to `out`.
    pub fn forward(&self, row: &[f32], out: &mut [f32]) -> Result<(), Error> {
        self.check(row.len(), out.len())?;
        let mut scratch = MaybeUninit::<[f32; SCRATCH]>::uninit();
        // SAFETY: lengths were checked; the scratch is that of the largest network.
        unsafe {
            ffi::linnet_small_forward(&self.core, row.as_ptr(), scratch.as_mut_ptr().cast(), out.as_mut_ptr());
        }
        Ok(())
    }

    /// The class of the largest output (the first among equals), and its confidence, 0..=1 in millionths. Fails if an
    /// output is not finite.
    pub fn classify(&self, row: &[f32]) -> Result<(usize, f64), Error> {
        self.check(row.len(), self.outputs())?;
        let mut scratch = MaybeUninit::<[f32; SCRATCH]>::uninit();
        let (mut class, mut confidence_ppm) = (0, 0);
        // SAFETY: as in `forward`.
        let code = unsafe {
            let scratch = scratch.as_mut_ptr().cast();
            ffi::linnet_small_classify(&self.core, row.as_ptr(), scratch, &mut class, &mut confidence_ppm)
        };
        if code < 0 {
            return Err(Error::Input("an input or output of the network is not finite".into()));
        }
        Ok((class as usize, f64::from(confidence_ppm) / 1e6))
    }

    /// Takes one step on a row whose outputs should be `targets`. Returns the loss before the step; if the gradient is
    /// not finite, returns an error and changes nothing.
    pub fn train(&mut self, options: &StepOptions, row: &[f32], targets: &[f32]) -> Result<f32, Error> {
        self.check(row.len(), targets.len())?;
        let c_options = ffi::SmallOptions {
            loss: options.loss.code(),
            learning_rate: options.learning_rate,
            momentum: options.momentum,
        };
        let mut loss = 0.0;
        // SAFETY: lengths were checked; the scratch has the size that the plan requires.
        let code = unsafe {
            if ffi::linnet_small_check(&self.core, &c_options) < 0 {
                return Err(Error::Training(format!("{options:?} does not fit {self:?}")));
            }
            let scratch = self.scratch.as_mut_ptr();
            let core = &mut self.core;
            ffi::linnet_small_train(core, &c_options, row.as_ptr(), targets.as_ptr(), scratch, &mut loss)
        };
        if code < 0 {
            return Err(Error::Training("an input, a target or the gradient is not finite".into()));
        }
        Ok(loss)
    }

    /// [`SmallNetwork::train`] on a row of this class: the target is 1 for it and 0 for the others.
    pub fn train_class(&mut self, options: &StepOptions, row: &[f32], class: usize) -> Result<f32, Error> {
        let mut targets = [0.0; SMALL_SIZE_MAX];
        match targets[..self.outputs()].get_mut(class) {
            Some(target) => *target = 1.0,
            None => return Err(Error::Training(format!("class {class} of a network of {} outputs", self.outputs()))),
        }
        self.train(options, row, &targets[..self.outputs()])
    }

    pub(crate) fn raw_mut(&mut self) -> &mut ffi::Small {
        &mut self.core
    }
}

impl Clone for SmallNetwork {
    fn clone(&self) -> SmallNetwork {
        let mut copy = SmallNetwork {
            core: self.core,
            activations: self.activations.clone(),
            values: self.values.clone(),
            momentum: self.momentum.clone(),
            scratch: self.scratch.clone(),
        };
        copy.place();
        copy.momentum.copy_from_slice(&self.momentum);
        copy
    }
}

impl PartialEq for SmallNetwork {
    /// Compares the layers; momentum is ignored.
    fn eq(&self, other: &SmallNetwork) -> bool {
        self.layers() == other.layers()
    }
}

impl fmt::Debug for SmallNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = &self.core.layers[..self.core.layer_count as usize];
        let layers: Vec<_> = shape.iter().map(|layer| layer.outputs).zip(&self.activations).collect();
        f.debug_struct("SmallNetwork").field("inputs", &self.inputs()).field("layers", &layers).finish()
    }
}
