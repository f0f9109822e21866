// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic workloads with the statistics of LinnOS, Table 1.
pub fn synth() {}
