// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network of floats that training produces, and its conversion to integers (`core/float.c`, `core/quantise.c`).

use std::fmt;
use std::sync::Arc;

use crate::memory::{Memory, with_scratch};
use crate::network::{LAYERS_MAX, Layer, Network, SIZE_MAX};
use crate::{Error, ffi, simd};

/// Activation of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    Linear,
    /// Negative sums become 0.
    Relu,
    /// 1 / (1 + exp(-sum)).
    Sigmoid,
    /// exp(sum) divided by that of all outputs; after the last layer of a [`crate::SmallNetwork`] only.
    Softmax,
}

impl Activation {
    pub(crate) fn code(self) -> u32 {
        match self {
            Activation::Linear => 0,
            Activation::Relu => 1,
            Activation::Sigmoid => 2,
            Activation::Softmax => 3,
        }
    }

    /// The activation of a number that the core has checked.
    pub(crate) fn of(code: u32) -> Activation {
        [Activation::Linear, Activation::Relu, Activation::Sigmoid, Activation::Softmax][code as usize]
    }
}

/// One dense layer of floats.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatLayer {
    /// 1..=[`SIZE_MAX`], equal to the outputs of the layer before.
    pub inputs: usize,
    /// 1..=[`SIZE_MAX`].
    pub outputs: usize,
    /// Activation of the sums.
    pub activation: Activation,
    /// `outputs * inputs` weights; the weight of input `i` for output `o` is at `o * inputs + i`.
    pub weights: Vec<f32>,
    /// One per output.
    pub biases: Vec<f32>,
}

/// Checks that each layer takes the outputs of the one before, and has as many weights and biases as its shape says.
pub(crate) fn check_shapes(layers: &[FloatLayer]) -> Result<(), Error> {
    let mut before = layers.first().map_or(0, |layer| layer.inputs);
    for (k, layer) in layers.iter().enumerate() {
        let (weights, biases) = (layer.weights.len(), layer.biases.len());
        if layer.inputs != before || weights != layer.inputs * layer.outputs || biases != layer.outputs {
            let shape = format!("{} to {} with {weights} weights and {biases} biases", layer.inputs, layer.outputs);
            return Err(Error::Shape(format!("layer {k} is {shape}, on {before} numbers")));
        }
        before = layer.outputs;
    }
    Ok(())
}

/// A network being trained: `core.values` points into `memory`.
pub(crate) struct Raw {
    pub core: ffi::FloatNetwork,
    pub activations: Vec<Activation>,
    _memory: Memory,
}

// SAFETY: the pointers lead into memory that `Raw` owns and into statics; C writes only through a trainer, which
// borrows the `Raw` mutably.
unsafe impl Send for Raw {}
// SAFETY: as for Send.
unsafe impl Sync for Raw {}

impl Raw {
    /// Glorot-uniform weights of this seed, zero biases. `layers` gives the outputs of each layer.
    pub fn new(inputs: usize, layers: &[(usize, Activation)], seed: u64, set: simd::Set) -> Result<Raw, Error> {
        let refuse = |text: String| Err(Error::Shape(text));
        if layers.is_empty() || layers.len() > LAYERS_MAX {
            return refuse(format!("{} layers, where 1 to {LAYERS_MAX} are allowed", layers.len()));
        }
        if let Some(size) =
            layers.iter().map(|layer| layer.0).chain([inputs]).find(|size| !(1..=SIZE_MAX).contains(size))
        {
            return refuse(format!("a layer of {size}, where 1 to {SIZE_MAX} are allowed"));
        }
        if layers.iter().any(|layer| layer.1 == Activation::Softmax) {
            return refuse("a softmax layer, which only a small network has; train linear outputs instead".into());
        }
        let shapes: Vec<ffi::FloatShape> = layers
            .iter()
            .map(|(outputs, activation)| ffi::FloatShape { outputs: *outputs as u32, activation: activation.code() })
            .collect();
        // SAFETY: zeros are a valid `ffi::FloatNetwork`; the memory has the size that C asks for.
        unsafe {
            let mut core: ffi::FloatNetwork = std::mem::zeroed();
            let code = ffi::linnet_float_plan(&mut core, inputs as u32, shapes.as_ptr(), shapes.len() as u32);
            if code < 0 {
                return refuse(format!("the core answers {code}"));
            }
            let mut memory = Memory::new(core.value_count * size_of::<f32>());
            let code = ffi::linnet_float_place(&mut core, memory.as_mut_ptr().cast(), core.value_count, seed);
            if code < 0 {
                return refuse(format!("the core answers {code}"));
            }
            core.loops = simd::loops(set);
            Ok(Raw { core, activations: layers.iter().map(|layer| layer.1).collect(), _memory: memory })
        }
    }

    pub fn set(&mut self, layers: &[FloatLayer]) {
        for (k, layer) in layers.iter().enumerate() {
            // SAFETY: the caller gives layers of this network's shape.
            unsafe {
                ffi::linnet_float_set(&self.core, k as u32, layer.weights.as_ptr(), layer.biases.as_ptr());
            }
        }
    }
}

/// A trained network of floats. Cheap to clone; threads can share it.
#[derive(Clone)]
pub struct FloatNetwork(Arc<Raw>);

impl FloatNetwork {
    pub(crate) fn of(raw: Raw) -> FloatNetwork {
        FloatNetwork(Arc::new(raw))
    }

