// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong.

use crate::ffi;

/// Why a network, a model file or a training run was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Layers that do not fit each other or the bounds of the core.
    #[error("network refused: {0}")]
    Shape(String),
    /// Sums that could leave 127 bits, so exact results cannot be promised.
    #[error(
        "network refused: its sums could reach 2^126 for inputs up to {input_max}; use smaller weights or fewer layers"
    )]
    Range {
        /// Largest input that was to be allowed.
        input_max: u8,
    },
    /// An input beyond the bound that the network was proven for, or too few or too many inputs.
    #[error("{0}")]
    Input(String),
}

impl Error {
    /// The error behind a negative code of `linnet_network_plan`, for layers whose shape was checked before.
    pub(crate) fn of_plan(code: i32, input_max: u8) -> Error {
        match code {
            ffi::E_RANGE => Error::Range { input_max },
            code => Error::Shape(format!("the core answers {code}")),
        }
    }
}
