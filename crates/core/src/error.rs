// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of this crate.

use crate::ffi;

/// Why a network, a model file or a training run was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Layers that do not fit each other or the limits of the core.
    #[error("network refused: {0}")]
    Shape(String),
    /// Sums that could leave 127 bits, so exact results cannot be promised.
    #[error(
        "network refused: its sums could reach 2^126 for inputs up to {input_max}; use smaller weights or fewer layers"
    )]
    Range {
        /// The requested bound of inputs.
        input_max: u8,
    },
    /// A file that is not a model file, or is damaged.
    #[error("model file, byte {offset}: {fault}")]
    Model {
        /// What is wrong.
        fault: ModelFault,
        /// Offset from the start of the file.
        offset: usize,
    },
    /// A model that the file format cannot represent.
    #[error("model cannot be written: {0}")]
    Unwritable(String),
    /// Training options or rows that do not fit each other.
    #[error("training refused: {0}")]
    Training(String),
    /// The loss, a weight or a moment of a gradient is no longer finite.
    #[error("training diverged in epoch {epoch}; use a smaller learning rate, bias, inputs or targets")]
    Diverged {
        /// Counted from 0.
        epoch: usize,
    },
    /// A float network that has no counterpart in integers.
    #[error("cannot quantise: {0}")]
    Quantise(String),
    /// A setting of the decision that is out of its range.
    #[error("setting `{field}` is {value}: {expected}")]
    Setting {
        /// Its name in [`crate::Settings`].
        field: &'static str,
        /// The value found.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// An input beyond the bound that the network was proven for, or too few or too many inputs.
    #[error("{0}")]
    Input(String),
}

impl Error {
    /// The first number that is not finite, of rows that follow each other and come after `before` others.
    pub(crate) fn not_finite(rows: &[f32], inputs: usize, before: usize) -> Error {
        let at = rows.iter().position(|number| !number.is_finite()).unwrap_or(0);
        let (row, feature) = (before + at / inputs, at % inputs);
        Error::Input(format!("feature {feature} of row {row} is {}: not finite", rows[at]))
    }
}

/// The errors of `spec/model-file.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelFault {
    /// Ends early.
    #[error("the file ends early; copy it again")]
    Truncated,
    /// Does not begin like a model file.
    #[error("not a model file")]
    Magic,
    /// A version that this program does not support.
    #[error("unknown version; read it with a newer release")]
    Version,
    /// The size field is not the length of the file, or is shorter than any model.
    #[error("the size in the file is not its length; copy it again")]
    Length,
    /// Damaged.
    #[error("checksum mismatch, the file is damaged; copy it again")]
    Checksum,
    /// Not a model for admission.
    #[error("unknown kind of model")]
    Kind,
    /// Features that this program does not compute.
    #[error("unknown feature schema; read it with a newer release")]
    Schema,
    /// A number out of its range.
    #[error("number out of range; the program that wrote the file is at fault")]
    Field,
    /// Layers that do not fit the features, each other or the file.
    #[error("layer shape out of bounds; the program that wrote the file is at fault")]
    Shape,
}

impl ModelFault {
    /// The name that `spec/model-file.md` gives it.
    pub fn name(self) -> &'static str {
        match self {
            ModelFault::Truncated => "truncated",
            ModelFault::Magic => "magic",
            ModelFault::Version => "version",
            ModelFault::Length => "length",
            ModelFault::Checksum => "checksum",
            ModelFault::Kind => "kind",
            ModelFault::Schema => "schema",
            ModelFault::Field => "field",
            ModelFault::Shape => "shape",
        }
    }
}

impl Error {
    /// The error behind a negative code of `linnet_model_read`.
    pub(crate) fn of_model(code: i32, offset: usize) -> Error {
        let fault = match code {
            ffi::E_TRUNCATED => ModelFault::Truncated,
            ffi::E_MAGIC => ModelFault::Magic,
            ffi::E_VERSION => ModelFault::Version,
            ffi::E_LENGTH => ModelFault::Length,
            ffi::E_CHECKSUM => ModelFault::Checksum,
            ffi::E_KIND => ModelFault::Kind,
            ffi::E_SCHEMA => ModelFault::Schema,
            ffi::E_FIELD => ModelFault::Field,
            _ => ModelFault::Shape,
        };
        Error::Model { fault, offset }
    }

    /// The error behind a negative code of `linnet_network_plan`, for layers whose shape was checked before.
    pub(crate) fn of_plan(code: i32, input_max: u8) -> Error {
        match code {
            ffi::E_RANGE => Error::Range { input_max },
            code => Error::Shape(format!("the core answers {code}")),
        }
    }
}
