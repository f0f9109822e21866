// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C view of the core: structures, functions, memory and instruction sets. Not an API: benches use it to run other
//! builds of the core on the same data.

pub use crate::inflight::{InflightIo, Raw};
pub use crate::memory::{Memory, with_scratch};
use crate::{Error, Layer, Network};

/// Declarations of `core/linnet.h`.
pub mod ffi {
    pub use crate::ffi::*;
}

/// Instruction sets and their loops.
pub mod simd {
    pub use crate::simd::*;
}

/// [`Network::with_input_max`] with the loops of this instruction set.
pub fn network_with_set(layers: Vec<Layer>, scales: Vec<i64>, input_max: u8, set: simd::Set) -> Result<Network, Error> {
    Network::with_set(layers, scales, input_max, set)
}

/// The core's structure of a network. It points into memory that the network owns.
pub fn network_core(network: &Network) -> &ffi::Network {
    network.core()
}
