// SPDX-License-Identifier: MIT OR Apache-2.0
//! z-scores of a moving mean and standard deviation (`core/normalise.c`).

use crate::{Error, ffi};

/// Maximum number of features of a knob's model.
pub const KNOB_INPUTS_MAX: usize = ffi::KNOB_INPUTS_MAX;
/// z-scores are clipped to this magnitude.
pub const Z_MAX: f32 = 16.0;

/// Mean and variance of one feature (`struct linnet_moments`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Moments {
    /// Mean, below 2^128 in size, as floats are.
    pub mean: f64,
    /// Variance of the population, 0 or more and below 2^256.
    pub variance: f64,
}

/// Learns rows, and gives z-scores that are always finite: a feature that has been constant so far, or is NaN, is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Normaliser {
    pub(crate) rows: u64,
    pub(crate) refused: u64,
    pub(crate) memory: u32,
    pub(crate) moments: Vec<Moments>,
}

impl Normaliser {
    /// A normaliser without rows. From row `memory` on, each row weighs 1/`memory`; with 0 all rows weigh the same.
    pub fn new(inputs: usize, memory: u32) -> Result<Normaliser, Error> {
        Normaliser::from_moments(vec![Moments::default(); inputs], 0, memory)
    }

    /// A normaliser with the moments of this many rows; [`Error::Shape`] where they are out of range or too many.
    pub fn from_moments(moments: Vec<Moments>, rows: u64, memory: u32) -> Result<Normaliser, Error> {
        if !(1..=KNOB_INPUTS_MAX).contains(&moments.len()) {
            return Err(Error::Shape(format!("{} features, where 1 to {KNOB_INPUTS_MAX} are allowed", moments.len())));
        }
        let (mean_max, variance_max) = (2.0_f64.powi(128), 2.0_f64.powi(256));
        let floats_have = |m: &&Moments| m.mean.abs() < mean_max && (0.0..variance_max).contains(&m.variance);
        if let Some(bad) = moments.iter().find(|m| !floats_have(m)) {
            return Err(Error::Shape(format!(
                "mean {} and variance {} are not those of floats",
                bad.mean, bad.variance
            )));
        }
        Ok(Normaliser { rows, refused: 0, memory, moments })
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut ffi::Normaliser) -> T) -> T {
        let mut raw = ffi::Normaliser {
            rows: self.rows,
            refused: self.refused,
            inputs: self.moments.len() as u32,
            memory: self.memory,
            moments: self.moments.as_mut_ptr(),
        };
        let done = work(&mut raw);
        (self.rows, self.refused) = (raw.rows, raw.refused);
        done
    }

    fn check(&self, row: usize) -> Result<(), Error> {
        if row == self.moments.len() {
            return Ok(());
        }
        Err(Error::Input(format!("{row} numbers given to a normaliser of {} features", self.moments.len())))
    }

    /// Learns one row. A row with a number that is not finite is counted in [`Normaliser::refused`] and changes nothing
    /// else.
    pub fn learn(&mut self, row: &[f32]) -> Result<(), Error> {
        self.check(row.len())?;
        // SAFETY: the row has as many numbers as the normaliser.
        if self.with(|raw| unsafe { ffi::linnet_normaliser_learn(raw, row.as_ptr()) }) < 0 {
            return Err(Error::Input("a row with a number that is not finite was not learned from".into()));
        }
        Ok(())
    }

    /// z-scores of a row, which is not learned.
    pub fn apply(&self, row: &[f32], z: &mut [f32]) -> Result<(), Error> {
        self.check(row.len())?;
        self.check(z.len())?;
        let raw = ffi::Normaliser {
            rows: self.rows,
            refused: self.refused,
            inputs: self.moments.len() as u32,
            memory: self.memory,
            moments: self.moments.as_ptr().cast_mut(),
        };
        // SAFETY: lengths were checked; C only reads the moments.
        unsafe { ffi::linnet_normaliser_apply(&raw, row.as_ptr(), z.as_mut_ptr()) };
        Ok(())
    }

    /// Features of a row.
    pub fn inputs(&self) -> usize {
        self.moments.len()
    }

    /// Rows learned.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that held a number that is not finite.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Rows after which the weight of a row no longer shrinks; 0 for never.
    pub fn memory(&self) -> u32 {
        self.memory
    }

    /// Mean and variance of each feature.
    pub fn moments(&self) -> &[Moments] {
        &self.moments
    }
}