    /// A network of these layers.
    pub fn from_layers(layers: &[FloatLayer]) -> Result<FloatNetwork, Error> {
        let inputs = layers.first().map_or(0, |layer| layer.inputs);
        check_shapes(layers)?;
        let shape: Vec<_> = layers.iter().map(|layer| (layer.outputs, layer.activation)).collect();
        let mut raw = Raw::new(inputs, &shape, 0, simd::best())?;
        raw.set(layers);
        Ok(FloatNetwork::of(raw))
    }

    /// Inputs of the first layer.
    pub fn inputs(&self) -> usize {
        self.0.core.inputs as usize
    }

    /// Outputs of the last layer.
    pub fn outputs(&self) -> usize {
        self.0.core.outputs as usize
    }

    /// The layers.
    pub fn layers(&self) -> Vec<FloatLayer> {
        let raw = &self.0;
        let shape = &raw.core.layers[..raw.core.layer_count as usize];
        shape
            .iter()
            .zip(&raw.activations)
            .enumerate()
            .map(|(k, (layer, activation))| {
                let (inputs, outputs) = (layer.inputs as usize, layer.outputs as usize);
                let (mut weights, mut biases) = (vec![0.0; inputs * outputs], vec![0.0; outputs]);
                // SAFETY: the vectors are of the layer's size.
                unsafe { ffi::linnet_float_get(&raw.core, k as u32, weights.as_mut_ptr(), biases.as_mut_ptr()) };
                FloatLayer { inputs, outputs, activation: *activation, weights, biases }
            })
            .collect()
    }

    /// The last layer's sums, before a sigmoid, into `out`, which holds [`FloatNetwork::outputs`] numbers.
    pub fn logits(&self, row: &[f32], out: &mut [f32]) -> Result<(), Error> {
        if row.len() != self.inputs() || out.len() != self.outputs() {
            return Err(Error::Input(format!(
                "{} inputs and {} outputs given to a network of {} and {}",
                row.len(),
                out.len(),
                self.inputs(),
                self.outputs()
            )));
        }
        let core = &self.0.core;
        // SAFETY: lengths were checked; the scratch has the size that C requires.
        with_scratch(core.scratch_size, |scratch| unsafe {
            ffi::linnet_float_logits(core, row.as_ptr(), scratch, out.as_mut_ptr());
        });
        Ok(())
    }

    /// Logit 1 minus logit 0, or the logit of a single output: above 0 the read is predicted slow. Minus infinity
    /// (fast) if the network does not fit the digits: fail open.
    pub fn score(&self, digits: &[u8]) -> f32 {
        let row: Vec<f32> = digits.iter().map(|&d| f32::from(d)).collect();
        let mut out = vec![0.0; self.outputs()];
        match (self.logits(&row, &mut out), out.as_slice()) {
            (Ok(()), [slow]) => *slow,
            (Ok(()), [fast, slow]) => slow - fast,
            _ => f32::NEG_INFINITY,
        }
    }

    /// True to revoke. A tie submits.
    pub fn decide(&self, digits: &[u8]) -> bool {
        self.score(digits) > 0.0
    }

    /// The network as integers with this many decimals (LinnOS keeps 3): weights times 10^decimals, the biases of layer
    /// k times that to the power k + 1. A single sigmoid output, which revokes above one half, becomes the second of
    /// two outputs whose first is always 0. Other sigmoids cannot be converted.
    pub fn quantise(&self, decimals: u32) -> Result<Network, Error> {
        let refuse = |text: &str| Err(Error::Quantise(text.into()));
        if decimals > 6 {
            return refuse("more than six decimals");
        }
        let layers = self.layers();
        let (last, hidden) = layers.split_last().expect("a network has a layer");
        if hidden.iter().any(|layer| layer.activation != Activation::Relu) {
            return refuse("a hidden layer is not ReLU");
        }
        if last.activation == Activation::Relu || (last.activation == Activation::Sigmoid && last.outputs != 1) {
            return refuse("the last layer is neither linear nor one sigmoid");
        }
        let scale = 10f64.powi(decimals as i32);
        let (mut integers, mut scales) = (Vec::new(), Vec::new());
        for (k, layer) in layers.iter().enumerate() {
            let bias_scale = scale.powi(k as i32 + 1);
            if bias_scale > 9e18 {
                return refuse("too many layers for the scale of the last bias; use fewer decimals");
            }
            scales.push(bias_scale as i64);
            integers.push(Layer {
                inputs: layer.inputs,
                outputs: layer.outputs,
                weights: rounded(&layer.weights, scale)?,
                biases: rounded(&layer.biases, bias_scale)?,
            });
        }
        if let Some(last) = integers.last_mut()
            && last.outputs == 1
        {
            last.outputs = 2;
            last.weights.splice(0..0, vec![0; last.inputs]);
            last.biases.insert(0, 0);
        }
        Network::from_integers(integers, scales)
    }
}

fn rounded(values: &[f32], scale: f64) -> Result<Vec<i64>, Error> {
    let mut integers = vec![0; values.len()];
    // SAFETY: both are of this length.
    let code = unsafe { ffi::linnet_quantise(values.as_ptr(), values.len(), scale, integers.as_mut_ptr()) };
    if code < 0 {
        return Err(Error::Quantise("a weight or bias is not finite or leaves 63 bits".into()));
    }
    Ok(integers)
}

impl PartialEq for FloatNetwork {
    fn eq(&self, other: &FloatNetwork) -> bool {
        self.layers() == other.layers()
    }
}

impl fmt::Debug for FloatNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shape = vec![self.inputs()];
        shape.extend(self.layers().iter().map(|layer| layer.outputs));
        f.debug_struct("FloatNetwork").field("shape", &shape).finish_non_exhaustive()
    }
}
