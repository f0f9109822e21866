// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of a device (network, trees, predictions and thresholds), and its file (`spec/model-file.md`), which
//! `core/model.c` reads.

use linnet_types::Thresholds;

use crate::{DIGIT_MAX, DIGITS, Error, Layer, Network, Prediction, Predictions, Trees, envelope, ffi};

const SCHEMA_LINNOS31: u16 = 1;
/// Units of a percentile in the file: 0.0001.
const PERCENTILE_UNITS: f64 = 1e4;
/// Units of a share in the file: millionths.
const SHARE_UNITS: f64 = 1e6;

/// CRC-32C, the checksum of model files (`spec/model-file.md`).
pub fn crc32c(bytes: &[u8]) -> u32 {
    // SAFETY: reads `len` bytes.
    unsafe { ffi::linnet_crc32c(bytes.as_ptr(), bytes.len()) }
}

/// An admission model of one device: a network, trees, or both. The policy says which of them decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// On the 31 digits of `spec/features.md`: 31 inputs, 2 outputs.
    pub network: Option<Network>,
    /// On the features of `spec/features-linnet.md`.
    pub trees: Option<Trees>,
    /// What is predicted from the score of the trees; empty in a model without trees.
    pub predictions: Predictions,
    /// Thresholds of the device.
    pub thresholds: Thresholds,
    /// Percentile of read latency at which `thresholds.inflection_ns` lies, 0..=100; stored in units of 0.0001.
    pub inflection_percentile: f64,
    /// Share of all reads that the model submits although they are slow, 0..=1; stored in millionths.
    pub false_submit: f64,
    /// Reads that it was trained on.
    pub rows: u64,
    /// Seed of the training.
    pub seed: u64,
}

impl Model {
    /// The model as a file. Fails if it has neither network nor trees, or a field is out of the range of the format.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let percentile = units(self.inflection_percentile, PERCENTILE_UNITS, 100.0, "inflection_percentile")?;
        let false_submit = units(self.false_submit, SHARE_UNITS, 1.0, "false_submit")?;
        let network = self.network.as_ref();
        if network.is_none() && self.trees.is_none() {
            return Err(Error::Unwritable("it has neither network nor trees".into()));
        }
        if let Some(prediction) = self.predictions.each().next().filter(|_| self.trees.is_none()) {
            let name = prediction.name();
            return Err(Error::Unwritable(format!("its {name} follow from the score of trees, and it has no trees")));
        }
        if let Some(odd) = network.filter(|n| n.inputs() != DIGITS || n.outputs() != 2 || n.input_max() != DIGIT_MAX) {
            return Err(Error::Unwritable(format!(
                "{odd:?} with inputs up to {} does not take the 31 digits to two outputs",
                odd.input_max()
            )));
        }
        let layers = network.map(Network::layers).unwrap_or_default();
        let network_part = network.map_or(0, |_| ffi::PART_NETWORK);
        let trees_part = self.trees.map_or(0, |_| ffi::PART_TREES);
        let parts = network_part | trees_part | self.predictions.each().map(Prediction::part).sum::<u32>();

