// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits a network to a training set and quantises it.
//!
//! All rows are used, for a fixed number of epochs, and the last epoch is kept, as in LinnOS. The options and the rows
//! determine the result to the bit.

use linnet_core::{FloatNetwork, Network, TrainOptions, train};

use crate::bias_correction::correct_bias;
use crate::error::{Error, require};
use crate::evaluate::{QuantisationLoss, quantisation_loss};
use crate::set::TrainingSet;

/// Most passes over the rows; their losses are kept.
const EPOCHS_MAX: usize = 1_000_000;

/// Options of a fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// Shape, loss, optimiser, epochs and seed. LinnOS: 256 hidden neurons, categorical hinge, false submits weighted
    /// five times (1 is unbiased).
    pub train: TrainOptions,
    /// Decimals of the quantised weights, 0..=6. LinnOS: 3.
    pub decimals: u32,
    /// Correct the mean rounding error of the weights on the training rows by the biases. This costs nothing when
    /// serving and preserves the decisions on reads near the boundary. LinnOS does not do it.
    pub correct_bias: bool,
    /// Train on at most this many rows, evenly spread over the set ([`TrainingSet::thin`]); all if `None`. Histories
    /// are those of the full trace, so thinning changes no row.
    pub max_rows: Option<usize>,
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions { train: TrainOptions::default(), decimals: 3, correct_bias: true, max_rows: None }
    }
}

/// A fitted network before and after quantisation.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Before quantisation.
    pub float: FloatNetwork,
    /// After quantisation, as it serves.
    pub network: Network,
    /// Effect of quantisation on the training rows.
    pub quantisation: QuantisationLoss,
    /// Rows trained on.
    pub rows: u64,
    /// Mean training loss of each epoch.
    pub loss: Vec<f32>,
}

/// Fits a network. `progress` is called after each epoch (from 1) with its mean loss. Returning false stops the fit.
///
/// A set that is all fast or all slow is not an error: the network then learns that class.
///
/// # Errors
/// [`Error::TooFewRows`] for an empty set; [`Error::Setting`]; [`Error::Core`] if the core rejects the options or a
/// weight that is out of bounds; [`Error::Interrupted`] if `progress` stopped the fit.
pub fn fit_network(
    set: &TrainingSet,
    options: &FitOptions,
    progress: &mut dyn FnMut(usize, f32) -> bool,
) -> Result<Fitted, Error> {
    require((1..=EPOCHS_MAX).contains(&options.train.epochs), "epochs", options.train.epochs, "1 to 1,000,000")?;
    require(options.decimals <= 6, "decimals", options.decimals, "0 to 6")?;
    if let Some(max_rows) = options.max_rows {
        require(max_rows >= 1, "max_rows", max_rows, "at least 1")?;
    }
    if set.is_empty() {
        return Err(Error::TooFewRows { purpose: "training", rows: 0, least: 1 });
    }
    let thinned = options.max_rows.filter(|&max_rows| max_rows < set.len()).map(|max_rows| set.thin(max_rows));
    let rows = thinned.as_ref().unwrap_or(set);

    let mut loss = Vec::new();
    let mut stopped = false;
    let float = train(&options.train, &rows.digits, &rows.slow, &mut |_, epoch_loss| {
        loss.push(epoch_loss);
        stopped = !progress(loss.len(), epoch_loss);
        !stopped
    });
    if stopped {
        return Err(Error::Interrupted);
    }
    let float = float?;
    let rounded = float.quantise(options.decimals)?;
    let network = if options.correct_bias { correct_bias(&float, &rounded, rows)? } else { rounded };
    let quantisation = quantisation_loss(&float, &network, rows)?;
    Ok(Fitted { float, network, quantisation, rows: rows.len() as u64, loss })
}
