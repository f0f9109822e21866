// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input of an array run, converted from Python's objects.

use std::sync::Arc;

use linnet_array::{Config, DeviceModel, Policy, WriteMode};
use linnet_core::{Hedging, Trees};
use linnet_types::{IoRecord, Thresholds};
use pyo3::prelude::*;

use crate::errors;
use crate::model::PyModel;
use crate::trace::PyTrace;

/// Streams, models of the devices, and settings.
pub struct Setup {
    records: Vec<Arc<Vec<IoRecord>>>,
    learned: Vec<DeviceModel>,
    pub config: Config,
}

impl Setup {
    /// One stream for each of the configuration's replicas, and one model or `None` for each, or no models.
    pub fn new(
        streams: &[PyRef<'_, PyTrace>],
        models: &[Option<PyRef<'_, PyModel>>],
        config: Config,
    ) -> PyResult<Setup> {
        let count = config.replicas;
        if streams.len() != count || !(models.is_empty() || models.len() == count) {
            return Err(errors::PolicyError::new_err(format!(
                "{} streams and {} models for {count} devices; give one of each for each device",
                streams.len(),
                models.len()
            )));
        }
        let learned = learned(models, count);
        Ok(Setup { records: streams.iter().map(|trace| trace.records.clone()).collect(), learned, config })
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> PyResult<Box<dyn Policy>> {
        linnet_array::policy(name, &self.learned, &self.config).map_err(errors::policy)
    }

    /// The records of each stream.
    pub fn streams(&self) -> Vec<&[IoRecord]> {
        self.records.iter().map(|records| records.as_slice()).collect()
    }

    /// The hedging of linnet-best on these devices.
    pub fn hedging(&self) -> Hedging {
        linnet_array::hedging_of(&self.learned, &self.config.settings)
    }

    /// The trees of each device.
    pub fn trees(&self) -> Vec<Option<Trees>> {
        self.learned.iter().map(|one| one.trees).collect()
    }

    /// The thresholds of each device.
    pub fn thresholds(&self) -> Vec<Thresholds> {
        self.learned.iter().map(|one| one.thresholds).collect()
    }
}

/// What the model of each device has: nothing where there is none.
pub fn learned(models: &[Option<PyRef<'_, PyModel>>], devices: usize) -> Vec<DeviceModel> {
    if models.is_empty() {
        return vec![DeviceModel::default(); devices];
    }
    models.iter().map(|model| model.as_ref().map_or_else(DeviceModel::default, |model| model.learned())).collect()
}

/// Where writes go.
pub fn write_mode(writes_to_all: bool) -> WriteMode {
    if writes_to_all { WriteMode::All } else { WriteMode::Primary }
}
