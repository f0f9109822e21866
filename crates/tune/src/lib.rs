// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knobs that follow the workload: observe, decide, apply, over a small ladder of values.
//!
//! A tuner has three parts. The observer turns events into the features of one window, the model turns features into a
//! level of the ladder, and the setter applies the level's value. The arithmetic is in the core (`core/tune.h`).

pub mod advised;
mod apply;
pub mod bdi;
mod clock;
pub mod device;
mod devices;
pub mod doctor;
mod error;
pub mod event;
pub mod feature;
pub mod fit;
mod follow;
pub mod govern;
mod groups;
pub mod host;
pub mod journal;
mod lend;
mod memory;
pub mod model;
pub mod mounts;
pub mod names;
pub mod nfs;
pub mod observe;
pub mod openfile;
mod pool;
pub mod putback;
pub mod recover;
pub mod rule;
mod track;
pub mod trainer;
pub mod tuner;
mod unseen;
mod wanted;

pub use error::{Error, Result};
