// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of this crate are one program: linking one for each file costs more than running them.

mod common;
mod forest;
mod forest_cells;
mod heimdall;
mod incremental;
mod incremental_threads;
mod inflight;
mod knob;
mod latencies;
mod model;
mod network;
mod replica;
mod tracker;
mod train;
mod vectors;
