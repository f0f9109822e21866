// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network on integers: proven at load, exact, shareable between threads (`core/network.c`, `core/infer.c`).

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::incremental::Tables;
use crate::memory::{Memory, with_scratch};
use crate::{Error, ffi, simd};

/// Maximum number of dense layers in a network.
pub const LAYERS_MAX: usize = ffi::LAYERS_MAX;
/// Maximum number of inputs or outputs of a layer.
pub const SIZE_MAX: usize = ffi::SIZE_MAX;
/// Largest input of the LinnOS features: a decimal digit.
pub const DIGIT_MAX: u8 = 9;

/// The integers of one dense layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// 1..=[`SIZE_MAX`], equal to the outputs of the layer before.
    pub inputs: usize,
    /// 1..=[`SIZE_MAX`].
    pub outputs: usize,
    /// `outputs * inputs` weights; the weight of input `i` for output `o` is at `o * inputs + i`.
    pub weights: Vec<i64>,
    /// One per output.
    pub biases: Vec<i64>,
}

/// How the widest layer of a network is stored and summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// 16-bit weights, 32-bit sums.
    I16,
    /// 64-bit weights and sums.
    I64,
    /// 64-bit weights, 128-bit sums.
    I128,
}

struct Inner {
    core: ffi::Network,
    /// The memory to which `core.layers` point.
    _memory: Memory,
    layers: Vec<Layer>,
    scales: Vec<i64>,
    set: simd::Set,
    /// Created for the first incremental network.
    tables: OnceLock<Result<Tables, Error>>,
}

// SAFETY: nothing changes after construction; the raw pointers lead into memory that `Inner` owns and into statics.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

/// Dense layers on integers with ReLU between them, none after the last, and no rescaling: exact for every input
/// in bounds. Cheap to clone.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

impl Network {
    /// A network on decimal digits. `scales` holds the bias scale of each layer: [1000, 1000000] for LinnOS quantised
    /// to three decimals. Scales are informative and stored in files; decisions do not depend on them.
    pub fn from_integers(layers: Vec<Layer>, scales: Vec<i64>) -> Result<Network, Error> {
        Network::with_input_max(layers, scales, DIGIT_MAX)
    }

    /// Like [`Network::from_integers`], for inputs 0..=`input_max` (1..=255). A smaller bound may prove narrower sums.
    pub fn with_input_max(layers: Vec<Layer>, scales: Vec<i64>, input_max: u8) -> Result<Network, Error> {
        Network::with_set(layers, scales, input_max, simd::best())
    }

    /// [`Network::with_input_max`] with the loops of this instruction set.
    pub(crate) fn with_set(
        layers: Vec<Layer>,
        scales: Vec<i64>,
        input_max: u8,
        set: simd::Set,
    ) -> Result<Network, Error> {
        check(&layers, &scales, input_max)?;
        let bytes: Vec<(Vec<u8>, Vec<u8>)> =
            layers.iter().map(|layer| (little_endian(&layer.weights), little_endian(&layer.biases))).collect();
        let sources: Vec<ffi::Source> = layers
            .iter()
            .zip(&bytes)
            .map(|(layer, (weights, biases))| ffi::Source {
                inputs: layer.inputs as u32,
                outputs: layer.outputs as u32,
                weight_bytes: 8,
                weights: weights.as_ptr(),
                biases: biases.as_ptr(),
            })
            .collect();
        let count = sources.len() as u32;
        // SAFETY: `check` ensures that each source has as many numbers as its shape says; work and memory have the size
        // and alignment that C requires; all zeros is a valid `ffi::Network`.
        let (core, memory) = unsafe {
            let mut core: ffi::Network = std::mem::zeroed();
            let mut work = Memory::new(ffi::linnet_network_work_size(sources.as_ptr(), count));
            let code = ffi::linnet_network_plan(
                &mut core,
                sources.as_ptr(),
                count,
                u32::from(input_max),
                work.as_mut_ptr(),
                work.size(),
            );
            if code < 0 {
                return Err(Error::of_plan(code, input_max));
            }
            let mut memory = Memory::new(core.memory_size);
            let code = ffi::linnet_network_place(&mut core, sources.as_ptr(), memory.as_mut_ptr(), memory.size());
            if code < 0 {
                return Err(Error::of_plan(code, input_max));
            }
            core.dense = simd::dense(set);
            (core, memory)
        };
        Ok(Network(Arc::new(Inner { core, _memory: memory, layers, scales, set, tables: OnceLock::new() })))
    }

    /// Inputs of the first layer.
    pub fn inputs(&self) -> usize {
        self.0.core.inputs as usize
    }

    /// Outputs of the last layer.
    pub fn outputs(&self) -> usize {
        self.0.core.outputs as usize
    }

    /// Largest input that the network was proven for.
    pub fn input_max(&self) -> u8 {
        self.0.core.input_max as u8
    }

    /// The layers that were given.
    pub fn layers(&self) -> Vec<Layer> {
        self.0.layers.clone()
    }

    /// The bias scale of each layer.
    pub fn scales(&self) -> &[i64] {
        &self.0.scales
    }