        let (schema, input_max) = network.map_or((0, 0), |_| (SCHEMA_LINNOS31, u16::from(DIGIT_MAX)));
        let mut file = envelope::begin(ffi::KIND_ADMISSION, schema, input_max);
        file.extend((layers.len() as u32).to_le_bytes());
        let p = &self.thresholds;
        for number in [p.inflection_ns, p.latency_ns_p95, p.latency_ns_p99, p.hedge_ns] {
            file.extend(number.to_le_bytes());
        }
        for number in [p.queue_inflection, p.queue_median, p.queue_lower_quartile, percentile, false_submit, parts] {
            file.extend(number.to_le_bytes());
        }
        file.extend(self.rows.to_le_bytes());
        file.extend(self.seed.to_le_bytes());
        write_layers(&mut file, &layers, network.map_or(&[][..], Network::scales));
        if let Some(trees) = &self.trees {
            trees.write(&mut file);
        }
        self.predictions.each().for_each(|prediction| prediction.write(&mut file));
        envelope::seal(file)
    }

    /// Reads a model file of this version or an earlier one. Errors give the kind and place of a fault.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model, Error> {
        // SAFETY: C reads at most `len` bytes; zeros are a valid `ffi::Model`, whose pointers are used only for the
        // layers that a successful read has set, while `bytes` lives.
        let (read, layers) = unsafe {
            let mut read: ffi::Model = std::mem::zeroed();
            let mut offset = 0;
            let code = ffi::linnet_model_read(bytes.as_ptr(), bytes.len(), &mut read, &mut offset);
            if code < 0 {
                return Err(Error::of_model(code, offset));
            }
            let layers: Vec<Layer> = read.layers[..read.layer_count as usize].iter().map(|s| layer(s)).collect();
            (read, layers)
        };
        let scales = read.scales[..layers.len()].to_vec();
        let network = (read.parts & ffi::PART_NETWORK != 0)
            .then(|| Network::with_input_max(layers, scales, read.input_max as u8))
            .transpose()?;
        Ok(Model {
            network,
            trees: (read.parts & ffi::PART_TREES != 0).then_some(read.trees),
            predictions: Predictions::of(&read),
            thresholds: Thresholds {
                inflection_ns: read.inflection_ns,
                latency_ns_p95: read.latency_ns_p95,
                latency_ns_p99: read.latency_ns_p99,
                hedge_ns: read.hedge_ns,
                queue_inflection: read.queue_inflection,
                queue_median: read.queue_median,
                queue_lower_quartile: read.queue_lower_quartile,
            },
            inflection_percentile: f64::from(read.inflection_percentile) / PERCENTILE_UNITS,
            false_submit: f64::from(read.false_submit) / SHARE_UNITS,
            rows: read.rows,
            seed: read.seed,
        })
    }
}

fn write_layers(file: &mut Vec<u8>, layers: &[Layer], scales: &[i64]) {
    for (layer, scale) in layers.iter().zip(scales) {
        for number in [layer.inputs as u32, layer.outputs as u32, weight_bytes(layer) as u32, 0] {
            file.extend(number.to_le_bytes());
        }
        file.extend(scale.to_le_bytes());
    }
    for layer in layers {
        let width = weight_bytes(layer);
        for weight in &layer.weights {
            file.extend(&weight.to_le_bytes()[..width]);
        }
        for bias in &layer.biases {
            file.extend(bias.to_le_bytes());
        }
    }
}

/// Narrowest of 2, 4 and 8 bytes that holds every weight.
fn weight_bytes(layer: &Layer) -> usize {
    let fits = |low: i64, high: i64| layer.weights.iter().all(|w| (low..=high).contains(w));
    if fits(i16::MIN.into(), i16::MAX.into()) {
        2
    } else if fits(i32::MIN.into(), i32::MAX.into()) {
        4
    } else {
        8
    }
}

fn units(value: f64, per_one: f64, max: f64, name: &str) -> Result<u32, Error> {
    if !(0.0..=max).contains(&value) {
        return Err(Error::Unwritable(format!("{name} is {value}, outside 0 to {max}")));
    }
    Ok((value * per_one).round() as u32)
}

/// SAFETY: `source` points to as many numbers as its shape says.
unsafe fn layer(source: &ffi::Source) -> Layer {
    let (inputs, outputs) = (source.inputs as usize, source.outputs as usize);
    let width = source.weight_bytes as usize;
    // SAFETY: as the caller promises.
    let (weights, biases) = unsafe {
        (
            std::slice::from_raw_parts(source.weights, inputs * outputs * width),
            std::slice::from_raw_parts(source.biases, outputs * 8),
        )
    };
    Layer {
        inputs,
        outputs,
        weights: weights.chunks_exact(width).map(signed).collect(),
        biases: biases.chunks_exact(8).map(signed).collect(),
    }
}

fn signed(bytes: &[u8]) -> i64 {
    let mut wide = [if bytes[bytes.len() - 1] & 0x80 == 0 { 0 } else { 0xff }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(wide)
}