    /// How the widest layer is stored and summed.
    pub fn width(&self) -> Width {
        match self.0.core.width {
            0 => Width::I16,
            1 => Width::I64,
            _ => Width::I128,
        }
    }

    /// The exact sums of the last layer into `out`, which holds [`Network::outputs`] numbers.
    pub fn logits(&self, digits: &[u8], out: &mut [i128]) -> Result<(), Error> {
        if out.len() != self.outputs() {
            return Err(Error::Input(format!("{} logits asked of {} outputs", out.len(), self.outputs())));
        }
        self.check_input(digits)?;
        let core = &self.0.core;
        // SAFETY: lengths of input and output were checked; the scratch has the size that C requires.
        let code = with_scratch(core.scratch_size, |scratch| unsafe {
            ffi::linnet_network_logits(core, digits.as_ptr(), scratch, out.as_mut_ptr())
        });
        self.answer(code, digits)
    }

    /// Logit 1 minus logit 0, clipped to 64 bits: above 0 the read is predicted slow. Needs two outputs.
    pub fn try_score(&self, digits: &[u8]) -> Result<i64, Error> {
        self.check_input(digits)?;
        let core = &self.0.core;
        let mut score = 0;
        // SAFETY: as in `logits`.
        let code = with_scratch(core.scratch_size, |scratch| unsafe {
            ffi::linnet_network_score(core, digits.as_ptr(), scratch, &mut score)
        });
        self.answer(code, digits)?;
        Ok(score)
    }

    /// Like [`Network::try_score`]; on an error the score is `i64::MIN` (fast): fail open.
    pub fn score(&self, digits: &[u8]) -> i64 {
        self.try_score(digits).unwrap_or(i64::MIN)
    }

    /// True to revoke: logit 1 above logit 0. A tie submits, and so does an invalid input.
    pub fn decide(&self, digits: &[u8]) -> bool {
        self.score(digits) > 0
    }

    /// Bytes of its weights and biases in memory.
    pub fn size_bytes(&self) -> usize {
        self.0.core.memory_size
    }

    pub(crate) fn core(&self) -> &ffi::Network {
        &self.0.core
    }

    /// Shared by all incremental networks of this network.
    pub(crate) fn tables(&self) -> Result<&Tables, Error> {
        let inner = &*self.0;
        inner.tables.get_or_init(|| Tables::new(self, &inner.core, inner.set)).as_ref().map_err(Error::clone)
    }

    fn check_input(&self, digits: &[u8]) -> Result<(), Error> {
        if digits.len() != self.inputs() {
            return Err(Error::Input(format!("{} inputs given to a network of {}", digits.len(), self.inputs())));
        }
        Ok(())
    }

    fn answer(&self, code: i32, digits: &[u8]) -> Result<(), Error> {
        match code {
            0 => Ok(()),
            ffi::E_INPUT => {
                let at = digits.iter().position(|&d| d > self.input_max()).unwrap_or(0);
                let max = self.input_max();
                Err(Error::Input(format!("input {at} is {}, above the bound {max}", digits[at])))
            }
            ffi::E_SHAPE => {
                Err(Error::Input(format!("a score needs two outputs, this network has {}", self.outputs())))
            }
            code => Err(Error::Input(format!("the core answers {code}"))),
        }
    }
}

impl PartialEq for Network {
    fn eq(&self, other: &Network) -> bool {
        let (a, b) = (&self.0, &other.0);
        a.layers == b.layers && a.scales == b.scales && a.core.input_max == b.core.input_max
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shape = vec![self.inputs()];
        shape.extend(self.0.layers.iter().map(|layer| layer.outputs));
        f.debug_struct("Network").field("shape", &shape).field("width", &self.width()).finish_non_exhaustive()
    }
}

fn little_endian(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn check(layers: &[Layer], scales: &[i64], input_max: u8) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::Shape(text));
    if layers.is_empty() || layers.len() > LAYERS_MAX {
        return refuse(format!("{} layers, where 1 to {LAYERS_MAX} are allowed", layers.len()));
    }
    if scales.len() != layers.len() {
        return refuse(format!("{} scales for {} layers; give the bias scale of each", scales.len(), layers.len()));
    }
    if let Some(k) = scales.iter().position(|&scale| scale < 1) {
        return refuse(format!("scale {} of layer {k} is below 1", scales[k]));
    }
    if input_max == 0 {
        return refuse("the largest input is 0".into());
    }
    for (k, layer) in layers.iter().enumerate() {
        let Layer { inputs, outputs, weights, biases } = layer;
        if !(1..=SIZE_MAX).contains(inputs) || !(1..=SIZE_MAX).contains(outputs) {
            return refuse(format!("layer {k} is {inputs} to {outputs}, where 1 to {SIZE_MAX} are allowed"));
        }
        if weights.len() != inputs * outputs || biases.len() != *outputs {
            return refuse(format!(
                "layer {k} is {inputs} to {outputs} but has {} weights and {} biases",
                weights.len(),
                biases.len()
            ));
        }
        if k > 0 && layers[k - 1].outputs != *inputs {
            return refuse(format!("layer {k} takes {inputs} inputs from {} outputs", layers[k - 1].outputs));
        }
    }
    Ok(())
}
